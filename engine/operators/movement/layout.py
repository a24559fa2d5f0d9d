"""Operators that change shape or order and compute nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Parts, Value
from tilescope.engine.library.popops.elementwise.operations import rearranged
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.carried import reshaped
from tilescope.engine.operators.parts import divided, reshaped_parts

__all__ = ["BROADCAST", "RECORDS", "RESHAPE", "TRANSPOSE", "full", "reshape"]

Type = tuple[tuple[int, ...], str]


def _reshape_type(node: Node) -> list[Type]:
    x, shape = node.operand(0), tuple(node.attributes["shape"])
    if prod(shape) != prod(x.shape):
        raise BadModel(f"{node}: cannot reshape {x.name!r} of shape {x.shape} to {shape}")
    return [(shape, x.dtype)]


def _lower_reshape(lowering: Lowering, op: Operation) -> Tensor:
    x = lowering.tensor(op.operand(0))
    return rearranged(lowering.builder, x, op.attributes["shape"], "rearrange")


def _transpose_type(node: Node) -> list[Type]:
    x, order = node.operand(0), tuple(node.attributes["order"])
    if sorted(order) != list(range(len(x.shape))):
        raise BadModel(
            f"{node}: {order} does not order the {len(x.shape)} dimensions of {x.name!r}"
        )
    return [(tuple(x.shape[d] for d in order), x.dtype)]


def _lower_transpose(lowering: Lowering, op: Operation) -> Tensor:
    return lowering.tensor(op.operand(0)).dim_shuffle(*op.attributes["order"])


def _reshape_gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    gradient = full(expansion, gradients[0], op.output.shape)
    return [reshape(expansion, gradient, op.operand(0).shape)]


def _allocate_reshape(lowering: Lowering, op: Operation, _: int) -> Tensor | None:
    tensor = lowering.allocated(op.output)
    shape = op.operand(0).shape
    return tensor.reshape(*shape) if tensor is not None and tensor.can_reshape(*shape) else None


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(list(order).index(d) for d in range(len(order)))


def _transpose_gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    (gradient,), order = gradients, op.attributes["order"]
    assert gradient is not None
    gradient = reshape(
        expansion, gradient, (1,) * (len(order) - len(gradient.shape)) + gradient.shape
    )
    return [expansion.emit(TRANSPOSE, gradient, order=_inverse(order))]


def _allocate_transpose(lowering: Lowering, op: Operation, _: int) -> Tensor | None:
    tensor = lowering.allocated(op.output)
    return None if tensor is None else tensor.dim_shuffle(*_inverse(op.attributes["order"]))


def _lower_broadcast(lowering: Lowering, op: Operation) -> Tensor:
    return lowering.tensor(op.operand(0)).broadcast_to(op.output.shape)


def _broadcast_parts(node: Node, axes: Mapping[int, int], n_parts: int) -> Parts | None:
    shape, own = node.attributes["shape"], node.operand(0).shape
    axis = len(shape) - len(own) + axes[0]
    return Parts((axis,), {"shape": divided(shape, axis, n_parts)})


def _reshape_parts(node: Node, axes: Mapping[int, int], n_parts: int) -> Parts | None:
    found = reshaped_parts(node.operand(0).shape, axes[0], node.attributes["shape"], n_parts)
    return None if found is None else Parts(found[:1], {"shape": found[1]})


def _transpose_parts(node: Node, axes: Mapping[int, int], _: int) -> Parts:
    return Parts((list(node.attributes["order"]).index(axes[0]),))


#: A view that repeats elements: nothing is copied.
BROADCAST = Operator(
    name="broadcast",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(tuple(node.attributes["shape"]), node.operand(0).dtype)],
    evaluate=lambda node, x: [np.array(np.broadcast_to(x[0], node.attributes["shape"]))],
    lower=_lower_broadcast,
    gradient=lambda op, expansion, gradients: [full(expansion, gradients[0], op.output.shape)],
    parts=_broadcast_parts,
)


def full(expansion: Expansion, gradient: Value | None, shape: tuple[int, ...]) -> Value:
    """Return a gradient in the shape of what it is the gradient of.

    Until then, a gradient may lack dimensions along which it is the same.
    """
    assert gradient is not None
    if gradient.shape == shape:
        return gradient
    return expansion.emit(BROADCAST, gradient, shape=shape)


RESHAPE = Operator(
    name="reshape",
    domain=ENGINE_DOMAIN,
    infer=_reshape_type,
    evaluate=lambda node, x: [x[0].reshape(node.attributes["shape"])],
    lower=_lower_reshape,
    gradient=_reshape_gradient,
    parts=_reshape_parts,
    allocate=_allocate_reshape,
)
TRANSPOSE = Operator(
    name="transpose",
    domain=ENGINE_DOMAIN,
    infer=_transpose_type,
    evaluate=lambda node, x: [x[0].transpose(node.attributes["order"])],
    lower=_lower_transpose,
    gradient=_transpose_gradient,
    parts=_transpose_parts,
    allocate=_allocate_transpose,
)


def reshape(expansion: Expansion, x: Value, shape: tuple[int, ...]) -> Value:
    """Emit a reshape, unless the operand has the shape already."""
    return x if x.shape == shape else expansion.emit(RESHAPE, x, shape=shape)


def _reshape(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    if "shape" in node.attributes:
        shape = list(node.attributes["shape"])
    else:
        shape = [int(s) for s in node.known(1, "the shape").reshape(-1)]
    if not node.attributes.get("allowzero", 0):
        shape = [x.shape[d] if s == 0 and d < len(x.shape) else s for d, s in enumerate(shape)]
    if shape.count(-1) == 1:
        rest = prod(s for s in shape if s != -1)
        shape[shape.index(-1)] = prod(x.shape) // rest if rest else 0
    return reshape(expansion, x, tuple(shape))


def _flatten(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    axis, rank = node.attributes["axis"], len(x.shape)
    if not -rank <= axis <= rank:
        raise BadModel(f"{node}: axis {axis} is out of range for rank {rank}")
    axis = axis + rank if axis < 0 else axis
    return reshape(expansion, x, (prod(x.shape[:axis]), prod(x.shape[axis:])))


def _squeeze(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    axes = node.axes(len(x.shape))
    if axes is None:
        axes = tuple(d for d, size in enumerate(x.shape) if size == 1)
    return reshape(expansion, x, tuple(s for d, s in enumerate(x.shape) if d not in axes))


def _unsqueeze(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    axes_ = node.attributes.get("axes")
    if axes_ is None:
        axes_ = node.known(1, "the axes").reshape(-1).tolist()
    rank = len(x.shape) + len(axes_)
    axes = {node.axis(a, rank) for a in axes_}
    if len(axes) < len(axes_):
        raise BadModel(f"{node}: an axis is named twice in {list(axes_)}")
    sizes = iter(x.shape)
    return reshape(expansion, x, tuple(1 if d in axes else next(sizes) for d in range(rank)))


def _transpose(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    return expansion.emit(TRANSPOSE, x, order=_order(node))


def _order(node: Node) -> tuple[int, ...]:
    return tuple(node.attributes.get("perm", range(len(node.operand(0).shape))[::-1]))


def _transposed_axis(node: Node, axes: Mapping[int, int], _: tuple[int, ...]) -> int:
    return _order(node).index(axes[0])


RECORDS = (
    BROADCAST,
    RESHAPE,
    TRANSPOSE,
    Operator(name="Flatten", decompose=_flatten, carries=reshaped),
    Operator(name="Reshape", decompose=_reshape, known_operands=(1,), carries=reshaped),
    Operator(name="Squeeze", decompose=_squeeze, known_operands=(1,), carries=reshaped),
    Operator(name="Transpose", decompose=_transpose, carries=_transposed_axis),
    Operator(name="Unsqueeze", decompose=_unsqueeze, known_operands=(1,), carries=reshaped),
)
