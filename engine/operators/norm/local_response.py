"""Normalisation over neighbouring channels, and pools of powers."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.elementwise.cast import CAST
from tilescope.engine.operators.elementwise.choice import chosen
from tilescope.engine.operators.elementwise.elementwise import binary, scalar, unary
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.movement.slicing import along, padded
from tilescope.engine.operators.reduction import reduced
from tilescope.engine.operators.window.pool import AVERAGE_POOL
from tilescope.engine.operators.window.volume import pooled_volume
from tilescope.engine.operators.window.window import as_images, geometry, restored

__all__ = ["RECORDS"]

#: Images, channels, and three spatial dimensions.
_VOLUME_RANK = 5


def _local_response(node: Node, expansion: Expansion) -> Value:
    """Emit x / (bias + alpha / size · sum of squares of the channels around)^beta."""
    x, size = node.operand(0), node.attributes["size"]
    channels, squares = x.shape[1], unary(expansion, "square", x)
    before, after = (size - 1) // 2, size // 2
    padded_squares = padded(expansion, squares, 1, before, after)
    total = along(expansion, padded_squares, 1, 0, channels)
    for k in range(1, size):
        total = binary(
            expansion, "add", total, along(expansion, padded_squares, 1, k, k + channels)
        )
    share = binary(
        expansion, "multiply", total, scalar(expansion, node.attributes["alpha"] / size, x)
    )
    base = binary(expansion, "add", share, scalar(expansion, node.attributes["bias"], x))
    divisor = binary(expansion, "power", base, scalar(expansion, node.attributes["beta"], x))
    return binary(expansion, "divide", x, divisor)


def _power(expansion: Expansion, x: Value, p: float) -> Value:
    """Emit |x|^p."""
    if p == 2:
        return unary(expansion, "square", x)
    size = unary(expansion, "absolute", x)
    return size if p == 1 else binary(expansion, "power", size, scalar(expansion, p, x))


def _root(expansion: Expansion, x: Value, p: float) -> Value:
    """Emit the p-th root of what is not negative."""
    if p == 1:
        return x
    return (
        unary(expansion, "sqrt", x)
        if p == 2
        else binary(expansion, "power", x, scalar(expansion, 1 / p, x))
    )


def _lp_pool(node: Node, expansion: Expansion) -> Value:
    """Emit the root of a sum of powers: of an average that counts padding, times the count."""
    x, p = node.operand(0), float(node.attributes.get("p", 2))
    attributes = geometry(node, x.shape[2:], node.attributes["kernel_shape"])
    powers = _power(expansion, x, p)

    def pooled(images: Value, window: Mapping[str, Any]) -> Value:
        average = expansion.emit(AVERAGE_POOL, images, counts_padding=True, **window)
        count = prod(window["kernel"])
        return binary(expansion, "multiply", average, scalar(expansion, count, x))

    if len(x.shape) == _VOLUME_RANK:
        return _root(expansion, pooled_volume(expansion, powers, attributes, pooled), p)
    total = pooled(as_images(expansion, powers), attributes)
    return restored(expansion, _root(expansion, total, p), len(x.shape))


def _global_lp_pool(node: Node, expansion: Expansion) -> Value:
    x, p = node.operand(0), float(node.attributes.get("p", 2))
    total = reduced(expansion, "sum", _power(expansion, x, p), range(2, len(x.shape)))
    return _root(expansion, total, p)


def _hard_max(node: Node, expansion: Expansion) -> Value:
    """Emit 1 at the first largest element of an axis, and 0 elsewhere."""
    x = node.operand(0)
    axis = node.axis(node.attributes["axis"], len(x.shape))
    shape = x.shape
    if node.version < 13:  # everything from the axis on is one
        x = reshape(expansion, x, (prod(shape[:axis]), prod(shape[axis:])))
        axis = 1
    n = x.shape[axis]
    largest = reduced(expansion, "maximum", x, [axis])
    is_largest = binary(expansion, "equal", x, largest)
    counted = (-1, *(1,) * (len(x.shape) - axis - 1))
    positions = expansion.constant(np.arange(n, dtype=np.int32).reshape(counted), "places")
    past = expansion.constant(np.array(n, np.int32), "past")
    first_largest = chosen(expansion, is_largest, positions, past)
    first = reduced(expansion, "minimum", first_largest, [axis])
    out = expansion.emit(CAST, binary(expansion, "equal", positions, first), dtype=x.dtype)
    return reshape(expansion, out, shape)


RECORDS = (
    Operator(name="GlobalLpPool", decompose=_global_lp_pool),
    Operator(name="Hardmax", decompose=_hard_max),
    Operator(name="LRN", decompose=_local_response),
    Operator(name="LpPool", decompose=_lp_pool),
)
