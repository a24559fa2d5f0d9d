"""The timeline of a data-dependent run, from what the run noted."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from tilescope.engine.compiler.executable.executable import Node
from tilescope.engine.execute.notes import RunNotes
from tilescope.engine.execute.template import Templates
from tilescope.engine.execute.timeline import Clock, Timeline
from tilescope.engine.machine import Machine

__all__ = ["Replays"]

#: Timelines that are kept, and entries of one: more take too much memory.
_MOST_KNOWN = 1 << 4
_MOST_ENTRIES = 1 << 14


class Replays:
    """Computes the timelines of one engine's data-dependent runs; runs that decide alike share one.

    Parameters
    ----------
    machine
        The machine that runs.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._templates = Templates(machine)
        #: By program and decisions: the last ones.
        self._known: OrderedDict[tuple[int, bytes], Sequence[Timeline]] = OrderedDict()

    def timelines(self, root: Node, notes: RunNotes) -> Sequence[Timeline]:
        """Return the times at which the steps of a run ran on each IPU, from cycle 0.

        Parameters
        ----------
        root
            The program that ran.
        notes
            Its decisions and measured cycles, all of them.
        """
        key = root.root_index, notes.decided
        timelines = self._known.pop(key, None) if notes.decided else None
        if timelines is None:
            clock = Clock(self._machine)
            _Replay(clock, notes, self._templates).run(root)
            timelines = clock.timelines()
            if not notes.decided or clock.n_entries > _MOST_ENTRIES:
                return timelines
        self._known[key] = timelines
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return timelines


class _Replay:
    """Takes a clock through a program by the decisions of a run."""

    def __init__(self, clock: Clock, notes: RunNotes, templates: Templates) -> None:
        self._clock, self._templates = clock, templates
        self._decisions, self._measured = notes.decisions(), notes.measured()
        self._waits = notes.waits()
        #: By first node and number of nodes: those without decisions, and others, in turns.
        self._parts: dict[tuple[int, int], list[tuple[bool, tuple[Node, ...]]]] = {}

    def run(self, node: Node) -> None:
        """Advance past a node."""
        if node.is_foldable:
            self._clock.run(node)
        elif node.step is not None:
            step = node.step
            wait = next(self._waits) if step.meets_replicas else 0
            tile_cycles = next(self._measured) if step.is_data_dependent else None
            self._clock.step(step, tile_cycles, wait)
        elif node.kind == "Overlap":
            self._clock.overlap(node, self._children)
        elif node.function is not None:
            self.run(node.function)
        elif node.kind in ("If", "Switch"):
            self._children([node.children[next(self._decisions)]])
        elif node.kind == "RepeatWhile":
            self._while(node)
        else:
            for _ in range(node.repeat_count):
                self._children(node.children)

    def _children(self, nodes: Sequence[Node]) -> None:
        """Advance past nodes in order; those without decisions between two others are one part."""
        key = id(nodes[0]) if nodes else 0, len(nodes)
        parts = self._parts.get(key)
        if parts is None:
            parts = self._parts[key] = [
                (is_foldable, tuple(part))
                for is_foldable, part in groupby(nodes, key=attrgetter("is_foldable"))
            ]
        for is_foldable, part in parts:
            if is_foldable:
                self._templates.run(self._clock, part)
            else:
                for node in part:
                    self.run(node)

    def _while(self, node: Node) -> None:
        condition, body = node.children
        self._children([condition])
        if not (condition.is_foldable and body.is_foldable):
            while next(self._decisions):
                self._children([body])
                self._children([condition])
            return
        rounds = next(self._decisions)
        if rounds:
            # After the first condition, a round is the body followed by the condition.
            self._clock.run_rounds(lambda: self._children([body, condition]), rounds)
