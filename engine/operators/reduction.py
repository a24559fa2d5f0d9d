"""Reductions and global pools."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.reduce import reduce
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.layout import reshape

__all__ = ["RECORDS", "REDUCE", "reduced"]

_FUNCTIONS: dict[str, Any] = {
    "sum": np.sum,
    "maximum": np.max,
    "minimum": np.min,
    "product": np.prod,
}


def _reduce_type(node: Node) -> list[tuple[tuple[int, ...], str]]:
    x, axes = node.operand(0), set(node.attributes["axes"])
    return [(tuple(1 if d in axes else s for d, s in enumerate(x.shape)), x.dtype)]


def _reduce_array(node: Node, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    x, axes = arrays[0], tuple(node.attributes["axes"])
    total = _FUNCTIONS[node.attributes["operation"]](x, axis=axes, keepdims=True)
    return [np.asarray(total * node.attributes["scale"]).astype(x.dtype)]


def _lower_reduce(at: Lowering, op: Operation) -> Tensor:
    attributes = op.attributes
    return reduce(
        at.builder,
        attributes["operation"],
        at.tensor(op.operand(0)),
        attributes["axes"],
        attributes["scale"],
    )


REDUCE = Operator(
    name="reduce",
    domain=ENGINE_DOMAIN,
    infer=_reduce_type,
    evaluate=_reduce_array,
    lower=_lower_reduce,
)


def reduced(
    into: Expansion, operation: str, x: Value, axes: Sequence[int], scale: float = 1.0
) -> Value:
    """Emit a reduction that keeps its dimensions, and multiplies the result by `scale`."""
    return into.emit(REDUCE, x, operation=operation, axes=tuple(axes), scale=scale)


def _reduction(name: str, operation: str) -> Operator:
    """Return the record of a reduction over some dimensions."""

    def decompose(node: Node, into: Expansion) -> Value:
        x = node.operand(0)
        axes = node.axes(len(x.shape))
        if not axes:
            if node.attributes.get("noop_with_empty_axes", 0):
                return x
            axes = tuple(range(len(x.shape)))
        scale = 1 / prod(x.shape[a] for a in axes) if name == "ReduceMean" else 1.0
        out = reduced(into, operation, x, axes, scale)
        if node.attributes["keepdims"]:
            return out
        return reshape(into, out, tuple(s for d, s in enumerate(x.shape) if d not in axes))

    return Operator(name=name, decompose=decompose)


def _global_average_pool(node: Node, into: Expansion) -> Value:
    x = node.operand(0)
    return reduced(into, "sum", x, range(2, len(x.shape)), 1 / prod(x.shape[2:]))


def _global_max_pool(node: Node, into: Expansion) -> Value:
    x = node.operand(0)
    return reduced(into, "maximum", x, range(2, len(x.shape)))


RECORDS = (
    REDUCE,
    Operator(name="GlobalAveragePool", decompose=_global_average_pool),
    Operator(name="GlobalMaxPool", decompose=_global_max_pool),
    _reduction("ReduceMax", "maximum"),
    _reduction("ReduceMean", "sum"),
    _reduction("ReduceMin", "minimum"),
    _reduction("ReduceProd", "product"),
    _reduction("ReduceSum", "sum"),
)
