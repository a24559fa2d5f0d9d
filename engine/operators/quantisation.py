"""Quantised tensors: from floats to integers of few bits, and back.

Values are rounded to nearest, ties to even, before the zero point is added, and saturate.
"""

from __future__ import annotations

import numpy as np
from onnx import helper

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.elementwise.cast import CAST
from tilescope.engine.operators.elementwise.choice import chosen
from tilescope.engine.operators.elementwise.elementwise import binary, scalar, unary
from tilescope.engine.operators.movement.extension import EXPAND
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.movement.slicing import along
from tilescope.engine.operators.reduction import reduced

__all__ = [
    "QUANTISATION",
    "RECORDS",
    "aligned",
    "as_type",
    "centred",
    "dequantised",
    "quantised",
    "quantised_by_range",
]

#: What QuantizeLinear makes where neither a zero point nor an attribute says another type.
_DEFAULT = "uint8"


def as_type(expansion: Expansion, x: Value, dtype: str) -> Value:
    """Emit a cast, unless the operand has the type already."""
    return x if x.dtype == dtype else expansion.emit(CAST, x, dtype=dtype)


def quantised(expansion: Expansion, x: Value, zero: Value | None, dtype: str) -> Value:
    """Emit the integers nearest to floats, plus a zero point, limited to those of a type."""
    if dtype.startswith("float8"):
        return as_type(expansion, x, dtype)
    x = unary(expansion, "nearby_int", as_type(expansion, x, "float32"))
    if zero is not None and (zero.known is None or zero.known.any()):
        x = binary(expansion, "add", x, as_type(expansion, zero, "float32"))
    limits = np.iinfo(dtype)
    x = binary(expansion, "maximum", x, scalar(expansion, limits.min, x))
    x = binary(expansion, "minimum", x, scalar(expansion, limits.max, x))
    return as_type(expansion, x, dtype)


def centred(expansion: Expansion, x: Value, zero: Value | None) -> Value:
    """Emit quantised values as floats, without their zero point: exact up to 24 bits."""
    x = as_type(expansion, x, "float32")
    if zero is None or (zero.known is not None and not zero.known.any()):
        return x
    return binary(expansion, "subtract", x, as_type(expansion, zero, "float32"))


def dequantised(expansion: Expansion, x: Value, scale: Value, zero: Value | None) -> Value:
    """Emit the floats that quantised values stand for, in single precision."""
    return binary(
        expansion, "multiply", centred(expansion, x, zero), as_type(expansion, scale, "float32")
    )


def aligned(node: Node, expansion: Expansion, values: Value | None) -> Value | None:
    """Emit scales or zero points in a shape that broadcasts: one, one per slice, or per block.

    Raises
    ------
    BadModel
        When their shape is neither.
    """
    x = node.operand(0)
    if values is None or values.shape == ():
        return values
    block = node.attributes.get("block_size", 0)
    if values.shape == (1,) and not block:
        return reshape(expansion, values, ())
    axis = node.axis(node.attributes.get("axis", 1), len(x.shape))
    size = x.shape[axis]
    if not block and values.shape == (size,):
        return reshape(expansion, values, (size, *(1,) * (len(x.shape) - axis - 1)))
    expected = (*x.shape[:axis], -(-size // block), *x.shape[axis + 1 :]) if block > 0 else (size,)
    if block <= 0 or values.shape != expected:
        raise BadModel(
            f"{node}: {values.name!r} has shape {values.shape}: expected () or {expected} for"
            f" {x.name!r} of shape {x.shape}, axis {axis} and block_size {block}"
        )
    n_blocks = expected[axis]
    apart = reshape(expansion, values, (*expected[: axis + 1], 1, *expected[axis + 1 :]))
    wide = (*expected[: axis + 1], block, *expected[axis + 1 :])
    repeated = expansion.emit(EXPAND, apart, expansion.constant(np.array(wide, np.int64), "blocks"))
    flat = (*expected[:axis], n_blocks * block, *expected[axis + 1 :])
    return along(expansion, reshape(expansion, repeated, flat), axis, 0, size)


def _type_of(node: Node, key: str) -> str | None:
    """Return the element type that an attribute names; None for 0, which leaves it open."""
    number = node.attributes.get(key, 0)
    return np.dtype(helper.tensor_dtype_to_np_dtype(number)).name if number else None


def _quantize(node: Node, expansion: Expansion) -> Value:
    x, scale, zero = node.operand(0), node.operand(1), node.optional(2)
    stated = _type_of(node, "output_dtype")
    dtype = zero.dtype if zero is not None else stated or _DEFAULT
    if stated not in (None, dtype):
        raise BadModel(f"{node}: output_dtype is {stated}, but its zero point is {dtype}")
    if dtype.startswith("float8") and not node.attributes.get("saturate", 1):
        raise BadModel(f"{node} makes {dtype} without saturation; the machine saturates")
    if np.dtype(dtype).kind not in "iu" and not dtype.startswith("float8"):
        raise BadModel(f"{node} makes {dtype}, which is not supported yet")
    # ONNX divides in the type of the scale, unless the node says another.
    precision = _type_of(node, "precision") or scale.dtype
    factor = aligned(node, expansion, as_type(expansion, scale, precision))
    assert factor is not None
    shares = binary(expansion, "divide", as_type(expansion, x, precision), factor)
    return quantised(expansion, shares, aligned(node, expansion, zero), dtype)


def _dequantize(node: Node, expansion: Expansion) -> Value:
    x, scale = node.operand(0), node.operand(1)
    factor, zero = (aligned(node, expansion, value) for value in (scale, node.optional(2)))
    assert factor is not None
    if x.dtype.startswith("float8"):
        zero = None  # ONNX has no other zero point than 0 for them
    dtype = _type_of(node, "output_dtype") or scale.dtype
    return as_type(expansion, dequantised(expansion, x, factor, zero), dtype)


def quantised_by_range(expansion: Expansion, x: Value) -> tuple[Value, Value, Value]:
    """Emit values of 8 bits, the scale and the zero point, all from the range of a tensor."""
    axes = range(len(x.shape))
    limit = scalar(expansion, 0, x)
    low = binary(
        expansion, "minimum", reshape(expansion, reduced(expansion, "minimum", x, axes), ()), limit
    )
    high = binary(
        expansion, "maximum", reshape(expansion, reduced(expansion, "maximum", x, axes), ()), limit
    )
    span = binary(expansion, "subtract", high, low)
    # Source: onnxruntime, core/util/qmath.h, GetQuantizationParameter: a scale of 1 where all
    # values are 0.
    share = binary(expansion, "divide", span, scalar(expansion, 255, x))
    scale = chosen(
        expansion, binary(expansion, "equal", span, limit), scalar(expansion, 1, x), share
    )
    zero = quantised(
        expansion,
        unary(expansion, "negate", binary(expansion, "divide", low, scale)),
        None,
        "uint8",
    )
    return quantised(expansion, binary(expansion, "divide", x, scale), zero, "uint8"), scale, zero


#: From floats to integers, and back.
QUANTISATION = (
    Operator(name="DequantizeLinear", decompose=_dequantize),
    Operator(name="QuantizeLinear", decompose=_quantize),
)

RECORDS = (
    *QUANTISATION,
    Operator(
        name="DynamicQuantizeLinear",
        decompose=lambda node, expansion: quantised_by_range(expansion, node.operand(0)),
    ),
)
