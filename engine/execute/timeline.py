"""When each step runs on each IPU, from the costs of the steps.

A program without decisions has one timeline, worked out once. Where data decide, the clock goes
along with the run.

Each IPU counts its own cycles, so that steps of different IPUs overlap unless data goes from one
to the other. A step that syncs externally begins on all IPUs when the last of them is ready; until
then an IPU that is early waits in the sync, whose entry is longer by that. A loop whose body has
no external sync is kept as its first round, a period and a count; other loops are written out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.compiler.executable import Node, Step, StepCost
from engine.machine import Machine

__all__ = ["Clock", "Timeline", "timeline_of"]

#: Steps in which an IPU waits for the others.
_WAITS = ("Sync", "StreamCopyBegin")


@dataclass
class _Track:
    step_id: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    period: list[int] = field(default_factory=list)
    count: list[int] = field(default_factory=list)
    patterns: dict[int, NDArray[np.int64]] = field(default_factory=dict)


@dataclass(frozen=True)
class Timeline:
    """The entries of one run on one IPU, from cycle 0.

    Parameters
    ----------
    step_id : ndarray of int32
        What runs.
    start, end : ndarray of int64
        First round, cycles, half-open.
    period : ndarray of int64
        Distance of rounds; 0 for a single one.
    count : ndarray of int32
        Number of rounds.
    n_cycles
        Length of the run on this IPU.
    patterns
        Busy cycles of the IPU's tiles, ndarray of int64, by entry, where they differ from what
        the step costs by itself.
    """

    step_id: NDArray[np.int32]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    period: NDArray[np.int64]
    count: NDArray[np.int32]
    n_cycles: int
    patterns: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)


class Clock:
    """Cycle counters of all IPUs, and what ran when.

    Parameters
    ----------
    machine
        Gives the number of IPUs.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._now = [0] * machine.n_ipus
        self._tracks = [_Track() for _ in range(machine.n_ipus)]

    def run(self, node: Node) -> None:
        """Let a node without decisions pass."""
        if node.step is not None:
            self.step(node.step, node.step.cost)
            return
        if node.function is not None:
            self.run(node.function)
        self.run_round(node.children, node.repeat_count)

    def run_round(self, nodes: Sequence[Node], count: int) -> None:
        """Let nodes without decisions pass, one after the other, `count` times."""
        if count > 1 and not any(_is_uneven(node) for node in nodes):
            self._loop(nodes, count)
            return
        for _ in range(count):
            for node in nodes:
                self.run(node)

    def step(self, step: Step, cost: StepCost) -> None:
        """Let one step pass, at a cost that may be the step's own or that of this execution."""
        now, begins = self._now, self._now
        if cost.sync_zone == "external":
            now = self._now = [max(begins)] * len(begins)
            if step.kind not in _WAITS:
                begins = now
        is_measured = cost is not step.cost
        by_ipu = cost.tile_cycles.reshape(self.machine.n_ipus, -1) if is_measured else None
        for ipu, cycles in enumerate(cost.cycles.tolist()):
            if cycles == 0:
                continue
            track = self._tracks[ipu]
            if by_ipu is not None:
                track.patterns[len(track.step_id)] = by_ipu[ipu]
            end = now[ipu] + cycles
            track.step_id.append(step.step_id)
            track.start.append(begins[ipu])
            track.end.append(end)
            track.period.append(0)
            track.count.append(1)
            now[ipu] = end

    def _loop(self, nodes: Sequence[Node], count: int) -> None:
        before = self._now.copy()
        first = [len(track.step_id) for track in self._tracks]
        for node in nodes:
            self.run(node)
        for ipu, track in enumerate(self._tracks):
            period = self._now[ipu] - before[ipu]
            for i in range(first[ipu], len(track.step_id)):
                track.period[i] = period
                track.count[i] = count
            self._now[ipu] = before[ipu] + period * count

    def timelines(self) -> list[Timeline]:
        """Return what ran on each IPU so far."""
        return [
            Timeline(
                np.asarray(track.step_id, dtype=np.int32),
                np.asarray(track.start, dtype=np.int64),
                np.asarray(track.end, dtype=np.int64),
                np.asarray(track.period, dtype=np.int64),
                np.asarray(track.count, dtype=np.int32),
                self._now[ipu],
                track.patterns,
            )
            for ipu, track in enumerate(self._tracks)
        ]


def _is_uneven(node: Node) -> bool:
    """Whether rounds cannot be kept as a count: there is an inner loop, or IPUs wait."""
    if node.step is not None:
        return node.step.cost.sync_zone == "external"
    if node.repeat_count > 1:
        return True
    if node.function is not None and _is_uneven(node.function):
        return True
    return any(_is_uneven(child) for child in node.children)


def timeline_of(root: Node, machine: Machine) -> Sequence[Timeline]:
    """Return the timeline of one run of a control program without decisions, per IPU."""
    clock = Clock(machine)
    clock.run(root)
    return clock.timelines()
