"""Idle tiles of a step: those that neither compute, send nor receive in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.patterns import pattern
from tilescope.analyser.time.execution import costs, steps
from tilescope.analyser.trace.index import trace_of
from tilescope.analyser.trace.matches import matching_steps
from tilescope.reports.bars.kinds import KINDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilescope.reports import Report

__all__ = ["IdleTiles", "format_ranges", "idle_tiles", "idle_tiles_of", "number_ranges"]


@dataclass(frozen=True)
class IdleTiles:
    """The tiles of one IPU that idle in a step.

    Attributes
    ----------
    step_id, name, kind
        The step; the kind is that of its slices.
    ipu_id
        The IPU, which takes part in it.
    n_tiles
        Tiles of the IPU.
    n_idle
        Tiles that idle.
    cycles
        What one execution takes on the IPU.
    ranges
        Idle tiles as half-open ranges of numbers that count over all IPUs, ascending.
    """

    step_id: int
    name: str
    kind: str
    ipu_id: int
    n_tiles: int
    n_idle: int
    cycles: int
    ranges: tuple[tuple[int, int], ...]

    @property
    def idle_tile_cycles(self) -> int:
        """Cycles of one execution over the idle tiles."""
        return self.n_idle * self.cycles


def idle_tiles(report: Report, step_id: int) -> list[IdleTiles]:
    """Return the idle tiles of a step on every IPU that takes part in it.

    A step without work of tiles, such as a sync, leaves all of them idle. For data-dependent steps
    the estimate decides, as it does for the cycles of tiles elsewhere.

    Raises
    ------
    BadQuestion
        If the report has no such step.
    """
    every = steps(report)
    if not 0 <= step_id < len(every):
        known = f"its steps are 0 to {len(every) - 1}" if len(every) else "it has none"
        raise BadQuestion(f"step {step_id} does not exist in this report; {known}")
    trace, column = trace_of(report), costs(report).column
    n_tiles, kind = trace.tiles_per_ipu, KINDS[int(trace.step_kinds[step_id])].name
    answer = []
    for row in np.flatnonzero(column["step_id"] == step_id).tolist():
        ipu_id = int(column["ipu_id"][row])
        busy = pattern(report, "cycles.pattern", int(column["pattern_id"][row]))
        idle = np.flatnonzero(busy == 0)
        answer.append(
            IdleTiles(
                step_id,
                every.name[step_id],
                kind,
                ipu_id,
                n_tiles,
                len(idle),
                int(column["cycles"][row]),
                number_ranges(idle + ipu_id * n_tiles),
            )
        )
    return answer


def idle_tiles_of(report: Report, text: str) -> list[IdleTiles]:
    """Return the idle tiles of a step by its number, or of all steps whose name has some words.

    Of several steps, those that leave tiles idle for most cycles are first, and steps without work
    of tiles are left out.

    Raises
    ------
    BadQuestion
        If no step matches.
    """
    if text.strip().isdecimal():
        return idle_tiles(report, int(text))
    matches = np.flatnonzero(matching_steps(trace_of(report), text))
    rows = [row for step_id in matches.tolist() for row in idle_tiles(report, step_id)]
    rows = [row for row in rows if row.n_idle < row.n_tiles]
    if not rows:
        raise BadQuestion(
            f"no step with work of tiles has {text[:60]!r} in its name; give other words, or the"
            " number of a step"
        )
    return sorted(rows, key=lambda row: (-row.idle_tile_cycles, row.step_id, row.ipu_id))


def number_ranges(numbers: Sequence[int] | NDArray[np.integer]) -> tuple[tuple[int, int], ...]:
    """Return ascending numbers as half-open ranges."""
    values = np.asarray(numbers, np.int64)
    if not len(values):
        return ()
    cuts = np.flatnonzero(np.diff(values) > 1) + 1
    firsts, lasts = values[np.append(0, cuts)], values[np.append(cuts, len(values)) - 1]
    return tuple(zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))


def format_ranges(ranges: Sequence[tuple[int, int]], most: int = 6) -> str:
    """Return half-open ranges such as ``0-3, 7``; after some, the number of the others."""
    shown = [str(low) if high - low == 1 else f"{low}-{high - 1}" for low, high in ranges[:most]]
    rest = len(ranges) - most
    return ", ".join(shown) + (f" and {rest:,} more ranges" if rest > 0 else "")
