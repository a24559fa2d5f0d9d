"""Executions of steps whose name holds a text, numbered in order of time."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.search import search_words, words_fit
from tilescope.analyser.trace.index import Trace, trace_of
from tilescope.analyser.trace.kinds import kind_numbers
from tilescope.analyser.trace.sections import TrackSections
from tilescope.analyser.trace.view import checked_ipus
from tilescope.reports.bars.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from tilescope.reports import Report

__all__ = [
    "Matches",
    "Numbered",
    "Occurrence",
    "following",
    "match_at",
    "match_near",
    "matching_steps",
]


@dataclass(frozen=True)
class Occurrence:
    """One execution of a step; half-open range in cycles."""

    ipu_id: int
    track: int
    step_id: int
    name: str
    start_cycle: int
    end_cycle: int


class Numbered(Protocol):
    """Executions in order of time, on the axis of a trace or of two."""

    @property
    def n(self) -> int:
        """How many there are."""

    @property
    def bounds(self) -> tuple[int, int]:
        """First and last cycle at which one may begin."""

    def before(self, cycle: int) -> int:
        """Return how many begin before a cycle."""


class Matches:
    """Executions whose step's name holds a text, by start, IPU and track; loops stay loops.

    Parameters
    ----------
    report
        The report.
    text
        Part of a step's name, whatever the case.
    ipus
        IPUs to look at, all by default.
    hidden
        Names of kinds to leave out.

    Raises
    ------
    BadQuestion
        For an empty text, an unknown IPU or kind.
    """

    def __init__(
        self,
        report: Report,
        text: str,
        ipus: Sequence[int] | None = None,
        hidden: Collection[str] = (),
    ) -> None:
        self._trace = trace_of(report)
        self._is_match = matching_steps(self._trace, text, hidden)
        ipu_ids = checked_ipus(self._trace, ipus)
        self._keys = [key for key in self._trace.keys if key[0] in ipu_ids]
        self._lines = [_Line(self._trace.track(*key), self._is_match) for key in self._keys]

    @property
    def n(self) -> int:
        """How many there are."""
        return sum(line.n for line in self._lines)

    @property
    def bounds(self) -> tuple[int, int]:
        """First and last cycle at which one may begin."""
        return self._trace.start_cycle, self._trace.end_cycle

    def before(self, cycle: int) -> int:
        """Return how many begin before a cycle."""
        return sum(line.before(cycle) for line in self._lines)

    def between(self, start: int, end: int) -> list[Occurrence]:
        """Return those that begin in a half-open range of cycles, in their order."""
        occurrences: list[Occurrence] = []
        for key, line in zip(self._keys, self._lines, strict=True):
            n = line.before(end) - line.before(start)
            if n:
                occurrences += following(self._trace, key, self._is_match, start, n)
        return sorted(occurrences, key=lambda item: (item.start_cycle, item.ipu_id, item.track))


def match_at(matches: Numbered, number: int) -> tuple[int, int]:
    """Return the cycle at which the execution of a number begins, and its place among those there.

    Raises
    ------
    BadQuestion
        When it does not exist.
    """
    if not 1 <= number <= matches.n:
        raise BadQuestion(f"match {number:,} does not exist; there are {matches.n:,}")
    low, high = matches.bounds
    candidates = range(low, high + 1)
    cycle = low + bisect_left(candidates, number, key=lambda cycle: matches.before(cycle + 1))
    return cycle, number - 1 - matches.before(cycle)


def match_near(matches: Numbered, cycle: int, direction: str) -> int:
    """Return the number of the first execution that begins after a cycle, or the last before it.

    After the last one comes the first, and the other way round; 0 where there is none.

    Raises
    ------
    BadQuestion
        For a direction other than ``next`` and ``previous``.
    """
    if direction not in {"next", "previous"}:
        raise BadQuestion(f"unknown direction '{direction}'; use next or previous")
    if not matches.n:
        return 0
    if direction == "next":
        return matches.before(cycle + 1) % matches.n + 1
    return matches.before(cycle) or matches.n


def matching_steps(trace: Trace, text: str, hidden: Collection[str] = ()) -> NDArray[np.bool_]:
    """Return which steps have a name that holds all words of a text and a kind that is shown.

    Returns
    -------
    ndarray of bool, shape (n_steps,)
        True for these.

    Raises
    ------
    BadQuestion
        For an empty text or an unknown kind.
    """
    words = search_words(text)
    if not words:
        raise BadQuestion("the text to search for is empty; give part of a step's name")
    names = trace.steps.name
    is_match = np.fromiter((words_fit(words, name) for name in names), bool, len(names))
    is_shown: NDArray[np.bool_] = ~np.isin(trace.step_kinds, kind_numbers(hidden))
    return is_match & is_shown


class _Line:
    """How many matches of one track begin before a cycle."""

    def __init__(self, track: TrackSections, is_match: NDArray[np.bool_]) -> None:
        self._track, self._is_match = track, is_match
        #: The section that was looked at last.
        self._last: _SectionLine | None = None
        below = np.cumsum(track.counts(is_match), dtype=np.int64)
        self._below = np.append(np.zeros(1, np.int64), below)

    @property
    def n(self) -> int:
        """All matches of the track."""
        return int(self._below[-1])

    def before(self, cycle: int) -> int:
        """Return how many begin before a cycle."""
        index = self._track.first_after(cycle)
        n_before = int(self._below[index])
        if n_before == self.n:
            return n_before
        return n_before + self._in_section(index).before(cycle)

    def _in_section(self, index: int) -> _SectionLine:
        timeline = self._track.group(index).timeline
        if self._last is None or self._last.timeline is not timeline:
            self._last = _SectionLine(timeline, self._is_match)
        return self._last


class _SectionLine:
    """How many matches of one section begin before a cycle."""

    def __init__(self, timeline: Timeline, is_match: NDArray[np.bool_]) -> None:
        self.timeline = timeline
        self._starts: list[NDArray[np.int64]] = []
        for body in timeline.bodies:
            entries = slice(body.first_entry, body.stop_entry)
            self._starts.append(timeline.start[entries][is_match[timeline.step[entries]]])
        counts = [
            len(starts) * body.n_iterations
            for body, starts in zip(timeline.bodies, self._starts, strict=True)
        ]
        below = np.cumsum(timeline.of_pieces(counts), dtype=np.int64)
        self._below = np.append(np.zeros(1, np.int64), below)

    def before(self, cycle: int) -> int:
        """Return how many begin before a cycle."""
        index = int(np.searchsorted(self.timeline.piece_ends, cycle, side="left"))
        n_before = int(self._below[index])
        part = next(self.timeline.after(cycle), None)
        if part is None:
            return n_before
        starts = self._starts[int(self.timeline.body[index])]
        n_in_rounds = 0
        if part.period_cycles:
            n_in_rounds = (cycle - 1 - part.start_cycle) // part.period_cycles
            n_in_rounds = max(0, min(n_in_rounds, part.n_iterations))
        n_before += n_in_rounds * len(starts)
        if n_in_rounds < part.n_iterations:
            shift = part.shift_cycles + n_in_rounds * part.period_cycles
            n_before += int(np.searchsorted(starts, cycle - shift))
        return n_before


def following(
    trace: Trace,
    key: tuple[int, int],
    is_match: NDArray[np.bool_],
    cycle: int,
    limit: int,
) -> list[Occurrence]:
    """Return the first executions that begin at or after a cycle on one track.

    Parameters
    ----------
    trace
        The trace.
    key
        IPU and track.
    is_match : ndarray of bool, shape (n_steps,)
        The steps to look for.
    cycle
        Where to begin.
    limit
        Most executions.
    """
    occurrences: list[Occurrence] = []
    for group in trace.track(*key).after(cycle):
        if len(occurrences) >= limit:
            break
        left = limit - len(occurrences)
        occurrences += _following(trace, key, group.timeline, is_match, cycle, left)
    return occurrences


def _following(
    trace: Trace,
    key: tuple[int, int],
    line: Timeline,
    is_match: NDArray[np.bool_],
    cycle: int,
    limit: int,
) -> list[Occurrence]:
    """Return the first executions that begin at or after a cycle in a section."""
    ipu_id, track = key
    occurrences: list[Occurrence] = []
    hits_of: dict[int, NDArray[np.intp]] = {}
    for part in line.after(cycle):
        if len(occurrences) >= limit:
            break
        starts = line.start[part.first_entry : part.stop_entry]
        hits = hits_of.get(part.first_entry)
        if hits is None:
            hits = np.flatnonzero(is_match[line.step[part.first_entry : part.stop_entry]])
            hits_of[part.first_entry] = hits
        period = part.period_cycles
        iteration = 0
        if period:
            iteration = max(0, (cycle - 1 - part.start_cycle) // period)
        while len(hits) and iteration < part.n_iterations and len(occurrences) < limit:
            shift = part.shift_cycles + iteration * period
            low = int(np.searchsorted(starts[hits], cycle - shift, side="left"))
            occurrences += [
                _occurrence(trace, ipu_id, track, line, part.first_entry + hit, shift)
                for hit in hits[low : low + limit - len(occurrences)].tolist()
            ]
            iteration += 1
    return occurrences


def _occurrence(
    trace: Trace, ipu_id: int, track: int, line: Timeline, entry: int, shift: int
) -> Occurrence:
    """Return one execution of an entry, moved by some cycles."""
    row = int(line.step[entry])
    return Occurrence(
        ipu_id,
        track,
        row,
        trace.steps.name[row],
        int(line.start[entry]) + shift,
        int(line.end[entry]) + shift,
    )
