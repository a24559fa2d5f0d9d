"""Pooling: maximum, mean or sum over windows."""

from __future__ import annotations

from math import prod

from tilescope.engine.codelets.popnn.pool import AVERAGE_POOL, MAX_POOL
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT16, FLOAT32, Tensor, View
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.library.argument_check import check_rank, checked
from tilescope.engine.library.builder import Builder, refuse_float8
from tilescope.engine.library.popnn.pool_partition import (
    PartitionedPass,
    WindowElements,
    channels_side_by_side,
    choose_partition,
    in_groups,
    lies_in_groups,
)
from tilescope.engine.library.popnn.pool_pass import PoolPass, choose_passes
from tilescope.engine.library.popops.elementwise.operations import in_one, row_major_copy
from tilescope.engine.library.window import Window, group_size, output_size
from tilescope.engine.options.catalogue import AVAILABLE_MEMORY_PROPORTION

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
    A maximum, mean or sum over a window is that over its columns, and then over its rows. Large
    windows take two passes where that is predicted to be faster, or to fit. An input that passes
    would rearrange, with channels in smaller groups, is read where it lies, in one pass.
    Source: graphcore/poplibs sdk-release-3.4, include/popnn/Pooling.hpp, PoolParams. Assumption:
    two passes; the library's own plans are in one.
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
    codelet = MAX_POOL if kind == "max" else AVERAGE_POOL
    divisor = _KINDS[kind] + counts_padding
    size = group_size(n_channels, 16)
    grouped = (n_images, n_channels // size, size, height, width)
    x = in_one(build, x)
    if not x.can_reshape(*grouped) or any(len(d) > 1 for d in x.reshape(*grouped).dims):
        in_parts = _in_parts(
            build, x, (n_images, n_channels, rows, columns), window, codelet, divisor
        )
        if in_parts is not None:
            return in_parts
        x = row_major_copy(build, x, "rearrange")
    out = x.reshape(*grouped).dim_shuffle(0, 1, 3, 4, 2)
    passes = choose_passes(build.tiles, out.shape, x.dtype, window, codelet)
    for pool_pass in passes:
        out = _add_pass(build, out, pool_pass, divisor)
    return out.dim_shuffle(0, 1, 4, 2, 3).reshape(n_images, n_channels, rows, columns)


def _in_parts(
    builder: Builder,
    x: Tensor,
    shape: tuple[int, ...],
    window: Window,
    codelet: Codelet,
    divisor: int,
) -> Tensor | None:
    """Return a pool in parts that read the input where it lies; None if they do not fit."""
    if x.dtype not in (FLOAT16, FLOAT32):
        return None
    reach = WindowElements(window, x.shape[2:])
    pool_pass = PartitionedPass(shape, window, codelet, reach, {"divisor": divisor})
    side_by_side = channels_side_by_side(x)
    cost, partition = choose_partition(builder.tiles, pool_pass, x.dtype, side_by_side)
    most_bytes = AVAILABLE_MEMORY_PROPORTION * builder.tiles.machine.allocatable_bytes
    if not lies_in_groups(x, partition.group) or cost.n_bytes > most_bytes:
        return None
    source = in_groups(builder, x, partition.group)
    out = pool_pass.add_to(builder, partition, {"x": source}, "pool")
    return out.dim_shuffle(0, 1, 4, 2, 3).reshape(*shape)


def _add_pass(build: Builder, x: Tensor, pool_pass: PoolPass, divisor: int) -> Tensor:
    """Add a pass over images in groups of channels; return its result, in the same order."""
    out = build.graph.add_variable(x.dtype, pool_pass.out_shape, pool_pass.name, build.debug)
    build.spread(out, grain=x.shape[-1])
    parts = pool_pass.parts(out.variable)
    strides = [dim[0][1] for dim in x.dims]
    n = parts.pieces.n_pieces
    fields = {
        "x": blocks(x.variable, x.offset + parts.first_of(strides), parts.x_size, strides[2:], n),
        "out": blocks(out.variable, parts.pieces.start, parts.out_size, pool_pass.out_strides, n),
    }
    scalars = {**pool_pass.scalars, **parts.shifts, "divisor": divisor}
    compute_set = build.compute_set(pool_pass.compute_set)
    build.vertices(compute_set, pool_pass.codelet, parts.pieces.tile, fields, scalars)
    return out
