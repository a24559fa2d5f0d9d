"""Differences of figures: every metric of the catalogue, and the memory of every tile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.machine.target import target
from tilescope.analyser.memory.tile_memory import tile_memory
from tilescope.analyser.quantities import percent_of
from tilescope.analyser.summary.metrics import METRICS, Metric, MetricValue
from tilescope.analyser.time.figures import has_memory

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["MetricChange", "TileChange", "Verdict", "metric_changes", "tile_changes"]

#: ``new`` and ``missing``: the baseline, or the candidate, lacks the figure.
Verdict = Literal["same", "better", "worse", "changed", "new", "missing", "absent"]


@dataclass(frozen=True)
class MetricChange:
    """A metric on both sides; ``delta`` is candidate minus baseline. Sums of runs are per run.

    ``percent_of_baseline`` is None for a baseline of 0.
    """

    name: str
    unit: str
    worse: str
    baseline: MetricValue
    candidate: MetricValue
    delta: MetricValue
    percent_of_baseline: float | None
    verdict: Verdict


@dataclass(frozen=True)
class TileChange:
    """Bytes that every tile holds at its worst moment, on both sides.

    Arrays are int64, shape (most tiles of the two machines,), bytes; a tile that a machine does
    not have counts 0, and so does every tile of a report that holds no memory.
    """

    tile_id: NDArray[np.int64]
    baseline_bytes: NDArray[np.int64]
    candidate_bytes: NDArray[np.int64]
    delta_bytes: NDArray[np.int64]

    def largest(self, n: int) -> NDArray[np.int64]:
        """Return the tiles whose memory changed most, int64, the largest change first."""
        return np.argsort(-np.abs(self.delta_bytes), kind="stable")[:n].astype(np.int64)

    @property
    def n_changed(self) -> int:
        """Number of tiles whose memory differs."""
        return int(np.count_nonzero(self.delta_bytes))


def metric_changes(baseline: Report, candidate: Report) -> tuple[MetricChange, ...]:
    """Return every metric on both sides, in the order of the catalogue."""
    return tuple(
        _metric_change(metric, metric.of_run(baseline), metric.of_run(candidate))
        for metric in METRICS.values()
    )


def _metric_change(metric: Metric, baseline: MetricValue, candidate: MetricValue) -> MetricChange:
    """Return one metric's change."""
    delta = None if baseline is None or candidate is None else candidate - baseline
    return MetricChange(
        metric.name,
        metric.unit,
        metric.worse,
        baseline,
        candidate,
        delta,
        percent_of(baseline, delta),
        _verdict(metric.worse, baseline, candidate),
    )


def _verdict(worse: str, baseline: MetricValue, candidate: MetricValue) -> Verdict:
    """Return what a change means."""
    if baseline is None or candidate is None:
        return "absent" if baseline is candidate else "new" if baseline is None else "missing"
    if baseline == candidate:
        return "same"
    if worse == "neither":
        return "changed"
    return "worse" if (candidate > baseline) == (worse == "higher") else "better"


def tile_changes(baseline: Report, candidate: Report) -> TileChange:
    """Return what every tile holds on both sides, gaps excluded."""
    baseline_bytes, candidate_bytes = (
        tile_memory(report, "none").total_bytes
        if has_memory(report)
        else np.zeros(target(report).n_tiles, dtype=np.int64)
        for report in (baseline, candidate)
    )
    n_tiles = max(len(baseline_bytes), len(candidate_bytes))
    before, after = (
        np.pad(values, (0, n_tiles - len(values))).astype(np.int64)
        for values in (baseline_bytes, candidate_bytes)
    )
    return TileChange(np.arange(n_tiles, dtype=np.int64), before, after, after - before)
