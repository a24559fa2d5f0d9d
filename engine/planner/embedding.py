"""Plans of tables that are looked up and updated: rows, columns and look-ups split over tiles.

The allocator of a table, its look-ups and its updates share one plan. As PopLibs plans embeddings:
little memory comes first, always live memory before temporary memory.
Source: graphcore/poplibs sdk-release-2.0, lib/popops/DynamicSlice.cpp, embedding::plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import lcm

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.machine import Machine
from tilescope.engine.options.catalogue import AVAILABLE_MEMORY_PROPORTION

__all__ = [
    "LEAST_INDICES",
    "EmbeddingPlan",
    "EmbeddingShape",
    "equal_edges",
    "grain_of",
    "plan_table",
    "second_stage",
]

Counts = NDArray[np.int64]

#: Fewest indices on a tile, where there are as many. Source: DynamicSlice.cpp, minIndicesPerTile
LEAST_INDICES = 32
#: Bytes of an index, of a partial sum of an update, and of an instruction; the smallest store.
_INDEX_BYTES = _FLOAT_BYTES = _INSTRUCTION_BYTES = _ATOM_BYTES = 4
#: Weight of memory that is always live, against temporary memory. Source: the goal of the plan
_ALWAYS_LIVE_WEIGHT = 10


@dataclass(frozen=True)
class EmbeddingShape:
    """Sizes of a table and its look-ups.

    Parameters
    ----------
    n_rows, n_columns
        Of the table; a look-up takes a row.
    n_lookups
        Rows looked up at once, or updated.
    item_bytes
        Bytes of an element.
    is_updated
        Whether the table is updated as well.
    """

    n_rows: int
    n_columns: int
    n_lookups: int
    item_bytes: int
    is_updated: bool = True


@dataclass(frozen=True)
class EmbeddingPlan:
    """How a table is split over tiles.

    Tile ``(l × rows + r) × columns + c`` processes part l of the look-ups, r of the rows and c of
    the columns. With several parts of rows, a look-up has a second stage, which chooses between
    them. With several parts of look-ups, the tiles of a part of the table share its storage, and
    an update sums its partial results.

    Parameters
    ----------
    shape
        What the plan is for; an operation may look up any number of rows.
    lookups, rows, columns
        Number of parts.
    grain
        Elements of a row that stay together.
    stored_bytes
        Bytes of table, results and indices on a tile.
    temporary_bytes
        Peak of what comes and goes on a tile, bytes.
    available_memory_proportion
        Largest share of a tile that temporary data may take, 0 to 1.
    """

    shape: EmbeddingShape
    lookups: int
    rows: int
    columns: int
    grain: int
    stored_bytes: int
    temporary_bytes: int
    available_memory_proportion: float = AVAILABLE_MEMORY_PROPORTION

    @property
    def n_tiles(self) -> int:
        """Number of tiles, one per part."""
        return self.lookups * self.rows * self.columns

    @property
    def row_edges(self) -> Counts:
        """Starts of the parts of rows, and the end: ndarray of int64."""
        return equal_edges(self.shape.n_rows, self.rows)

    @property
    def column_edges(self) -> Counts:
        """Starts of the parts of columns, and the end: ndarray of int64."""
        return equal_edges(self.shape.n_columns, self.columns, self.grain)

    def detail(self) -> dict[str, int]:
        """Return what a debug context states."""
        return {"lookups": self.lookups, "rows": self.rows, "columns": self.columns}


def equal_edges(size: int, n_parts: int, grain: int = 1) -> Counts:
    """Return the starts of parts of whole grains, and the end: ndarray of int64.

    All parts but the last are equal, so that there may be fewer than `n_parts`.
    """
    n_grains = -(-size // grain)
    width = -(-n_grains // n_parts) * grain
    return np.append(np.arange(0, size, width, dtype=np.int64), size)


def grain_of(item_bytes: int) -> int:
    """Return the elements of a row that stay together, so that no tile stores part of a word."""
    return lcm(_ATOM_BYTES, item_bytes) // item_bytes


@lru_cache(maxsize=256)
def plan_table(
    shape: EmbeddingShape,
    machine: Machine,
    available_memory_proportion: float = AVAILABLE_MEMORY_PROPORTION,
) -> EmbeddingPlan:
    """Return the split that takes the least memory of those whose temporary data fit a share.

    Parameters
    ----------
    shape
        The table and its look-ups.
    machine
        The tiles.
    available_memory_proportion
        Largest share of a tile for temporary data. If no split fits, the one with least temporary
        data is taken.
    """
    grain = grain_of(shape.item_bytes)
    n_grains = -(-shape.n_columns // grain)
    lookups, rows, columns = _splits(shape, n_grains, machine.n_tiles)
    always, temporary, code = _memory(shape, grain, (lookups, rows, columns), machine.n_tiles)
    goal = _ALWAYS_LIVE_WEIGHT * (always + code) + temporary
    fits = temporary <= available_memory_proportion * machine.bytes_per_tile
    best = int(np.argmin(np.where(fits, goal, np.inf) if fits.any() else temporary))
    return EmbeddingPlan(
        shape,
        int(lookups[best]),
        int(rows[best]),
        int(columns[best]),
        grain,
        int(always[best]),
        int(temporary[best]),
        available_memory_proportion,
    )


def _part_counts(size: int, largest: int) -> Counts:
    """Return the numbers of parts, up to a largest one, that differ in the size of a part."""
    counts = np.arange(1, min(size, largest) + 1, dtype=np.int64)
    return np.unique(-(-size // -(-size // counts)))


def _splits(shape: EmbeddingShape, n_grains: int, n_tiles: int) -> tuple[Counts, Counts, Counts]:
    """Return the parts of look-ups, rows and columns of all splits over the tiles."""
    splits = []
    for columns in _part_counts(n_grains, n_tiles).tolist():
        # Parts of fewer than two rows cost more than they save.
        largest = min(n_tiles // columns, -(-shape.n_rows // 2))
        all_rows = _part_counts(shape.n_rows, largest)
        for rows in all_rows[all_rows <= largest].tolist():
            lookups = _part_counts(shape.n_lookups, n_tiles // (columns * rows))
            splits.append((lookups, np.full_like(lookups, rows), np.full_like(lookups, columns)))
    lookups, rows, columns = (np.concatenate(each) for each in zip(*splits, strict=True))
    fits = lookups * rows * columns <= n_tiles
    return lookups[fits], rows[fits], columns[fits]


def _memory(
    shape: EmbeddingShape, grain: int, split: tuple[Counts, Counts, Counts], n_tiles: int
) -> tuple[Counts, Counts, Counts]:
    """Return by split the bytes on a tile: always live, temporary at their peak, exchange code."""
    lookups, rows, columns = split
    of_lookups, of_rows = (lookups > 1).astype(np.int64), (rows > 1).astype(np.int64)
    n_rows, n_lookups = -(-shape.n_rows // rows), -(-shape.n_lookups // lookups)
    row_grains = -(-shape.n_columns // grain)
    n_grains = -(-row_grains // columns)
    grain_bytes, float_bytes = grain * shape.item_bytes, grain * _FLOAT_BYTES
    n_second = -(-n_lookups // rows)
    n_indices = max(min(shape.n_lookups, LEAST_INDICES), -(-shape.n_lookups // n_tiles))
    table = n_grains * n_rows
    always = -(-table // lookups) * grain_bytes
    always = always + n_second * n_grains * grain_bytes + n_indices * _INDEX_BYTES

    sources = -(-n_lookups // n_indices)
    code = 2 * sources + of_lookups * lookups + of_rows * rows
    first = of_rows * n_lookups * n_grains * grain_bytes
    second = of_rows * rows * n_second * n_grains * grain_bytes
    temporary = np.maximum(
        of_lookups * table * grain_bytes + first + n_lookups * _INDEX_BYTES,
        first + second + n_second * _INDEX_BYTES,
    )
    if shape.is_updated:
        is_cast = int(shape.item_bytes != _FLOAT_BYTES)
        as_float = is_cast * n_second * n_grains * _FLOAT_BYTES
        updates = of_rows * n_lookups * n_grains * float_bytes
        partials = of_lookups * table * float_bytes
        for n_bytes in (
            as_float + updates,
            updates + partials + n_lookups * _INDEX_BYTES,
            2 * partials,
        ):
            temporary = np.maximum(temporary, n_bytes)
        code = code + sources + of_lookups * lookups
    return always, temporary, code * _INSTRUCTION_BYTES


def second_stage(lookups: Counts, n_parts: int) -> tuple[Counts, Counts, Counts]:
    """Return how the tiles of the parts of rows divide the look-ups of their part among them.

    Parameters
    ----------
    lookups : ndarray of int64
        Starts of the parts of look-ups, and the end.
    n_parts
        Parts of rows.

    Returns
    -------
    edges : ndarray of int64, shape (n + 1,)
        Starts of the divisions, and the end.
    of_lookups, of_rows : ndarray of int64, shape (n,)
        Parts of look-ups and of rows whose tiles take them.
    """
    share = -(-(lookups[1] - lookups[0]) // n_parts)
    starts = lookups[:-1, None] + share * np.arange(n_parts)
    of_lookups, of_rows = np.nonzero(starts < lookups[1:, None])
    return np.append(starts[of_lookups, of_rows], lookups[-1]), of_lookups, of_rows
