"""Pooling: maximum, mean or sum over windows."""

from __future__ import annotations

from math import prod

from tilescope.engine.codelets.pool import AVERAGE_POOL, MAX_POOL
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, View, blocks
from tilescope.engine.library.argument_check import check_rank, checked
from tilescope.engine.library.builder import Builder, refuse_float8
from tilescope.engine.library.elementwise import in_one, row_major_copy
from tilescope.engine.library.walk import cut_rows
from tilescope.engine.library.window import Window, clipped, group_size, output_size

__all__ = ["pool"]

#: The vertices' scalar ``divisor`` by kind of pooling.
_KINDS = {"max": 0, "average": 1, "sum": 0}


@checked
def pool(
    builder: Builder, x: View, window: Window, kind: str = "max", *, counts_padding: bool = False
) -> Tensor:
    """Pool over rows and columns.

    Parameters
    ----------
    x
        Shape (images, channels, rows, columns), any layout.
    window
        Geometry; negative padding crops the input.
    kind
        ``max``, ``average`` or ``sum``.
    counts_padding
        Whether an average divides by the whole window at the edges.

    Raises
    ------
    BadGraph
        If the kind is unknown, the tensor is float8 or has another rank, or the window does not
        fit.

    Notes
    -----
    Source: graphcore/poplibs sdk-release-3.4, include/popnn/Pooling.hpp, PoolParams.
    """
    if kind not in _KINDS:
        raise BadGraph(f"Unknown pooling {kind!r}: use one of {', '.join(_KINDS)}")
    if counts_padding and kind != "average":
        raise BadGraph(f"pool: counts_padding has no effect on {kind!r}: expected 'average'")
    refuse_float8("pooling", x)
    check_rank("pool: its input", x, "images, channels, rows, columns")
    n_images, n_channels, height, width = x.shape
    detail: dict[str, object] = {
        "input": list(x.shape),
        "kernel": list(window.kernel),
        "stride": list(window.stride),
    }
    detail["kind"] = kind
    rows, columns = output_size(height, 0, window), output_size(width, 1, window)
    flops = n_images * n_channels * rows * columns * (prod(window.kernel) - (kind != "average"))
    build = builder.inside("pool", "popnn.pooling", detail, flops=flops * x.dtype.is_float)
    size = group_size(n_channels, 16)
    grouped = (n_images, n_channels // size, size, height, width)
    x = in_one(build, x)
    if not x.can_reshape(*grouped) or any(len(d) > 1 for d in x.reshape(*grouped).dims):
        x = row_major_copy(build, x, "rearrange")
    view = x.reshape(*grouped).dim_shuffle(0, 1, 3, 4, 2)
    out = build.graph.add_variable(
        x.dtype, (n_images, n_channels // size, rows, columns, size), "out", build.debug
    )
    build.spread(out, grain=size)
    row = columns * size
    pieces = cut_rows(out.variable, row, rows)
    place = pieces.start
    first_column, place = place % row // size, place // row
    first_row, place = place % rows, place // rows
    n_group, n_image = place % grouped[1], place // grouped[1]
    y0, n_y, shift_y = clipped(first_row, pieces.n_rows, 0, height, window)
    x0, n_x, shift_x = clipped(first_column, pieces.n_columns // size, 1, width, window)
    strides = [dim[0][1] for dim in view.dims]
    start = (
        view.offset
        + n_image * strides[0]
        + n_group * strides[1]
        + y0 * strides[2]
        + x0 * strides[3]
    )
    n = pieces.n_pieces
    fields = {
        "x": blocks(x.variable, start, [n_y, n_x, size], strides[2:], n),
        "out": blocks(
            out.variable,
            pieces.start,
            [pieces.n_rows, pieces.n_columns // size, size],
            [row, size, 1],
            n,
        ),
    }
    scalars = {
        "kernel_height": window.kernel[0],
        "kernel_width": window.kernel[1],
        "stride_y": window.stride[0],
        "stride_x": window.stride[1],
        "dilation_y": window.dilation[0],
        "dilation_x": window.dilation[1],
        "shift_y": shift_y,
        "shift_x": shift_x,
        "divisor": _KINDS[kind] + counts_padding,
    }
    codelet = MAX_POOL if kind == "max" else AVERAGE_POOL
    build.vertices(build.compute_set("pool"), codelet, pieces.tile, fields, scalars)
    out = out.dim_shuffle(0, 1, 4, 2, 3)
    return out.reshape(n_images, n_channels, rows, columns)
