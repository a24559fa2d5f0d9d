"""Operators that move elements between channels, rows and columns, or along an axis."""

from __future__ import annotations

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.elementwise.choice import chosen
from tilescope.engine.operators.elementwise.elementwise import scalar
from tilescope.engine.operators.movement.layout import TRANSPOSE, reshape
from tilescope.engine.operators.movement.slicing import along, joined, padded, part

__all__ = ["RECORDS"]


def _block(node: Node) -> int:
    """Return the size of a block, which divides channels or sides.

    Raises
    ------
    BadModel
        When the operand does not have four dimensions, or the size is below 1.
    """
    block, x = int(node.attributes["blocksize"]), node.operand(0)
    if len(x.shape) != 4 or block < 1:
        raise BadModel(
            f"{node}: expected images of four dimensions and a blocksize of 1 or more, got"
            f" {x.shape} and {block}"
        )
    return block


def _depth_to_space(node: Node, expansion: Expansion) -> Value:
    x, block = node.operand(0), _block(node)
    n, channels, height, width = x.shape
    if channels % block**2:
        raise BadModel(f"{node}: {channels} channels do not divide into blocks of {block}²")
    depth = channels // block**2
    if node.attributes.get("mode", "DCR") == "DCR":
        apart, order = (n, block, block, depth, height, width), (0, 3, 4, 1, 5, 2)
    else:
        apart, order = (n, depth, block, block, height, width), (0, 1, 4, 2, 5, 3)
    moved = expansion.emit(TRANSPOSE, reshape(expansion, x, apart), order=order)
    return reshape(expansion, moved, (n, depth, height * block, width * block))


def _space_to_depth(node: Node, expansion: Expansion) -> Value:
    x, block = node.operand(0), _block(node)
    n, channels, height, width = x.shape
    if height % block or width % block:
        raise BadModel(f"{node}: {height} × {width} does not divide into blocks of {block}")
    rows, columns = height // block, width // block
    apart = reshape(expansion, x, (n, channels, rows, block, columns, block))
    is_by_depth = node.attributes.get("mode", "DCR") == "DCR"
    order = (0, 3, 5, 1, 2, 4) if is_by_depth else (0, 1, 3, 5, 2, 4)
    moved = expansion.emit(TRANSPOSE, apart, order=order)
    return reshape(expansion, moved, (n, channels * block**2, rows, columns))


def _triangle(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    k = int(node.known(1, "the diagonal").reshape(())) if node.optional(1) is not None else 0
    rows, columns = x.shape[-2:]
    keep = np.tri(rows, columns, k if not node.attributes["upper"] else k - 1, dtype=np.bool_)
    mask = expansion.constant(~keep if node.attributes["upper"] else keep, "mask")
    return chosen(expansion, mask, x, scalar(expansion, 0, x))


def _reverse_sequence(node: Node, expansion: Expansion) -> Value:
    """Emit every batch's elements, the first of them in reverse order."""
    x, lengths = node.operand(0), node.known(1, "the lengths").reshape(-1)
    time, batch = node.attributes["time_axis"], node.attributes["batch_axis"]
    if {time, batch} != {0, 1} or lengths.size != x.shape[batch]:
        raise BadModel(
            f"{node}: time_axis and batch_axis are 0 and 1, and every batch has a length"
        )
    if lengths.min() < 0 or lengths.max() > x.shape[time]:
        raise BadModel(f"{node}: lengths are from 0 to {x.shape[time]}, got {lengths.tolist()}")
    rows = []
    for i, length in enumerate(lengths.tolist()):
        row = along(expansion, x, batch, i, i + 1)
        if length == 0:
            rows.append(row)
            continue
        starts = [length - 1 if d == time else 0 for d in range(len(x.shape))]
        stops = [-1 if d == time else size for d, size in enumerate(row.shape)]
        steps = [-1 if d == time else 1 for d in range(len(x.shape))]
        parts = [part(expansion, row, starts, stops, steps)]
        if length < x.shape[time]:
            parts.append(along(expansion, row, time, length, x.shape[time]))
        rows.append(joined(expansion, parts, time))
    return joined(expansion, rows, batch)


def _center_crop_pad(node: Node, expansion: Expansion) -> Value:
    x = node.operand(0)
    sizes = node.known(1, "the shape").reshape(-1).tolist()
    axes = [node.axis(a, len(x.shape)) for a in node.attributes.get("axes", range(len(x.shape)))]
    for axis, size in zip(axes, sizes, strict=True):
        axis_size = x.shape[axis]
        if size <= axis_size:
            start = (axis_size - size) // 2
            x = along(expansion, x, axis, start, start + size)
        else:
            before = (size - axis_size) // 2
            x = padded(expansion, x, axis, before, size - axis_size - before)
    return x


RECORDS = (
    Operator(name="CenterCropPad", decompose=_center_crop_pad, known_operands=(1,)),
    Operator(name="DepthToSpace", decompose=_depth_to_space),
    Operator(name="ReverseSequence", decompose=_reverse_sequence, known_operands=(1,)),
    Operator(name="SpaceToDepth", decompose=_space_to_depth),
    Operator(name="Trilu", decompose=_triangle, known_operands=(1,)),
)
