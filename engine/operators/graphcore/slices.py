"""Operators of PopART that take parts of tensors, replace them, or arrange them otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import ENGINE_DOMAIN, Expansion, Node, Operation, Operator, Value
from tilescope.engine.library.popops.slicing.sequence_slice import sequence_slice
from tilescope.engine.lower import Lowering
from tilescope.engine.operators import spatial
from tilescope.engine.operators.elementwise.elementwise import binary
from tilescope.engine.operators.graphcore.domain import as_onnx, as_type, decomposed, signed
from tilescope.engine.operators.movement import layout, slicing
from tilescope.engine.operators.movement.dynamic_slicing import DYNAMIC_SLICE, DYNAMIC_UPDATE
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.movement.slicing import part

__all__ = ["RECORDS"]

Array = NDArray[Any]

#: Operators of ONNX whose first version, or only one, takes the same attributes.
_OF_ONNX = ("DepthToSpace", "Reshape", "Slice")
#: Element types by PopART's own numbers. Source: willow/include/popart/datatype.hpp.
_TYPES = {
    0: "uint8",
    1: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "uint32",
    10: "bool",
    11: "float32",
    12: "float16",
    14: "float64",
}


def _reverse(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    rank = len(x.shape)
    axes = [node.axis(a, rank) for a in node.attributes.get("dimensions", ())]
    if len(set(axes)) < len(axes):
        raise BadModel(f"{node}: a dimension is named twice in {list(axes)}")
    starts = [size - 1 if d in axes else 0 for d, size in enumerate(x.shape)]
    stops = [-1 if d in axes else size for d, size in enumerate(x.shape)]
    return part(expansion, x, starts, stops, [-1 if d in axes else 1 for d in range(rank)])


def _subsample(node: Node, expansion: Expansion) -> Value:
    x, strides = node.operand(0), tuple(node.attributes.get("strides", ()))
    if len(strides) != len(x.shape) or any(step < 1 for step in strides):
        raise BadModel(
            f"{node}: strides {list(strides)}: expected a number above 0 for every dimension of"
            f" {x.name!r}, shape {x.shape}"
        )
    return part(expansion, x, [0] * len(x.shape), x.shape, strides)


def _place(node: Node, expansion: Expansion) -> tuple[Value, dict[str, Any]]:
    """Return the first elements of a slice, shape (axes,), and its sizes by axis.

    Raises
    ------
    BadModel
        When axes, sizes and indices differ in number, or a size exceeds its axis.
    """
    x, index = node.operand(0), signed(expansion, node.operand(1))
    axes = [node.axis(a, len(x.shape)) for a in node.attributes["axes"]]
    sizes = tuple(node.attributes["sizes"])
    if len(axes) != len(sizes) or index.shape not in ((len(axes),), () if len(axes) == 1 else None):
        raise BadModel(
            f"{node}: {len(axes)} axes, {len(sizes)} sizes and indices of shape {index.shape}"
            " do not fit"
        )
    for axis, size in zip(axes, sizes, strict=True):
        if not 0 <= size <= x.shape[axis]:
            raise BadModel(
                f"{node} takes {size} elements of axis {axis}, which has {x.shape[axis]}"
            )
    offsets = reshape(expansion, index, (len(axes),))
    return offsets, {"sizes": tuple(zip(axes, sizes, strict=True))}


def _disjoint(node: Node) -> dict[str, bool]:
    """Return what says that slices of one tensor do not overlap, if the node says so."""
    return {"is_disjoint": True} if node.attributes.get("noOverlap", 0) else {}


def _dynamic_slice(node: Node, expansion: Expansion) -> Value:
    """Emit a slice, in the shape of the operand that it is written to if there is one.

    Raises
    ------
    BadModel
        When the slice does not fit that operand.
    """
    offsets, sizes = _place(node, expansion)
    x, target = node.operand(0), node.optional(2)
    out = expansion.emit(DYNAMIC_SLICE, x, offsets, **sizes, **_disjoint(node))
    if target is None:
        return out
    if prod(target.shape) != prod(out.shape):
        raise BadModel(
            f"{node}: a slice of shape {out.shape} does not fit {target.name!r} of shape"
            f" {target.shape}: expected as many elements"
        )
    return reshape(expansion, out, target.shape)


def _update(node: Node, expansion: Expansion, shape: tuple[int, ...]) -> Value:
    """Emit what a slice of a shape is replaced by; it may lack dimensions of one element."""
    update = node.operand(2)
    fits = prod(update.shape) == prod(shape)
    return reshape(expansion, update, shape) if fits else update


def _slice_shape(x: Value, sizes: Mapping[str, Any]) -> tuple[int, ...]:
    by_axis = dict(sizes["sizes"])
    return tuple(by_axis.get(axis, size) for axis, size in enumerate(x.shape))


def _dynamic_update(node: Node, expansion: Expansion) -> Value:
    offsets, sizes = _place(node, expansion)
    x = node.operand(0)
    update = _update(node, expansion, _slice_shape(x, sizes))
    return expansion.emit(DYNAMIC_UPDATE, x, offsets, update, **sizes, **_disjoint(node))


def _dynamic_add(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    offsets, sizes = _place(node, expansion)
    before = expansion.emit(DYNAMIC_SLICE, x, offsets, **sizes)
    after = binary(expansion, "add", before, _update(node, expansion, before.shape))
    return expansion.emit(DYNAMIC_UPDATE, x, offsets, after, **sizes)


def _dynamic_zero(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    offsets, sizes = _place(node, expansion)
    zeros = expansion.constant(np.zeros(_slice_shape(x, sizes), x.dtype), "zeros")
    return expansion.emit(DYNAMIC_UPDATE, x, offsets, zeros, **sizes)


def _sequence_slice(node: Node, expansion: Expansion) -> Value:
    """Emit runs of rows of the first operand in place of rows of the second.

    Raises
    ------
    BadModel
        When the operands do not fit.
    """
    x, target = node.operand(0), node.operand(1)
    runs = [as_type(expansion, node.operand(i), "int32") for i in range(2, 5)]
    if x.dtype != target.dtype or x.shape[1:] != target.shape[1:] or not x.shape:
        raise BadModel(
            f"{node}: cannot copy rows of {x.dtype} {x.shape} to {target.dtype} {target.shape}"
        )
    if any(run.shape != runs[0].shape or len(run.shape) != 1 for run in runs):
        shapes = ", ".join(str(run.shape) for run in runs)
        raise BadModel(f"{node}: lengths and offsets have shapes {shapes}: expected one, (runs,)")
    is_cleared = bool(node.attributes.get("zeroUnused", 0))
    return expansion.emit(SEQUENCE_SLICE, x, target, *runs, is_cleared=is_cleared)


def _sequence_slice_array(node: Node, arrays: Sequence[Array]) -> list[Array]:
    x, target, *runs = arrays
    out = np.zeros_like(target) if node.attributes["is_cleared"] else target.copy()
    for length, source, place in zip(*(run.tolist() for run in runs), strict=True):
        out[place : place + length] = x[source : source + length]
    return [out]


def _lower_sequence_slice(lowering: Lowering, op: Operation) -> Tensor:
    """Write over the target, or over a copy of it where something reads it afterwards."""
    x, target, *runs = op.operands
    out = lowering.tensor(target) if lowering.is_free(target) else lowering.copied(target)
    sequence_slice(
        lowering.builder,
        lowering.tensor(x),
        out,
        *(lowering.tensor(run) for run in runs),
        zero_unused=op.attributes["is_cleared"],
    )
    return out


#: Runs of rows at places that data decide: source, target, and length, source and place of a run.
SEQUENCE_SLICE = Operator(
    name="sequence_slice",
    domain=ENGINE_DOMAIN,
    infer=lambda node: [(node.operand(1).shape, node.operand(1).dtype)],
    evaluate=_sequence_slice_array,
    lower=_lower_sequence_slice,
    no_gradient="runs of rows may overlap in the source",
)


def _init(node: Node, expansion: Expansion) -> Value:
    """Return zeros, also where the operator leaves the content open.

    Raises
    ------
    BadModel
        When the machine does not have the element type.
    """
    kind = node.attributes["data_type"]
    if kind not in _TYPES:
        raise BadModel(f"{node}: data type {kind} is not supported")
    return expansion.constant(np.zeros(tuple(node.attributes["shape"]), _TYPES[kind]))


RECORDS = (
    SEQUENCE_SLICE,
    *as_onnx(_OF_ONNX, layout, slicing, spatial),
    decomposed("DynamicAdd", _dynamic_add),
    decomposed("DynamicSlice", _dynamic_slice),
    decomposed("DynamicUpdate", _dynamic_update),
    decomposed("DynamicZero", _dynamic_zero),
    decomposed("Init", _init),
    decomposed("Reverse", _reverse),
    decomposed("SequenceSlice", _sequence_slice),
    decomposed("Subsample", _subsample),
)
