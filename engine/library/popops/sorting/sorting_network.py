"""The steps of a bitonic network on rows, and which tile compares which elements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.intervals.runs import group_pieces
from tilescope.engine.machine import Machine
from tilescope.engine.machine.exchange_law import bus_time

__all__ = ["NetworkStep", "Runs", "Spread", "choose_run", "network_steps"]

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class NetworkStep:
    """A step on a row: blocks of pairs in sequences.

    Parameters
    ----------
    n
        Elements of the row.
    half
        Number of pairs of a block.
    gap
        Distance between the two halves of a block.
    pitch
        Distance between sequences.
    n_blocks
        Blocks of a sequence, twice `half` apart.
    is_mirrored
        Whether a block's second half is compared in reverse order.
    """

    n: int
    half: int
    gap: int
    pitch: int
    n_blocks: int = 1
    is_mirrored: bool = False

    @property
    def name(self) -> str:
        """Name of its compute set."""
        return f"{'merge' if self.is_mirrored else 'sort'}{self.gap}"

    @property
    def block_span(self) -> int:
        """Elements from the first of a block to its last."""
        return self.gap + self.half

    def pairs(self, n: int) -> tuple[Counts, Counts, Counts]:
        """Return the runs of pairs among the first `n` elements.

        Returns
        -------
        low, high, length : ndarray of int64
            First element of a run, its partner, and the number of pairs. Partners ascend, or
            descend in a mirrored step.
        """
        sequence = np.arange(0, n, self.pitch, dtype=np.int64)
        block = np.arange(self.n_blocks, dtype=np.int64) * 2 * self.half
        low = (sequence[:, None] + block).reshape(-1)
        high = low + self.gap
        length = np.clip(n - high, 0, self.half)  # elements of the second half that exist
        is_pair = length > 0
        low, high, length = low[is_pair], high[is_pair], length[is_pair]
        if self.is_mirrored:
            return low + self.half - length, high + length - 1, length
        return low, high, length

    @property
    def n_pairs(self) -> int:
        """Number of comparisons in a row."""
        n_whole, rest = divmod(self.n, self.pitch)
        whole_blocks = n_whole * self.n_blocks * self.half
        return whole_blocks + (int(self.pairs(rest)[2].sum()) if rest else 0)


def network_steps(n: int, k: int) -> Iterator[NetworkStep]:
    """Yield the steps that bring the first k of n elements to the front, sorted."""
    n_kept = 1 << (k - 1).bit_length()
    half = 1
    while half < min(n_kept, n):
        yield NetworkStep(n, half, half, 2 * half, is_mirrored=True)
        for distance in _halves(half):
            yield NetworkStep(n, distance, distance, 2 * distance)
        half *= 2
    apart = n_kept
    while apart < n:
        # The first of two sequences takes the first half of both; the other one is dropped.
        yield NetworkStep(n, n_kept, apart, 2 * apart, is_mirrored=True)
        for distance in _halves(n_kept):
            yield NetworkStep(n, distance, distance, 2 * apart, n_kept // (2 * distance))
        apart *= 2


def _halves(size: int) -> Iterator[int]:
    while size > 1:
        size //= 2
        yield size


@dataclass(frozen=True)
class Runs:
    """Vertices of a step: blocks of pairs with four dimensions.

    Parameters
    ----------
    tile : ndarray of int32, shape (n,)
        Tiles.
    low, high : ndarray of int64, shape (n,)
        First elements of the pairs.
    sizes, low_strides, high_strides
        By dimension: numbers, or ndarrays of int64 of shape (n,).
    """

    tile: NDArray[np.int32]
    low: Counts
    high: Counts
    sizes: list[Any]
    low_strides: list[Any]
    high_strides: list[Any]


@dataclass(frozen=True)
class Spread:
    """How rows lie on tiles: runs of a power of two of elements, or whole rows.

    Parameters
    ----------
    n_rows, n
        Rows, and elements of a row.
    run
        Elements of a row on a tile; `n` or more for whole rows.
    ids : ndarray of int32
        The tiles.
    """

    n_rows: int
    n: int
    run: int
    ids: NDArray[np.int32]

    @property
    def _runs_of_row(self) -> int:
        return -(-self.n // self.run)

    def mapping(self) -> tuple[Counts, NDArray[np.int32]]:
        """Return starts and tiles of a row-major variable's intervals."""
        row, run = np.indices((self.n_rows, self._runs_of_row)).reshape(2, -1)
        return row * self.n + run * self.run, self._tile(row, run)

    def _tile(self, row: Counts, run: Counts) -> NDArray[np.int32]:
        index = row * self._runs_of_row + run
        n_used = min(self.ids.size, self.n_rows * self._runs_of_row)
        return np.asarray(self.ids[index * n_used // (self.n_rows * self._runs_of_row)])

    def runs(self, step: NetworkStep) -> Iterator[Runs]:
        """Yield the vertices of a step."""
        if step.block_span <= self.run or self._runs_of_row == 1:
            yield from self._local(step)
        else:
            yield self._between_tiles(step)

    def _local(self, step: NetworkStep) -> Iterator[Runs]:
        """Yield vertices whose elements are all on their own tile."""
        if self._runs_of_row == 1:
            tile = self._tile(np.arange(self.n_rows), np.zeros(self.n_rows, np.int64))
            first = np.flatnonzero(np.append(True, tile[1:] != tile[:-1]))
            n_rows = np.diff(np.append(first, self.n_rows))
            yield from self._pattern(step, self.n, tile[first], first * self.n, n_rows)
            return
        row, run = np.indices((self.n_rows, self._runs_of_row)).reshape(2, -1)
        begin = run * self.run
        extent = 2 * step.half * step.n_blocks if step.pitch > self.run else step.pitch
        is_active = begin % step.pitch < extent
        length = np.minimum(self.n - begin, self.run)
        tile, start = self._tile(row, run), row * self.n + begin
        for size in np.unique(length):
            chosen = is_active & (length == size)
            unit_counts = np.ones(int(chosen.sum()), np.int64)
            yield from self._pattern(step, int(size), tile[chosen], start[chosen], unit_counts)

    def _pattern(
        self, step: NetworkStep, size: int, tile: NDArray[np.int32], start: Counts, n_rows: Counts
    ) -> Iterator[Runs]:
        """Yield vertices for equal stretches of `size` elements, `n_rows` rows each."""
        direction = -1 if step.is_mirrored else 1
        last = step.half - 1 if step.is_mirrored else 0
        n_whole, rest = divmod(size, step.pitch)
        if n_whole and tile.size:
            strides = [self.n, step.pitch, 2 * step.half]
            yield Runs(
                tile,
                start,
                start + step.gap + last,
                [n_rows, n_whole, step.n_blocks, step.half],
                [*strides, 1],
                [*strides, direction],
            )
        if not rest or not tile.size:
            return
        low, high, length = step.pairs(rest)
        inside = high < rest  # of a sequence that goes on beyond this tile, what lies on it
        low, high, length = low[inside], high[inside], length[inside]
        if not low.size:
            return
        nowhere = np.zeros(low.size, np.int32)
        first, count, spacing = group_pieces(nowhere, length, np.stack([low, high]))
        for i, number, (low_pitch, high_pitch) in zip(first, count, spacing, strict=True):
            offset = n_whole * step.pitch
            yield Runs(
                tile,
                start + offset + low[i],
                start + offset + high[i],
                [n_rows, 1, int(number), int(length[i])],
                [self.n, 0, int(low_pitch), 1],
                [self.n, 0, int(high_pitch), direction],
            )

    def _between_tiles(self, step: NetworkStep) -> Runs:
        """Return vertices for pairs on two tiles: each of the two takes half of them."""
        low, high, length = step.pairs(self.n)
        direction = -1 if step.is_mirrored else 1
        # Cut the runs where the tile changes: on both sides at the same pairs.
        first_run, last_run = low // self.run, (low + length - 1) // self.run
        count = last_run - first_run + 1
        of = np.repeat(np.arange(low.size), count)
        nth = np.arange(of.size) - np.repeat(np.cumsum(count) - count, count)
        begin = np.maximum(low[of], (first_run[of] + nth) * self.run)
        end = np.minimum(low[of] + length[of], (first_run[of] + nth + 1) * self.run)
        partner = high[of] + direction * (begin - low[of])
        size = end - begin
        own_size = (size + 1) // 2
        low_run, high_run = begin // self.run, partner // self.run
        start = np.concatenate([begin, begin + own_size])
        partners = np.concatenate([partner, partner + direction * own_size])
        n_pairs = np.concatenate([own_size, size - own_size])
        run = np.concatenate([low_run, high_run])
        is_pair = n_pairs > 0
        row = np.arange(self.n_rows)[:, None]
        index = np.broadcast_to(row, (self.n_rows, int(is_pair.sum()))).reshape(-1)
        tile = self._tile(row, run[is_pair][None]).reshape(-1)
        low_start = (row * self.n + start[is_pair]).reshape(-1)
        high_start = (row * self.n + partners[is_pair]).reshape(-1)
        n_pairs = np.tile(n_pairs[is_pair], self.n_rows)
        assert index.size == tile.size
        return Runs(
            tile,
            low_start,
            high_start,
            [1, 1, 1, n_pairs],
            [0, 0, 0, 1],
            [0, 0, 0, direction],
        )


def choose_run(n_rows: int, n: int, k: int, machine: Machine) -> int:
    """Return the elements of a row per tile, a power of two, with the fewest predicted cycles.

    Compute falls with shorter runs, while more steps need an exchange.
    """
    steps = list(network_steps(n, k))
    best, fewest = 1 << max(n - 1, 1).bit_length(), np.inf
    run = best
    phase = 2 * (machine.sync_cycles + machine.latest_start_cycles)
    while run >= 2 and n_rows * -(-n // run) <= max(machine.n_tiles, n_rows):
        rows = -(-n_rows // machine.n_tiles) if run >= n else 1
        pairs = rows * run // 2
        compute = 19 + machine.n_worker_contexts * 57 + 13 * pairs
        n_between = sum(step.block_span > run for step in steps)
        exchange = phase + float(bus_time(2 * pairs * 4, machine))
        cycles = len(steps) * compute + n_between * exchange
        if cycles < fewest:
            best, fewest = run, cycles
        run //= 2
    return best
