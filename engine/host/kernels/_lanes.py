"""The innermost loops of products: sums of several pixels, kept in vector registers throughout.

Written as LLVM IR, because a loop over few outputs that accumulates in memory is vectorised poorly.
The sums of a block begin at zero, stay in registers over the whole window and all inputs, and are
stored once.

A sum is a chain of fused multiplications and additions in the order of taps and inputs, whatever
the block: the same bits on any processor. A dot product is `DOT_LANES` such chains, each of every
`DOT_LANES`-th input, whose sums are added in pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from llvmlite import ir

from tilescope.engine.host.jit._jit import intrinsic
from tilescope.engine.host.jit.settings import IS_COMPILED
from tilescope.engine.host.kernels._addresses import AT_ONCE, floats_at, numbers_at
from tilescope.engine.host.kernels._block_emitter import BlockEmitter

__all__ = [
    "BLOCKS",
    "DOT_BLOCKS",
    "DOT_LANES",
    "EACH_BLOCKS",
    "GROUPS",
    "LARGEST",
    "SEVERAL_BLOCKS",
    "SEVERAL_OUTPUTS",
    "SPREAD_BLOCKS",
    "SPREAD_LANES",
    "dot_kernel",
    "each_kernel",
    "row_kernel",
    "spread_kernel",
]

#: Pixels of the blocks, largest first, by their lanes, which are outputs.
BLOCKS = {32: (8, 4, 1), 16: (8, 4, 2, 1), 8: (8, 4, 1), 4: (8, 1), 1: (8, 1)}
#: The same where every output has an input of its own, or several of them.
EACH_BLOCKS = {16: (8, 4, 1), 8: (8, 4, 1), 4: (4, 1), 1: (1,)}
SEVERAL_BLOCKS = (8, 2)
#: Lanes of a dot product, and the pixels of blocks by the outputs that share a pixel's inputs.
DOT_LANES, DOT_BLOCKS = 16, {4: (4, 1), 2: (8, 2, 1), 1: (8, 2, 1)}
#: Lanes and the groups of outputs with the same inputs that they are: an input is loaded once for
#: all. In the first cache, 99 billion multiply-adds a second with 32 lanes, and 72 with 16.
GROUPS = ((32, 2), (32, 4), (16, 2), (8, 1), (4, 1), (1, 1))
#: Contiguous inputs of all pixels that are computed together, and the blocks of these: by their
#: outputs, and by the requested ones of them, without padding.
SPREAD_LANES, SPREAD_BLOCKS = 16, {(4, 4): (2, 1), (4, 1): (4, 1), (1, 1): (8, 2, 1)}
#: Outputs of an input that are several lanes.
SEVERAL_OUTPUTS = 4
#: Most pixels of a block: the lists of pixels are padded by one less.
LARGEST = AT_ONCE

#: Addresses of floats and of lists of integers, and numbers, in the order of a kernel's arguments.
_FLOATS, _LISTS = ("out", "x", "w"), ("out_places", "x_places", "tap_x", "tap_w")
_ARGUMENTS = (
    *("out", "out_places", "out_apart", "x", "x_places", "x_step", "w", "w_pitch", "w_apart"),
    *("tap_x", "tap_w", "n_taps", "count", "n_pixels"),
)


def _plain(n_lanes: int, *, n_own: int = 0, n_groups: int = 1) -> Callable[..., None]:
    """Return a pure Python version, for runs without compilation.

    Every input has `n_own` outputs, or one input all of them. Groups of lanes may be apart.
    """
    n_inputs, n_own = (n_lanes // n_own, n_own) if n_own else (1, n_lanes)
    n = n_lanes // n_groups

    def block(  # type: ignore[no-untyped-def]
        out, out_places, out_apart, x, x_places, x_step, w, w_pitch, w_apart, tap_x, tap_w, n_taps,
        count, n_pixels,
    ):  # fmt: skip
        taps = list(zip(numbers_at(tap_x, n_taps), numbers_at(tap_w, n_taps), strict=True))
        addresses = zip(
            numbers_at(x_places, n_pixels), numbers_at(out_places, n_pixels), strict=True
        )
        for source, target in addresses:
            total = np.zeros((n_groups, n), np.float32)
            for (output, row), i in product(taps, range(count)):
                values = floats_at(x, source + output + i * x_step, n_inputs).repeat(n_own)
                for group in range(n_groups):
                    weights = floats_at(w, row + i * w_pitch + group * w_apart, n)
                    total[group] += values[group * n : group * n + n] * weights
            for group in range(n_groups):
                floats_at(out, target + group * out_apart, n)[:] = total[group]

    return block


def _plain_spread(n_own: int, n_requested: int) -> Callable[..., None]:
    """Return a pure Python version of `spread_kernel`, for runs without compilation."""

    def spread(  # type: ignore[no-untyped-def]
        out, out_places, out_apart, x, x_places, x_step, w, w_pitch, w_apart, tap_x, tap_w, n_taps,
        count, n_pixels,
    ):  # fmt: skip
        taps = list(zip(numbers_at(tap_x, n_taps), numbers_at(tap_w, n_taps), strict=True))
        addresses = zip(
            numbers_at(x_places, n_pixels), numbers_at(out_places, n_pixels), strict=True
        )
        for source, target in addresses:
            total = np.zeros((SPREAD_LANES, n_own), np.float32)
            own_total = total[:, :n_requested]
            for output, row in taps:
                rows = floats_at(w, row, own_total.size).reshape(n_requested, SPREAD_LANES)
                own_total += floats_at(x, source + output, SPREAD_LANES)[:, None] * rows.T
            floats_at(out, target, total.size)[:] = total.reshape(-1)

    return spread


def _compiled(emit: Callable[[Any, dict[str, Any]], None]) -> Any:
    @intrinsic
    def block(  # type: ignore[no-untyped-def]
        typing_context, out, out_places, out_apart, x, x_places, x_step, w, w_pitch, w_apart, tap_x,
        tap_w, n_taps, count, n_pixels,
    ):  # fmt: skip
        from numba.core import types

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            values = dict(zip(_ARGUMENTS, arguments, strict=True))
            for names, kind in ((_FLOATS, ir.FloatType()), (_LISTS, ir.IntType(64))):
                for name in names:
                    values[name] = builder.inttoptr(values[name], kind.as_pointer())
            emit(builder, values)
            return context.get_dummy_value()

        return types.void(*[types.int64] * len(_ARGUMENTS)), generate

    return block


def row_kernel(n_lanes: int, n_groups: int) -> Any:
    """Return the function that stores sums of products: `n_lanes` outputs of all pixels of a list.

    Its arguments are ``out, out_places, out_apart, x, x_places, x_step, w, w_pitch, w_apart, tap_x,
    tap_w, n_taps, count, n_pixels``: addresses of the first float32; addresses of lists of the
    pixels' offsets; strides between the inputs of a pixel (step) and between their weights (pitch);
    addresses of lists of the taps' offsets; inputs per tap. All of them are integers: an array is
    seven numbers to pass. The outputs of a group are contiguous, and their weights for one input;
    of the next group, they are `out_apart` and `w_apart` further. Lanes and groups are one of
    `GROUPS`. The lists of pixels repeat the last one up to a multiple of `LARGEST`.
    """
    if not IS_COMPILED:
        return _plain(n_lanes, n_groups=n_groups)

    blocks = BLOCKS[n_lanes]  # a dictionary has no digest

    def emit(builder: Any, values: dict[str, Any]) -> None:
        emitter = BlockEmitter(builder, values, n_lanes, n_groups=n_groups)
        emitter.over_pixels(blocks, emitter.block)

    return _compiled(emit)


def each_kernel(n_lanes: int, n_own: int = 1) -> Any:
    """Return the same function for inputs with `n_own` outputs of their own; both are contiguous.

    Of steps, pitches, halves and counts it takes no notice.
    """
    if not IS_COMPILED:
        return _plain(n_lanes, n_own=n_own)

    blocks = EACH_BLOCKS[n_lanes] if n_own == 1 else SEVERAL_BLOCKS  # a dictionary has no digest

    def emit(builder: Any, values: dict[str, Any]) -> None:
        emitter = BlockEmitter(builder, values, n_lanes)
        emitter.over_pixels(blocks, lambda: emitter.each(n_own))

    return _compiled(emit)


def dot_kernel(n_outputs: int) -> Any:
    """Return the same function for dot products of pixels with the weights of some outputs.

    Inputs and weights are contiguous. The outputs are `out_apart` apart, and their weights
    `w_apart`; `n_outputs` is one of `DOT_BLOCKS`.
    """
    if not IS_COMPILED:
        return _plain(n_outputs, n_groups=n_outputs)

    blocks = DOT_BLOCKS[n_outputs]  # a dictionary has no digest

    def emit(builder: Any, values: dict[str, Any]) -> None:
        emitter = BlockEmitter(builder, values, DOT_LANES)
        emitter.over_pixels(blocks, lambda: emitter.dots(n_outputs))

    return _compiled(emit)


def spread_kernel(n_own: int, n_requested: int) -> Any:
    """Return the same function for inputs with `n_own` outputs of their own: see `SPREAD_BLOCKS`.

    A pixel is `SPREAD_LANES` contiguous inputs, whose outputs are contiguous. The weights of a tap
    are contiguous: those of the first output of all inputs, of the second one, and so on, up to the
    requested ones. The others are padding, and zero. Of steps, pitches, halves and counts it takes
    no notice.
    """
    if not IS_COMPILED:
        return _plain_spread(n_own, n_requested)

    blocks = SPREAD_BLOCKS[n_own, n_requested]  # a dictionary has no digest

    def emit(builder: Any, values: dict[str, Any]) -> None:
        emitter = BlockEmitter(builder, values, SPREAD_LANES)
        emitter.over_pixels(blocks, lambda: emitter.spread(n_own, n_requested))

    return _compiled(emit)
