"""The launch plan: what the host calls to run a program, between `Executable` and kernels.

A compute set is a few launches; its vertices are joined where their data adjoin. A part of the
program without decisions and host copies is a list of calls that one compiled function makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.executable import Node, Step
from tilescope.engine.errors import KernelFailed
from tilescope.engine.execute.launch import Launch
from tilescope.engine.jit.calls import address_of, run_calls

__all__ = ["Calls", "LaunchPlan", "Rounds"]

_config: Any = numba.config

#: Most calls that are listed; a longer repeat is a loop over the list of its body.
_MOST_CALLS = 1 << 14


@dataclass(frozen=True)
class Calls:
    """Launches in order, made in one call.

    Parameters
    ----------
    launches
        The launches.
    calls : ndarray of int64, shape (n, 3)
        Address, pieces and table of the launches: see `run_calls`.
    """

    launches: Sequence[Launch]
    calls: NDArray[np.int64]

    def run(self) -> None:
        """Run the launches.

        Raises
        ------
        KernelFailed
            When the function of a codelet raised.
        """
        failed = run_calls(self.calls)
        if failed < 0:
            return
        launch = self.launches[failed]
        launch.run()  # again, for its exception
        raise KernelFailed(
            f"The kernel of {launch.codelet_name} raised an exception on a vertex in compute set"
            f" {launch.compute_set_name!r}, and not when it was repeated. The run ends there: with"
            " NUMBA_DISABLE_JIT=1 in the environment it runs as plain Python"
        )


@dataclass(frozen=True)
class Rounds:
    """A part of the program that is run several times."""

    n_rounds: int
    body: Sequence[Part]


#: A part of a program without decisions: calls, a launch on several threads, a repeat, a host copy,
#: or a node that the walker executes itself.
Part = Calls | Launch | Rounds | Step | Node


class LaunchPlan:
    """The launches of a program.

    Parameters
    ----------
    by_step
        By step id: the bound batches of its compute set, compiled.
    """

    def __init__(self, by_step: Mapping[int, Sequence[Launch]]) -> None:
        self.by_step = by_step
        self._parts: dict[int, tuple[Part, ...]] = {}

    def launches(self, step: Step) -> Sequence[Launch]:
        """Return the launches of a step."""
        return self.by_step.get(step.step_id, ())

    def parts(self, node: Node) -> tuple[Part, ...]:
        """Return what to run for a node that is timed apart from the run, in order."""
        if id(node) not in self._parts:
            self._parts[id(node)] = tuple(_in_calls(self._listed(node)))
        return self._parts[id(node)]

    def _listed(self, node: Node) -> list[Part]:
        """Return single launches and the other parts, in order."""
        if node.step is not None:
            copies: list[Part] = [] if node.step.access is None else [node.step]
            return [*self.launches(node.step), *copies]
        if node.function is not None:
            return self._listed(node.function)
        if node.control is not None or node.kind == "ErrorProgram":
            return [node]
        once = [part for child in node.children for part in self._listed(child)]
        if node.repeat_count == 1 or not once:
            return once
        if len(once) * node.repeat_count <= _MOST_CALLS:
            return once * node.repeat_count
        return [Rounds(node.repeat_count, tuple(_in_calls(once)))]

    def __str__(self) -> str:
        """Return a table: launches by compute set, with their vertices, pieces, work and bytes."""
        seen: dict[int, Launch] = {}
        for launches in self.by_step.values():
            seen.update((id(launch), launch) for launch in launches)
        rows: list[tuple[str, ...]] = [
            ("Compute set", "Codelet", "Vertices", "Pieces", "Work", "Bytes", "Threads")
        ]
        for launch in seen.values():
            threads = launch.threads.n_threads if launch.is_shared else 1
            numbers = (launch.tile.size, launch.n_pieces, launch.work, launch.n_bytes, threads)
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


def _in_calls(parts: Sequence[Part]) -> Iterator[Part]:
    """Yield parts, with launches that follow each other on one thread as one list of calls."""
    pending: list[Launch] = []
    for part in parts:
        if isinstance(part, Launch) and not part.is_shared and not _config.DISABLE_JIT:
            pending.append(part)
            continue
        yield from _calls(pending)
        pending = []
        yield part
    yield from _calls(pending)


def _calls(launches: Sequence[Launch]) -> Iterator[Part]:
    if launches:
        rows = [
            (address_of(launch.call), launch.n_pieces, launch.table.ctypes.data)
            for launch in launches
        ]
        yield Calls(launches, np.array(rows, np.int64))
