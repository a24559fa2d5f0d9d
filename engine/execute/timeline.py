"""Start and end of every step on every IPU, computed from the step costs.

A program without decisions has one timeline, computed once. That of a data-dependent program is
computed from the decisions that the run noted (`replay.py`).

Each IPU counts its own cycles, so steps of different IPUs overlap unless data moves between them.
A step with an external sync begins on all IPUs when the last of them is ready; an IPU that is
early waits in the sync, whose entry is longer by that time. The two sides of an `Overlap` start at
the same cycle, each on its own track, and the side that finishes first waits in the sync at its
end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.column import Column
from tilescope.engine.compiler.executable.executable import Node, Step
from tilescope.engine.execute.span import check_cycles
from tilescope.engine.execute.track import Track
from tilescope.engine.machine import Machine

__all__ = ["Clock", "Template", "Timeline", "timeline_of"]

#: Steps in which an IPU waits for other IPUs.
_WAITS = ("Sync", "StreamCopyBegin")

_COMPUTE, _IO = 0, 1


@dataclass(frozen=True)
class Timeline:
    """The entries of one run on one track of one IPU, from cycle 0.

    Parameters
    ----------
    step_id : ndarray of int32
        Step of each entry.
    start, end : ndarray of int64
        First round, cycles, half-open.
    period : ndarray of int64
        Distance between rounds, cycles; 0 for a single round.
    count : ndarray of int64
        Number of rounds.
    n_cycles
        Length of the run on this IPU.
    patterns
        Busy cycles of the IPU's tiles, ndarray of int64, by entry, where they differ from the
        static cost of the step.
    has_spread
        Whether nested loops have so many executions that some entries keep only their number,
        spread evenly from the first on at the mean distance.
    io
        Concurrent timeline of the IPU's I/O tiles; None where the program has no Overlap.
    """

    step_id: NDArray[np.int32]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    period: NDArray[np.int64]
    count: NDArray[np.int64]
    n_cycles: int
    patterns: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)
    has_spread: bool = False
    io: Timeline | None = None

    def with_counts_up_to(self, most_counts: int) -> Timeline:
        """Return an equal timeline with counts of at most `most`: longer entries are split."""
        parts = -(-self.count // most_counts)
        if not self.count.size or parts.max() == 1:
            return self
        entry = np.repeat(np.arange(parts.size), parts)
        nth = np.arange(entry.size) - np.repeat(np.cumsum(parts) - parts, parts)
        shift = nth * most_counts * self.period[entry]
        order = np.argsort(self.start[entry] + shift, kind="stable")
        entry, nth, shift = entry[order], nth[order], shift[order]
        count = np.minimum(self.count[entry] - nth * most_counts, most_counts)
        # A measured entry ran once, so it is never split.
        new_index = {old: new for new, old in enumerate(entry.tolist()) if old in self.patterns}
        return replace(
            self,
            step_id=self.step_id[entry],
            start=self.start[entry] + shift,
            end=self.end[entry] + shift,
            period=np.where(count > 1, self.period[entry], 0),
            count=count,
            patterns={new_index[old]: pattern for old, pattern in self.patterns.items()},
        )


@dataclass(frozen=True, eq=False)
class Template:
    """The trace of a part of a program, for clocks that are as far apart as its own.

    Parameters
    ----------
    parts
        Number of a track, IPU and entries, where there are any.
    counters
        Cycle counters at its end, by IPU.
    n_meetings
        How often all IPUs have waited for each other.
    """

    parts: Sequence[tuple[int, int, Track]]
    counters: Sequence[int]
    n_meetings: int

    @property
    def n_entries(self) -> int:
        """Entries of all tracks."""
        return sum(len(part) for _, _, part in self.parts)


class Clock:
    """Cycle counters of all IPUs, and the trace so far.

    Parameters
    ----------
    machine
        Gives the number of IPUs.
    counters
        Where they begin, by IPU; None for 0.
    track
        Where the trace begins.
    """

    def __init__(
        self, machine: Machine, counters: Sequence[int] | None = None, track: int = _COMPUTE
    ) -> None:
        self.machine = machine
        self._now = [0] * machine.n_ipus if counters is None else [*counters]
        self._tracks = [[Track() for _ in range(machine.n_ipus)] for _ in (_COMPUTE, _IO)]
        self._track = track
        self._n_meetings = 0

    @property
    def counters(self) -> Sequence[int]:
        """The cycle at which every IPU is ready."""
        return self._now

    @property
    def track(self) -> int:
        """The track of the next step."""
        return self._track

    @property
    def n_entries(self) -> int:
        """Entries of the trace so far."""
        return sum(len(entries) for row in self._tracks for entries in row)

    def run(self, node: Node) -> None:
        """Advance past a node without decisions."""
        if node.step is not None:
            self.step(node.step)
        elif node.kind == "Overlap":
            self.overlap(node, self._run_all)
        else:
            if node.function is not None:
                self.run(node.function)
            self.run_rounds(partial(self._run_all, node.children), node.repeat_count)

    def _run_all(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            self.run(node)

    def run_rounds(self, run: Callable[[], None], count: int) -> None:
        """Advance past nodes without decisions, which `run` runs in order, `count` times.

        Rounds are written out until one leaves the IPUs as far apart as it found them: all later
        rounds are identical, and are kept as one round with a period and a count. IPUs that do not
        sync within a round advance independently, each at its own period.
        """
        for n_rounds in range(1, count + 1):
            is_last = n_rounds == count
            before, meetings = self._now.copy(), self._n_meetings
            marks = None if is_last else [[len(entries) for entries in row] for row in self._tracks]
            run()
            passed = {now - then for now, then in zip(self._now, before, strict=True)}
            if marks is not None and (len(passed) == 1 or self._n_meetings == meetings):
                self._repeat(marks, before, count - n_rounds + 1)
                return

    def _repeat(self, marks: list[list[int]], before: list[int], rounds: int) -> None:
        """Repeat the entries since `marks` for `rounds` identical rounds."""
        ends = [then + (now - then) * rounds for now, then in zip(self._now, before, strict=True)]
        check_cycles(max(ends))
        for row, firsts in zip(self._tracks, marks, strict=True):
            for ipu, (entries, first) in enumerate(zip(row, firsts, strict=True)):
                entries.repeat(first, self._now[ipu] - before[ipu], rounds)
        self._now = ends

    def template(self) -> Template:
        """Return what this clock has run; it runs nothing more."""
        parts = [
            (number, ipu, entries)
            for number, row in enumerate(self._tracks)
            for ipu, entries in enumerate(row)
            if len(entries)
        ]
        return Template(parts, self._now, self._n_meetings)

    def add(self, template: Template, shift: int) -> bool:
        """Append what another clock has run since its counters were these, less `shift`.

        Returns whether it did: loops of the template are written out only as far as the trace has
        room for.
        """
        tracks = self._tracks
        for number, ipu, part in template.parts:
            if part.end_written_out and not tracks[number][ipu].has_room_for(part):
                return False
        for number, ipu, part in template.parts:
            tracks[number][ipu].append(part, shift)
        self._now = [counter + shift for counter in template.counters]
        self._n_meetings += template.n_meetings
        return True

    def overlap(self, node: Node, run: Callable[[Sequence[Node]], None]) -> None:
        """Advance past the concurrent sides of an Overlap, running their children with `run`."""
        begins = self._now
        io, compute = node.children
        ready = []
        for track, side in ((_IO, io), (_COMPUTE, compute)):
            self._track, self._now = track, begins.copy()
            run(side.children[:-1])
            ready.append(self._now)
        self._now = [max(pair) for pair in zip(*ready, strict=True)]
        for track, side, early in zip((_IO, _COMPUTE), (io, compute), ready, strict=True):
            join = side.children[-1].step
            if join is None:
                raise AssertionError(side.name)
            self._track = track
            waits = join.cost.cycles.tolist()
            ends = [now + cycles for now, cycles in zip(self._now, waits, strict=True)]
            for entries, start, end in zip(self._tracks[track], early, ends, strict=True):
                if end > start:
                    entries.add(join.step_id, start, end)
        self._now = ends

    def step(self, step: Step, tile_cycles: NDArray[np.int64] | None = None, wait: int = 0) -> None:
        """Advance past one step, by its measured cycles where they are given.

        Parameters
        ----------
        step
            The step that runs.
        tile_cycles : ndarray of int64, shape (n_tiles,)
            Busy cycles of every tile in this execution; None for the static cost of the step.
        wait
            Cycles for which the IPUs, all ready, wait for other replicas.
        """
        now, begins, cost = self._now, self._now, step.cost
        if cost.sync_zone == "external":
            self._n_meetings += 1
            now = self._now = [max(begins) + wait] * len(begins)
            if step.kind not in _WAITS:
                begins = now
        step_cycles, by_ipu = cost.cycles, None
        if tile_cycles is not None:
            by_ipu = tile_cycles.reshape(self.machine.n_ipus, -1)
            step_cycles = Column.of(by_ipu.max(axis=1))
        for ipu, cycles in zip(
            step_cycles.ids.tolist(), step_cycles.narrow_values.tolist(), strict=True
        ):
            entries = self._tracks[self._track][ipu]
            if by_ipu is not None:
                entries.patterns[len(entries)] = by_ipu[ipu]
            end = now[ipu] + cycles
            entries.add(step.step_id, begins[ipu], end)
            now[ipu] = end

    def timelines(self) -> list[Timeline]:
        """Return the trace so far on each IPU."""
        return [
            self._timeline(compute, now, self._timeline(io, now, None) if len(io) else None)
            for compute, io, now in zip(*self._tracks, self._now, strict=True)
        ]

    def _timeline(self, entries: Track, n_cycles: int, io: Timeline | None) -> Timeline:
        return Timeline(
            np.asarray(entries.step_id, dtype=np.int32),
            np.asarray(entries.start, dtype=np.int64),
            np.asarray(entries.end, dtype=np.int64),
            np.asarray(entries.period, dtype=np.int64),
            np.asarray(entries.count, dtype=np.int64),
            n_cycles,
            entries.patterns,
            entries.has_spread,
            io,
        )


def timeline_of(root: Node, machine: Machine) -> Sequence[Timeline]:
    """Return the timeline of one run of a control program without decisions, per IPU."""
    clock = Clock(machine)
    clock.run(root)
    return clock.timelines()
