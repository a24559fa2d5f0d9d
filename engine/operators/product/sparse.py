"""Products with sparse matrices whose pattern is an attribute, and whose values are an operand.

The values are blocks in any order; `rows` and `columns` have the place of every one of them,
counted in blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadGraph, BadModel
from tilescope.engine.graph import Tensor, dtype_of
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.popops.elementwise.operations import copy_to, in_one
from tilescope.engine.library.popops.slicing.multi_slice import multi_slice
from tilescope.engine.library.popsparse.fully_connected import sampled_product
from tilescope.engine.library.popsparse.static_product import sparse_dense_matmul, sparse_operand
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.movement.layout import TRANSPOSE, full, reshape
from tilescope.engine.operators.product.product import require_floats
from tilescope.engine.planner.sparse.pattern import BlockPattern

__all__ = ["POPSPARSE", "RECORDS", "SPARSE_PRODUCT"]

#: The domain of sparse operators in files.
POPSPARSE = "popsparse"


def _pattern(node: Node | Operation) -> tuple[BlockPattern, NDArray[np.int64]]:
    """Return the pattern of a node, and the order that sorts its blocks.

    Raises
    ------
    BadModel
        If the places are none of blocks of the matrix.
    """
    attributes = node.attributes
    places = [np.asarray(attributes[name], np.int64).reshape(-1) for name in ("rows", "columns")]
    if places[0].shape != places[1].shape:
        raise BadModel(
            f"{node}: has {places[0].size} rows and {places[1].size} columns: expected the place of"
            " every block"
        )
    size = (int(attributes["n_rows"]), int(attributes["n_columns"]))
    try:
        return BlockPattern.sorted_by_row(size, int(attributes["block_size"]), *places)
    except BadGraph as error:
        raise BadModel(f"{node}: {error}") from None


def _type(node: Node) -> list[tuple[tuple[int, ...], str]]:
    values, dense = node.operand(0), node.operand(1)
    pattern, _ = _pattern(node)
    size = pattern.block_size
    if values.shape != (pattern.n_blocks, size, size) or not pattern.n_blocks:
        raise BadModel(
            f"{node}: {values.name!r} has shape {values.shape}: expected"
            f" ({pattern.n_blocks}, {size}, {size}), one block at least"
        )
    if len(dense.shape) != 2 or dense.shape[0] != pattern.n_columns:
        raise BadModel(
            f"{node}: {dense.name!r} has shape {dense.shape}: expected ({pattern.n_columns}, …), a"
            " row for every column of the sparse matrix"
        )
    if values.dtype != dense.dtype:
        raise BadModel(
            f"{node}: {values.name!r} is {values.dtype} and {dense.name!r} {dense.dtype}: cast one"
        )
    return [((pattern.n_rows, dense.shape[1]), dense.dtype)]


def _array(node: Node, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    pattern, order = _pattern(node)
    size = pattern.block_size
    grid = (pattern.n_rows // size, pattern.n_columns // size, size, size)
    matrix = np.zeros(grid, arrays[0].dtype)
    matrix[pattern.rows, pattern.columns] = arrays[0][order]
    flat = matrix.swapaxes(1, 2).reshape(pattern.n_rows, pattern.n_columns)
    return [flat @ arrays[1]]


def _lower(lowering: Lowering, op: Operation) -> Tensor:
    require_floats(op)
    values, dense = op.operand(0), op.operand(1)
    pattern, order = _pattern(op)
    builder, n = lowering.builder, dense.shape[1]
    kind = dtype_of(dense.dtype)
    if values.is_known:
        blocks = lowering.weight(values)[order]
        sparse = sparse_operand(builder, pattern, n, kind, blocks, values.name)
    else:
        sparse = sparse_operand(builder, pattern, n, kind, name=f"{values.name}/byTile")
        rows = in_one(builder, lowering.tensor(values)).reshape(pattern.n_blocks, -1)
        places = builder.constant(order[sparse.plan.order], "places", "int32")
        by_tile = multi_slice(builder, rows, places)
        copy_to(builder, by_tile.reshape(*sparse.values.shape), sparse.values, "byTile")
    return sparse_dense_matmul(builder, sparse, lowering.tensor(dense))


def _turned(expansion: Expansion, values: Value) -> Value:
    """Emit the transposes of blocks."""
    return values if values.shape[1] == 1 else expansion.emit(TRANSPOSE, values, order=(0, 2, 1))


def _gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    values, dense = op.operands
    gradient = full(expansion, gradients[0], op.output.shape)
    places = {name: op.attributes[name] for name in ("rows", "columns", "block_size")}
    n_rows, n_columns = op.attributes["n_rows"], op.attributes["n_columns"]
    of_dense = expansion.emit(
        SPARSE_PRODUCT, _turned(expansion, values), gradient, rows=places["columns"],
        columns=places["rows"], block_size=places["block_size"], n_rows=n_columns,
        n_columns=n_rows,
    )  # fmt: skip
    of_values = expansion.emit(
        _SAMPLED, gradient, dense, **places, n_rows=n_rows, n_columns=n_columns
    )
    return of_values, of_dense


SPARSE_PRODUCT = Operator(
    name="sparse_product",
    domain=ENGINE_DOMAIN,
    infer=_type,
    evaluate=_array,
    lower=_lower,
    gradient=_gradient,
)


def _sampled_type(node: Node) -> list[tuple[tuple[int, ...], str]]:
    pattern, _ = _pattern(node)
    size = pattern.block_size
    return [((pattern.n_blocks, size, size), node.operand(0).dtype)]


def _sampled_array(node: Node, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    size = int(node.attributes["block_size"])
    product = arrays[0] @ arrays[1].T
    grid = product.reshape(product.shape[0] // size, size, product.shape[1] // size, size)
    blocks = grid.swapaxes(1, 2)
    rows, columns = (np.asarray(node.attributes[name]) for name in ("rows", "columns"))
    return [np.ascontiguousarray(blocks[rows, columns])]


def _lower_sampled(lowering: Lowering, op: Operation) -> Tensor:
    require_floats(op)
    pattern, order = _pattern(op)
    builder = lowering.builder
    a, b = (lowering.tensor(operand) for operand in op.operands)
    out = sampled_product(builder, pattern, a, b)
    if (np.diff(order) == 1).all():
        return out
    places = builder.constant(np.argsort(order), "places", "int32")
    rows = multi_slice(builder, out.reshape(pattern.n_blocks, -1), places)
    return rows.reshape(*out.shape)


#: Blocks at some places of the product of the first operand and the transpose of the second.
_SAMPLED = Operator(
    name="sampled_product",
    domain=ENGINE_DOMAIN,
    infer=_sampled_type,
    evaluate=_sampled_array,
    lower=_lower_sampled,
)


def _attributes(node: Node) -> dict[str, Any]:
    """Return the attributes of a node in a file.

    Raises
    ------
    BadModel
        If one is missing.
    """
    names = ("rows", "columns", "n_rows", "n_columns")
    missing = [name for name in names if name not in node.attributes]
    if missing:
        raise BadModel(
            f"{node}: attribute {missing[0]!r} is missing: state {', '.join(names)}, and block_size"
            " for blocks of more than one element"
        )
    given = {name: node.attributes[name] for name in names}
    places = {name: tuple(map(int, given[name])) for name in ("rows", "columns")}
    return {**given, **places, "block_size": int(node.attributes.get("block_size", 1))}


def _blocks(expansion: Expansion, values: Value, size: int) -> Value:
    """Emit the values of a node as blocks: single elements may have one dimension."""
    is_flat = size == 1 and len(values.shape) == 1
    return reshape(expansion, values, (values.shape[0], 1, 1)) if is_flat else values


def _sparse_dense(node: Node, expansion: Expansion) -> Value:
    attributes = _attributes(node)
    values = _blocks(expansion, node.operand(0), attributes["block_size"])
    return expansion.emit(SPARSE_PRODUCT, values, node.operand(1), **attributes)


def _dense_sparse(node: Node, expansion: Expansion) -> Value:
    """Emit the transpose of the product of the transposed operands."""
    attributes = _attributes(node)
    dense, values = node.operand(0), node.operand(1)
    if len(dense.shape) != 2:
        raise BadModel(f"{node}: {dense.name!r} has shape {dense.shape}: expected two dimensions")
    values = _turned(expansion, _blocks(expansion, values, attributes["block_size"]))
    turned = {
        "rows": attributes["columns"],
        "columns": attributes["rows"],
        "n_rows": attributes["n_columns"],
        "n_columns": attributes["n_rows"],
        "block_size": attributes["block_size"],
    }
    columns = expansion.emit(TRANSPOSE, dense, order=(1, 0))
    out = expansion.emit(SPARSE_PRODUCT, values, columns, **turned)
    return expansion.emit(TRANSPOSE, out, order=(1, 0))


RECORDS = (
    SPARSE_PRODUCT,
    _SAMPLED,
    Operator(name="SparseDenseMatMul", domain=POPSPARSE, decompose=_sparse_dense),
    Operator(name="DenseSparseMatMul", domain=POPSPARSE, decompose=_dense_sparse),
)
