"""Numbers in memory that several threads change, in compiled code."""

from __future__ import annotations

from llvmlite import ir

from tilescope.engine.host.jit._jit import intrinsic

__all__ = ["add_number", "load_number", "store_number", "swap_number", "yield_processor"]

_I64 = ir.IntType(64)


def _load(typing_context, address):  # type: ignore[no-untyped-def]
    """Load the int64 at an address, which other threads change."""
    from numba.core import types

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        pointer_ = builder.inttoptr(arguments[0], _I64.as_pointer())
        return builder.load_atomic(pointer_, "seq_cst", 8)

    return types.int64(types.int64), generate


def _store(typing_context, address, value):  # type: ignore[no-untyped-def]
    """Store an int64 at an address, which other threads load."""
    from numba.core import types

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        pointer_ = builder.inttoptr(arguments[0], _I64.as_pointer())
        builder.store_atomic(arguments[1], pointer_, "seq_cst", 8)
        return arguments[1]

    return types.int64(types.int64, types.int64), generate


def _add(typing_context, address, value):  # type: ignore[no-untyped-def]
    """Add to the int64 at an address; return what was there."""
    from numba.core import types

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        pointer_ = builder.inttoptr(arguments[0], _I64.as_pointer())
        return builder.atomic_rmw("add", pointer_, arguments[1], "seq_cst")

    return types.int64(types.int64, types.int64), generate


def _swap(typing_context, address, expected, value):  # type: ignore[no-untyped-def]
    """Replace the int64 at an address if it is the expected one; return whether it was."""
    from numba.core import types

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        pointer_ = builder.inttoptr(arguments[0], _I64.as_pointer())
        pair = builder.cmpxchg(pointer_, *arguments[1:], "seq_cst", "seq_cst")
        return builder.extract_value(pair, 1)

    return types.boolean(types.int64, types.int64, types.int64), generate


def _sched_yield(typing_context):  # type: ignore[no-untyped-def]
    """Let another thread have the processor."""
    from numba.core import types

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        kind = ir.FunctionType(ir.IntType(32), [])
        function = ir.Function(builder.module, kind, "sched_yield")
        return builder.call(function, [])

    return types.int32(), generate


load_number = intrinsic(_load)
store_number = intrinsic(_store)
add_number = intrinsic(_add)
swap_number = intrinsic(_swap)
yield_processor = intrinsic(_sched_yield)
