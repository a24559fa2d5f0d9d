"""The launch plan: what the host calls to run a program, between `Executable` and kernels.

A compute set is a few launches; its vertices are joined where their data adjoin. A part of the
program without decisions and host copies is a list of calls that one compiled function makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilescope.engine.compiler.executable.executable import Node, Step
from tilescope.engine.execute.launch import Launch
from tilescope.engine.execute.threads import Calls, Threads

__all__ = ["LaunchPlan", "Rounds"]

#: Most calls that are listed; a longer repeat is a loop over the list of its body.
_MOST_CALLS = 1 << 14


@dataclass(frozen=True)
class Rounds:
    """A part of the program that is run several times."""

    n_rounds: int
    body: Sequence[Part]


#: A part of a program without decisions: calls, a repeat, a host copy, or a node that the walker
#: executes itself.
Part = Calls | Rounds | Step | Node
#: The launches of one step, which need nothing of each other.
Stage = tuple[Launch, ...]


class LaunchPlan:
    """The launches of a program.

    Parameters
    ----------
    by_step
        By step id: the bound batches of its compute set, compiled.
    threads
        Threads that run them.
    """

    def __init__(self, by_step: Mapping[int, Sequence[Launch]], threads: Threads) -> None:
        self.by_step = by_step
        self.threads = threads
        self._calls: dict[int, Calls] = {}
        self._parts: dict[int, tuple[Part, ...]] = {}

    def launches(self, step: Step) -> Sequence[Launch]:
        """Return the launches of a step."""
        return self.by_step.get(step.step_id, ())

    def calls(self, step: Step) -> Calls:
        """Return the launches of a step as calls."""
        if step.step_id not in self._calls:
            self._calls[step.step_id] = Calls([self.launches(step)], self.threads)
        return self._calls[step.step_id]

    def parts(self, node: Node) -> tuple[Part, ...]:
        """Return what to run for a node that is timed apart from the run, in order."""
        if id(node) not in self._parts:
            self._parts[id(node)] = tuple(self._in_calls(self._listed(node)))
        return self._parts[id(node)]

    def _listed(self, node: Node) -> list[Stage | Part]:
        """Return stages and the other parts, in order."""
        if node.step is not None:
            launches = tuple(self.launches(node.step))
            stages: list[Stage | Part] = [launches] if launches else []
            return stages if node.step.access is None else [*stages, node.step]
        if node.function is not None:
            return self._listed(node.function)
        if node.control is not None or node.kind == "ErrorProgram":
            return [node]
        once = [part for child in node.children for part in self._listed(child)]
        if node.repeat_count == 1 or not once:
            return once
        if len(once) * node.repeat_count <= _MOST_CALLS:
            return once * node.repeat_count
        return [Rounds(node.repeat_count, tuple(self._in_calls(once)))]

    def _in_calls(self, parts: Sequence[Stage | Part]) -> Iterator[Part]:
        """Yield parts, with stages that follow each other as one list of calls."""
        pending: list[Stage] = []
        for part in parts:
            if isinstance(part, tuple):
                pending.append(part)
                continue
            if pending:
                yield Calls(pending, self.threads)
            pending = []
            yield part
        if pending:
            yield Calls(pending, self.threads)

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
