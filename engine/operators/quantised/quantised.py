"""Operators on quantised values that onnxruntime's quantiser writes.

They are what ONNX's own operators compute on the floats that the values stand for, quantised again.
Source: onnxruntime, docs/ContribOperators.md, domain com.microsoft.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.ir.schema import version_of, with_defaults
from tilescope.engine.operators.elementwise.activation import sloped
from tilescope.engine.operators.elementwise.choice import chosen
from tilescope.engine.operators.elementwise.elementwise import binary, scalar, unary
from tilescope.engine.operators.fused import MICROSOFT
from tilescope.engine.operators.movement.layout import TRANSPOSE, reshape
from tilescope.engine.operators.movement.slicing import joined
from tilescope.engine.operators.norm.softmax import SOFTMAX
from tilescope.engine.operators.product.product import multiplied
from tilescope.engine.operators.quantisation import (
    QUANTISATION,
    as_type,
    dequantised,
    quantised,
    quantised_by_range,
)
from tilescope.engine.operators.quantised.integer_product import (
    of_matrices,
    qlinear_conv,
    requantised,
)
from tilescope.engine.operators.reduction import reduced
from tilescope.engine.operators.window.pool import average_pooled

__all__ = ["RECORDS", "unpacked"]


def _floats(node: Node, into: Expansion, first: int) -> Value:
    """Emit the floats of three inputs: values, scale and zero point."""
    x, scale, zero = node.operand(first), node.operand(first + 1), node.optional(first + 2)
    if x.dtype not in ("int8", "uint8"):
        raise BadModel(f"{node}: {x.name!r} is {x.dtype}; expected int8 or uint8")
    return dequantised(into, x, _one(into, scale), None if zero is None else _one(into, zero))


def _one(into: Expansion, value: Value) -> Value:
    return reshape(into, value, ()) if value.shape == (1,) else value


def _as_result(node: Node, into: Expansion, x: Value, first: int) -> Value:
    """Emit floats in the scale and with the zero point of two inputs."""
    shares = binary(into, "divide", x, _one(into, node.operand(first)))
    zero = node.optional(first + 1)
    dtype = node.operand(0).dtype if zero is None else zero.dtype
    return quantised(into, shares, None if zero is None else _one(into, zero), dtype)


def _binary(function: str) -> Callable[[Node, Expansion], Value]:
    def decompose(node: Node, into: Expansion) -> Value:
        both = binary(into, function, _floats(node, into, 0), _floats(node, into, 3))
        return _as_result(node, into, both, 6)

    return decompose


def _of_one(
    function: Callable[[Node, Expansion, Value], Value],
) -> Callable[[Node, Expansion], Value]:
    def decompose(node: Node, into: Expansion) -> Value:
        return _as_result(node, into, function(node, into, _floats(node, into, 0)), 3)

    return decompose


def _leaky_relu(node: Node, into: Expansion, x: Value) -> Value:
    return sloped(into, x, scalar(into, node.attributes.get("alpha", 0.01), x))


def _global_average(node: Node, into: Expansion, x: Value) -> Value:
    is_last = node.attributes.get("channels_last", 0)
    axes = range(1, len(x.shape) - 1) if is_last else range(2, len(x.shape))
    return reduced(into, "sum", x, axes, 1 / prod(x.shape[axis] for axis in axes))


def _reduce_mean(node: Node, into: Expansion, x: Value) -> Value:
    rank = len(x.shape)
    axes = sorted({node.axis(axis, rank) for axis in node.attributes.get("axes") or range(rank)})
    mean = reduced(into, "sum", x, axes, 1 / prod(x.shape[axis] for axis in axes))
    if node.attributes.get("keepdims", 1):
        return mean
    return reshape(into, mean, tuple(n for d, n in enumerate(x.shape) if d not in axes))


def _average(node: Node, into: Expansion, x: Value) -> Value:
    if not node.attributes.get("channels_last", 0):
        return average_pooled(node, into, x)
    return _channels_last(into, average_pooled(node, into, _channels_first(into, x)))


def _channels_first(into: Expansion, x: Value) -> Value:
    rank = len(x.shape)
    return into.emit(TRANSPOSE, x, order=(0, rank - 1, *range(1, rank - 1)))


def _channels_last(into: Expansion, x: Value) -> Value:
    return into.emit(TRANSPOSE, x, order=(0, *range(2, len(x.shape)), 1))


def _convolved(node: Node, into: Expansion) -> Value:
    """Emit ONNX's QLinearConv, of images whose channels may come last."""
    usual = with_defaults("QLinearConv", "", version_of("QLinearConv", ""), node.attributes)
    is_last = usual.pop("channels_last", 0)
    x = _channels_first(into, node.operand(0)) if is_last else node.operand(0)
    plain = replace(node, attributes=usual, inputs=(x, *node.inputs[1:]))
    out = qlinear_conv(plain, into)
    return _channels_last(into, out) if is_last else out


def _softmax(node: Node, into: Expansion, x: Value) -> Value:
    axis = node.axis(node.attributes.get("axis", -1), len(x.shape))
    if node.attributes["opset"] >= 13:
        return into.emit(SOFTMAX, x, axis=axis)
    rows = reshape(into, x, (prod(x.shape[:axis]), prod(x.shape[axis:])))
    return reshape(into, into.emit(SOFTMAX, rows, axis=1), x.shape)


def _concat(node: Node, into: Expansion) -> Value:
    """Emit the join of tensors, three inputs each, in the scale of the first two inputs."""
    parts = [_floats(node, into, i) for i in range(2, len(node.inputs), 3)]
    axis = node.axis(node.attributes["axis"], len(parts[0].shape))
    scale, zero = _one(into, node.operand(0)), _one(into, node.operand(1))
    scaled = [binary(into, "divide", x, scale) for x in parts]
    return joined(into, [quantised(into, x, zero, zero.dtype) for x in scaled], axis)


def _where(node: Node, into: Expansion) -> Value:
    one, other = _floats(node, into, 1), _floats(node, into, 4)
    both = chosen(into, node.operand(0), one, other)
    shares = binary(into, "divide", both, _one(into, node.operand(7)))
    zero = _one(into, node.operand(8))
    return quantised(into, shares, zero, zero.dtype)


def _gemm(node: Node, into: Expansion) -> Value:
    """Emit alpha · a · b + c: quantised where the node has a scale for it, else floats."""
    a, b = node.operand(0), node.operand(3)
    for key in ("transA", "transB"):
        if node.attributes.get(key, 0):
            a, b = (
                into.emit(TRANSPOSE, x, order=(1, 0)) if key[-1] == side else x
                for side, x in (("A", a), ("B", b))
            )
    zeros = _one(into, node.operand(2)), _one(into, node.operand(5))
    total = of_matrices(node, into, a, b, zeros)
    c = node.optional(6)
    if c is not None:
        total = binary(into, "add", as_type(into, total, "int32"), c)
    left = _one(into, node.operand(1))
    alpha = node.attributes.get("alpha", 1.0)
    if alpha != 1:
        left = binary(into, "multiply", left, scalar(into, alpha, left))
    right = _one(into, node.operand(4))
    if node.optional(7) is not None:
        scales = [left, right, _one(into, node.operand(7))]
        return requantised(node, into, total, scales, _one(into, node.operand(8)))
    factor = binary(into, "multiply", left, right)
    return binary(into, "multiply", as_type(into, total, "float32"), factor)


def _plus(into: Expansion, x: Value, bias: Value | None) -> Value:
    return x if bias is None else binary(into, "add", x, bias)


def _to_float(node: Node, into: Expansion) -> Value:
    a, b = node.operand(0), node.operand(1)
    zeros = [None if v is None else _one(into, v) for v in (node.optional(4), node.optional(5))]
    total = as_type(into, of_matrices(node, into, a, b, (zeros[0], zeros[1])), "float32")
    scale = binary(into, "multiply", _one(into, node.operand(2)), _one(into, node.operand(3)))
    return _plus(into, binary(into, "multiply", total, scale), node.optional(6))


def _dynamic(node: Node, into: Expansion) -> Value:
    """Emit a product whose left operand is quantised by its own range."""
    a, scale, zero = quantised_by_range(into, node.operand(0))
    own = node.optional(3)
    zeros = zero, None if own is None else _one(into, own)
    total = as_type(into, of_matrices(node, into, a, node.operand(1), zeros), "float32")
    factor = binary(into, "multiply", scale, _one(into, node.operand(2)))
    return _plus(into, binary(into, "multiply", total, factor), node.optional(4))


def _few_bits(node: Node, into: Expansion) -> Value:
    """Emit a product with weights of a few bits, unpacked and scaled before the program runs.

    Raises
    ------
    BadModel
        When the weights are not constant, or packed in another way than 2, 4 or 8 bits.
    """
    attributes = node.attributes
    bits, block = attributes.get("bits", 4), attributes["block_size"]
    columns, depth = attributes["N"], attributes["K"]
    if bits not in (2, 4, 8) or node.optional(4) is not None:
        raise BadModel(f"{node}: weights of {bits} bits or with g_idx are not supported")
    n_blocks = -(-depth // block)
    packed = node.known(1, "the weights")
    scales = node.known(2, "the scales").astype(np.float32).reshape(columns, n_blocks, 1)
    whole = unpacked(packed.reshape(columns, -1), bits)[:, : n_blocks * block]
    zeros: Any = 1 << (bits - 1)
    if node.optional(3) is not None:
        given = node.known(3, "the zero points")
        if given.dtype == np.uint8:
            given = unpacked(given.reshape(columns, -1), bits)[:, :n_blocks]
        zeros = given.astype(np.float32).reshape(columns, n_blocks, 1)
    floats = (whole.reshape(columns, n_blocks, block) - zeros) * scales
    weights = floats.reshape(columns, -1)[:, :depth].T
    x = node.operand(0)
    b = into.constant(np.ascontiguousarray(weights, dtype=x.dtype), "weights")
    return _plus(into, multiplied(node, into, x, b), node.optional(5))


def unpacked(packed: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    """Return the numbers in rows of bytes, the lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (packed[:, :, None] >> shifts) & ((1 << bits) - 1)
    return numbers.reshape(packed.shape[0], -1).astype(np.float32)


def _operator(name: str, decompose: Callable[[Node, Expansion], Any]) -> Operator:
    return Operator(name=name, domain=MICROSOFT, decompose=decompose)


RECORDS = (
    # Those of ONNX, in the quantiser's domain.
    *(replace(operator, domain=MICROSOFT) for operator in QUANTISATION),
    _operator("DynamicQuantizeMatMul", _dynamic),
    _operator("MatMulIntegerToFloat", _to_float),
    _operator("MatMulNBits", _few_bits),
    _operator("QGemm", _gemm),
    _operator("QLinearConv", _convolved),
    _operator("QLinearAdd", _binary("add")),
    _operator("QLinearAveragePool", _of_one(_average)),
    _operator("QLinearConcat", _concat),
    _operator("QLinearGlobalAveragePool", _of_one(_global_average)),
    _operator("QLinearLeakyRelu", _of_one(_leaky_relu)),
    _operator("QLinearMul", _binary("multiply")),
    _operator("QLinearReduceMean", _of_one(_reduce_mean)),
    _operator("QLinearSigmoid", _of_one(lambda _, into, x: unary(into, "sigmoid", x))),
    _operator("QLinearSoftmax", _of_one(_softmax)),
    _operator("QLinearWhere", _where),
)
