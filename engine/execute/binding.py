"""Bindings: the batches of a compute set as the host computes them, wherever its memory lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.execute.join import Blocks, join
from tilescope.engine.execute.launcher import launch_arrays, launcher_of, rounded_fields
from tilescope.engine.graph import ComputeSet, VertexBatch
from tilescope.engine.graph.deferred import Deferred
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.graph.vertex.regions import Regions
from tilescope.engine.host.jit.entry import Entry
from tilescope.engine.number.grid import Grid

__all__ = ["Binding", "bindings_of"]

#: Products of a convolution in the time of one element: they are computed in vectors.
_PRODUCTS = 8


@dataclass(frozen=True, eq=False)
class Binding(Deferred):
    """One batch as the host computes it, and the launcher that it needs.

    Its vertices name elements of variables, which may lie anywhere in the host's memory.

    Parameters
    ----------
    codelet
        Its codelet; of a stored program, it is looked for where the launcher has no file only.
    launcher_name
        Name of the launcher's code; empty where it has none that lasts.
    hosts, variables
        Type of the host's memory of every field, and the id of its variable.
    rounded
        Written fields that are rounded after every vertex, with their grids.
    arrays
        What the launcher takes besides memories and counters: see `launch_arrays`.
    piece_work : ndarray of int64, shape (n_pieces,)
        Work of every call of the kernel, which is one vertex, or several adjoining ones joined: the
        elements that they touch; of products, those that they write, and an eighth of the products
        and their operands.
    tile : ndarray of int32, shape (n_vertices,)
        Tile of each vertex.
    is_counted, reads_clock, is_multi_vertex
        What the codelet says of its kernel.
    """

    deferred: ClassVar = ("codelet",)

    codelet: Codelet
    launcher_name: str
    hosts: tuple[str, ...]
    variables: tuple[int, ...]
    rounded: tuple[tuple[str, Grid], ...]
    arrays: tuple[NDArray[Any], ...]
    piece_work: NDArray[np.int64]
    tile: NDArray[np.int32]
    is_counted: bool
    reads_clock: bool
    is_multi_vertex: bool
    codelet_name: str
    compute_set_name: str

    def launcher(self) -> Any:
        """Return its launcher."""
        return launcher_of(self.codelet, self.hosts, self.rounded)


def bindings_of(compute_set: ComputeSet) -> list[Binding]:
    """Return the bindings of a compute set's batches.

    Parameters
    ----------
    compute_set
        Its vertices.
    """
    return [_binding(compute_set.name, batch) for batch in compute_set.batches]


def _binding(compute_set_name: str, batch: VertexBatch) -> Binding:
    codelet = batch.codelet
    regions = [batch.fields[field.name] for field in codelet.fields]
    rounded = rounded_fields(codelet, [region.variable.dtype for region in regions])
    blocks = join(
        codelet,
        Blocks(
            [r.start for r in regions],
            [r.size for r in regions],
            [r.stride for r in regions],
            [batch.scalars[scalar.name] for scalar in codelet.kernel_scalars],
            _work(batch, regions),
        ),
    )
    hosts = tuple(region.variable.dtype.host for region in regions)
    parts = list(zip(blocks.start, blocks.size, blocks.stride, strict=True))
    firsts = [region.first for region in regions]
    launcher = launcher_of(codelet, hosts, rounded)
    return Binding(
        codelet,
        launcher.name if isinstance(launcher, Entry) and launcher.lasts else "",
        hosts,
        tuple(region.variable.variable_id for region in regions),
        rounded,
        tuple(launch_arrays(parts, firsts, blocks.scalars)),
        blocks.work,
        batch.tile,
        codelet.is_data_dependent,
        codelet.reads_clock,
        codelet.is_multi_vertex,
        codelet.name,
        compute_set_name,
    )


def _work(batch: VertexBatch, regions: Sequence[Regions]) -> NDArray[np.int64]:
    """Estimate the work of every vertex: see `Binding`. Vertices share the operands of products."""
    elements = np.asarray(sum(map(_by_vertex, regions)), np.int64)
    if batch.codelet.has_products:
        outputs, weights = batch.fields["out"], batch.fields["w"]
        products = outputs.size[:, [1, 3, 4]].prod(axis=1) * weights.n_elements
        operands = elements - outputs.n_elements
        return np.asarray(outputs.n_elements + (operands + products) // _PRODUCTS)
    return elements


def _by_vertex(regions: Regions) -> NDArray[np.int64]:
    """Return the elements of every vertex in a field."""
    if regions.first is None:
        return regions.n_elements
    ends = np.concatenate([[0], np.cumsum(regions.n_elements)])
    return np.diff(ends[regions.first])
