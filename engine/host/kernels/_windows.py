"""Windows of a row, combined in vector registers: channels side by side, the window in order.

Written as LLVM IR: a loop over few channels would store its results after every tap.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from tilescope.engine.host.jit._jit import intrinsic
from tilescope.engine.host.jit.settings import IS_COMPILED
from tilescope.engine.host.kernels._extremes import larger
from tilescope.engine.host.kernels._window_emitter import Row, WindowEmitter

__all__ = ["window_row"]


def _compiled(is_max: bool) -> Any:
    @intrinsic
    def combine_row(  # type: ignore[no-untyped-def]
        typing_context, x, source, x_steps, out, target, steps, window, is_first
    ):
        from numba.core import types

        number = types.int64
        pair = types.UniTuple(number, 2)

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            def row(k: int) -> Row:
                memory = context.make_array(signature.args[k])(context, builder, arguments[k]).data
                fields = [builder.extract_value(arguments[k + 2], d) for d in range(2)]
                return Row(builder.gep(memory, [arguments[k + 1]]), *fields)

            numbers = [builder.extract_value(arguments[6], d) for d in range(7)]
            kind: Any = x.dtype
            emitter = WindowEmitter(
                builder,
                context.get_abi_sizeof(context.get_data_type(kind)),
                is_max=is_max,
                is_signed=bool(getattr(kind, "signed", False)),
            )
            is_true = builder.icmp_signed("!=", arguments[7], ir.IntType(64)(0))
            emitter.row(row(0), row(3), numbers, is_true)
            return context.get_dummy_value()

        used = (x, number, pair, out, number, pair, types.UniTuple(number, 7), number)
        return types.void(*used), generate

    return combine_row


def _plain(is_max: bool) -> Any:
    def combine_row(  # type: ignore[no-untyped-def]
        x, source, x_steps, out, target, steps, window, is_first
    ):
        n_results, n, stride, dilation, shift, n_columns, n_taps = window
        for result in range(n_results):
            columns = (result * stride + shift + tap * dilation for tap in range(n_taps))
            for index, column in enumerate(c for c in columns if 0 <= c < n_columns):
                for channel in range(n):
                    to = target + result * steps[0] + channel * steps[1]
                    value = x[source + column * x_steps[0] + channel * x_steps[1]]
                    if is_first and index == 0:
                        out[to] = value
                    else:
                        out[to] = larger(out[to], value) if is_max else out[to] + value

    return combine_row


def window_row(is_max: bool) -> Any:
    """Return the function that combines windows that move along a row.

    Its arguments are ``x, source, x_steps, out, target, steps, window, is_first``: arrays of one
    type with their first elements and the steps between columns and between channels; (results,
    channels, stride, dilation, shift, columns of `x`, taps); and whether results are those of the
    window alone, not combined with what they hold. A result without an element is left as it is.
    """
    return _compiled(is_max) if IS_COMPILED else _plain(is_max)
