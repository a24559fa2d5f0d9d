"""The input of a cycle law, the shapes of a batch of vertices, and helpers of all laws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.vertex.regions import products_of_rows
from tilescope.engine.machine import Machine

__all__ = ["Batch", "Law", "SharedWork", "shared_work_cycles", "start_cycles", "worker_share"]


@dataclass(frozen=True)
class Batch:
    """The input of a cycle law: shapes as arrays over the vertices of a batch.

    Parameters
    ----------
    n_vertices
        Number of vertices.
    size, stride
        By field: ndarray of int64, shape (n_vertices, n_dims), elements; for a list of intervals,
        one row per interval of all vertices.
    item_bytes
        By field: bytes of one element on the device.
    dtype
        By field: name of its number type, such as ``float16``; ``float8`` for both formats.
    scalars
        By name: ndarray, shape (n_vertices,).
    counts : ndarray of int64, shape (n_vertices,), or (n_vertices, n_workers) of multi-vertices
        What the kernels of a data-dependent codelet returned; zeros before they have run.
    first
        By field that is a list of intervals: the row of every vertex's first interval, ndarray of
        int64, shape (n_vertices + 1,).
    is_slow : ndarray of bool, shape (n_vertices,)
        Whether a vertex must take the codelet's slow path; None when no vertex must.
    """

    n_vertices: int
    size: Mapping[str, NDArray[np.int64]]
    stride: Mapping[str, NDArray[np.int64]]
    item_bytes: Mapping[str, int]
    dtype: Mapping[str, str]
    scalars: Mapping[str, NDArray[Any]]
    counts: NDArray[np.int64]
    is_slow: NDArray[np.bool_] | None = None
    first: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    @property
    def is_fast(self) -> NDArray[np.bool_]:
        """Whether the memory constraints are met: ndarray of bool, shape (n_vertices,)."""
        return np.ones(self.n_vertices, np.bool_) if self.is_slow is None else ~self.is_slow

    def n_elements(self, field: str) -> NDArray[np.int64]:
        """Elements of each vertex's region, or regions: ndarray of int64, shape (n_vertices,)."""
        product = products_of_rows(self.size[field])
        return self.by_vertex(field, product) if field in self.first else product

    def by_vertex(self, field: str, of_interval: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sum over the intervals of every vertex: ndarray of int64, (n_vertices,).

        Parameters
        ----------
        field
            A field that is a list of intervals.
        of_interval : ndarray of int64, shape (n_intervals,)
            What every interval takes.
        """
        sums: NDArray[np.int64] = np.add.reduceat(of_interval, self.first[field][:-1])
        return sums

    def is_float(self, field: str) -> bool:
        """Whether a field is of a floating-point type."""
        return self.dtype[field].startswith("float")

    def n_vectors(self, count: NDArray[np.int64], field: str, machine: Machine) -> Any:
        """Return the number of data-path vectors in `count` elements of a field, rounded up."""
        per_vector = machine.data_path_bytes // self.item_bytes[field]
        return -(-count // per_vector)


def worker_share(count: NDArray[np.int64], machine: Machine) -> NDArray[np.int64]:
    """Return the share of the busiest worker context in `count` units: ndarray of int64."""
    share: NDArray[np.int64] = -(-count // machine.n_worker_contexts)
    return share


def start_cycles(counted: int, machine: Machine) -> int:
    """Return the tile cycles to start the workers of a vertex and to wait for them.

    This applies to a vertex that all workers of a tile share and that control code starts, a
    MultiVertex. Single-worker vertices have no such overhead: six of them were measured to take
    no longer than their workers do (graphcore/poplibs, commit ee340560: 298 cycles, estimated 336).

    Parameters
    ----------
    counted
        The estimate in the library; the hardware takes at least as long.
    machine
        Supplies the hardware figure.
    """
    return max(counted, machine.worker_start_cycles)


#: Cycles of every vertex of a batch: ndarray of int64, shape (n_vertices,); for a multi-vertex, of
#: all its workers: shape (n_vertices, n_worker_contexts).
Law = Callable[[Batch, Machine], NDArray[np.int64]]


@dataclass(frozen=True)
class SharedWork:
    """The cost of vertices that are pieces of one job: a tile deals them to all its workers.

    The work of all pieces together is shared evenly, as far as single pieces can be divided.

    Parameters
    ----------
    start_cycles
        Cycles of the tile before its workers run.
    piece_cycles
        Instructions of a worker before each piece.
    total
        Instructions of a whole piece, without those before it.
    longest
        Instructions of the busiest worker when all of them share the piece: at least a sixth of
        `total`, and more where the piece cannot be divided evenly.
    """

    start_cycles: int
    piece_cycles: int
    total: Law
    longest: Law

    def alone(self, batch: Batch, machine: Machine) -> NDArray[np.int64]:
        """Return the cycles of a tile with a single piece: ndarray of int64, (n_vertices,)."""
        work = self.piece_cycles + self.longest(batch, machine)
        return np.asarray(self.start_cycles + machine.n_worker_contexts * work)


def shared_work_cycles(
    parts: Sequence[tuple[NDArray[np.int32], SharedWork, Batch]], machine: Machine
) -> NDArray[np.int64]:
    """Return the cycles of every tile for all its pieces: ndarray of int64, (n_tiles,).

    Parameters
    ----------
    parts
        By batch: the tiles of its pieces, ndarray of int32, shape (n_vertices,), what they cost,
        and their shapes.
    machine
        Supplies the worker contexts.
    """
    n_tiles = machine.n_tiles
    start, before, total, longest = (np.zeros(n_tiles, np.int64) for _ in range(4))
    n_pieces = np.zeros(n_tiles, np.int64)
    for tile, shared_work, batch in parts:
        n_pieces += np.bincount(tile, minlength=n_tiles)
        total += np.bincount(tile, shared_work.total(batch, machine), n_tiles).astype(np.int64)
        np.maximum.at(longest, tile, shared_work.longest(batch, machine))
        start[tile] = np.maximum(start[tile], shared_work.start_cycles)
        before[tile] = np.maximum(before[tile], shared_work.piece_cycles)
    work = before * worker_share(n_pieces, machine)
    work += np.maximum(longest, worker_share(total, machine))
    return np.asarray(start + machine.n_worker_contexts * work)
