"""When each step runs on each IPU, from the costs of the steps: a template of a run's trace.

Each IPU counts its own cycles. A step that syncs externally begins on all IPUs when the last of
them is ready. A loop whose body has no external sync is kept as its first round, a period and a
count; other loops are written out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.compiler.executable import Node, Step
from engine.machine import Machine

__all__ = ["Timeline", "timeline_of"]


@dataclass
class _Track:
    step_id: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    period: list[int] = field(default_factory=list)
    count: list[int] = field(default_factory=list)


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
    """

    step_id: NDArray[np.int32]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    period: NDArray[np.int64]
    count: NDArray[np.int32]
    n_cycles: int


class _Walker:
    def __init__(self, machine: Machine) -> None:
        self.n_ipus = machine.n_ipus
        self.now = np.zeros(machine.n_ipus, np.int64)
        self.tracks = [_Track() for _ in range(machine.n_ipus)]

    def run(self, node: Node) -> None:
        if node.step is not None:
            self._leaf(node.step)
        elif node.kind == "Repeat" and node.repeat_count > 1 and not _has_loop_or_sync(node):
            self._loop(node)
        else:
            for _ in range(node.repeat_count):
                for child in node.children:
                    self.run(child)

    def _leaf(self, step: Step) -> None:
        if step.cost.sync_zone == "external":
            self.now[:] = self.now.max()
        for ipu, track in enumerate(self.tracks):
            cycles = int(step.cost.cycles[ipu])
            if cycles == 0:
                continue
            begin = int(self.now[ipu])
            track.step_id.append(step.step_id)
            track.start.append(begin)
            track.end.append(begin + cycles)
            track.period.append(0)
            track.count.append(1)
            self.now[ipu] += cycles

    def _loop(self, node: Node) -> None:
        before = self.now.copy()
        first = [len(track.step_id) for track in self.tracks]
        for child in node.children:
            self.run(child)
        period = self.now - before
        for ipu, track in enumerate(self.tracks):
            for i in range(first[ipu], len(track.step_id)):
                track.period[i] = int(period[ipu])
                track.count[i] = node.repeat_count
        self.now = before + period * node.repeat_count


def _has_loop_or_sync(node: Node) -> bool:
    """Whether rounds of a loop cannot be kept as a count: an inner loop, or IPUs that wait."""
    for child in node.children:
        if child.step is not None:
            if child.step.cost.sync_zone == "external":
                return True
        elif (child.kind == "Repeat" and child.repeat_count > 1) or _has_loop_or_sync(child):
            return True
    return False


def timeline_of(root: Node, machine: Machine) -> Sequence[Timeline]:
    """Return the timeline of one run of a control program, per IPU."""
    walker = _Walker(machine)
    walker.run(root)
    return [
        Timeline(
            np.asarray(track.step_id, dtype=np.int32),
            np.asarray(track.start, dtype=np.int64),
            np.asarray(track.end, dtype=np.int64),
            np.asarray(track.period, dtype=np.int64),
            np.asarray(track.count, dtype=np.int32),
            int(walker.now[ipu]),
        )
        for ipu, track in enumerate(walker.tracks)
    ]
