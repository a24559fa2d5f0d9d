"""Launches: the batches of a step bound to memory, ready to call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.collection import without_collection
from tilescope.engine.errors import BadGraph, KernelFailed, said
from tilescope.engine.execute.binding import Binding
from tilescope.engine.execute.host_arenas import HostMemory
from tilescope.engine.execute.launcher import launch_numbers, launcher_named
from tilescope.engine.host.jit.entry import Entry
from tilescope.engine.host.jit.processor import report_new_code

__all__ = ["Launch", "Launches", "compile_launchers"]

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Launch:
    """One batch, bound to its memory.

    Parameters
    ----------
    call
        Its launcher.
    table : ndarray of int64, shape (n,)
        What the launcher takes: address and elements of the memory of every field from where its
        variable begins, and `launch_numbers`.
    arrays
        The arrays whose addresses are in the table, besides the host's memory.
    piece_work : ndarray of int64, shape (n_pieces,)
        Work of every call of the kernel, which is one vertex, or several adjoining ones joined: the
        elements that they touch; of products, those that they write, and an eighth of the products
        and their operands.
    counts : ndarray of int64, shape (n_vertices,) or (n_vertices, n_workers)
        Counts from the kernel of each vertex, or of each of its workers, in the last run; empty
        unless its law needs them.
    tile : ndarray of int32, shape (n_vertices,)
        Tile of each vertex.
    clock : ndarray of int64, shape (n_vertices,)
        Cycle counter of the IPU of each vertex as the step begins; empty unless its kernel reads
        it.
    """

    call: Any
    table: NDArray[np.int64]
    arrays: Sequence[NDArray[Any]]
    piece_work: NDArray[np.int64]
    counts: NDArray[np.int64]
    tile: NDArray[np.int32]
    clock: NDArray[np.int64]
    codelet_name: str
    compute_set_name: str

    @property
    def n_pieces(self) -> int:
        """Calls of the kernel."""
        return self.piece_work.size

    @cached_property
    def work(self) -> int:
        """Work of all pieces."""
        return int(self.piece_work.sum())

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays that describe its pieces to the launcher."""
        return sum(array.nbytes for array in self.arrays)

    def run(self) -> None:
        """Run all vertices on this thread.

        Raises
        ------
        KernelFailed
            When the codelet's function raised; its exception is the cause.
        """
        try:
            self.call(0, self.n_pieces, self.table.ctypes.data)
        except Exception as error:
            raise KernelFailed(
                f"The kernel of {self.codelet_name} raised {said(error)}, on a vertex in compute"
                f" set {self.compute_set_name!r}. The run ends there: fix the function; with"
                " NUMBA_DISABLE_JIT=1 in the environment it runs as plain Python, and the traceback"
                " shows the line"
            ) from error


class Launches:
    """Makes the launches of bindings: those of one binding share all but the places of its fields.

    Parameters
    ----------
    memory
        Holds the values.
    n_workers
        Worker contexts of a tile.
    """

    def __init__(self, memory: HostMemory, n_workers: int) -> None:
        self._n_workers = n_workers
        self._layout = memory.layout
        #: Address, bytes of an element, and elements, by type.
        self._arenas = {
            host: (arena.ctypes.data, arena.itemsize, arena.size)
            for host, arena in memory.arenas.items()
        }
        self._bound: dict[int, _Bound] = {}
        self._launches: dict[tuple[int, ...], Launch] = {}

    def of(self, step_id: int, bindings: Sequence[Binding]) -> list[Launch]:
        """Return the launches of a step, without those of copies that need not be made."""
        without = self._layout.without.get(step_id, ())
        return [
            self._launch(step_id, binding)
            for number, binding in enumerate(bindings)
            if number not in without
        ]

    def _launch(self, step_id: int, binding: Binding) -> Launch:
        base_at = self._layout.base_at
        bases = [base_at(variable, step_id) for variable in binding.variables]
        key = (id(binding), *bases)
        launch = self._launches.get(key)
        if launch is None:
            bound = self._bound.get(id(binding))
            if bound is None:
                bound = self._bound[id(binding)] = _bound(binding, self._n_workers)
            numbers: list[int] = []
            for host, base in zip(binding.hosts, bases, strict=True):
                address, itemsize, size = self._arenas[host]
                numbers += address + base * itemsize, size - base
            table = np.array([*numbers, *bound.numbers], np.int64)
            launch = self._launches[key] = Launch(bound.call, table, *bound.others)
        return launch


class _Bound(NamedTuple):
    """What the launches of a binding share: the call, the table behind the places, the others."""

    call: Any
    numbers: list[int]
    others: tuple[Any, ...]


def _bound(binding: Binding, n_workers: int) -> _Bound:
    arrays: list[NDArray[Any]] = [*binding.arrays]
    n_vertices = binding.tile.size
    clock = np.zeros(n_vertices if binding.reads_clock else 0, np.int64)
    n_counted = n_vertices if binding.is_counted else 0
    shape = (n_counted, n_workers) if binding.is_multi_vertex else (n_counted,)
    counts = np.zeros(shape, np.int64)
    if binding.reads_clock:
        arrays.append(clock)
    if binding.is_counted:
        arrays.append(counts)
    numbers = launch_numbers(
        arrays,
        n_workers if binding.is_multi_vertex else 0,
        [grid for _, grid in binding.rounded],
    )
    others = arrays, binding.piece_work, counts, binding.tile, clock
    return _Bound(
        launcher_named(binding.launcher_name, binding.launcher),
        numbers,
        (*others, binding.codelet_name, binding.compute_set_name),
    )


@without_collection()
def compile_launchers(
    launches: Iterable[Launch], progress: Callable[[int, int, str], None] | None = None
) -> None:
    """Compile, or load from the cache, every launcher for the types it is called with.

    Parameters
    ----------
    progress
        Called before every launcher with: done, total, name.

    Raises
    ------
    BadGraph
        When a kernel cannot be compiled.
    """
    entries: dict[int, tuple[Entry, str]] = {}
    for launch in launches:
        if not isinstance(launch.call, Entry):
            continue  # compilation is disabled: plain Python
        entries.setdefault(id(launch.call), (launch.call, launch.codelet_name))
    for n_compiled, (call, name) in enumerate(entries.values()):
        if progress is not None:
            progress(n_compiled, len(entries), call.name)
        try:
            if call.load():
                report_new_code()
        except (OSError, MemoryError):  # from the kernel cache, not from this kernel
            raise
        except Exception as error:  # numba's own errors, and those that a function makes it raise
            raise BadGraph(f"Cannot compile the kernel of {name}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Return numba's error message without its context."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kept_lines = [
        line for line in lines if not line.startswith(("Failed in", "During", "File", "-"))
    ]
    return (kept_lines or lines or [type(error).__name__])[0]
