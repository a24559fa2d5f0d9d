"""One-hot encoding of indices.

As in graphcore/poplibs sdk-release-3.4, lib/popops/Encoding.cpp: the result is filled, then every
tile writes the elements that it holds.
"""

from __future__ import annotations

from math import prod
from typing import Any

from tilescope.engine.codelets.popops.slicing.one_hot import ENCODE_ONE_HOT
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View, dtype_of
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.operations import row_major_copy, vector_elements
from tilescope.engine.library.popops.slicing.multi_slice import check_indices, flat_indices
from tilescope.engine.library.walk import cut_rows

__all__ = ["one_hot"]


@checked
def one_hot(
    builder: Builder,
    indices: View,
    depth: int,
    dtype: Any = "float32",
    *,
    on: float = 1.0,
    off: float = 0.0,
) -> Tensor:
    """Return rows that are `on` at an index and `off` elsewhere.

    Parameters
    ----------
    builder
        Target of the program.
    indices
        Any shape, int32. A row without its index, below 0 or beyond the end, is `off` throughout.
    depth
        Elements of a row.
    dtype
        Type of the result.
    on, off
        Values that the type represents.

    Returns
    -------
    Tensor
        The shape of the indices, and the depth.

    Raises
    ------
    BadGraph
        If the depth is less than 1, or a type is not supported.
    """
    check_indices("one_hot", indices)
    if depth < 1:
        raise BadGraph(f"one_hot: the depth is {depth}: expected at least 1")
    kind = dtype_of(dtype)
    if kind.kind == "float8":
        raise BadGraph(f"one_hot: {kind} is not supported; use float16, and cast the result")
    detail = {"indices": list(indices.shape), "depth": depth, "dtype": kind.name}
    build = builder.inside("oneHot", "popops.encodeOneHot", detail, flops=0)
    flat = flat_indices(build, indices)
    n_rows = prod(indices.shape)
    out = build.graph.add_variable(kind, (*indices.shape, depth), "out", build.debug)
    build.spread(out, grain=vector_elements(build.tiles.machine, kind))
    fill(build, out, off)
    rows_by_tile = cut_rows(out.variable, depth, n_rows)
    n = rows_by_tile.n_pieces
    row, column = rows_by_tile.start // depth, rows_by_tile.start % depth
    ((_, stride),) = flat.dims[1]
    if stride != 1 and n_rows > 1:
        flat = row_major_copy(build, flat, "indices")
    fields = {
        "indices": blocks(flat.variable, flat.offset + row, [rows_by_tile.n_rows], [1], n),
        "out": blocks(
            out.variable,
            rows_by_tile.start,
            [rows_by_tile.n_rows, rows_by_tile.n_columns],
            [depth, 1],
            n,
        ),
    }
    scalars = {"offset": column, "value": float(on)}
    build.vertices(build.compute_set("encode"), ENCODE_ONE_HOT, rows_by_tile.tile, fields, scalars)
    return out
