"""Division of a variable's blocks among several tiles: in whole runs or evenly.

`largest_shares` gives the largest share, `share_out` the shares of all tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import Regions
from tilescope.engine.intervals.distinct import distinct
from tilescope.engine.intervals.runs import group_pieces, union_runs

__all__ = ["LargestShares", "TileShares", "edges_of", "largest_shares", "share_out"]

Counts = NDArray[np.int64]

#: Pairs of indices up to this number are numbered without sorting: a pair of such a number and of
#: another index is still a number of 64 bits.
_MOST_PAIRS = 1 << 31


@dataclass(frozen=True)
class TileShares:
    """The shares of tiles, as a tile mapping and as blocks for vertices.

    Parameters
    ----------
    map_start, map_tile : ndarray of int64
        Intervals of the variable, ascending.
    tile, start : ndarray of int64, shape (n,)
        Tile and first element of every block.
    size, stride : ndarray of int64, shape (n, 3)
        Extents and strides of a block; the last dimension is contiguous.
    """

    map_start: NDArray[np.int64]
    map_tile: NDArray[np.int64]
    tile: NDArray[np.int64]
    start: NDArray[np.int64]
    size: NDArray[np.int64]
    stride: NDArray[np.int64]


@dataclass(frozen=True)
class LargestShares:
    """The largest share of a block, in grains, for whole runs and for even shares.

    Parameters
    ----------
    rows, columns : ndarray of int64, shape (n,)
        In whole runs: rows of constant stride, and contiguous grains per row.
    even : ndarray of int64, shape (n,)
        Grains of an even share.
    torn : ndarray of int64, shape (n,)
        TileShares of an even share beyond the first, one vertex per piece.
    """

    rows: Counts
    columns: Counts
    even: Counts
    torn: Counts


def largest_shares(n_grains: Counts, run: Counts, sharers: Counts) -> LargestShares:
    """Return the largest shares of blocks.

    Parameters
    ----------
    n_grains, run : ndarray of int64, shape (n,)
        Grains of a block, and grains of a contiguous run.
    sharers : ndarray of int64, shape (n,)
        Tiles that share a block.
    """
    even = -(-n_grains // sharers)
    n_runs = n_grains // run
    is_long = run >= sharers
    rows = np.where(is_long, n_runs, -(-n_runs // sharers))
    columns = np.where(is_long, -(-run // sharers), run)
    # Even shares may have two or three pieces.
    torn = np.where((n_runs == 1) | (rows * columns == even), 0, np.where(even > run, 2, 1))
    return LargestShares(rows, columns, even, torn)


@dataclass(frozen=True)
class _Runs:
    """The contiguous runs of blocks that several tiles share, in the order of blocks and elements.

    Parameters
    ----------
    sharers : ndarray of int64, shape (n_blocks, n_sharers)
        The tiles of every block.
    grain
        Elements of a grain.
    block, start, n_grains : ndarray of int64, shape (n_runs,)
        Block, first element and grains of every run.
    first : ndarray of int64, shape (n_runs,)
        Grains in the runs before.
    """

    sharers: NDArray[np.int64]
    grain: int
    block: Counts
    start: Counts
    n_grains: Counts
    first: Counts

    @classmethod
    def of(cls, regions: Regions, sharers: NDArray[np.int64]) -> _Runs:
        """Return the runs of blocks that do not overlap."""
        block, start, length = union_runs(
            regions.start,
            regions.size,
            regions.stride,
            np.arange(len(sharers), dtype=np.int32),
            0,
            f"Blocks of {regions.variable.name!r}",
        )
        grain = int(regions.size[0, -1])
        n_grains = length // grain
        return cls(sharers, grain, block, start, n_grains, n_grains.cumsum() - n_grains)

    def intervals(self, *, whole_runs: bool) -> tuple[Counts, Counts, Counts]:
        """Return start, owner and length of the intervals of one tile, ascending.

        Parts of n elements, numbered from 0, are divided among s sharers in nearly equal shares:
        element p belongs to share ((p + 1) * s - 1) // n, of which p = share * n // s is the first.
        """
        n_blocks, n_sharers = self.sharers.shape
        numbers = np.arange(n_sharers)
        if n_sharers == 1:
            cuts, run = self.first, np.arange(self.first.size)
            share: Any = 0
        elif whole_runs:
            is_long = self.n_grains >= n_sharers
            inside = numbers * self.n_grains[is_long, None] // n_sharers
            cuts, run = self._cut(self.first[is_long, None] + inside)
            n_runs = np.bincount(self.block, minlength=n_blocks)
            in_block = np.arange(self.block.size) - (n_runs.cumsum() - n_runs)[self.block]
            long = is_long[run]
            part = np.where(long, cuts - self.first[run], in_block[run])
            of = np.where(long, self.n_grains[run], n_runs[self.block[run]])
            share = ((part + 1) * n_sharers - 1) // of
        else:
            in_blocks = np.bincount(self.block, self.n_grains, n_blocks).astype(np.int64)
            before = in_blocks.cumsum() - in_blocks
            cuts, run = self._cut(before[:, None] + numbers * in_blocks[:, None] // n_sharers)
            block = self.block[run]
            share = ((cuts - before[block] + 1) * n_sharers - 1) // in_blocks[block]
        owner = self.sharers[self.block[run], share]
        start = self.start[run] + (cuts - self.first[run]) * self.grain
        length = np.diff(cuts, append=self.n_grains.sum()) * self.grain
        order = start.argsort(kind="stable")
        start, owner, length = start[order], owner[order], length[order]
        # Adjacent intervals on one tile are merged.
        begins = np.ones(start.size, np.bool_)
        begins[1:] = (owner[1:] != owner[:-1]) | (start[:-1] + length[:-1] != start[1:])
        kept = begins.nonzero()[0]
        return start[kept], owner[kept], np.add.reduceat(length, kept)

    def _cut(self, inside: Counts) -> tuple[Counts, Counts]:
        """Return the grains at which runs begin or are cut, ascending, and the run of each."""
        cuts = distinct(np.concatenate([self.first, inside.reshape(-1)]))
        cuts = cuts[: cuts.searchsorted(self.n_grains.sum())]
        return cuts, self.first.searchsorted(cuts, side="right") - 1


def _divided(start: Counts, owner: Counts, length: Counts) -> TileShares:
    """Return the shares of tiles that own intervals."""
    by_tile = owner.argsort(kind="stable")
    tile, begin, lengths = owner[by_tile], start[by_tile], length[by_tile]
    # Evenly spaced chunks of one length form a rectangle, and such rectangles form a block.
    first, rows, row_stride = group_pieces(tile.astype(np.int32), lengths, begin[None])
    tile, begin, lengths = tile[first], begin[first], lengths[first]
    kind = _kinds(rows, _kinds(lengths, row_stride[:, 0]))
    first, planes, stride = group_pieces(tile.astype(np.int32), kind, begin[None])
    size = np.stack([planes, rows[first], lengths[first]], axis=1)
    strides = np.stack([stride[:, 0], row_stride[first, 0], np.ones_like(planes)], axis=1)
    return TileShares(start, owner, tile[first], begin[first], size, strides)


def share_out(
    regions: Regions, sharers: NDArray[np.int64], whole_runs: Sequence[bool]
) -> list[TileShares]:
    """Divide blocks among their tiles in whole innermost rows, in one way or several.

    Parameters
    ----------
    regions
        Blocks that do not overlap.
    sharers : ndarray of int64, shape (n_blocks, n_sharers)
        The tiles of every block.
    whole_runs
        By way: whether a tile takes the same range of every contiguous run, or whole runs if they
        are short, so that its share is one block; else shares are as even as possible.

    Returns
    -------
    list of TileShares
        In the order of the ways; one for all where they are the same.
    """
    runs = _Runs.of(regions, sharers)
    ways: list[tuple[Counts, Counts, Counts]] = []
    for way in whole_runs:
        intervals = runs.intervals(whole_runs=way)
        if not (ways and all(map(np.array_equal, intervals, ways[0]))):
            ways.append(intervals)
    return [_divided(*intervals) for intervals in ways]


def _kinds(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a number for every pair of indices, the same for equal pairs and for no others."""
    n_second = int(second.max(initial=0)) + 1
    pair = first * n_second + second
    if (int(first.max(initial=0)) + 1) * n_second < _MOST_PAIRS:
        return pair
    _, kinds = np.unique(pair, return_inverse=True)
    return np.asarray(kinds, np.int64)


def edges_of(size: int, n_parts: int, grain: int = 1) -> Counts:
    """Return the starts of equal parts of whole grains, and the end: ndarray of int64."""
    n_grains = -(-size // grain)
    edges = np.arange(n_parts + 1, dtype=np.int64) * n_grains // n_parts * grain
    return np.minimum(edges, size)
