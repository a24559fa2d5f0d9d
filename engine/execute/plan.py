"""The launch plan: what the host calls to run a program, between `Executable` and kernels.

A compute set is a few launches; its vertices are joined where their data adjoin. A program is a
list of instructions that one compiled function runs, with its loops and branches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilescope.engine.compiler.executable.executable import Node, Step
from tilescope.engine.execute.caller import Caller
from tilescope.engine.execute.host_arenas import HostMemory
from tilescope.engine.execute.instructions import assemble
from tilescope.engine.execute.launch import Launch
from tilescope.engine.execute.threads import Threads

__all__ = ["LaunchPlan"]


class LaunchPlan:
    """The launches of an executable.

    Parameters
    ----------
    by_step
        By step id: the bound batches of its compute set, compiled.
    threads
        Threads that run them.
    memory
        Holds the values of the variables.
    n_ipus
        IPUs of the machine.
    """

    def __init__(
        self,
        by_step: Mapping[int, Sequence[Launch]],
        threads: Threads,
        memory: HostMemory,
        n_ipus: int,
    ) -> None:
        self.by_step = by_step
        self.threads = threads
        self._memory, self._n_ipus = memory, n_ipus
        self._callers: dict[int, Caller] = {}

    def launches(self, step: Step) -> Sequence[Launch]:
        """Return the launches of a step."""
        return self.by_step.get(step.step_id, ())

    def caller(self, root: Node) -> Caller:
        """Return what runs a control program; it is made once.

        Raises
        ------
        BadGraph
            When the program takes more cycles than the counters hold.
        """
        if root.root_index not in self._callers:
            instructions = assemble(root, self.launches, self._n_ipus)
            self._callers[root.root_index] = Caller(
                instructions, self.threads, self._memory, self._n_ipus
            )
        return self._callers[root.root_index]

    def __str__(self) -> str:
        """Return a table: launches by compute set, with their vertices, pieces, work and bytes."""
        visited: dict[int, Launch] = {}
        for launches in self.by_step.values():
            visited.update((id(launch), launch) for launch in launches)
        rows: list[tuple[str, ...]] = [
            ("Compute set", "Codelet", "Vertices", "Pieces", "Work", "Bytes", "Parts")
        ]
        for launch in visited.values():
            parts = self.threads.cuts(launch).size - 1
            numbers = (launch.tile.size, launch.n_pieces, launch.work, launch.n_bytes, parts)
            rows.append(
                (launch.compute_set_name, launch.codelet_name, *(f"{n:,}" for n in numbers))
            )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for row in rows:
            names = [text.ljust(width) for text, width in zip(row[:2], widths, strict=False)]
            counts = [text.rjust(width) for text, width in zip(row[2:], widths[2:], strict=True)]
            lines.append("  ".join(names + counts).rstrip())
        return "\n".join(lines)
