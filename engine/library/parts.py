"""Which tile computes which part of a planned operation, and where its weights lie."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import Tensor
from tilescope.engine.library.builder import Builder
from tilescope.engine.planner import Plan
from tilescope.engine.planner.families import Grouping
from tilescope.engine.planner.shape import ConvolutionShape
from tilescope.engine.planner.split import PARTS, SUMMED, part_edges

__all__ = ["Parts", "map_weights"]

Counts = NDArray[np.int64]


#: Dimensions of `PARTS` in the order in which tiles are numbered, the last fastest.
_TILE_ORDER = tuple(
    PARTS.index(d) for d in ("groups", "batch", "rows", "columns", *SUMMED, "outputs")
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
        self.sizes = (
            groups, shape.images, shape.height, shape.width, out_groups, in_groups, *shape.kernel
        )  # fmt: skip
        self.edges = [part_edges(*pair) for pair in zip(self.sizes, self.counts, strict=True)]

    def tile(self, *part: Any) -> NDArray[np.int64]:
        """Return the tile of parts given per dimension (ints or ndarrays of int64)."""
        index: Any = 0
        for d in _TILE_ORDER:
            index = index * self.counts[d] + part[d]
        return np.asarray(self._pool[index])

    def partial(self, part: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which partial sum parts give, by their places: ndarrays of int64, (8, n), (n,)."""
        index = np.zeros_like(part[0])
        for d in map(PARTS.index, SUMMED):
            index = index * self.counts[d] + part[d]
        return np.asarray(index)

    def all_tiles(self) -> NDArray[np.int64]:
        """Return the tiles in order of their parts: ndarray of int64, shape (n,)."""
        return self._pool

    def ranges(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return part, first unit and units on each tile: ndarrays of int64, shape (8, n)."""
        grids = np.meshgrid(*(np.arange(n) for n in self.counts), indexing="ij")
        part = np.stack([grid.reshape(-1) for grid in grids])
        pairs = list(zip(self.edges, part, strict=True))
        first = np.stack([edges[p] for edges, p in pairs])
        count = np.stack([edges[p + 1] - edges[p] for edges, p in pairs])
        return part, first, count


@dataclass(frozen=True)
class _Along:
    """Weights along a dimension in steps: single units, or the parts they are split into.

    Parameters
    ----------
    first, size, part : ndarray of int64, shape (n,)
        First unit of a step, its units, and the part that it belongs to.
    within : ndarray of int64, shape (n,)
        How many steps of the same part are before it.
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


def map_weights(builder: Builder, weights: Tensor, parts: Parts) -> None:
    """Spread each block of weights over the tiles that use it.

    A block is what lies together for one part: all its inputs where the kernel is whole, the rows
    of one group of inputs where its rows are split, part of one row where its columns are.

    Parameters
    ----------
    builder
        Whose graph has them.
    weights
        Shape (block, out group, in group, ky, kx, in, out).
    parts
        Who uses them.
    """
    *sizes, n_in, row = weights.shape
    edges = [parts.edges[PARTS.index(d)] for d in ("groups", "outputs", *SUMMED)]
    has_columns = len(edges[4]) > 2
    has_parts = has_columns or len(edges[3]) > 2
    by_unit = (True, True, has_parts, has_columns, False)
    steps = [_Along.of(own, by_unit=each) for own, each in zip(edges, by_unit, strict=True)]
    grids = np.meshgrid(*(np.arange(each.first.size) for each in steps), indexing="ij")
    at = [(each, grid.reshape(-1, 1)) for each, grid in zip(steps, grids, strict=True)]
    pitch = [prod(sizes[d + 1 :]) * n_in * row for d in range(len(sizes))]
    base = sum(each.first[i] * step for (each, i), step in zip(at, pitch, strict=True))
    n_elements = n_in * row * prod(each.size[i] for each, i in at)

    grain = max(1, 8 // weights.dtype.n_bytes)
    _, batch_parts, row_parts, column_parts, *_ = parts.counts
    n_sharers = batch_parts * row_parts * column_parts
    if int(steps[3].size.max() * steps[4].size.max()) * n_in >= n_sharers:
        grain = max(grain, row)  # whole rows of outputs where there are enough for all
    n_grains = -(-n_elements // grain)
    n_pieces = np.minimum(n_sharers, n_grains)
    piece = np.arange(int(n_pieces.max()))[None]
    start = base + piece * n_grains // n_pieces * grain
    # Blocks go on where the one before them ended, so that short ones do not meet on some tiles.
    out, before = at[1][1], at[2][0].within[at[2][1]] * sizes[3] + at[3][0].within[at[3][1]]
    sharer = (piece + out + before * n_pieces * has_parts) % n_sharers
    group, out_part, *summed = (each.part[i] for each, i in at)
    owner = parts.tile(
        group,
        sharer // (row_parts * column_parts),
        sharer // column_parts % row_parts,
        sharer % column_parts,
        out_part,
        *summed,
    )
    is_there = np.broadcast_to(piece < n_pieces, start.shape)
    builder.graph.set_tile_mapping(weights, start[is_there], owner[is_there])
