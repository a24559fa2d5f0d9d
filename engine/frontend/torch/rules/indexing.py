"""Indexing, gathering, scattering and embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import Any

import numpy as np

from tilescope.engine.frontend.torch.emission import Emission, Rule, Rules
from tilescope.engine.frontend.torch.promotion import promoted
from tilescope.engine.ir import Parameter, Value

__all__ = ["RULES"]


def _expanded_masks(emit: Emission, x: Value, indices: Sequence[Any]) -> list[Value | None]:
    """Return indices with those of bool, which have to be known, as places."""
    whole: list[Value | None] = []
    for index in indices:
        if not isinstance(index, Value) or index.dtype not in ("bool", "uint8"):
            whole.append(index)
        elif index.known is None:
            emit.refuse(
                "selects by a mask that is computed, so that data decide the shape: use torch.where"
            )
        else:
            whole += [emit.integers(places) for places in np.nonzero(np.asarray(index.known))]
    return whole + [None] * (len(x.shape) - len(whole))


class _Advanced:
    """An index of several tensors.

    Parameters
    ----------
    emit
        Of the node.
    indices
        Integers by axis, None for axes that are taken whole.
    """

    def __init__(self, emit: Emission, indices: Sequence[Value | None]) -> None:
        self.emit = emit
        self.axes = [axis for axis, index in enumerate(indices) if index is not None]
        self.rest = [axis for axis, index in enumerate(indices) if index is None]
        tensors = [emit.cast(index, "int64") for index in indices if index is not None]
        self.field = np.broadcast_shapes(*(index.shape for index in tensors))
        spread = [emit.expand(index, self.field) for index in tensors]
        columns = [emit.reshape(index, (*self.field, 1)) for index in spread]
        self.places = emit.concat(columns, len(self.field))
        is_contiguous = self.axes == list(range(self.axes[0], self.axes[-1] + 1))
        #: Axis of the result at which the field of the index begins.
        self.start = self.axes[0] if is_contiguous else 0
        self.order = [*self.axes, *self.rest]

    def in_result(self, x: Value) -> Value:
        """Return (field, rest) as the result has them: the field in the place of the axes."""
        n_field = len(self.field)
        before = range(n_field, n_field + self.start)
        after = range(n_field + self.start, len(x.shape))
        return self.emit.permute(x, (*before, *range(n_field), *after))

    def from_result(self, x: Value) -> Value:
        """Return what the result has as (field, rest)."""
        n_field = len(self.field)
        field = range(self.start, self.start + n_field)
        before, after = range(self.start), range(self.start + n_field, len(x.shape))
        return self.emit.permute(x, (*field, *before, *after))


def _index(emit: Emission, x: Value, indices: Sequence[Any]) -> Value:
    whole = _expanded_masks(emit, x, indices)
    axes = [axis for axis, index in enumerate(whole) if index is not None]
    if not axes:
        return x
    if len(axes) == 1:
        return emit("Gather", x, whole[axes[0]], axis=axes[0])
    advanced = _Advanced(emit, whole)
    found = emit("GatherND", emit.permute(x, advanced.order), advanced.places)
    return advanced.in_result(found)


def _index_put(
    emit: Emission,
    x: Value,
    indices: Sequence[Any],
    values: Value,
    accumulate: bool = False,
    *_: Any,
) -> Value:
    given = [index for index in indices if index is not None]
    mask = given[0] if len(given) == 1 and given[0].dtype == "bool" else None
    if mask is not None and mask.known is None:
        if prod(values.shape) != 1:
            emit.refuse("puts several values where a computed mask is true: use torch.where")
        value = emit.cast(emit.reshape(values, ()), x.dtype)
        axis = list(indices).index(mask)
        rank = len(x.shape) - axis - len(mask.shape)
        spread = emit.reshape(mask, (*mask.shape, *(1,) * rank))
        return emit("Where", spread, emit("Add", x, value) if accumulate else value, x)
    whole = _expanded_masks(emit, x, indices)
    advanced = _Advanced(emit, whole)
    moved = emit.permute(x, advanced.order)
    rest = tuple(x.shape[axis] for axis in advanced.rest)
    shape = (*rest[: advanced.start], *advanced.field, *rest[advanced.start :])
    updates = advanced.from_result(emit.expand(emit.cast(values, x.dtype), shape))
    reduction = "add" if accumulate else "none"
    out = emit("ScatterND", moved, advanced.places, updates, reduction=reduction)
    back = np.argsort(advanced.order).tolist()
    return emit.permute(out, back)


def _index_select(emit: Emission, x: Value, dim: int, index: Value) -> Value:
    if not x.shape:
        return x
    return emit("Gather", x, emit.reshape(index, (prod(index.shape),)), axis=dim % len(x.shape))


def _cut(emit: Emission, x: Value, shape: Sequence[int], besides: int) -> Value:
    """Return the first entries of a tensor along all axes but one, as many as an index has."""
    for axis, size in enumerate(shape):
        if axis != besides:
            x = emit.slice(x, axis, 0, size)
    return x


def _gather(emit: Emission, x: Value, dim: int, index: Value, **_: Any) -> Value:
    if not x.shape:
        return emit.reshape(x, emit.shape) if not emit.shape else emit.expand(x, emit.shape)
    axis = dim % len(x.shape)
    return emit("GatherElements", _cut(emit, x, index.shape, axis), index, axis=axis)


def _take_along_dim(emit: Emission, x: Value, index: Value, dim: int | None = None) -> Value:
    if dim is None:
        flat = emit.reshape(x, (prod(x.shape),))
        return emit("Gather", flat, emit.reshape(index, (prod(index.shape),)), axis=0)
    axis = dim % len(x.shape)
    shape = [
        index.shape[a] if a == axis else max(x.shape[a], index.shape[a])
        for a in range(len(x.shape))
    ]
    own = [x.shape[a] if a == axis else shape[a] for a in range(len(x.shape))]
    return emit("GatherElements", emit.expand(x, own), emit.expand(index, shape), axis=axis)


def _take(emit: Emission, x: Value, index: Value) -> Value:
    return emit("Gather", emit.reshape(x, (prod(x.shape),)), index, axis=0)


def _scattered(
    emit: Emission, x: Value, dim: int, index: Value, source: Value, reduction: str = "none"
) -> Value:
    if not x.shape:
        x, index = emit.reshape(x, (1,)), emit.reshape(index, (1,))
        source = emit.reshape(source, (1,))
        return emit.reshape(_scattered(emit, x, 0, index, source, reduction), ())
    axis = dim % len(x.shape)
    updates = emit.cast(_cut(emit, source, index.shape, -1), x.dtype)
    return emit("ScatterElements", x, index, updates, axis=axis, reduction=reduction)


_SCATTER_REDUCTIONS = {"add": "add", "multiply": "mul", None: "none"}


def _scatter(
    emit: Emission, x: Value, dim: int, index: Value, source: Any, *, reduce: str | None = None
) -> Value:
    if not isinstance(source, Value):
        source = emit.constant(np.full(index.shape, source), x.dtype)
    elif source.shape != index.shape and not source.shape:
        source = emit.expand(source, index.shape)
    return _scattered(emit, x, dim, index, source, _SCATTER_REDUCTIONS[reduce])


def _scatter_add(emit: Emission, x: Value, dim: int, index: Value, source: Value) -> Value:
    return _scattered(emit, x, dim, index, source, "add")


#: Reductions of ONNX by PyTorch's, with what leaves a result as it is.
_REDUCE = {
    "sum": ("add", 0.0),
    "mean": ("add", 0.0),
    "prod": ("mul", 1.0),
    "amax": ("max", -inf),
    "amin": ("min", inf),
}


def _neutral(emit: Emission, dtype: str, number: float) -> Value:
    if number in (inf, -inf) and not dtype.startswith("float"):
        limits = np.iinfo(dtype)
        number = limits.max if number > 0 else limits.min
    return emit.constant(number, dtype)


def _scatter_reduce(
    emit: Emission,
    x: Value,
    dim: int,
    index: Value,
    source: Value,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    kind, number = _REDUCE[reduce]
    source = _cut(emit, source, index.shape, -1)
    start = x
    if not include_self:
        neutral = emit.expand(_neutral(emit, x.dtype, number), index.shape)
        start = _scattered(emit, x, dim, index, neutral)
    out = _scattered(emit, start, dim, index, source, kind)
    if reduce != "mean":
        return out
    ones = emit.constant(np.ones(index.shape), x.dtype)
    before = emit.constant(np.full(x.shape, float(include_self)), x.dtype)
    counts = _scattered(emit, before, dim, index, ones, "add")
    counts = emit("Max", counts, emit.constant(1, x.dtype))
    if x.dtype.startswith("float"):
        return emit("Div", out, counts)
    rest = emit("Mod", out, counts, fmod=0)
    return emit("Div", emit("Sub", out, rest), counts)


def _rows(emit: Emission, index: Value, shape: Sequence[int], axis: int) -> Value:
    """Return an index of rows as one of elements."""
    spread = emit.reshape(index, [index.shape[0] if a == axis else 1 for a in range(len(shape))])
    return emit.expand(spread, shape)


def _index_rows(reduction: str) -> Rule:
    def rule(
        emit: Emission, x: Value, dim: int, index: Value, source: Value, *, alpha: Any = 1
    ) -> Value:
        axis = dim % len(x.shape)
        index = emit.reshape(index, (prod(index.shape),))
        source = emit.scaled(emit.cast(source, x.dtype), alpha)
        places = _rows(emit, index, source.shape, axis)
        return _scattered(emit, x, dim, places, source, reduction)

    return rule


def _index_fill(emit: Emission, x: Value, dim: int, index: Value, value: Any) -> Value:
    axis = dim % len(x.shape)
    index = emit.reshape(index, (prod(index.shape),))
    shape = [index.shape[0] if a == axis else n for a, n in enumerate(x.shape)]
    fill = emit.expand(emit.value(value, x.dtype), shape)
    return _scattered(emit, x, dim, _rows(emit, index, shape, axis), fill)


def _index_reduce(
    emit: Emission,
    x: Value,
    dim: int,
    index: Value,
    source: Value,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    axis = dim % len(x.shape)
    places = _rows(emit, index, source.shape, axis)
    return _scatter_reduce(emit, x, dim, places, source, reduce, include_self=include_self)


def _embedding(
    emit: Emission, weight: Value, indices: Value, padding_idx: int = -1, *_: Any
) -> Value:
    out = emit("Gather", weight, indices, axis=0)
    if padding_idx < 0 or not (isinstance(weight, Parameter) and weight.is_trainable):
        return out
    # The row of the padding gets no gradient.
    is_padding = emit("Equal", indices, emit.constant(padding_idx, indices.dtype))
    is_padding = emit.reshape(is_padding, (*indices.shape, 1))
    return emit("Where", is_padding, emit("ai.graphcore.Detach", out), out)


#: Modes of bags by PyTorch's numbers.
_MODES = ("sum", "mean", "max")


def _embedding_bag(
    emit: Emission,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Any, ...]:
    n, n_bags = indices.shape[0], offsets.shape[0] - int(include_last_offset)
    rows = emit("Gather", weight, indices, axis=0)
    starts = emit.cast(emit.slice(offsets, 0, 0, n_bags), "int64")
    later = emit(
        "LessOrEqual", emit.reshape(starts, (n_bags, 1)), emit.integers(np.arange(n)[None])
    )
    counted = emit.reduced("ReduceSum", emit.cast(later, "int32"), [0], keeps=False)
    bags = emit.constant(np.arange(1, n_bags + 1)[:, None], "int32")
    belongs = emit("Equal", emit.reshape(counted, (1, n)), bags)
    if padding_idx >= 0:
        counts = emit("Not", emit("Equal", indices, emit.constant(padding_idx, indices.dtype)))
        belongs = emit("And", belongs, emit.reshape(counts, (1, n)))
    shares = emit.cast(belongs, rows.dtype)
    if _MODES[mode] == "max":
        lowest = emit.constant(-inf, rows.dtype)
        spread = emit.reshape(rows, (1, *rows.shape))
        kept = emit("Where", emit.reshape(belongs, (n_bags, n, 1)), spread, lowest)
        most = emit.reduced("ReduceMax", kept, [1], keeps=False)
        is_empty = emit("Equal", most, lowest)
        out = emit("Where", is_empty, emit.constant(0, rows.dtype), most)
        return out, None, None, None
    if per_sample_weights is not None:
        shares = emit("Mul", shares, emit.reshape(per_sample_weights, (1, n)))
    out = emit("MatMul", shares, rows)
    if _MODES[mode] == "mean":
        count = emit.reduced("ReduceSum", emit.cast(belongs, rows.dtype), [1], keeps=True)
        out = emit("Div", out, emit("Max", count, emit.constant(1, rows.dtype)))
    return out, None, None, None


def _one_hot(emit: Emission, x: Value, num_classes: int = -1) -> Value:
    if num_classes < 0:
        emit.refuse("needs num_classes: without it, data decide the shape")
    classes = emit.constant(np.arange(num_classes), x.dtype)
    return emit.cast(emit("Equal", emit.reshape(x, (*x.shape, 1)), classes), "int64")


def _bucketize(
    emit: Emission, x: Any, boundaries: Value, *, out_int32: bool = False, right: bool = False
) -> Value:
    dtype = promoted([x, boundaries])
    x, boundaries = emit.value(x, dtype), emit.cast(boundaries, dtype)
    spread = emit.reshape(x, (*x.shape, 1))
    below = emit("LessOrEqual" if right else "Less", boundaries, spread)
    count = emit.reduced("ReduceSum", emit.cast(below, "int32"), [len(x.shape)], keeps=False)
    return emit.cast(count, emit.dtype)


def _searchsorted(
    emit: Emission,
    boundaries: Value,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    if sorter is not None:
        emit.refuse("with a sorter is not supported")
    if len(boundaries.shape) == 1:
        return _bucketize(emit, x, boundaries, right=right or side == "right")
    dtype = promoted([x, boundaries])
    boundaries = emit.cast(boundaries, dtype)
    limits = emit.reshape(boundaries, (*boundaries.shape[:-1], 1, boundaries.shape[-1]))
    spread = emit.reshape(emit.value(x, dtype), (*x.shape, 1))
    below = emit("LessOrEqual" if right or side == "right" else "Less", limits, spread)
    count = emit.reduced("ReduceSum", emit.cast(below, "int32"), [len(x.shape)], keeps=False)
    return emit.cast(count, emit.dtype)


RULES: Rules = {
    "aten._embedding_bag": _embedding_bag,
    "aten._embedding_bag_forward_only": _embedding_bag,
    "aten._unsafe_index": _index,
    "aten._unsafe_index_put": _index_put,
    "aten.bucketize": _bucketize,
    "aten.embedding": _embedding,
    "aten.gather": _gather,
    "aten.index": _index,
    "aten.index_add": _index_rows("add"),
    "aten.index_copy": _index_rows("none"),
    "aten.index_fill": _index_fill,
    "aten.index_put": _index_put,
    "aten.index_reduce": _index_reduce,
    "aten.index_select": _index_select,
    "aten.one_hot": _one_hot,
    "aten.scatter": _scatter,
    "aten.scatter_add": _scatter_add,
    "aten.scatter_reduce": _scatter_reduce,
    "aten.searchsorted": _searchsorted,
    "aten.take": _take,
    "aten.take_along_dim": _take_along_dim,
}
