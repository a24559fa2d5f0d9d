"""Two traces on one axis: aligned by step, by cycle or by time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser import trace
from tilescope.analyser.diff.alignment.align import longest_rise
from tilescope.analyser.diff.alignment.aligned import aligned_steps, cached_for_two
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.target import target
from tilescope.analyser.trace.index import trace_of
from tilescope.analyser.trace.matches import match_at, match_near

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tilescope.analyser.trace.index import Trace
    from tilescope.reports import Report

__all__ = ["ALIGNMENTS", "ContributorChange", "TraceAxis", "TracePair", "trace_axis"]

_Knots: TypeAlias = tuple[
    tuple[NDArray[np.int64], NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int64]]
]
#: What two traces may be aligned by.
ALIGNMENTS = ("step", "cycle", "time")
#: Most executions of a track that are aligned by step.
MOST_ALIGNED = 20_000_000


@dataclass(frozen=True, eq=False)
class TraceAxis:
    """The common axis of two traces, in cycles of the baseline's clock.

    Both begin with the baseline's first cycle. By step, an execution that both reports have begins
    at one place on both sides, and what follows begins after the longer of the two; executions
    that only one report has have a place of their own.

    Attributes
    ----------
    knots : tuple of two pairs of ndarrays of int64, shape (n_knots,), cycles
        For the baseline and the candidate, ascending cycles and their places; in between, the place
        follows the cycles up to the next knot.
    scale : tuple of two floats
        Cycles of the axis in a cycle of the side.
    end
        First place after both traces.
    n_paired
        Executions that begin at one place; 0 unless aligned by step.
    """

    how: str
    knots: _Knots
    scale: tuple[float, float]
    start: int
    end: int
    n_paired: int

    def places(
        self, side: int, cycles: NDArray[np.int64], *, is_end: bool = False
    ) -> NDArray[np.int64]:
        """Return where cycles of a side are, int64; an end belongs to what is before it."""
        known, positions = self.knots[side]
        offset = np.searchsorted(known, cycles, "left" if is_end else "right") - 1
        offset = np.maximum(offset, 0)
        scaled = np.rint((cycles - known[offset]) * self.scale[side]).astype(np.int64)
        result = positions[offset] + scaled
        last = offset + 1 < len(known)
        following = positions[np.minimum(offset + 1, len(known) - 1)]
        bounded: NDArray[np.int64] = np.where(last, np.minimum(result, following), result)
        return bounded

    def place(self, side: int, cycle: int, *, is_end: bool = False) -> int:
        """Return where one cycle of a side is."""
        return int(self.places(side, np.asarray([cycle], np.int64), is_end=is_end)[0])

    def cycle(self, side: int, position: int) -> int:
        """Return the cycle of a side at a place; where it has none, the next one."""
        known, positions = self.knots[side]
        offset = max(0, int(np.searchsorted(positions, position, "right")) - 1)
        cycle_ = int(known[offset]) + int((position - int(positions[offset])) / self.scale[side])
        if offset + 1 < len(known):
            cycle_ = min(cycle_, int(known[offset + 1]))
        return cycle_

    def first_cycle(self, side: int, position: int) -> int:
        """Return the first cycle of a side whose place is not before a place."""
        cycle = self.cycle(side, position)
        while self.place(side, cycle) < position:
            cycle += 1
        while self.place(side, cycle - 1) >= position:
            cycle -= 1
        return cycle


@cached_for_two
def trace_axis(baseline: Report, candidate: Report, how: str) -> TraceAxis:
    """Return the axis of two traces.

    Parameters
    ----------
    baseline, candidate
        The reports, both open.
    how
        ``step``, ``cycle`` or ``time``.

    Raises
    ------
    BadQuestion
        For another alignment, or too many executions to align by step.
    """
    if how not in ALIGNMENTS:
        raise BadQuestion(f"unknown alignment '{how[:20]}'; use {', '.join(ALIGNMENTS)}")
    traces = trace_of(baseline), trace_of(candidate)
    start = traces[0].start_cycle
    scale = (1.0, 1.0)
    if how == "time" and all(side_trace.runs for side_trace in traces):
        scale = (1.0, target(baseline).clock_hz / target(candidate).clock_hz)
    origin = np.asarray([start], np.int64)
    knots = (origin, origin), (np.asarray([traces[1].start_cycle], np.int64), origin)
    n_paired = 0
    if how == "step" and all(side_trace.keys for side_trace in traces):
        pairs = aligned_steps(baseline, candidate).pairs
        knots, n_paired = _step_knots((_executions(traces[0]), _executions(traces[1])), pairs)
    axis = TraceAxis(how, knots, scale, start, 0, n_paired)
    ends = [axis.place(side, side_trace.end_cycle) for side, side_trace in enumerate(traces)]
    return replace(axis, end=max(ends))


@dataclass(frozen=True)
class TracePair:
    """Two reports on one axis; what is asked of a side is as of `trace`, in places of the axis."""

    baseline: Report
    candidate: Report
    how: str

    @property
    def axis(self) -> TraceAxis:
        """The common axis."""
        return trace_axis(self.baseline, self.candidate, self.how)

    def report(self, side: int) -> Report:
        """Return the baseline (0) or the candidate (1)."""
        return (self.baseline, self.candidate)[side]

    def extent(self, side: int) -> trace.Extent:
        """Return the extent of a side; start and end are those of the axis."""
        axis, extent_ = self.axis, trace.extent(self.report(side))
        runs = [
            replace(
                run,
                start_cycle=axis.place(side, run.start_cycle),
                end_cycle=axis.place(side, run.end_cycle, is_end=True),
            )
            for run in extent_.runs
        ]
        return replace(extent_, start_cycle=axis.start, end_cycle=axis.end, runs=runs)

    def cycles(self, side: int, start: int | None, end: int | None) -> tuple[int, int]:
        """Return the cycles of a side in a range of the axis, all by default; maybe none."""
        axis = self.axis
        low = axis.cycle(side, axis.start if start is None else start)
        high = axis.cycle(side, axis.end if end is None else end)
        extent_ = trace.extent(self.report(side))
        return max(low, extent_.start_cycle), min(high, extent_.end_cycle)

    def window(
        self,
        side: int,
        start: int,
        end: int,
        width_px: int,
        chosen: trace.Lanes | None = None,
    ) -> trace.Window:
        """Return the bars of a side in a range of the axis; see `trace.window`.

        Raises
        ------
        BadQuestion
            As `trace.window`.
        """
        if end <= start:
            raise BadQuestion(f"the range {start}:{end} is empty; give a start below its end")
        axis, chosen = self.axis, chosen or trace.Lanes()
        low, high = axis.cycle(side, start), axis.cycle(side, end)
        known = set(trace_of(self.report(side)).ipus)
        tiles_per_ipu = target(self.report(side)).tiles_per_ipu
        window_ = trace.window(
            self.report(side),
            low,
            max(high, low + 1),
            width_px,
            chosen._replace(
                ipus=self._known(side, chosen.ipus),
                tiles=[tile for tile in chosen.tiles if tile // tiles_per_ipu in known],
            ),
        )
        bars = replace(
            window_.bars,
            start_cycle=axis.places(side, window_.bars.start_cycle),
            end_cycle=axis.places(side, window_.bars.end_cycle, is_end=True),
        )
        return replace(window_, start_cycle=start, end_cycle=end, bars=bars)

    def slice_at(
        self, side: int, ipu_id: int, track: int, level: int, position: int, view: str = "flame"
    ) -> trace.Slice | None:
        """Return the slice of a side at a place, in cycles of its own; see `trace.slice_at`."""
        cycle = self.axis.cycle(side, position)
        return trace.slice_at(self.report(side), ipu_id, track, level, cycle, view)

    def match(
        self,
        text: str,
        *,
        number: int | None = None,
        position: int = 0,
        direction: str = "next",
        ipus: Sequence[int] | None = None,
        hidden: Collection[str] = (),
    ) -> tuple[int, trace.NumberedMatch]:
        """Return one of the executions of both sides that a text is found in, and its side.

        They are ordered by place, the baseline first; the execution is in cycles of its side. See
        `trace.match`.

        Raises
        ------
        BadQuestion
            As `trace.match`.
        """
        result = _PairMatches(
            self.axis,
            [
                trace.Matches(self.report(side), text, self._known(side, ipus), hidden)
                for side in range(2)
            ],
        )
        number_ = match_near(result, position, direction) if number is None else number
        if not number_ and number is None:
            return 0, trace.NumberedMatch(None, 0, 0)
        start, nth = match_at(result, number_)
        side, step_match = result.at(start)[nth]
        return side, trace.NumberedMatch(step_match, number_, result.n)

    def _known(self, side: int, ipus: Sequence[int] | None) -> list[int] | None:
        """Return those of some IPUs that a side has a trace of; None for all."""
        known = set(trace_of(self.report(side)).ipus)
        return None if ipus is None else [ipu for ipu in ipus if ipu in known]

    def summary(
        self,
        side: int,
        start: int | None = None,
        end: int | None = None,
        ipus: Sequence[int] | None = None,
        *,
        top: int = 20,
    ) -> trace.RangeSummary | None:
        """Return the figures of a side in a range of the axis; None where it has no cycles."""
        low, high = self.cycles(side, start, end)
        if high <= low:
            return None
        return trace.range_summary(self.report(side), low, high, self._known(side, ipus), top=top)

    def contributors(
        self,
        start: int | None = None,
        end: int | None = None,
        ipus: Sequence[int] | None = None,
    ) -> list[ContributorChange]:
        """Return what the names of a range cost on both sides, the largest change first.

        Names are those of the baseline where both have the step.
        """
        other_name = _names_of_pairs(self.baseline, self.candidate)
        rows: dict[tuple[str, str], list[int]] = {}
        first: dict[tuple[str, str], list[int | None]] = {}
        for side in range(2):
            summary_ = self.summary(side, start, end, ipus, top=1 << 30)
            for row in summary_.contributors if summary_ else ():
                name = other_name.get(row.step_id, row.name) if side else row.name
                key = name, row.kind
                rows.setdefault(key, [0, 0, 0, 0])[side] += row.cycles
                rows[key][2 + side] += row.count
                first.setdefault(key, [None, None])[side] = row.step_id
        changes = [
            ContributorChange(*key, values[0], values[1], values[2], values[3], *first[key])
            for key, values in rows.items()
        ]
        largest = [max(change.baseline_cycles, change.candidate_cycles) for change in changes]
        order = sorted(
            range(len(changes)), key=lambda i: (-abs(changes[i].delta_cycles), -largest[i])
        )
        return [changes[i] for i in order]

    def partner(self, side: int, step_id: int) -> int | None:
        """Return the same step of the other side; None if it has none."""
        for pair in aligned_steps(self.baseline, self.candidate).pairs:
            if pair[side] == step_id:
                return pair[1 - side]
        return None


@dataclass(frozen=True)
class _PairMatches:
    """Executions of both sides that a text is found in, by place on their axis."""

    axis: TraceAxis
    sides: list[trace.Matches]

    @property
    def n(self) -> int:
        """How many there are."""
        return sum(side.n for side in self.sides)

    @property
    def bounds(self) -> tuple[int, int]:
        """First and last place at which one may begin."""
        return self.axis.start, self.axis.end

    def before(self, cycle: int) -> int:
        """Return how many begin before a place."""
        return sum(
            side_matches.before(self.axis.first_cycle(side, cycle))
            for side, side_matches in enumerate(self.sides)
            if side_matches.n
        )

    def at(self, position: int) -> list[tuple[int, trace.Occurrence]]:
        """Return those that begin at a place, the baseline's first, with their sides."""
        return [
            (side, occurrence)
            for side, side_matches in enumerate(self.sides)
            if side_matches.n
            for occurrence in side_matches.between(
                self.axis.first_cycle(side, position), self.axis.first_cycle(side, position + 1)
            )
        ]


@dataclass(frozen=True)
class ContributorChange:
    """Steps of one name and kind in a range of two traces; a side without them has 0."""

    name: str
    kind: str
    baseline_cycles: int
    candidate_cycles: int
    baseline_count: int
    candidate_count: int
    baseline_step_id: int | None
    candidate_step_id: int | None

    @property
    def delta_cycles(self) -> int:
        """Cycles of the candidate minus those of the baseline."""
        return self.candidate_cycles - self.baseline_cycles


@cached_for_two
def _names_of_pairs(baseline: Report, candidate: Report) -> dict[int, str]:
    """Return the baseline's name of every step of the candidate that it has too."""
    names = trace_of(baseline).steps.name
    return {after: names[before] for before, after in aligned_steps(baseline, candidate).pairs}


@dataclass(frozen=True)
class _Executions:
    """Executions of the first track of a trace, loops written out: int64, shape (n,).

    ``first`` and ``end`` are the bounds of the trace.
    """

    step: NDArray[np.int64]
    run: NDArray[np.int64]
    start: NDArray[np.int64]
    first: int
    end: int


def _executions(result: Trace) -> _Executions:
    """Return the executions of the first track of a trace.

    Raises
    ------
    BadQuestion
        When there are too many.
    """
    key = result.keys[0]
    track = result.track(*key)
    n_executions = int(track.counts(np.ones(len(result.steps), np.bool_)).sum())
    if n_executions > MOST_ALIGNED:
        raise BadQuestion(
            f"a trace of {n_executions:,} executions is too long to align by step; align it"
            " by cycle or by time"
        )
    steps, starts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for line, region in track.pieces():
        part = slice(region.first_entry, region.stop_entry)
        rounds = np.arange(region.n_iterations, dtype=np.int64)
        shift = region.shift_cycles + region.period_cycles * rounds
        starts.append((line.start[part][None, :] + shift[:, None]).ravel())
        steps.append(np.tile(line.step[part], region.n_iterations).astype(np.int64))
    start = np.concatenate(starts)
    begins = sorted(row.start_cycle for row in result.tracks if (row.ipu_id, row.track) == key)
    run = np.searchsorted(np.asarray(begins, np.int64), start, "right") - 1
    return _Executions(np.concatenate(steps), run, start, result.start_cycle, result.end_cycle)


def _step_knots(
    sides: tuple[_Executions, _Executions], pairs: Sequence[tuple[int, int]]
) -> tuple[_Knots, int]:
    """Return cycles and places of both sides, and the number of paired executions."""
    n_steps = [1 + int(side.step.max(initial=0)) for side in sides]
    numbers = [np.full(n, -1, np.int64) for n in n_steps]
    for number, pair in enumerate(pairs):
        for table, step in zip(numbers, pair, strict=True):
            if step < len(table):
                table[step] = number
    n_groups = len(pairs) * (1 + max(int(side.run.max(initial=0)) for side in sides))
    executions = [
        _occurrences(table[side.step], side.run, len(pairs), n_groups)
        for table, side in zip(numbers, sides, strict=True)
    ]
    _, baseline_items, candidate_items = np.intersect1d(
        executions[0][1], executions[1][1], assume_unique=True, return_indices=True
    )
    baseline_items, candidate_items = (
        executions[0][0][baseline_items],
        executions[1][0][candidate_items],
    )
    order = np.argsort(baseline_items)
    baseline_items, candidate_items = baseline_items[order], candidate_items[order]
    if (np.diff(candidate_items) < 0).any():
        rise = longest_rise(
            list(zip(baseline_items.tolist(), candidate_items.tolist(), strict=True))
        )
        baseline_items, candidate_items = np.asarray(rise, np.int64).T
    return _knots(sides, (baseline_items, candidate_items)), len(baseline_items)


def _occurrences(
    number: NDArray[np.int64], run: NDArray[np.int64], n_numbers: int, n_groups: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return executions of steps with a partner, and a key for the nth of a pair in a run."""
    known_rows = np.flatnonzero(number >= 0)
    group = run[known_rows] * n_numbers + number[known_rows]
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    firsts = np.flatnonzero(is_first)
    nth = np.arange(len(ordered)) - np.repeat(firsts, np.diff(np.append(firsts, len(ordered))))
    return known_rows[order], nth * n_groups + ordered


def _knots(
    sides: tuple[_Executions, _Executions], paired: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> _Knots:
    """Return cycles and places of both sides.

    Every pair has a block: the longer of the two, up to what begins next on its side, then what
    only the baseline has before the next pair, then what only the candidate has.
    """
    begins, ends, alone, firsts = [], [], [], []
    for side, indices in zip(sides, paired, strict=True):
        bounds = np.append(side.start, side.end)
        begins.append(bounds[indices])
        ends.append(bounds[indices + 1])
        alone.append(bounds[np.append(indices[1:], len(side.start))[: len(indices)]] - ends[-1])
        firsts.append(int(begins[-1][0] if len(indices) else side.end) - side.first)
    longer = np.maximum(ends[0] - begins[0], ends[1] - begins[1])
    blocks = longer + alone[0] + alone[1]
    origin = sides[0].first
    baseline_position = origin + sum(firsts) + np.cumsum(blocks) - blocks
    knots = []
    for number, side in enumerate(sides):
        lead = origin + (firsts[0] if number else 0)
        candidate_position = baseline_position + longer + (alone[0] if number else 0)
        cycles = np.append(side.first, np.stack([begins[number], ends[number]], axis=1).ravel())
        positions = np.append(
            lead, np.stack([baseline_position, candidate_position], axis=1).ravel()
        )
        # Of knots at one cycle, the last says where what begins there is.
        keep = np.append(cycles[1:] > cycles[:-1], True)
        knots.append((cycles[keep].astype(np.int64), positions[keep].astype(np.int64)))
    return knots[0], knots[1]
