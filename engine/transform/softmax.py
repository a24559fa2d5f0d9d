"""Finds softmax that exporters took apart."""

from __future__ import annotations

from collections.abc import Iterator

from tilescope.engine.ir import Expansion, Model, Operation, Value
from tilescope.engine.operators.norm.softmax import SOFTMAX
from tilescope.engine.operators.reduction import REDUCE
from tilescope.engine.transform.polynomial import Algebra, agrees, term
from tilescope.engine.transform.uses import Mapped, Match, Uses, function_of, rewritten

__all__ = ["find_softmax"]

_SHARE = {term(e=1, s=-1): 1.0}


def find_softmax(model: Model) -> Model:
    """Return the model with one operator for exp(x) / Σ exp(x) along a dimension.

    Notes
    -----
    Whether or not the maximum was subtracted, the operator subtracts it: powers that would
    overflow do not.
    """
    uses = Uses(model)
    return rewritten(model, _softmaxes(uses))


def _softmaxes(uses: Uses) -> Iterator[Match]:
    for power in uses.of_function("exp"):
        for total in uses.readers[power.output]:
            axis = _only_axis(total, "sum")
            match = None if axis is None else _match(uses, power, total, axis)
            if match is not None:
                yield match
                break


def _match(uses: Uses, power: Operation, total: Operation, axis: int) -> Match | None:
    x, inner = _without_maximum(uses, power.operand(0), axis)
    inner = {power, total, *inner}
    for root in uses.below(total.output):
        algebra = Algebra(uses, {power.output: "e", total.output: "s"})
        polynomial = algebra.polynomial(root.output)
        members = algebra.inner | inner
        if (
            polynomial is None
            or not agrees(polynomial, _SHARE)
            or not uses.is_closed(root, members)
        ):
            continue
        if (root.output.shape, root.output.dtype) != (x.shape, x.dtype):
            continue

        def emit(expansion: Expansion, mapped: Mapped) -> Value:
            return expansion.emit(SOFTMAX, mapped(x), axis=axis)

        return Match(root, frozenset(members), "Softmax", emit)
    return None


def _without_maximum(uses: Uses, value: Value, axis: int) -> tuple[Value, set[Operation]]:
    """Return what a maximum along the axis is subtracted from, with the operations of it."""
    difference = uses.producer.get(value)
    if difference is None or function_of(difference) != "subtract":
        return value, set()
    x, largest = difference.operands
    maximum = uses.producer.get(largest)
    if maximum is None or _only_axis(maximum, "maximum") != axis or maximum.operand(0) is not x:
        return value, set()
    return x, {difference, maximum}


def _only_axis(operation: Operation, kind: str) -> int | None:
    """Return the dimension that an operation reduces by a function; None for other operations."""
    if operation.operator is not REDUCE or operation.attributes["operation"] != kind:
        return None
    axes = operation.attributes["axes"]
    return int(axes[0]) if len(axes) == 1 and operation.attributes["scale"] == 1 else None
