"""The tiles of the parts of a planned operation, and the mapping of its weights."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import Tensor
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.operations import vector_elements
from tilescope.engine.planner.plan import Plan
from tilescope.engine.tiling import (
    SUMMED,
    TILE_ORDER,
    ConvolutionShape,
    Dimension,
    Grouping,
    PerDimension,
    unit_counts,
)
from tilescope.engine.tiling.input_range import part_edges
from tilescope.engine.tiling.weight_block import block_units, n_sharers, n_shares, shares_whole_rows

__all__ = ["Placement", "map_weights"]

Counts = NDArray[np.int64]

#: Dimensions of blocks of weights: groups, out and in channels, rows and columns of the kernel.
_N_DIMENSIONS = 5


class Placement:
    """The parts of a plan and their tiles.

    Every plan begins at the first tile of the builder's tiles; parts take tiles in `TILE_ORDER`.
    Source: graphcore/poplibs sdk-release-3.4, lib/poplin: Convolution.cpp, linearizeTileIndices;
    ConvOptions.hpp, enableConvDithering.

    Parameters
    ----------
    plan, shape, grouping
        The plan, the operation and its groups of channels.
    builder
        Provides the tiles.

    Attributes
    ----------
    counts
        Part counts by dimension.
    edges
        Starts of the parts along a dimension, and the end, in units: ndarrays of int64.
    """

    def __init__(
        self, plan: Plan, shape: ConvolutionShape, grouping: Grouping, builder: Builder
    ) -> None:
        self.counts = PerDimension(*(plan.split[d.label] for d in Dimension))
        self.plan = plan
        self._tiles = builder.tiles.ids[: plan.n_tiles].astype(np.int64)
        units = unit_counts(shape, grouping)
        self.edges = PerDimension(
            *(part_edges(size, count) for size, count in zip(units, self.counts, strict=True))
        )

    def tile(self, part: PerDimension[Any]) -> Counts:
        """Return the tiles of parts given per dimension (ints or ndarrays of int64)."""
        index: Any = 0
        for d in TILE_ORDER:
            index = index * self.counts[d] + part[d]
        return np.asarray(self._tiles[index])

    def partial(self, part: PerDimension[Counts]) -> Counts:
        """Return the partial sum index of every part: ndarray of int64, shape (n,)."""
        index = np.zeros_like(part.inputs)
        for d in SUMMED:
            index = index * self.counts[d] + part[d]
        return np.asarray(index)

    def all_tiles(self) -> Counts:
        """Return the tiles in order of their parts: ndarray of int64, shape (n,)."""
        return self._tiles

    def ranges(self) -> tuple[PerDimension[Counts], PerDimension[Counts], PerDimension[Counts]]:
        """Return part, first unit and number of units per tile: ndarrays of int64, shape (n,).

        The vertices' order is that of `Dimension`, the last dimension fastest.
        """
        grids = np.meshgrid(*(np.arange(n) for n in self.counts), indexing="ij")
        part = PerDimension(*(grid.reshape(-1) for grid in grids))
        pairs = list(zip(self.edges, part, strict=True))
        first = PerDimension(*(edges[p] for edges, p in pairs))
        count = PerDimension(*(edges[p + 1] - edges[p] for edges, p in pairs))
        return part, first, count


@dataclass(frozen=True)
class _Along:
    """Weights along a dimension in steps: single units, or whole parts.

    Parameters
    ----------
    first, size, part : ndarray of int64, shape (n,)
        First unit of a step, its number of units, and its part.
    within : ndarray of int64, shape (n,)
        Earlier steps of the same part.
    """

    first: Counts
    size: Counts
    part: Counts
    within: Counts

    @classmethod
    def of(cls, edges: Counts, *, by_unit: bool) -> _Along:
        """Return the steps of parts with the given edges."""
        first = np.arange(edges[-1]) if by_unit else edges[:-1]
        part = np.searchsorted(edges, first, side="right") - 1
        size = np.ones_like(first) if by_unit else np.diff(edges)
        return cls(first, size, part, first - edges[part])


def map_weights(
    builder: Builder, weights: Tensor, placement: Placement, grouping: Grouping
) -> None:
    """Spread every block of weights over the tiles that use it.

    Blocks are those of `tilescope.engine.tiling.weight_block`.

    Parameters
    ----------
    builder
        Builder of the weights' graph.
    weights
        Shape (block, out group, in group, ky, kx, in, out).
    placement, grouping
        The tiles that use the weights, and the contiguous channels.
    """
    *sizes, n_in, row = weights.shape
    counts, edges = placement.counts, placement.edges
    is_unit = block_units(counts)
    has_parts = bool(is_unit.input_groups)
    steps = [
        _Along.of(edges.groups, by_unit=True),
        _Along.of(edges.outputs, by_unit=True),
        _Along.of(edges.inputs, by_unit=has_parts),
        _Along.of(edges.kernel_rows, by_unit=bool(is_unit.kernel_rows)),
        _Along.of(edges.kernel_columns, by_unit=False),
    ]
    pitch = [prod(sizes[d + 1 :]) * n_in * row for d in range(len(sizes))]
    # Blocks lie along one axis per dimension, and their pieces along the last one.
    base = sum(_along(d, step.first * pitch[d]) for d, step in enumerate(steps))
    n_elements = n_in * row * prod(_along(d, step.size) for d, step in enumerate(steps))

    grain = vector_elements(builder.tiles.machine, weights.dtype)
    sharers = int(n_sharers(counts))
    largest_parts = PerDimension(*(int(np.diff(edge).max()) for edge in edges))
    if shares_whole_rows(counts, largest_parts, grouping):
        grain = max(grain, row)
    n_grains = -(-n_elements // grain)
    item_bytes, is_constant = weights.dtype.n_bytes, weights.variable.category == "constant"
    n_pieces = n_shares(
        n_elements * item_bytes, grain * item_bytes, sharers, is_constant=is_constant
    )
    piece_index = np.arange(int(n_pieces.max()))
    start = base + piece_index * n_grains // n_pieces * grain
    # Few shares are spread over all sharers, as other weights are beside them.
    spread = piece_index * sharers // n_pieces if is_constant else piece_index
    # A block starts at the tile after the previous block's end, which spreads short blocks.
    out = _along(1, np.arange(steps[1].first.size))
    before = _along(2, steps[2].within * sizes[3]) + _along(3, steps[3].within)
    sharer = (spread + out + before * n_pieces * has_parts) % sharers
    group, out_part, *summed = (_along(d, step.part) for d, step in enumerate(steps))
    field = counts.rows * counts.columns
    owner = placement.tile(
        PerDimension(
            group,
            sharer // field,
            sharer // counts.columns % counts.rows,
            sharer % counts.columns,
            out_part,
            *summed,
        )
    )
    is_there = np.broadcast_to(piece_index < n_pieces, start.shape)
    owner = np.broadcast_to(owner, start.shape)
    builder.graph.set_tile_mapping(weights, start[is_there], owner[is_there])


def _along(d: int, values: Counts) -> Counts:
    """Return what belongs to the steps along a dimension of weights, to combine with others."""
    shape = [1] * (_N_DIMENSIONS + 1)
    shape[d] = values.size
    return values.reshape(shape)
