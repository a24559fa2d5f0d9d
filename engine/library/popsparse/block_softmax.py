"""Softmax of the rows of block-sparse matrices: zeros of the pattern take no part.

As in graphcore/poplibs sdk-release-3.4, lib/popsparse/BSNonLinearity.cpp: the blocks of rows with
like numbers of them are copied to rectangles, which are padded with the lowest number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT16, FLOAT32, Tensor, View, concat
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place, unary_in_place
from tilescope.engine.library.popops.elementwise.operations import (
    binary,
    cast,
    copy_to,
    copy_together,
)
from tilescope.engine.library.popops.reduction.reduce import reduce, reduce_with_output
from tilescope.engine.planner.sparse.pattern import BlockPattern

__all__ = ["SUB_BLOCK_MASKS", "bs_softmax", "bs_softmax_grad", "bs_softmax_in_place"]

Counts = NDArray[np.int64]

#: What of the matrix counts as zero besides its pattern (``SubBlockMask``).
SUB_BLOCK_MASKS = ("none", "zero_upper_triangle", "zero_lower_triangle")
#: Lowest numbers by type.
_LOWEST = {FLOAT32: float(np.finfo(np.float32).min), FLOAT16: -65504.0}


@checked
def bs_softmax(
    builder: Builder, x: View, pattern: BlockPattern, mask: str = "none", name: str = "bsSoftmax"
) -> Tensor:
    """Return the softmax of every row of a block-sparse matrix.

    Parameters
    ----------
    builder
        Target of the program.
    x
        The blocks by row, shape (n_blocks, size, size), float16 or float32.
    pattern
        Places of the blocks: `CsrMatrix.pattern`, for example.
    mask
        ``none``; or ``zero_upper_triangle`` or ``zero_lower_triangle``, whose elements beside the
        diagonal of the whole matrix become zeros and take no part.
    name
        Name of the call.

    Raises
    ------
    BadGraph
        If the blocks are not those of the pattern, or the mask or the type is not supported.
    """
    _check(name, x, pattern, mask)
    out = builder.graph.clone(x, "softmax", debug=builder.debug)
    copy_to(builder, x, out, "bsSoftmaxInput")
    bs_softmax_in_place(builder, out, pattern, mask, name)
    return out


@checked
def bs_softmax_in_place(
    builder: Builder,
    x: View,
    pattern: BlockPattern,
    mask: str = "none",
    name: str = "bsSoftmaxInPlace",
) -> None:
    """Replace the rows of a block-sparse matrix by their softmax.

    Parameters
    ----------
    builder, x, pattern, mask, name
        As for `bs_softmax`.

    Raises
    ------
    BadGraph
        As there.
    """
    _check(name, x, pattern, mask)
    build = _inside(builder, name, "popsparse.bsSoftmax", x)
    lowest = _LOWEST[x.dtype]
    masked = _masked(pattern, mask)
    kept_values = None
    if masked.blocks.size:
        blocks = concat([x.slice(0, int(block), int(block) + 1) for block in masked.blocks])
        kept_values = build.constant(masked.kept, "kept", x.dtype)
        binary_in_place(build, "multiply", blocks, kept_values)
        dropped = build.constant((1 - masked.kept) * lowest, "dropped", x.dtype)
        binary_in_place(build, "add", blocks, dropped)
    for rectangle in _rectangles(build, pattern, x.dtype):
        rows = rectangle.filled(build, x, lowest)
        binary_in_place(build, "subtract", rows, reduce(build, "maximum", rows, [1]))
        unary_in_place(build, "exp", rows)
        total = _sums(build, rows)
        unary_in_place(build, "inverse", total)
        binary_in_place(build, "multiply", rows, _as_type(build, total, x))
        rectangle.give_back(build, x)
    if kept_values is not None:
        binary_in_place(build, "multiply", blocks, kept_values)


@checked
def bs_softmax_grad(
    builder: Builder, out: View, gradient: View, pattern: BlockPattern, name: str = "bsSoftmaxGrad"
) -> Tensor:
    """Return the gradients of the operand of a `bs_softmax`.

    Parameters
    ----------
    builder
        Target of the program.
    out
        The result of the softmax.
    gradient
        Of the result, of its shape and type.
    pattern
        As for `bs_softmax`. Where a mask made zeros, gradients are zeros.
    name
        Name of the call.

    Raises
    ------
    BadGraph
        If the blocks are not those of the pattern, or of different types.
    """
    _check(name, out, pattern, "none")
    _check(name, gradient, pattern, "none")
    if out.dtype != gradient.dtype:
        raise BadGraph(
            f"{name}: {out.name!r} is {out.dtype} and {gradient.name!r} {gradient.dtype}: cast one"
        )
    build = _inside(builder, name, "popsparse.bsSoftmaxGrad", out)
    result = build.graph.clone(out, "gradient", debug=build.debug)
    pairs = zip(
        _rectangles(build, pattern, out.dtype), _rectangles(build, pattern, out.dtype), strict=True
    )
    for of_result, of_gradient in pairs:
        rows, slopes = of_result.filled(build, out, 0), of_gradient.filled(build, gradient, 0)
        total = _sums(build, binary(build, "multiply", rows, slopes))
        binary_in_place(build, "subtract", slopes, _as_type(build, total, out))
        binary_in_place(build, "multiply", slopes, rows)
        of_gradient.give_back(build, result)
    return result


def _check(name: str, x: View, pattern: BlockPattern, mask: str) -> None:
    """Refuse blocks that are not those of a pattern.

    Raises
    ------
    BadGraph
        If they are not, or the type or the mask is not supported.
    """
    size = pattern.block_size
    wanted = (pattern.n_blocks, size, size)
    if tuple(x.shape) != wanted or not pattern.n_blocks:
        raise BadGraph(
            f"{name}: {x.name!r} has shape {tuple(x.shape)}: expected the blocks of the pattern,"
            f" {wanted}, one at least"
        )
    if x.dtype not in _LOWEST:
        raise BadGraph(f"{name}: {x.name!r} is {x.dtype}: expected float16 or float32; cast it")
    if mask not in SUB_BLOCK_MASKS:
        raise BadGraph(f"{name}: unknown mask {mask!r}: use {', '.join(SUB_BLOCK_MASKS)}")


def _inside(builder: Builder, name: str, operation: str, x: View) -> Builder:
    return builder.inside(name, operation, {"blocks": list(x.shape)})


class _Masked(NamedTuple):
    """Blocks that a mask changes.

    Parameters
    ----------
    blocks : ndarray of int64, shape (n,)
        Their numbers in the pattern.
    kept : ndarray of float32, shape (n, size, size)
        1 where an element stays, 0 where it becomes zero.
    """

    blocks: Counts
    kept: NDArray[np.float32]


def _masked(pattern: BlockPattern, mask: str) -> _Masked:
    """Return the blocks with elements in the triangle of a mask."""
    size = pattern.block_size
    inside = np.arange(size)
    rows = pattern.rows[:, None, None] * size + inside[:, None]
    columns = pattern.columns[:, None, None] * size + inside
    if mask == "zero_upper_triangle":
        kept = columns <= rows
    elif mask == "zero_lower_triangle":
        kept = columns >= rows
    else:
        kept = np.ones((pattern.n_blocks, size, size), np.bool_)
    blocks = np.flatnonzero(~kept.all(axis=(1, 2)))
    return _Masked(blocks, kept[blocks].astype(np.float32))


class _Rectangle:
    """Rows of blocks with like numbers of them, in one tensor, shape (rows, columns)."""

    def __init__(self, parts: list[tuple[int, int]], width: int, tensor: Tensor) -> None:
        self._parts, self._width, self._tensor = parts, width, tensor

    def filled(self, build: Builder, x: View, padding: float) -> Tensor:
        """Copy the blocks, and return the rows with what pads them."""
        n_rows, size, _, _ = self._tensor.shape
        if any(count < self._width for _, count in self._parts):
            fill(build, self._tensor, padding)
        copy_together(build, list(self._pairs(x)), "gather")
        return self._tensor.reshape(n_rows * size, self._width * size)

    def give_back(self, build: Builder, x: View) -> None:
        """Copy the blocks back."""
        copy_together(build, [(to, of) for of, to in self._pairs(x)], "scatter")

    def _pairs(self, x: View) -> Iterator[tuple[View, View]]:
        for row, (first, count) in enumerate(self._parts):
            to = self._tensor.slice(0, row, row + 1).slice(2, 0, count)
            _, size, _, _ = to.shape
            yield (
                x.slice(0, first, first + count),
                to.reshape(size, count, size).dim_shuffle(1, 0, 2),
            )


def _rectangles(build: Builder, pattern: BlockPattern, dtype: object) -> Iterator[_Rectangle]:
    """Yield rectangles for the rows of a pattern, each as wide as a power of two of blocks."""
    _, first, counts = np.unique(pattern.rows, return_index=True, return_counts=True)
    widths = 1 << np.ceil(np.log2(counts)).astype(np.int64)
    size = pattern.block_size
    for wide in np.unique(widths).tolist():
        chosen = np.flatnonzero(widths == wide)
        width = int(counts[chosen].max())
        tensor = build.graph.add_variable(
            dtype, (chosen.size, size, width, size), f"rows{wide}", build.debug
        )
        build.spread(tensor, grain=width * size)
        parts = [(int(first[i]), int(counts[i])) for i in chosen]
        yield _Rectangle(parts, width, tensor)


def _sums(build: Builder, rows: Tensor) -> Tensor:
    """Return the sums of rows, as floats, shape (rows, 1)."""
    out = build.graph.add_variable(FLOAT32, (rows.shape[0], 1), "sum", build.debug)
    reduce_with_output(build, "sum", rows, out, [1])
    return out


def _as_type(build: Builder, total: Tensor, x: View) -> Tensor:
    return total if total.dtype == x.dtype else cast(build, total, x.dtype)
