"""Steps whose cycles depend on data: what each of their executions took on the tiles.

What such a step costs stands in ``cost.*`` as it was before it ran. Every execution in the trace
has a pattern of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.time.execution import PHASES, steps, track_rows
from tilescope.analyser.validation import require, require_below

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["Measured", "is_measured", "measured"]

#: Patterns unpacked at a time; those of 1,472 tiles take some ten megabytes.
_PATTERNS_AT_A_TIME = 1_024


@dataclass(frozen=True)
class Measured:
    """Executions on one IPU, over all runs and tracks; all columns of shape (n_entries,).

    Attributes
    ----------
    step_id : ndarray of int64
        What ran.
    start, end : ndarray of int64, cycles
        First round of each entry, half-open.
    period, count : ndarray of int64
        Distance of its rounds, cycles, and their number.
    total_tile_cycles, max_tile_cycles : ndarray of int64, cycles
        Of one round, over the IPU's tiles.
    n_active_tiles : ndarray of int64
        Tiles with work in one round.
    """

    step_id: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    period: NDArray[np.int64]
    count: NDArray[np.int64]
    total_tile_cycles: NDArray[np.int64]
    max_tile_cycles: NDArray[np.int64]
    n_active_tiles: NDArray[np.int64]

    def busy_cycles(self, low: int, high: int) -> tuple[float, float]:
        """Return busy cycles of all tiles and of the busiest in a range, step by step.

        A step that the edge cuts counts in proportion to its part inside.
        """
        length = np.maximum(self.end - self.start, 1)
        share = (self._before(high) - self._before(low)) / length
        return float(share @ self.total_tile_cycles), float(share @ self.max_tile_cycles)

    def _before(self, cycle: int) -> NDArray[np.int64]:
        """Return how many cycles of each entry, over its rounds, lie before a cycle."""
        length = self.end - self.start
        past = np.maximum(cycle - self.start, 0)
        rounds = np.minimum(past // np.maximum(self.period, 1), self.count - 1)
        rounds = np.where(self.period > 0, rounds, 0)
        passed: NDArray[np.int64] = rounds * length
        passed += np.minimum(past - rounds * self.period, length)
        return passed


@cached
def is_measured(report: Report) -> NDArray[np.bool_]:
    """Return which steps compute for as long as data say: bool, shape (n_steps,)."""
    all_steps = steps(report)
    is_compute: NDArray[np.bool_] = all_steps.phase == PHASES.index("compute")
    is_compute &= all_steps.is_data_dependent
    is_compute.flags.writeable = False
    return is_compute


@cached
def measured(report: Report, run_id: int | None = None) -> dict[int, Measured]:
    """Return the executions of such steps by IPU, in all runs or one; nothing without any."""
    if not is_measured(report).any():
        return {}
    by_ipu: dict[int, list[NDArray[np.int64]]] = {}
    by_place: dict[tuple[int, int], NDArray[np.int64]] = {}
    for row in track_rows(report):
        if run_id in {None, row.run_id}:
            if row.place not in by_place:
                by_place[row.place] = _entries(report, *row.place)
            shift = np.array([0, row.shift_cycles, row.shift_cycles, 0, 0, 0])[:, None]
            by_ipu.setdefault(row.ipu_id, []).append(by_place[row.place] + shift)
    return {ipu_id: _joined(report, parts) for ipu_id, parts in by_ipu.items()}


def _joined(report: Report, parts: list[NDArray[np.int64]]) -> Measured:
    """Return the entries of one IPU with what their patterns add up to."""
    step_id, start, end, period, count, pattern_id = np.concatenate(parts, axis=1)
    columns = (step_id, start, end, period, count, *_sums(report, pattern_id))
    for column in columns:
        column.flags.writeable = False
    return Measured(*columns)


def _entries(report: Report, first: int, stop: int) -> NDArray[np.int64]:
    """Return step, start, end, period, count and pattern of such entries, shape (6, n)."""
    step_id = report.array("trace.step_id").read(first, stop)
    require_below(report, step_id, len(steps(report)), "step")
    chosen = first + np.flatnonzero(is_measured(report)[step_id])
    names = ("step_id", "start_cycle", "end_cycle", "period", "count", "pattern_id")
    columns = np.stack([report.array(f"trace.{name}").rows(chosen) for name in names])
    _, start, end, period, count, _ = columns
    is_sound = bool((start <= end).all() and (period >= 0).all() and (count >= 0).all())
    require(report, is_sound, "a step ends before it begins")
    answer: NDArray[np.int64] = columns.astype(np.int64)
    return answer


def _sums(report: Report, pattern_id: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return sum, largest and number of active tiles of every entry's pattern: (3, n_entries)."""
    patterns = report.array("cycles.pattern")
    require_below(report, pattern_id, patterns.shape[0], "pattern of cycles")
    ids, which = np.unique(pattern_id, return_inverse=True)
    answer = np.zeros((3, ids.size), dtype=np.int64)
    for low in range(0, ids.size, _PATTERNS_AT_A_TIME):
        part = slice(low, low + _PATTERNS_AT_A_TIME)
        values = patterns.rows(ids[part])
        answer[:, part] = values.sum(axis=1), values.max(axis=1), (values > 0).sum(axis=1)
    return answer[:, which]
