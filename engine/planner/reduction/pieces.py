"""StageVertices of a reduction: what every vertex of a stage reads, and where its results go.

Results of a stage lie in blocks. A block is a contiguous range of outputs, `width` wide, with
`depth` partial results one after the other. The next stage reduces the depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.intervals.runs import group_pieces
from tilescope.engine.tiling.division import edges_of

__all__ = [
    "Blocks",
    "StageVertices",
    "cut_box",
    "fewest_shared",
    "joined",
    "spread_tiles",
]

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Blocks:
    """Blocks of partial results.

    Parameters
    ----------
    start, width, depth, out : ndarray of int64, shape (n,)
        First element of a block; its outputs; its partial results per output; its first output.
    """

    start: Counts
    width: Counts
    depth: Counts
    out: Counts

    @classmethod
    def packed(cls, width: Counts, depth: Counts, out: Counts) -> Blocks:
        """Return blocks that lie one after the other."""
        ends = np.cumsum(width * depth)
        return cls(ends - width * depth, width, depth, out)

    @property
    def n_elements(self) -> int:
        """Number of partial results."""
        return int((self.width * self.depth).sum())

    @property
    def is_final(self) -> bool:
        """Whether there is one result per output."""
        return bool((self.depth == 1).all())


@dataclass(frozen=True)
class StageVertices:
    """The vertices of a stage.

    Parameters
    ----------
    tile : ndarray of int64, shape (n,)
        Their tiles.
    start : ndarray of int64, shape (n,)
        First element of what they read.
    size : ndarray of int64, shape (n, 4)
        Planes and columns of outputs, outer groups and inner elements that are reduced.
    stride : ndarray of int64, shape (n, 4)
        The strides of these.
    out : ndarray of int64, shape (n,)
        First element of their results.
    plane_stride : ndarray of int64, shape (n,)
        Distance between the planes of results; columns are contiguous.
    sections
        Results per output of a vertex: its workers share what is reduced.
    blocks
        The results.
    block : ndarray of int64, shape (n,)
        Block of every vertex.
    """

    tile: Counts
    start: Counts
    size: Counts
    stride: Counts
    out: Counts
    plane_stride: Counts
    sections: int
    blocks: Blocks
    block: Counts

    @property
    def n_pieces(self) -> int:
        """Number of vertices."""
        return int(self.tile.size)

    @property
    def n_outputs(self) -> Counts:
        """Outputs of every vertex, for a section: ndarray of int64."""
        return np.asarray(self.size[:, 0] * self.size[:, 1])

    @property
    def fewest_shared(self) -> int:
        """Fewest elements that the sections of a vertex may share."""
        return fewest_shared(self.size)

    @property
    def section_stride(self) -> Counts:
        """Distance between the sections of results: ndarray of int64, shape (n,)."""
        return self.blocks.width[self.block]

    def mapping(self) -> tuple[Counts, NDArray[np.int32]]:
        """Return the starts of the results' intervals, ascending, and their tiles.

        Intervals that adjoin on a tile are one.
        """
        section = np.arange(self.sections) * self.section_stride[:, None]
        start = (self.out[:, None] + section).reshape(-1)
        tile = np.repeat(self.tile, self.sections)
        order = np.argsort(start, kind="stable")
        start, tile = start[order], tile[order].astype(np.int32)
        is_new = np.append(True, tile[1:] != tile[:-1])
        return start[is_new], tile[is_new]


def fewest_shared(size: Counts) -> int:
    """Return the fewest elements that sections may share: outer groups, or the elements of one.

    Parameters
    ----------
    size : ndarray of int64, shape (n, n_dims)
        Extents; the last two are outer groups and inner elements.
    """
    return int(np.where(size[:, -2] > 1, size[:, -2], size[:, -1]).min())


def cut_box(sizes: Sequence[int], n_parts: int, grain: int = 1) -> tuple[Counts, Counts]:
    """Cut a box into contiguous parts: whole in the dimensions after the one that is cut.

    Dimensions before the last two are cut into single elements.

    Parameters
    ----------
    sizes
        Extents, outermost first; two or more.
    n_parts
        Number of parts wanted; fewer or more if the dimensions do not allow it.
    grain
        Elements of the last dimension that stay together.

    Returns
    -------
    first, size : ndarray of int64, shape (n, n_dims)
        First index and extent of every part.
    """
    edges: list[Counts] = []
    left = n_parts
    for d, size in enumerate(sizes):
        is_last = d == len(sizes) - 1
        if d < len(sizes) - 2:
            n = size
        elif is_last:
            n = min(max(left, 1), -(-size // grain))
        else:
            n = min(max(left, 1), size)
        edges.append(edges_of(size, n, grain if is_last else 1))
        left = left // n if n == size else 1
    index = np.meshgrid(*(np.arange(e.size - 1) for e in edges), indexing="ij")
    part = [i.reshape(-1) for i in index]
    first = [e[i] for e, i in zip(edges, part, strict=True)]
    size_by_dim = [e[i + 1] - e[i] for e, i in zip(edges, part, strict=True)]
    return np.stack(first, axis=1), np.stack(size_by_dim, axis=1)


def spread_tiles(n_wanted: Counts, ids: Counts, capacity: int) -> Counts:
    """Return a tile for every piece: the wanted one, if it is in the set and not yet full.

    Parameters
    ----------
    n_wanted : ndarray of int64, shape (n,)
        Wanted tiles.
    ids : ndarray of int64
        The tiles to choose from.
    capacity
        Largest number of pieces on a tile; pieces beyond it go to tiles that have room.
    """
    order = np.argsort(n_wanted, kind="stable")
    sorted_tiles = n_wanted[order]
    is_first = np.append(True, sorted_tiles[1:] != sorted_tiles[:-1])
    begin = np.flatnonzero(is_first)
    rank = np.arange(n_wanted.size) - np.repeat(begin, np.diff(np.append(begin, n_wanted.size)))
    stays = np.zeros(n_wanted.size, np.bool_)
    stays[order] = (rank < capacity) & np.isin(sorted_tiles, ids)
    tile = n_wanted.copy()
    used = np.bincount(n_wanted[stays], minlength=int(ids.max()) + 1)[ids]
    spare = np.maximum(capacity - used, 0)
    nth = np.arange(spare.sum()) - np.repeat(np.cumsum(spare) - spare, spare)
    # The emptiest tiles come first.
    order = np.argsort(np.repeat(used, spare) + nth, kind="stable")
    room = np.repeat(ids, spare)[order]
    moved = np.flatnonzero(~stays)
    tile[moved] = room[: moved.size]
    return tile


def joined(vertices: StageVertices) -> StageVertices:
    """Return pieces in which a tile's evenly spaced ones of equal shape are one, in planes.

    A piece's block is then that of its first plane.
    """
    if not (vertices.size[:, 0] == 1).all():
        return vertices
    order = np.lexsort((vertices.start, vertices.tile))
    shapes = np.column_stack([vertices.size, vertices.stride, vertices.section_stride])[order]
    _, key = np.unique(shapes, axis=0, return_inverse=True)
    starts = np.stack([vertices.start[order], vertices.out[order]])
    first, count, spacing = group_pieces(
        vertices.tile[order].astype(np.int32), key.reshape(-1), starts
    )
    first_vertices = order[first]
    size, stride = vertices.size[first_vertices], vertices.stride[first_vertices]
    size[:, 0], stride[:, 0] = count, spacing[:, 0]
    return replace(
        vertices,
        tile=vertices.tile[first_vertices],
        start=vertices.start[first_vertices],
        size=size,
        stride=stride,
        out=vertices.out[first_vertices],
        plane_stride=spacing[:, 1],
        block=vertices.block[first_vertices],
    )
