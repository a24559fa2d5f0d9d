"""Finds GELU, swish and hard swish that exporters took apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import pi, sqrt
from typing import NamedTuple

import numpy as np

from tilescope.engine.ir import Expansion, Model, Operation, Value
from tilescope.engine.operators.elementwise.activation import activation
from tilescope.engine.transform.polynomial import Algebra, Term, agrees, term
from tilescope.engine.transform.uses import Mapped, Match, Uses, function_of, rewritten

__all__ = ["find_gelu", "find_hard_swish", "find_swish", "find_tanh_gelu"]

#: Source of both definitions: onnx, docs/Operators.md, Gelu.
_ERF_ARGUMENT = {term(x=1): 1 / sqrt(2)}
_TANH_ARGUMENT = {term(x=1): sqrt(2 / pi), term(x=3): sqrt(2 / pi) * 0.044715}
_GELU = {term(x=1): 0.5, term(x=1, t=1): 0.5}
_SWISH = {term(x=1, t=1): 1.0}
#: The same file, HardSwish: alpha = 1/6, beta = 0.5.
_HARD_LINE = {term(x=1): 1 / 6, term(): 0.5}


def find_gelu(model: Model) -> Model:
    """Return the model with one operator for x · (1 + erf(x / √2)) / 2, in any order."""
    uses = Uses(model)
    return rewritten(model, _gelus(uses, "erf", _ERF_ARGUMENT, "gelu_erf"))


def find_tanh_gelu(model: Model) -> Model:
    """Return the model with one operator for x · (1 + tanh(√(2/π)(x + 0.044715 x³))) / 2."""
    uses = Uses(model)
    return rewritten(model, _gelus(uses, "tanh", _TANH_ARGUMENT, "gelu"))


def find_swish(model: Model) -> Model:
    """Return the model with one operator for x · sigmoid(x)."""
    uses = Uses(model)
    matches = (
        _activation(uses, op.operand(0), op, {op}, _Form(_SWISH, "swish", "Swish"))
        for op in uses.of_function("sigmoid")
    )
    return rewritten(model, filter(None, matches))


def find_hard_swish(model: Model) -> Model:
    """Return the model with one operator for x · min(max(x + 3, 0), 6) / 6, in any scale."""
    uses = Uses(model)
    return rewritten(model, _hard_swishes(uses))


def _gelus(uses: Uses, function: str, argument: Mapping[Term, float], kind: str) -> Iterator[Match]:
    for operation in uses.of_function(function):
        for x in uses.above(operation.operand(0)):
            algebra = Algebra(uses, {x: "x"})
            polynomial = algebra.polynomial(operation.operand(0))
            if polynomial is None or not agrees(polynomial, argument):
                continue
            inner = {operation, *algebra.inner}
            match = _activation(uses, x, operation, inner, _Form(_GELU, kind, "Gelu"))
            if match is not None:
                yield match
                break


class _Form(NamedTuple):
    """An activation: its polynomial in x and the inner function, its name, and its operator's."""

    terms: Mapping[Term, float]
    kind: str
    source: str


def _activation(
    uses: Uses, x: Value, operation: Operation, inner: set[Operation], form: _Form
) -> Match | None:
    """Return the operations that make an activation of x and an inner function of it."""
    for root in uses.below(operation.output):
        if (root.output.shape, root.output.dtype) != (x.shape, x.dtype):
            continue
        algebra = Algebra(uses, {x: "x", operation.output: "t"})
        polynomial = algebra.polynomial(root.output)
        members = algebra.inner | inner
        if (
            polynomial is None
            or not agrees(polynomial, form.terms)
            or not uses.is_closed(root, members)
        ):
            continue

        def emit(expansion: Expansion, mapped: Mapped) -> Value:
            return activation(expansion, form.kind, mapped(x))

        return Match(root, frozenset(members), form.source, emit)
    return None


def _hard_swishes(uses: Uses) -> Iterator[Match]:
    for upper in uses.of_function("minimum"):
        for lower in filter(None, map(uses.producer.get, upper.operands)):
            line = _above_zero(lower)
            high = _number(upper, lower.output)
            if line is None or high is None or high <= 0:
                continue
            for x in uses.above(line):
                algebra = Algebra(uses, {x: "x"})
                polynomial = algebra.polynomial(line)
                terms = {key: value * high for key, value in _HARD_LINE.items()}
                if polynomial is None or not agrees(polynomial, terms):
                    continue
                inner = {upper, lower, *algebra.inner}
                full_term = {term(x=1, t=1): 1 / high}
                form = _Form(full_term, "hard_swish", "HardSwish")
                match = _activation(uses, x, upper, inner, form)
                if match is not None:
                    yield match
                    break


def _above_zero(operation: Operation) -> Value | None:
    """Return the operand of which an operation is the positive part."""
    if function_of(operation) == "relu":
        return operation.operand(0)
    if function_of(operation) != "maximum":
        return None
    for value in operation.operands:
        second_operand = next((v for v in operation.operands if v is not value), value)
        if _number(operation, value) == 0 and second_operand is not value:
            return value
    return None


def _number(operation: Operation, value: Value) -> float | None:
    """Return the constant number that an operation of two operands combines with a value."""
    other_operands = [operand for operand in operation.operands if operand is not value]
    if (
        len(other_operands) != 1
        or other_operands[0].known is None
        or np.size(other_operands[0].known) != 1
    ):
        return None
    return float(np.asarray(other_operands[0].known).reshape(-1)[0])
