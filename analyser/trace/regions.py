"""Regions of a trace, found by themselves: layers, phases, micro-batches, batches and runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilescope.analyser.cache import cached
from tilescope.analyser.trace.causes import GAP
from tilescope.analyser.trace.index import trace_of
from tilescope.analyser.trace.region_labels import NO_REGION, RegionLabels, region_labels
from tilescope.analyser.trace.run_cuts import Budget, RunCut, compute_rows, run_cuts
from tilescope.analyser.trace.view import checked_ipus, checked_range
from tilescope.reports.bars.kinds import GROUP, KINDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilescope.analyser.trace.index import Trace
    from tilescope.reports import Report

__all__ = ["Region", "RegionPlace", "Regions", "regions"]

#: Kinds of steps, and after them time in no step.
_N_KINDS = GROUP + 1


@dataclass(frozen=True)
class RegionPlace:
    """Where a region ran; half-open range in cycles of that IPU, and its first step there."""

    ipu_id: int
    start_cycle: int
    end_cycle: int
    step_id: int

    @property
    def cycles(self) -> int:
        """Cycles of the range."""
        return self.end_cycle - self.start_cycle


@dataclass(frozen=True)
class Region:
    """The regions of one name in a range.

    Attributes
    ----------
    name
        What they have in common, such as the name of the layer.
    count
        Regions, over runs and IPUs.
    ipus
        Where they run, ascending.
    cycles
        Their cycles, summed over runs and IPUs.
    share
        Those as a share of the cycles of all IPUs in the range, 0 to 1.
    mean_cycles, min_cycles, max_cycles
        Cycles of one of them.
    cycles_by_kind : dict
        Name of a kind to cycles; with ``idle``, time in no step, they add up to ``cycles``.
    first, longest
        The earliest and the longest of them; of equal ones that of the lowest IPU.
    """

    name: str
    count: int
    ipus: tuple[int, ...]
    cycles: int
    share: float
    mean_cycles: float
    min_cycles: int
    max_cycles: int
    cycles_by_kind: dict[str, int]
    first: RegionPlace
    longest: RegionPlace


@dataclass(frozen=True)
class Regions:
    """The regions of a range, those with most cycles first.

    ``cycles`` are those of the runs in the range, summed over IPUs, and ``between_cycles`` what of
    them lies between two regions, in no step.
    """

    by: str
    start_cycle: int
    end_cycle: int
    cycles: int
    between_cycles: int
    rows: tuple[Region, ...]


def regions(
    report: Report,
    by: str,
    start: int | None = None,
    end: int | None = None,
    ipus: Sequence[int] | None = None,
) -> Regions:
    """Return the regions of a range by name.

    A region is a sequence of executions on the compute track of an IPU, within a run, that belong
    together, as long as possible. Time in no step belongs to a region if the region goes on behind
    it. A region that an edge of the range cuts counts with its part inside.

    Parameters
    ----------
    report
        The report.
    by
        What belongs together: ``layer`` (an operation as the author of the model wrote it),
        ``phase`` (a pass of a training), ``micro-batch`` (of a pipeline), ``batch`` (a round of a
        loop around the operations, such as a micro-batch of gradient accumulation) or ``run``.
    start, end
        Half-open range in cycles; the whole trace by default.
    ipus
        IPUs to look at, all by default.

    Raises
    ------
    BadQuestion
        For an empty range, an unknown IPU, a range with more than 1,000,000 executions (batches
        count from the beginning of a run), unknown regions, or a program that has none of them.
    """
    trace = trace_of(report)
    low, high = checked_range(trace, start, end)
    return _regions(report, by, low, high, tuple(checked_ipus(trace, ipus)))


@cached
def _regions(report: Report, by: str, low: int, high: int, ipus: tuple[int, ...]) -> Regions:
    """Return the regions of a range on some IPUs."""
    trace = trace_of(report)
    labels = region_labels(report, by)
    parts: list[_Part] = []
    budget = Budget(low, high, "regions")
    cycles = 0
    for ipu_id in ipus:
        touched = [
            row
            for row in compute_rows(trace, ipu_id)
            if row.end_cycle > low and row.start_cycle < high
        ]
        cycles += sum(min(row.end_cycle, high) - max(row.start_cycle, low) for row in touched)
        if touched and labels.is_counted:
            budget.low = min(low, touched[0].start_cycle)
            budget.high = max(high, touched[-1].end_cycle)
        for cut in run_cuts(trace, ipu_id, budget):
            part = _part(trace, ipu_id, cut, labels, (low, high))
            if part is not None:
                parts.append(part)
    rows = _rows(parts, labels, cycles)
    between = cycles - sum(row.cycles for row in rows)
    return Regions(by, low, high, cycles, between, tuple(rows))


class _Part(NamedTuple):
    """Regions of a run on an IPU; ``by_kind`` has a row of cycles for every label in ``labels``."""

    ipu_id: int
    label: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    step: NDArray[np.int64]
    labels: NDArray[np.int64]
    by_kind: NDArray[np.int64]


def _part(
    trace: Trace, ipu_id: int, cut: RunCut, labels: RegionLabels, edges: tuple[int, int]
) -> _Part | None:
    """Return the regions of a run on an IPU, cut to a range; None without any."""
    label = labels.labels(ipu_id, cut)
    # Time in no step belongs to what goes on behind it. No two gaps follow each other, and none
    # is first or last.
    gaps = np.flatnonzero(cut.step == GAP)
    goes_on = label[gaps - 1] == label[gaps + 1]
    label[gaps] = np.where(goes_on, label[gaps - 1], NO_REGION)
    low, high = edges
    ran = np.flatnonzero((cut.end > low) & (cut.start < high) & (cut.step != GAP))
    if not len(ran):
        return None
    inside = slice(ran[0], ran[-1] + 1)
    label, step = label[inside], cut.step[inside]
    start, end = np.maximum(cut.start[inside], low), np.minimum(cut.end[inside], high)
    begins = np.flatnonzero(np.diff(label, prepend=NO_REGION - 1))
    ends = np.append(begins[1:], len(label)) - 1
    is_region = label[begins] != NO_REGION
    begins, ends = begins[is_region], ends[is_region]
    kind = np.where(step == GAP, GROUP, trace.step_kinds[step])
    known, where = np.unique(label, return_inverse=True)
    flat = np.bincount(
        where.reshape(-1) * _N_KINDS + kind, end - start, minlength=len(known) * _N_KINDS
    )
    by_kind = np.rint(flat).astype(np.int64).reshape(len(known), _N_KINDS)
    return _Part(ipu_id, label[begins], start[begins], end[ends], step[begins], known, by_kind)


def _rows(parts: Sequence[_Part], labels: RegionLabels, cycles: int) -> list[Region]:
    """Return the regions by name, those with most cycles first."""
    if not parts:
        return []
    label, start, end, step = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("label", "start", "end", "step")
    )
    ipu = np.repeat([part.ipu_id for part in parts], [len(part.label) for part in parts])
    by_kind = np.zeros((len(labels.names), _N_KINDS), np.int64)
    for part in parts:
        is_region = part.labels != NO_REGION
        by_kind[part.labels[is_region]] += part.by_kind[is_region]
    order = np.lexsort((ipu, start, label))
    label, start, end, step, ipu = (values[order] for values in (label, start, end, step, ipu))
    edges = [*np.flatnonzero(np.diff(label, prepend=-1)).tolist(), len(label)]
    rows = []
    for first, stop in pairwise(edges):
        lasts = end[first:stop] - start[first:stop]
        total = int(lasts.sum())
        places = [
            RegionPlace(int(ipu[at]), int(start[at]), int(end[at]), int(step[at]))
            for at in (first, first + int(lasts.argmax()))
        ]
        number = int(label[first])
        named = zip((*(kind.name for kind in KINDS[:GROUP]), "idle"), by_kind[number], strict=True)
        rows.append(
            Region(
                labels.names[number],
                stop - first,
                tuple(np.unique(ipu[first:stop]).tolist()),
                total,
                total / cycles if cycles else 0.0,
                total / (stop - first),
                int(lasts.min()),
                int(lasts.max()),
                {name: int(value) for name, value in named if value},
                *places,
            )
        )
    return sorted(rows, key=lambda row: (-row.cycles, row.first.start_cycle, row.name))
