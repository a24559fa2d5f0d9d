"""Operators that take parts of tensors or join them: views wherever the layout allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadGraph, BadModel
from tilescope.engine.graph import Tensor, View, concat
from tilescope.engine.ir import (
    ENGINE_DOMAIN,
    Expansion,
    Node,
    Operation,
    Operator,
    Parts,
    Value,
)
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place
from tilescope.engine.library.popops.elementwise.operations import (
    blocked_copy,
    copy_to,
    copy_together,
    row_major_copy,
)
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.carried import along_other_axes
from tilescope.engine.operators.movement.dynamic_slicing import DYNAMIC_SLICE
from tilescope.engine.operators.movement.layout import full, reshape
from tilescope.engine.operators.parts import divided, entries

__all__ = [
    "CONCAT",
    "FIXED_SIZES",
    "IS_PART",
    "RECORDS",
    "SLICE",
    "UNSLICE",
    "along",
    "cut",
    "cut_one",
    "joined",
    "padded",
    "part",
]

Type = tuple[tuple[int, ...], str]

#: Attribute of a slice that is one of several equal parts, and of a join of such: every part is
#: copied to the same places, so that what follows is one program for all.
IS_PART = "is_part"

#: Attribute of a Slice whose start is computed: position in the starts, axis, start or -1, size.
FIXED_SIZES = "fixed_sizes"


def _slices(node: Node) -> tuple[slice, ...]:
    """Return the slices of all dimensions; a reversed one ends before the front."""
    attributes = node.attributes
    return tuple(
        slice(start, stop if stop >= 0 else None, step)
        for start, stop, step in zip(
            attributes["starts"], attributes["stops"], attributes["steps"], strict=True
        )
    )


def _slice_type(node: Node) -> list[Type]:
    x = node.operand(0)
    attributes = node.attributes
    ranges = map(range, attributes["starts"], attributes["stops"], attributes["steps"])
    return [(tuple(map(len, ranges)), x.dtype)]


def _view(x: Tensor, op: Operation) -> Tensor:
    return _sliced(x, _slices(op))


def _sliced(x: Tensor, slices: Sequence[slice]) -> Tensor:
    """Return the part of a tensor as a view.

    Raises
    ------
    BadGraph
        When its layout does not allow that.
    """
    for dim, part_of in enumerate(slices):
        elements = range(x.shape[dim])[part_of]
        low, high = min(elements[0], elements[-1]), max(elements[0], elements[-1])
        x = x.slice(dim, low, high + 1)
        if part_of.step < 0:
            x = x.reverse(dim)
        if abs(part_of.step) > 1:
            x = x.sub_sample(dim, abs(part_of.step))
    return x


def _lower_slice(lowering: Lowering, op: Operation) -> Tensor:
    """Return a view; a copy of it where it is one of several parts, so that all lie alike."""
    x, builder = lowering.tensor(op.operand(0)), lowering.builder
    try:
        view = _view(x, op)
    except BadGraph:
        view = _view(row_major_copy(builder, x, "slice"), op)
    if not op.attributes.get(IS_PART):
        return view
    part_ = lowering.variable(op.output)
    copy_to(builder, view, part_, "part")
    return part_


def _slice_gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    gradient = full(expansion, gradients[0], op.output.shape)
    return [expansion.emit(UNSLICE, gradient, shape=op.operand(0).shape, slices=(_slices(op),))]


def _slice_parts(node: Node, axes: Mapping[int, int], n_parts: int) -> Parts | None:
    """Return the parts of a slice along other axes."""
    shape, axis = node.operand(0).shape, axes[0]
    if _slices(node)[axis] != slice(0, shape[axis], 1):
        return None
    return Parts((axis,), {"stops": divided(node.attributes["stops"], axis, n_parts)})


SLICE = Operator(
    name="slice",
    domain=ENGINE_DOMAIN,
    infer=_slice_type,
    evaluate=lambda node, x: [x[0][_slices(node)]],
    lower=_lower_slice,
    gradient=_slice_gradient,
    parts=_slice_parts,
)


def _unslice_type(node: Node) -> list[Type]:
    return [(tuple(node.attributes["shape"]), node.operand(0).dtype)]


def _unslice_array(node: Node, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    out = np.zeros(node.attributes["shape"], arrays[0].dtype)
    for part_, array in zip(node.attributes["slices"], arrays, strict=True):
        out[part_] += array
    return [out]


def _lower_unslice(lowering: Lowering, op: Operation) -> Tensor:
    """Write the parts into one variable, and zeros where none lies; the rest is added."""
    builder = lowering.builder
    out = lowering.variable(op.output)
    covered = np.zeros(op.output.shape, np.bool_)
    pairs, later = [], []
    for part_, value in zip(op.attributes["slices"], op.operands, strict=True):
        tensor = lowering.tensor(value)
        if covered[part_].any():
            later.append((part_, tensor))
            continue
        covered[part_] = True
        pairs.append((tensor, _sliced(out, part_)))
    if not covered.all():
        fill(builder, out, 0.0)
    copy_together(builder, pairs, "unslice")
    for part_, tensor in later:
        binary_in_place(builder, "add", _sliced(out, part_), tensor)
    return out


#: Tensors at their places in zeros, the gradient of slices; where several lie, their sum.
UNSLICE = Operator(
    name="unslice",
    domain=ENGINE_DOMAIN,
    infer=_unslice_type,
    evaluate=_unslice_array,
    lower=_lower_unslice,
)


def _concat_type(node: Node) -> list[Type]:
    axis, first = node.attributes["axis"], node.operand(0)
    for value in node.operands:
        if value.dtype != first.dtype:
            raise BadModel(
                f"{node} joins {first.name!r} of {first.dtype} and {value.name!r} of {value.dtype};"
                " cast one first"
            )
        same = len(value.shape) == len(first.shape) and all(
            a == b or d == axis
            for d, (a, b) in enumerate(zip(value.shape, first.shape, strict=True))
        )
        if not same:
            raise BadModel(
                f"{node} joins {first.name!r} of shape {first.shape} and {value.name!r} of shape"
                f" {value.shape} along axis {axis}; the other sizes must agree"
            )
    total = sum(value.shape[axis] for value in node.operands)
    return [((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)]


def _concat_array(node: Node, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    return [np.concatenate(list(arrays), axis=node.attributes["axis"])]


def _lower_concat(lowering: Lowering, op: Operation) -> View:
    parts = [lowering.tensor(value) for value in op.operands if prod(value.shape)]
    whole = concat(parts, op.attributes["axis"])
    return whole if isinstance(whole, Tensor) else blocked_copy(lowering.builder, whole, "concat")


def _concat_gradient(
    op: Operation, expansion: Expansion, gradients: Sequence[Value | None]
) -> Sequence[Value | None]:
    axis = op.attributes["axis"]
    gradient = full(expansion, gradients[0], op.output.shape)
    if op.attributes.get(IS_PART):
        return cut(expansion, gradient, axis, len(op.operands))
    ends = np.cumsum([0, *(value.shape[axis] for value in op.operands)]).tolist()
    return [along(expansion, gradient, axis, *edges) for edges in pairwise(ends)]


def _concat_parts(node: Node, axes: Mapping[int, int], _: int) -> Parts | None:
    """Return the parts of a join along another axis."""
    (axis, *others) = set(axes.values())
    if others or axis == node.attributes["axis"]:
        return None
    return entries(node, axes, dict.fromkeys(range(len(node.inputs)), axis), (axis,))


CONCAT = Operator(
    name="concat",
    domain=ENGINE_DOMAIN,
    infer=_concat_type,
    evaluate=_concat_array,
    lower=_lower_concat,
    gradient=_concat_gradient,
    parts=_concat_parts,
)


def part(
    expansion: Expansion,
    x: Value,
    starts: Sequence[int],
    stops: Sequence[int],
    steps: Sequence[int] | None = None,
) -> Value:
    """Emit a slice in every dimension, unless it is everything; -1 ends before the front."""
    steps = (1,) * len(x.shape) if steps is None else tuple(steps)
    if not any(starts) and tuple(stops) == x.shape and set(steps) <= {1}:
        return x
    return expansion.emit(SLICE, x, starts=tuple(starts), stops=tuple(stops), steps=steps)


def along(expansion: Expansion, x: Value, axis: int, start: int, stop: int) -> Value:
    """Emit a slice along one axis."""
    starts = [start if d == axis else 0 for d in range(len(x.shape))]
    stops = [stop if d == axis else size for d, size in enumerate(x.shape)]
    return part(expansion, x, starts, stops)


def joined(expansion: Expansion, values: Sequence[Value], axis: int) -> Value:
    """Emit a concatenation, unless there is one value only."""
    return values[0] if len(values) == 1 else expansion.emit(CONCAT, *values, axis=axis)


def cut(expansion: Expansion, x: Value, axis: int, n_parts: int) -> list[Value]:
    """Emit the equal parts of a value along an axis, each at a place of its own."""
    return [cut_one(expansion, x, axis, n_parts, number) for number in range(n_parts)]


def cut_one(expansion: Expansion, x: Value, axis: int, n_parts: int, number: int) -> Value:
    """Emit one of the equal parts of a value along an axis."""
    size = x.shape[axis] // n_parts
    edges = number * size, (number + 1) * size
    starts, stops = (
        tuple(edge if d == axis else whole for d, whole in enumerate(rest))
        for edge, rest in zip(edges, ((0,) * len(x.shape), x.shape), strict=True)
    )
    steps = (1,) * len(x.shape)
    return expansion.emit(SLICE, x, starts=starts, stops=stops, steps=steps, **{IS_PART: True})


def padded(
    expansion: Expansion, x: Value, axis: int, before: int, after: int, fill: float = 0
) -> Value:
    """Emit a tensor with elements of one value before and after it along an axis."""

    def sides(n: int) -> list[Value]:
        shape = (*x.shape[:axis], n, *x.shape[axis + 1 :])
        return [expansion.constant(np.full(shape, fill, x.dtype), "padding")] if n else []

    return joined(expansion, [*sides(before), x, *sides(after)], axis)


def _concat(node: Node, expansion: Expansion) -> Value:
    rank = len(node.operand(0).shape)
    return joined(expansion, node.operands, node.axis(node.attributes.get("axis", 1), rank))


def _stated(node: Node) -> list[tuple[int, int, int, int]]:
    """Return axis, start, end and step of what a Slice says.

    Raises
    ------
    BadModel
        When they differ in number, an axis is named twice, or a step is 0.
    """
    rank = len(node.operand(0).shape)
    if node.version < 10:
        values_ = [node.attributes.get(key) for key in ("starts", "ends", "axes")]
    else:
        values_ = [
            node.known(i, subject).reshape(-1).tolist() if node.optional(i) is not None else None
            for i, subject in (
                (1, "the starts"),
                (2, "the ends"),
                (3, "the axes"),
                (4, "the steps"),
            )
        ]
    begins, ends, axes, strides = (*values_, None)[:4]
    begins, ends = begins or [], ends or []
    axes = [node.axis(a, rank) for a in (range(len(begins)) if axes is None else axes)]
    strides = [1] * len(axes) if strides is None else strides
    if not len(begins) == len(ends) == len(axes) == len(strides):
        raise BadModel(f"{node}: starts, ends, axes and steps differ in number")
    if len(set(axes)) < len(axes) or 0 in strides:
        raise BadModel(f"{node}: an axis is named twice, or a step is 0")
    return list(zip(axes, begins, ends, strides, strict=True))


def _within(begin: int, end: int, step: int, size: int) -> tuple[int, int, int]:
    """Return start, end and step of a slice within an axis; an end of -1 is before the front.

    Unlike Python, ONNX begins a backward slice at the first element if its start is before it.
    Source: https://onnx.ai/onnx/operators/onnx__Slice.html
    """
    if step < 0 and begin + size < 0 < size:
        begin = 0
    return slice(begin, end, step).indices(size)


def _fixed_slice(node: Node, expansion: Expansion) -> Value:
    """Emit a slice of known size from a start that is computed; one beyond the end wraps around.

    Raises
    ------
    BadModel
        When a size exceeds its axis.
    """
    x, starts = node.operand(0), node.operand(1)
    rank = len(x.shape)
    starts = reshape(expansion, starts, (prod(starts.shape),))
    axes_, sizes = [], []
    for axis_, stated, first, size in node.attributes[FIXED_SIZES]:
        axis = node.axis(stated, rank)
        if first >= 0:
            x = along(expansion, x, axis, *_within(first, first + size, 1, x.shape[axis])[:2])
            continue
        if size > x.shape[axis]:
            raise BadModel(
                f"{node} takes {size} elements of axis {axis}, which has {x.shape[axis]}"
            )
        axes_.append(along(expansion, starts, 0, axis_, axis_ + 1))
        sizes.append((axis, size))
    return expansion.emit(DYNAMIC_SLICE, x, joined(expansion, axes_, 0), sizes=tuple(sizes))


def _slice(node: Node, expansion: Expansion) -> Value:
    if FIXED_SIZES in node.attributes:
        return _fixed_slice(node, expansion)
    x = node.operand(0)
    rank = len(x.shape)
    starts, stops, steps = [0] * rank, list(x.shape), [1] * rank
    for axis, begin, end, step in _stated(node):
        starts[axis], stops[axis], steps[axis] = _within(begin, end, step, x.shape[axis])
    return part(expansion, x, starts, stops, steps)


def _sliced_axis(node: Node, axes: Mapping[int, int], _: tuple[int, ...]) -> int | None:
    """Return the axis of a slice that starts at the first entry."""
    if set(axes) != {0}:
        return None
    for axis, begin, end, step in _stated(node):
        if axis == axes[0] and (begin != 0 or end < 0 or step != 1):
            return None
    return axes[0]


def _joined_axis(node: Node, axes: Mapping[int, int], shape: tuple[int, ...]) -> int | None:
    """Return the axis of a join along another one."""
    axis = node.axis(node.attributes.get("axis", 1), len(shape))
    is_alike = len(axes) == len(node.operands) and len(set(axes.values())) == 1
    return axes[0] if is_alike and axes[0] != axis else None


def _split_axis(node: Node, axes: Mapping[int, int], shape: tuple[int, ...]) -> int | None:
    axis = node.axis(node.attributes.get("axis", 0), len(shape))
    return None if axes.get(0) == axis else along_other_axes(node, axes, shape)


def _split_sizes(node: Node, size: int) -> list[int]:
    """Return the sizes of the parts along the axis.

    Raises
    ------
    BadModel
        When they do not add up.
    """
    sizes_ = node.attributes.get("split")
    if sizes_ is None and node.optional(1) is not None:
        sizes_ = node.known(1, "the sizes of the parts").reshape(-1).tolist()
    if sizes_ is None:
        n_parts = node.attributes.get("num_outputs") or node.n_outputs
        largest = -(-size // n_parts)
        sizes_ = [max(0, min(largest, size - i * largest)) for i in range(n_parts)]
    if sum(sizes_) != size or min(sizes_) < 0:
        raise BadModel(f"{node}: parts of sizes {list(sizes_)} do not make up an axis of {size}")
    return [int(n) for n in sizes_]


def _split(node: Node, expansion: Expansion) -> tuple[Value, ...]:
    x = node.operand(0)
    axis = node.axis(node.attributes.get("axis", 0), len(x.shape))
    ends = np.cumsum([0, *_split_sizes(node, x.shape[axis])]).tolist()
    return tuple(along(expansion, x, axis, start, stop) for start, stop in pairwise(ends))


RECORDS = (
    SLICE,
    UNSLICE,
    CONCAT,
    Operator(name="Concat", decompose=_concat, carries=_joined_axis),
    Operator(name="Slice", decompose=_slice, known_operands=(1, 2, 3, 4), carries=_sliced_axis),
    Operator(name="Split", decompose=_split, known_operands=(1,), carries=_split_axis),
)
