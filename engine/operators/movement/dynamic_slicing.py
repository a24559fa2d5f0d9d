"""Slices whose place data decide: taken, put back into zeros, and replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Constant, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.operations import binary, select
from tilescope.engine.library.popops.slicing.dynamic_slice import dynamic_slice, dynamic_update
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.movement.layout import full

__all__ = ["DYNAMIC_SLICE", "DYNAMIC_UNSLICE", "DYNAMIC_UPDATE", "RECORDS", "joined"]

Array = NDArray[Any]
Type = tuple[tuple[int, ...], str]
#: Sizes of a slice by axis.
_Sizes = Sequence[tuple[int, int]]


def _dynamic_slice_type(node: Node) -> list[Type]:
    x, sizes = node.operand(0), dict(node.attributes["sizes"])
    return [(tuple(sizes.get(d, size) for d, size in enumerate(x.shape)), x.dtype)]


def _dynamic_slice_array(node: Node, arrays: Sequence[Array]) -> list[Array]:
    x, offsets = arrays
    for (axis, size), offset in zip(node.attributes["sizes"], offsets.tolist(), strict=True):
        first = offset + x.shape[axis] if offset < 0 else offset
        x = np.take(x, range(first, first + size), axis, mode="wrap")
    return [x]


def _first_elements(
    lowering: Lowering, value: Value, sizes: _Sizes, shape: tuple[int, ...]
) -> Tensor:
    """Return the first elements of a slice of a tensor of that shape, counted from the front."""
    offsets = lowering.tensor(value)
    lengths = np.array([shape[axis] for axis, _ in sizes], value.dtype)
    length, zero = (
        lowering.tensor(Constant("constant", array.shape, value.dtype, array))
        for array in (lengths, np.zeros_like(lengths))
    )
    is_negative = binary(lowering.builder, "less", offsets, zero, offsets.shape)
    from_end = binary(lowering.builder, "add", offsets, length, offsets.shape)
    return select(lowering.builder, from_end, offsets, is_negative)


def _lower_dynamic_slice(lowering: Lowering, op: Operation) -> Tensor:
    x, sizes = op.operand(0), op.attributes["sizes"]
    first = _first_elements(lowering, op.operand(1), sizes, x.shape)
    axes = [axis for axis, _ in sizes]
    return dynamic_slice(
        lowering.builder, lowering.tensor(x), first, axes, [size for _, size in sizes]
    )


def _dynamic_slice_gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    gradient, sizes = full(expansion, gradients[0], op.output.shape), op.attributes["sizes"]
    shape = op.operand(0).shape
    stated = {"is_disjoint": True} if op.attributes.get("is_disjoint") else {}
    return [
        expansion.emit(
            DYNAMIC_UNSLICE, gradient, op.operand(1), shape=shape, sizes=sizes, **stated
        ),
        None,
    ]


def joined(
    expansion: Expansion, earlier: Operation | None, later: Operation | None
) -> Value | None:
    """Emit parts of one tensor in one variable; None where they are not, or may overlap.

    Parameters
    ----------
    expansion
        Where the operation goes.
    earlier, later
        What places the parts: of the first slices, and of those after them; None where other
        operations compute them.
    """
    if earlier is None or later is None:
        return None
    for operation in (earlier, later):
        if operation.operator is not DYNAMIC_UNSLICE or not operation.attributes.get("is_disjoint"):
            return None
    sizes = (*_parts(earlier), *_parts(later))
    return expansion.emit(
        DYNAMIC_UNSLICE,
        *earlier.operands,
        *later.operands,
        shape=later.output.shape,
        sizes=sizes[0],
        others=sizes[1:],
        is_disjoint=True,
    )


def _parts(node: Node) -> list[_Sizes]:
    """Return the sizes of the parts by axis, part by part."""
    return [node.attributes["sizes"], *node.attributes.get("others", ())]


def _dynamic_unslice_array(node: Node, arrays: Sequence[Array]) -> list[Array]:
    out = np.zeros(node.attributes["shape"], arrays[0].dtype)
    for sizes, part, offsets in zip(_parts(node), arrays[::2], arrays[1::2], strict=True):
        out[_places(sizes, out.shape, offsets)] = part
    return [out]


def _places(sizes: _Sizes, shape: tuple[int, ...], offsets: Array) -> tuple[Array, ...]:
    """Return the positions of a slice of a tensor of that shape."""
    places = [np.arange(size) for size in shape]
    for (axis, size), offset in zip(sizes, offsets.tolist(), strict=True):
        places[axis] = np.arange(offset, offset + size) % shape[axis]
    return np.ix_(*places)


def _lower_dynamic_unslice(lowering: Lowering, op: Operation) -> Tensor:
    out = lowering.variable(op.output)
    fill(lowering.builder, out, 0.0)
    for place, sizes in enumerate(_parts(op)):
        part, offsets = op.operand(2 * place), op.operand(2 * place + 1)
        first = _first_elements(lowering, offsets, sizes, op.output.shape)
        axes = [axis for axis, _ in sizes]
        dynamic_update(lowering.builder, out, lowering.tensor(part), first, axes)
    return out


#: Tensors at their places in zeros, the gradient of slices whose place data decide. Later ones are
#: written over those before.
DYNAMIC_UNSLICE = Operator(
    name="dynamic_unslice",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(tuple(node.attributes["shape"]), node.operand(0).dtype)],
    evaluate=_dynamic_unslice_array,
    lower=_lower_dynamic_unslice,
)
DYNAMIC_SLICE = Operator(
    name="dynamic_slice",
    domain=ENGINE_DOMAIN,
    infer=_dynamic_slice_type,
    evaluate=_dynamic_slice_array,
    lower=_lower_dynamic_slice,
    gradient=_dynamic_slice_gradient,
)


def _dynamic_update_type(node: Node) -> list[Type]:
    """Return the type of the tensor.

    Raises
    ------
    BadModel
        When the slice is of another type or shape than the node says.
    """
    x, update = node.operand(0), node.operand(2)
    ((shape, dtype),) = _dynamic_slice_type(node)
    if (update.shape, update.dtype) != (shape, dtype):
        raise BadModel(
            f"{node}: the slice {update.name!r} is {update.dtype} of shape {update.shape}: expected"
            f" {dtype} of shape {shape}"
        )
    return [(x.shape, x.dtype)]


def _dynamic_update_array(node: Node, arrays: Sequence[Array]) -> list[Array]:
    out = arrays[0].copy()
    out[_places(node.attributes["sizes"], out.shape, arrays[1])] = arrays[2]
    return [out]


def _lower_dynamic_update(lowering: Lowering, op: Operation) -> Tensor:
    """Write over the operand, or over a copy of it where something reads it afterwards."""
    x = op.operand(0)
    out = lowering.tensor(x) if lowering.is_free(x) else lowering.copied(x)
    sizes = op.attributes["sizes"]
    first = _first_elements(lowering, op.operand(1), sizes, x.shape)
    axes = [axis for axis, _ in sizes]
    dynamic_update(lowering.builder, out, lowering.tensor(op.operand(2)), first, axes)
    return out


def _dynamic_update_gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    """Return the gradient without the slice, and the slice of it.

    Of slices that do not overlap, what was there before is not read again: its gradient stays.
    """
    gradient, sizes = full(expansion, gradients[0], op.output.shape), op.attributes["sizes"]
    update, of_x = op.operand(2), gradient
    if not op.attributes.get("is_disjoint"):
        zeros = expansion.constant(np.zeros(update.shape, update.dtype), "zeros")
        of_x = expansion.emit(DYNAMIC_UPDATE, gradient, op.operand(1), zeros, sizes=sizes)
    return of_x, None, expansion.emit(DYNAMIC_SLICE, gradient, op.operand(1), sizes=sizes)


#: A tensor whose slice is replaced by another tensor; data decide where.
DYNAMIC_UPDATE = Operator(
    name="dynamic_update",
    domain=ENGINE_DOMAIN,
    infer=_dynamic_update_type,
    evaluate=_dynamic_update_array,
    lower=_lower_dynamic_update,
    gradient=_dynamic_update_gradient,
)

RECORDS = (DYNAMIC_SLICE, DYNAMIC_UNSLICE, DYNAMIC_UPDATE)
