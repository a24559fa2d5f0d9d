"""Gathers and scatters of elements and of slices, by their indices in one dimension or several.

As in graphcore/poplibs sdk-release-3.4, lib/popops: GatherInternal.cpp, which makes a gather a
multi-slice, and Scatter.cpp. Elements along a dimension are a multi-slice with one group per row,
as ``groupedMultiSlice`` in DynamicSlice.cpp.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tilescope.engine.codelets.popops.slicing.multi_slice import MULTI_UPDATE, MULTI_UPDATE_OP
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.library.argument_check import check_dim, checked
from tilescope.engine.library.builder import Builder, refuse_float8
from tilescope.engine.library.popops.elementwise.operations import (
    binary,
    in_one,
    rearranged,
    row_major_copy,
)
from tilescope.engine.library.popops.slicing.multi_slice import (
    check_indices,
    flat_indices,
    grouped_slice,
)
from tilescope.engine.library.popops.slicing.multi_update import grouped_update

__all__ = ["gather_elements", "gather_nd", "scatter_elements", "scatter_nd"]


def _update_of(operation: str) -> tuple[Codelet, float | None]:
    if operation == "none":
        return MULTI_UPDATE, None
    if operation not in MULTI_UPDATE_OP:
        raise BadGraph(
            f"Unknown scatter operation {operation!r}; use none, {', '.join(MULTI_UPDATE_OP)}"
        )
    return MULTI_UPDATE_OP[operation], 1.0


def _by_row(builder: Builder, x: View, dim: int, n_other: int, name: str) -> Tensor:
    """Return a row-major copy as (rows, dim): a row per element of the other dimensions."""
    other_dims = [d for d in range(len(x.shape)) if d != dim]
    turned = in_one(builder, x, name).dim_shuffle(*other_dims, dim)
    return row_major_copy(builder, turned, name).reshape(n_other, x.shape[dim])


def _from_rows(x: Tensor, shape: tuple[int, ...], dim: int) -> Tensor:
    """Return rows as a tensor of a shape, as `_by_row` has taken it apart."""
    other_dims = [d for d in range(len(shape)) if d != dim]
    turned = x.reshape(*(shape[d] for d in other_dims), shape[dim])
    return turned.dim_shuffle(*np.argsort([*other_dims, dim]).tolist())


def _check_elements(subject: str, x: View, indices: View, dim: int) -> None:
    refuse_float8(subject, x)
    check_dim(subject, x, dim)
    check_indices(subject, indices)
    is_like = len(indices.shape) == len(x.shape) and all(
        index_size == x_size or d == dim
        for d, (index_size, x_size) in enumerate(zip(indices.shape, x.shape, strict=True))
    )
    if not is_like:
        raise BadGraph(
            f"{subject}: {indices.name!r} has shape {indices.shape}: expected that of {x.name!r},"
            f" {x.shape}, except in dimension {dim}"
        )


@checked
def gather_elements(builder: Builder, x: View, indices: View, dim: int = 0) -> Tensor:
    """Return elements by their positions along a dimension, as ``numpy.take_along_axis``.

    Parameters
    ----------
    builder
        Target of the program.
    x
        Any layout.
    indices
        Positions, int32: the shape of `x`, except in the dimension. One out of range gives 0.
    dim
        The dimension.

    Raises
    ------
    BadGraph
        If shapes or types are incompatible.
    """
    _check_elements("gather_elements", x, indices, dim)
    detail = {"shape": list(x.shape), "indices": list(indices.shape), "dim": dim}
    build = builder.inside("gather", "popops.gather", detail, flops=0)
    n_rows = x.n_elements // x.shape[dim]
    base = _by_row(build, x, dim, n_rows, "rows").reshape(n_rows, x.shape[dim], 1)
    positions = _by_row(build, indices, dim, n_rows, "indices")
    return _from_rows(grouped_slice(build, base, positions), indices.shape, dim)


@checked
def scatter_elements(
    builder: Builder, x: View, indices: View, updates: View, dim: int = 0, operation: str = "none"
) -> Tensor:
    """Return a copy with elements replaced, or combined, at their positions along a dimension.

    Parameters
    ----------
    builder
        Target of the program.
    x
        Any layout.
    indices, updates
        As for `gather_elements`, and an element for each of the indices.
    dim
        The dimension.
    operation
        ``none``, ``add``, ``multiply``, ``maximum`` or ``minimum``.

    Raises
    ------
    BadGraph
        If shapes or types are incompatible, or the operation is unknown.
    """
    _check_elements("scatter_elements", x, indices, dim)
    codelet, scale = _update_of(operation)
    if updates.shape != indices.shape or updates.dtype != x.dtype:
        raise BadGraph(
            f"scatter_elements: the updates {updates.name!r} are {updates.dtype} of shape"
            f" {updates.shape}: expected {x.dtype} of shape {indices.shape}"
        )
    detail = {"shape": list(x.shape), "indices": list(indices.shape), "dim": dim}
    flops = updates.n_elements * x.dtype.is_float * (scale is not None)
    build = builder.inside("scatter", "popops.scatter", detail, flops=flops)
    n_rows, n_lookups = x.n_elements // x.shape[dim], indices.shape[dim]
    base = _by_row(build, x, dim, n_rows, "out").reshape(n_rows, x.shape[dim], 1)
    positions = _by_row(build, indices, dim, n_rows, "indices")
    new = _by_row(build, updates, dim, n_rows, "updates").reshape(n_rows, n_lookups, 1)
    grouped_update(build, base, positions, new, codelet, scale)
    return _from_rows(base, x.shape, dim)


def _linear(builder: Builder, indices: View, sizes: tuple[int, ...]) -> Tensor:
    """Return the positions in row-major order of indices whose last dimension is a tuple."""
    flat = in_one(builder, indices, "indices")
    last = len(indices.shape) - 1
    graph = builder.graph
    total: Tensor | None = None
    for i in range(len(sizes)):
        part = flat.slice(last, i, i + 1)
        pitch = prod(sizes[i + 1 :])
        if pitch > 1:
            constant = graph.add_constant(np.array([pitch], np.int32), "pitch", debug=builder.debug)
            graph.set_tile_mapping(constant, [0], builder.tiles.ids[:1])
            part = binary(builder, "multiply", part, constant, part.shape)
        total = part if total is None else binary(builder, "add", total, part)
    assert total is not None
    return total


def _check_tuples(subject: str, x: View, indices: View, n_batch: int) -> int:
    """Return the length of the index tuples; raise BadGraph if they do not fit the tensor."""
    refuse_float8(subject, x)
    check_indices(subject, indices)
    length = indices.shape[-1] if indices.shape else 0
    if not 0 <= n_batch < min(len(x.shape), len(indices.shape)):
        raise BadGraph(
            f"{subject}: {n_batch} batch dimensions: expected fewer than the dimensions of"
            f" {x.name!r} and {indices.name!r}"
        )
    if not 1 <= length <= len(x.shape) - n_batch or indices.shape[:n_batch] != x.shape[:n_batch]:
        raise BadGraph(
            f"{subject}: {indices.name!r} of shape {indices.shape} does not index {x.name!r} of"
            f" shape {x.shape}: expected tuples of 1 to {len(x.shape) - n_batch} indices"
        )
    return length


@checked
def gather_nd(builder: Builder, x: View, indices: View, batch_dims: int = 0) -> Tensor:
    """Return slices by tuples of indices into the first dimensions, or those after a batch.

    Parameters
    ----------
    builder
        Target of the program.
    x
        Any layout.
    indices
        Tuples along the last dimension, int32.
    batch_dims
        Leading dimensions that both have in common.

    Returns
    -------
    Tensor
        The shape of the indices without the last dimension, followed by that of a slice.

    Raises
    ------
    BadGraph
        If shapes or types are incompatible.
    """
    length = _check_tuples("gather_nd", x, indices, batch_dims)
    detail = {"shape": list(x.shape), "indices": list(indices.shape), "batch_dims": batch_dims}
    build = builder.inside("gather", "popops.gather", detail, flops=0)
    sizes = x.shape[batch_dims : batch_dims + length]
    slice_shape = x.shape[batch_dims + length :]
    n_groups = prod(x.shape[:batch_dims])
    base = rearranged(build, x, (n_groups, prod(sizes), prod(slice_shape)), "rearrange")
    if any(len(atom_list) > 1 for atom_list in base.dims):
        base = row_major_copy(build, base, "rearrange")
    positions = flat_indices(build, _linear(build, indices, sizes), n_groups)
    out = grouped_slice(build, base, positions)
    return out.reshape(*(indices.shape[:-1] + slice_shape or (1,)))


@checked
def scatter_nd(
    builder: Builder, x: View, indices: View, updates: View, operation: str = "none"
) -> Tensor:
    """Return a copy with slices replaced, or combined, by tuples of indices.

    Parameters
    ----------
    builder
        Target of the program.
    x
        Any layout.
    indices, updates
        Tuples as for `gather_nd`, and a slice for each of them.
    operation
        As for `scatter_elements`.

    Raises
    ------
    BadGraph
        If shapes or types are incompatible, or the operation is unknown.
    """
    length = _check_tuples("scatter_nd", x, indices, 0)
    codelet, scale = _update_of(operation)
    shape = indices.shape[:-1] + x.shape[length:] or (1,)
    if updates.shape != shape or updates.dtype != x.dtype:
        raise BadGraph(
            f"scatter_nd: the updates {updates.name!r} are {updates.dtype} of shape"
            f" {updates.shape}: expected {x.dtype} of shape {shape}"
        )
    detail = {"shape": list(x.shape), "indices": list(indices.shape)}
    flops = updates.n_elements * x.dtype.is_float * (scale is not None)
    build = builder.inside("scatter", "popops.scatter", detail, flops=flops)
    n_lookups, n_columns = prod(indices.shape[:-1]), prod(x.shape[length:])
    out = row_major_copy(build, x, "out")
    new = rearranged(build, updates, (1, n_lookups, n_columns), "updates")
    if any(len(atom_list) > 1 for atom_list in new.dims):
        new = row_major_copy(build, new, "updates")
    positions = flat_indices(build, _linear(build, indices, x.shape[:length]))
    base = out.reshape(1, prod(x.shape[:length]), n_columns)
    grouped_update(build, base, positions, new, codelet, scale)
    return out
