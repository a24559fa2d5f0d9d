"""A variable cut into as many parts on every tile as a group has replicas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.elementwise.copy import COPY
from tilescope.engine.graph import DType, Regions, Tensor, Variable
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.library.builder import Builder
from tilescope.engine.program import WriteUndef

__all__ = ["Buffers", "Shards", "copy_back", "forget", "local_shards", "shards_by_rows"]

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Shards:
    """The parts of a variable, each of them spread over the same tiles.

    Parameters
    ----------
    variable
        Holds them.
    n_parts
        Number of parts.
    tile, start, length : ndarray of int64, shape (n_tiles_in_use,)
        The tiles, their first elements, and the elements of a part on each.
    pitch : ndarray of int64, shape (n_tiles_in_use,)
        Distance of the first elements of two parts on each.
    """

    variable: Variable
    n_parts: int
    tile: Ids
    start: Ids
    length: Ids
    pitch: Ids

    @property
    def part_bytes(self) -> int:
        """Bytes of a part."""
        return int(self.length.sum()) * self.variable.dtype.n_bytes

    def columns(self, half: int, n_halves: int) -> Regions:
        """Return, by tile, all parts: blocks of one group, a row per part, and some columns.

        Parameters
        ----------
        half, n_halves
            Which of how many equal groups of columns.
        """
        n_columns = self.length // n_halves
        return blocks(
            self.variable,
            self.start + half * n_columns,
            [1, self.n_parts, n_columns],
            [0, self.pitch, 1],
            self.tile.size,
        )


@dataclass(frozen=True)
class Buffers:
    """A part per lane in which data travel, on the tiles of the parts.

    Parameters
    ----------
    tensor
        Shape (n_lanes, n): by lane, the elements of all tiles.
    length : ndarray of int64, shape (n_tiles_in_use,)
        Elements of a lane on each tile.
    """

    tensor: Tensor
    length: Ids

    @classmethod
    def of(
        cls, builder: Builder, shards: Shards, name: str, n_lanes: int, n_halves: int
    ) -> Buffers:
        """Add a variable for lanes that each hold a part, or an equal share of its columns."""
        length = shards.length // n_halves
        n_elements = int(length.sum())
        tensor = builder.graph.add_variable(
            shards.variable.dtype, (n_lanes, n_elements), name, builder.debug
        )
        start = np.concatenate([_begins(length) + lane * n_elements for lane in range(n_lanes)])
        tensor.variable.set_mapping(start, np.tile(shards.tile, n_lanes).astype(np.int32))
        return cls(tensor, length)

    def lanes(self, end: int) -> Tensor:
        """Return the first lanes."""
        return self.tensor.slice(0, 0, end)

    def rows(self, lane: int) -> Regions:
        """Return, by tile, the part of a lane: blocks of one group, one row, and its columns."""
        _, n_elements = self.tensor.shape
        return blocks(
            self.tensor.variable,
            lane * n_elements + _begins(self.length),
            [1, 1, self.length],
            [0, 0, 1],
            self.length.size,
        )


def _begins(length: Ids) -> Ids:
    """Return where runs of some lengths begin if they follow each other."""
    return np.cumsum(length) - length


@dataclass(frozen=True)
class _Pieces:
    """The intervals of variables by tile: tile, variable, first element, number of elements."""

    tile: Ids
    variable: Ids
    start: Ids
    length: Ids

    @classmethod
    def of(cls, variables: Sequence[Variable]) -> _Pieces:
        for variable in variables:
            variable.check_mapped()
        tile = np.concatenate([variable.map_tile for variable in variables]).astype(np.int64)
        start = np.concatenate([variable.map_start for variable in variables])
        length = np.concatenate([v.map_end - v.map_start for v in variables])
        number = np.repeat(np.arange(len(variables)), [v.map_tile.size for v in variables])
        order = np.argsort(tile, kind="stable")
        return cls(tile[order], number[order], start[order], length[order])

    @cached_property
    def of_tile(self) -> Ids:
        """Place of every piece's tile among the tiles in use."""
        return np.unique(self.tile, return_inverse=True)[1].reshape(-1)


def forget(builder: Builder, tensor: Tensor) -> None:
    """Say that a variable has no contents yet, where what follows writes it part by part."""
    builder.sequence.add(WriteUndef(tensor, debug=builder.debug))


def local_shards(
    builder: Builder, variables: Sequence[Variable], n_parts: int, grain: int
) -> Shards:
    """Cut variables of one type on every tile by itself: no element leaves its tile.

    They are copied into one, unless one variable has parts that are parts in memory.

    Parameters
    ----------
    builder
        Target of the program.
    variables
        The variables, mapped.
    n_parts
        Number of parts.
    grain
        What the elements of a part on a tile are a multiple of; some may be padding.
    """
    pieces, (first, *others) = _Pieces.of(variables), variables
    tile = np.unique(pieces.tile)
    n_elements = np.bincount(pieces.of_tile, pieces.length).astype(np.int64)
    length = -(-n_elements // (n_parts * grain)) * grain
    is_cut = pieces.tile.size == tile.size and (length * n_parts == n_elements).all()
    if is_cut and not others:
        return Shards(first, n_parts, tile, pieces.start, length, length)
    total = n_parts * length
    tensor = builder.graph.add_variable(first.dtype, (int(total.sum()),), "parts", builder.debug)
    start = _begins(total)
    tensor.variable.set_mapping(start, tile.astype(np.int32))
    shards = Shards(tensor.variable, n_parts, tile, start, length, length)
    forget(builder, tensor)  # nothing writes the padding
    _copy(builder, pieces, variables, shards, "cut", is_back=False)
    return shards


def copy_back(builder: Builder, shards: Shards, variables: Sequence[Variable]) -> None:
    """Copy parts of `local_shards` back to where they were cut from, if they were copied."""
    if shards.variable is not variables[0]:
        _copy(builder, _Pieces.of(variables), variables, shards, "join", is_back=True)


def _copy(
    builder: Builder,
    pieces: _Pieces,
    variables: Sequence[Variable],
    shards: Shards,
    name: str,
    *,
    is_back: bool,
) -> None:
    """Copy between the pieces of variables and their parts, on every tile by itself."""
    before = _begins(pieces.length)
    first = np.searchsorted(pieces.of_tile, np.arange(shards.tile.size))
    place = shards.start[pieces.of_tile] + before - before[first][pieces.of_tile]
    compute_set = builder.compute_set(name)
    for number, variable in enumerate(variables):
        is_own = pieces.variable == number
        n = int(is_own.sum())
        whole = blocks(variable, pieces.start[is_own], [pieces.length[is_own]], [1], n)
        cut = blocks(shards.variable, place[is_own], [pieces.length[is_own]], [1], n)
        fields = {"x": cut, "out": whole} if is_back else {"x": whole, "out": cut}
        builder.vertices(compute_set, COPY, pieces.tile[is_own], fields)


def shards_by_rows(
    builder: Builder, dtype: DType, n_parts: int, n_columns: int, grain: int
) -> tuple[Tensor, Shards]:
    """Add a variable of some rows, spread by columns; every row is a part.

    Parameters
    ----------
    builder
        Its graph and tiles.
    dtype
        Element type.
    n_parts, n_columns
        Rows, and the elements of one, a multiple of `grain`.
    grain
        What the columns of a tile are a multiple of.
    """
    tiles, n_grains = builder.tiles.ids.astype(np.int64), n_columns // grain
    n_used = min(tiles.size, n_grains)
    edges = np.arange(n_used + 1, dtype=np.int64) * n_grains // n_used * grain
    rows = builder.graph.add_variable(dtype, (n_parts, n_columns), "rows", builder.debug)
    start = (np.arange(n_parts)[:, None] * n_columns + edges[:-1]).reshape(-1)
    rows.variable.set_mapping(start, np.tile(tiles[:n_used], n_parts).astype(np.int32))
    pitch = np.full(n_used, n_columns, np.int64)
    length = np.diff(edges)
    return rows, Shards(rows.variable, n_parts, tiles[:n_used], edges[:-1], length, pitch)
