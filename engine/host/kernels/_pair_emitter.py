"""Emits loops over pairs of elements as LLVM IR: see `_pairs`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from tilescope.engine.host.kernels._vector_emitter import emit_loop

__all__ = ["Operand", "PairEmitter"]

_I64 = ir.IntType(64)
_ZERO, _ONE = _I64(0), _I64(1)
#: Elements of a row that adjoin in all operands from which no other dimension is tried as the rows.
_LEAST_DENSE = 8
#: Elements of all copies of a row, and the rows of a block from which it is worth making them.
_ROOM, _LEAST_ROWS = 128, 8


@dataclass(frozen=True)
class Operand:
    """A block in memory: its first element, and the strides of its three dimensions."""

    memory: Any
    start: Any
    strides: list[Any]


class PairEmitter:
    """Emits the loops over the elements of two operands and a result.

    Parameters
    ----------
    load
        Emits an element of the second operand, at a pointer.
    combine
        Emits the result of one pair: a pointer, an element of the second operand, a pointer.
    """

    def __init__(
        self,
        builder: Any,
        sizes: list[Any],
        load: Callable[[Any], Any],
        combine: Callable[[Any, Any, Any], None],
    ) -> None:
        self.builder, self.sizes, self.load, self.combine = builder, sizes, load, combine

    def all_true(self, *conditions: Any) -> Any:
        """Return whether all conditions hold."""
        conjunction = conditions[0]
        for condition in conditions[1:]:
            conjunction = self.builder.and_(conjunction, condition)
        return conjunction

    def equal(self, a: Any, b: Any) -> Any:
        """Return whether two numbers are equal."""
        return self.builder.icmp_signed("==", a, b)

    def block(self, a: Operand, b: Operand, out: Operand) -> None:
        """Emit all rows.

        If `b` is one row for all, and these are short and adjoin, copies of it and several of them
        are longer rows.
        """
        builder, choose = self.builder, self.builder.select
        a, b, out = self.ordered(a, b, out)
        n_planes, n_rows, n = self.sizes
        is_one_row = self.shares_row(a, b, out)
        n_whole = builder.sub(_I64(_ROOM), builder.srem(_I64(_ROOM), choose(is_one_row, n, _ONE)))
        length = choose(is_one_row, n_whole, n)
        steps = [
            choose(is_one_row, step, operand.strides[1])
            for operand, step in ((a, length), (b, _ZERO), (out, length))
        ]
        total = builder.mul(n_rows, n)
        with builder.goto_entry_block():
            room = builder.alloca(b.memory.type.pointee, _I64(_ROOM))

        def plane(counters: list[Any], _: list[Any]) -> list[Any]:
            row = builder.gep(b.memory, [counters[2]])
            with builder.if_then(is_one_row):
                self.repeat(row, room, n, length)
            row = choose(is_one_row, room, row)

            def one(counters: list[Any], _: list[Any]) -> list[Any]:
                left = builder.sub(total, counters[0])
                count = choose(builder.icmp_signed("<", left, length), left, length)
                self.row(
                    (builder.gep(a.memory, [counters[1]]), a.strides[2]),
                    (builder.gep(row, [counters[2]]), b.strides[2]),
                    (builder.gep(out.memory, [counters[3]]), out.strides[2]),
                    count,
                )
                return []

            begins = (counters[1], _ZERO, counters[3])
            rows = [(_ZERO, length), *zip(begins, steps, strict=True)]
            emit_loop(builder, total, rows, [], one)
            return []

        planes = [(_ZERO, _ONE), *((part.start, part.strides[0]) for part in (a, b, out))]
        emit_loop(builder, n_planes, planes, [], plane)

    def shares_row(self, a: Operand, b: Operand, out: Operand) -> Any:
        """Return whether `b` is one short row for many, which adjoin."""
        _, n_rows, n = self.sizes
        return self.all_true(
            *(self.equal(operand.strides[2], _ONE) for operand in (a, b, out)),
            *(self.equal(operand.strides[1], n) for operand in (a, out)),
            self.equal(b.strides[1], _ZERO),
            self.builder.icmp_signed("<=", n, _I64(_ROOM // 2)),
            self.builder.icmp_signed(">=", n_rows, _I64(_LEAST_ROWS)),
            self.builder.icmp_signed(">", n, _ZERO),
        )

    def ordered(self, a: Operand, b: Operand, out: Operand) -> tuple[Operand, Operand, Operand]:
        """Return the operands with the longest dimension innermost, unless the elements adjoin.

        A short row pays for its beginning.
        """
        builder, operands = self.builder, [a, b, out]
        n = self.sizes[2]
        is_dense = self.all_true(
            self.equal(a.strides[2], _ONE),
            self.equal(out.strides[2], _ONE),
            builder.icmp_unsigned("<=", b.strides[2], _ONE),
            builder.icmp_signed(">=", n, _I64(_LEAST_DENSE)),
        )
        is_kept = builder.or_(is_dense, self.shares_row(a, b, out))
        for d in (0, 1):
            is_longer = builder.icmp_signed(">", self.sizes[d], self.sizes[2])
            is_wanted = builder.and_(is_longer, builder.not_(is_kept))
            self.sizes = self.swapped(is_wanted, self.sizes, d)
            operands = [
                Operand(part.memory, part.start, self.swapped(is_wanted, part.strides, d))
                for part in operands
            ]
        return operands[0], operands[1], operands[2]

    def swapped(self, is_wanted: Any, numbers: list[Any], d: int) -> list[Any]:
        """Return the numbers of all dimensions, that of `d` and the last swapped if wanted."""
        swapped_numbers = list(numbers)
        for first, second in ((d, 2), (2, d)):
            swapped_numbers[first] = self.builder.select(is_wanted, numbers[second], numbers[first])
        return swapped_numbers

    def repeat(self, row: Any, room: Any, n: Any, length: Any) -> None:
        """Store copies of a row one after the other."""
        builder = self.builder

        def copied(source: Any, counters: list[Any]) -> list[Any]:
            value = builder.load(builder.gep(source, [counters[1]]))
            builder.store(value, builder.gep(room, [counters[0]]))
            return []

        emit_loop(builder, n, [(_ZERO, _ONE)] * 2, [], lambda counters, _: copied(row, counters))
        emit_loop(
            builder,
            length,
            [(n, _ONE), (_ZERO, _ONE)],
            [],
            lambda counters, _: copied(room, counters),
        )

    def row(self, a: Any, b: Any, out: Any, n: Any) -> None:
        """Combine elements of a row, given the first ones and the steps between them."""
        builder = self.builder
        is_dense = self.all_true(self.equal(a[1], _ONE), self.equal(out[1], _ONE))
        is_single = self.equal(b[1], _ZERO)
        is_wide = self.all_true(is_dense, self.equal(b[1], _ONE))

        def run(step_a: Any, step_b: Any, step_out: Any) -> None:
            held = self.load(b[0]) if step_b is None else None

            def one(counters: list[Any], _: list[Any]) -> list[Any]:
                offset = counters[0]

                def place(pointer: Any, step: Any) -> Any:
                    return builder.gep(
                        pointer, [offset if step is _ONE else builder.mul(offset, step)]
                    )

                second = self.load(place(b[0], step_b)) if held is None else held
                self.combine(place(a[0], step_a), second, place(out[0], step_out))
                return []

            emit_loop(builder, n, [(_ZERO, _ONE)], [], one)

        with builder.if_else(is_wide) as (wide, narrow):
            with wide:
                run(_ONE, _ONE, _ONE)
            with narrow, builder.if_else(is_single) as (single, rest):
                with single, builder.if_else(is_dense) as (dense, strided):
                    with dense:
                        run(_ONE, None, _ONE)
                    with strided:
                        run(a[1], None, out[1])
                with rest:
                    run(a[1], b[1], out[1])
