"""Histograms of all elements of a tensor.

As in graphcore/poplibs sdk-release-3.4, lib/popops/GatherStatistics.cpp: every tile counts the
elements that it holds, and the counts are added.
"""

from __future__ import annotations

import numpy as np

from tilescope.engine.codelets.popops.reduction.histogram import HISTOGRAM
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT16, FLOAT32, INT32, Tensor, View
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import cast, row_major_copy
from tilescope.engine.library.popops.reduction.reduce import reduce
from tilescope.engine.library.walk import cut_rows

__all__ = ["histogram"]


@checked
def histogram(builder: Builder, x: View, levels: View, *, absolute: bool = False) -> Tensor:
    """Return how many elements lie below, between and above levels.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16 or float32, any shape and layout.
    levels
        Ascending limits of the same type, shape (n,). An element that equals a level lies above.
    absolute
        Whether the absolute values of the elements are counted.

    Returns
    -------
    Tensor
        int32, shape (n + 1,).

    Raises
    ------
    BadGraph
        If the types differ or are not supported, or the levels have several dimensions.
    """
    if x.dtype not in (FLOAT16, FLOAT32):
        raise BadGraph(f"histogram: {x.name!r} is {x.dtype}: expected float16 or float32; cast it")
    if levels.dtype != x.dtype or len(levels.shape) != 1:
        raise BadGraph(
            f"histogram: the levels {levels.name!r} are {levels.dtype} of shape {levels.shape}:"
            f" expected {x.dtype} in one dimension"
        )
    n_levels = levels.shape[0]
    detail = {"shape": list(x.shape), "levels": n_levels, "absolute": absolute}
    flops = x.n_elements * (1 + absolute)
    build = builder.inside("histogram", "popops.histogram", detail, flops=flops)
    is_whole = isinstance(x, Tensor) and x.n_elements == x.variable.n_elements
    strides = [] if not is_whole else [stride for _, stride in x.atoms]  # type: ignore[union-attr]
    # The order of the elements does not matter, as long as each occurs once.
    if not is_whole or 0 in strides:
        x = row_major_copy(build, x, "rearrange")
    assert isinstance(x, Tensor)
    if not isinstance(levels, Tensor) or not levels.is_contiguous:
        levels = row_major_copy(build, levels, "levels")
    rows_by_tile = cut_rows(x.variable, 1, x.n_elements)
    n, n_counts = rows_by_tile.n_pieces, n_levels + 1
    counts = build.graph.add_variable(FLOAT32, (n, n_counts), "counts", build.debug)
    build.graph.set_tile_mapping(counts, np.arange(n) * n_counts, rows_by_tile.tile)
    fields = {
        "data": blocks(x.variable, rows_by_tile.start, [rows_by_tile.n_rows], [1], n),
        "limits": blocks(levels.variable, levels.offset, [n_levels], [1], n),
        "histogram": blocks(counts.variable, np.arange(n) * n_counts, [n_counts], [1], n),
    }
    compute_set = build.compute_set("histogram")
    scalars = {"is_absolute": int(absolute)}
    build.vertices(compute_set, HISTOGRAM, rows_by_tile.tile, fields, scalars)
    # As integers: sums of many counts are not exact as floats.
    integer_counts = cast(build, counts, INT32)
    return (
        integer_counts.reshape(n_counts)
        if n == 1
        else reduce(build, "sum", integer_counts, [0]).reshape(n_counts)
    )
