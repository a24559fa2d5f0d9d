"""Statistics of a range by name: how often steps ran, and how long their executions took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.trace.index import Trace, trace_of
from tilescope.analyser.trace.listing import rounds_in_range
from tilescope.analyser.trace.view import checked_ipus, checked_range
from tilescope.reports.bars.kinds import KINDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilescope.reports import Report

__all__ = ["NameStatistics", "RangeStatistics", "name_statistics"]

#: Most executions that are looked at; rounds of a loop inside the range are one.
MOST_EXECUTIONS = 2_000_000
_MEDIAN, _HIGH = 0.5, 0.99


@dataclass(frozen=True)
class NameStatistics:
    """Executions of steps of one name and kind that touch a range.

    Attributes
    ----------
    count
        Their number.
    cycles
        Their cycles in the range. Steps do not nest, so these are the cycles of the name itself.
    share
        Of the cycles of all names, 0 to 1.
    mean_cycles, min_cycles, median_cycles, p99_cycles, max_cycles
        Of whole executions, those that an edge of the range cuts included. A quantile is the
        shortest time that at least this part of the executions does not exceed.
    step_id, ipu_id, start_cycle, end_cycle
        The longest execution, the first of equal ones.
    """

    name: str
    kind: str
    count: int
    cycles: int
    share: float
    mean_cycles: float
    min_cycles: int
    median_cycles: int
    p99_cycles: int
    max_cycles: int
    step_id: int
    ipu_id: int
    start_cycle: int
    end_cycle: int


@dataclass(frozen=True)
class RangeStatistics:
    """Names in a range, those with most cycles first."""

    start_cycle: int
    end_cycle: int
    rows: tuple[NameStatistics, ...]


def name_statistics(
    report: Report,
    start: int | None = None,
    end: int | None = None,
    ipus: Sequence[int] | None = None,
) -> RangeStatistics:
    """Return the statistics of a range by name and kind, over IPUs and tracks.

    Parameters
    ----------
    report
        The report.
    start, end
        Half-open range in cycles; the whole trace by default.
    ipus
        IPUs to look at, all by default.

    Raises
    ------
    BadQuestion
        For an empty range, an unknown IPU, or a range with more than 2,000,000 executions.
    """
    trace = trace_of(report)
    low, high = checked_range(trace, start, end)
    return _name_statistics(report, low, high, tuple(checked_ipus(trace, ipus)))


class _Part(NamedTuple):
    """Consecutive executions on a track, all repeated ``n_rounds`` times."""

    ipu_id: int
    step: NDArray[np.integer]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    n_rounds: int


@cached
def _name_statistics(report: Report, low: int, high: int, ipus: tuple[int, ...]) -> RangeStatistics:
    """Return the statistics of a range."""
    trace = trace_of(report)
    parts, n_executions = [], 0
    for part in _parts(trace, ipus, low, high):
        n_executions += len(part.step)
        if n_executions > MOST_EXECUTIONS:
            raise BadQuestion(
                f"the range {low}:{high} has more than {MOST_EXECUTIONS:,} executions, too many"
                " for statistics by name; give a shorter range or an IPU"
            )
        parts.append(part)
    if not parts:
        return RangeStatistics(low, high, ())
    step, start, end = (
        np.concatenate([np.asarray(part[field], np.int64) for part in parts])
        for field in range(1, 4)
    )
    sizes = [len(part.step) for part in parts]
    ipu = np.repeat([part.ipu_id for part in parts], sizes)
    count = np.repeat([part.n_rounds for part in parts], sizes)
    key = trace.paths.leaf.astype(np.int64)[step] * len(KINDS) + trace.step_kinds[step]
    order = np.lexsort((-start, end - start, key))
    key, step, start, end, ipu, count = (
        values[order] for values in (key, step, start, end, ipu, count)
    )
    firsts = np.flatnonzero(np.diff(key, prepend=-1))
    stops = np.append(firsts[1:], len(key))
    below = np.append(0, np.cumsum(count))
    inside = np.append(0, np.cumsum((np.minimum(end, high) - np.maximum(start, low)) * count))
    whole = np.append(0, np.cumsum((end - start) * count))
    total = int(inside[-1])
    rows = []
    for first, stop in zip(firsts.tolist(), stops.tolist(), strict=True):
        n, cycles = int(below[stop] - below[first]), int(inside[stop] - inside[first])
        last, took = stop - 1, end[first:stop] - start[first:stop]

        def quantile(part: float, first: int = first, n: int = n) -> int:
            rank = below[first] + max(1, int(np.ceil(part * n)))
            return int(np.searchsorted(below, rank, side="left")) - 1

        median, p99 = (
            int(end[place] - start[place]) for place in (quantile(_MEDIAN), quantile(_HIGH))
        )
        rows.append(
            NameStatistics(
                trace.steps.name[int(step[last])],
                KINDS[int(key[first]) % len(KINDS)].name,
                n,
                cycles,
                cycles / total if total else 0.0,
                float(whole[stop] - whole[first]) / n,
                int(took[0]),
                median,
                p99,
                int(took[-1]),
                int(step[last]),
                int(ipu[last]),
                int(start[last]),
                int(end[last]),
            )
        )
    rows.sort(key=lambda row: (-row.cycles, row.name, row.kind))
    return RangeStatistics(low, high, tuple(rows))


def _parts(trace: Trace, ipus: tuple[int, ...], low: int, high: int) -> Iterator[_Part]:
    """Yield the executions that touch a range; whole rounds of a loop together."""
    for ipu_id, track in trace.keys:
        if ipu_id not in ipus:
            continue
        for group in trace.track(ipu_id, track).between(low, high):
            line = group.timeline
            for piece in line.between(low, high):
                is_inside = low <= piece.start_cycle and piece.end_cycle <= high
                if is_inside and piece.period_cycles:
                    entries = slice(piece.first_entry, piece.stop_entry)
                    shift = piece.shift_cycles
                    yield _Part(
                        ipu_id,
                        line.step[entries],
                        line.start[entries] + shift,
                        line.end[entries] + shift,
                        piece.n_iterations,
                    )
                    continue
                for first, stop, shift in rounds_in_range(line, piece, low, high):
                    yield _Part(
                        ipu_id,
                        line.step[first:stop],
                        line.start[first:stop] + shift,
                        line.end[first:stop] + shift,
                        1,
                    )
