"""Powers with a constant exponent as the functions that they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tilescope.engine.ir import Expansion, Model, Operation, Value
from tilescope.engine.operators.elementwise.elementwise import binary, unary
from tilescope.engine.transform.uses import Mapped, Match, Uses, rewritten

__all__ = ["simplify_powers"]


def _cube(expansion: Expansion, x: Value) -> Value:
    return binary(expansion, "multiply", unary(expansion, "square", x), x)


def _inverse_root(expansion: Expansion, x: Value) -> Value:
    return unary(expansion, "inverse", unary(expansion, "sqrt", x))


def _inverse_square(expansion: Expansion, x: Value) -> Value:
    return unary(expansion, "inverse", unary(expansion, "square", x))


#: What a power stands for, by its exponent.
_OF_FLOATS: Mapping[float, Callable[[Expansion, Value], Value]] = {
    -2: _inverse_square,
    -1: lambda expansion, x: unary(expansion, "inverse", x),
    -0.5: _inverse_root,
    0.5: lambda expansion, x: unary(expansion, "sqrt", x),
    1: lambda _, x: x,
    2: lambda expansion, x: unary(expansion, "square", x),
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
    matches = [match for op in uses.of_function("power") if (match := _match(op)) is not None]
    return rewritten(model, matches)


def _match(operation: Operation) -> Match | None:
    x, exponent = operation.operands
    if exponent.known is None or operation.output.shape != x.shape:
        return None
    numbers = np.unique(np.asarray(exponent.known))
    is_float = x.dtype.startswith("float")
    if numbers.size != 1 or (not is_float and numbers[0] not in _OF_INTEGERS):
        return None
    replacement = _OF_FLOATS.get(float(numbers[0]))
    if replacement is None:
        return None

    def emit(expansion: Expansion, mapped: Mapped) -> Value:
        return replacement(expansion, mapped(x))

    return Match(operation, frozenset({operation}), operation.source, emit)
