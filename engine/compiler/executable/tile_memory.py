"""The memory of every tile as the compiler lays it out: categories, parts, live ranges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.kernels.live import peaks
from tilescope.engine.compiler.kernels.placement import Lifetimes
from tilescope.engine.graph.deferred import Deferred

__all__ = ["LiveBytes", "LiveParts", "Lives", "Memory"]

#: Size of the table of changes by step and tile: 64 MB.
_CELLS_AT_ONCE = 1 << 23
#: Half-open ranges of steps during which something lives, ascending and apart.
Lives = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class LiveParts:
    """Parts of variables on tiles, sorted by tile and first step, with one row for every life.

    Parameters
    ----------
    tile_start : ndarray of int64, shape (n_tiles + 1,)
        First part of each tile.
    variable_id : ndarray of int64
        Variable; message buffers are numbered after the graph's variables.
    n_bytes, offset : ndarray of int64
        Size and address.
    start_step, end_step : ndarray of int64
        Half-open range of steps; always-live parts span all.
    is_first : ndarray of bool
        Whether a row is the first life of its part; the others are at the same address.
    """

    tile_start: NDArray[np.int64]
    variable_id: NDArray[np.int64]
    n_bytes: NDArray[np.int64]
    offset: NDArray[np.int64]
    start_step: NDArray[np.int64]
    end_step: NDArray[np.int64]
    is_first: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        tile_start: NDArray[np.int64],
        variable_id: NDArray[np.int64],
        n_bytes: NDArray[np.int64],
        offset: NDArray[np.int64],
        lifetimes: Lifetimes,
    ) -> LiveParts:
        """Return the lives of placed parts, which are sorted by tile.

        Always-live parts come first on their tile, as among the placed parts.
        """
        n_lives = np.diff(lifetimes.first)[lifetimes.owner]
        part = np.repeat(np.arange(n_lives.size), n_lives)
        number = np.arange(part.size) - np.repeat(np.cumsum(n_lives) - n_lives, n_lives)
        life = lifetimes.first[lifetimes.owner[part]] + number
        start, end, is_first = lifetimes.start[life], lifetimes.end[life], number == 0
        del life, number  # as large as what is returned
        tile = np.repeat(np.arange(tile_start.size - 1), np.diff(tile_start))[part]
        if not is_first.all():
            # Stable, so that parts stay in order; 16-bit integers are sorted by radix.
            is_short = max(tile_start.size, int(start.max())) < 1 << 16
            keys = (start, tile)
            order = np.lexsort([key.astype(np.uint16) for key in keys] if is_short else keys)
            part, start, end = part[order], start[order], end[order]
            is_first, tile = is_first[order], tile[order]
            del order
        first_of_tile = np.searchsorted(tile, np.arange(tile_start.size))
        del tile
        return cls(
            first_of_tile,
            variable_id[part],
            n_bytes[part],
            offset[part],
            start,
            end,
            is_first,
        )

    @property
    def tile(self) -> NDArray[np.int64]:
        """Tile of each part: ndarray of int64."""
        return np.repeat(np.arange(self.tile_start.size - 1), np.diff(self.tile_start))


@dataclass(frozen=True, eq=False)
class LiveBytes:
    """Not-always-live bytes of every tile at every step, without a table of steps by tiles.

    Parameters
    ----------
    parts
        Parts of all variables and message buffers.
    n_bytes : ndarray of int64, shape (n_parts,)
        Sizes of the not-always-live parts, 0 for always-live ones.
    totals : ndarray of int64, shape (n_steps,)
        Sum over all tiles, at every step.
    peak, peak_step : ndarray of int64, shape (n_tiles,)
        Peak over all steps, and the first step at which it occurs.
    """

    parts: LiveParts
    n_bytes: NDArray[np.int64]
    totals: NDArray[np.int64]
    peak: NDArray[np.int64]
    peak_step: NDArray[np.int64]

    @classmethod
    def of(cls, parts: LiveParts, is_always_live: NDArray[np.bool_], n_steps: int) -> LiveBytes:
        """Return the live bytes of parts.

        Parameters
        ----------
        parts
            Parts of all variables and message buffers.
        is_always_live : ndarray of bool, shape (n_variables,)
            Of the graph's variables; message buffers are not always live.
        n_steps
            Number of steps, at least 1.
        """
        in_graph = parts.variable_id < is_always_live.size
        always = np.zeros(in_graph.size, np.bool_)
        always[in_graph] = is_always_live[parts.variable_id[in_graph]]
        n_bytes = np.where(always, 0, parts.n_bytes)
        change = np.zeros(n_steps + 1, np.int64)
        np.add.at(change, np.minimum(parts.start_step, n_steps), n_bytes)
        np.subtract.at(change, np.minimum(parts.end_step, n_steps), n_bytes)
        peak, peak_step = peaks(
            parts.tile_start, n_bytes, parts.start_step, parts.end_step, n_steps
        )
        return cls(parts, n_bytes, np.cumsum(change[:-1]), peak, peak_step)

    def spans(self) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
        """Yield spans of steps with equal live bytes: first, one past the last, bytes by tile.

        The array, of int64 and shape (n_tiles,), is valid until the next span is requested.
        """
        n_steps, n_tiles = self.totals.size, self.peak.size
        tile = self.parts.tile
        start = self.parts.start_step * n_tiles + tile
        end = self.parts.end_step * n_tiles + tile
        live = np.zeros(n_tiles, np.int64)
        span = 0
        steps_at_once = max(_CELLS_AT_ONCE // n_tiles, 1)
        for first in range(0, n_steps, steps_at_once):
            stop = min(first + steps_at_once, n_steps)
            cells = first * n_tiles, stop * n_tiles
            change = _by_cell(start, self.n_bytes, *cells) - _by_cell(end, self.n_bytes, *cells)
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
