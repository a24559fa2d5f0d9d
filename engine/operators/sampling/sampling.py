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


def _clamped(expansion: Expansion, x: Value, low: float, high: float) -> Value:
    above = binary(expansion, "maximum", x, scalar(expansion, low, x))
    return binary(expansion, "minimum", above, scalar(expansion, high, x))


def _reflected(expansion: Expansion, x: Value, low: float, high: float) -> Value:
    """Emit positions mirrored at both edges until they are between them."""
    width = high - low
    if not width:
        return _clamped(expansion, x, low, high)
    distance = binary(expansion, "subtract", x, scalar(expansion, low, x))
    turns = unary(
        expansion, "floor", binary(expansion, "divide", distance, scalar(expansion, 2 * width, x))
    )
    full_turns = binary(expansion, "multiply", turns, scalar(expansion, 2 * width, x))
    rest = binary(
        expansion,
        "subtract",
        binary(expansion, "subtract", distance, full_turns),
        scalar(expansion, width, x),
    )
    back = binary(
        expansion, "subtract", scalar(expansion, width, x), unary(expansion, "absolute", rest)
    )
    return binary(expansion, "add", back, scalar(expansion, low, x))


def _inside(expansion: Expansion, x: Value, size: int, border: _Border) -> Value:
    """Emit positions brought between the edges, where the border says so."""
    low, high = border.edges(size)
    if border.mode == "reflection":
        return _reflected(expansion, x, low, high)
    if border.mode == "zeros":
        return x
    below = binary(expansion, "less", x, scalar(expansion, low, x))
    above = binary(expansion, "greater", x, scalar(expansion, high, x))
    is_outside = binary(expansion, "logical_or", below, above)
    return chosen(expansion, is_outside, _clamped(expansion, x, 0, size - 1), x)


def _cubic_weights(expansion: Expansion, x: Value) -> list[Value]:
    """Emit Keys' weights of the four neighbours, at a distance of 0 to 1 after the second."""

    def polynomial(t: Value, numbers: Sequence[float]) -> Value:
        total: Value = scalar(expansion, numbers[0], t)
        for number in numbers[1:]:
            total = binary(
                expansion,
                "add",
                binary(expansion, "multiply", total, t),
                scalar(expansion, number, t),
            )
        return total

    a, unit = -0.75, scalar(expansion, 1, x)
    back = binary(expansion, "subtract", unit, x)
    far = (a, -5 * a, 8 * a, -4 * a)
    near = (a + 2, -(a + 3), 0.0, 1.0)
    return [
        polynomial(binary(expansion, "add", x, unit), far),
        polynomial(x, near),
        polynomial(back, near),
        polynomial(binary(expansion, "add", back, unit), far),
    ]


def _taps(expansion: Expansion, x: Value, mode: str) -> list[tuple[Value, Value | None]]:
    """Emit the neighbours of positions along a dimension, whole numbers, and their weights."""
    if mode == "nearest":
        return [(unary(expansion, "nearby_int", x), None)]
    base = unary(expansion, "floor", x)
    rest = binary(expansion, "subtract", x, base)
    if mode == "linear":
        weights = [binary(expansion, "subtract", scalar(expansion, 1, x), rest), rest]
        first = 0
    else:
        weights, first = _cubic_weights(expansion, rest), -1
    return [
        (binary(expansion, "add", base, scalar(expansion, first + i, x)), weight)
        for i, weight in enumerate(weights)
    ]


def _pixels(expansion: Expansion, x: Value) -> Value:
    """Emit images as tables: (images, pixels, channels)."""
    n, channels, *sizes = x.shape
    rank = len(x.shape)
    moved = expansion.emit(TRANSPOSE, x, order=(0, *range(2, rank), 1))
    return reshape(expansion, moved, (n, prod(sizes), channels))


def _sampled(
    expansion: Expansion,
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
    table, points = _pixels(expansion, x), positions[0].shape
    inside = [_inside(expansion, p, size, border) for p, size in zip(positions, sizes, strict=True)]
    total: Value | None = None
    for taps in product(*(_taps(expansion, p, mode) for p in inside)):
        index: Value = expansion.constant(np.zeros((1, 1), _INDEX), "first")
        weight: Value | None = None
        for (position, tap_weights), size in zip(taps, sizes, strict=True):
            selected = position
            if border.mode == "reflection":
                selected = unary(
                    expansion, "floor", _reflected(expansion, position, *border.edges(size))
                )
            selected = expansion.emit(
                CAST, _clamped(expansion, selected, 0, size - 1), dtype=_INDEX
            )
            index = binary(expansion, "multiply", index, scalar(expansion, size, index))
            index = binary(expansion, "add", index, selected)
            factors = [] if tap_weights is None else [tap_weights]
            if border.mode == "zeros":
                is_same = binary(
                    expansion, "equal", position, _clamped(expansion, position, 0, size - 1)
                )
                factors.append(expansion.emit(CAST, is_same, dtype=position.dtype))
            for factor in factors:
                weight = factor if weight is None else binary(expansion, "multiply", weight, factor)
        values = expansion.emit(
            GATHER_ND, table, reshape(expansion, index, (*points, 1)), batch_dims=1
        )
        if weight is not None:
            weight = (
                weight if weight.dtype == x.dtype else expansion.emit(CAST, weight, dtype=x.dtype)
            )
            values = binary(expansion, "multiply", values, reshape(expansion, weight, (*points, 1)))
        total = values if total is None else binary(expansion, "add", total, values)
    assert total is not None
    return total


_MODES = {"nearest": "nearest", "bilinear": "linear", "linear": "linear"}
_MODES |= {"bicubic": "cubic", "cubic": "cubic"}


def _grid_sample(node: Node, expansion: Expansion) -> Value:
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
        part = along(expansion, grid, rank + 1, rank - 1 - d, rank - d)
        share = binary(
            expansion, "add", reshape(expansion, part, (n, points)), scalar(expansion, 1, grid)
        )
        if aligns:
            position = binary(expansion, "multiply", share, scalar(expansion, (size - 1) / 2, grid))
        else:
            wide = binary(expansion, "multiply", share, scalar(expansion, size / 2, grid))
            position = binary(expansion, "subtract", wide, scalar(expansion, 0.5, grid))
        positions.append(position)
    samples = _sampled(expansion, x, positions, _MODES[mode], _Border(padding, aligns))
    out = reshape(expansion, samples, (n, *grid.shape[1:-1], channels))
    return expansion.emit(TRANSPOSE, out, order=(0, rank + 1, *range(1, rank + 1)))


def _deformed(node: Node, expansion: Expansion) -> Value:
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
    moves = reshape(expansion, offset, (n, n_parts, n_taps, 2, rows * columns))
    parts = []
    for i in range(n_parts):
        group_input = along(expansion, x, 1, i * channels // n_parts, (i + 1) * channels // n_parts)
        positions = []
        for d, size in enumerate((rows, columns)):
            taps = np.indices(kernel)[d].reshape(n_taps, 1) * dilations[d] - pads[d]
            starts = np.indices((rows, columns))[d].reshape(1, rows * columns) * strides[d]
            base = expansion.constant((taps + starts).astype(x.dtype)[None], f"base{size}")
            move = along(expansion, along(expansion, moves, 1, i, i + 1), 3, d, d + 1)
            moved = binary(
                expansion, "add", base, reshape(expansion, move, (n, n_taps, rows * columns))
            )
            positions.append(reshape(expansion, moved, (n, n_taps * rows * columns)))
        samples = _sampled(
            expansion, group_input, positions, "linear", _Border("zeros", is_at_centres=True)
        )
        samples = reshape(expansion, samples, (n, n_taps, rows * columns, group_input.shape[1]))
        if mask is not None:
            shares = reshape(expansion, mask, (n, n_parts, n_taps, rows * columns, 1))
            share = reshape(
                expansion, along(expansion, shares, 1, i, i + 1), (n, n_taps, rows * columns, 1)
            )
            samples = binary(expansion, "multiply", samples, share)
        turned = expansion.emit(TRANSPOSE, samples, order=(0, 3, 1, 2))
        parts.append(reshape(expansion, turned, (n, group_input.shape[1] * n_taps, rows, columns)))
    out = expansion.emit(
        CONVOLUTION,
        joined(expansion, parts, 1),
        reshape(expansion, w, (w.shape[0], w.shape[1] * n_taps, 1, 1)),
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
    return binary(expansion, "add", out, reshape(expansion, bias, (bias.shape[0], 1, 1)))


RECORDS = (
    Operator(name="DeformConv", decompose=_deformed),
    Operator(name="GridSample", decompose=_grid_sample),
)
