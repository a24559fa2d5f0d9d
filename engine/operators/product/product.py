"""Products of matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.elementwise.copy import CAST, CAST_BLOCK
from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Parts, Value
from tilescope.engine.library.poplin.allocators import (
    create_matmul_input_lhs,
    create_matmul_input_rhs,
)
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.library.popops.elementwise.operations import apply_to, rearranged
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.carried import rows
from tilescope.engine.operators.elementwise.elementwise import binary, scalar
from tilescope.engine.operators.movement.layout import TRANSPOSE, full, reshape
from tilescope.engine.operators.parts import broadcast_parts

__all__ = ["MATMUL", "RECORDS", "gemm", "multiplied", "require_floats"]

#: Attributes of an operation that a product takes as they are.
_HINTS = ("available_memory_proportion", "partials_type")
#: float8 products exist in the graph API only.
_PRODUCT_TYPES = ("float16", "float32", "float64")


def require_floats(op: Operation) -> None:
    """Refuse operands of a type that has no products.

    Raises
    ------
    BadModel
        Names the operation and the operand.
    """
    for value in op.operands:
        if value.dtype not in _PRODUCT_TYPES:
            raise BadModel(
                f"{op}: {value.name!r} is {value.dtype}, and a model's products are supported for"
                " floats only, of 16 bits or more"
            )


def _matmul_type(node: Node) -> list[tuple[tuple[int, ...], str]]:
    a, b = node.operand(0), node.operand(1)
    problem = BadModel(
        f"{node}: cannot multiply {a.name!r} of shape {a.shape} by {b.name!r} of shape {b.shape}"
    )
    if len(a.shape) < 2 or len(b.shape) < 2 or a.shape[-1] != b.shape[-2]:
        raise problem
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise problem from None
    return [((*batch, a.shape[-2], b.shape[-1]), a.dtype)]


def _lower_matmul(lowering: Lowering, op: Operation) -> Tensor:
    require_floats(op)
    a, b = op.operand(0), op.operand(1)
    rows, inner = a.shape[-2:]
    columns = b.shape[-1]
    left = lowering.tensor(a)
    hints: dict[str, Any] = {key: op.attributes.get(key) for key in _HINTS}
    right: Tensor | NDArray[Any]
    if all(size == 1 for size in b.shape[:-2]):  # one right operand for all rows
        shape = (1, prod(a.shape[:-1]), inner)
        left = rearranged(lowering.builder, left, shape, "rearrangeLeft")
        narrow_dtype = lowering.narrow_dtype(b)
        if narrow_dtype is not None:
            right = _widened(lowering, left, b, narrow_dtype, hints)
        else:
            right = _right(lowering, b, (1, inner, columns))
    else:
        batch = op.output.shape[:-2]
        left = left.broadcast_to((*batch, rows, inner))
        left = rearranged(lowering.builder, left, (prod(batch), rows, inner), "rearrangeLeft")
        right = _right(lowering, b, (prod(batch), inner, columns), (*batch, inner, columns))
    product = matmul(lowering.builder, left, right, **hints)
    return rearranged(lowering.builder, product, op.output.shape, "rearrange")


def _widened(
    lowering: Lowering, left: Tensor, b: Value, narrow_dtype: str, hints: Mapping[str, Any]
) -> Tensor:
    """Return weights as the product reads them, cast from those that the device keeps."""
    builder, shape = lowering.builder, (1, *b.shape[-2:])
    right = create_matmul_input_rhs(builder, shape, left, b.name, dtype=b.dtype, **hints)
    variable, place = right.variable, np.array(right.offset)
    for size, stride in right.atoms:
        place = np.add.outer(place, np.arange(size) * stride)
    values = np.zeros(variable.n_elements, b.dtype)
    values[place.reshape(-1)] = np.asarray(b.known).reshape(-1)
    kept = builder.graph.add_constant(
        values.reshape(variable.shape), b.name, dtype=narrow_dtype, debug=builder.debug
    )
    kept.variable.map_like(variable)
    narrow = Tensor(kept.variable, right.offset, right.dims)
    apply_to(builder.inside("cast", "popops.cast"), "cast", CAST, CAST_BLOCK, narrow, right)
    return right


def _right(
    lowering: Lowering, b: Value, shape: tuple[int, ...], stretched: tuple[int, ...] | None = None
) -> Tensor | NDArray[Any]:
    """Return the right operand as a batch of matrices, stretched to a shape first."""
    if b.is_known:
        array = lowering.weight(b)
        if stretched is not None and stretched != b.shape:
            array = np.ascontiguousarray(np.broadcast_to(array, stretched))
        return array.reshape(shape)
    tensor = lowering.tensor(b)
    if stretched is not None:
        tensor = tensor.broadcast_to(stretched)
    return rearranged(lowering.builder, tensor, shape, "rearrangeRight")


def _swapped(expansion: Expansion, x: Value) -> Value:
    """Emit the transposes of the last two dimensions."""
    rank = len(x.shape)
    return expansion.emit(TRANSPOSE, x, order=(*range(rank - 2), rank - 1, rank - 2))


def _matmul_gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    a, b = op.operands
    gradient = full(expansion, gradients[0], op.output.shape)
    hints = {key: op.attributes[key] for key in _PRODUCT_HINTS if key in op.attributes}
    of_a = expansion.emit(MATMUL, gradient, _swapped(expansion, b), **hints)
    if any(size != 1 for size in b.shape[:-2]):
        return of_a, expansion.emit(MATMUL, _swapped(expansion, a), gradient, **hints)
    # One right operand for all rows: their products are summed in one product.
    rows = prod(a.shape[:-1])
    flat = reshape(expansion, a, (rows, a.shape[-1]))
    flat_gradient = reshape(expansion, gradient, (rows, gradient.shape[-1]))
    of_b = expansion.emit(MATMUL, _swapped(expansion, flat), flat_gradient, **hints)
    return of_a, reshape(expansion, of_b, b.shape)


#: What the author of a model asks of a product, which its gradients follow.
_PRODUCT_HINTS = ("available_memory_proportion", "partials_type")


def _allocate_matmul(lowering: Lowering, op: Operation, index: int) -> Tensor | None:
    """Return a variable for weights, laid out as the product reads them."""
    a, b = op.operands
    if any(size != 1 for size in b.shape[:-2]) or (index == 0 and prod(a.shape[:-2]) != 1):
        return None
    options = {key: op.attributes.get(key) for key in _PRODUCT_HINTS}
    left, right = (1, prod(a.shape[:-1]), a.shape[-1]), (1, *b.shape[-2:])
    value = op.operand(index)
    create, shape, other = (
        (create_matmul_input_rhs, right, left) if index else (create_matmul_input_lhs, left, right)
    )
    tensor = create(lowering.builder, shape, other, value.name, dtype=value.dtype, **options)
    return tensor.reshape(*value.shape) if tensor.can_reshape(*value.shape) else None


def _matmul_parts(node: Node, axes: Mapping[int, int], _: int) -> Parts | None:
    """Return the parts of a product: of matrices, of rows on the left, of columns on the right."""
    shapes = [value.shape for value in node.operands]
    ranks = [len(shape) for shape in shapes]
    rank = max(ranks)
    if axes == {0: ranks[0] - 2}:
        return Parts((rank - 2,))
    if axes == {1: ranks[1] - 1}:
        return Parts((rank - 1,))
    if any(axis >= ranks[i] - 2 for i, axis in axes.items()):
        return None
    return broadcast_parts([shape[:-2] for shape in shapes], axes)


MATMUL = Operator(
    name="matmul",
    domain=ENGINE_DOMAIN,
    infer=_matmul_type,
    evaluate=lambda _, x: [np.matmul(x[0], x[1])],
    lower=_lower_matmul,
    gradient=_matmul_gradient,
    parts=_matmul_parts,
    allocate=_allocate_matmul,
)


def multiplied(node: Node, expansion: Expansion, a: Value, b: Value) -> Value:
    """Emit a product by the rules of numpy, with the hints of a node."""
    rank_a, rank_b = len(a.shape), len(b.shape)
    if rank_a == 1:
        a = reshape(expansion, a, (1, *a.shape))
    if rank_b == 1:
        b = reshape(expansion, b, (*b.shape, 1))
    out = expansion.emit(MATMUL, a, b, **node.hints.stated())
    shape = out.shape
    if rank_b == 1:
        shape = shape[:-1]
    if rank_a == 1:
        shape = (*shape[:-2], *shape[-1:]) if rank_b > 1 else shape[:-1]
    return reshape(expansion, out, shape)


def gemm(node: Node, expansion: Expansion) -> Value:
    """Emit alpha · a · b + beta · c of a node with Gemm's attributes.

    Raises
    ------
    BadModel
        When c does not broadcast to the product.
    """
    a, b = node.operand(0), node.operand(1)
    if node.attributes["transA"]:
        a = expansion.emit(TRANSPOSE, a, order=(1, 0))
    if node.attributes["transB"]:
        b = expansion.emit(TRANSPOSE, b, order=(1, 0))
    out = expansion.emit(MATMUL, a, b, **node.hints.stated())
    alpha, beta = node.attributes["alpha"], node.attributes["beta"]
    if alpha != 1:
        out = binary(expansion, "multiply", out, scalar(expansion, alpha, out))
    c = node.optional(2)
    if c is None or beta == 0:
        return out
    try:
        fits = np.broadcast_shapes(c.shape, out.shape) == out.shape
    except ValueError:
        fits = False
    if not fits:
        raise BadModel(
            f"{node}: {c.name!r} of shape {c.shape} does not broadcast to the product's {out.shape}"
        )
    if beta != 1:
        c = binary(expansion, "multiply", c, scalar(expansion, beta, out))
    return binary(expansion, "add", out, c)


RECORDS = (
    MATMUL,
    Operator(name="Gemm", decompose=gemm, carries=rows),
    Operator(
        name="MatMul",
        decompose=lambda node, expansion: multiplied(
            node, expansion, node.operand(0), node.operand(1)
        ),
        carries=rows,
    ),
)
