"""Operators that write elements at positions, and cumulative products."""

from __future__ import annotations

from math import prod

import numpy as np

from tilescope.engine.errors import BadModel
from tilescope.engine.ir import Expansion, Node, Operator, Value
from tilescope.engine.operators.elementwise.elementwise import binary, scalar
from tilescope.engine.operators.indexing.indexing import SCATTER_ELEMENTS
from tilescope.engine.operators.movement.extension import EXPAND
from tilescope.engine.operators.movement.layout import reshape
from tilescope.engine.operators.movement.slicing import along, padded, part
from tilescope.engine.operators.window.convolution_transpose import CONVOLUTION_TRANSPOSE

__all__ = ["RECORDS"]


def _max_unpool(node: Node, expansion: Expansion) -> Value:
    x, indices = node.operand(0), node.operand(1)
    kernel = node.attributes["kernel_shape"]
    strides = node.attributes.get("strides") or (1,) * len(kernel)
    pads = node.attributes.get("pads") or (0,) * (2 * len(kernel))
    sizes = tuple(
        (n - 1) * strides[d] - pads[d] - pads[len(kernel) + d] + kernel[d]
        for d, n in enumerate(x.shape[2:])
    )
    shape = (*x.shape[:2], *sizes)
    flat = expansion.constant(np.zeros(prod(shape), x.dtype), "zeros")
    rows = [reshape(expansion, value, (prod(x.shape),)) for value in (indices, x)]
    out = reshape(expansion, expansion.emit(SCATTER_ELEMENTS, flat, *rows, axis=0), shape)
    if node.optional(2) is None:
        return out
    output_shape = node.known(2, "the output's shape").reshape(-1).tolist()
    for axis, size in enumerate(output_shape):
        n = out.shape[axis]
        if size < n:
            out = along(expansion, out, axis, 0, size)
        elif size > n:
            out = padded(expansion, out, axis, 0, size - n)
    return out


def _tensor_scatter(node: Node, expansion: Expansion) -> Value:
    past, update, start = node.operand(0), node.operand(1), node.optional(2)
    axis, rank = node.axis(node.attributes.get("axis", -2), len(past.shape)), len(past.shape)
    mode = node.attributes.get("mode", "linear")
    if mode not in ("linear", "circular") or len(update.shape) != rank:
        raise BadModel(f"{node}: mode {mode!r} or an update of shape {update.shape} does not fit")
    spread = [update.shape[axis] if d == axis else 1 for d in range(rank)]
    steps = expansion.constant(
        np.arange(update.shape[axis], dtype=np.int64).reshape(spread), "steps"
    )
    positions: Value = steps
    if start is not None:
        by_batch = reshape(expansion, start, (start.shape[0], *(1,) * (rank - 1)))
        positions = binary(expansion, "add", by_batch, steps)
    if mode == "circular":
        positions = binary(
            expansion, "remainder", positions, scalar(expansion, past.shape[axis], positions)
        )
    shape = expansion.constant(np.array(update.shape, np.int64), "shape")
    wide = expansion.emit(EXPAND, positions, shape)
    return expansion.emit(SCATTER_ELEMENTS, past, wide, update, axis=axis)


def _col2im(node: Node, expansion: Expansion) -> Value:
    """Emit overlapping blocks summed: a transposed convolution with one tap per channel."""
    x = node.operand(0)
    image = node.known(1, "the image's shape").reshape(-1).tolist()
    block = node.known(2, "the block's shape").reshape(-1).tolist()
    rank, taps = len(image), prod(block)
    attributes = node.attributes
    strides = tuple(attributes.get("strides") or (1,) * rank)
    dilations = tuple(attributes.get("dilations") or (1,) * rank)
    pads = tuple(attributes.get("pads") or (0,) * (2 * rank))
    if len(block) != rank or x.shape[1] % taps:
        raise BadModel(f"{node}: blocks {block} of images {image} do not fit {x.shape}")
    extents = [(size - 1) * step + 1 for size, step in zip(block, dilations, strict=True)]
    counts = [
        (image[d] + pads[d] + pads[rank + d] - extents[d]) // strides[d] + 1 for d in range(rank)
    ]
    channels = x.shape[1] // taps
    unit = np.eye(taps, dtype=x.dtype).reshape(taps, 1, *block)
    kernel = np.tile(unit, (channels, *(1,) * (rank + 1)))
    return expansion.emit(
        CONVOLUTION_TRANSPOSE,
        reshape(expansion, x, (x.shape[0], x.shape[1], *counts)),
        expansion.constant(kernel, "taps"),
        group=channels,
        strides=strides,
        dilations=dilations,
        pads=pads,
        output_padding=tuple(
            image[d] - ((counts[d] - 1) * strides[d] + extents[d] - pads[d] - pads[rank + d])
            for d in range(rank)
        ),
    )


def _cumulative_product(node: Node, expansion: Expansion) -> Value:
    """Emit products of all elements up to each, in steps that double their reach."""
    x = node.operand(0)
    axis = node.axis(int(node.known(1, "the axis").item()), len(x.shape))
    n = x.shape[axis]
    if node.attributes.get("reverse", 0):
        x = _reversed(expansion, x, axis)
    if node.attributes.get("exclusive", 0):
        x = padded(expansion, along(expansion, x, axis, 0, n - 1), axis, 1, 0, 1)
    reach = 1
    while reach < n:
        earlier = along(expansion, x, axis, 0, n - reach)
        before = padded(expansion, earlier, axis, reach, 0, 1)
        x = binary(expansion, "multiply", x, before)
        reach *= 2
    return _reversed(expansion, x, axis) if node.attributes.get("reverse", 0) else x


def _reversed(expansion: Expansion, x: Value, axis: int) -> Value:
    starts = [size - 1 if d == axis else 0 for d, size in enumerate(x.shape)]
    stops = [-1 if d == axis else size for d, size in enumerate(x.shape)]
    return part(expansion, x, starts, stops, [-1 if d == axis else 1 for d in range(len(x.shape))])


RECORDS = (
    Operator(name="Col2Im", decompose=_col2im, known_operands=(1, 2)),
    Operator(name="CumProd", decompose=_cumulative_product, known_operands=(1,)),
    Operator(name="MaxUnpool", decompose=_max_unpool, known_operands=(2,)),
    Operator(name="TensorScatter", decompose=_tensor_scatter),
)
