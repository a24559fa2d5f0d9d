"""Activations that the library computes in one vertex per element, and compositions of functions.

Clip, Relu, Sigmoid and Tanh are in `elementwise`; softmax is in `softmax`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.popnn.non_linearity import (
    non_linearity,
    non_linearity_in_place,
    replaces_operand,
)
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.elementwise.elementwise import binary, bounded, scalar, unary
from tilescope.engine.operators.elementwise.gradients import (
    SLOPE_AT_KINK,
    non_linearity_gradient,
)
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.parts import broadcast

__all__ = ["NON_LINEARITY", "RECORDS", "activation", "clamped_line", "sloped"]

Array = NDArray[Any]


def _hard_sigmoid_array(x: Array) -> Array:
    line = x * np.asarray(0.2, x.dtype) + np.asarray(0.5, x.dtype)
    return np.asarray(np.clip(line, 0, 1))


def _gelu_array(x: Array) -> Array:
    wide = x.astype(np.float64)
    inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)
    return np.asarray(wide / 2 * (1 + np.tanh(inner)))


def _gelu_erf_array(x: Array) -> Array:
    from scipy import special  # heavy, and few models have constants of it

    return np.asarray(x * special.ndtr(x))


#: Non-linearities of the library in numpy.
_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": _gelu_array,
    "gelu_erf": _gelu_erf_array,
    "hard_sigmoid": _hard_sigmoid_array,
    "hard_swish": lambda x: np.asarray(x * np.clip(x.astype(np.float64) / 6 + 0.5, 0, 1)),
    "swish": lambda x: np.asarray(x / (1 + np.exp(-x.astype(np.float64)))),
}


def _evaluate(node: Node, arrays: Sequence[Array]) -> list[Array]:
    (x,) = arrays
    return [_FUNCTIONS[node.attributes["kind"]](x).astype(x.dtype)]


def _lower(lowering: Lowering, op: Operation) -> Tensor:
    """Compute it over an operand that nothing reads afterwards if its place suits."""
    kind, x = op.attributes["kind"], lowering.tensor(op.operand(0))
    if lowering.is_free(op.operand(0)) and replaces_operand(lowering.builder, kind, x):
        non_linearity_in_place(lowering.builder, kind, x)
        return x
    return non_linearity(lowering.builder, kind, x)


NON_LINEARITY = Operator(
    name="non_linearity",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(node.operand(0).shape, node.operand(0).dtype)],
    evaluate=_evaluate,
    lower=_lower,
    gradient=non_linearity_gradient,
    parts=broadcast,
)


def activation(expansion: Expansion, kind: str, x: Value) -> Value:
    """Emit a non-linearity of the library."""
    return expansion.emit(NON_LINEARITY, x, kind=kind)


def _gelu(node: Node, expansion: Expansion) -> Value:
    how = node.attributes.get("approximate", "none")
    if how not in ("none", "tanh"):
        raise BadModel(f"{node}: approximate is {how!r}: expected 'none' or 'tanh'")
    return activation(expansion, "gelu_erf" if how == "none" else "gelu", node.operand(0))


def _hard_sigmoid(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    alpha, beta = node.attributes["alpha"], node.attributes["beta"]
    if (alpha, beta) == (0.2, 0.5):
        return activation(expansion, "hard_sigmoid", x)
    return clamped_line(expansion, x, alpha, beta)


def clamped_line(expansion: Expansion, x: Value, alpha: float, beta: float) -> Value:
    """Emit max(0, min(1, alpha x + beta))."""
    sloped = binary(expansion, "multiply", x, scalar(expansion, alpha, x))
    line = binary(expansion, "add", sloped, scalar(expansion, beta, x))
    at_least_0 = bounded(expansion, "maximum", line, scalar(expansion, 0, x))
    return bounded(expansion, "minimum", at_least_0, scalar(expansion, 1, x))


def _hard_swish(node: Node, expansion: Expansion) -> Value:
    return activation(expansion, "hard_swish", node.operand(0))


def _swish(node: Node, expansion: Expansion) -> Value:
    x, alpha = node.operand(0), node.attributes.get("alpha", 1.0)
    if alpha == 1:
        return activation(expansion, "swish", x)
    inside = binary(expansion, "multiply", x, scalar(expansion, alpha, x))
    return binary(expansion, "multiply", x, unary(expansion, "sigmoid", inside))


def _leaky_relu(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    return sloped(expansion, x, scalar(expansion, node.attributes["alpha"], x))


def _parametric_relu(node: Node, expansion: Expansion) -> Value:
    x, slope = node.operand(0), node.operand(1)
    if node.version < 7 and len(slope.shape) == 1:  # one slope per channel
        slope = reshape(expansion, slope, (*slope.shape, *(1,) * (len(x.shape) - 2)))
    return sloped(expansion, x, slope)


def sloped(expansion: Expansion, x: Value, slope: Value) -> Value:
    """Emit x above zero, and slope × x below."""
    below = bounded(expansion, "minimum", x, scalar(expansion, 0, x))
    return binary(
        expansion, "add", unary(expansion, "relu", x), binary(expansion, "multiply", below, slope)
    )


def _softplus(node: Node, expansion: Expansion) -> Value:
    """Emit max(x, 0) + log(1 + exp(-|x|)), which does not overflow."""
    x = node.operand(0)
    power = unary(expansion, "exp", unary(expansion, "negate", unary(expansion, "absolute", x)))
    rest = unary(expansion, "log", binary(expansion, "add", power, scalar(expansion, 1, x)))
    above = unary(expansion, "relu", x, **{SLOPE_AT_KINK: 0.5})
    return binary(expansion, "add", above, rest)


def _exponential_below(expansion: Expansion, x: Value, alpha: float, width: float = 1.0) -> Value:
    """Emit max(x, 0) + min(0, alpha (exp(x / width) − 1))."""
    below = bounded(expansion, "minimum", x, scalar(expansion, 0, x))
    if width != 1:
        below = binary(expansion, "divide", below, scalar(expansion, width, x))
    power = binary(expansion, "subtract", unary(expansion, "exp", below), scalar(expansion, 1, x))
    if alpha != 1:
        power = binary(expansion, "multiply", power, scalar(expansion, alpha, x))
    return binary(expansion, "add", unary(expansion, "relu", x), power)


def _elu(node: Node, expansion: Expansion) -> Value:
    return _exponential_below(expansion, node.operand(0), node.attributes["alpha"])


def _celu(node: Node, expansion: Expansion) -> Value:
    alpha = node.attributes["alpha"]
    return _exponential_below(expansion, node.operand(0), alpha, alpha)


def _selu(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    line = _exponential_below(expansion, x, node.attributes["alpha"])
    return binary(expansion, "multiply", line, scalar(expansion, node.attributes["gamma"], x))


def _mish(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    return binary(expansion, "multiply", x, unary(expansion, "tanh", _softplus(node, expansion)))


RECORDS = (
    NON_LINEARITY,
    Operator(name="Celu", decompose=_celu),
    Operator(name="Elu", decompose=_elu),
    Operator(name="Gelu", decompose=_gelu),
    Operator(name="HardSigmoid", decompose=_hard_sigmoid),
    Operator(name="HardSwish", decompose=_hard_swish),
    Operator(name="LeakyRelu", decompose=_leaky_relu),
    Operator(name="Mish", decompose=_mish),
    Operator(name="PRelu", decompose=_parametric_relu),
    Operator(name="Selu", decompose=_selu),
    Operator(name="Softplus", decompose=_softplus),
    Operator(name="Swish", decompose=_swish),
)
