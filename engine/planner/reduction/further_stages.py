"""StageVertices of the stages of a reduction that reduce partial results."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.planner.reduction.pieces import Blocks, StageVertices, spread_tiles

__all__ = ["further_pieces", "last_pieces", "second_pass"]

Counts = NDArray[np.int64]

#: Partial results of a vertex up to which it is worth running where one of them lies.
_SHALLOW = 4


def further_pieces(
    blocks: Blocks, depth: int, columns: int, sections: int, owner: NDArray[np.int32], ids: Counts
) -> StageVertices:
    """Return the pieces of a stage that reduces partial results.

    Parameters
    ----------
    blocks
        The partial results.
    depth
        Most partial results that a vertex reduces.
    columns
        Most outputs of a vertex.
    sections
        Results per output of a vertex.
    owner : ndarray of int32, shape (blocks.n_elements,)
        Tiles of the partial results.
    ids : ndarray of int64
        The tiles to use.
    """
    n_chunks = -(-blocks.width // columns)
    n_rows = -(-blocks.depth // depth)
    chunk_of = np.repeat(np.arange(n_chunks.size), n_chunks)
    chunk = np.arange(chunk_of.size) - np.repeat(np.cumsum(n_chunks) - n_chunks, n_chunks)
    first = chunk * columns
    width = np.minimum(columns, blocks.width[chunk_of] - first)
    blocks_ = Blocks.packed(width, n_rows[chunk_of] * sections, blocks.out[chunk_of] + first)

    of = np.repeat(np.arange(chunk_of.size), n_rows[chunk_of])
    parent, n_parts = chunk_of[of], n_rows[chunk_of[of]]
    part = np.arange(of.size) - np.repeat(
        np.cumsum(n_rows[chunk_of]) - n_rows[chunk_of], n_rows[chunk_of]
    )
    low = part * blocks.depth[parent] // n_parts
    high = (part + 1) * blocks.depth[parent] // n_parts
    start = blocks.start[parent] + low * blocks.width[parent] + first[of]
    # Neighbouring chunks would want the same tile: they take those of further partial results.
    wanted_row = low + chunk[of] % np.maximum(high - low, 1)
    owner_tile = owner[blocks.start[parent] + wanted_row * blocks.width[parent] + first[of]]
    # A deep stage on few tiles gains more from tiles that data reaches early.
    if of.size * 4 < ids.size and depth > _SHALLOW:
        owner_tile = ids[: of.size].astype(np.int32)
    tile = spread_tiles(owner_tile.astype(np.int64), ids, -(-of.size // ids.size))
    unit_counts = np.ones_like(start)
    return StageVertices(
        tile,
        start,
        np.stack([unit_counts, width[of], unit_counts, high - low], axis=1),
        np.stack([0 * unit_counts, unit_counts, 0 * unit_counts, blocks.width[parent]], axis=1),
        blocks_.start[of] + part * sections * width[of],
        0 * unit_counts,
        sections,
        blocks_,
        of,
    )


def last_pieces(blocks: Blocks, per_tile: int, sections: int, ids: Counts) -> StageVertices:
    """Return the pieces of the stage that gives the results: as many outputs on every tile.

    Parameters
    ----------
    blocks
        The partial results.
    per_tile
        Outputs of a tile.
    sections
        Results per output of a vertex.
    ids : ndarray of int64
        The tiles to use, in the order of the outputs.
    """
    first_tile = blocks.out // per_tile
    n_chunks = (blocks.out + blocks.width - 1) // per_tile - first_tile + 1
    of = np.repeat(np.arange(n_chunks.size), n_chunks)
    tile = first_tile[of] + np.arange(of.size) - np.repeat(np.cumsum(n_chunks) - n_chunks, n_chunks)
    out = np.maximum(blocks.out[of], tile * per_tile)
    width = np.minimum(blocks.out[of] + blocks.width[of], (tile + 1) * per_tile) - out
    results = Blocks.packed(width, np.full(of.size, sections), out)
    unit_counts = np.ones_like(of)
    return StageVertices(
        ids[tile],
        blocks.start[of] + out - blocks.out[of],
        np.stack([unit_counts, width, unit_counts, blocks.depth[of]], axis=1),
        np.stack([0 * unit_counts, unit_counts, 0 * unit_counts, blocks.width[of]], axis=1),
        results.start,
        0 * unit_counts,
        sections,
        results,
        np.arange(of.size),
    )


def second_pass(vertices: StageVertices) -> StageVertices:
    """Return the pieces that reduce the sections of a stage, on the same tiles."""
    before, n = vertices.blocks, vertices.sections
    blocks = Blocks.packed(before.width, before.depth // n, before.out)
    width = before.width[vertices.block]
    row = (vertices.out - before.start[vertices.block]) // width
    offset = (vertices.out - before.start[vertices.block]) % width
    unit_counts = np.ones_like(width)
    return StageVertices(
        vertices.tile,
        vertices.out,
        np.stack([unit_counts, vertices.n_outputs, unit_counts, n * unit_counts], axis=1),
        np.stack([0 * unit_counts, unit_counts, 0 * unit_counts, width], axis=1),
        blocks.start[vertices.block] + row // n * width + offset,
        0 * unit_counts,
        1,
        blocks,
        vertices.block,
    )
