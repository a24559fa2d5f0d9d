"""Powers with a constant exponent as the functions that they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tilescope.engine.ir import Expansion, Model, Operation, Value
from tilescope.engine.operators.elementwise.elementwise import binary, unary
from tilescope.engine.transform.uses import Mapped, Match, Uses, rewritten

__all__ = ["simplify_powers"]


def _cube(into: Expansion, x: Value) -> Value:
    return binary(into, "multiply", unary(into, "square", x), x)


def _inverse_root(into: Expansion, x: Value) -> Value:
    return unary(into, "inverse", unary(into, "sqrt", x))


def _inverse_square(into: Expansion, x: Value) -> Value:
    return unary(into, "inverse", unary(into, "square", x))


#: What a power stands for, by its exponent.
_OF_FLOATS: Mapping[float, Callable[[Expansion, Value], Value]] = {
    -2: _inverse_square,
    -1: lambda into, x: unary(into, "inverse", x),
    -0.5: _inverse_root,
    0.5: lambda into, x: unary(into, "sqrt", x),
    1: lambda _, x: x,
    2: lambda into, x: unary(into, "square", x),
    3: _cube,
}
_OF_INTEGERS = (1, 2, 3)


def simplify_powers(model: Model) -> Model:
    """Return the model without powers of 2, 3, 1/2, -1, -1/2 and -2.

    Notes
    -----
    A power takes 312 cycles per element, a square 2. Values are equal but for rounding, and but
    for roots of minus infinity, which C's pow says is infinity.
    Source of the cases: PyTorch, aten/src/ATen/native/cpu/PowKernel.cpp.
    """
    uses = Uses(model)
    found = [match for op in uses.of_function("power") if (match := _match(op)) is not None]
    return rewritten(model, found)


def _match(operation: Operation) -> Match | None:
    x, exponent = operation.operands
    if exponent.known is None or operation.output.shape != x.shape:
        return None
    numbers = np.unique(np.asarray(exponent.known))
    is_float = x.dtype.startswith("float")
    if numbers.size != 1 or (not is_float and numbers[0] not in _OF_INTEGERS):
        return None
    made = _OF_FLOATS.get(float(numbers[0]))
    if made is None:
        return None

    def emit(into: Expansion, at: Mapped) -> Value:
        return made(into, at(x))

    return Match(operation, frozenset({operation}), operation.source, emit)
