"""Elements at positions that are computed: GridSample, RoiAlign, deformable convolutions.

Every position takes its neighbours from a table of pixels and sums them by weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.elementwise.cast import CAST
from tilescope.engine.operators.elementwise.choice import chosen
from tilescope.engine.operators.elementwise.elementwise import binary, scalar, unary
from tilescope.engine.operators.indexing.indexing import GATHER_ND
from tilescope.engine.operators.movement.layout import TRANSPOSE, reshape
from tilescope.engine.operators.movement.slicing import along, joined
from tilescope.engine.operators.window.convolution import CONVOLUTION

__all__ = ["RECORDS"]

_INDEX = "int64"


@dataclass(frozen=True)
class _Border:
    """What lies outside an image: ``zeros``, ``border`` or ``reflection``, and its edges."""

    mode: str
    is_at_centres: bool

    def edges(self, size: int) -> tuple[float, float]:
        """Return the first and last position of a dimension."""
        return (0.0, size - 1.0) if self.is_at_centres else (-0.5, size - 0.5)


def _clamped(into: Expansion, x: Value, low: float, high: float) -> Value:
    above = binary(into, "maximum", x, scalar(into, low, x))
    return binary(into, "minimum", above, scalar(into, high, x))


def _reflected(into: Expansion, x: Value, low: float, high: float) -> Value:
    """Emit positions mirrored at both edges until they are between them."""
    width = high - low
    if not width:
        return _clamped(into, x, low, high)
    distance = binary(into, "subtract", x, scalar(into, low, x))
    turns = unary(into, "floor", binary(into, "divide", distance, scalar(into, 2 * width, x)))
    whole = binary(into, "multiply", turns, scalar(into, 2 * width, x))
    rest = binary(
        into, "subtract", binary(into, "subtract", distance, whole), scalar(into, width, x)
    )
    back = binary(into, "subtract", scalar(into, width, x), unary(into, "absolute", rest))
    return binary(into, "add", back, scalar(into, low, x))


def _inside(into: Expansion, x: Value, size: int, border: _Border) -> Value:
    """Emit positions brought between the edges, where the border says so."""
    low, high = border.edges(size)
    if border.mode == "reflection":
        return _reflected(into, x, low, high)
    if border.mode == "zeros":
        return x
    below = binary(into, "less", x, scalar(into, low, x))
    above = binary(into, "greater", x, scalar(into, high, x))
    is_outside = binary(into, "logical_or", below, above)
    return chosen(into, is_outside, _clamped(into, x, 0, size - 1), x)


def _cubic_weights(into: Expansion, x: Value) -> list[Value]:
    """Emit Keys' weights of the four neighbours, at a distance of 0 to 1 after the second."""

    def polynomial(t: Value, numbers: Sequence[float]) -> Value:
        total: Value = scalar(into, numbers[0], t)
        for number in numbers[1:]:
            total = binary(into, "add", binary(into, "multiply", total, t), scalar(into, number, t))
        return total

    a, one = -0.75, scalar(into, 1, x)
    back = binary(into, "subtract", one, x)
    far = (a, -5 * a, 8 * a, -4 * a)
    near = (a + 2, -(a + 3), 0.0, 1.0)
    return [
        polynomial(binary(into, "add", x, one), far),
        polynomial(x, near),
        polynomial(back, near),
        polynomial(binary(into, "add", back, one), far),
    ]


def _taps(into: Expansion, x: Value, mode: str) -> list[tuple[Value, Value | None]]:
    """Emit the neighbours of positions along a dimension, whole numbers, and their weights."""
    if mode == "nearest":
        return [(unary(into, "nearby_int", x), None)]
    base = unary(into, "floor", x)
    rest = binary(into, "subtract", x, base)
    if mode == "linear":
        weights = [binary(into, "subtract", scalar(into, 1, x), rest), rest]
        first = 0
    else:
        weights, first = _cubic_weights(into, rest), -1
    return [
        (binary(into, "add", base, scalar(into, first + i, x)), weight)
        for i, weight in enumerate(weights)
    ]


def _pixels(into: Expansion, x: Value) -> Value:
    """Emit images as tables: (images, pixels, channels)."""
    n, channels, *sizes = x.shape
    rank = len(x.shape)
    moved = into.emit(TRANSPOSE, x, order=(0, *range(2, rank), 1))
    return reshape(into, moved, (n, prod(sizes), channels))


def _sampled(
    into: Expansion,
    x: Value,
    positions: Sequence[Value],
    mode: str,
    border: _Border,
) -> Value:
    """Emit the values of images at positions.

    Parameters
    ----------
    x
        Shape (images, channels, …).
    positions
        For each spatial dimension, floats of shape (images, points), counted in elements.
    mode
        ``nearest``, ``linear`` or ``cubic``.
    border
        What lies outside.

    Returns
    -------
    Value
        Shape (images, points, channels).
    """
    sizes = x.shape[2:]
    table, points = _pixels(into, x), positions[0].shape
    inside = [_inside(into, p, size, border) for p, size in zip(positions, sizes, strict=True)]
    total: Value | None = None
    for taps in product(*(_taps(into, p, mode) for p in inside)):
        index: Value = into.constant(np.zeros((1, 1), _INDEX), "first")
        weight: Value | None = None
        for (place, own), size in zip(taps, sizes, strict=True):
            kept = place
            if border.mode == "reflection":
                kept = unary(into, "floor", _reflected(into, place, *border.edges(size)))
            kept = into.emit(CAST, _clamped(into, kept, 0, size - 1), dtype=_INDEX)
            index = binary(into, "multiply", index, scalar(into, size, index))
            index = binary(into, "add", index, kept)
            factors = [] if own is None else [own]
            if border.mode == "zeros":
                is_same = binary(into, "equal", place, _clamped(into, place, 0, size - 1))
                factors.append(into.emit(CAST, is_same, dtype=place.dtype))
            for factor in factors:
                weight = factor if weight is None else binary(into, "multiply", weight, factor)
        found = into.emit(GATHER_ND, table, reshape(into, index, (*points, 1)), batch_dims=1)
        if weight is not None:
            weight = weight if weight.dtype == x.dtype else into.emit(CAST, weight, dtype=x.dtype)
            found = binary(into, "multiply", found, reshape(into, weight, (*points, 1)))
        total = found if total is None else binary(into, "add", total, found)
    assert total is not None
    return total


_MODES = {"nearest": "nearest", "bilinear": "linear", "linear": "linear"}
_MODES |= {"bicubic": "cubic", "cubic": "cubic"}


def _grid_sample(node: Node, into: Expansion) -> Value:
    x, grid = node.operand(0), node.operand(1)
    n, channels, *sizes = x.shape
    rank = len(sizes)
    mode, padding = node.attributes["mode"], node.attributes["padding_mode"]
    if mode not in _MODES or padding not in ("zeros", "border", "reflection"):
        raise BadModel(f"{node}: mode {mode!r} or padding_mode {padding!r} does not exist in ONNX")
    if len(grid.shape) != rank + 2 or grid.shape[-1] != rank or grid.shape[0] != n:
        raise BadModel(f"{node}: a grid of shape {grid.shape} does not fit images {x.shape}")
    aligns = bool(node.attributes["align_corners"])
    points = prod(grid.shape[1:-1])
    positions = []
    for d, size in enumerate(sizes):
        # The last component of the grid is for the first dimension.
        part = along(into, grid, rank + 1, rank - 1 - d, rank - d)
        share = binary(into, "add", reshape(into, part, (n, points)), scalar(into, 1, grid))
        if aligns:
            place = binary(into, "multiply", share, scalar(into, (size - 1) / 2, grid))
        else:
            wide = binary(into, "multiply", share, scalar(into, size / 2, grid))
            place = binary(into, "subtract", wide, scalar(into, 0.5, grid))
        positions.append(place)
    found = _sampled(into, x, positions, _MODES[mode], _Border(padding, aligns))
    out = reshape(into, found, (n, *grid.shape[1:-1], channels))
    return into.emit(TRANSPOSE, out, order=(0, rank + 1, *range(1, rank + 1)))


def _deformed(node: Node, into: Expansion) -> Value:
    """Emit a convolution whose kernel's elements lie at positions that are computed."""
    x, w, offset = (node.operand(i) for i in range(3))
    bias, mask = node.optional(3), node.optional(4)
    if len(x.shape) != 4:
        raise BadModel(f"{node}: images of {len(x.shape) - 2} dimensions; 2 are supported")
    n, channels = x.shape[:2]
    rows, columns = offset.shape[2:]
    kernel, n_parts = w.shape[2:], node.attributes.get("offset_group", 1)
    n_taps = prod(kernel)
    strides, dilations, pads = (
        node.attributes.get(key) or default
        for key, default in (("strides", (1, 1)), ("dilations", (1, 1)), ("pads", (0,) * 4))
    )
    if offset.shape[1] != n_parts * n_taps * 2 or channels % n_parts:
        raise BadModel(f"{node}: offsets of shape {offset.shape} do not fit weights {w.shape}")
    moves = reshape(into, offset, (n, n_parts, n_taps, 2, rows * columns))
    parts = []
    for i in range(n_parts):
        own = along(into, x, 1, i * channels // n_parts, (i + 1) * channels // n_parts)
        positions = []
        for d, size in enumerate((rows, columns)):
            taps = np.indices(kernel)[d].reshape(n_taps, 1) * dilations[d] - pads[d]
            starts = np.indices((rows, columns))[d].reshape(1, rows * columns) * strides[d]
            base = into.constant((taps + starts).astype(x.dtype)[None], f"base{size}")
            move = along(into, along(into, moves, 1, i, i + 1), 3, d, d + 1)
            moved = binary(into, "add", base, reshape(into, move, (n, n_taps, rows * columns)))
            positions.append(reshape(into, moved, (n, n_taps * rows * columns)))
        found = _sampled(into, own, positions, "linear", _Border("zeros", is_at_centres=True))
        found = reshape(into, found, (n, n_taps, rows * columns, own.shape[1]))
        if mask is not None:
            shares = reshape(into, mask, (n, n_parts, n_taps, rows * columns, 1))
            share = reshape(into, along(into, shares, 1, i, i + 1), (n, n_taps, rows * columns, 1))
            found = binary(into, "multiply", found, share)
        turned = into.emit(TRANSPOSE, found, order=(0, 3, 1, 2))
        parts.append(reshape(into, turned, (n, own.shape[1] * n_taps, rows, columns)))
    out = into.emit(
        CONVOLUTION,
        joined(into, parts, 1),
        reshape(into, w, (w.shape[0], w.shape[1] * n_taps, 1, 1)),
        groups=node.attributes.get("group", 1),
        kernel=(1, 1),
        stride=(1, 1),
        dilation=(1, 1),
        padding_before=(0, 0),
        padding_after=(0, 0),
        **node.hints.stated(),
    )
    if bias is None:
        return out
    return binary(into, "add", out, reshape(into, bias, (bias.shape[0], 1, 1)))


RECORDS = (
    Operator(name="DeformConv", decompose=_deformed),
    Operator(name="GridSample", decompose=_grid_sample),
)
