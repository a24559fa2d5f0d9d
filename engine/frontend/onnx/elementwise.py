"""Elementwise operators."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from tilescope.engine.errors import BadModel
from tilescope.engine.frontend.onnx.node import Node, converter, emit_each
from tilescope.engine.ir import Value

_UNARY = {
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Exp": "exp",
    "Log": "log",
    "Sqrt": "sqrt",
    "Reciprocal": "inverse",
    "Neg": "negate",
    "Abs": "absolute",
    "Erf": "erf",
}
_BINARY = {
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "Div": "divide",
    "Pow": "power",
}
_VARIADIC = {"Sum": "add", "Max": "maximum", "Min": "minimum"}


@converter(*_UNARY)
def _unary(node: Node) -> Value:
    return node.unary(_UNARY[node.op_type], node.operand(0))


@converter(*_BINARY)
def _binary(node: Node) -> Value:
    a, b = node.operand(0), node.operand(1)
    if node.opset < 7 and len(b.shape) < len(a.shape) and node.attributes.get("broadcast"):
        # Before opset 7 the second operand is placed at `axis`, by default at the end.
        axis = node.attributes.get("axis", len(a.shape) - len(b.shape))
        after = len(a.shape) - axis - len(b.shape)
        b = node.reshape(b, (*b.shape, *(1,) * after))
    return node.binary(_BINARY[node.op_type], a, b)


@converter(*_VARIADIC)
def _variadic(node: Node) -> Value:
    return emit_each(node, _VARIADIC[node.op_type])


@converter("Clip")
def _clip(node: Node) -> Value:
    result = node.operand(0)
    for index, key, function in ((1, "min", "maximum"), (2, "max", "minimum")):
        bound = node.optional(index)
        if bound is None and key in node.attributes:
            bound = node.scalar(node.attributes[key], result)
        if bound is not None:
            result = node.binary(function, result, bound)
    return result


@converter("BatchNormalization")
def _batch_normalization(node: Node) -> Value:
    x = node.operand(0)
    if node.attributes.get("training_mode", 0):
        raise BadModel(
            f"Node {node.name!r} (BatchNormalization) is in training mode; only inference is"
            " supported"
        )
    scale, bias, mean, variance = (
        node.known(i, what).astype(np.float64)
        for i, what in enumerate(("the scale", "the bias", "the mean", "the variance"), start=1)
    )
    factor = scale / np.sqrt(variance + node.attributes.get("epsilon", 1e-5))
    shape = (-1, *(1,) * (len(x.shape) - 2))
    factor_value, offset_value = (
        node.builder.constant(values.reshape(shape).astype(x.dtype), f"{node.name}/{name}")
        for name, values in (("scale", factor), ("offset", bias - mean * factor))
    )
    return node.binary("add", node.binary("multiply", x, factor_value), offset_value)


@converter("Identity")
def _identity(node: Node) -> Value:
    return node.operand(0)


@converter("Dropout")
def _dropout(node: Node) -> Value:
    if node.optional(2) is not None and node.known(2, "the training mode").any():
        raise BadModel(
            f"Node {node.name!r} (Dropout) is in training mode; only inference is supported"
        )
    return node.operand(0)


@converter("Cast")
def _cast(node: Node) -> Value:
    x = node.operand(0)
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(node.attributes["to"])).name
    if dtype.startswith("float8") and not node.attributes.get("saturate", 1):
        raise BadModel(
            f"Node {node.name!r} (Cast) casts to {dtype} without saturation; the machine saturates:"
            " set saturate to 1"
        )
    is_same = x.dtype == dtype or {x.dtype, dtype} <= {"float32", "float64"}
    if x.constant is None and is_same and node.attributes["to"] != TensorProto.BFLOAT16:
        return x
    return node.emit("cast", x, dtype=dtype)
