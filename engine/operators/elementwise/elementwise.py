"""Elementwise operators, with numpy's broadcasting.

A new operator is an entry of `_UNARY` or `_BINARY` when the library has its function, else a
function that composes it of others. A new function of the library needs its numpy form here and its
vertex in `tilescope.engine.codelets`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.elementwise.operations import TO_BOOL
from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Constant, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.popops.elementwise import operations as library
from tilescope.engine.library.popops.elementwise.in_place import over_operand
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.carried import elementwise
from tilescope.engine.operators.elementwise.cast import CAST
from tilescope.engine.operators.elementwise.functions import BINARY_FUNCTIONS, UNARY_FUNCTIONS
from tilescope.engine.operators.elementwise.gradients import (
    SLOPE_AT_KINK,
    binary_gradient,
    unary_gradient,
)
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.parts import broadcast

__all__ = ["BINARY", "RECORDS", "UNARY", "binary", "bounded", "scalar", "unary"]

Array = NDArray[Any]
Arrays = Sequence[Array]
Type = tuple[tuple[int, ...], str]


#: Operators that are one function of the library.
_UNARY = {
    "Abs": "absolute",
    "Asin": "asin",
    "Atan": "atan",
    "BitwiseNot": "bitwise_not",
    "Ceil": "ceil",
    "Cos": "cos",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "IsNaN": "is_nan",
    "Log": "log",
    "Neg": "negate",
    "Not": "logical_not",
    "Reciprocal": "inverse",
    "Relu": "relu",
    "Round": "nearby_int",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}
_BINARY = {
    "Add": "add",
    "And": "logical_and",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "Div": "divide",
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Mul": "multiply",
    "Or": "logical_or",
    "Pow": "power",
    "Sub": "subtract",
    "Xor": "not_equal",
}
#: Operators that join any number of operands by one function.
_VARIADIC = {"Max": "maximum", "Min": "minimum", "Sum": "add"}


def _result_type(node: Node) -> str:
    return "bool" if node.attributes["function"] in TO_BOOL else node.operand(0).dtype


def _unary_array(node: Node, arrays: Arrays) -> list[Array]:
    (x,) = arrays
    result = UNARY_FUNCTIONS[node.attributes["function"]](x)
    return [np.asarray(result).astype(_result_type(node))]


def _lowered(lowering: Lowering, op: Operation, operands: Sequence[Tensor]) -> Tensor:
    """Apply the function, over an operand that nothing reads afterwards if its place suits."""
    function, shape = op.attributes["function"], op.output.shape
    is_free = [lowering.is_free(value) for value in op.operands]
    if any(is_free):
        replaced = over_operand(lowering.builder, function, operands, shape, is_free)
        if replaced is not None:
            return replaced
    if len(operands) == 1:
        return library.unary(lowering.builder, function, operands[0])
    a, b = operands
    return library.binary(lowering.builder, function, a, b, shape)


def _lower_unary(lowering: Lowering, op: Operation) -> Tensor:
    return _lowered(lowering, op, [lowering.tensor(op.operand(0))])


def _binary_type(node: Node) -> list[Type]:
    a, b = node.operand(0), node.operand(1)
    try:
        return [(np.broadcast_shapes(a.shape, b.shape), _result_type(node))]
    except ValueError:
        raise BadModel(
            f"{node}: {a.name!r} of shape {a.shape} and {b.name!r} of shape {b.shape} do not"
            " broadcast"
        ) from None


def _binary_array(node: Node, arrays: Arrays) -> list[Array]:
    a, b = arrays
    result = BINARY_FUNCTIONS[node.attributes["function"]](a, b)
    return [np.asarray(result).astype(_result_type(node))]


def _lower_binary(lowering: Lowering, op: Operation) -> Tensor:
    a, b = (lowering.tensor(value) for value in op.operands)
    if a.dtype != b.dtype:
        raise BadModel(f"{op}: cannot combine {a.dtype} and {b.dtype}; cast one first")
    return _lowered(lowering, op, [a, b])


UNARY = Operator(
    name="unary",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(node.operand(0).shape, _result_type(node))],
    evaluate=_unary_array,
    lower=_lower_unary,
    gradient=unary_gradient,
    parts=broadcast,
    omits_zeros=True,
)
BINARY = Operator(
    name="binary",
    domain=ENGINE_DOMAIN,
    infer=_binary_type,
    evaluate=_binary_array,
    lower=_lower_binary,
    gradient=binary_gradient,
    parts=broadcast,
)


def unary(expansion: Expansion, function: str, x: Value, **options: float) -> Value:
    """Emit a function of one operand; options are as in `gradients.SLOPE_AT_KINK`."""
    return expansion.emit(UNARY, x, function=function, **options)


def binary(expansion: Expansion, function: str, a: Value, b: Value) -> Value:
    """Emit a function of two operands."""
    return expansion.emit(BINARY, a, b, function=function)


def bounded(expansion: Expansion, function: str, x: Value, bound: Value) -> Value:
    """Emit a maximum or minimum with a bound: at the bound, the gradient is that of the operand."""
    return expansion.emit(BINARY, x, bound, function=function, **{SLOPE_AT_KINK: 1.0})


def scalar(expansion: Expansion, value: float, like: Value) -> Constant:
    """Return a constant of an operand's type."""
    return expansion.constant(np.asarray(value, dtype=like.dtype), "scalar")


def _unary_operator(name: str, function: str) -> Operator:
    return Operator(
        name=name,
        decompose=lambda node, expansion: unary(expansion, function, node.operand(0)),
        carries=elementwise,
    )


def _binary_operator(name: str, function: str) -> Operator:
    def decompose(node: Node, expansion: Expansion) -> Value:
        a, b = node.operand(0), node.operand(1)
        is_placed = node.version < 7 and node.attributes.get("broadcast")
        if is_placed and len(b.shape) < len(a.shape):
            # Before opset 7 the second operand is placed at `axis`, by default at the end.
            axis = node.attributes.get("axis", len(a.shape) - len(b.shape))
            after = len(a.shape) - axis - len(b.shape)
            b = reshape(expansion, b, (*b.shape, *(1,) * after))
        if name == "Pow" and a.dtype != b.dtype:
            return _power_of_two_types(expansion, a, b)
        if name == "Mul" and a.dtype != b.dtype:
            a, b = _with_half_scalar(expansion, a, b), _with_half_scalar(expansion, b, a)
        return binary(expansion, function, a, b)

    return Operator(name=name, decompose=decompose, carries=elementwise)


def _with_half_scalar(expansion: Expansion, x: Value, other: Value) -> Value:
    """Return a factor of one float in the type of a tensor of halves, as PopART takes it."""
    is_scalar = x.dtype == "float32" and other.dtype == "float16" and prod(x.shape) == 1
    return expansion.emit(CAST, x, dtype="float16") if is_scalar else x


def _power_of_two_types(expansion: Expansion, base: Value, exponent: Value) -> Value:
    """Emit a power in the floats of either operand; the result has the type of the base."""
    floats = [v.dtype for v in (base, exponent) if np.dtype(v.dtype).kind == "f"]
    dtype = floats[0] if floats else base.dtype
    a, b = (
        v if v.dtype == dtype else expansion.emit(CAST, v, dtype=dtype) for v in (base, exponent)
    )
    power = binary(expansion, "power", a, b)
    return power if dtype == base.dtype else expansion.emit(CAST, power, dtype=base.dtype)


def _variadic_operator(name: str, function: str) -> Operator:
    def decompose(node: Node, expansion: Expansion) -> Value:
        result = node.operand(0)
        for index in range(1, len(node.inputs)):
            result = binary(expansion, function, result, node.operand(index))
        return result

    return Operator(name=name, decompose=decompose, carries=elementwise)


def _bounds_nothing(bound: Value) -> bool:
    """Return whether a bound of integers is outside of what the device holds."""
    if bound.known is None or bound.dtype != "int64":
        return False
    limits = np.iinfo(np.int32)
    return bool((bound.known >= limits.max).all() or (bound.known <= limits.min).all())


def _in_type(bound: Value, x: Value) -> Value:
    """Return a bound that is a constant of other floats in the type of an operand."""
    if bound.known is None or not (_is_float(bound) and _is_float(x)):
        return bound
    largest = np.finfo(x.dtype).max
    array = np.clip(bound.known, -largest, largest).astype(x.dtype)
    return Constant(bound.name, array.shape, x.dtype, array)


def _is_float(value: Value) -> bool:
    return value.dtype.startswith("float")


def _clip(node: Node, expansion: Expansion) -> Value:
    result = node.operand(0)
    for index, key, function in ((1, "min", "maximum"), (2, "max", "minimum")):
        bound = node.optional(index)
        value = node.attributes.get(key)
        if bound is None and value is not None and abs(value) < np.finfo(np.float32).max:
            bound = scalar(expansion, value, result)  # the default of version 6 bounds nothing
        if bound is not None and bound.dtype != result.dtype:
            bound = _in_type(bound, result)
        if bound is not None and not _bounds_nothing(bound):
            result = bounded(expansion, function, result, bound)
    return result


RECORDS = (
    UNARY,
    BINARY,
    *(_unary_operator(name, function) for name, function in _UNARY.items()),
    *(_binary_operator(name, function) for name, function in _BINARY.items()),
    *(_variadic_operator(name, function) for name, function in _VARIADIC.items()),
    Operator(name="Clip", decompose=_clip, carries=elementwise),
)
