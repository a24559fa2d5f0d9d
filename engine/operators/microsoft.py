"""Operators of onnxruntime's own domain besides the fused and quantised ones.

Some compute what an operator of ONNX does; the others move data, look them up or compare them.
Source: onnxruntime, docs/ContribOperators.md, domain com.microsoft.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators import spatial
from tilescope.engine.operators.elementwise.elementwise import binary, scalar, unary
from tilescope.engine.operators.fused import MICROSOFT
from tilescope.engine.operators.indexing import indexing
from tilescope.engine.operators.indexing.indexing import GATHER
from tilescope.engine.operators.movement import constant, extension
from tilescope.engine.operators.movement.layout import TRANSPOSE, reshape
from tilescope.engine.operators.product.product import MATMUL
from tilescope.engine.operators.quantised.quantised import unpacked
from tilescope.engine.operators.reduction import reduced
from tilescope.engine.operators.sampling import sampling
from tilescope.engine.operators.window import pool

__all__ = ["RECORDS"]

_FAMILIES = (constant, extension, indexing, pool, sampling, spatial)
_OF_ONNX = {record.name: record for family in _FAMILIES for record in family.RECORDS}
_METRICS = ("euclidean", "sqeuclidean")


def _same(name: str) -> Operator:
    """Return the record of an operator that computes what ONNX's of the same name does."""
    record = _OF_ONNX[name]

    def decompose(node: Node, expansion: Expansion) -> Value:
        values = [value for value in node.inputs if value is not None]
        return expansion.emit(record, *values, **node.attributes)

    return Operator(
        name=name,
        domain=MICROSOFT,
        decompose=decompose,
        known_operands=record.known_operands,
        carries=record.carries,
    )


def _max_pool_last(node: Node, expansion: Expansion) -> Value:
    """Emit maxima over windows of images whose channels come last."""
    x = node.operand(0)
    rank = len(x.shape)
    first = expansion.emit(TRANSPOSE, x, order=(0, rank - 1, *range(1, rank - 1)))
    out = expansion.emit(_OF_ONNX["MaxPool"], first, **node.attributes)
    return expansion.emit(TRANSPOSE, out, order=(0, *range(2, rank), 1))


def _expand_dims(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    axis = node.axis(int(node.known(1, "the axis").reshape(())), len(x.shape) + 1)
    return reshape(expansion, x, (*x.shape[:axis], 1, *x.shape[axis:]))


def _distances(node: Node, expansion: Expansion) -> Value:
    """Emit distances of the rows of two matrices, as |a|² + |b|² - 2 a · b.

    Raises
    ------
    BadModel
        When the rows have other lengths, or the metric is unknown.
    """
    a, b = node.operand(0), node.operand(1)
    metric = node.attributes.get("metric", "sqeuclidean")
    if metric not in _METRICS or len(a.shape) != 2 or a.shape[1:] != b.shape[1:]:
        raise BadModel(
            f"{node}: expected matrices with rows of one length and a metric of"
            f" {', '.join(_METRICS)}, got {a.shape}, {b.shape} and {metric!r}"
        )
    squares = [reduced(expansion, "sum", unary(expansion, "square", x), [1]) for x in (a, b)]
    sizes = binary(expansion, "add", squares[0], reshape(expansion, squares[1], (1, b.shape[0])))
    product = expansion.emit(MATMUL, a, expansion.emit(TRANSPOSE, b, order=(1, 0)))
    twice = binary(expansion, "multiply", product, scalar(expansion, 2, product))
    apart = binary(expansion, "subtract", sizes, twice)
    apart = binary(expansion, "maximum", apart, scalar(expansion, 0, apart))
    return unary(expansion, "sqrt", apart) if metric == "euclidean" else apart


def _gather_blocks(node: Node, expansion: Expansion) -> Value:
    """Emit rows of a table of few bits, which is scaled before the program runs.

    Raises
    ------
    BadModel
        When the table is not constant, or packed in another way than 4 or 8 bits.
    """
    data, scales = node.known(0, "the table"), node.known(2, "the scales")
    bits, rank = node.attributes.get("bits", 4), data.ndim
    block = node.attributes.get("block_size", 128)
    axis = node.axis(node.attributes.get("quantize_axis", 1), rank)
    is_packed, zeros = data.dtype == np.uint8 and bits == 4, None
    if bits not in (4, 8) or (is_packed and axis != rank - 1):
        raise BadModel(f"{node}: a table of {bits} bits along axis {axis} is not supported")
    if node.optional(3) is not None:
        zeros = node.known(3, "the zero points")
    if is_packed:
        data = unpacked(data.reshape(-1, data.shape[-1]), 4).reshape(*data.shape[:-1], -1)
        if zeros is not None:
            zeros = unpacked(zeros.reshape(-1, zeros.shape[-1]), 4)
            zeros = zeros.reshape(*scales.shape[:-1], -1)[..., : scales.shape[-1]]
    middle: Any = (1 << (bits - 1)) if data.dtype in (np.uint8, np.float32) else 0

    def spread(values: Any) -> Any:
        wide = np.repeat(values.astype(np.float32), block, axis=axis)
        return np.take(wide, range(data.shape[axis]), axis=axis)

    floats = data.astype(np.float32) - (middle if zeros is None else spread(zeros))
    table = expansion.constant((floats * spread(scales)).astype(scales.dtype), "table")
    return expansion.emit(
        GATHER, table, node.operand(1), axis=node.axis(node.attributes.get("gather_axis", 0), rank)
    )


def _operator(
    name: str, decompose: Callable[[Node, Expansion], Value], known: tuple[int, ...] = ()
) -> Operator:
    return Operator(name=name, domain=MICROSOFT, decompose=decompose, known_operands=known)


RECORDS = (
    _operator("CDist", _distances),
    _operator("ExpandDims", _expand_dims, (1,)),
    _operator("GatherBlockQuantized", _gather_blocks),
    _operator("NhwcMaxPool", _max_pool_last),
    *(_same(name) for name in ("GatherND", "GridSample", "Pad", "Range", "Trilu")),
)
