"""The innermost loops of products: sums of several pixels, kept in vector registers throughout.

Written as LLVM IR, because a loop over few outputs that accumulates in memory is vectorised poorly.
The sums of a block begin at zero, stay in registers over the whole window and all inputs, and are
stored once.

A sum is a chain of fused multiplications and additions in the order of taps and inputs, whatever
the block: the same bits on any processor. A dot product is `DOT_LANES` such chains, added in pairs,
and one of the inputs after the last whole vector.
"""

from __future__ import annotations

from collections.abc import Callable
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
    "PAIR_LANES",
    "SPREAD_LANES",
    "SPREAD_OUTPUTS",
    "dot_kernel",
    "each_kernel",
    "row_kernel",
    "spread_kernel",
]

#: Pixels of the blocks, largest first, by their lanes, which are outputs.
BLOCKS = {16: (8, 4, 2, 1), 8: (8, 4, 1), 4: (8, 1), 1: (8, 1)}
#: The same where every output has an input of its own.
EACH_BLOCKS = {16: (8, 4, 1), 8: (8, 4, 1), 4: (4, 1), 1: (1,)}
#: Lanes of a dot product, and dot products of a block.
DOT_LANES, _DOT_BLOCKS = 16, (4, 1)
#: Lanes whose two halves may be apart: two groups of outputs with the same inputs.
PAIR_LANES = 16
#: Contiguous inputs of all pixels that are computed together, outputs of each, and their blocks.
SPREAD_LANES, SPREAD_OUTPUTS, _SPREAD_BLOCKS = 16, 4, (2, 1)
#: Most pixels of a block.
LARGEST = 8

_config: Any = numba.config
_ARGUMENTS = (
    "out, out_at, out_places, out_half, x, x_at, x_places, x_step, w, w_at, w_pitch, w_half, tap_x,"
    " tap_w, n_taps, count, n_pixels"
)


def _plain(n_lanes: int, *, is_each: bool, has_halves: bool = False) -> Callable[..., None]:
    """Return a pure Python version, for runs without compilation; one lane for a dot product."""
    n_first = n_lanes // 2 if has_halves else n_lanes

    def block(  # type: ignore[no-untyped-def]
        out, out_at, out_places, out_half, x, x_at, x_places, x_step, w, w_at, w_pitch, w_half,
        tap_x, tap_w, n_taps, count, n_pixels,
    ):  # fmt: skip
        first, last = slice(None, n_first), slice(n_first, None)
        for p in range(n_pixels):
            total = np.zeros(n_lanes, np.float32)
            for t in range(n_taps):
                for i in range(count):
                    source = x_at + x_places[p] + tap_x[t] + i * x_step
                    weight = w_at + tap_w[t] + i * w_pitch
                    values = x[source : source + n_lanes] if is_each else x[source]
                    values = np.broadcast_to(values, n_lanes)
                    total[first] += values[first] * w[weight : weight + n_first]
                    weight += w_half
                    total[last] += values[last] * w[weight : weight + n_lanes - n_first]
            target = out_at + out_places[p]
            out[target : target + n_first] = total[first]
            target += out_half
            out[target : target + n_lanes - n_first] = total[last]

    return block


def _plain_spread(  # type: ignore[no-untyped-def]
    out, out_at, out_places, out_half, x, x_at, x_places, x_step, w, w_at, w_pitch, w_half,
    tap_x, tap_w, n_taps, count, n_pixels,
):  # fmt: skip
    """Compute what `spread_kernel` returns, in plain Python."""
    for p in range(n_pixels):
        total = np.zeros((SPREAD_LANES, SPREAD_OUTPUTS), np.float32)
        for t in range(n_taps):
            source, weight = x_at + x_places[p] + tap_x[t], w_at + tap_w[t]
            rows = w[weight : weight + total.size].reshape(SPREAD_OUTPUTS, SPREAD_LANES)
            total += x[source : source + SPREAD_LANES, None] * rows.T
        target = out_at + out_places[p]
        out[target : target + total.size] = total.reshape(-1)


def _compiled(emit: Callable[[Any, dict[str, Any]], None]) -> Any:
    @intrinsic
    def block(  # type: ignore[no-untyped-def]
        typing_context, out, out_at, out_places, out_half, x, x_at, x_places, x_step, w, w_at,
        w_pitch, w_half, tap_x, tap_w, n_taps, count, n_pixels,
    ):  # fmt: skip
        floats, lists = (out, x, w), (out_places, x_places, tap_x, tap_w)
        if not all(isinstance(a, types.Array) and a.dtype == types.float32 for a in floats):
            return None
        if not all(isinstance(a, types.Array) and a.dtype == types.int64 for a in lists):
            return None
        number = types.int64
        signature = types.void(
            out, number, out_places, number, x, number, x_places, number, w, number, number,
            number, tap_x, tap_w, number, number, number,
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

    Its arguments are ``out, out_at, out_places, out_half, x, x_at, x_places, x_step, w, w_at,
    w_pitch, w_half, tap_x, tap_w, n_taps, count, n_pixels``: flat float32 arrays with a first
    element; offsets of the pixels; strides between the inputs of a pixel (step) and between their
    weights (pitch); offsets of the taps; inputs per tap. The weights of the outputs of one input
    are contiguous, but for two halves of `PAIR_LANES`, whose first elements are `w_half` and
    `out_half` apart. The lists of pixels repeat the last one up to a multiple of `LARGEST`.
    """
    has_halves = n_lanes == PAIR_LANES
    if _config.DISABLE_JIT:
        return _plain(n_lanes, is_each=False, has_halves=has_halves)

    blocks = BLOCKS[n_lanes]  # a dictionary has no digest

    def emit(builder: Any, values: dict[str, Any]) -> None:
        emitter = BlockEmitter(builder, values, n_lanes, has_halves=has_halves)
        emitter.over_pixels(blocks, emitter.block)

    return _compiled(emit)


def each_kernel(n_lanes: int) -> Any:
    """Return the same function for outputs with one input of their own; these are contiguous.

    Of steps, pitches, halves and counts it takes no notice.
    """
    if _config.DISABLE_JIT:
        return _plain(n_lanes, is_each=True)

    blocks = EACH_BLOCKS[n_lanes]  # a dictionary has no digest

    def emit(builder: Any, values: dict[str, Any]) -> None:
        emitter = BlockEmitter(builder, values, n_lanes)
        emitter.over_pixels(blocks, emitter.each)

    return _compiled(emit)


def dot_kernel() -> Any:
    """Return the same function for one output per pixel, with contiguous inputs and weights."""
    if _config.DISABLE_JIT:
        return _plain(1, is_each=False)

    def emit(builder: Any, values: dict[str, Any]) -> None:
        emitter = BlockEmitter(builder, values, DOT_LANES)
        emitter.over_pixels(_DOT_BLOCKS, emitter.dot)

    return _compiled(emit)


def spread_kernel() -> Any:
    """Return the same function for inputs with `SPREAD_OUTPUTS` outputs of their own.

    A pixel is `SPREAD_LANES` contiguous inputs, whose outputs are contiguous. The weights of a tap
    are contiguous: those of the first output of all inputs, of the second one, and so on. Of steps,
    pitches, halves and counts it takes no notice.
    """
    if _config.DISABLE_JIT:
        return _plain_spread

    def emit(builder: Any, values: dict[str, Any]) -> None:
        emitter = BlockEmitter(builder, values, SPREAD_LANES)
        emitter.over_pixels(_SPREAD_BLOCKS, lambda: emitter.spread(SPREAD_OUTPUTS))

    return _compiled(emit)
