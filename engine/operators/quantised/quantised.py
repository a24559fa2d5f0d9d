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
from tilescope.engine.operators.elementwise.activation import sloped
from tilescope.engine.operators.elementwise.choice import chosen
from tilescope.engine.operators.elementwise.elementwise import binary, scalar, unary
from tilescope.engine.operators.fused import MICROSOFT
from tilescope.engine.operators.movement.layout import TRANSPOSE, reshape
from tilescope.engine.operators.movement.slicing import joined
from tilescope.engine.operators.norm.softmax import SOFTMAX
from tilescope.engine.operators.onnx_standard import version_of, with_defaults
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


def _floats(node: Node, expansion: Expansion, first: int) -> Value:
    """Emit the floats of three inputs: values, scale and zero point."""
    x, scale, zero = node.operand(first), node.operand(first + 1), node.optional(first + 2)
    if x.dtype not in ("int8", "uint8"):
        raise BadModel(f"{node}: {x.name!r} is {x.dtype}; expected int8 or uint8")
    return dequantised(
        expansion, x, _one(expansion, scale), None if zero is None else _one(expansion, zero)
    )


def _one(expansion: Expansion, value: Value) -> Value:
    return reshape(expansion, value, ()) if value.shape == (1,) else value


def _as_result(node: Node, expansion: Expansion, x: Value, first: int) -> Value:
    """Emit floats in the scale and with the zero point of two inputs."""
    shares = binary(expansion, "divide", x, _one(expansion, node.operand(first)))
    zero = node.optional(first + 1)
    dtype = node.operand(0).dtype if zero is None else zero.dtype
    return quantised(expansion, shares, None if zero is None else _one(expansion, zero), dtype)


def _binary(function: str) -> Callable[[Node, Expansion], Value]:
    def decompose(node: Node, expansion: Expansion) -> Value:
        both = binary(expansion, function, _floats(node, expansion, 0), _floats(node, expansion, 3))
        return _as_result(node, expansion, both, 6)

    return decompose


def _of_one(
    function: Callable[[Node, Expansion, Value], Value],
) -> Callable[[Node, Expansion], Value]:
    def decompose(node: Node, expansion: Expansion) -> Value:
        return _as_result(
            node, expansion, function(node, expansion, _floats(node, expansion, 0)), 3
        )

    return decompose


def _leaky_relu(node: Node, expansion: Expansion, x: Value) -> Value:
    return sloped(expansion, x, scalar(expansion, node.attributes.get("alpha", 0.01), x))


def _global_average(node: Node, expansion: Expansion, x: Value) -> Value:
    is_last = node.attributes.get("channels_last", 0)
    axes = range(1, len(x.shape) - 1) if is_last else range(2, len(x.shape))
    return reduced(expansion, "sum", x, axes, 1 / prod(x.shape[axis] for axis in axes))


def _reduce_mean(node: Node, expansion: Expansion, x: Value) -> Value:
    rank = len(x.shape)
    axes = sorted({node.axis(axis, rank) for axis in node.attributes.get("axes") or range(rank)})
    mean = reduced(expansion, "sum", x, axes, 1 / prod(x.shape[axis] for axis in axes))
    if node.attributes.get("keepdims", 1):
        return mean
    return reshape(expansion, mean, tuple(n for d, n in enumerate(x.shape) if d not in axes))


def _average(node: Node, expansion: Expansion, x: Value) -> Value:
    if not node.attributes.get("channels_last", 0):
        return average_pooled(node, expansion, x)
    return _channels_last(expansion, average_pooled(node, expansion, _channels_first(expansion, x)))


def _channels_first(expansion: Expansion, x: Value) -> Value:
    rank = len(x.shape)
    return expansion.emit(TRANSPOSE, x, order=(0, rank - 1, *range(1, rank - 1)))


def _channels_last(expansion: Expansion, x: Value) -> Value:
    return expansion.emit(TRANSPOSE, x, order=(0, *range(2, len(x.shape)), 1))


def _convolved(node: Node, expansion: Expansion) -> Value:
    """Emit ONNX's QLinearConv, of images whose channels may come last."""
    usual = with_defaults("QLinearConv", "", version_of("QLinearConv", ""), node.attributes)
    is_last = usual.pop("channels_last", 0)
    x = _channels_first(expansion, node.operand(0)) if is_last else node.operand(0)
    plain = replace(node, attributes=usual, inputs=(x, *node.inputs[1:]))
    out = qlinear_conv(plain, expansion)
    return _channels_last(expansion, out) if is_last else out


def _softmax(node: Node, expansion: Expansion, x: Value) -> Value:
    axis = node.axis(node.attributes.get("axis", -1), len(x.shape))
    if node.attributes["opset"] >= 13:
        return expansion.emit(SOFTMAX, x, axis=axis)
    rows = reshape(expansion, x, (prod(x.shape[:axis]), prod(x.shape[axis:])))
    return reshape(expansion, expansion.emit(SOFTMAX, rows, axis=1), x.shape)


def _concat(node: Node, expansion: Expansion) -> Value:
    """Emit the join of tensors, three inputs each, in the scale of the first two inputs."""
    parts = [_floats(node, expansion, i) for i in range(2, len(node.inputs), 3)]
    axis = node.axis(node.attributes["axis"], len(parts[0].shape))
    scale, zero = _one(expansion, node.operand(0)), _one(expansion, node.operand(1))
    scaled = [binary(expansion, "divide", x, scale) for x in parts]
    return joined(expansion, [quantised(expansion, x, zero, zero.dtype) for x in scaled], axis)


def _where(node: Node, expansion: Expansion) -> Value:
    first, second = _floats(node, expansion, 1), _floats(node, expansion, 4)
    both = chosen(expansion, node.operand(0), first, second)
    shares = binary(expansion, "divide", both, _one(expansion, node.operand(7)))
    zero = _one(expansion, node.operand(8))
    return quantised(expansion, shares, zero, zero.dtype)


def _gemm(node: Node, expansion: Expansion) -> Value:
    """Emit alpha · a · b + c: quantised where the node has a scale for it, else floats."""
    a, b = node.operand(0), node.operand(3)
    for key in ("transA", "transB"):
        if node.attributes.get(key, 0):
            a, b = (
                expansion.emit(TRANSPOSE, x, order=(1, 0)) if key[-1] == side else x
                for side, x in (("A", a), ("B", b))
            )
    zeros = _one(expansion, node.operand(2)), _one(expansion, node.operand(5))
    total = of_matrices(node, expansion, a, b, zeros)
    c = node.optional(6)
    if c is not None:
        total = binary(expansion, "add", as_type(expansion, total, "int32"), c)
    left = _one(expansion, node.operand(1))
    alpha = node.attributes.get("alpha", 1.0)
    if alpha != 1:
        left = binary(expansion, "multiply", left, scalar(expansion, alpha, left))
    right = _one(expansion, node.operand(4))
    if node.optional(7) is not None:
        scales = [left, right, _one(expansion, node.operand(7))]
        return requantised(node, expansion, total, scales, _one(expansion, node.operand(8)))
    factor = binary(expansion, "multiply", left, right)
    return binary(expansion, "multiply", as_type(expansion, total, "float32"), factor)


def _plus(expansion: Expansion, x: Value, bias: Value | None) -> Value:
    return x if bias is None else binary(expansion, "add", x, bias)


def _to_float(node: Node, expansion: Expansion) -> Value:
    a, b = node.operand(0), node.operand(1)
    zeros = [
        None if v is None else _one(expansion, v) for v in (node.optional(4), node.optional(5))
    ]
    total = as_type(expansion, of_matrices(node, expansion, a, b, (zeros[0], zeros[1])), "float32")
    scale = binary(
        expansion, "multiply", _one(expansion, node.operand(2)), _one(expansion, node.operand(3))
    )
    return _plus(expansion, binary(expansion, "multiply", total, scale), node.optional(6))


def _dynamic(node: Node, expansion: Expansion) -> Value:
    """Emit a product whose left operand is quantised by its own range."""
    a, scale, zero = quantised_by_range(expansion, node.operand(0))
    zero_input = node.optional(3)
    zeros = zero, None if zero_input is None else _one(expansion, zero_input)
    total = as_type(expansion, of_matrices(node, expansion, a, node.operand(1), zeros), "float32")
    factor = binary(expansion, "multiply", scale, _one(expansion, node.operand(2)))
    return _plus(expansion, binary(expansion, "multiply", total, factor), node.optional(4))


def _few_bits(node: Node, expansion: Expansion) -> Value:
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
    unpacked_weights = unpacked(packed.reshape(columns, -1), bits)[:, : n_blocks * block]
    zeros: Any = 1 << (bits - 1)
    if node.optional(3) is not None:
        zero_points_ = node.known(3, "the zero points")
        if zero_points_.dtype == np.uint8:
            zero_points_ = unpacked(zero_points_.reshape(columns, -1), bits)[:, :n_blocks]
        zeros = zero_points_.astype(np.float32).reshape(columns, n_blocks, 1)
    floats = (unpacked_weights.reshape(columns, n_blocks, block) - zeros) * scales
    weights = floats.reshape(columns, -1)[:, :depth].T
    x = node.operand(0)
    b = expansion.constant(np.ascontiguousarray(weights, dtype=x.dtype), "weights")
    return _plus(expansion, multiplied(node, expansion, x, b), node.optional(5))


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
    _operator("QLinearSigmoid", _of_one(lambda _, expansion, x: unary(expansion, "sigmoid", x))),
    _operator("QLinearSoftmax", _of_one(_softmax)),
    _operator("QLinearWhere", _where),
)
