"""Triangular systems: blocks of the matrix by substitution, the rest by products.

As in graphcore/poplibs sdk-release-3.4, lib/poplin/TriangularSolve.cpp: a matrix is halved until a
part fits a block; what one half gives is subtracted from the other's right side by a product. A
block is solved for all its columns row by row, and for a single column by one vertex. Equal
products, and the substitution of a block, exist once and are called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from tilescope.engine.arguments import a_count, a_switch
from tilescope.engine.codelets.poplin.triangular import (
    LOWER_SOLVE,
    LOWER_SOLVE_ON_ALL_WORKERS,
    UPPER_SOLVE,
    UPPER_SOLVE_ON_ALL_WORKERS,
    VECTOR_ROWS,
)
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import (
    FLOAT16,
    FLOAT32,
    Regions,
    Tensor,
    View,
    concat,
    dtype_of,
    section,
)
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.allocators import (
    create_matmul_input_lhs,
    create_matmul_input_rhs,
)
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place
from tilescope.engine.library.popops.elementwise.operations import (
    binary,
    copy_to,
    copy_together,
    row_major_copy,
    vector_elements,
)
from tilescope.engine.program import Call, Function
from tilescope.engine.program import Sequence as ProgramSequence

__all__ = [
    "batches_of",
    "check_square",
    "check_type",
    "create_triangular_solve_input_lhs",
    "create_triangular_solve_input_rhs",
    "diagonal",
    "fullest_tile",
    "in_order",
    "matrix_regions",
    "part",
    "triangular_mask",
    "triangular_solve",
    "zeros_beside",
]

_SOLVE = "triangular_solve"
#: Rows of a block. Source: graphcore/poplibs sdk-release-3.4, include/poplin/TriangularSolve.hpp
_BLOCK_SIZE = 64


@checked
def create_triangular_solve_input_lhs(
    builder: Builder,
    a_shape: Sequence[int],
    b_shape: Sequence[int],
    name: str = "a",
    *,
    dtype: Any = "float32",
    left_side: bool = True,
    block_size: int = _BLOCK_SIZE,
) -> View:
    """Add a variable for the matrices of a `triangular_solve`, whose blocks are on a tile each.

    Parameters
    ----------
    builder
        Its graph and tiles.
    a_shape, b_shape
        Shapes (..., n, n), and (..., n, k) or, with the matrix on the right side, (..., k, n).
    name
        Name of the variable.
    dtype
        float16 or float32.
    left_side, block_size
        As for `triangular_solve`.

    Returns
    -------
    View
        Of the shape of the matrices.

    Raises
    ------
    BadGraph
        If the shapes do not go together, or an argument is not allowed.
    """
    _check_shapes(a_shape, b_shape, left_side=left_side)
    size = a_count(f"block_size of {_SOLVE}", block_size, 1)
    matrices = _in_blocks(builder, _grouped(a_shape), name, dtype, size, is_turned=not left_side)
    return matrices.reshape(*a_shape)


@checked
def create_triangular_solve_input_rhs(
    builder: Builder,
    a_shape: Sequence[int],
    b_shape: Sequence[int],
    name: str = "b",
    *,
    dtype: Any = "float32",
    left_side: bool = True,
) -> View:
    """Add a variable for the right side of a `triangular_solve`, a column after the other.

    Parameters
    ----------
    builder, a_shape, b_shape, name, dtype, left_side
        As for `create_triangular_solve_input_lhs`.

    Raises
    ------
    BadGraph
        As there.
    """
    _check_shapes(a_shape, b_shape, left_side=left_side)
    n_batch, rows, columns = _grouped(b_shape)
    shape = (n_batch, columns, rows) if left_side else (n_batch, rows, columns)
    variable = builder.graph.add_variable(dtype_of(dtype), shape, name, builder.debug)
    builder.spread(variable)
    view = variable.dim_shuffle(0, 2, 1) if left_side else variable
    return view.reshape(*b_shape)


@checked
def triangular_mask(
    builder: Builder, a: View, *, lower: bool = True, unit_diagonal: bool = False
) -> View:
    """Return matrices with zeros in place of one of their triangles.

    Parameters
    ----------
    builder
        Target of the program.
    a
        Shape (..., n, n), float16 or float32.
    lower
        Whether the lower triangle stays; otherwise the upper one.
    unit_diagonal
        Whether the diagonal becomes ones.

    Raises
    ------
    BadGraph
        If the matrices are not square, or of another type.
    """
    check_square("triangular_mask", a.shape)
    check_type("triangular_mask", a)
    a_switch("lower of triangular_mask", lower)
    a_switch("unit_diagonal of triangular_mask", unit_diagonal)
    detail = {"shape": list(a.shape), "lower": lower, "unitDiagonal": unit_diagonal}
    build = builder.inside("triangularMask", "poplin.triangularMask", detail)
    out = _masked(build, batches_of(a), is_lower=lower, has_ones=unit_diagonal)
    return out.reshape(*a.shape)


@checked
def triangular_solve(  # noqa: PLR0913 - those of the published call
    builder: Builder,
    a: View,
    b: View,
    *,
    left_side: bool = True,
    lower: bool = True,
    unit_diagonal: bool = False,
    block_size: int = _BLOCK_SIZE,
    available_memory_proportion: float | None = None,
    partials_type: str | None = None,
) -> View:
    """Solve systems whose matrices are triangles: a · x = b, or x · a = b.

    Parameters
    ----------
    builder
        Target of the program.
    a
        Matrices of shape (..., n, n), float16 or float32; only one triangle is read. Without zeros
        on the diagonal: they give infinities.
    b
        Right sides of the same type, (..., n, k), or (..., k, n) with the matrix on the right side.
    left_side
        Whether the matrix is left of the unknowns.
    lower
        Whether the lower triangle is read; otherwise the upper one.
    unit_diagonal
        Whether the diagonal counts as ones, whatever it holds.
    block_size
        Rows of a block that is solved by substitution.
    available_memory_proportion, partials_type
        Of the products, as for `matmul`.

    Returns
    -------
    View
        The unknowns, in the shape of the right sides.

    Raises
    ------
    BadGraph
        If shapes or types do not go together, or an argument is not allowed.

    Notes
    -----
    Source: graphcore/poplibs sdk-release-3.4, include/poplin/TriangularSolve.hpp, triangularSolve.
    """
    for name, value in (
        ("left_side", left_side),
        ("lower", lower),
        ("unit_diagonal", unit_diagonal),
    ):
        a_switch(f"{name} of {_SOLVE}", value)
    block = a_count(f"block_size of {_SOLVE}", block_size, 1)
    _check_shapes(a.shape, b.shape, left_side=left_side)
    for view in (a, b):
        check_type(_SOLVE, view)
    if a.dtype != b.dtype:
        raise BadGraph(f"{_SOLVE}: {a.name!r} is {a.dtype} and {b.name!r} {b.dtype}: cast one")
    n = a.shape[-1]
    n_columns = b.shape[-1] if left_side else b.shape[-2]
    n_batch = prod(a.shape[:-2])
    detail = {
        "a": list(a.shape), "b": list(b.shape), "leftSide": left_side, "lower": lower,
        "unitDiagonal": unit_diagonal, "blockSize": block,
    }  # fmt: skip
    flops = n_batch * n_columns * n * n
    build = builder.inside("triangularSolve", "poplin.triangularSolve", detail, flops=flops)
    matrices = _masked(build, batches_of(a), is_lower=lower, has_ones=unit_diagonal)
    right = batches_of(b)
    if not left_side:
        matrices, right, lower = (
            matrices.dim_shuffle(0, 2, 1),
            right.dim_shuffle(0, 2, 1),
            not lower,
        )
    if not unit_diagonal:
        right = _scaled(build, matrices, right)
    n_padded, n_solved = block, n_columns
    while n_padded < n:
        n_padded, n_solved = 2 * n_padded, -(-n_solved // 2)
    if n > block and n_padded > n:
        matrices, right = _padded(build, matrices, right, n_padded - n)
    settings = {
        "available_memory_proportion": available_memory_proportion,
        "partials_type": partials_type,
    }
    unknowns = _in_blocks(build, right.shape, "x", a.dtype.name, block, is_turned=True)
    solver = _Solver(build, unknowns, lower, block, n_solved, settings)
    solver.solve(matrices, right, 0, 0)
    unknowns = section(unknowns, 1, 0, n)
    if not left_side:
        unknowns = unknowns.dim_shuffle(0, 2, 1)
    return unknowns.reshape(*b.shape)


def batches_of(matrices: View) -> View:
    """Return matrices with their leading dimensions as one."""
    return matrices.reshape(*_grouped(matrices.shape))


def part(matrices: View, rows: tuple[int, int], columns: tuple[int, int]) -> View:
    """Return some rows and columns, half-open, of matrices (batch, rows, columns)."""
    return section(section(matrices, 1, *rows), 2, *columns)


def diagonal(matrices: View) -> View:
    """Return the diagonals of matrices (batch, n, n) on one variable: (batch, n)."""
    n = matrices.shape[1]
    return concat([part(matrices, (i, i + 1), (i, i + 1)).reshape(-1, 1) for i in range(n)], 1)


def fullest_tile(builder: Builder, view: View) -> int:
    """Return the tile with most elements of a view; the first of them."""
    mapping = builder.graph.tile_mapping(view)
    return int(mapping.elements_by_tile(builder.graph.machine.n_tiles).argmax())


def matrix_regions(views: Sequence[View]) -> Regions:
    """Return regions of vertices, one of every view: all on one variable, with regular strides."""
    tensors = [view for view in views if isinstance(view, Tensor)]
    variable, n_dims = tensors[0].variable, len(tensors[0].shape)
    assert len(tensors) == len(views)
    strides = [[sum(atom[1] for atom in atoms) for atoms in tensor.dims] for tensor in tensors]
    starts = np.array([tensor.offset for tensor in tensors], np.int64)
    sizes = np.array([tensor.shape for tensor in tensors], np.int64).reshape(-1, n_dims)
    return Regions(variable, starts, sizes, np.array(strides, np.int64).reshape(-1, n_dims))


@dataclass
class _Called:
    """A function with variables for its operands and its result."""

    function: Function
    operands: list[View]
    result: View

    def call(self, builder: Builder, operands: Sequence[View]) -> View:
        """Copy the operands in, run it and return its result."""
        for operand, own in zip(operands, self.operands, strict=True):
            copy_to(builder, operand, own, "argument")
        builder.sequence.add(Call(self.function))
        return self.result


def _called(
    builder: Builder, name: str, operands: list[View], make: Callable[[Builder], View]
) -> _Called:
    """Return a function of operands that are its own variables."""
    body = ProgramSequence(name, debug=builder.debug)
    result = make(replace(builder, sequence=body))
    return _Called(Function(body, name), operands, result)


@dataclass
class _Solver:
    """Solves blocks of systems whose diagonals are ones.

    Parameters
    ----------
    builder
        Of the call.
    unknowns
        Shape (batch, n, k).
    is_lower
        Which triangle is left.
    block_size
        Rows that are solved by substitution.
    n_columns
        Columns that the substitution of a block takes.
    settings
        Of the products.
    """

    builder: Builder
    unknowns: View
    is_lower: bool
    block_size: int
    n_columns: int
    settings: dict[str, Any]
    _products: dict[tuple[int, ...], _Called] = field(default_factory=dict)
    _substitution: _Called | None = None

    def solve(self, a: View, b: View, top: int, left: int) -> None:
        """Solve for the unknowns whose first is at a row and a column."""
        n, n_columns = a.shape[2], b.shape[2]
        if n_columns == 0:
            return
        if n <= self.block_size:
            self._solve_block(a, b, self._at(top, left, n, n_columns))
            return
        middle, split = (n + 1) // 2, (n_columns + 1) // 2
        first, second = (0, middle), (middle, n)
        if not self.is_lower:
            first, second = second, first
        across = part(a, second, first)
        for start, stop in ((0, split), (split, n_columns)):
            if start == stop:
                continue
            columns = section(b, 2, start, stop)
            self.solve(
                part(a, first, first), section(columns, 1, *first), top + first[0],
                left + start,
            )  # fmt: skip
            found = self._at(top + first[0], left + start, first[1] - first[0], stop - start)
            rest = section(columns, 1, *second)
            given = binary(self.builder, "subtract", rest, self._product(across, found))
            self.solve(part(a, second, second), given, top + second[0], left + start)

    def _at(self, top: int, left: int, n: int, n_columns: int) -> View:
        return part(self.unknowns, (top, top + n), (left, left + n_columns))

    def _product(self, a: View, b: View) -> View:
        shapes = (*a.shape, *b.shape)
        if shapes not in self._products:
            dtype = a.dtype.name
            kinds = {"dtype": dtype, **self.settings}
            left = create_matmul_input_lhs(self.builder, a.shape, b.shape, "productA", **kinds)
            right = create_matmul_input_rhs(self.builder, b.shape, a.shape, "productB", **kinds)
            self._products[shapes] = _called(
                self.builder,
                "product",
                [left, right],
                lambda builder: matmul(builder, left, right, "product", **self.settings),
            )
        return self._products[shapes].call(self.builder, [a, b])

    def _solve_block(self, a: View, b: View, x: View) -> None:
        if b.shape[2] == 1:
            self._solve_column(a, b, x)
            return
        missing = self.n_columns - b.shape[2]
        if missing:
            b = _with_zeros(self.builder, b, missing)
        if self._substitution is None:
            graph, debug = self.builder.graph, self.builder.debug
            own_a, own_b = (
                graph.clone(view, name, debug=debug) for view, name in ((a, "A"), (b, "B"))
            )
            result = graph.clone(_wide(self.builder, x, missing), "X", debug=debug)
            self._substitution = _called(
                self.builder,
                "substitute",
                [own_a, own_b],
                lambda builder: self._rows(builder, own_a, own_b, result),
            )
        solved = self._substitution.call(self.builder, [a, b])
        copy_to(self.builder, section(solved, 2, 0, x.shape[2]), x, "solved")

    def _rows(self, builder: Builder, a: View, b: View, x: View) -> View:
        """Solve a block row by row, all columns at a time."""
        n = a.shape[2]
        order = range(n) if self.is_lower else range(n - 1, -1, -1)
        for place, i in enumerate(order):
            value = section(b, 1, i, i + 1)
            if place:
                known = (0, i) if self.is_lower else (i + 1, n)
                row = part(a, (i, i + 1), known)
                product = matmul(
                    builder, row, section(x, 1, *known), f"substituteX{place}", **self.settings
                )
                value = binary(builder, "subtract", value, product)
            copy_to(builder, value, section(x, 1, i, i + 1), f"row{place}")
        return x

    def _solve_column(self, a: View, b: View, x: View) -> None:
        """Solve for a single column by one vertex of every matrix."""
        builder, n = self.builder, a.shape[2]
        is_shared = n % VECTOR_ROWS == 0
        if is_shared:
            codelet = LOWER_SOLVE_ON_ALL_WORKERS if self.is_lower else UPPER_SOLVE_ON_ALL_WORKERS
            copied = builder.graph.add_variable(b.dtype, b.shape, "bCopy", builder.debug)
            builder.graph.map_linearly(copied, tiles=builder.tiles.ids[:1])
            copy_to(builder, b, copied, "bCopy")
            b = copied
        else:
            codelet = LOWER_SOLVE if self.is_lower else UPPER_SOLVE
        matrices, right = in_order(builder, a), in_order(builder, b)
        unknowns = _regular_target(builder, x)
        tiles = [fullest_tile(builder, section(a, 0, i, i + 1)) for i in range(a.shape[0])]
        fields = {
            name: matrix_regions([_entry(view, i) for i in range(a.shape[0])])
            for name, view in (("a", matrices), ("b", right.reshape(-1, n)), ("x", unknowns))
        }
        builder.vertices(builder.compute_set("triangularSolve"), codelet, tiles, fields)
        if unknowns is not x:
            copy_to(builder, unknowns.reshape(*x.shape), x, "solved")


def _entry(view: View, i: int) -> View:
    """Return an entry of a batch without its leading dimension."""
    return section(view, 0, i, i + 1).reshape(*view.shape[1:])


def in_order(builder: Builder, view: View) -> View:
    """Return a view whose dimensions have a stride each, as fields of vertices do, or a copy."""
    if isinstance(view, Tensor) and all(len(atoms) <= 1 for atoms in view.dims):
        return view
    return row_major_copy(builder, view, "inOrder")


def _regular_target(builder: Builder, x: View) -> View:
    """Return where vertices write a column: (batch, n), of the target where it has one stride."""
    n_batch, n, _ = x.shape
    if isinstance(x, Tensor) and all(len(atoms) <= 1 for atoms in x.dims):
        return x.reshape(n_batch, n)
    column = builder.graph.add_variable(x.dtype, (n_batch, n), "column", builder.debug)
    builder.spread(column)
    return column


def _masked(builder: Builder, a: View, *, is_lower: bool, has_ones: bool) -> View:
    """Return a copy of matrices, in their layout, with zeros beside a triangle."""
    n = a.shape[1]
    out = builder.graph.clone(a, "masked", debug=builder.debug)
    pairs = _zeros_of(builder, out, is_lower=is_lower)
    kept = [(0, i + 1) if is_lower else (i, n) for i in range(n)]
    if has_ones:
        kept = [(0, i) if is_lower else (i + 1, n) for i in range(n)]
        one = _on_first_tile(builder, 1, a)
        for i in range(n):
            target = part(out, (i, i + 1), (i, i + 1))
            pairs.append((one.broadcast_to(target.shape), target))
    for i, columns in enumerate(kept):
        if columns[0] < columns[1]:
            pairs.append((part(a, (i, i + 1), columns), part(out, (i, i + 1), columns)))
    copy_together(builder, pairs, "mask")
    return out


def zeros_beside(builder: Builder, a: View) -> None:
    """Write zeros above the diagonals of matrices (batch, n, n)."""
    if pairs := _zeros_of(builder, a, is_lower=True):
        copy_together(builder, pairs, "mask")


def _zeros_of(builder: Builder, out: View, *, is_lower: bool) -> list[tuple[View, View]]:
    """Return what to copy where for zeros beside a triangle, by row."""
    n, zero = out.shape[1], _on_first_tile(builder, 0, out)
    columns = [(i + 1, n) if is_lower else (0, i) for i in range(n)]
    targets = [
        part(out, (i, i + 1), beside) for i, beside in enumerate(columns) if beside[0] < beside[1]
    ]
    return [(zero.broadcast_to(target.shape), target) for target in targets]


def _on_first_tile(builder: Builder, value: float, like: View) -> View:
    """Return a constant of shape (1, 1, 1)."""
    values = np.full((1, 1, 1), value)
    constant = builder.graph.add_constant(
        values, f"const:{value:g}", dtype=like.dtype, debug=builder.debug
    )
    builder.graph.map_linearly(constant, tiles=builder.tiles.ids[:1])
    return constant


def _scaled(builder: Builder, matrices: View, right: View) -> View:
    """Divide the rows of matrices and right sides by the diagonals; return the right sides."""
    factors = row_major_copy(builder, diagonal(matrices), "diagonal").reshape(
        *matrices.shape[:2], 1
    )
    binary_in_place(builder, "divide", matrices, factors.broadcast_to(matrices.shape))
    return binary(builder, "divide", right, factors.broadcast_to(right.shape))


def _padded(builder: Builder, a: View, b: View, n_more: int) -> tuple[View, View]:
    """Return systems with more unknowns, which are 0 and stand alone."""
    n_batch, n, n_columns = *a.shape[:2], b.shape[2]
    wide = _with_zeros(builder, a, n_more)
    below = np.concatenate([np.zeros((n_more, n)), np.eye(n_more)], axis=1)
    values = np.broadcast_to(below, (n_batch, n_more, n + n_more))
    more = builder.constant(values, "paddingBelow", a.dtype.name)
    zeros = builder.constant(np.zeros((n_batch, n_more, n_columns)), "paddingOfB", b.dtype.name)
    return concat([wide, more], 1), concat([b, zeros], 1)


def _with_zeros(builder: Builder, view: View, n_columns: int) -> View:
    """Return matrices with columns of zeros behind theirs."""
    shape = (*view.shape[:2], n_columns)
    return concat([view, builder.constant(np.zeros(shape), "padding", view.dtype.name)], 2)


def _wide(builder: Builder, view: View, n_columns: int) -> View:
    """Return matrices with columns to write behind theirs."""
    if not n_columns:
        return view
    more = builder.graph.add_variable(
        view.dtype, (*view.shape[:2], n_columns), "paddingOfX", builder.debug
    )
    builder.spread(more)
    return concat([view, more], 2)


def _in_blocks(
    builder: Builder,
    shape: Sequence[int],
    name: str,
    dtype: Any,
    block_size: int,
    *,
    is_turned: bool,
) -> View:
    """Add a variable for matrices whose blocks are contiguous and on one tile, as far as they fit.

    Parameters
    ----------
    shape
        (batch, rows, columns).
    is_turned
        Whether columns are in the order of rows.
    """
    n_batch, rows, columns = shape
    if is_turned:
        rows, columns = columns, rows
    size = block_size if rows > block_size else 1
    of_rows, of_columns = -(-rows // size), -(-columns // size)
    kind = dtype_of(dtype)
    blocks = builder.graph.add_variable(
        kind, (n_batch, of_rows, of_columns, size, size), name, builder.debug
    )
    grain = vector_elements(builder.tiles.machine, kind)
    builder.spread(blocks, grain=grain, minimum=size)
    whole = blocks.dim_shuffle(0, 1, 3, 2, 4)
    whole = whole.reshape(n_batch, of_rows * size, of_columns * size)
    view = part(whole, (0, rows), (0, columns))
    return view.dim_shuffle(0, 2, 1) if is_turned else view


def _grouped(shape: Sequence[int]) -> tuple[int, int, int]:
    return prod(shape[:-2]), int(shape[-2]), int(shape[-1])


def check_square(name: str, shape: Sequence[int]) -> None:
    """Check that matrices are square.

    Raises
    ------
    BadGraph
        Says what is expected.
    """
    if len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] < 1:
        raise BadGraph(f"{name}: the matrices have shape {tuple(shape)}: expected (..., n, n)")


def check_type(name: str, view: View) -> None:
    """Check that elements are floats or halves.

    Raises
    ------
    BadGraph
        Says what is expected.
    """
    if view.dtype not in (FLOAT16, FLOAT32):
        raise BadGraph(f"{name}: {view.name!r} is {view.dtype}: expected float16 or float32")


def _check_shapes(a_shape: Sequence[int], b_shape: Sequence[int], *, left_side: bool) -> None:
    """Check the shapes of a system.

    Raises
    ------
    BadGraph
        Says what is expected.
    """
    check_square(_SOLVE, a_shape)
    n, batch = a_shape[-1], tuple(a_shape[:-2])
    side = -2 if left_side else -1
    if len(b_shape) != len(a_shape) or tuple(b_shape[:-2]) != batch or b_shape[side] != n:
        dims = f"{n}, k" if left_side else f"k, {n}"
        before = "".join(f"{size}, " for size in batch)
        raise BadGraph(
            f"{_SOLVE}: the right sides have shape {tuple(b_shape)}: expected ({before}{dims}), for"
            f" matrices of shape {tuple(a_shape)}"
        )
