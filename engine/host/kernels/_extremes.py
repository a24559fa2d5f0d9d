"""Maximum and minimum of two numbers, NaN if one is: floats with the instruction for it.

A comparison and a choice have no meaning for the compiler as a reduction, if NaN counts: a loop
over a row would take its elements one by one.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from tilescope.engine.host.jit._jit import Overloaded, intrinsic, jit
from tilescope.engine.host.jit.settings import IS_COMPILED

__all__ = ["larger", "maximum", "minimum", "smaller"]


def larger(a: Any, b: Any) -> Any:
    """Return the larger number: the first of equal ones, NaN if one is."""
    return b if b > a or b != b else a


def smaller(a: Any, b: Any) -> Any:
    """Return the smaller number: the first of equal ones, NaN if one is."""
    return b if b < a or b != b else a


def _instruction(name: str) -> Any:
    """Return LLVM's function of two floats; the sign of a zero is not specified."""

    @intrinsic
    def of_floats(typing_context, a, b):  # type: ignore[no-untyped-def]
        from numba.core import types

        if a != b or not isinstance(a, types.Float):
            return None

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            value_type = arguments[0].type
            kind = ir.FunctionType(value_type, [value_type] * 2)
            function = builder.module.declare_intrinsic(name, [value_type], kind)
            return builder.call(function, arguments, fastmath=("nsz",))

        return a(a, b), generate

    return of_floats


def _either(name: str, plain: Any) -> Any:
    """Return the function of two numbers of any types."""

    def chosen(a: Any, b: Any) -> Any:
        return plain(a, b)

    if not IS_COMPILED:
        return chosen
    of_floats = _instruction(name)

    def with_instruction(a, b):  # type: ignore[no-untyped-def]
        return of_floats(a, b)

    def otherwise(a, b):  # type: ignore[no-untyped-def]
        return compared(a, b)

    compared = jit(plain)

    def choose(a, b):  # type: ignore[no-untyped-def]
        from numba.core import types

        if a == b and isinstance(a, types.Float):
            return with_instruction
        return otherwise

    return Overloaded(chosen, choose)


maximum = _either("llvm.maximum", larger)
minimum = _either("llvm.minimum", smaller)
