"""Operators that move elements by indices: gathers, scatters, one-hot encoding, top-k."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadModel
from tilescope.engine.graph import Tensor, View
from tilescope.engine.ir import (
    ENGINE_DOMAIN,
    Constant,
    Expansion,
    Node,
    Operation,
    Operator,
    Parts,
    Value,
)
from tilescope.engine.library.popops.elementwise import operations as library
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.reduction.arg_reduce import arg_max, arg_min
from tilescope.engine.library.popops.slicing.embedding import add_constant_table, plan_embedding
from tilescope.engine.library.popops.slicing.gather import (
    gather_elements,
    gather_nd,
    scatter_elements,
    scatter_nd,
)
from tilescope.engine.library.popops.slicing.multi_slice import multi_slice
from tilescope.engine.library.popops.slicing.multi_update import multi_update_add
from tilescope.engine.library.popops.slicing.one_hot import one_hot
from tilescope.engine.library.popops.slicing.sliceable import create_sliceable_tensor
from tilescope.engine.library.popops.sorting.sort import top_k_with_permutation
from tilescope.engine.lower import Lowering
from tilescope.engine.operators.elementwise.choice import chosen
from tilescope.engine.operators.elementwise.elementwise import binary, scalar
from tilescope.engine.operators.elementwise.mapped import call, mapped, operand
from tilescope.engine.operators.indexing.rows import row_indices
from tilescope.engine.operators.movement.layout import TRANSPOSE, full, reshape
from tilescope.engine.operators.movement.slicing import joined, part
from tilescope.engine.operators.parts import along_others, entries

__all__ = ["ARG_MAX", "GATHER", "GATHER_ND", "RECORDS", "SCATTER_ELEMENTS", "SCATTER_ND"]

#: ONNX's names of the reductions of a scatter.
_REDUCTIONS = {
    "none": "none",
    "add": "add",
    "mul": "multiply",
    "max": "maximum",
    "min": "minimum",
}


def _constant(lowering: Lowering, values: Any, dtype: str) -> Tensor:
    array = np.asarray(values, dtype)
    return lowering.tensor(Constant("constant", array.shape, dtype, array))


def _positions(lowering: Lowering, op: Operation, sizes: Sequence[int]) -> Tensor:
    """Return indices counted from the front; negative ones count from the end.

    Parameters
    ----------
    lowering, op
        Place and operation; the indices are its second operand.
    sizes
        Sizes of the indexed dimension, or of one for every index along the last dimension.

    Raises
    ------
    BadModel
        If indices that are known are out of range.
    """
    value = op.operand(1)
    size, is_unsigned = np.asarray(sizes, np.int64), np.dtype(value.dtype).kind == "u"
    if value.known is not None:
        known = np.asarray(value.known).astype(np.int64)
        if ((known < -size) | (known >= size)).any():
            raise BadModel(f"{op}: {value.name!r} has indices out of range of sizes {list(sizes)}")
        dtype = "int32" if is_unsigned else value.dtype
        return _constant(lowering, np.where(known < 0, known + size, known), dtype)
    indices = lowering.tensor(value)
    if is_unsigned:
        return library.cast(lowering.builder, indices, "int32")
    length = _constant(lowering, size if len(sizes) > 1 else size[0], value.dtype)
    zero = _constant(lowering, 0, value.dtype)
    shape = indices.shape
    is_negative = library.binary(lowering.builder, "less", indices, zero, shape)
    from_end = library.binary(lowering.builder, "add", indices, length, shape)
    return library.select(lowering.builder, from_end, indices, is_negative)


def _lower_gather(lowering: Lowering, op: Operation) -> Tensor:
    x = op.operand(0)
    axis = op.axis(op.attributes["axis"], len(x.shape))
    indices = _positions(lowering, op, [x.shape[axis]])
    table = _table(lowering, x, axis, indices.n_elements)
    if not op.operand(1).shape:  # a scalar has no dimension to replace the axis by
        out = multi_slice(lowering.builder, table, indices.reshape(1), axis)
        return out.reshape(*op.output.shape) if op.output.shape else _as_scalar(out)
    return multi_slice(lowering.builder, table, indices, axis)


def _table(lowering: Lowering, x: Value, axis: int, n_lookups: int) -> View:
    """Return what is looked up: weights lie by a plan where that is faster."""
    if x.is_known and x not in lowering.tensors and len(x.shape) == 2 and axis == 0:
        values = lowering.weight(x)
        table = add_constant_table(lowering.builder, values, x.name, n_lookups)
        if table is not None:
            return table
    return lowering.tensor(x)


def _as_scalar(x: Tensor) -> Tensor:
    return Tensor(x.variable, x.offset, ())


#: Gradients, None where there is none.
_Values = Sequence[Value | None]


def _gather_gradient(op: Operation, expansion: Expansion, gradients: _Values) -> _Values:
    x, indices = op.operand(0), op.operand(1)
    gradient = full(expansion, gradients[0], op.output.shape)
    axis = op.axis(op.attributes["axis"], len(x.shape))
    return expansion.emit(ROW_SUMS, gradient, indices, shape=x.shape, axis=axis), None


def _allocate_table(lowering: Lowering, op: Operation, index: int) -> View | None:
    """Return a variable for a table that is looked up and updated, by one plan."""
    x, indices = op.operand(0), op.operand(1)
    axis, n_lookups = op.axis(op.attributes["axis"], len(x.shape)), prod(indices.shape)
    if index or len(x.shape) != 2 or axis or not n_lookups:  # rows, columns
        return None
    plan = plan_embedding(lowering.builder, x.dtype, x.shape, n_lookups)
    return create_sliceable_tensor(lowering.builder, x.dtype, x.shape, 0, x.name, plan)


def _row_sums_type(node: Node) -> list[tuple[tuple[int, ...], str]]:
    return [(tuple(node.attributes["shape"]), node.operand(0).dtype)]


def _row_sums_array(node: Node, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    gradient, indices = arrays
    axis, shape = node.attributes["axis"], node.attributes["shape"]
    out = np.zeros((shape[axis], *shape[:axis], *shape[axis + 1 :]), gradient.dtype)
    n = indices.ndim
    rows = np.moveaxis(gradient, range(axis, axis + n), range(n))
    np.add.at(out, indices.reshape(-1), rows.reshape(indices.size, *out.shape[1:]))
    return [np.moveaxis(out, 0, axis)]


def _lower_row_sums(lowering: Lowering, op: Operation) -> View:
    """Add up rows into zeros, laid out as the table by which they were looked up would be."""
    builder, axis, shape = lowering.builder, op.attributes["axis"], tuple(op.attributes["shape"])
    indices = _positions(lowering, op, [shape[axis]])
    updates = lowering.tensor(op.operand(0))
    plan = plan_embedding(builder, op.output.dtype, shape, indices.n_elements, axis)
    sums = create_sliceable_tensor(builder, op.output.dtype, shape, axis, op.output.name, plan)
    fill(builder, sums, 0.0)
    if not op.operand(1).shape:
        indices = indices.reshape(1)
        updates = updates.reshape(*shape[:axis], 1, *shape[axis + 1 :])
    multi_update_add(builder, sums, indices, updates, 1.0, axis, plan)
    return sums


#: Rows added up by an index each, in the order of the indices: the gradient of a gather.
ROW_SUMS = Operator(
    name="row_sums",
    domain=ENGINE_DOMAIN,
    infer=_row_sums_type,
    evaluate=_row_sums_array,
    lower=_lower_row_sums,
)


def _lower_gather_elements(lowering: Lowering, op: Operation) -> Tensor:
    x = op.operand(0)
    axis = op.axis(op.attributes["axis"], len(x.shape))
    return gather_elements(
        lowering.builder, lowering.tensor(x), _positions(lowering, op, [x.shape[axis]]), axis
    )


def _gather_elements(node: Node, expansion: Expansion) -> Value | None:
    """Emit the gather of the part of the operand that smaller indices reach; None if it is all.

    Indices of whole rows gather these.
    """
    x, indices = node.operand(0), node.operand(1)
    stops = _reached(node, x, indices)
    axis = node.axis(node.attributes["axis"], len(x.shape))
    if stops == x.shape:
        rows = row_indices(expansion, indices, axis)
        return None if rows is None else expansion.emit(GATHER, x, rows, axis=axis)
    within = part(expansion, x, [0] * len(stops), stops)
    return expansion.emit(GATHER_ELEMENTS, within, indices, **node.attributes)


def _scatter_elements(node: Node, expansion: Expansion) -> Value | None:
    """Emit the update of the part that smaller indices reach, among the rest; None if it is all.

    Indices of whole rows update these.
    """
    x, indices, updates = (node.operand(i) for i in range(3))
    stops = _reached(node, x, indices)
    if stops == x.shape:
        axis = node.axis(node.attributes["axis"], len(x.shape))
        rows = row_indices(expansion, indices, axis)
        return None if rows is None else _scattered_rows(node, expansion, rows, axis)
    within = part(expansion, x, [0] * len(stops), stops)
    out = expansion.emit(SCATTER_ELEMENTS, within, indices, updates, **node.attributes)
    for axis, (reached, size) in enumerate(zip(stops, x.shape, strict=True)):
        if reached < size:
            starts = [reached if d == axis else 0 for d in range(len(stops))]
            ends = [size if d == axis else n for d, n in enumerate(out.shape)]
            out = joined(expansion, [out, part(expansion, x, starts, ends)], axis)
    return out


def _scattered_rows(node: Node, expansion: Expansion, rows: Value, axis: int) -> Value:
    """Emit the update of whole rows along an axis."""
    x, updates = node.operand(0), node.operand(2)
    order = [axis, *(d for d in range(len(x.shape)) if d != axis)]
    turned = [expansion.emit(TRANSPOSE, value, order=tuple(order)) for value in (x, updates)]
    places = reshape(expansion, rows, (*rows.shape, 1))
    reduction = node.attributes.get("reduction", "none")
    out = expansion.emit(SCATTER_ND, turned[0], places, turned[1], reduction=reduction)
    return expansion.emit(TRANSPOSE, out, order=tuple(int(d) for d in np.argsort(order)))


def _reached(node: Node, x: Value, indices: Value) -> tuple[int, ...]:
    """Return the sizes of the part of an operand that indices reach: theirs, but for the axis.

    Raises
    ------
    BadModel
        When the indices have another rank or more elements along another dimension.
    """
    axis = node.axis(node.attributes["axis"], len(x.shape))
    sizes = tuple(x.shape[d] if d == axis else n for d, n in enumerate(indices.shape))
    if len(sizes) != len(x.shape) or any(n > s for n, s in zip(sizes, x.shape, strict=True)):
        raise BadModel(
            f"{node}: {indices.name!r} of shape {indices.shape} exceeds {x.name!r} of shape"
            f" {x.shape} along a dimension other than {axis}"
        )
    return sizes


def _lower_gather_nd(lowering: Lowering, op: Operation) -> Tensor:
    x, indices = op.operand(0), op.operand(1)
    n_batch = op.attributes.get("batch_dims", 0)
    sizes = x.shape[n_batch : n_batch + indices.shape[-1]]
    out = gather_nd(lowering.builder, lowering.tensor(x), _positions(lowering, op, sizes), n_batch)
    return out if op.output.shape else _as_scalar(out)


def _reduction(op: Operation) -> str:
    return _REDUCTIONS[op.attributes.get("reduction", "none")]


def _lower_scatter_elements(lowering: Lowering, op: Operation) -> Tensor:
    x = op.operand(0)
    axis = op.axis(op.attributes["axis"], len(x.shape))
    operands = (
        lowering.tensor(x),
        _positions(lowering, op, [x.shape[axis]]),
        lowering.tensor(op.operand(2)),
    )
    return scatter_elements(lowering.builder, *operands, axis, _reduction(op))


def _lower_scatter_nd(lowering: Lowering, op: Operation) -> Tensor:
    x = op.operand(0)
    sizes = x.shape[: op.operand(1).shape[-1]]
    operands = (lowering.tensor(x), _positions(lowering, op, sizes), lowering.tensor(op.operand(2)))
    return scatter_nd(lowering.builder, *operands, _reduction(op))


def _one_hot(node: Node, expansion: Expansion) -> Value | None:
    """Emit a choice between values that are computed, with a whole depth; None where it stays."""
    indices, depth, values = node.operands
    if depth.dtype != "int64":
        whole = node.known(1, "the depth").reshape(-1)[:1].astype(np.int64)
        depth = expansion.constant(whole, "depth")
        return expansion.emit(ONE_HOT, indices, depth, values, **node.attributes)
    if values.known is not None:
        return None
    known = expansion.constant(np.array([0, 1], np.float32), "values")
    marks = expansion.emit(ONE_HOT, indices, depth, known, **node.attributes)
    is_on = binary(expansion, "greater", marks, scalar(expansion, 0.5, marks))
    off, on = (reshape(expansion, part(expansion, values, [i], [i + 1]), ()) for i in range(2))
    return chosen(expansion, is_on, on, off)


def _lower_one_hot(lowering: Lowering, op: Operation) -> Tensor:
    depth = int(op.known(1, "the depth").reshape(-1)[0])
    off, on = (float(value) for value in op.known(2, "the values").reshape(-1))
    indices = lowering.tensor(op.operand(0))
    if op.operand(0).dtype not in ("int32", "int64"):
        indices = library.cast(lowering.builder, indices, "int32")
    shape = indices.shape
    size, zero = (_constant(lowering, [value], "int32") for value in (depth, 0))
    is_negative = library.binary(lowering.builder, "less", indices, zero, shape)
    from_end = library.binary(lowering.builder, "add", indices, size, shape)
    indices = library.select(lowering.builder, from_end, indices, is_negative)
    out = one_hot(lowering.builder, indices, depth, op.output.dtype, on=on, off=off)
    axis = op.axis(op.attributes["axis"], len(out.shape))
    order = [*range(len(out.shape) - 1)]
    return out.dim_shuffle(*order[:axis], len(order), *order[axis:])


def _lower_top_k(lowering: Lowering, op: Operation) -> tuple[Tensor, ...]:
    k = int(op.attributes["k"]) if op.version < 10 else int(op.known(1, "k").reshape(-1)[0])
    x = op.operand(0)
    axis = op.axis(op.attributes["axis"], len(x.shape))
    largest = bool(op.attributes.get("largest", 1))
    top_values = top_k_with_permutation(
        lowering.builder, lowering.tensor(x), k, axis, largest=largest
    )
    return tuple(
        tensor for value, tensor in zip(op.outputs, top_values, strict=False) if value is not None
    )


def _arg(name: str, find: Callable[..., Tensor]) -> Operator:
    """Return the record of ArgMax or ArgMin."""

    def lower(lowering: Lowering, op: Operation) -> Tensor:
        x = op.operand(0)
        axis = op.axis(op.attributes["axis"], len(x.shape))
        last = bool(op.attributes.get("select_last_index", 0))
        out = find(lowering.builder, lowering.tensor(x), axis, last=last)
        return out.reshape(*op.output.shape) if op.output.shape else _as_scalar(out)

    return Operator(
        name=name, lower=lower, no_gradient="its result is a position", parts=_arg_parts
    )


def _gathered_axis(node: Node, axes: Mapping[int, int], _: tuple[int, ...]) -> int | None:
    """Return the axis of counted indices, or of a counted operand that is indexed along another."""
    axis = node.axis(node.attributes["axis"], len(node.operand(0).shape))
    if set(axes) == {1}:
        return axis + axes[1]
    if set(axes) != {0} or axes[0] == axis:
        return None
    return axes[0] if axes[0] < axis else axes[0] - 1 + len(node.operand(1).shape)


def _worked_axis(node: Node) -> list[int]:
    return [node.axis(node.attributes["axis"], len(node.operand(0).shape))]


def _gather_parts(node: Node, axes: Mapping[int, int], _: int) -> Parts | None:
    """Return the parts of indices, or of an operand that is indexed along another axis."""
    axis = _gathered_axis(node, axes, ())
    return None if axis is None else Parts((axis,))


def _gather_elements_parts(node: Node, axes: Mapping[int, int], _: int) -> Parts | None:
    """Return the parts of indices and operand along another axis, where they have one size."""
    (axis, *others) = set(axes.values())
    x, indices = node.operand(0), node.operand(1)
    if others or axis in _worked_axis(node) or x.shape[axis] != indices.shape[axis]:
        return None
    return entries(node, axes, {0: axis, 1: axis}, (axis,))


def _gather_nd_parts(node: Node, axes: Mapping[int, int], _: int) -> Parts | None:
    """Return the parts of tuples of indices, with those of the operand along batch dimensions."""
    (axis, *others) = set(axes.values())
    if not others and axis < node.attributes.get("batch_dims", 0):
        return entries(node, axes, {0: axis, 1: axis}, (axis,))
    found = _gathered_tuples_axis(node, axes, ())
    return None if found is None else Parts((found,))


def _one_hot_parts(node: Node, axes: Mapping[int, int], _: int) -> Parts | None:
    """Return the parts of indices, which have the depth as one dimension more."""
    if set(axes) != {0}:
        return None
    depth_axis = node.axis(node.attributes["axis"], len(node.operand(0).shape) + 1)
    return Parts((axes[0] + (axes[0] >= depth_axis),))


def _arg_parts(node: Node, axes: Mapping[int, int], n_parts: int) -> Parts | None:
    """Return the parts of places along another axis, which may be left out of the result."""
    found, (axis,) = along_others(_worked_axis)(node, axes, n_parts), _worked_axis(node)
    if found is None or node.attributes["keepdims"]:
        return found
    return Parts((axes[0] - (axes[0] > axis),))


def _gathered_tuples_axis(node: Node, axes: Mapping[int, int], _: tuple[int, ...]) -> int | None:
    is_tuple = set(axes) == {1} and axes[1] < len(node.operand(1).shape) - 1
    return axes[1] if is_tuple else None


def _gather_elements_gradient(op: Operation, expansion: Expansion, gradients: _Values) -> _Values:
    x, axis = op.operand(0), op.attributes["axis"]
    gradient = full(expansion, gradients[0], op.output.shape)
    return [_added_elements(expansion, x, op.operand(1), gradient, axis), None]


def _added_elements(
    expansion: Expansion, x: Value, indices: Value, gradient: Value, axis: int
) -> Value:
    """Emit zeros in the shape of a value, and what is added to them by indices along an axis."""
    zeros = expansion.constant(np.zeros(x.shape, gradient.dtype), "zeros")
    return expansion.emit(SCATTER_ELEMENTS, zeros, indices, gradient, axis=axis, reduction="add")


def _gather_nd_gradient(op: Operation, expansion: Expansion, gradients: _Values) -> _Values:
    indices, n_batch = op.operand(1), op.attributes.get("batch_dims", 0)
    gradient = full(expansion, gradients[0], op.output.shape)
    zeros = expansion.constant(np.zeros(op.operand(0).shape, gradient.dtype), "zeros")
    if n_batch:
        # The position of a tuple among the batches is the first part of its own.
        batches = np.moveaxis(np.indices(indices.shape[:-1])[:n_batch], 0, -1)
        first = expansion.constant(batches.astype(indices.dtype), "batches")
        indices = joined(expansion, [first, indices], len(indices.shape) - 1)
    return [expansion.emit(SCATTER_ND, zeros, indices, gradient, reduction="add"), None]


class _Scatter:
    """Emits scatters and gathers at the places of a scatter."""

    def __init__(self, op: Operation, expansion: Expansion) -> None:
        self.op, self.expansion = op, expansion
        self.is_nd = op.operator is SCATTER_ND
        self.axis = {} if self.is_nd else {"axis": op.attributes["axis"]}

    def at_places(self, x: Value) -> Value:
        """Return the elements of a tensor at the places, in the shape of the updates."""
        gather = {"batch_dims": 0} if self.is_nd else self.axis
        operator = GATHER_ND if self.is_nd else GATHER_ELEMENTS
        return self.expansion.emit(operator, x, self.op.operand(1), **gather)

    def into(self, x: Value, updates: Value, reduction: str) -> Value:
        """Return a tensor with updates at the places."""
        operator = SCATTER_ND if self.is_nd else SCATTER_ELEMENTS
        return self.expansion.emit(
            operator, x, self.op.operand(1), updates, reduction=reduction, **self.axis
        )

    def replaced(self, gradient: Value) -> tuple[Value, Value]:
        """Return the gradients where updates replace what was there, which has holes."""
        updates = self.op.operand(2)
        zeros = self.expansion.constant(np.zeros(updates.shape, gradient.dtype), "zeros")
        return self.into(gradient, zeros, "none"), self.at_places(gradient)

    def extreme(self, gradient: Value) -> tuple[Value, Value]:
        """Return the gradients of a maximum or minimum: equal elements share it evenly."""
        result = self.op.output
        is_it = call("select", 1.0, 0.0, call("equal", operand(0), operand(1)))
        of_x = mapped(self.expansion, is_it, self.op.operand(0), result)
        of_updates = mapped(self.expansion, is_it, self.op.operand(2), self.at_places(result))
        n_equal = self.into(of_x, of_updates, "add")
        share = mapped(self.expansion, operand(0) / operand(1), gradient, n_equal)
        both = operand(0) * operand(1)
        at_places = self.at_places(share)
        return (
            mapped(self.expansion, both, of_x, share),
            mapped(self.expansion, both, of_updates, at_places),
        )

    def product(self, gradient: Value) -> tuple[Value, Value]:
        """Return the gradients of a product; that of an element beside a 0 is 0."""
        x, updates = self.op.operand(0), self.op.operand(2)
        is_zero = call("equal", operand(0), 0.0)
        marks, others = call("select", 1.0, 0.0, is_zero), call("select", 1.0, operand(0), is_zero)
        n_zeros = self.into(
            mapped(self.expansion, marks, x), mapped(self.expansion, marks, updates), "add"
        )
        rest = self.into(
            mapped(self.expansion, others, x), mapped(self.expansion, others, updates), "mul"
        )
        value, of_result, count, product = (operand(i) for i in range(4))
        of_zero = call("select", of_result * product, 0.0, call("equal", count, 1.0))
        of_other = call("select", of_result * product / value, 0.0, call("equal", count, 0.0))
        slope = call("select", of_zero, of_other, call("equal", value, 0.0))
        own = [self.at_places(tensor) for tensor in (gradient, n_zeros, rest)]
        return (
            mapped(self.expansion, slope, x, gradient, n_zeros, rest),
            mapped(self.expansion, slope, updates, *own),
        )


def _scatter_gradient(op: Operation, expansion: Expansion, gradients: _Values) -> _Values:
    """Return the gradients of the operand and of the updates."""
    reduction = op.attributes.get("reduction", "none")
    gradient, scatter = full(expansion, gradients[0], op.output.shape), _Scatter(op, expansion)
    if reduction == "add":
        return [gradient, None, scatter.at_places(gradient)]
    if reduction == "none":
        of_x, of_updates = scatter.replaced(gradient)
    elif reduction == "mul":
        of_x, of_updates = scatter.product(gradient)
    else:
        of_x, of_updates = scatter.extreme(gradient)
    return [of_x, None, of_updates]


def _top_k_gradient(op: Operation, expansion: Expansion, gradients: _Values) -> _Values:
    """Return the gradients of the values at their indices, which are found again if unused."""
    x = op.operand(0)
    indices = op.outputs[1]
    if indices is None:
        again = Node(
            operator=op.operator,
            name=op.name,
            source=op.source,
            inputs=op.inputs,
            attributes=op.attributes,
            version=op.version,
            n_outputs=2,
        )
        _, indices = expansion.builder.add(again, (expansion.output,) * 2)
        assert indices is not None
    gradient = full(expansion, gradients[0], indices.shape)
    axis = op.axis(op.attributes["axis"], len(x.shape))
    return [_added_elements(expansion, x, indices, gradient, axis), None]


ARG_MAX = _arg("ArgMax", arg_max)
TOP_K = Operator(
    name="TopK",
    lower=_lower_top_k,
    known_operands=(1,),
    gradient=_top_k_gradient,
    parts=along_others(_worked_axis, 2),
)
GATHER = Operator(
    name="Gather",
    lower=_lower_gather,
    carries=_gathered_axis,
    gradient=_gather_gradient,
    parts=_gather_parts,
    allocate=_allocate_table,
)
GATHER_ND = Operator(
    name="GatherND",
    lower=_lower_gather_nd,
    carries=_gathered_tuples_axis,
    gradient=_gather_nd_gradient,
    parts=_gather_nd_parts,
)
SCATTER_ND = Operator(name="ScatterND", lower=_lower_scatter_nd, gradient=_scatter_gradient)
SCATTER_ELEMENTS = Operator(
    name="ScatterElements",
    lower=_lower_scatter_elements,
    decompose=_scatter_elements,
    gradient=_scatter_gradient,
)
ONE_HOT = Operator(
    name="OneHot",
    lower=_lower_one_hot,
    decompose=_one_hot,
    known_operands=(1,),
    no_gradient="it takes positions",
    parts=_one_hot_parts,
)
GATHER_ELEMENTS = Operator(
    name="GatherElements",
    lower=_lower_gather_elements,
    decompose=_gather_elements,
    gradient=_gather_elements_gradient,
    parts=_gather_elements_parts,
)

RECORDS = (
    GATHER_ND,
    SCATTER_ELEMENTS,
    ARG_MAX,
    _arg("ArgMin", arg_min),
    GATHER,
    GATHER_ELEMENTS,
    ROW_SUMS,
    ONE_HOT,
    Operator(
        name="Scatter",
        lower=_lower_scatter_elements,
        decompose=_scatter_elements,
        gradient=_scatter_gradient,
    ),
    SCATTER_ND,
    TOP_K,
)
