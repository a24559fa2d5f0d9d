"""The memory of every tile as the compiler lays it out: categories, parts, live ranges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.kernels.live import peaks
from tilescope.engine.compiler.kernels.placement import Lifetimes
from tilescope.engine.graph.deferred import Deferred

__all__ = ["LiveBytes", "LiveParts", "Lives", "Memory", "PartLives", "tile_stretches"]

#: Size of the table of changes by step and tile: 64 MB.
_CELLS_AT_ONCE = 1 << 23
#: Parts that passes over all parts take at once: a few columns of 32 MB.
_PARTS_AT_ONCE = 1 << 21
#: Tiles that they take at once: 16-bit integers are sorted by radix.
_TILES_AT_ONCE = 1 << 16
#: Half-open ranges of steps during which something lives, ascending and apart.
Lives = tuple[tuple[int, int], ...]


class PartLives(NamedTuple):
    """Lives of parts, with one row for every life, sorted by tile and first step.

    Parameters
    ----------
    tile_start : ndarray of int64, shape (n_tiles + 1,)
        First row of each tile.
    variable_id, n_bytes, offset : ndarray of int64, shape (n_rows,)
        Variable, size and address of the part.
    start_step, end_step : ndarray of int64, shape (n_rows,)
        Half-open range of steps.
    """

    tile_start: NDArray[np.int64]
    variable_id: NDArray[np.int64]
    n_bytes: NDArray[np.int64]
    offset: NDArray[np.int64]
    start_step: NDArray[np.int64]
    end_step: NDArray[np.int64]


@dataclass(frozen=True)
class LiveParts:
    """Parts of variables on tiles, sorted by tile: always-live ones first, then by first step.

    Parameters
    ----------
    tile_start : ndarray of int64, shape (n_tiles + 1,)
        First part of each tile.
    owner : ndarray of integers, shape (n_parts,)
        Which of the owners below each part belongs to.
    narrow_bytes, narrow_offset : ndarray of integers, shape (n_parts,)
        Size and address, as `compact` stores them.
    owner_id : ndarray of int64, shape (n_owners,)
        Variables, and message buffers, which are numbered after the graph's variables.
    is_always_live : ndarray of bool, shape (n_owners,)
        Whether an owner is live at every step, in its only life.
    first_life : ndarray of int64, shape (n_owners + 1,)
        First life of each owner; every owner has one at least.
    start_step, end_step : ndarray of int64, shape (n_lives,)
        Half-open ranges of steps, ascending and apart for each owner.
    """

    tile_start: NDArray[np.int64]
    owner: NDArray[Any]
    narrow_bytes: NDArray[Any]
    narrow_offset: NDArray[Any]
    owner_id: NDArray[np.int64]
    is_always_live: NDArray[np.bool_]
    first_life: NDArray[np.int64]
    start_step: NDArray[np.int64]
    end_step: NDArray[np.int64]

    @property
    def n_bytes(self) -> NDArray[np.int64]:
        """Size of each part: ndarray of int64, shape (n_parts,)."""
        return self.narrow_bytes.astype(np.int64)

    @property
    def offset(self) -> NDArray[np.int64]:
        """Address of each part: ndarray of int64, shape (n_parts,)."""
        return self.narrow_offset.astype(np.int64)

    @property
    def variable_id(self) -> NDArray[np.int64]:
        """Variable or message buffer of each part: ndarray of int64, shape (n_parts,)."""
        ids: NDArray[np.int64] = self.owner_id[self.owner]
        return ids

    @property
    def tile(self) -> NDArray[np.int64]:
        """Tile of each part: ndarray of int64, shape (n_parts,)."""
        return np.repeat(np.arange(self.tile_start.size - 1), np.diff(self.tile_start))

    @property
    def lifetimes(self) -> Lifetimes:
        """The lives of the parts."""
        return Lifetimes(self.owner, self.first_life, self.start_step, self.end_step)

    @property
    def changing_bytes(self) -> NDArray[np.int64]:
        """Size of each part that is not always live, else 0: ndarray of int64, shape (n_parts,)."""
        return np.where(self.is_always_live[self.owner], 0, self.n_bytes)

    def stretches(self) -> Iterator[tuple[slice, LiveParts]]:
        """Yield tiles and their parts, some millions at once; their columns are views."""
        for tiles in tile_stretches(self.tile_start):
            first, last = self.tile_start[[tiles.start, tiles.stop]].tolist()
            columns = (self.owner, self.narrow_bytes, self.narrow_offset)
            owner, n_bytes, offset = (column[first:last] for column in columns)
            tile_start = self.tile_start[tiles.start : tiles.stop + 1] - first
            yield (
                tiles,
                replace(
                    self,
                    tile_start=tile_start,
                    owner=owner,
                    narrow_bytes=n_bytes,
                    narrow_offset=offset,
                ),
            )

    def rows(self) -> PartLives:
        """Return the lives of all parts."""
        n_lives = np.diff(self.first_life)[self.owner]
        part = np.repeat(np.arange(n_lives.size), n_lives)
        number = np.arange(part.size) - np.repeat(np.cumsum(n_lives) - n_lives, n_lives)
        life = self.first_life[self.owner[part]] + number
        start, end = self.start_step[life], self.end_step[life]
        del life, number  # as large as what is returned
        tile = self.tile[part]
        if part.size > n_lives.size:
            # Stable, so that parts stay in order; 16-bit integers are sorted by radix.
            is_short = max(self.tile_start.size, int(start.max())) < 1 << 16
            keys = (start, tile)
            order = np.lexsort([key.astype(np.uint16) for key in keys] if is_short else keys)
            part, start, end, tile = part[order], start[order], end[order], tile[order]
        return PartLives(
            np.searchsorted(tile, np.arange(self.tile_start.size)),
            self.variable_id[part],
            self.n_bytes[part],
            self.offset[part],
            start,
            end,
        )


def tile_stretches(tile_start: NDArray[np.int64]) -> Iterator[slice]:
    """Yield ranges of tiles with some millions of parts, at most 65,536 tiles; see `LiveParts`."""
    first, n_tiles = 0, tile_start.size - 1
    while first < n_tiles:
        most = int(np.searchsorted(tile_start, tile_start[first] + _PARTS_AT_ONCE, side="right"))
        last = min(max(most - 1, first + 1), first + _TILES_AT_ONCE, n_tiles)
        yield slice(first, last)
        first = last


@dataclass(frozen=True, eq=False)
class LiveBytes:
    """Not-always-live bytes of every tile at every step, without a table of steps by tiles.

    Parameters
    ----------
    parts
        Parts of all variables and message buffers.
    totals : ndarray of int64, shape (n_steps,)
        Sum over all tiles, at every step.
    peak, peak_step : ndarray of int64, shape (n_tiles,)
        Peak over all steps, and the first step at which it occurs.
    """

    parts: LiveParts
    totals: NDArray[np.int64]
    peak: NDArray[np.int64]
    peak_step: NDArray[np.int64]

    @classmethod
    def of(cls, parts: LiveParts, n_steps: int) -> LiveBytes:
        """Return the live bytes of parts.

        Parameters
        ----------
        parts
            Parts of all variables and message buffers.
        n_steps
            Number of steps, at least 1.
        """
        n_owners, n_tiles = parts.owner_id.size, parts.tile_start.size - 1
        by_owner = np.zeros(n_owners, np.int64)
        peak, peak_step = np.zeros((2, n_tiles), np.int64)
        for tiles, here in parts.stretches():
            n_bytes = here.changing_bytes
            by_owner += np.bincount(here.owner, n_bytes, n_owners).astype(np.int64)
            peak[tiles], peak_step[tiles] = peaks(here.tile_start, n_bytes, here.lifetimes, n_steps)
        by_life = np.repeat(by_owner, np.diff(parts.first_life))
        change = np.zeros(n_steps + 1, np.int64)
        np.add.at(change, np.minimum(parts.start_step, n_steps), by_life)
        np.subtract.at(change, np.minimum(parts.end_step, n_steps), by_life)
        return cls(parts, np.cumsum(change[:-1]), peak, peak_step)

    def spans(self) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
        """Yield spans of steps with equal live bytes: first, one past the last, bytes by tile.

        The array, of int64 and shape (n_tiles,), is valid until the next span is requested.
        """
        n_steps, n_tiles = self.totals.size, self.peak.size
        rows = self.parts.rows()
        tile = np.repeat(np.arange(n_tiles), np.diff(rows.tile_start))
        start = rows.start_step * n_tiles + tile
        end = rows.end_step * n_tiles + tile
        is_always = np.zeros(int(rows.variable_id.max(initial=-1)) + 1, np.bool_)
        is_always[self.parts.owner_id[self.parts.is_always_live]] = True
        n_bytes = np.where(is_always[rows.variable_id], 0, rows.n_bytes)
        del rows, tile
        live = np.zeros(n_tiles, np.int64)
        span = 0
        steps_at_once = max(_CELLS_AT_ONCE // n_tiles, 1)
        for first in range(0, n_steps, steps_at_once):
            stop = min(first + steps_at_once, n_steps)
            cells = first * n_tiles, stop * n_tiles
            change = _by_cell(start, n_bytes, *cells) - _by_cell(end, n_bytes, *cells)
            by_step = change.reshape(-1, n_tiles)
            for step in np.flatnonzero(by_step.any(axis=1)).tolist():
                if first + step > span:
                    yield span, first + step, live
                live += by_step[step].astype(np.int64)
                span = first + step
        yield span, n_steps, live

    def dense(self) -> NDArray[np.int64]:
        """Return all live bytes, for small programs: ndarray of int64, shape (n_steps, n_tiles)."""
        table = np.zeros((self.totals.size, self.peak.size), np.int64)
        for first, stop, live in self.spans():
            table[first:stop] = live
        return table


def _by_cell(
    cell: NDArray[np.int64], n_bytes: NDArray[np.int64], first: int, stop: int
) -> NDArray[np.float64]:
    """Return the sums of bytes in some of the cells: ndarray of float64, shape (stop - first,)."""
    if first:
        here = cell >= first
        cell, n_bytes = cell[here] - first, n_bytes[here]
    n_cells = stop - first
    if cell.max(initial=0) >= n_cells:
        here = cell < n_cells
        cell, n_bytes = cell[here], n_bytes[here]
    return np.bincount(cell, n_bytes, n_cells).astype(np.float64, copy=False)


@dataclass(frozen=True, eq=False)
class Memory(Deferred):
    """Memory of every tile.

    Parameters
    ----------
    categories
        By name: ndarray of int64, shape (3, n_tiles), bytes in the non-interleaved and the
        interleaved region and past the end.
    including_gaps, excluding_gaps, always_live : ndarray of int64, shape (n_tiles,)
        Totals of every tile, bytes.
    live
        Not-always-live bytes at every step.
    parts
        Parts of variables and message buffers on tiles.
    lives
        By variable or message buffer that is not always live: half-open ranges of steps. Between
        two of them, others may lie at its address.
    message_names
        Of message buffers, by number.
    message_senders
        The variable whose elements a message buffer receives, by number.
    code_end : ndarray of int64, shape (n_tiles,)
        One past the last address of code, which must lie in the non-interleaved region.
    unconstrained : ndarray of int64, shape (n_tiles,)
        `including_gaps` if nothing had to be interleaved or kept apart; computed only when a tile
        overflows, otherwise equal to it.
    slow_tiles : dict of (step, batch) to ndarray of int64
        Tiles on which the memory constraints of a batch with a slow path are not met, ascending.
    is_always_live : ndarray of bool, shape (n_variables,)
        Whether each of the graph's variables occupies memory at every step.
    """

    deferred: ClassVar = (
        "categories",
        "live",
        "parts",
        "lives",
        "message_names",
        "message_senders",
        "slow_tiles",
        "is_always_live",
    )

    categories: dict[str, NDArray[np.int64]]
    including_gaps: NDArray[np.int64]
    excluding_gaps: NDArray[np.int64]
    always_live: NDArray[np.int64]
    live: LiveBytes
    parts: LiveParts
    lives: dict[int, Lives]
    message_names: dict[int, str]
    message_senders: dict[int, int]
    code_end: NDArray[np.int64]
    unconstrained: NDArray[np.int64]
    slow_tiles: dict[tuple[int, int], NDArray[np.int64]]
    is_always_live: NDArray[np.bool_]

    @property
    def lifetimes(self) -> dict[int, tuple[int, int]]:
        """First step and one past the last of every variable that is not always live."""
        return {number: (lives[0][0], lives[-1][1]) for number, lives in self.lives.items()}

    @property
    def not_always_live_peak(self) -> NDArray[np.int64]:
        """Peak of not-always-live bytes: ndarray of int64, shape (n_tiles,)."""
        return self.live.peak
