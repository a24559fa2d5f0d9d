"""Where the critical path of a run lies: which IPU the others wait for, span by span."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.trace.index import trace_of
from tilescope.analyser.trace.view import checked_range
from tilescope.analyser.trace.wait import meetings

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["CriticalSpan", "critical_cycles", "critical_spans"]


@dataclass(frozen=True)
class CriticalSpan:
    """A part of the critical path on one IPU; half-open range in cycles of that IPU.

    ``step`` is what the IPU does last in it, before the others go on; empty at the end of a run.
    """

    ipu_id: int
    start_cycle: int
    end_cycle: int
    step: str

    @property
    def cycles(self) -> int:
        """Its length."""
        return self.end_cycle - self.start_cycle


#: Most runs whose critical paths are added up.
_MOST_RUNS = 64


def critical_cycles(report: Report, start: int | None, end: int | None) -> dict[int, int] | None:
    """Return the cycles of a range on the critical path, by IPU.

    None for one IPU, for a range of more than 64 runs, and for runs with too many syncs.

    Raises
    ------
    BadQuestion
        For an empty range.
    """
    trace = trace_of(report)
    if len(trace.ipus) < 2:
        return None
    low, high = checked_range(trace, start, end)
    runs = [run for run in trace.runs if run.start_cycle < high and run.end_cycle > low]
    if len(runs) > _MOST_RUNS:
        return None
    sums = dict.fromkeys(trace.ipus, 0)
    try:
        for run in runs:
            for span in critical_spans(report, run.run_id):
                inside = min(span.end_cycle, high) - max(span.start_cycle, low)
                sums[span.ipu_id] += max(0, inside)
    except BadQuestion:
        return None
    return sums


@cached
def critical_spans(report: Report, run_id: int) -> tuple[CriticalSpan, ...]:
    """Return the critical path of a run in order of time; spans on one IPU that touch are one.

    IPUs meet in syncs across IPUs. Between two meetings, the path is what the IPU does that
    arrives last; after the last meeting, what the IPU does whose run is longest. The spans of a run
    add up to what `execution` counts as critical.

    Raises
    ------
    BadQuestion
        For an unknown run, or one with more than 1,000,000 executions of syncs across IPUs.
    """
    trace = trace_of(report)
    rows = {row.ipu_id: row for row in trace.tracks if row.run_id == run_id and row.track == 0}
    if not rows:
        known = [run.run_id for run in trace.runs]
        raise BadQuestion(
            f"run {run_id} is not in this report; there is "
            + (f"{known[0]} to {known[-1]}" if known else "none: nothing ran")
        )
    begins = {ipu_id: row.start_cycle for ipu_id, row in rows.items()}
    ends = {ipu_id: row.end_cycle for ipu_id, row in rows.items()}
    length = {ipu_id: ends[ipu_id] - begins[ipu_id] for ipu_id in rows}
    spans: list[CriticalSpan] = []
    reached = dict(begins)
    met = meetings(trace, min(begins.values()), max(ends.values()))
    names = trace.steps.name
    if met is not None:
        order = np.lexsort((met.until, met.ipu))
        order = order[met.run[order] == run_id]
        columns = (met.ipu, met.until, met.is_late, met.before)
        for ipu_id, until, is_late, before in zip(
            *(column[order].tolist() for column in columns), strict=True
        ):
            if is_late and until > reached[ipu_id]:
                name = names[before] if before >= 0 else ""
                spans.append(CriticalSpan(ipu_id, reached[ipu_id], until, name))
            reached[ipu_id] = max(reached[ipu_id], until)
    last = min(ipu_id for ipu_id in rows if length[ipu_id] == max(length.values()))
    if ends[last] > reached[last]:
        spans.append(CriticalSpan(last, reached[last], ends[last], ""))
    spans.sort(key=lambda span: (span.start_cycle - begins[span.ipu_id], span.ipu_id))
    joined: list[CriticalSpan] = []
    for span in spans:
        before_it = joined[-1] if joined else None
        if before_it and (before_it.ipu_id, before_it.end_cycle) == (span.ipu_id, span.start_cycle):
            joined[-1] = CriticalSpan(span.ipu_id, before_it.start_cycle, span.end_cycle, span.step)
        else:
            joined.append(span)
    return tuple(joined)
