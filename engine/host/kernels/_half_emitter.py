"""Emits the rounding of rows of floats to half as LLVM IR: see `_rounding`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from tilescope.engine.host.kernels._vector_emitter import emit_loop

__all__ = ["emit_half_rows"]

_F16, _F32, _I64 = ir.HalfType(), ir.FloatType(), ir.IntType(64)
_ZERO, _ONE = _I64(0), _I64(1)
#: Elements of the vectors, largest first. A row of the largest one or more is a loop.
_WIDTHS = (16, 8, 4, 2, 1)


def _round(builder: Any, first: Any, offset: Any, width: int) -> None:
    """Round some elements in place, to nearest, ties to even."""
    pointer, half = builder.gep(first, [offset]), _F16
    if width > 1:
        half = ir.VectorType(_F16, width)
        pointer = builder.bitcast(pointer, ir.VectorType(_F32, width).as_pointer())
    value = builder.load(pointer, align=4)
    rounded = builder.fpext(builder.fptrunc(value, half), value.type)
    builder.store(rounded, pointer, align=4)


def _loop(builder: Any, end: Any, steps: list[tuple[Any, Any]], body: Callable[..., None]) -> None:
    """Emit a loop; `body` takes its counters."""

    def one(counters: list[Any], _: list[Any]) -> list[Any]:
        body(*counters)
        return []

    emit_loop(builder, end, steps, [], one)


def emit_half_rows(builder: Any, first: Any, n_rows: Any, pitch: Any, n: Any, step: Any) -> None:
    """Emit the rounding of rows: `first` points to an element, the others are numbers."""
    is_dense = builder.or_(
        builder.icmp_signed("==", step, _ONE), builder.icmp_signed("==", n, _ONE)
    )
    with builder.if_else(is_dense) as (dense, strided):
        with dense:
            _dense(builder, first, n_rows, pitch, n, _WIDTHS)
        with strided:

            def row(_: Any, begin: Any) -> None:
                steps = [(_ZERO, _ONE), (begin, step)]
                _loop(builder, n, steps, lambda _, offset: _round(builder, first, offset, 1))

            _loop(builder, n_rows, [(_ZERO, _ONE), (_ZERO, pitch)], row)


def _dense(
    builder: Any, first: Any, n_rows: Any, pitch: Any, n: Any, widths: Sequence[int]
) -> None:
    """Emit rows by the widest vector that fits; the last vector may round elements again."""
    width, *narrower = widths

    def rows() -> None:
        last = builder.sub(n, _I64(width))

        def row(_: Any, begin: Any) -> None:
            if width == _WIDTHS[0]:
                end = builder.add(begin, last)
                steps = [(begin, _I64(width))]
                _loop(builder, end, steps, lambda offset: _round(builder, first, offset, width))
            elif width > 1:
                _round(builder, first, begin, width)
            _round(builder, first, builder.add(begin, last), width)

        _loop(builder, n_rows, [(_ZERO, _ONE), (_ZERO, pitch)], row)

    if not narrower:
        with builder.if_then(builder.icmp_signed(">", n, _ZERO)):
            rows()
        return
    with builder.if_else(builder.icmp_signed(">=", n, _I64(width))) as (wide, rest):
        with wide:
            rows()
        with rest:
            _dense(builder, first, n_rows, pitch, n, narrower)
