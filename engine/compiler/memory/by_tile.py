"""Parts of variables and message buffers in the order in which tiles place them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.compact import compact
from tilescope.engine.compiler.executable.tile_memory import LiveParts, tile_stretches
from tilescope.engine.compiler.memory.placed_parts import PlacedParts

__all__ = ["by_tile"]

Ids = NDArray[np.int64]


def by_tile(
    placed: PlacedParts, is_always_live: NDArray[np.bool_], n_tiles: int, *, is_numbered: bool
) -> tuple[LiveParts, dict[int, Ids]]:
    """Return parts sorted by tile, without addresses, and their numbers by owner if asked for.

    On a tile, always-live parts come first, so that they stay contiguous below the others, then
    those that become live first.

    Parameters
    ----------
    placed
        The parts by owner.
    is_always_live : ndarray of bool, shape (n_variables,)
        Of the graph's variables.
    n_tiles
        Number of tiles.
    is_numbered
        Whether to return the numbers of the parts of every owner, in the order of its tiles.
    """
    owner_id, blocks = placed.owner_id, placed.blocks
    first_life, start, end = placed.lives_by_owner()
    always = np.zeros(owner_id.size, np.bool_)
    in_graph = owner_id < is_always_live.size
    always[in_graph] = is_always_live[owner_id[in_graph]]
    order = np.lexsort((owner_id, start[first_life[:-1]], ~always)).tolist()
    per_tile = np.zeros(n_tiles, np.int64)
    for block in blocks:
        per_tile[block.tile] += 1  # an owner has one part on a tile
    tile_start = np.concatenate([np.zeros(1, np.int64), np.cumsum(per_tile)])
    numbers: list[list[Ids]] = [[] for _ in blocks]
    owners: list[NDArray[Any]] = [np.zeros(0, np.int32)]
    sizes: list[NDArray[Any]] = [np.zeros(0, np.int32)]
    for tiles in tile_stretches(tile_start):
        ranges = [_within(blocks[i].tile, tiles, n_tiles) for i in order]
        counts = [here.stop - here.start for here in ranges]
        if not sum(counts):
            continue
        tile, n_bytes = (
            np.concatenate(
                [getattr(blocks[i], name)[r] for i, r in zip(order, ranges, strict=True)]
            )
            for name in ("tile", "n_bytes")
        )
        # numpy sorts 16-bit integers by radix.
        sorting = np.argsort((tile - tiles.start).astype(np.uint16), kind="stable")
        owners.append(compact(np.repeat(np.array(order, np.int32), counts)[sorting]))
        sizes.append(compact(n_bytes[sorting]))
        if is_numbered:
            number = np.empty(sorting.size, np.int64)
            number[sorting] = np.arange(sorting.size) + tile_start[tiles.start]
            ends = np.cumsum(counts)
            for i, stop, count in zip(order, ends.tolist(), counts, strict=True):
                numbers[i].append(number[stop - count : stop])
    parts = LiveParts(
        tile_start,
        compact(np.concatenate(owners)),
        compact(np.concatenate(sizes)),
        np.zeros(0, np.int32),
        owner_id,
        always,
        first_life,
        start,
        end,
    )
    if not is_numbered:
        return parts, {}
    joined = (np.concatenate([np.zeros(0, np.int64), *columns]) for columns in numbers)
    return parts, dict(zip(owner_id.tolist(), joined, strict=True))


def _within(tile: NDArray[Any], tiles: slice, n_tiles: int) -> slice:
    """Return where the tiles of a block lie in a range of tiles."""
    if tiles.start == 0 and tiles.stop == n_tiles:
        return slice(0, tile.size)
    low, high = np.searchsorted(tile, [tiles.start, tiles.stop]).tolist()
    return slice(low, high)
