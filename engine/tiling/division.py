"""Division of a variable's blocks among several tiles: in whole runs or evenly.

`largest_shares` gives the largest share, `share_out` the shares of all tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import Regions
from tilescope.engine.intervals.runs import group_pieces, union_runs

__all__ = ["LargestShares", "TileShares", "edges_of", "largest_shares", "share_out"]

Counts = NDArray[np.int64]


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


def share_out(regions: Regions, sharers: NDArray[np.int64], whole_runs: bool) -> TileShares:
    """Divide blocks among their tiles in whole innermost rows.

    Parameters
    ----------
    regions
        Blocks that do not overlap.
    sharers : ndarray of int64, shape (n_blocks, n_sharers)
        The tiles of every block.
    whole_runs
        Whether a tile takes the same range of every contiguous run, or whole runs if they are
        short, so that its share is one block; else shares are as even as possible.
    """
    n_sharers = sharers.shape[1]
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
    run = np.repeat(np.arange(start.size), n_grains)
    row = np.arange(run.size)
    in_run = row - (np.cumsum(n_grains) - n_grains)[run]
    grain_start = start[run] + in_run * grain
    owner_block = block[run]

    def shares(part: NDArray[np.int64], of: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the share that indices belong to, in nearly equal parts."""
        return np.asarray(((part + 1) * n_sharers - 1) // of)

    if whole_runs:
        n_runs = np.bincount(block, minlength=len(sharers))
        run_in_block = np.arange(start.size) - (np.cumsum(n_runs) - n_runs)[block]
        by_run = shares(run_in_block, n_runs[block])[run]
        is_long = n_grains[run] >= n_sharers
        share = np.where(is_long, shares(in_run, n_grains[run]), by_run)
    else:
        in_block = np.bincount(block, n_grains, len(sharers)).astype(np.int64)
        before = np.cumsum(in_block) - in_block
        share = shares(row - before[owner_block], in_block[owner_block])
    owner = sharers[owner_block, share]
    order = np.argsort(grain_start, kind="stable")
    grain_start, owner = grain_start[order], owner[order]
    begins = np.append(True, (owner[1:] != owner[:-1]) | (np.diff(grain_start) != grain))
    map_start, map_tile = grain_start[begins], owner[begins]
    lengths = np.diff(np.append(np.flatnonzero(begins), begins.size)) * grain
    by_tile = np.argsort(map_tile, kind="stable")
    tile, begin, lengths = map_tile[by_tile], map_start[by_tile], lengths[by_tile]
    # Evenly spaced chunks of one length form a rectangle, and such rectangles form a block.
    first, rows, row_stride = group_pieces(tile.astype(np.int32), lengths, begin[None])
    tile, begin, lengths = tile[first], begin[first], lengths[first]
    row_kind = _kinds(lengths, row_stride[:, 0])
    kind = _kinds(rows, row_kind)
    first, planes, stride = group_pieces(tile.astype(np.int32), kind, begin[None])
    size = np.stack([planes, rows[first], lengths[first]], axis=1)
    strides = np.stack([stride[:, 0], row_stride[first, 0], np.ones_like(planes)], axis=1)
    return TileShares(map_start, map_tile, tile[first], begin[first], size, strides)


def _kinds(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a number for every pair of indices, the same for equal pairs: less than n_pairs."""
    pair = first * (int(second.max(initial=0)) + 1) + second
    _, kinds = np.unique(pair, return_inverse=True)
    return np.asarray(kinds, np.int64)


def edges_of(size: int, n_parts: int, grain: int = 1) -> Counts:
    """Return the starts of equal parts of whole grains, and the end: ndarray of int64."""
    n_grains = -(-size // grain)
    edges = np.arange(n_parts + 1, dtype=np.int64) * n_grains // n_parts * grain
    return np.minimum(edges, size)
