"""Cost of arranging operands for a grouping: the copies that run before the vertices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.elementwise.copy import block_cycles
from tilescope.engine.graph import Stage
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.machine import Machine
from tilescope.engine.planner.convolution.split import Splits
from tilescope.engine.planner.exchange import exchange_cycles
from tilescope.engine.planner.phase import Phase
from tilescope.engine.tiling import ConvolutionShape, Grouping
from tilescope.engine.tiling.channel_layout import input_layout

__all__ = [
    "are_weights_arranged",
    "arranged_bytes",
    "arrangement_cycles",
    "block_copy_cycles",
    "is_arranged",
]

Counts = NDArray[np.int64]


def is_arranged(shape: ConvolutionShape, grouping: Grouping) -> bool:
    """Whether a grouping needs the images copied: their layout differs, or they are padded."""
    if shape.is_input_constant:
        return False
    is_padded = input_layout(shape, grouping).is_padded
    return is_padded or grouping.groups * grouping.inputs not in shape.runs


def are_weights_arranged(shape: ConvolutionShape, grouping: Grouping) -> bool:
    """Whether a grouping needs computed weights copied: they lie otherwise, or are padded."""
    if shape.weights == "constant":
        return False
    known = (grouping.groups, grouping.inputs, grouping.outputs) in shape.weight_groupings
    return not (grouping.fills(shape) and (known or shape.has_free_weights))


def _elements(shape: ConvolutionShape, grouping: Grouping) -> tuple[int, int, int]:
    """Return the elements of the arranged images with and without padding, and of one block."""
    groups, in_groups, _ = grouping.count(shape)
    pixels = shape.images * shape.in_height * shape.in_width
    inner = grouping.groups * grouping.inputs
    return (
        pixels * groups * in_groups * inner,
        pixels * shape.groups * shape.in_channels,
        inner,
    )


def arranged_bytes(shape: ConvolutionShape, grouping: Grouping, tiles: Counts) -> Counts:
    """Return the bytes of arranged images on a tile: ndarray of int64; 0 if they are read in place.

    Parameters
    ----------
    shape, grouping
        The operation, and its groups of channels.
    tiles : ndarray of int64
        Tiles that hold them.
    """
    if not is_arranged(shape, grouping):
        return np.zeros_like(tiles)
    total, _, inner = _elements(shape, grouping)
    return np.asarray(-(-(total // inner) // tiles) * inner * shape.item_bytes)


def arrangement_cycles(splits: Splits, machine: Machine) -> dict[Phase, Counts]:
    """Return the cycles of the copies, and of the exchanges before them.

    Parameters
    ----------
    splits
        The splits; their tiles hold the arranged operands.
    machine
        The machine.

    Notes
    -----
    Channels are strided in row-major images, so that elements are copied one by one. Every channel
    of a tile's pixels is one fragment of the exchange, or two at the end of a row. A serial part of
    the inputs lies on its share of the tiles, which send all of it; so do weights whose outputs are
    contiguous.
    """
    shape, grouping, tiles = splits.shape, splits.grouping, splits.tiles_used
    nothing = np.zeros_like(tiles)
    by_phase = {}
    if is_arranged(shape, grouping):
        total, real, inner = _elements(shape, grouping)
        pixels = -(-(total // inner) // tiles)
        share = real / total
        moved = np.ceil(pixels * inner * share).astype(np.int64)
        fragments = np.ceil(inner * share * np.where(pixels > 1, 2, 1)).astype(np.int64)
        sent = -(-real * shape.input_parts // machine.n_tiles)
        by_phase[Phase(Stage.PRE_ARRANGE, is_exchange=True)] = exchange_cycles(
            np.maximum(moved, sent) * shape.item_bytes, nothing, tiles, machine, fragments
        )
        by_phase[Phase(Stage.PRE_ARRANGE)] = block_copy_cycles(pixels * inner, shape, machine)
    if are_weights_arranged(shape, grouping):
        groups, in_groups, out_groups = grouping.count(shape)
        block = grouping.groups * grouping.inputs * grouping.outputs
        kernel = shape.kernel[0] * shape.kernel[1]
        weights = -(-groups * in_groups * out_groups * block * kernel // tiles)
        fragments = -(-weights // (grouping.groups * grouping.outputs))
        real = shape.groups * shape.in_channels * shape.out_channels * kernel
        all_parts = real * (shape.input_parts if shape.weights == "rows" else 1)
        sent = -(-all_parts // machine.n_tiles)
        by_phase[Phase(Stage.PRE_ARRANGE_WEIGHTS, is_exchange=True)] = exchange_cycles(
            np.maximum(weights, sent) * shape.item_bytes, nothing, tiles, machine, fragments
        )
        row = grouping.groups * grouping.outputs if shape.weights == "rows" else 1
        by_phase[Phase(Stage.PRE_ARRANGE_WEIGHTS)] = block_copy_cycles(weights, shape, machine, row)
    return by_phase


def block_copy_cycles(
    elements: Counts, shape: ConvolutionShape, machine: Machine, row: int = 1
) -> Counts:
    """Return the cycles to copy elements in contiguous rows; 0 for no elements."""
    return np.where(elements > 0, _block_cycles(elements, shape, machine, row), 0)


def _block_cycles(elements: Counts, shape: ConvolutionShape, machine: Machine, row: int) -> Counts:
    """Return the cycles of a vertex that copies elements in contiguous rows."""
    unit_counts = np.ones_like(elements)
    names = ("x", "out")
    size = dict.fromkeys(
        names, np.stack([unit_counts, -(-elements // row), row * unit_counts], axis=1)
    )
    stride = dict.fromkeys(names, np.full((elements.size, 3), 1 if row > 1 else 2))
    batch = Batch(
        elements.size,
        size,
        stride,
        dict.fromkeys(names, shape.item_bytes),
        dict.fromkeys(names, shape.dtype),
        {},
        np.zeros_like(elements),
    )
    return block_cycles(batch, machine)
