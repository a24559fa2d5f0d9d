"""Emits the combination of windows of a row as LLVM IR: see `_windows`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from tilescope.engine.host.kernels._vector_emitter import emit_declaration, emit_loop

__all__ = ["Row", "WindowEmitter"]

_I64 = ir.IntType(64)
_ZERO, _ONE = _I64(0), _I64(1)
#: Channels that are combined at once, largest first; the rest one by one.
_LANES = (16, 8, 4, 2)


@dataclass(frozen=True)
class Row:
    """A row in memory: a pointer to its first element, and steps between columns and channels."""

    first: Any
    column: Any
    channel: Any


class WindowEmitter:
    """Emits maxima, or sums, of the elements of windows.

    Parameters
    ----------
    is_signed
        Whether elements are signed integers.
    """

    def __init__(self, builder: Any, item_bytes: int, *, is_max: bool, is_signed: bool) -> None:
        self.builder, self.item_bytes = builder, item_bytes
        self.is_max, self.is_signed = is_max, is_signed

    def combined(self, a: Any, b: Any) -> Any:
        """Return the maximum or the sum of two elements, or of the lanes of two vectors."""
        builder, kind = self.builder, a.type
        is_float = not isinstance(getattr(kind, "element", kind), ir.IntType)
        if not self.is_max:
            return builder.fadd(a, b, flags=("nsz",)) if is_float else builder.add(a, b)
        if is_float:
            lanes = f"v{kind.count}" if isinstance(kind, ir.VectorType) else ""
            name = f"llvm.maximum.{lanes}f{8 * self.item_bytes}"
            maximum = emit_declaration(builder, ir.FunctionType(kind, [kind] * 2), name)
            return builder.call(maximum, [a, b], fastmath=("nsz",))
        compare = builder.icmp_signed if self.is_signed else builder.icmp_unsigned
        return builder.select(compare(">", b, a), b, a)

    def row(self, x: Row, out: Row, window: Sequence[Any], is_first: Any) -> None:
        """Emit the windows of all results of a row, combined with these unless they are the first.

        `window` is: results, channels, stride, dilation, shift, columns of `x`, taps.
        """
        builder = self.builder
        n_results, n, stride, dilation, shift, n_columns, n_taps = window
        is_dense = builder.and_(
            builder.icmp_signed("==", x.channel, _ONE), builder.icmp_signed("==", out.channel, _ONE)
        )
        n_wide = builder.select(is_dense, n, _ZERO)
        tap_step = builder.mul(dilation, x.column)

        n_done: Any = _ZERO
        for lanes in (*_LANES, 1):

            def channels(positions: list[Any], _: list[Any], lanes: int = lanes) -> list[Any]:
                from_x = self.moved(x, positions[0])
                out_pointer = self.moved(out, positions[0])

                def result(counters: list[Any], _: list[Any]) -> list[Any]:
                    _, column, to = counters
                    self.keep()
                    first, end = self.taps(column, dilation, n_columns, n_taps)
                    begin = builder.add(column, builder.mul(first, dilation))
                    column_offset, count = builder.mul(begin, x.column), builder.sub(end, first)
                    with builder.if_then(builder.icmp_signed(">", count, _ZERO)):
                        pointer = self.place(out_pointer, to, lanes)
                        value = self.load(self.place(from_x, column_offset, lanes))
                        total = self.combined(self.load(pointer), value)
                        total = builder.select(is_first, value, total)

                        def tap(taps: list[Any], totals: list[Any]) -> list[Any]:
                            self.keep()
                            peer = self.load(self.place(from_x, taps[1], lanes))
                            return [self.combined(totals[0], peer)]

                        steps = [(_ONE, _ONE), (builder.add(column_offset, tap_step), tap_step)]
                        _, totals = emit_loop(builder, count, steps, [total], tap)
                        builder.store(totals[0], pointer, align=self.item_bytes)
                    return []

                steps = [(_ZERO, _ONE), (shift, stride), (_ZERO, out.column)]
                emit_loop(builder, n_results, steps, [], result)
                return []

            last = n if lanes == 1 else builder.sub(n_wide, _I64(lanes - 1))
            (n_done,), _ = emit_loop(builder, last, [(n_done, _I64(lanes))], [], channels)

    def keep(self) -> None:
        """Keep the compiler from unrolling the loop, which takes longer than it gains."""
        self.builder.asm(ir.FunctionType(ir.VoidType(), []), "", "", [], side_effect=True)

    def moved(self, row: Row, channel: Any) -> Any:
        """Return a pointer to a channel of the first column."""
        return self.builder.gep(row.first, [self.builder.mul(channel, row.channel)])

    def taps(self, column: Any, dilation: Any, n_columns: Any, n_taps: Any) -> tuple[Any, Any]:
        """Return the first tap of a window inside the row, and the one after the last."""
        builder = self.builder
        last = builder.add(column, builder.mul(builder.sub(n_taps, _ONE), dilation))
        is_inside = builder.and_(
            builder.icmp_signed(">=", column, _ZERO), builder.icmp_signed("<", last, n_columns)
        )
        before = builder.block
        with builder.if_then(builder.not_(is_inside)):
            begin = self.rounded_up(builder.neg(column), dilation)
            stop = self.rounded_up(builder.sub(n_columns, column), dilation)
            is_less = builder.icmp_signed("<", stop, n_taps)
            stop = builder.select(is_less, stop, n_taps)
            inside = builder.block
        first, end = builder.phi(_I64), builder.phi(_I64)
        for phi, full, part in ((first, _ZERO, begin), (end, n_taps, stop)):
            phi.add_incoming(full, before)
            phi.add_incoming(part, inside)
        return first, end

    def rounded_up(self, distance: Any, step: Any) -> Any:
        """Return how many steps reach a distance: none if it is negative."""
        builder = self.builder
        steps = builder.sdiv(builder.sub(builder.add(distance, step), _ONE), step)
        return builder.select(builder.icmp_signed(">", distance, _ZERO), steps, _ZERO)

    def place(self, first: Any, offset: Any, lanes: int) -> Any:
        """Return a pointer to lanes of channels."""
        pointer = self.builder.gep(first, [offset])
        if lanes == 1:
            return pointer
        kind = ir.VectorType(pointer.type.pointee, lanes)
        return self.builder.bitcast(pointer, kind.as_pointer())

    def load(self, pointer: Any) -> Any:
        """Load lanes of channels."""
        return self.builder.load(pointer, align=self.item_bytes)
