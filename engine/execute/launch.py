"""Launches: the batches of a compute set bound to memory, ready to call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.collection import without_collection
from tilescope.engine.compiler.executable.executable import Step
from tilescope.engine.errors import BadGraph, KernelFailed, said
from tilescope.engine.execute.host_arenas import HostMemory
from tilescope.engine.execute.join import Blocks, join
from tilescope.engine.execute.launcher import (
    launch_arrays,
    launch_table,
    launcher_of,
    rounded_fields,
)
from tilescope.engine.graph import ComputeSet, VertexBatch
from tilescope.engine.graph.vertex.regions import Regions
from tilescope.engine.host.jit.entry import Entry
from tilescope.engine.host.jit.processor import report_new_code

__all__ = ["Launch", "bind", "bind_all", "compile_launchers"]

_log = logging.getLogger(__name__)

#: Products of a convolution in the time of one element: they are computed in vectors.
_PRODUCTS = 8


@dataclass(frozen=True)
class Launch:
    """One batch, bound to its memory.

    Parameters
    ----------
    call
        Its launcher.
    table : ndarray of int64, shape (n,)
        What the launcher takes: see `launch_table`.
    arrays
        The arrays whose addresses are in the table.
    piece_work : ndarray of int64, shape (n_pieces,)
        Work of every call of the kernel, which is one vertex, or several adjoining ones joined: the
        elements that they touch, and an eighth of their products.
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
        return sum(array.nbytes for array in self.arrays if array.dtype == np.int64)

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


def _work(batch: VertexBatch, regions: Sequence[Regions]) -> NDArray[np.int64]:
    """Estimate the work of every vertex: the elements it touches, and an eighth per product."""
    elements = np.asarray(sum(map(_by_vertex, regions)), np.int64)
    if batch.codelet.has_products:
        field = batch.fields["out"].size[:, [1, 3, 4]].prod(axis=1)
        return np.asarray(elements + field * batch.fields["w"].n_elements // _PRODUCTS)
    return elements


def _by_vertex(regions: Regions) -> NDArray[np.int64]:
    """Return the elements of every vertex in a field."""
    if regions.first is None:
        return regions.n_elements
    ends = np.concatenate([[0], np.cumsum(regions.n_elements)])
    return np.diff(ends[regions.first])


def bind(compute_set: ComputeSet, memory: HostMemory, n_workers: int) -> list[Launch]:
    """Return the launches of a compute set, on tiles with `n_workers` worker contexts."""
    launches = []
    for batch in compute_set.batches:
        codelet = batch.codelet
        regions = [batch.fields[field.name] for field in codelet.fields]
        rounded = rounded_fields(codelet, [region.variable.dtype for region in regions])
        blocks = join(
            codelet,
            Blocks(
                [r.start + memory.base[r.variable.variable_id] for r in regions],
                [r.size for r in regions],
                [r.stride for r in regions],
                [batch.scalars[scalar.name] for scalar in codelet.kernel_scalars],
                _work(batch, regions),
            ),
        )
        hosts = [region.variable.dtype.host for region in regions]
        distinct = list(dict.fromkeys(hosts))
        memories = [memory.arenas[host][0] for host in distinct]
        parts = list(zip(blocks.start, blocks.size, blocks.stride, strict=True))
        n_counted = batch.n_vertices if codelet.is_data_dependent else 0
        counts = np.zeros(codelet.count_shape(n_counted, n_workers), np.int64)
        clock = np.zeros(batch.n_vertices if codelet.reads_clock else 0, np.int64)
        firsts = [region.first for region in regions]
        arrays = launch_arrays(codelet, memories, parts, firsts, blocks.scalars, (clock, counts))
        launches.append(
            Launch(
                launcher_of(codelet, tuple(map(distinct.index, hosts)), tuple(distinct), rounded),
                launch_table(codelet, arrays, n_workers, [grid for _, grid in rounded]),
                arrays,
                blocks.work,
                counts,
                batch.tile,
                clock,
                codelet.name,
                compute_set.name,
            )
        )
    return launches


def bind_all(
    steps: Iterable[Step],
    memory: HostMemory,
    n_workers: int,
    progress: Callable[[int, int, str], None] | None = None,
) -> dict[int, list[Launch]]:
    """Return the launches of every compute step, by step id, with their kernels compiled.

    Raises
    ------
    BadGraph
        When a kernel cannot be compiled.
    """
    bound: dict[int, list[Launch]] = {}
    by_step: dict[int, list[Launch]] = {}
    for step in steps:
        compute_set = step.compute_set
        if compute_set is None:
            continue
        if compute_set.compute_set_id not in bound:
            bound[compute_set.compute_set_id] = bind(compute_set, memory, n_workers)
        by_step[step.step_id] = bound[compute_set.compute_set_id]
    compile_launchers((launch for launches in bound.values() for launch in launches), progress)
    n_launches = sum(len(launches) for launches in bound.values())
    _log.info("loaded: %d launches of %d compute sets", n_launches, len(bound))
    return by_step


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
