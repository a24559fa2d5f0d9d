"""Finding slices: the one under a cycle, and those whose name holds a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.time.execution import executed
from tilescope.analyser.trace.index import Trace, trace_of
from tilescope.analyser.trace.matches import (
    Matches,
    Occurrence,
    following,
    match_at,
    match_near,
    matching_steps,
)
from tilescope.analyser.trace.view import checked_ipus, lanes_of_level
from tilescope.reports.bars.kinds import GROUP, KINDS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tilescope.reports import Report

__all__ = [
    "Match",
    "NumberedMatch",
    "Search",
    "Slice",
    "first_execution",
    "match",
    "search",
    "slice_at",
]


@dataclass(frozen=True)
class Slice:
    """One slice: half-open range in cycles; ``step_id`` is None for a group or a run.

    ``n_steps`` is how many entries of the trace it holds. In a loop, ``iteration`` counts from 0.
    """

    ipu_id: int
    track: int
    level: int
    name: str
    kind: str
    start_cycle: int
    end_cycle: int
    step_id: int | None
    run_name: str
    n_steps: int
    iteration: int
    n_iterations: int


@dataclass(frozen=True)
class Match:
    """A step name that holds the text, its executions over the whole trace, and their cycles."""

    name: str
    count: int
    cycles: int


@dataclass(frozen=True)
class Search:
    """What a text is found in: all counts are complete, the two lists hold the first few."""

    text: str
    n_names: int
    n_occurrences: int
    names: list[Match]
    occurrences: list[Occurrence]


def slice_at(
    report: Report, ipu_id: int, track: int, level: int, cycle: int, view: str = "flame"
) -> Slice | None:
    """Return the slice of a lane that covers a cycle, or None where the lane is empty.

    Parameters
    ----------
    report
        The report.
    ipu_id, track, level
        The lane; level -1 is the bar of runs.
    cycle
        Where to look.
    view
        ``flame`` or ``flat``.

    Raises
    ------
    BadQuestion
        If the lane does not exist.
    """
    trace = trace_of(report)
    run = _run_at(trace, ipu_id, track, cycle)
    if level == -1:
        if run is None:
            return None
        name, start, end, n = run
        return Slice(ipu_id, track, -1, name, "run", start, end, None, name, n, 0, 1)
    lanes_of = lanes_of_level(trace, (ipu_id, track, level), view)
    group = next(trace.track(ipu_id, track).between(cycle, cycle + 1), None)
    lane = None if group is None else next(iter(lanes_of(group)), None)
    part = None if group is None else group.timeline.piece_at(cycle)
    if lane is None or part is None:
        return None
    shift = part.shift_cycles
    iteration = 0
    if part.period_cycles:
        iteration = min((cycle - part.start_cycle) // part.period_cycles, part.n_iterations - 1)
        shift += iteration * part.period_cycles
    index = lane.at(cycle - shift, part.first_entry, part.stop_entry)
    if index is None:
        return None
    index_ = np.asarray([index])
    row = int(lane.slice_row(index_)[0])
    kind = int(lane.kinds[row])
    n_steps = (
        1
        if lane.first is None or lane.last is None
        else int(lane.last[index] - lane.first[index] + 1)
    )
    return Slice(
        ipu_id,
        track,
        level,
        trace.paths.full(int(lane.names[row])),
        KINDS[kind].name,
        int(lane.slice_start(index_)[0]) + shift,
        int(lane.slice_end(index_)[0]) + shift,
        None if kind == GROUP else int(row),
        run[0] if run else "",
        n_steps,
        iteration,
        part.n_iterations,
    )


def search(
    report: Report,
    text: str,
    limit: int = 50,
    ipus: Sequence[int] | None = None,
    *,
    hidden: Collection[str] = (),
) -> Search:
    """Return where a text occurs in the names of steps, whatever the case.

    Parameters
    ----------
    report
        The report.
    text
        Part of a name.
    limit
        How many names (most cycles first) and occurrences (earliest first) to list.
    ipus
        IPUs to look at, all by default.
    hidden
        Names of kinds to leave out.

    Raises
    ------
    BadQuestion
        For an empty text, an unknown IPU or kind.
    """
    trace = trace_of(report)
    is_match = matching_steps(trace, text, hidden)
    ipu_ids = checked_ipus(trace, ipus)
    count, cycles = (column[ipu_ids].sum(axis=0) for column in executed(report))
    first: list[Occurrence] = []
    if is_match.any():
        for ipu_id, track in trace.keys:
            if ipu_id not in ipu_ids:
                continue
            first += following(trace, (ipu_id, track), is_match, trace.start_cycle, limit)
    first.sort(key=lambda occurrence: (occurrence.start_cycle, occurrence.ipu_id, occurrence.track))
    names: dict[str, tuple[int, int]] = {}
    for row in np.flatnonzero(is_match & (count > 0)).tolist():
        name = trace.steps.name[row]
        n, spent_cycles = names.get(name, (0, 0))
        names[name] = (n + int(count[row]), spent_cycles + int(cycles[row]))
    matches = [Match(name, *figures) for name, figures in names.items()]
    matches.sort(key=lambda match: (-match.cycles, match.name))
    return Search(text, len(matches), int(count[is_match].sum()), matches[:limit], first[:limit])


@dataclass(frozen=True)
class NumberedMatch:
    """An execution that a text is found in, its number from 1, and how many there are."""

    occurrence: Occurrence | None
    number: int
    n_matches: int


def match(
    report: Report,
    text: str,
    *,
    number: int | None = None,
    cycle: int = 0,
    direction: str = "next",
    ipus: Sequence[int] | None = None,
    hidden: Collection[str] = (),
) -> NumberedMatch:
    """Return one of the executions that a text is found in, in order of start, IPU and track.

    Parameters
    ----------
    report
        The report.
    text
        Part of a step's name, whatever the case.
    number
        Which one, from 1; by default the one that the next two parameters name.
    cycle
        Where to begin; an execution that starts right there is not returned.
    direction
        ``next`` or ``previous``; after the last one comes the first, and the other way round.
    ipus
        IPUs to look at, all by default.
    hidden
        Names of kinds to leave out.

    Returns
    -------
    NumberedMatch
        The execution, None where there is none at all.

    Raises
    ------
    BadQuestion
        For an empty text, an unknown IPU, kind, direction or number.
    """
    matches = Matches(report, text, ipus, hidden)
    number_ = match_near(matches, cycle, direction) if number is None else number
    if not number_ and number is None:
        return NumberedMatch(None, 0, 0)
    start, position = match_at(matches, number_)
    return NumberedMatch(matches.between(start, start + 1)[position], number_, matches.n)


def first_execution(report: Report, step_id: int) -> Occurrence | None:
    """Return the first execution of a step on any IPU; None if it never ran.

    Raises
    ------
    BadQuestion
        For an unknown step.
    """
    trace = trace_of(report)
    n_steps = len(trace.steps.name)
    if not 0 <= step_id < n_steps:
        raise BadQuestion(f"step {step_id} does not exist; the steps are 0 to {n_steps - 1}")
    is_match = np.arange(n_steps) == step_id
    executions: list[Occurrence] = []
    for ipu_id, track in trace.keys:
        executions += following(trace, (ipu_id, track), is_match, trace.start_cycle, 1)
    return min(executions, key=lambda occurrence: occurrence.start_cycle, default=None)


def _run_at(trace: Trace, ipu_id: int, track: int, cycle: int) -> tuple[str, int, int, int] | None:
    """Return name, range and number of entries of the run that covers a cycle on a track."""
    for row in trace.tracks:
        if (row.ipu_id, row.track) == (ipu_id, track) and row.start_cycle <= cycle < row.end_cycle:
            name = next((run.name for run in trace.runs if run.run_id == row.run_id), "")
            return name, row.start_cycle, row.end_cycle, row.n_entries
    return None
