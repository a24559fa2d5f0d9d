"""Templates of the timeline: the entries of parts without decisions, computed once."""

from __future__ import annotations

from collections.abc import Sequence

from tilescope.engine.compiler.executable.executable import Node
from tilescope.engine.execute.timeline import Clock, Template
from tilescope.engine.machine import Machine

__all__ = ["Templates"]

#: Templates that are kept, and entries of one: more take too much memory.
_MOST_TEMPLATES = 1 << 10
_MOST_ENTRIES = 1 << 12

#: First and last node; how far the IPUs are apart; the track.
_Key = tuple[int, int, tuple[int, ...], int]


class Templates:
    """The templates of one engine, by part of the program and by how far the IPUs are apart.

    Parameters
    ----------
    machine
        Gives the number of IPUs.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._known: dict[_Key, Template] = {}

    def run(self, clock: Clock, nodes: Sequence[Node]) -> None:
        """Advance a clock past nodes without decisions, as if it ran them one by one.

        Parameters
        ----------
        clock
            The clock.
        nodes
            Children of one node that follow each other.
        """
        counters = clock.counters
        lead = counters[0] if len(counters) == 1 else min(counters)
        apart = tuple([counter - lead for counter in counters])
        key = id(nodes[0]), id(nodes[-1]), apart, clock.track
        template = self._known.get(key)
        if template is None:
            template = self._made(nodes, apart, clock.track)
            if len(self._known) >= _MOST_TEMPLATES:
                self._known.clear()
            if template.n_entries <= _MOST_ENTRIES:
                self._known[key] = template
        if not clock.add(template, lead):
            for node in nodes:
                clock.run(node)

    def _made(self, nodes: Sequence[Node], apart: Sequence[int], track: int) -> Template:
        """Return a new template."""
        clock = Clock(self._machine, apart, track)
        for node in nodes:
            clock.run(node)
        return clock.template()
