"""The innermost loops of float reductions, in vector registers and in one order.

Written as LLVM IR: a loop over a row is not vectorised unless its order is left to the compiler,
and one over columns stores its totals in every row.

Lane i of a row combines the elements i, i + `LANES` and so on of all its parts, in order; then
halves of the lanes are combined until one is left. A column is combined in order. So the bits are
the same on any processor. Lanes without an element hold the identity of the operation, which
changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir

from tilescope.engine.host.jit._jit import Overloaded, intrinsic
from tilescope.engine.host.jit.settings import IS_COMPILED
from tilescope.engine.host.kernels._extremes import larger, smaller
from tilescope.engine.host.kernels._vector_emitter import (
    emit_fold,
    emit_loop,
    emit_masked_load,
)

__all__ = ["COLUMNS", "FLOAT_OPERATIONS", "LANES", "column_reduction", "row_reduction"]

#: Lanes of a row.
LANES = 16
#: Columns of a block, which are held in registers over all rows.
COLUMNS = 64

_F32, _I64 = ir.FloatType(), ir.IntType(64)
_WIDE = ir.VectorType(_F32, LANES)


@dataclass(frozen=True)
class _Fold:
    """Sums, sums of squares and products: one vector is carried.

    Parameters
    ----------
    identity
        What lanes hold before their first element.
    plain
        Combines two numbers.
    instruction
        Name of the builder's method for it.
    """

    identity: float
    plain: Callable[[Any, Any], Any]
    instruction: str
    is_squared: bool = False

    def begin(self) -> list[Any]:
        """Return what lanes hold before their first element."""
        return [_all_lanes(self.identity)]

    def step(self, builder: Any, held: list[Any], value: Any) -> list[Any]:
        """Combine lanes with the elements of a vector."""
        if self.is_squared:
            value = builder.fmul(value, value)
        return [getattr(builder, self.instruction)(held[0], value)]

    def lanes(self, builder: Any, held: list[Any]) -> Any:  # noqa: ARG002  as `_Extreme`
        """Return the results of lanes."""
        return held[0]

    def total(self, builder: Any, held: list[Any]) -> Any:
        """Return the result of all lanes."""
        return emit_fold(builder, held[0], getattr(builder, self.instruction))


@dataclass(frozen=True)
class _Extreme:
    """Maxima and minima: the first of equal elements, NaN if there is one.

    Lanes carry the best number and whether there was a NaN, so that neither waits for the other.
    """

    identity: float
    plain: Callable[[Any, Any], Any]
    comparison: str
    is_squared = False

    def begin(self) -> list[Any]:
        """Return what lanes hold before their first element."""
        return [_all_lanes(self.identity), ir.Constant(ir.VectorType(ir.IntType(1), LANES), None)]

    def _better(self, builder: Any, a: Any, b: Any) -> Any:
        return builder.select(builder.fcmp_ordered(self.comparison, b, a), b, a)

    def step(self, builder: Any, held: list[Any], value: Any) -> list[Any]:
        """Combine lanes with the elements of a vector."""
        best, is_nan = held
        result = builder.fcmp_unordered("uno", value, value)
        return [self._better(builder, best, value), builder.or_(is_nan, result)]

    def lanes(self, builder: Any, held: list[Any]) -> Any:
        """Return the results of lanes."""
        best, is_nan = held
        return builder.select(is_nan, _all_lanes(np.nan), best)

    def total(self, builder: Any, held: list[Any]) -> Any:
        """Return the result of all lanes."""
        best, is_nan = held
        bits = builder.bitcast(is_nan, ir.IntType(LANES))
        is_any = builder.icmp_unsigned("!=", bits, bits.type(0))
        result = emit_fold(builder, best, lambda a, b: self._better(builder, a, b))
        return builder.select(is_any, ir.Constant(_F32, np.nan), result)


#: Reductions with loops of their own.
FLOAT_OPERATIONS: dict[str, _Fold | _Extreme] = {
    "sum": _Fold(-0.0, np.add, "fadd"),
    "square_sum": _Fold(-0.0, np.add, "fadd", is_squared=True),
    "maximum": _Extreme(-np.inf, larger, ">"),
    "minimum": _Extreme(np.inf, smaller, "<"),
    "product": _Fold(1.0, np.multiply, "fmul"),
}


def _all_lanes(value: float) -> Any:
    return ir.Constant(_WIDE, [ir.Constant(_F32, value)] * LANES)


def _array(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return context.make_array(kind)(context, builder, value).data


def _load(builder: Any, x: Any, offset: Any) -> Any:
    pointer = builder.bitcast(builder.gep(x, [offset]), _WIDE.as_pointer())
    return builder.load(pointer, align=4)


def _load_some(builder: Any, x: Any, offset: Any, count: Any, otherwise: float) -> Any:
    return emit_masked_load(builder, builder.gep(x, [offset]), count, _all_lanes(otherwise))


def _row_intrinsic(operation: _Fold | _Extreme) -> Any:
    @intrinsic
    def of_row(typing_context, x, start, outer, outer_step, inner):  # type: ignore[no-untyped-def]
        from numba.core import types

        number = types.int64

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            x = _array(context, builder, signature.args[0], arguments[0])
            start, outer, outer_step, inner = arguments[1:]
            n_whole = builder.and_(inner, _I64(-LANES))
            rest = builder.sub(inner, n_whole)

            def part(counters: list[Any], totals: list[Any]) -> list[Any]:
                def vector(inside: list[Any], held: list[Any]) -> list[Any]:
                    return operation.step(builder, held, _load(builder, x, inside[1]))

                steps = [(_I64(0), _I64(LANES)), (counters[1], _I64(LANES))]
                ends, totals = emit_loop(builder, n_whole, steps, totals, vector)
                last = _load_some(builder, x, ends[1], rest, operation.identity)
                return operation.step(builder, totals, last)

            steps = [(_I64(0), _I64(1)), (start, outer_step)]
            _, totals = emit_loop(builder, outer, steps, operation.begin(), part)
            return operation.total(builder, totals)

        return types.float32(x, number, number, number, number), generate

    return of_row


def _column_intrinsic(operation: _Fold | _Extreme) -> Any:
    @intrinsic
    def of_block(typing_context, x, offset, steps, totals, first, n):  # type: ignore[no-untyped-def]
        from numba.core import types

        number = types.int64

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            x = _array(context, builder, signature.args[0], arguments[0])
            totals = _array(context, builder, signature.args[3], arguments[3])
            _, offset, steps, _, first, n = arguments
            outer, outer_step, inner, inner_step = (
                builder.extract_value(steps, index) for index in range(4)
            )

            def block(n_vectors: int, load: Callable[[Any, int], Any]) -> None:
                def parts(counters: list[Any], held: list[Any]) -> list[Any]:
                    def row(inside: list[Any], held: list[Any]) -> list[Any]:
                        row_values = []
                        for k in range(n_vectors):
                            lane_values = held[k * n_held : (k + 1) * n_held]
                            row_values += operation.step(builder, lane_values, load(inside[1], k))
                        return row_values

                    rows = [(_I64(0), _I64(1)), (counters[1], inner_step)]
                    return emit_loop(builder, inner, rows, held, row)[1]

                runs = [(_I64(0), _I64(1)), (offset, outer_step)]
                begin = operation.begin()
                n_held = len(begin)
                _, totals_ = emit_loop(builder, outer, runs, begin * n_vectors, parts)
                for k in range(n_vectors):
                    value = operation.lanes(builder, totals_[k * n_held : (k + 1) * n_held])
                    pointer = builder.gep(totals, [builder.add(first, _I64(k * LANES))])
                    builder.store(value, builder.bitcast(pointer, _WIDE.as_pointer()), align=4)

            def whole(pointer: Any, k: int) -> Any:
                return _load(builder, x, builder.add(pointer, _I64(k * LANES)))

            def some(pointer: Any, _: int) -> Any:
                return _load_some(builder, x, pointer, n, operation.identity)

            is_whole = builder.icmp_signed(">=", n, _I64(COLUMNS))
            with builder.if_else(is_whole) as (then, otherwise):
                with then:
                    block(COLUMNS // LANES, whole)
                with otherwise:
                    block(1, some)
            return context.get_dummy_value()

        quadruple = types.UniTuple(number, 4)
        return types.void(x, number, quadruple, totals, number, number), generate

    return of_block


def _plain_row(
    operation: _Fold | _Extreme, x: Any, start: int, outer: int, step: int, inner: int
) -> Any:
    """Return a row's result in pure Python, for runs without compilation."""
    lanes = np.full(LANES, operation.identity, np.float32)
    for j in range(outer):
        for k in range(inner):
            value = x[start + j * step + k]
            value = value * value if operation.is_squared else value
            lanes[k % LANES] = operation.plain(lanes[k % LANES], value)
    width = LANES
    while width > 1:
        width //= 2
        for lane in range(width):
            lanes[lane] = operation.plain(lanes[lane], lanes[width + lane])
    return lanes[0] if lanes[0] == lanes[0] else np.float32(np.nan)


def row_reduction(name: str, otherwise: Any) -> Any:
    """Return the function that combines contiguous rows.

    Its arguments are ``x, start, outer, outer_step, inner``: a flat array, the first element, and
    the rows of `inner` elements, `outer_step` elements apart. What is not float goes to
    `otherwise`, of the same arguments.
    """
    if name not in FLOAT_OPERATIONS:
        return otherwise
    operation = FLOAT_OPERATIONS[name]

    def chosen(x: Any, start: int, outer: int, outer_step: int, inner: int) -> Any:
        if x.dtype != np.float32:
            return otherwise(x, start, outer, outer_step, inner)
        return _plain_row(operation, x, start, outer, outer_step, inner)

    if not IS_COMPILED:
        return chosen
    of_row = _row_intrinsic(operation)

    def in_lanes(x, start, outer, outer_step, inner):  # type: ignore[no-untyped-def]
        return of_row(x, start, outer, outer_step, inner)

    def of_others(x, start, outer, outer_step, inner):  # type: ignore[no-untyped-def]
        return otherwise(x, start, outer, outer_step, inner)

    def choose(x, start, outer, outer_step, inner):  # type: ignore[no-untyped-def]
        return in_lanes if str(x.dtype) == "float32" else of_others

    return Overloaded(chosen, choose)


def column_reduction(name: str, otherwise: Any) -> Any:
    """Return the function that combines contiguous columns into the beginning of `totals`.

    Its arguments are ``x, at, steps, totals, n``: a flat array, the first element of the first
    column, (outer, outer step, inner, inner step) of the elements of a column, an array of at least
    `n` rounded up to `LANES`, and the number of columns. What is not float goes to `otherwise`.
    """
    if name not in FLOAT_OPERATIONS or not IS_COMPILED:
        return otherwise
    of_block = _column_intrinsic(FLOAT_OPERATIONS[name])

    def chosen(x: Any, offset: int, steps: Any, totals: Any, n: int) -> None:
        otherwise(x, offset, steps, totals, n)

    def in_blocks(x, offset, steps, totals, n):  # type: ignore[no-untyped-def]
        first = 0
        while first < n:
            of_block(x, offset + first, steps, totals, first, n - first)
            first += COLUMNS if n - first >= COLUMNS else LANES

    def of_others(x, offset, steps, totals, n):  # type: ignore[no-untyped-def]
        otherwise(x, offset, steps, totals, n)

    def choose(x, offset, steps, totals, n):  # type: ignore[no-untyped-def]
        return in_blocks if str(x.dtype) == "float32" else of_others

    return Overloaded(chosen, choose)
