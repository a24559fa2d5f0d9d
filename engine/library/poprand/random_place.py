"""Vertices of random numbers: every element's number follows from its position in the tensor.

They follow the order in memory, as other elementwise work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from tilescope.engine.codelets.poprand.random_numbers import (
    DIGIT_SIZES,
    DIGIT_STEPS,
    N_DIGITS,
    PLACE_SCALARS,
)
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import INT32, Regions, Tensor, Variable, View
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.graph.tensor.tensor import row_major
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import in_one, row_major_copy
from tilescope.engine.library.walk import joint_walk, joint_walks

__all__ = ["add_random_vertices", "check_seed"]

_MODIFIERS = 2**32


def check_seed(name: str, seed: View, modifier: int) -> None:
    """Raise BadGraph unless a seed is two int32 and its modifier has 32 bits.

    Raises
    ------
    BadGraph
        If the type or the shape is another, or the modifier is out of range.
    """
    if seed.dtype != INT32 or tuple(seed.shape) != (2,):
        raise BadGraph(
            f"{name}: the seed {seed.name!r} is {seed.dtype} of shape {tuple(seed.shape)}: expected"
            " int32 of shape (2,)"
        )
    if not 0 <= modifier < _MODIFIERS:
        raise BadGraph(f"{name}: the seed modifier is {modifier}: expected 0 to {_MODIFIERS - 1}")


def add_random_vertices(
    builder: Builder,
    codelet: Codelet,
    seed: View,
    out: Tensor,
    scalars: Mapping[str, Any],
    x: View | None = None,
) -> None:
    """Add a compute set of vertices that write the elements of their tiles.

    Parameters
    ----------
    builder
        Target of the program.
    codelet
        One of `tilescope.engine.codelets.poprand.random_numbers`.
    seed
        int32, shape (2,).
    out
        A new tensor, which `similar` mapped.
    scalars
        Scalars other than the position.
    x
        Second operand of a dropout, of the shape of `out`.
    """
    whole_seed = in_one(builder, seed, "seed")
    if not whole_seed.is_contiguous:
        whole_seed = row_major_copy(builder, whole_seed, "seed")
    indices, digits = _indices_of(builder, out)
    operands: list[View] = [indices] if x is None else [indices, x]
    walks = joint_walks(operands, out)
    if walks is None and x is not None:
        operands = [indices, row_major_copy(builder, x, "rearrange")]
        walks = joint_walks(operands, out)
    assert walks is not None, "row-major operands are compatible with the result"
    compute_set = builder.compute_set(codelet.name.partition("::")[2])
    for walk in walks:
        for is_block, tiles, regions in walk.batches():
            first_field, *other_fields = [
                region if is_block else _as_block(region, tiles.size) for region in regions
            ]
            n = tiles.size
            fields = {"seed": blocks(whole_seed.variable, whole_seed.offset, [2], [1], n)}
            fields |= dict(
                zip(("x", "out") if x is not None else ("out",), other_fields, strict=True)
            )
            columns = (first_field.start, *first_field.stride.T)
            where = dict(zip(PLACE_SCALARS, columns, strict=True))
            builder.vertices(compute_set, codelet, tiles, fields, {**where, **digits, **scalars})


def _indices_of(builder: Builder, out: Tensor) -> tuple[Tensor, dict[str, int]]:
    """Return a tensor whose offsets are indices, and the digits by which these become positions.

    Indices follow the order in memory, so that the vertices do, however the view turns it. The
    tensor is no part of the graph.
    """
    order = Variable(-1, "position", out.dtype, tuple(out.shape), builder.debug)
    positions = Tensor(order, 0, row_major(order.shape))
    walk = joint_walk([positions], out)
    assert walk is not None, "a row-major tensor is compatible with any"
    sizes, (steps, strides) = walk.sizes, walk.strides
    compact = tuple(stride for _, stride in chain.from_iterable(row_major(sizes)))
    if out.offset or strides != compact or len(sizes) > N_DIGITS:
        return positions, _digits([1], [])
    return Tensor(order, 0, out.dims), _digits(steps[::-1], sizes[:0:-1])


def _digits(steps: Sequence[int], sizes: Sequence[int]) -> dict[str, int]:
    """Return scalars of dimensions, innermost first; the outermost has no size."""
    scalars = dict.fromkeys((*DIGIT_SIZES, *DIGIT_STEPS), 0)
    scalars |= dict(zip(DIGIT_SIZES, sizes, strict=False))
    return scalars | dict(zip(DIGIT_STEPS, steps, strict=False))


def _as_block(region: Regions, n: int) -> Regions:
    """Return vectors as blocks of one row."""
    return blocks(region.variable, region.start, [1, 1, region.size[:, 0]], [0, 0, 1], n)
