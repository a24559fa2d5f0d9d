"""The innermost loop of products: a block of pixels times a row of outputs, in vector registers.

Written as LLVM IR, because a loop over few outputs that accumulates in memory is vectorised poorly.
A block keeps its sums in registers while it iterates over the inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

__all__ = ["LANES", "PIXELS", "block_kernels"]

#: Outputs of a block.
LANES = (16, 8, 4)
#: Pixels of a block, largest first.
PIXELS = (8, 4, 2, 1)

_config: Any = numba.config
_F32 = ir.FloatType()
_I64 = ir.IntType(64)


def _plain_block(n_pixels: int, n_lanes: int) -> Callable[..., None]:
    """Return a pure Python version, for runs without compilation."""

    def block(  # type: ignore[no-untyped-def]
        out, out_at, out_pitch, x, x_at, x_pitch, x_step, w, w_at, w_pitch, count
    ):
        for p in range(n_pixels):
            target = out_at + p * out_pitch
            for i in range(count):
                value = x[x_at + p * x_pitch + i * x_step]
                row = w_at + i * w_pitch
                out[target : target + n_lanes] += value * w[row : row + n_lanes]

    return block


def _emit(builder: Any, n_pixels: int, n_lanes: int, data: list[Any], numbers: list[Any]) -> None:
    """Emit the block: load the sums, loop over the inputs, store the sums."""
    out, x, w = data
    out_at, out_pitch, x_at, x_pitch, x_step, w_at, w_pitch, count = numbers
    vector = ir.VectorType(_F32, n_lanes)
    pointer = vector.as_pointer()

    def place(base: Any, index: Any) -> Any:
        return builder.gep(base, [index])

    def vector_at(base: Any, index: Any) -> Any:
        return builder.bitcast(place(base, index), pointer)

    targets = []
    for p in range(n_pixels):
        offset = builder.mul(out_pitch, ir.Constant(_I64, p))
        targets.append(vector_at(out, builder.add(out_at, offset)))
    # The sums are carried between iterations as SSA values. On the stack they would have to be
    # aligned to their size; the compiler assumes this, but stack frames do not guarantee it.
    before = builder.block
    head = builder.append_basic_block("inputs")
    body = builder.append_basic_block("input")
    after = builder.append_basic_block("done")
    first = [builder.load(target, align=4) for target in targets]
    builder.branch(head)

    builder.position_at_end(head)
    index = builder.phi(_I64)
    index.add_incoming(_I64(0), before)
    sums = [builder.phi(vector) for _ in targets]
    for total, value in zip(sums, first, strict=True):
        total.add_incoming(value, before)
    builder.cbranch(builder.icmp_signed("<", index, count), body, after)

    builder.position_at_end(body)
    weights = builder.load(vector_at(w, builder.add(w_at, builder.mul(index, w_pitch))), align=4)
    column = builder.add(x_at, builder.mul(index, x_step))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), n_lanes), [0] * n_lanes)
    for p, total in enumerate(sums):
        at = builder.add(column, builder.mul(x_pitch, ir.Constant(_I64, p)))
        single = builder.insert_element(
            ir.Constant(vector, ir.Undefined), builder.load(place(x, at)), _I64(0)
        )
        value = builder.shuffle_vector(single, single, mask)
        scaled = builder.fmul(value, weights, flags=("contract",))
        total.add_incoming(builder.fadd(scaled, total, flags=("contract",)), body)
    index.add_incoming(builder.add(index, _I64(1)), body)
    builder.branch(head)

    builder.position_at_end(after)
    for target, total in zip(targets, sums, strict=True):
        builder.store(total, target, align=4)


def _compiled_block(n_pixels: int, n_lanes: int) -> Any:
    @intrinsic
    def block(  # type: ignore[no-untyped-def]
        typing_context, out, out_at, out_pitch, x, x_at, x_pitch, x_step, w, w_at, w_pitch, count
    ):
        arrays = (out, x, w)
        if not all(isinstance(a, types.Array) and a.dtype == types.float32 for a in arrays):
            return None
        integers = (types.int64,)
        signature = types.void(out, *integers * 2, x, *integers * 3, w, *integers * 2, types.int64)

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            data, numbers = [], []
            for kind, value in zip(signature.args, arguments, strict=True):
                if isinstance(kind, types.Array):
                    data.append(context.make_array(kind)(context, builder, value).data)
                else:
                    numbers.append(value)
            _emit(builder, n_pixels, n_lanes, data, numbers)
            return context.get_dummy_value()

        return signature, generate

    return block


def block_kernels() -> dict[tuple[int, int], Any]:
    """Return functions that add a product of small matrices to `out`, by (pixels, lanes).

    Arguments: ``out, out_at, out_pitch, x, x_at, x_pitch, x_step, w, w_at, w_pitch, count``. They
    are flat float32 arrays, first elements, strides between pixels (pitch) and between inputs
    (step), and the number of inputs. Outputs and weights of one input are contiguous.
    """
    make = _plain_block if _config.DISABLE_JIT else _compiled_block
    return {(p, lanes): make(p, lanes) for p in PIXELS for lanes in LANES}
