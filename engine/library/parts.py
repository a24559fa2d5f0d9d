"""Which tile computes which part of a planned operation, and where its weights lie."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.graph import Tensor
from engine.library.builder import Builder
from engine.planner import Plan
from engine.planner.families import Grouping
from engine.planner.shape import ConvolutionShape
from engine.planner.split import PARTS, part_edges

__all__ = ["Parts", "map_weights"]


#: Dimensions of `PARTS` in the order in which tiles are numbered, the last fastest.
_TILE_ORDER = tuple(
    PARTS.index(d) for d in ("groups", "batch", "rows", "columns", "inputs", "outputs")
)


class Parts:
    """The parts of a plan and their tiles.

    Parts of the outputs take tiles next to each other: they read the same inputs, which both tiles
    of a pair receive at once. Every plan begins at the first tile.
    Source: graphcore/poplibs sdk-release-3.4, lib/poplin: Convolution.cpp, linearizeTileIndices;
    ConvOptions.hpp, enableConvDithering.

    Parameters
    ----------
    plan, shape, grouping
        What is split.
    builder
        Whose tiles are taken.
    """

    def __init__(
        self, plan: Plan, shape: ConvolutionShape, grouping: Grouping, builder: Builder
    ) -> None:
        self.counts = tuple(plan.split[part] for part in PARTS)
        self.plan = plan
        self._pool = builder.graph.compute_tiles[: plan.n_tiles].astype(np.int64)
        groups, in_groups, out_groups = grouping.count(shape)
        self.sizes = (groups, shape.images, shape.height, shape.width, out_groups, in_groups)
        self.edges = [part_edges(*pair) for pair in zip(self.sizes, self.counts, strict=True)]

    def tile(self, *part: Any) -> NDArray[np.int64]:
        """Return the tile of parts given per dimension (ints or ndarrays of int64)."""
        index: Any = 0
        for d in _TILE_ORDER:
            index = index * self.counts[d] + part[d]
        return np.asarray(self._pool[index])

    def all_tiles(self) -> NDArray[np.int64]:
        """Return the tiles in order of their parts: ndarray of int64, shape (n,)."""
        return self._pool

    def ranges(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return part, first unit and units on each tile: ndarrays of int64, shape (6, n)."""
        grids = np.meshgrid(*(np.arange(n) for n in self.counts), indexing="ij")
        part = np.stack([grid.reshape(-1) for grid in grids])
        pairs = list(zip(self.edges, part, strict=True))
        first = np.stack([edges[p] for edges, p in pairs])
        count = np.stack([edges[p + 1] - edges[p] for edges, p in pairs])
        return part, first, count


def map_weights(builder: Builder, weights: Tensor, parts: Parts) -> None:
    """Spread each block of weights over the tiles that use it.

    Parameters
    ----------
    builder
        Whose graph has them.
    weights
        Shape (block, out group, in group, ky, kx, in, out).
    parts
        Who uses them.
    """
    n_groups, n_out, n_in, *rest = weights.shape
    block = prod(rest)
    grain = max(1, 8 // weights.dtype.n_bytes)
    if block // rest[-1] >= prod(parts.counts[1:4]):
        grain = max(grain, rest[-1])  # whole rows of outputs where there are enough for all
    group_edges, _, _, _, out_edges, in_edges = parts.edges
    _, batch_parts, row_parts, column_parts, _, in_parts = parts.counts
    group, out, in_part = (
        grid.reshape(-1, 1)
        for grid in np.meshgrid(np.arange(n_groups), np.arange(n_out), np.arange(in_parts),
                                indexing="ij")
    )  # fmt: skip
    base = ((group * n_out + out) * n_in + in_edges[in_part]) * block
    n_grains = -(-(in_edges[in_part + 1] - in_edges[in_part]) * block // grain)
    n_sharers = batch_parts * row_parts * column_parts
    n_pieces = np.minimum(n_sharers, n_grains)
    piece = np.arange(int(n_pieces.max()))[None]
    start = base + piece * n_grains // n_pieces * grain
    sharer = (piece + out) % n_sharers
    owner = parts.tile(
        np.searchsorted(group_edges, group, side="right") - 1,
        sharer // (row_parts * column_parts),
        sharer // column_parts % row_parts,
        sharer % column_parts,
        np.searchsorted(out_edges, out, side="right") - 1,
        in_part,
    )
    is_there = np.broadcast_to(piece < n_pieces, start.shape)
    builder.graph.set_tile_mapping(weights, start[is_there], owner[is_there])
