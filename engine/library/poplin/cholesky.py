"""Cholesky factors of symmetric matrices, a block of columns after the other.

As in graphcore/poplibs sdk-release-3.4, lib/poplin/Cholesky.cpp: one vertex factorises the first
block of the diagonal and others invert it; a product with the inverse gives the rest of its
columns, whose product with themselves is subtracted from what remains.
"""

from __future__ import annotations

from collections.abc import Sequence as Several
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.arguments import a_count, a_switch
from tilescope.engine.codelets.poplin.triangular import CHOLESKY, TRIANGULAR_INVERSE
from tilescope.engine.graph import View, dtype_of, section
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.allocators import (
    create_matmul_input_lhs,
    create_matmul_input_rhs,
)
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.library.poplin.triangular import (
    batches_of,
    check_square,
    check_type,
    fullest_tile,
    in_order,
    matrix_regions,
    part,
    zeros_beside,
)
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place
from tilescope.engine.library.popops.elementwise.operations import (
    copy_to,
    row_major_copy,
    unary,
)
from tilescope.engine.library.popops.reduction.reduce import reduce
from tilescope.engine.program import ErrorProgram, If, Sequence

__all__ = ["cholesky", "cholesky_in_place", "create_cholesky_input"]

#: Columns that are factorised by one vertex.
#: Source: graphcore/poplibs sdk-release-3.4, include/poplin/Cholesky.hpp
_BLOCK_SIZE = 8


@checked
def create_cholesky_input(
    builder: Builder,
    shape: Several[int],
    name: str = "a",
    *,
    dtype: Any = "float32",
    lower: bool = True,
    block_size: int = _BLOCK_SIZE,
) -> View:
    """Add a variable for the matrices of a `cholesky`, whose blocks are on a tile each.

    Parameters
    ----------
    builder
        Its graph and tiles.
    shape
        Shape (..., n, n).
    name
        Name of the variable.
    dtype
        float16 or float32.
    lower, block_size
        As for `cholesky`.

    Returns
    -------
    View
        Of that shape.

    Raises
    ------
    BadGraph
        If the matrices are not square, or an argument is not allowed.
    """
    check_square("create_cholesky_input", shape)
    a_switch("lower of create_cholesky_input", lower)
    n_batch, n = prod(shape[:-2]), int(shape[-1])
    size = min(a_count("block_size of create_cholesky_input", block_size, 1), n)
    n_blocks = -(-n // size)
    kind = dtype_of(dtype)
    blocks = builder.graph.add_variable(
        kind, (n_batch, n_blocks, n_blocks, size, size), name, builder.debug
    )
    tiles = np.asarray(builder.tiles.ids)[_places(n_blocks, len(builder.tiles.ids))]
    starts = np.arange(n_batch * n_blocks * n_blocks, dtype=np.int64) * (size * size)
    builder.graph.set_tile_mapping(blocks, starts, np.tile(tiles.reshape(-1), n_batch))
    view = blocks.dim_shuffle(0, 1, 3, 2, 4)
    view = view.reshape(n_batch, n_blocks * size, n_blocks * size)
    matrices = part(view, (0, n), (0, n))
    return (matrices if lower else matrices.dim_shuffle(0, 2, 1)).reshape(*shape)


@checked
def cholesky(
    builder: Builder,
    a: View,
    *,
    lower: bool = True,
    block_size: int = _BLOCK_SIZE,
    is_checked: bool = False,
    available_memory_proportion: float | None = None,
    partials_type: str | None = None,
) -> View:
    """Return the Cholesky factors of symmetric matrices that are positive definite.

    Parameters
    ----------
    builder
        Target of the program.
    a
        Shape (..., n, n), float16 or float32; only one triangle is read.
    lower
        Whether the lower triangle is read, and the factor times its transpose gives the matrix;
        otherwise the upper one, and its transpose times the factor.
    block_size
        Columns that one vertex factorises.
    is_checked
        Whether the program ends with an error, a `ProgramError` of the engine, if a matrix is not
        positive definite. The real library checks nothing.
    available_memory_proportion, partials_type
        Of the products, as for `matmul`.

    Returns
    -------
    View
        The factors, with zeros in the other triangle. Of a matrix that is not positive definite,
        NaN from the first column that shows it.

    Raises
    ------
    BadGraph
        If the matrices are not square, or an argument is not allowed.

    Notes
    -----
    Source: graphcore/poplibs sdk-release-3.4, include/poplin/Cholesky.hpp, cholesky.
    """
    check_square("cholesky", a.shape)
    check_type("cholesky", a)
    kinds: dict[str, Any] = {"dtype": a.dtype.name, "lower": lower, "block_size": block_size}
    out = create_cholesky_input(builder, a.shape, "factors", **kinds)
    copy_to(builder, a, out, "choleskyInput")
    cholesky_in_place(
        builder, out, lower=lower, block_size=block_size, is_checked=is_checked,
        available_memory_proportion=available_memory_proportion, partials_type=partials_type,
    )  # fmt: skip
    return out


@checked
def cholesky_in_place(
    builder: Builder,
    a: View,
    *,
    lower: bool = True,
    block_size: int = _BLOCK_SIZE,
    is_checked: bool = False,
    available_memory_proportion: float | None = None,
    partials_type: str | None = None,
) -> None:
    """Replace symmetric matrices by their Cholesky factors.

    Parameters
    ----------
    builder
        Target of the program.
    a
        The matrices, as for `cholesky`.
    lower, block_size, is_checked, available_memory_proportion, partials_type
        As for `cholesky`.

    Raises
    ------
    BadGraph
        As for `cholesky`.
    """
    check_square("cholesky_in_place", a.shape)
    check_type("cholesky_in_place", a)
    a_switch("lower of cholesky_in_place", lower)
    a_switch("is_checked of cholesky_in_place", is_checked)
    size = a_count("block_size of cholesky_in_place", block_size, 1)
    n = a.shape[-1]
    detail = {"shape": list(a.shape), "lower": lower, "blockSize": min(size, n)}
    flops = prod(a.shape[:-2]) * n * n * n // 3
    build = builder.inside("cholesky", "poplin.cholesky", detail, flops=flops)
    settings = {
        "available_memory_proportion": available_memory_proportion,
        "partials_type": partials_type,
    }
    matrices = batches_of(a)
    if not lower:
        matrices = matrices.dim_shuffle(0, 2, 1)
    rest = matrices
    while rest.shape[1] > size:
        _first_columns(build, rest, size, settings)
        n_left = rest.shape[1]
        rest = part(rest, (size, n_left), (size, n_left))
    _factorise(build, rest)
    zeros_beside(build, matrices)
    if is_checked:
        _end_unless_definite(build, matrices)


def _end_unless_definite(build: Builder, factors: View) -> None:
    """End the run if a matrix was not positive definite: then its last factor is NaN."""
    n = factors.shape[1]
    last = row_major_copy(build, part(factors, (n - 1, n), (n - 1, n)).reshape(-1), "last")
    has_failed = unary(build, "is_nan", last)
    is_any = reduce(build, "logical_or", has_failed, [0])
    error = ErrorProgram(
        f"{build.debug.name!r} takes matrices that are positive definite, and those with True are"
        " not; add to their diagonals, or leave out is_checked to get NaN",
        has_failed,
        debug=build.debug,
    )
    failed = Sequence("notDefinite", debug=build.debug)
    failed.add(error)
    build.sequence.add(If(is_any.reshape(), failed, Sequence(), debug=build.debug))


def _first_columns(builder: Builder, a: View, size: int, settings: dict[str, Any]) -> None:
    """Factorise the first columns of matrices, and subtract what they give from the rest."""
    n = a.shape[1]
    corner, below = part(a, (0, size), (0, size)), part(a, (size, n), (0, size))
    _factorise(builder, corner)
    solved = _product(builder, below, _inverse(builder, corner), "A21*A11IT", settings)
    copy_to(builder, solved, below, "columns")
    product = _product(builder, below, below.dim_shuffle(0, 2, 1), "A21*A21T", settings)
    binary_in_place(builder, "subtract", part(a, (size, n), (size, n)), product)


def _factorise(builder: Builder, a: View) -> None:
    """Factorise whole matrices, a vertex each, on the tile that has most of it."""
    n_batch, n = a.shape[:2]
    block = in_order(builder, a)
    entries = [section(block, 0, i, i + 1).reshape(n, n) for i in range(n_batch)]
    tiles = [fullest_tile(builder, section(a, 0, i, i + 1)) for i in range(n_batch)]
    vertices = builder.compute_set("cholesky")
    builder.vertices(vertices, CHOLESKY, tiles, {"a": matrix_regions(entries)})
    if block is not a:
        copy_to(builder, block, a, "factorised")


def _inverse(builder: Builder, a: View) -> View:
    """Return the transposes of the inverses of lower triangles: its rows on a tile's workers each.

    Rows begin on the tile that has most of them, and go on upon the next ones.
    """
    n_batch, n = a.shape[:2]
    machine, block = builder.graph.machine, in_order(builder, a)
    out = builder.graph.clone(block, "inverse", debug=builder.debug)
    n_workers = machine.n_worker_contexts
    matrices: list[View] = []
    targets: list[View] = []
    tiles: list[int] = []
    first_rows: list[int] = []
    for i in range(n_batch):
        matrix = section(block, 0, i, i + 1).reshape(n, n)
        target = section(out, 0, i, i + 1).reshape(n, n)
        for place, first in enumerate(range(0, n, n_workers)):
            matrices.append(matrix)
            targets.append(section(target, 0, first, min(first + n_workers, n)))
            tiles.append((fullest_tile(builder, targets[-1]) + place) % machine.n_tiles)
            first_rows.append(first)
    fields = {"a": matrix_regions(matrices), "out": matrix_regions(targets)}
    vertices = builder.compute_set("triangularInverse")
    builder.vertices(vertices, TRIANGULAR_INVERSE, tiles, fields, {"first": first_rows})
    return out


def _product(builder: Builder, a: View, b: View, name: str, settings: dict[str, Any]) -> View:
    """Multiply copies of matrices that lie as the product reads them."""
    kinds = {"dtype": a.dtype.name, **settings}
    left = create_matmul_input_lhs(builder, a.shape, b.shape, f"{name}/left", **kinds)
    right = create_matmul_input_rhs(builder, b.shape, a.shape, f"{name}/right", **kinds)
    copy_to(builder, a, left, f"{name}/left")
    copy_to(builder, b, right, f"{name}/right")
    return matmul(builder, left, right, name, **settings)


def _places(n_blocks: int, n_tiles: int) -> NDArray[np.int64]:
    """Return the tile of every block, as a number among the tiles: shape (n_blocks, n_blocks).

    Source: graphcore/poplibs sdk-release-3.4, lib/poplin/Cholesky.cpp, setTileMapping: blocks of
    the lower triangle, of the rectangle beside it and of the upper triangles are dealt out one
    after the other; four blocks of an even number are one.
    """
    first = min(n_tiles - 1, 2)
    places = np.zeros((n_blocks, n_blocks), np.int64)
    wide = 1 if n_blocks % 2 else 2
    half = -(-n_blocks // 2)

    def deal(rows: range, columns_of: Any, step: int, start: int, jump: int) -> None:
        tile = start
        for row in rows:
            for column in columns_of(row):
                places[row : row + step, column : column + step] = tile
                tile = (tile + jump) % n_tiles

    if n_blocks < 2:
        return places + first
    deal(
        range(0, n_blocks, wide),
        lambda row: range(0, row + 1, wide),
        wide,
        (first - 2) % n_tiles,
        1,
    )
    deal(range(0, half, wide), lambda _: range(half, n_blocks, wide), wide, first, 1)
    for origin, height, width, start, jump in (
        ((half, half), n_blocks - half, n_blocks - half, first, 1),
        ((0, wide), half, half - wide, n_tiles - 1, -1),
    ):
        tile = start
        for column in range(max(width, 0)):
            for row in range(min(column - column % wide + wide, height)):
                places[origin[0] + row, origin[1] + column] = tile
                tile = (tile + jump) % n_tiles
    return places
