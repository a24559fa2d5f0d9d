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


def _local_response(node: Node, into: Expansion) -> Value:
    """Emit x / (bias + alpha / size · sum of squares of the channels around)^beta."""
    x, size = node.operand(0), node.attributes["size"]
    channels, squares = x.shape[1], unary(into, "square", x)
    before, after = (size - 1) // 2, size // 2
    whole = padded(into, squares, 1, before, after)
    total = along(into, whole, 1, 0, channels)
    for k in range(1, size):
        total = binary(into, "add", total, along(into, whole, 1, k, k + channels))
    share = binary(into, "multiply", total, scalar(into, node.attributes["alpha"] / size, x))
    base = binary(into, "add", share, scalar(into, node.attributes["bias"], x))
    divisor = binary(into, "power", base, scalar(into, node.attributes["beta"], x))
    return binary(into, "divide", x, divisor)


def _power(into: Expansion, x: Value, p: float) -> Value:
    """Emit |x|^p."""
    if p == 2:
        return unary(into, "square", x)
    size = unary(into, "absolute", x)
    return size if p == 1 else binary(into, "power", size, scalar(into, p, x))


def _root(into: Expansion, x: Value, p: float) -> Value:
    """Emit the p-th root of what is not negative."""
    if p == 1:
        return x
    return unary(into, "sqrt", x) if p == 2 else binary(into, "power", x, scalar(into, 1 / p, x))


def _lp_pool(node: Node, into: Expansion) -> Value:
    """Emit the root of a sum of powers: of an average that counts padding, times the count."""
    x, p = node.operand(0), float(node.attributes.get("p", 2))
    attributes = geometry(node, x.shape[2:], node.attributes["kernel_shape"])
    powers = _power(into, x, p)

    def pooled(images: Value, window: Mapping[str, Any]) -> Value:
        average = into.emit(AVERAGE_POOL, images, counts_padding=True, **window)
        count = prod(window["kernel"])
        return binary(into, "multiply", average, scalar(into, count, x))

    if len(x.shape) == _VOLUME_RANK:
        return _root(into, pooled_volume(into, powers, attributes, pooled), p)
    total = pooled(as_images(into, powers), attributes)
    return restored(into, _root(into, total, p), len(x.shape))


def _global_lp_pool(node: Node, into: Expansion) -> Value:
    x, p = node.operand(0), float(node.attributes.get("p", 2))
    total = reduced(into, "sum", _power(into, x, p), range(2, len(x.shape)))
    return _root(into, total, p)


def _hard_max(node: Node, into: Expansion) -> Value:
    """Emit 1 at the first largest element of an axis, and 0 elsewhere."""
    x = node.operand(0)
    axis = node.axis(node.attributes["axis"], len(x.shape))
    shape = x.shape
    if node.version < 13:  # everything from the axis on is one
        x = reshape(into, x, (prod(shape[:axis]), prod(shape[axis:])))
        axis = 1
    n = x.shape[axis]
    largest = reduced(into, "maximum", x, [axis])
    is_largest = binary(into, "equal", x, largest)
    counted = (-1, *(1,) * (len(x.shape) - axis - 1))
    places = into.constant(np.arange(n, dtype=np.int32).reshape(counted), "places")
    past = into.constant(np.array(n, np.int32), "past")
    found = chosen(into, is_largest, places, past)
    first = reduced(into, "minimum", found, [axis])
    out = into.emit(CAST, binary(into, "equal", places, first), dtype=x.dtype)
    return reshape(into, out, shape)


RECORDS = (
    Operator(name="GlobalLpPool", decompose=_global_lp_pool),
    Operator(name="Hardmax", decompose=_hard_max),
    Operator(name="LRN", decompose=_local_response),
    Operator(name="LpPool", decompose=_lp_pool),
)
