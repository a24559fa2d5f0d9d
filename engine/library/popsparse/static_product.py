"""Products with a sparse matrix whose pattern is known when the program is compiled.

As in graphcore/poplibs sdk-release-3.4, lib/popsparse/StaticMatMul.cpp: the blocks of the sparse
matrix are on tiles, to which rows of the dense one are brought; the sums of a row of blocks that is
on several tiles are reduced.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.elementwise.fill import FILL
from tilescope.engine.codelets.popops.reduction.reduce import REDUCE, UNSCALED
from tilescope.engine.codelets.popsparse.static_product import STATIC_PRODUCT
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import (
    FLOAT16,
    FLOAT32,
    UINT16,
    DType,
    Stage,
    Tensor,
    Variable,
    View,
    dtype_of,
    interval_lists,
)
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popsparse.dense_operand import DenseLayout
from tilescope.engine.library.sparse_matrix import SparseMatrix
from tilescope.engine.library.sparse_tensor import SparseTensor, StaticMatMulParams
from tilescope.engine.planner.plan import Plan
from tilescope.engine.planner.sparse.pattern import BlockPattern
from tilescope.engine.planner.sparse.static_plan import StaticPlan, StaticShape, plan_static
from tilescope.engine.planner.sparse.static_work import StaticWork

__all__ = [
    "create_dense_sparse_matmul_lhs",
    "create_dense_sparse_matmul_rhs",
    "create_sparse_dense_matmul_lhs",
    "create_sparse_dense_matmul_rhs",
    "dense_sparse_matmul",
    "sparse_dense_matmul",
    "sparse_operand",
]

Counts = NDArray[np.int64]


@checked
def create_sparse_dense_matmul_lhs(
    builder: Builder,
    params: StaticMatMulParams,
    matrix: SparseMatrix,
    name: str = "lhs",
    *,
    dtype: Any = "float32",
    available_memory_proportion: float | None = None,
) -> SparseTensor:
    """Add a variable for the values of the sparse left operand of a `sparse_dense_matmul`.

    Parameters
    ----------
    builder
        Its graph and tiles.
    params
        Sizes of the product.
    matrix
        Gives the pattern. Its values stay on the host: `SparseTensor.values_of` orders them.
    name
        Name of the variable.
    dtype
        float16 or float32, of both operands and the result.
    available_memory_proportion
        Largest share of a tile for temporary memory; by default, the builder's of products.

    Raises
    ------
    BadGraph
        If the matrix has not the shape of the parameters, the type is not supported, or no split
        fits the memory.
    BadOption
        If the share of memory is invalid.
    """
    plan = _plan(
        builder, "create_sparse_dense_matmul_lhs", params, matrix, dtype, False,
        available_memory_proportion,
    )  # fmt: skip
    return _sparse_operand(builder, params, plan, name)


@checked
def create_dense_sparse_matmul_rhs(
    builder: Builder,
    params: StaticMatMulParams,
    matrix: SparseMatrix,
    name: str = "rhs",
    *,
    dtype: Any = "float32",
    available_memory_proportion: float | None = None,
) -> SparseTensor:
    """Add a variable for the values of the sparse right operand of a `dense_sparse_matmul`.

    Parameters
    ----------
    builder, params, matrix, name, dtype, available_memory_proportion
        As for `create_sparse_dense_matmul_lhs`.

    Raises
    ------
    BadGraph, BadOption
        As there.
    """
    plan = _plan(
        builder, "create_dense_sparse_matmul_rhs", params, matrix, dtype, True,
        available_memory_proportion,
    )  # fmt: skip
    return _sparse_operand(builder, params, plan, name)


@checked
def create_sparse_dense_matmul_rhs(
    builder: Builder,
    params: StaticMatMulParams,
    matrix: SparseMatrix,
    name: str = "rhs",
    *,
    dtype: Any = "float32",
    available_memory_proportion: float | None = None,
) -> Tensor:
    """Add a variable for the dense right operand of a `sparse_dense_matmul`, as its plan reads it.

    Parameters
    ----------
    builder, params, matrix, name, dtype, available_memory_proportion
        As for `create_sparse_dense_matmul_lhs`.

    Returns
    -------
    Tensor
        Shape (k, n).

    Raises
    ------
    BadGraph, BadOption
        As there.
    """
    plan = _plan(
        builder, "create_sparse_dense_matmul_rhs", params, matrix, dtype, False,
        available_memory_proportion,
    )  # fmt: skip
    return _layout(plan).variable(builder, dtype_of(dtype), name)


@checked
def create_dense_sparse_matmul_lhs(
    builder: Builder,
    params: StaticMatMulParams,
    matrix: SparseMatrix,
    name: str = "lhs",
    *,
    dtype: Any = "float32",
    available_memory_proportion: float | None = None,
) -> Tensor:
    """Add a variable for the dense left operand of a `dense_sparse_matmul`, as its plan reads it.

    Parameters
    ----------
    builder, params, matrix, name, dtype, available_memory_proportion
        As for `create_sparse_dense_matmul_lhs`.

    Returns
    -------
    Tensor
        Shape (n, k).

    Raises
    ------
    BadGraph, BadOption
        As there.
    """
    plan = _plan(
        builder, "create_dense_sparse_matmul_lhs", params, matrix, dtype, True,
        available_memory_proportion,
    )  # fmt: skip
    return _layout(plan).variable(builder, dtype_of(dtype), name).dim_shuffle(1, 0)


@checked
def sparse_dense_matmul(
    builder: Builder, lhs: SparseTensor, rhs: View, name: str = "sparseDenseMatMul"
) -> Tensor:
    """Multiply a sparse matrix by a dense one.

    Parameters
    ----------
    builder
        Target of the program.
    lhs
        Of `create_sparse_dense_matmul_lhs`.
    rhs
        Shape (k, n), of the type of the sparse matrix; copied unless it lies as
        `create_sparse_dense_matmul_rhs` lays it out.
    name
        Name of the product.

    Returns
    -------
    Tensor
        Shape (m, n), row-major; rows without values are zeros. Sums are in the type of the
        operands.

    Raises
    ------
    BadGraph
        If the operands are not those of one product.
    """
    params = lhs.params
    if params.is_dense_sparse:
        raise BadGraph(
            f"{name}: {lhs.values.name!r} is the right operand of a dense_sparse_matmul: make the"
            " left one with create_sparse_dense_matmul_lhs"
        )
    _check_dense(name, rhs, (params.k, params.n), lhs)
    detail = {"sparse": [params.m, params.k], "dense": [params.k, params.n]}
    return _product(builder, lhs, rhs, name, "popsparse.sparseDenseMatMul", detail)


@checked
def dense_sparse_matmul(
    builder: Builder, lhs: View, rhs: SparseTensor, name: str = "denseSparseMatMul"
) -> Tensor:
    """Multiply a dense matrix by a sparse one.

    Parameters
    ----------
    builder
        Target of the program.
    lhs
        Shape (n, k), of the type of the sparse matrix; copied unless it lies as
        `create_dense_sparse_matmul_lhs` lays it out.
    rhs
        Of `create_dense_sparse_matmul_rhs`.
    name
        Name of the product.

    Returns
    -------
    Tensor
        Shape (n, m), a view of its transpose.

    Raises
    ------
    BadGraph
        If the operands are not those of one product.
    """
    params = rhs.params
    if not params.is_dense_sparse:
        raise BadGraph(
            f"{name}: {rhs.values.name!r} is the left operand of a sparse_dense_matmul: make the"
            " right one with create_dense_sparse_matmul_rhs"
        )
    _check_dense(name, lhs, (params.n, params.k), rhs)
    detail = {"dense": [params.n, params.k], "sparse": [params.k, params.m]}
    operation = "popsparse.denseSparseMatMul"
    out = _product(builder, rhs, lhs.dim_shuffle(1, 0), name, operation, detail)
    return out.dim_shuffle(1, 0)


def _check_dense(name: str, x: View, shape: tuple[int, int], sparse: SparseTensor) -> None:
    """Refuse a dense operand of another product.

    Raises
    ------
    BadGraph
        If its shape or type is another one.
    """
    if tuple(x.shape) != shape or x.dtype != sparse.values.dtype:
        raise BadGraph(
            f"{name}: {x.name!r} is {x.dtype} of shape {tuple(x.shape)}: expected"
            f" {sparse.values.dtype} of shape {shape}, as {sparse.values.name!r} was made for"
        )


def _plan(
    builder: Builder,
    name: str,
    params: StaticMatMulParams,
    matrix: SparseMatrix,
    dtype: Any,
    is_dense_sparse: bool,
    available_memory_proportion: float | None,
) -> StaticPlan:
    """Return the plan of a product.

    Raises
    ------
    BadGraph
        As for `create_sparse_dense_matmul_lhs`.
    """
    if params.is_dense_sparse is not is_dense_sparse:
        side = "dense by a sparse" if params.is_dense_sparse else "sparse by a dense"
        raise BadGraph(f"{name}: the parameters are of a {side} matrix: use the other allocators")
    if (matrix.n_rows, matrix.n_columns) != params.sparse_shape:
        raise BadGraph(
            f"{name}: the matrix has shape ({matrix.n_rows}, {matrix.n_columns}): expected"
            f" {params.sparse_shape} by the parameters"
        )
    kind = _type(name, dtype)
    pattern = matrix.pattern.transposed()[0] if is_dense_sparse else matrix.pattern
    shape = StaticShape(pattern, params.n, kind.name)
    share = builder.available_memory.with_own(available_memory_proportion).matmul
    return plan_static(name, shape, len(builder.tiles.ids), builder.tiles.machine, share)


def _type(name: str, dtype: Any) -> DType:
    """Return the type of a product.

    Raises
    ------
    BadGraph
        If it is not supported.
    """
    kind = dtype_of(dtype)
    if kind not in (FLOAT16, FLOAT32):
        raise BadGraph(f"{name}: dtype is {kind}: use float16 or float32")
    return kind


def sparse_operand(
    builder: Builder,
    pattern: BlockPattern,
    n: int,
    dtype: DType,
    values: NDArray[Any] | None = None,
    name: str = "sparse",
) -> SparseTensor:
    """Return the left operand of a product for a pattern.

    Parameters
    ----------
    builder
        Its graph, tiles and memory.
    pattern
        Of the sparse matrix.
    n
        Columns of the dense operand.
    dtype
        float16 or float32.
    values : ndarray of float, shape (n_blocks, size, size)
        Constants in the order of the pattern; None for a variable.
    name
        Name of the values.

    Raises
    ------
    BadGraph
        If no split fits the memory.
    """
    params = StaticMatMulParams(pattern.n_rows, pattern.n_columns, n)
    shape = StaticShape(pattern, n, dtype.name)
    share, n_tiles = builder.available_memory.matmul, len(builder.tiles.ids)
    plan = plan_static(name, shape, n_tiles, builder.tiles.machine, share)
    return _sparse_operand(builder, params, plan, name, values)


def _sparse_operand(
    builder: Builder,
    params: StaticMatMulParams,
    plan: StaticPlan,
    name: str,
    constants: NDArray[Any] | None = None,
) -> SparseTensor:
    """Add the variable of the values; the parts of the dense columns share its storage."""
    pattern, graph = plan.shape.pattern, builder.graph
    size, kind = pattern.block_size, dtype_of(plan.shape.dtype)
    if constants is None or not pattern.n_blocks:
        shape = (max(pattern.n_blocks, 1), size, size)
        values = graph.add_variable(kind, shape, name, builder.debug)
    else:
        values = graph.add_constant(constants[plan.order], name, dtype=kind, debug=builder.debug)
    if not pattern.n_blocks:
        builder.spread(values)
        return SparseTensor(values, params, plan)
    local, first = np.unique(plan.tile_of_block, return_index=True)
    part = np.arange(local.size) % plan.parts
    place = np.asarray(builder.tiles.ids)[part * plan.tiles_per_part + local]
    graph.set_tile_mapping(values, first * (size * size), place)
    return SparseTensor(values, params, plan)


def _layout(plan: StaticPlan) -> DenseLayout:
    """Return how the plan reads the dense operand."""
    pattern = plan.shape.pattern
    return DenseLayout(pattern.n_columns, plan.parts, plan.width, pattern.block_size)


def _product(
    builder: Builder, sparse: SparseTensor, x: View, name: str, operation: str, detail: Any
) -> Tensor:
    """Multiply the matrix of a plan by a dense one, and return (m, n)."""
    plan = sparse.plan
    pattern, n = plan.shape.pattern, plan.shape.n
    flops = 2 * pattern.n_values * n
    detail = {**detail, "blockSize": pattern.block_size, "values": pattern.n_values}
    build = builder.inside(name, operation, detail, flops=flops).planned()
    out = build.graph.add_variable(sparse.values.dtype, (pattern.n_rows, n), "out", build.debug)
    if pattern.n_blocks:
        dense = _layout(plan).of(build, x)
        work = StaticWork(plan, np.asarray(build.tiles.ids))
        build.plans.append(_recorded(build, work))
        sums = _add_products(build, sparse.values, dense, work)
        _add_reductions(build, sums, out, work)
    else:
        build.spread(out)
        fill(build, out, 0)
    return out


def _recorded(build: Builder, work: StaticWork) -> Plan:
    """Return the plan as the report has it."""
    plan = work.plan
    return Plan(
        name=build.debug.name,
        operation="matmul",
        family="static sparse",
        grouping={"block": plan.shape.pattern.block_size},
        split={
            "parts of columns": plan.parts,
            "bands": plan.bands,
            "tiles per part": plan.tiles_per_part,
        },
        swaps_operands=False,
        n_tiles=work.n_vertices,
        stages=plan.stages,
        temporary_bytes=plan.temporary_bytes,
        tile_balance=work.balance,
        bound=plan.bound,
        runner_up={},
        partial_dtype=plan.shape.dtype,
        plan_id=build.plan_id,
        call=build.debug,
    )


def _add_products(build: Builder, values: Tensor, dense: Tensor, work: StaticWork) -> Variable:
    """Add the vertices that multiply, and return their sums: (parts, rows on tiles, …)."""
    plan, graph = work.plan, build.graph
    size, width = plan.shape.pattern.block_size, plan.width
    part = np.repeat(np.arange(plan.parts), work.local.size)
    tile = work.tile_of(part, np.tile(work.local, plan.parts))

    def by_part(of_tile: Counts, step: int) -> Counts:
        """Return what is at other places of the other parts, a step further for each."""
        steps = np.arange(plan.parts)[:, None] * step
        return np.asarray(of_tile[None, :] + steps).reshape(-1)

    def firsts(first: Counts) -> Counts:
        starts = by_part(first[:-1], int(first[-1]))
        return np.concatenate([starts, first[-1:] * plan.parts])

    place_values, place_first = work.places
    places = graph.add_constant(
        np.tile(place_values, plan.parts), "places", dtype=UINT16, debug=build.debug
    )
    place_start = firsts(place_first)
    graph.set_tile_mapping(places, place_start[:-1], tile)

    position, count, _ = work.terms
    row_elements, n_sums = size * width, int(count.sum())
    sums = graph.add_variable(
        values.dtype, (plan.parts, n_sums, size, width), "partials", build.debug
    )
    in_order = np.argsort(position)
    holder = work.tile_of(
        np.repeat(np.arange(plan.parts), n_sums), np.tile(work.row_tile[in_order], plan.parts)
    )
    graph.set_tile_mapping(sums, np.arange(plan.parts * n_sums) * row_elements, holder)

    n_rows = plan.shape.pattern.n_columns
    start = values.offset + work.first_block * size * size
    fields = {
        "values": blocks(
            values.variable, np.tile(start, plan.parts),
            [np.tile(work.n_blocks * size * size, plan.parts)], [1], tile.size,
        ),
        "places": blocks(
            places.variable, place_start[:-1], [np.diff(place_start)], [1], tile.size
        ),
        "dense": interval_lists(
            dense.variable, firsts(work.first_column),
            dense.offset + by_part(work.column * row_elements, n_rows * width), row_elements,
        ),
        "out": interval_lists(
            sums.variable, firsts(work.first_row),
            by_part(position * row_elements, n_sums * row_elements), row_elements,
        ),
    }  # fmt: skip
    compute_set = build.compute_set("matmul", Stage.COMPUTE)
    build.vertices(compute_set, STATIC_PRODUCT[size], tile, fields)
    return sums.variable


def _add_reductions(build: Builder, sums: Variable, out: Tensor, work: StaticWork) -> None:
    """Add the vertices that sum what tiles have of a row, a piece of a row each."""
    plan = work.plan
    pattern, width = plan.shape.pattern, plan.width
    size, n_rows, n = pattern.block_size, pattern.n_rows, plan.shape.n
    _, count, first = work.terms
    n_sums, n_tiles = int(count.sum()), work.tiles.size
    vector = build.tiles.machine.data_path_bytes // plan.shape.item_bytes
    pieces = 1
    while n_rows * plan.parts * pieces < n_tiles and width % (4 * pieces * vector) == 0:
        pieces *= 2
    length = width // pieces
    # The result is row-major: a row has the pieces of all parts side by side.
    row, part, piece = (
        index.reshape(-1)
        for index in np.meshgrid(
            np.arange(n_rows), np.arange(plan.parts), np.arange(pieces), indexing="ij"
        )
    )
    start = row * n + part * width + piece * length
    place = np.arange(start.size) * n_tiles // start.size
    build.graph.set_tile_mapping(out, start, work.tiles[place])
    block_row = row // size
    used = count[block_row] > 0
    source = (part * n_sums + first[block_row]) * size * width
    source = source + (row % size) * width + piece * length
    compute_set = build.compute_set("reduce", Stage.REDUCE)
    n_used, step = int(used.sum()), size * width
    fields = {
        "x": blocks(
            sums, source[used], [1, length, count[block_row[used]], 1], [0, 1, step, 1], n_used
        ),
        "out": blocks(out.variable, out.offset + start[used], [1, 1, length], [0, 0, 1], n_used),
    }
    scale = {"scale": UNSCALED["sum"]}
    build.vertices(compute_set, REDUCE["sum"], work.tiles[place[used]], fields, scale)
    if n_used < start.size:
        rest = ~used
        zeros = blocks(out.variable, out.offset + start[rest], [length], [1], int(rest.sum()))
        build.vertices(compute_set, FILL, work.tiles[place[rest]], {"out": zeros}, {"value": 0.0})
