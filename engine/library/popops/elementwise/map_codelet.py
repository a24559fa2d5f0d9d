"""A user's codelet on tensors, element by element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View, dtype_of
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import (
    row_major_copy,
    similar,
    vector_elements,
)
from tilescope.engine.library.walk import Walk, cut_rows, joint_walks

__all__ = ["map_codelet"]


@checked
def map_codelet(
    builder: Builder,
    codelet: Codelet,
    operands: Sequence[View],
    *,
    dtype: str = "",
    scalars: Mapping[str, float] | None = None,
    name: str = "",
) -> tuple[Tensor, ...]:
    """Return what a codelet computes of tensors, element by element.

    Vertices lie on the tiles of the first operand, which they read in place, and share its elements
    among the workers of a tile.

    Parameters
    ----------
    builder
        Target of the program.
    codelet
        Its fields are vectors of one length: one that it reads per operand, in their order, and one
        that it writes per result.
    operands
        Tensors that broadcast to one shape.
    dtype
        Type of the results; that of the first operand if empty.
    scalars
        Of the codelet, by name.
    name
        Of results and compute set; the codelet's if empty.

    Returns
    -------
    tuple of Tensor
        One per field that the codelet writes.

    Raises
    ------
    BadGraph
        When the fields are not vectors, or not as many as the operands, or shapes do not broadcast.
    """
    read = [field.name for field in codelet.fields if not field.is_written]
    written = [field.name for field in codelet.fields if field.is_written]
    if any(field.kind != "vector" for field in codelet.fields) or not written:
        raise BadGraph(
            f"Codelet {codelet.name!r} does not work element by element: its fields must be"
            " vectors, of which it writes one or more"
        )
    if len(operands) != len(read) or not operands:
        raise BadGraph(
            f"Codelet {codelet.name!r} reads {len(read)} fields, and map_codelet got"
            f" {len(operands)} operands: give one per field"
        )
    label = name or codelet.name
    try:
        shape = np.broadcast_shapes(*(x.shape for x in operands))
    except ValueError:
        shapes = ", ".join(str(x.shape) for x in operands)
        raise BadGraph(
            f"Operands of {label!r} do not broadcast: their shapes are {shapes}"
        ) from None
    builder = builder.inside(label, codelet.name)
    kind = dtype_of(dtype) if dtype else operands[0].dtype
    out = similar(builder, label, operands, shape, kind)
    walk = _plain_walk(operands, out)
    if walk is None:
        copies = [row_major_copy(builder, x.broadcast_to(shape), "rearrange") for x in operands]
        out = similar(builder, label, copies, shape, kind)
        walk = _plain_walk(copies, out)
        assert walk is not None, "row-major operands are compatible with the result"
    others = [builder.graph.clone(out, field, debug=builder.debug) for field in written[1:]]
    rectangles = cut_rows(out.variable, 1, out.n_elements)
    sizes = rectangles.n_rows * rectangles.n_columns
    grain = vector_elements(builder.tiles.machine, kind)
    is_shared = not (codelet.is_supervisor or codelet.is_multi_vertex)
    n_workers = builder.tiles.machine.n_worker_contexts if is_shared else 1
    piece, begin, size = _among_workers(sizes, grain, n_workers)
    starts = walk.starts(rectangles.start[piece] + begin)
    tensors = [*walk.tensors[:-1], out, *others]
    starts += [starts[-1]] * len(others)
    fields = {
        field: blocks(tensor.variable, start, [size], [1], int(size.size))
        for field, tensor, start in zip([*read, *written], tensors, starts, strict=True)
    }
    by_name = {field.name: fields[field.name] for field in codelet.fields}
    builder.vertices(
        builder.compute_set(label), codelet, rectangles.tile[piece], by_name, scalars or {}
    )
    return out, *others


def _plain_walk(operands: Sequence[View], out: Tensor) -> Walk | None:
    """Return the walk of operands and result if all of them are contiguous runs; else None."""
    walks = joint_walks(operands, out)
    return walks[0] if walks is not None and len(walks) == 1 and walks[0].is_plain else None


def _among_workers(
    sizes: NDArray[np.int64], grain: int, n_workers: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Divide intervals into parts of whole vectors: interval, begin and size of every part."""
    n_vectors = -(-sizes // grain)
    n_parts = np.minimum(n_vectors, n_workers)
    piece = np.repeat(np.arange(sizes.size), n_parts)
    part = np.arange(piece.size) - np.repeat(np.cumsum(n_parts) - n_parts, n_parts)
    whole, parts = n_vectors[piece], n_parts[piece]
    edges = [part * whole // parts, (part + 1) * whole // parts]
    begin, end = (np.minimum(edge * grain, sizes[piece]) for edge in edges)
    return piece, begin, end - begin
