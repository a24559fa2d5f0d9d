"""Shapes, views, slices, joins and copies."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from tilescope.engine.frontend.torch.emission import Emission, Rule, Rules
from tilescope.engine.ir import Value

__all__ = ["RULES"]

_END = 1 << 62


def _view(emit: Emission, x: Value, *_: Any, **__: Any) -> Value:
    return emit.reshape(x, emit.shape)


def _view_dtype(emit: Emission, x: Value, *_: Any) -> Value:
    if emit.dtype == x.dtype:
        return x
    return emit.refuse("reads the bits of a tensor as another type, which is not supported")


def _expand(emit: Emission, x: Value, *_: Any, **__: Any) -> Value:
    return emit.expand(x, emit.shape)


def _permute(emit: Emission, x: Value, dims: Sequence[int]) -> Value:
    return emit.permute(x, dims)


def _transpose(emit: Emission, x: Value, a: int, b: int) -> Value:
    rank = len(x.shape)
    if not rank:
        return x
    order = list(range(rank))
    order[a % rank], order[b % rank] = b % rank, a % rank
    return emit.permute(x, order)


def _reversed(emit: Emission, x: Value) -> Value:
    return emit.permute(x, range(len(x.shape))[::-1])


def _select(emit: Emission, x: Value, dim: int, index: Any) -> Value:
    axis = dim % len(x.shape)
    if isinstance(index, Value):
        return emit("Gather", x, emit.reshape(index, ()), axis=axis)
    start = index % x.shape[axis]
    return emit.reshape(emit.slice(x, axis, start, start + 1), emit.shape)


def _bounds(n: int, start: int | None, end: int | None) -> tuple[int, int]:
    start = 0 if start is None else max(0, start + n) if start < 0 else min(start, n)
    end = n if end is None else max(0, end + n) if end < 0 else min(end, n)
    return start, max(start, end)


def _slice(
    emit: Emission,
    x: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    axis = dim % len(x.shape)
    start, end = _bounds(x.shape[axis], start, end)
    return emit.slice(x, axis, start, end, step)


def _narrow(emit: Emission, x: Value, dim: int, start: Any, length: int) -> Value:
    axis = dim % len(x.shape)
    if isinstance(start, Value):
        places = emit(
            "Add", emit.reshape(emit.cast(start, "int64"), (1,)), emit.integers(range(length))
        )
        return emit("Gather", x, places, axis=axis)
    return emit.slice(x, axis, start % x.shape[axis], start % x.shape[axis] + length)


def _parts(emit: Emission, x: Value, axis: int, sizes: Sequence[int]) -> list[Value]:
    ends = np.cumsum(sizes).tolist()
    return [emit.slice(x, axis, end - size, end) for size, end in zip(sizes, ends, strict=True)]


def _split(emit: Emission, x: Value, size: Any, dim: int = 0) -> list[Value]:
    axis = dim % len(x.shape)
    if isinstance(size, list | tuple):
        return _parts(emit, x, axis, size)
    n = x.shape[axis]
    if n == 0:
        return [x]
    return _parts(emit, x, axis, [min(size, n - start) for start in range(0, n, size)])


def _chunk(emit: Emission, x: Value, chunks: int, dim: int = 0) -> list[Value]:
    return _split(emit, x, max(1, -(-x.shape[dim % len(x.shape)] // chunks)), dim)


def _tensor_split(emit: Emission, x: Value, sections: Any, dim: int = 0) -> list[Value]:
    axis = dim % len(x.shape)
    n = x.shape[axis]
    if isinstance(sections, int):
        least, more = divmod(n, sections)
        return _parts(emit, x, axis, [least + (i < more) for i in range(sections)])
    places = [0, *(_bounds(n, place, None)[0] for place in sections), n]
    return [emit.slice(x, axis, start, max(start, end)) for start, end in pairwise(places)]


def _unbind(emit: Emission, x: Value, dim: int = 0) -> list[Value]:
    axis = dim % len(x.shape)
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return [emit.reshape(emit.slice(x, axis, i, i + 1), shape) for i in range(x.shape[axis])]


def _cat(emit: Emission, values: Sequence[Value], dim: int = 0) -> Value:
    # An empty tensor of one dimension joins anything.
    values = [value for value in values if value.shape != (0,)] or list(values[:1])
    values = [emit.cast(value, emit.dtype) for value in values]
    return emit.concat(values, dim % len(values[0].shape))


def _stack(emit: Emission, values: Sequence[Value], dim: int = 0) -> Value:
    axis = dim % (len(values[0].shape) + 1)
    shape = values[0].shape
    spread = (*shape[:axis], 1, *shape[axis:])
    return emit.concat([emit.reshape(emit.cast(v, emit.dtype), spread) for v in values], axis)


def _repeat(emit: Emission, x: Value, repeats: Sequence[int]) -> Value:
    shape = (*(1,) * (len(repeats) - len(x.shape)), *x.shape)
    return emit("Tile", emit.reshape(x, shape), emit.integers(list(repeats)))


def _repeat_interleave(
    emit: Emission, x: Value, repeats: Any, dim: int | None = None, *, output_size: Any = None
) -> Value:
    if isinstance(repeats, Value):
        if repeats.known is None:
            emit.refuse("takes numbers of repeats that are known only")
        counts = np.broadcast_to(np.asarray(repeats.known), (x.shape[dim or 0],))
    else:
        counts = None
    if dim is None:
        x, dim = emit.reshape(x, (prod(x.shape),)), 0
    axis = dim % len(x.shape)
    if counts is None:
        counts = np.full(x.shape[axis], repeats)
    return emit("Gather", x, emit.integers(np.repeat(np.arange(x.shape[axis]), counts)), axis=axis)


def _roll(emit: Emission, x: Value, shifts: Any, dims: Any = ()) -> Value:
    shifts = list(shifts) if isinstance(shifts, list | tuple) else [shifts]
    dims = list(dims) if isinstance(dims, list | tuple) else [dims]
    shape = x.shape
    if not dims:
        x, dims = emit.reshape(x, (prod(shape),)), [0]
    for shift, dim in zip(shifts, dims, strict=True):
        axis = dim % len(x.shape)
        n = x.shape[axis]
        cut = -shift % n if n else 0
        if cut:
            parts = [emit.slice(x, axis, cut, n), emit.slice(x, axis, 0, cut)]
            x = emit.concat(parts, axis)
    return emit.reshape(x, shape)


def _flip(emit: Emission, x: Value, dims: Sequence[int]) -> Value:
    for dim in dims:
        axis = dim % len(x.shape)
        x = emit("Slice", x, *(emit.integers([n]) for n in (-1, -_END, axis, -1)))
    return x


def _fliplr(axis: int) -> Rule:
    def rule(emit: Emission, x: Value) -> Value:
        return _flip(emit, x, [axis])

    return rule


def _constant_pad(emit: Emission, x: Value, pad: Sequence[int], value: Any = 0) -> Value:
    rank = len(x.shape)
    begins, ends = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        begins[rank - 1 - i], ends[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    for axis in range(rank):  # negative padding cuts
        start, stop = max(0, -begins[axis]), x.shape[axis] - max(0, -ends[axis])
        x = emit.slice(x, axis, start, stop)
    pads = [max(0, number) for number in (*begins, *ends)]
    if not any(pads):
        return x
    fill = emit.constant(value or 0, x.dtype)
    return emit("Pad", x, emit.integers(pads), fill, mode="constant")


def _edge_pad(mode: str) -> Rule:
    def rule(emit: Emission, x: Value, pad: Sequence[int]) -> Value:
        rank = len(x.shape)
        begins, ends = [0] * rank, [0] * rank
        for i in range(len(pad) // 2):
            begins[rank - 1 - i], ends[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
        return emit("Pad", x, emit.integers([*begins, *ends]), mode=mode)

    return rule


def _pad(
    emit: Emission, x: Value, pad: Sequence[int], mode: str = "constant", value: Any = None
) -> Value:
    if mode == "constant":
        return _constant_pad(emit, x, pad, value)
    modes = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    padded: Value = _edge_pad(modes[mode])(emit, x, pad)
    return padded


def _meshgrid(emit: Emission, values: Sequence[Value], *, indexing: str = "ij") -> list[Value]:
    order = list(range(len(values)))
    if indexing == "xy" and len(values) > 1:
        order[:2] = [1, 0]
    sizes = [value.shape[0] if value.shape else 1 for value in values]
    shape = [sizes[i] for i in order]
    grids = []
    for i, value in enumerate(values):
        spread = [sizes[i] if axis == i else 1 for axis in order]
        grids.append(emit.expand(emit.reshape(value, spread), shape))
    return grids


def _cartesian_prod(emit: Emission, values: Sequence[Value]) -> Value:
    if len(values) == 1:
        return values[0]
    grids = _meshgrid(emit, values)
    columns = [emit.reshape(grid, (prod(grid.shape), 1)) for grid in grids]
    return emit.concat(columns, 1)


def _pixel_shuffle(emit: Emission, x: Value, factor: int) -> Value:
    *outer, channels, height, width = x.shape
    n = channels // factor**2
    split = emit.reshape(x, (*outer, n, factor, factor, height, width))
    k = len(outer)
    order = (*range(k), k, k + 3, k + 1, k + 4, k + 2)
    return emit.reshape(emit.permute(split, order), emit.shape)


def _pixel_unshuffle(emit: Emission, x: Value, factor: int) -> Value:
    *outer, channels, height, width = x.shape
    split = emit.reshape(x, (*outer, channels, height // factor, factor, width // factor, factor))
    k = len(outer)
    order = (*range(k), k, k + 2, k + 4, k + 1, k + 3)
    return emit.reshape(emit.permute(split, order), emit.shape)


def _channel_shuffle(emit: Emission, x: Value, groups: int) -> Value:
    n, channels, *field = x.shape
    split = emit.reshape(x, (n, groups, channels // groups, *field))
    order = (0, 2, 1, *range(3, 3 + len(field)))
    return emit.reshape(emit.permute(split, order), x.shape)


def _unfold(emit: Emission, x: Value, dimension: int, size: int, step: int) -> Value:
    if not x.shape:
        return emit.reshape(x, (1,))
    axis = dimension % len(x.shape)
    starts = np.arange(0, x.shape[axis] - size + 1, step)
    places = starts[:, None] + np.arange(size)
    out = emit("Gather", x, emit.integers(places), axis=axis)
    order = [a for a in range(len(out.shape)) if a != axis + 1] + [axis + 1]
    return emit.permute(out, order)


def _im2col(
    emit: Emission, x: Value, kernel: Any, dilation: Any, padding: Any, stride: Any
) -> Value:
    image = x if len(x.shape) == 4 else emit.reshape(x, (1, *x.shape))
    (ph, pw), (dh, dw), (sh, sw), (kh, kw) = padding, dilation, stride, kernel
    if ph or pw:
        image = emit("Pad", image, emit.integers([0, 0, ph, pw, 0, 0, ph, pw]))
    n, channels, height, width = image.shape
    rows = (height - dh * (kh - 1) - 1) // sh + 1
    columns = (width - dw * (kw - 1) - 1) // sw + 1
    patches = []
    for i in range(kh):
        for j in range(kw):
            part = emit.slice(image, 2, i * dh, i * dh + sh * (rows - 1) + 1, sh)
            part = emit.slice(part, 3, j * dw, j * dw + sw * (columns - 1) + 1, sw)
            patches.append(emit.reshape(part, (n, channels, 1, rows * columns)))
    return emit.reshape(emit.concat(patches, 2), emit.shape)


def _col2im(
    emit: Emission,
    x: Value,
    output_size: Any,
    kernel: Any,
    dilation: Any,
    padding: Any,
    stride: Any,
) -> Value:
    columns = x if len(x.shape) == 3 else emit.reshape(x, (1, *x.shape))
    out = emit(
        "Col2Im",
        columns,
        emit.integers(list(output_size)),
        emit.integers(list(kernel)),
        dilations=list(dilation),
        pads=[*padding, *padding],
        strides=list(stride),
    )
    return emit.reshape(out, emit.shape)


def _scatter_part(
    emit: Emission, x: Value, part: Value, axis: int, places: np.ndarray[Any, Any]
) -> Value:
    """Return a tensor with a part in the place of some of its entries along an axis."""
    n = x.shape[axis]
    if places.size == n and np.array_equal(places, np.arange(n)):
        return emit.cast(part, x.dtype)
    if places.size == 0:
        return x
    if places.size == 1 or np.all(np.diff(places) == 1):
        first, last = int(places[0]), int(places[-1])
        pieces = [
            emit.slice(x, axis, 0, first) if first else None,
            emit.cast(part, x.dtype),
            emit.slice(x, axis, last + 1, n) if last + 1 < n else None,
        ]
        return emit.concat([piece for piece in pieces if piece is not None], axis)
    both = emit.concat([x, emit.cast(part, x.dtype)], axis)
    order = np.arange(n)
    order[places] = n + np.arange(places.size)
    return emit("Gather", both, emit.integers(order), axis=axis)


def _select_scatter(emit: Emission, x: Value, part: Value, dim: int, index: int) -> Value:
    axis = dim % len(x.shape)
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return _scatter_part(
        emit, x, emit.reshape(part, shape), axis, np.array([index % x.shape[axis]])
    )


def _slice_scatter(
    emit: Emission,
    x: Value,
    part: Value,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    axis = dim % len(x.shape)
    start, end = _bounds(x.shape[axis], start, end)
    return _scatter_part(emit, x, part, axis, np.arange(start, end, step))


def _diagonal(emit: Emission, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    rank = len(x.shape)
    a, b = dim1 % rank, dim2 % rank
    order = [axis for axis in range(rank) if axis not in (a, b)] + [a, b]
    moved = emit.permute(x, order)
    *outer, height, width = moved.shape
    rows, columns = np.arange(height) - min(offset, 0), np.arange(height) + max(offset, 0)
    keep = (rows < height) & (columns < width)
    places = (rows * width + columns)[keep]
    flat = emit.reshape(moved, (*outer, height * width))
    return emit("Gather", flat, emit.integers(places), axis=len(outer))


def _copy(emit: Emission, x: Value, source: Any, *_: Any) -> Value:
    return emit.expand(emit.value(source, x.dtype), x.shape)


def _sym_size(emit: Emission, x: Value, dim: int | None = None) -> Any:
    return list(x.shape) if dim is None else x.shape[dim]


def _sym_numel(emit: Emission, x: Value) -> int:
    return prod(x.shape)


def _nothing(emit: Emission, *_: Any, **__: Any) -> None:
    """Leave out what only checks."""


def _scalar(emit: Emission, x: Value) -> Any:
    if x.known is None:
        emit.refuse("takes a Python number from data, so that data would decide what is computed")
    return np.asarray(x.known).item()


RULES: Rules = {
    "aten._assert_async": _nothing,
    "aten._assert_scalar": _nothing,
    "aten._assert_tensor_metadata": _nothing,
    "aten._local_scalar_dense": _scalar,
    "aten._reshape_alias": _view,
    "aten._shape_as_tensor": lambda emit, x: emit.integers(list(x.shape)),
    "aten._unsafe_view": _view,
    "aten.broadcast_to": _expand,
    "aten.cartesian_prod": _cartesian_prod,
    "aten.cat": _cat,
    "aten.channel_shuffle": _channel_shuffle,
    "aten.chunk": _chunk,
    "aten.col2im": _col2im,
    "aten.concat": _cat,
    "aten.constant_pad_nd": _constant_pad,
    "aten.copy": _copy,
    "aten.diagonal": _diagonal,
    "aten.expand": _expand,
    "aten.expand_as": _expand,
    "aten.flatten": _view,
    "aten.flip": _flip,
    "aten.fliplr": _fliplr(1),
    "aten.flipud": _fliplr(0),
    "aten.im2col": _im2col,
    "aten.item": _scalar,
    "aten.meshgrid": _meshgrid,
    "aten.narrow": _narrow,
    "aten.numpy_T": _reversed,
    "aten.pad": _pad,
    "aten.permute": _permute,
    "aten.pixel_shuffle": _pixel_shuffle,
    "aten.pixel_unshuffle": _pixel_unshuffle,
    "aten.reflection_pad1d": _edge_pad("reflect"),
    "aten.reflection_pad2d": _edge_pad("reflect"),
    "aten.reflection_pad3d": _edge_pad("reflect"),
    "aten.repeat": _repeat,
    "aten.repeat_interleave": _repeat_interleave,
    "aten.replication_pad1d": _edge_pad("edge"),
    "aten.replication_pad2d": _edge_pad("edge"),
    "aten.replication_pad3d": _edge_pad("edge"),
    "aten.reshape": _view,
    "aten.roll": _roll,
    "aten.select": _select,
    "aten.select_scatter": _select_scatter,
    "aten.size": _sym_size,
    "aten.slice": _slice,
    "aten.slice_scatter": _slice_scatter,
    "aten.split": _split,
    "aten.split_with_sizes": _split,
    "aten.squeeze": _view,
    "aten.stack": _stack,
    "aten.sym_constrain_range": _nothing,
    "aten.sym_constrain_range_for_size": _nothing,
    "aten.sym_numel": _sym_numel,
    "aten.sym_size": _sym_size,
    "aten.t": _reversed,
    "aten.tensor_split": _tensor_split,
    "aten.tile": _repeat,
    "aten.transpose": _transpose,
    "aten.unbind": _unbind,
    "aten.unflatten": _view,
    "aten.unfold": _unfold,
    "aten.unsafe_chunk": _chunk,
    "aten.unsafe_split": _split,
    "aten.unsqueeze": _view,
    "aten.view": _view,
    "aten.view.dtype": _view_dtype,
    "aten.view_as": _view,
    "aten.adjoint": lambda emit, x: _transpose(emit, x, -2, -1),
}
