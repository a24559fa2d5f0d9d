"""Reductions and global pools."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.popops.reduction.reduce import reduce
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.elementwise.elementwise import binary, scalar, unary
from tilescope.engine.operators.elementwise.gradients import SLOPE_AT_KINK
from tilescope.engine.operators.elementwise.mapped import call, mapped, operand
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.parts import along_others

__all__ = ["RECORDS", "REDUCE", "reduced"]


def _log_add(x: NDArray[Any], **options: Any) -> NDArray[Any]:
    return np.asarray(np.logaddexp.reduce(x.astype(np.float64), **options))


def _square_sum(x: NDArray[Any], **options: Any) -> NDArray[Any]:
    return np.asarray(np.sum(np.square(x), **options))


_FUNCTIONS: dict[str, Any] = {
    "log_add": _log_add,
    "square_sum": _square_sum,
    "sum": np.sum,
    "maximum": np.max,
    "minimum": np.min,
    "product": np.prod,
}


def _extreme(dtype: np.dtype[Any], sign: int) -> float | int:
    if dtype.kind == "b":
        return sign > 0
    if dtype.kind == "f":
        return sign * np.inf
    return int(np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min)


#: What reductions of no elements start from.
_OF_NOTHING: dict[str, Callable[[np.dtype[Any]], dict[str, Any]]] = {
    "log_add": lambda _: {"initial": -np.inf},
    "maximum": lambda dtype: {"initial": _extreme(dtype, -1)},
    "minimum": lambda dtype: {"initial": _extreme(dtype, 1)},
    "product": lambda _: {},
    "square_sum": lambda _: {},
    "sum": lambda _: {},
}


def _reduce_type(node: Node) -> list[tuple[tuple[int, ...], str]]:
    x, axes = node.operand(0), set(node.attributes["axes"])
    return [(tuple(1 if d in axes else s for d, s in enumerate(x.shape)), x.dtype)]


def _reduce_array(node: Node, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    x, axes = arrays[0], tuple(node.attributes["axes"])
    operation, scale = node.attributes["operation"], node.attributes["scale"]
    extra = {} if x.size else _OF_NOTHING[operation](x.dtype)
    total = _FUNCTIONS[operation](x, axis=axes, keepdims=True, **extra)
    return [np.asarray(total + scale if operation == "log_add" else total * scale).astype(x.dtype)]


def _lower_reduce(lowering: Lowering, op: Operation) -> Tensor:
    attributes = op.attributes
    return reduce(
        lowering.builder,
        attributes["operation"],
        lowering.tensor(op.operand(0)),
        attributes["axes"],
        attributes["scale"],
    )


def _gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    """Return the gradient of the operand; equal extremes share it evenly, as in PyTorch."""
    (g,), x, y = gradients, op.operand(0), op.output
    assert g is not None
    operation, scale = op.attributes["operation"], op.attributes["scale"]
    gradient, a, b = operand(0), operand(1), operand(2)
    if operation == "sum":
        return [g if scale == 1 else mapped(expansion, gradient * float(scale), g)]
    if operation == "square_sum":
        return [mapped(expansion, 2.0 * float(scale) * gradient * a, g, x)]
    if operation == "log_add":  # the logarithm of a sum of exponentials, times exp(scale)
        return [mapped(expansion, gradient * call("exp", a - b + float(scale)), g, x, y)]
    if operation in ("maximum", "minimum"):
        is_extreme = call("select", 1.0, 0.0, call("equal", gradient * float(scale), a))
        marks = mapped(expansion, is_extreme, x, y)
        count = reduced(expansion, "sum", marks, op.attributes["axes"])
        return [mapped(expansion, float(scale) * gradient * a / b, g, marks, count)]
    return [_product_gradient(op, expansion, g)]


def _product_gradient(op: Operation, expansion: Expansion, g: Value) -> Value:
    """Return the product of the other elements, times the gradient.

    That of an element beside a 0 is 0.
    """
    x, axes, scale = op.operand(0), op.attributes["axes"], float(op.attributes["scale"])
    gradient, a, n_zeros, rest = (operand(i) for i in range(4))
    is_zero = call("equal", gradient, 0.0)
    zeros = reduced(expansion, "sum", mapped(expansion, call("select", 1.0, 0.0, is_zero), x), axes)
    others = mapped(expansion, call("select", 1.0, gradient, is_zero), x)
    product = reduced(expansion, "product", others, axes)
    of_zero = call("select", scale * gradient * rest, 0.0, call("equal", n_zeros, 1.0))
    of_other = call("select", scale * gradient * rest / a, 0.0, call("equal", n_zeros, 0.0))
    return mapped(
        expansion, call("select", of_zero, of_other, call("equal", a, 0.0)), g, x, zeros, product
    )


REDUCE = Operator(
    name="reduce",
    domain=ENGINE_DOMAIN,
    infer=_reduce_type,
    evaluate=_reduce_array,
    lower=_lower_reduce,
    gradient=_gradient,
    parts=along_others(lambda node: node.attributes["axes"]),
)


def reduced(
    expansion: Expansion, operation: str, x: Value, axes: Sequence[int], scale: float = 1.0
) -> Value:
    """Emit a reduction that keeps its dimensions.

    The result is multiplied by `scale`; that of ``log_add`` is a logarithm: log(scale) is added.
    """
    if operation == "log_add":
        scale = math.log(scale)
    return expansion.emit(REDUCE, x, operation=operation, axes=tuple(axes), scale=scale)


def _absolute(expansion: Expansion, x: Value) -> Value:
    return unary(expansion, "absolute", x)


def _logarithm(expansion: Expansion, x: Value) -> Value:
    return unary(expansion, "log", x)


def _root(expansion: Expansion, x: Value) -> Value:
    return unary(expansion, "sqrt", x, **{SLOPE_AT_KINK: 0.0})


def _kept_axis(node: Node, axes: Mapping[int, int], _: tuple[int, ...]) -> int | None:
    """Return the axis where others are reduced."""
    axis = axes.get(0)
    reduced_axes = node.axes(len(node.operand(0).shape))
    if axis is None or not reduced_axes or axis in reduced_axes:
        return None
    return axis if node.attributes["keepdims"] else axis - sum(a < axis for a in reduced_axes)


_Step = Callable[[Expansion, Value], Value]


def _unchanged(_: Expansion, x: Value) -> Value:
    return x


def _square(expansion: Expansion, x: Value) -> Value:
    return unary(expansion, "square", x)


def _reduction(
    name: str,
    operation: str,
    before: _Step | None = None,
    after: _Step | None = None,
    alone: _Step = _unchanged,
) -> Operator:
    """Return the record of a reduction over some dimensions; `alone` is that of one element."""

    def decompose(node: Node, expansion: Expansion) -> Value:
        x = node.operand(0)
        axes = node.axes(len(x.shape))
        if not axes:
            if node.attributes.get("noop_with_empty_axes", 0):
                # Every element is reduced on its own, along no dimension.
                return _after(expansion, alone(expansion, x))
            axes = tuple(range(len(x.shape)))
        out = _after(
            expansion, _reduced(expansion, x if before is None else before(expansion, x), axes)
        )
        if node.attributes["keepdims"]:
            return out
        return reshape(expansion, out, tuple(s for d, s in enumerate(x.shape) if d not in axes))

    def _after(expansion: Expansion, x: Value) -> Value:
        return x if after is None else after(expansion, x)

    def _reduced(expansion: Expansion, x: Value, axes: Sequence[int]) -> Value:
        if name != "ReduceMean":
            return reduced(expansion, operation, x, axes)
        count = prod(x.shape[a] for a in axes)
        if not count and np.dtype(x.dtype).kind == "f":  # the mean of nothing is no number
            shape = tuple(1 if d in axes else size for d, size in enumerate(x.shape))
            return expansion.constant(np.full(shape, np.nan, x.dtype), "mean")
        if np.dtype(x.dtype).kind == "f":
            return reduced(expansion, operation, x, axes, 1 / count)
        return binary(
            expansion, "divide", reduced(expansion, operation, x, axes), scalar(expansion, count, x)
        )

    return Operator(name=name, decompose=decompose, known_operands=(1,), carries=_kept_axis)


def _global_average_pool(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    return reduced(expansion, "sum", x, range(2, len(x.shape)), 1 / prod(x.shape[2:]))


def _global_max_pool(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    return reduced(expansion, "maximum", x, range(2, len(x.shape)))


RECORDS = (
    REDUCE,
    Operator(name="GlobalAveragePool", decompose=_global_average_pool),
    Operator(name="GlobalMaxPool", decompose=_global_max_pool),
    _reduction("ReduceL1", "sum", before=_absolute, alone=_absolute),
    _reduction("ReduceL2", "square_sum", after=_root, alone=_square),
    _reduction("ReduceLogSum", "sum", after=_logarithm),
    _reduction("ReduceLogSumExp", "log_add"),
    _reduction("ReduceMax", "maximum"),
    _reduction("ReduceMean", "sum"),
    _reduction("ReduceMin", "minimum"),
    _reduction("ReduceProd", "product"),
    _reduction("ReduceSum", "sum"),
    _reduction("ReduceSumSquare", "square_sum", alone=_square),
)
