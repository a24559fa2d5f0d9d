"""Gradients of pools with respect to their input."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popnn.pool_gradient import (
    MAX_POOL_GRADIENT,
    MAX_POOL_GRADIENT_SCALE,
    SUM_POOL_GRADIENT,
)
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT16, FLOAT32, Tensor, View
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.library.argument_check import check_rank, checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.pool_partition import (
    PartitionedPass,
    WindowElements,
    channels_side_by_side,
    choose_partition,
    in_groups,
)
from tilescope.engine.library.popops.elementwise.map import map_expression, operand
from tilescope.engine.library.popops.elementwise.operations import (
    binary,
    copy_to,
)
from tilescope.engine.library.window import Window, group_size, output_size

__all__ = ["average_pool_input_gradient", "max_pool_input_gradient"]

Counts = NDArray[np.int64]


@checked
def max_pool_input_gradient(
    builder: Builder,
    x: View,
    pooled: View,
    gradient: View,
    window: Window,
    *,
    use_scaled_gradient: bool = False,
) -> Tensor:
    """Return the gradient of the input of a maximum pool.

    Parameters
    ----------
    builder
        Target of the program.
    x
        The input of `pool`: shape (images, channels, rows, columns), float16 or float32.
    pooled
        Its result.
    gradient
        Gradient of the result, of its shape and type.
    window
        Geometry, as for `pool`. Elements beyond the last window, as of a result that is rounded
        down, and cropped ones get 0; a window may reach into the padding after the input.
    use_scaled_gradient
        Whether elements of a window that equal its maximum share the gradient evenly. By default
        every one of them gets the whole, as in PopLibs.

    Returns
    -------
    Tensor
        Of the shape and type of `x`.

    Raises
    ------
    BadGraph
        If a tensor has another rank, shape or type, or the window does not fit.

    Notes
    -----
    An element adds the gradients of the windows whose maximum it equals, in order of their taps.
    Source: graphcore/poplibs sdk-release-3.4, lib/popnn/Pooling.cpp, poolInputGradientImpl.
    """
    name = "max_pool_input_gradient"
    check_rank(f"{name}: its input", x, "images, channels, rows, columns")
    _check_type(name, x)
    shape = _result_shape(x.shape, window)
    for view in (pooled, gradient):
        _check_result(name, view, shape, x)
    build = _inside(builder, "max", x.shape, window)
    if use_scaled_gradient:
        gradient = binary(build, "multiply", gradient, _scale(build, x, pooled, window))
    # PopLibs brings it to the layout of the result first, which it meets in the vertices.
    arranged = build.graph.clone(pooled, "gradsRearranged", debug=build.debug)
    copy_to(build, gradient, arranged, "gradsRearranged")
    operands = {"x": x, "pooled": pooled, "gradient": arranged}
    return _add(build, MAX_POOL_GRADIENT, operands, x.shape, window)


@checked
def average_pool_input_gradient(
    builder: Builder,
    gradient: View,
    shape: Sequence[int],
    window: Window,
    *,
    kind: str = "average",
    counts_padding: bool = False,
) -> Tensor:
    """Return the gradient of the input of an average or sum pool.

    Parameters
    ----------
    builder
        Target of the program.
    gradient
        Gradient of the result of `pool`: shape (images, channels, rows, columns), float16 or
        float32.
    shape
        Shape of the input.
    window
        Geometry, as for `pool`.
    kind
        ``average`` or ``sum``.
    counts_padding
        Whether the average divided by the whole window at the edges.

    Returns
    -------
    Tensor
        Of the given shape and the type of the gradient.

    Raises
    ------
    BadGraph
        If the kind is unknown, the gradient has another rank, shape or type, or the window does
        not fit.

    Notes
    -----
    The gradient of an average is scaled first. Then every element adds the gradients of the windows
    that hold it, in order of their taps. Where one window covers the whole input, its gradient is
    copied to all elements.
    Source: graphcore/poplibs sdk-release-3.4, lib/popnn/Pooling.cpp, poolInputGradientImpl.
    """
    name = "average_pool_input_gradient"
    if kind not in ("average", "sum"):
        raise BadGraph(f"{name}: unknown kind {kind!r}: use average or sum")
    if counts_padding and kind != "average":
        raise BadGraph(f"{name}: counts_padding has no effect on {kind!r}: expected 'average'")
    size = tuple(int(n) for n in shape)
    if len(size) != 4 or min(size) < 1:
        raise BadGraph(
            f"{name}: the shape of the input is {size}: expected four positive integers (images,"
            " channels, rows, columns)"
        )
    _check_type(name, gradient)
    _check_result(name, gradient, _result_shape(size, window), gradient)
    build = _inside(builder, kind, size, window)
    if kind == "average":
        gradient = _divided(build, gradient, size, window, counts_padding=counts_padding)
    is_whole = window.kernel == size[2:] and window.dilation == (1, 1)
    if is_whole and not any((*window.padding_before, *window.padding_after)):
        out = build.graph.add_variable(gradient.dtype, size, "out", build.debug)
        build.spread(out, grain=_group(size))
        copy_to(build, gradient.broadcast_to(size), out, "broadcast")
        return out
    return _add(build, SUM_POOL_GRADIENT, {"gradient": gradient}, size, window)


def _check_type(name: str, x: View) -> None:
    if x.dtype not in (FLOAT16, FLOAT32):
        raise BadGraph(f"{name}: {x.name!r} is {x.dtype}: expected float16 or float32; cast it")


def _result_shape(shape: tuple[int, ...], window: Window) -> tuple[int, ...]:
    field = (output_size(shape[2 + d], d, window) for d in (0, 1))
    return (*shape[:2], *field)


def _check_result(name: str, view: View, shape: tuple[int, ...], like: View) -> None:
    """Raise BadGraph unless a tensor has the shape of a pool's result and the input's type.

    Raises
    ------
    BadGraph
        If it has not.
    """
    if view.shape != shape or view.dtype != like.dtype:
        raise BadGraph(
            f"{name}: {view.name!r} is {view.dtype} {view.shape}: expected {like.dtype} {shape},"
            " the result of the pool"
        )


def _inside(builder: Builder, kind: str, shape: tuple[int, ...], window: Window) -> Builder:
    detail: dict[str, object] = {
        "input": list(shape),
        "kernel": list(window.kernel),
        "stride": list(window.stride),
        "kind": kind,
    }
    return builder.inside("poolGradient", "popnn.poolInputGradient", detail)


def _group(shape: tuple[int, ...]) -> int:
    return group_size(shape[1], 16)


def _taps(size: int, d: int, window: Window, *, counts_padding: bool) -> Counts:
    """Return the elements that every window along a dimension holds: ndarray of int64."""
    count = output_size(size, d, window)
    if counts_padding:
        return np.full(count, window.kernel[d], np.int64)
    begin = np.arange(count) * window.stride[d] - window.padding_before[d]
    position = begin[:, None] + np.arange(window.kernel[d]) * window.dilation[d]
    return np.asarray(((position >= 0) & (position < size)).sum(axis=1))


def _divided(
    builder: Builder,
    gradient: View,
    shape: tuple[int, ...],
    window: Window,
    *,
    counts_padding: bool,
) -> Tensor:
    """Return a gradient divided by the elements of every window."""
    rows, columns = (_taps(shape[2 + d], d, window, counts_padding=counts_padding) for d in (0, 1))
    count = np.outer(rows, columns)
    if (count == count[0, 0]).all():
        scale = 1 / max(int(count[0, 0]), 1)
        return map_expression(builder, operand(0) * scale, [gradient])
    scales = np.divide(1, count, out=np.zeros(count.shape), where=count > 0)
    by_window = builder.constant(scales[None, None], "scaleTensor", gradient.dtype)
    return binary(builder, "multiply", gradient, by_window)


def _scale(builder: Builder, x: View, pooled: View, window: Window) -> Tensor:
    """Return 1 over the elements of every window that equal its maximum."""
    reach = WindowElements(window, x.shape[2:])
    scale = PartitionedPass(pooled.shape, window, MAX_POOL_GRADIENT_SCALE, reach, {"divisor": 0})
    flops = pooled.n_elements * (math.prod(window.kernel) - 1)
    return _add_pass(builder, scale, {"x": x, "pooled": pooled}, "poolScale", flops)


@dataclass(frozen=True)
class _Windows:
    """The windows that reach elements of a pool's input."""

    window: Window
    n_windows: tuple[int, ...]

    def __call__(self, first: Counts, count: Counts, d: int, /) -> tuple[Counts, Counts, Counts]:
        """Return the first window, how many there are, and where the first element is in it.

        There is at least one window, which may not hold an element.
        """
        window, n_windows = self.window, self.n_windows[d]
        stride, reach = window.stride[d], (window.kernel[d] - 1) * window.dilation[d]
        position = first + window.padding_before[d]
        start = np.clip(-((reach - position) // stride), 0, n_windows - 1)
        stop = np.clip((position + count - 1) // stride + 1, start + 1, n_windows)
        return start, stop - start, position - start * stride


def _add_pass(
    builder: Builder,
    pool_pass: PartitionedPass,
    operands: Mapping[str, View],
    name: str,
    flops: int,
) -> Tensor:
    """Add a pass on the partition with the fewest cycles; return its result."""
    dtype = next(iter(operands.values())).dtype
    side_by_side = math.gcd(*(channels_side_by_side(x) for x in operands.values()))
    _, partition = choose_partition(builder.tiles, pool_pass, dtype, side_by_side)
    sources = {field: in_groups(builder, x, partition.group) for field, x in operands.items()}
    inner = builder.inside("pass", "popnn.poolInputGradient", flops=flops)
    out = pool_pass.add_to(inner, partition, sources, name)
    return out.dim_shuffle(0, 1, 4, 2, 3).reshape(*pool_pass.shape)


def _add(
    builder: Builder,
    codelet: Codelet,
    operands: Mapping[str, View],
    shape: tuple[int, ...],
    window: Window,
) -> Tensor:
    """Add the pass backward; return the gradient of an input of a shape."""
    windows = _Windows(window, operands["gradient"].shape[2:])
    pool_pass = PartitionedPass(shape, window, codelet, windows)
    rows, columns = (_taps(shape[2 + d], d, window, counts_padding=False) for d in (0, 1))
    flops = shape[0] * shape[1] * int(rows.sum()) * int(columns.sum())
    return _add_pass(builder, pool_pass, operands, "poolGradient", flops)
