"""The innermost loops of products: sums of several pixels, kept in vector registers throughout.

Written as LLVM IR, because a loop over few outputs that accumulates in memory is vectorised poorly.
The sums of a block begin at zero, stay in registers over the whole window and all inputs, and are
stored once.

A sum is a chain of fused multiplications and additions in the order of taps and inputs, whatever
the block: the same bits on any processor. A dot product is `DOT_LANES` such chains, added in pairs,
and one of the inputs after the last whole vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic

from tilescope.engine.codelets._block_emitter import BlockEmitter

__all__ = [
    "BLOCKS",
    "DOT_LANES",
    "EACH_BLOCKS",
    "LARGEST",
    "dot_kernel",
    "each_kernel",
    "row_kernel",
]

#: Pixels of the blocks, largest first, by their lanes, which are outputs.
BLOCKS = {16: (8, 4, 2, 1), 8: (8, 4, 1), 4: (8, 1), 1: (8, 1)}
#: The same where every output has an input of its own.
EACH_BLOCKS = {16: (8, 4, 1), 8: (8, 4, 1), 4: (4, 1), 1: (1,)}
#: Lanes of a dot product, and dot products of a block.
DOT_LANES, _DOT_BLOCKS = 16, (4, 1)
#: Most pixels of a block.
LARGEST = 8

_config: Any = numba.config
_ARGUMENTS = (
    "out, out_at, out_places, x, x_at, x_places, x_step, w, w_at, w_pitch, tap_x, tap_w, n_taps,"
    " count, n_pixels"
)


def _plain(n_lanes: int, *, is_each: bool) -> Callable[..., None]:
    """Return a pure Python version, for runs without compilation; one lane for a dot product."""

    def block(  # type: ignore[no-untyped-def]
        out, out_at, out_places, x, x_at, x_places, x_step, w, w_at, w_pitch, tap_x, tap_w, n_taps,
        count, n_pixels,
    ):  # fmt: skip
        for p in range(n_pixels):
            total = np.zeros(n_lanes, np.float32)
            for t in range(n_taps):
                for i in range(count):
                    source = x_at + x_places[p] + tap_x[t] + i * x_step
                    weight = w_at + tap_w[t] + i * w_pitch
                    values = x[source : source + n_lanes] if is_each else x[source]
                    total += values * w[weight : weight + n_lanes]
            target = out_at + out_places[p]
            out[target : target + n_lanes] = total

    return block


def _compiled(emit: Callable[[Any, dict[str, Any]], None]) -> Any:
    @intrinsic
    def block(  # type: ignore[no-untyped-def]
        typing_context, out, out_at, out_places, x, x_at, x_places, x_step, w, w_at, w_pitch,
        tap_x, tap_w, n_taps, count, n_pixels,
    ):  # fmt: skip
        floats, lists = (out, x, w), (out_places, x_places, tap_x, tap_w)
        if not all(isinstance(a, types.Array) and a.dtype == types.float32 for a in floats):
            return None
        if not all(isinstance(a, types.Array) and a.dtype == types.int64 for a in lists):
            return None
        number = types.int64
        signature = types.void(
            out, number, out_places, x, number, x_places, number, w, number, number,
            tap_x, tap_w, number, number, number,
        )  # fmt: skip

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            values = {}
            names = _ARGUMENTS.replace(" ", "").split(",")
            for name, kind, value in zip(names, signature.args, arguments, strict=True):
                is_array = isinstance(kind, types.Array)
                made = context.make_array(kind)(context, builder, value).data if is_array else value
                values[name] = made
            emit(builder, values)
            return context.get_dummy_value()

        return signature, generate

    return block


def row_kernel(n_lanes: int) -> Any:
    """Return the function that stores sums of products: `n_lanes` outputs of all pixels of a list.

    Its arguments are ``out, out_at, out_places, x, x_at, x_places, x_step, w, w_at, w_pitch, tap_x,
    tap_w, n_taps, count, n_pixels``: flat float32 arrays with a first element; offsets of the
    pixels; strides between the inputs of a pixel (step) and between their weights (pitch); offsets
    of the taps; inputs per tap. The weights of the outputs of one input are contiguous. The lists
    of pixels repeat the last one up to a multiple of `LARGEST`.
    """
    return _kernel(n_lanes, BLOCKS[n_lanes], lambda emitter: lambda: emitter.block(is_each=False))


def each_kernel(n_lanes: int) -> Any:
    """Return the same function for outputs with an input of their own, which are contiguous."""

    def block_of(emitter: BlockEmitter) -> Callable[[], None]:
        return lambda: emitter.block(is_each=True)

    return _kernel(n_lanes, EACH_BLOCKS[n_lanes], block_of, is_each=True)


def dot_kernel() -> Any:
    """Return the same function for one output per pixel, with contiguous inputs and weights."""
    if _config.DISABLE_JIT:
        return _plain(1, is_each=False)
    return _kernel(DOT_LANES, _DOT_BLOCKS, lambda emitter: emitter.dot)


def _kernel(
    n_lanes: int,
    sizes: Sequence[int],
    block_of: Callable[[BlockEmitter], Callable[[], None]],
    *,
    is_each: bool = False,
) -> Any:
    if _config.DISABLE_JIT:
        return _plain(n_lanes, is_each=is_each)

    def emit(builder: Any, values: dict[str, Any]) -> None:
        emitter = BlockEmitter(builder, values, n_lanes)
        emitter.over_pixels(sizes, block_of(emitter))

    return _compiled(emit)
