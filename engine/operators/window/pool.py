"""Pools over windows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.popnn.pool import pool
from tilescope.engine.library.popnn.pool_gradient import (
    average_pool_input_gradient,
    max_pool_input_gradient,
)
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.movement.layout import full
from tilescope.engine.operators.movement.slicing import padded
from tilescope.engine.operators.parts import window
from tilescope.engine.operators.window.pool_indices import largest_places
from tilescope.engine.operators.window.volume import pooled_volume
from tilescope.engine.operators.window.window import (
    as_images,
    geometry,
    library_window,
    restored,
    window_shape,
    windows,
)

__all__ = ["AVERAGE_POOL", "MAX_POOL", "RECORDS", "average_pooled"]

Arrays = Sequence[NDArray[Any]]


def _pool_type(node: Node) -> list[tuple[tuple[int, ...], str]]:
    x = node.operand(0)
    return [((*x.shape[:2], *window_shape(x.shape[2:], node.attributes)), x.dtype)]


def _max_pool_array(node: Node, arrays: Arrays) -> list[NDArray[Any]]:
    (x,) = arrays
    lowest = -np.inf if np.issubdtype(x.dtype, np.floating) else np.iinfo(x.dtype).min
    return [windows(x, node.attributes, lowest).max(axis=(4, 5))]


def _average_pool_array(node: Node, arrays: Arrays) -> list[NDArray[Any]]:
    (x,) = arrays
    total = windows(x, node.attributes, 0).sum(axis=(4, 5))
    if node.attributes["counts_padding"]:
        count: Any = math.prod(node.attributes["kernel"])
    else:
        count = windows(np.ones_like(x), node.attributes, 0).sum(axis=(4, 5))
    return [np.asarray(total / count).astype(x.dtype)]


def _lower_pool(lowering: Lowering, op: Operation) -> Tensor:
    return pool(
        lowering.builder,
        lowering.tensor(op.operand(0)),
        library_window(op.attributes),
        "max" if op.operator is MAX_POOL else "average",
        counts_padding=op.attributes.get("counts_padding", False),
    )


def _max_gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    gradient = full(expansion, gradients[0], op.output.shape)
    operands = op.operand(0), op.output, gradient
    return [expansion.emit(MAX_POOL_GRADIENT, *operands, **op.attributes)]


def _max_gradient_array(node: Node, arrays: Arrays) -> list[NDArray[Any]]:
    """Return the gradient; every element that equals the largest of a window gets all of it."""
    x, pooled, gradient = arrays
    lowest = -np.inf
    marks = windows(x, node.attributes, lowest) == pooled[..., None, None]
    return [_spread(node, marks * gradient[..., None, None], x.shape).astype(x.dtype)]


def _spread(node: Node, shares: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the sums of what the windows give to their elements."""
    attributes = node.attributes
    before, after = attributes["padding_before"], attributes["padding_after"]
    sizes = [size + b + a for size, b, a in zip(shape[2:], before, after, strict=True)]
    out = np.zeros((*shape[:2], *(max(s, 0) for s in sizes)), np.float64)
    for tap in np.ndindex(*attributes["kernel"]):
        places = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, s, n in zip(
                tap, attributes["dilation"], attributes["stride"], shares.shape[2:4], strict=True
            )
        )
        out[(slice(None), slice(None), *places)] += shares[..., tap[0], tap[1]]
    inside = tuple(slice(b, b + size) for b, size in zip(before, shape[2:], strict=True))
    return out[(slice(None), slice(None), *inside)]


def _average_gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    gradient = full(expansion, gradients[0], op.output.shape)
    shape = op.operand(0).shape
    return [expansion.emit(AVERAGE_POOL_GRADIENT, gradient, shape=shape, **op.attributes)]


def _average_gradient_array(node: Node, arrays: Arrays) -> list[NDArray[Any]]:
    (gradient,), shape = arrays, node.attributes["shape"]
    count: Any = math.prod(node.attributes["kernel"])
    if not node.attributes["counts_padding"]:
        count = windows(np.ones(shape), node.attributes, 0).sum(axis=(4, 5))
    share = (gradient / count)[..., None, None]
    kernel = tuple(node.attributes["kernel"])
    wide = np.broadcast_to(share, (*share.shape[:4], *kernel))
    return [_spread(node, wide, shape).astype(gradient.dtype)]


def _lower_max_gradient(lowering: Lowering, op: Operation) -> Tensor:
    x, pooled, gradient = (lowering.tensor(value) for value in op.operands)
    window = library_window(op.attributes)
    return max_pool_input_gradient(lowering.builder, x, pooled, gradient, window)


def _lower_average_gradient(lowering: Lowering, op: Operation) -> Tensor:
    return average_pool_input_gradient(
        lowering.builder,
        lowering.tensor(op.operand(0)),
        op.attributes["shape"],
        library_window(op.attributes),
        counts_padding=op.attributes["counts_padding"],
    )


MAX_POOL_GRADIENT = Operator(
    name="max_pool_gradient",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(node.operand(0).shape, node.operand(0).dtype)],
    evaluate=_max_gradient_array,
    lower=_lower_max_gradient,
)
AVERAGE_POOL_GRADIENT = Operator(
    name="average_pool_gradient",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(tuple(node.attributes["shape"]), node.operand(0).dtype)],
    evaluate=_average_gradient_array,
    lower=_lower_average_gradient,
)
MAX_POOL = Operator(
    name="max_pool",
    domain=ENGINE_DOMAIN,
    infer=_pool_type,
    evaluate=_max_pool_array,
    lower=_lower_pool,
    gradient=_max_gradient,
    parts=window,
)
AVERAGE_POOL = Operator(
    name="average_pool",
    domain=ENGINE_DOMAIN,
    infer=_pool_type,
    evaluate=_average_pool_array,
    lower=_lower_pool,
    gradient=_average_gradient,
    parts=window,
)


#: Images, channels, and three spatial dimensions.
_VOLUME_RANK = 5


def _check_padding(node: Node, window: Mapping[str, Any], sizes: Sequence[int]) -> None:
    """Refuse windows that lie in padding only; a dilated one may, with taps on both sides.

    Raises
    ------
    BadModel
        When padding is not smaller than the window, or no tap of a window meets an element.
    """
    # What rounding up adds after does not count: it is no padding of the model's.
    rank, stated = len(window["kernel"]), node.attributes.get("pads", ())
    ends = ([0] * rank + list(stated[len(stated) // 2 :]))[-rank:]
    extents = (1,) * (rank - len(sizes)) + tuple(sizes)
    counts = window_shape(extents, window)
    columns = ("kernel", "dilation", "stride", "padding_before")
    rows = zip(*(window[name] for name in columns), ends, extents, counts, strict=True)
    for kernel, dilation, stride, before, after, size, count in rows:
        extent = (kernel - 1) * dilation + 1
        if max(before, after) >= extent:
            raise BadModel(
                f"{node}: padding of {max(before, after)} is not smaller than its window of"
                f" {extent}, so windows would lie in padding only"
            )
        first = np.arange(count) * stride - before
        # The first tap that is not before the front has to be before the end.
        tap = first + np.maximum(0, -(first // dilation)) * dilation
        if dilation > 1 and (tap >= size).any():
            raise BadModel(
                f"{node}: all {kernel} taps of a window, {dilation} apart, lie in padding of a"
                f" dimension of {size}; use less padding or dilation"
            )


def _max_pool(node: Node, expansion: Expansion) -> Value | tuple[Value, Value]:
    x = node.operand(0)
    attributes = geometry(node, x.shape[2:], node.attributes["kernel_shape"])

    _check_padding(node, attributes, x.shape[2:])

    def pooled(images: Value, window: Mapping[str, Any]) -> Value:
        return expansion.emit(MAX_POOL, images, **window)

    if len(x.shape) == _VOLUME_RANK:
        return pooled_volume(expansion, x, attributes, pooled)
    images = as_images(expansion, x)
    out = restored(expansion, pooled(images, attributes), len(x.shape))
    if node.n_outputs == 1:
        return out
    by_column = bool(node.attributes.get("storage_order", 0))
    elements = largest_places(expansion, images, attributes, is_column_major=by_column)
    return out, restored(expansion, elements, len(x.shape))


def _with_elements(
    node: Node, expansion: Expansion, x: Value, window: dict[str, Any]
) -> tuple[Value, dict[str, Any]]:
    """Emit an input with the node's own padding as zeros, and return the window without it."""
    stated = replace(node, attributes={**node.attributes, "ceil_mode": 0})
    window_geometry = geometry(stated, x.shape[2:], node.attributes["kernel_shape"])
    rank = len(x.shape) - 2
    sides = list(
        zip(
            window_geometry["padding_before"][-rank:],
            window_geometry["padding_after"][-rank:],
            strict=True,
        )
    )
    for d, (before, after) in enumerate(sides):
        x = padded(expansion, x, 2 + d, before, after)
    rest = zip(window["padding_after"], window_geometry["padding_after"], strict=True)
    none = (0,) * len(window["padding_before"])
    left = tuple(full_size - stated_after for full_size, stated_after in rest)
    return x, {**window, "padding_before": none, "padding_after": left}


def average_pooled(node: Node, expansion: Expansion, x: Value) -> Value:
    """Emit means over windows, with the geometry of a node.

    Raises
    ------
    BadModel
        When the geometry is invalid.
    """
    attributes = geometry(node, x.shape[2:], node.attributes["kernel_shape"])
    counts = bool(node.attributes.get("count_include_pad", 0))
    if counts and node.attributes.get("ceil_mode", 0):
        # What the node pads counts, what ceil_mode adds does not: the padding becomes elements.
        x, attributes = _with_elements(node, expansion, x, attributes)
        counts = False

    _check_padding(node, attributes, x.shape[2:])

    def pooled(images: Value, window: Mapping[str, Any]) -> Value:
        return expansion.emit(AVERAGE_POOL, images, counts_padding=counts, **window)

    if len(x.shape) == _VOLUME_RANK:
        return pooled_volume(expansion, x, attributes, pooled)
    return restored(expansion, pooled(as_images(expansion, x), attributes), len(x.shape))


RECORDS = (
    MAX_POOL,
    AVERAGE_POOL,
    MAX_POOL_GRADIENT,
    AVERAGE_POOL_GRADIENT,
    Operator(
        name="AveragePool",
        decompose=lambda node, expansion: average_pooled(node, expansion, node.operand(0)),
    ),
    Operator(name="MaxPool", decompose=_max_pool),
)
