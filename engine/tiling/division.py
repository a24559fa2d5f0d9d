"""Division of a variable's blocks among several tiles: in whole runs or evenly.

`largest_shares` gives the largest share, `share_out` the shares of all tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import Regions
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
class _Grains:
    """The grains of blocks that several tiles share, in the order of blocks and elements.

    Parameters
    ----------
    sharers : ndarray of int64, shape (n_blocks, n_sharers)
        The tiles of every block.
    grain
        Elements of a grain.
    block, n_grains : ndarray of int64, shape (n_runs,)
        Block of every contiguous run, and its grains.
    run, in_run, start : ndarray of int64, shape (n,)
        Run of every grain, its number within the run, and its first element.
    """

    sharers: NDArray[np.int64]
    grain: int
    block: Counts
    n_grains: Counts
    run: Counts
    in_run: Counts
    start: Counts

    @classmethod
    def of(cls, regions: Regions, sharers: NDArray[np.int64]) -> _Grains:
        """Return the grains of blocks that do not overlap."""
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
        run = np.arange(start.size).repeat(n_grains)
        in_run = np.arange(run.size) - (n_grains.cumsum() - n_grains)[run]
        return cls(sharers, grain, block, n_grains, run, in_run, start[run] + in_run * grain)

    def owners(self, *, whole_runs: bool) -> Counts:
        """Return the tile of every grain: see `share_out`."""
        n_blocks, n_sharers = self.sharers.shape
        if n_sharers == 1:
            return self.sharers[self.block[self.run], 0]

        def shares(part: Counts, of: Counts) -> Counts:
            """Return the share that indices belong to, in nearly equal parts."""
            return np.asarray(((part + 1) * n_sharers - 1) // of)

        run, block = self.run, self.block
        if whole_runs:
            n_runs = np.bincount(block, minlength=n_blocks)
            run_in_block = np.arange(block.size) - (n_runs.cumsum() - n_runs)[block]
            by_run = shares(run_in_block, n_runs[block])[run]
            n_grains = self.n_grains[run]
            share = np.where(n_grains >= n_sharers, shares(self.in_run, n_grains), by_run)
        else:
            in_block = np.bincount(block, self.n_grains, n_blocks).astype(np.int64)
            before = in_block.cumsum() - in_block
            of = block[run]
            share = shares(np.arange(run.size) - before[of], in_block[of])
        return self.sharers[block[run], share]

    def divided(self, owner: Counts) -> TileShares:
        """Return the shares of tiles that own the grains."""
        order = self.start.argsort(kind="stable")
        start, owner = self.start[order], owner[order]
        begins = np.ones(start.size, np.bool_)
        begins[1:] = (owner[1:] != owner[:-1]) | (start[1:] - start[:-1] != self.grain)
        first = begins.nonzero()[0]
        map_start, map_tile = start[first], owner[first]
        ends = np.empty_like(first)
        ends[:-1], ends[-1] = first[1:], start.size
        by_tile = map_tile.argsort(kind="stable")
        tile, begin = map_tile[by_tile], map_start[by_tile]
        lengths = ((ends - first) * self.grain)[by_tile]
        # Evenly spaced chunks of one length form a rectangle, and such rectangles form a block.
        first, rows, row_stride = group_pieces(tile.astype(np.int32), lengths, begin[None])
        tile, begin, lengths = tile[first], begin[first], lengths[first]
        kind = _kinds(rows, _kinds(lengths, row_stride[:, 0]))
        first, planes, stride = group_pieces(tile.astype(np.int32), kind, begin[None])
        size = np.stack([planes, rows[first], lengths[first]], axis=1)
        strides = np.stack([stride[:, 0], row_stride[first, 0], np.ones_like(planes)], axis=1)
        return TileShares(map_start, map_tile, tile[first], begin[first], size, strides)


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
    grains = _Grains.of(regions, sharers)
    owners: list[Counts] = []
    for way in whole_runs:
        owner = grains.owners(whole_runs=way)
        if not (owners and np.array_equal(owner, owners[0])):
            owners.append(owner)
    return [grains.divided(owner) for owner in owners]


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
