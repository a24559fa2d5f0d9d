"""A lane: slices side by side, and its level of detail for a window of so many pixels."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, fields
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from tilescope.reports.bars.kinds import KINDS

__all__ = [
    "Bars",
    "GrowingBars",
    "Merged",
    "SliceLane",
    "join_bars",
    "merged_bars",
    "rebinned_bars",
]

#: Slices between two stored sums of cycles by kind.
_BLOCK = 32
#: Ranges of up to so many slices on average are added up slice by slice.
_FEW_SLICES = 128


@dataclass(frozen=True)
class Bars:
    """What to draw in one lane, in order of time.

    Attributes
    ----------
    start_cycle, end_cycle : ndarray of int64, shape (n_bars,), cycles
        Half-open range of each bar, not cut to the window.
    name : ndarray of int32, shape (n_bars,)
        Path of a single slice, -1 for a bar that merges several.
    kind : ndarray of uint8, shape (n_bars,)
        Kind of the slice, or the one with the most cycles of a merged bar.
    count : ndarray of int64, shape (n_bars,)
        How many slices the bar stands for.
    share : ndarray of uint8, shape (n_bars, n_kinds)
        Share of every kind in the cycles of the bar's slices, in 255ths.
    cycles : ndarray of float64, shape (n_bars,)
        Cycles of the bar's slices, without what lies between them.
    longest_name : ndarray of int32, shape (n_bars,)
        Path of the longest of the bar's slices, the first of equal ones.
    longest_cycles : ndarray of int64, shape (n_bars,), cycles
        Its length.
    """

    start_cycle: np.ndarray
    end_cycle: np.ndarray
    name: np.ndarray
    kind: np.ndarray
    count: np.ndarray
    share: np.ndarray
    cycles: np.ndarray
    longest_name: np.ndarray
    longest_cycles: np.ndarray

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        """The columns, in the order of the attributes."""
        return _columns_of(self)

    def at(self, index: np.ndarray | slice) -> Bars:
        """Return the bars at some places, or of a mask."""
        return Bars(*(column[index] for column in self.columns))

    def with_room(self, n: int, n_used: int) -> Bars:
        """Return the first bars with room for others, which has any content."""
        columns = [np.empty((n, *column.shape[1:]), column.dtype) for column in self.columns]
        for into, column in zip(columns, self.columns, strict=True):
            into[:n_used] = column[:n_used]
        return Bars(*columns)

    def shifted(self, cycles: np.ndarray) -> Bars:
        """Return the bars once per entry of ``cycles``, each time moved by it."""
        n = len(cycles)
        return Bars(
            (self.start_cycle[None, :] + cycles[:, None]).ravel(),
            (self.end_cycle[None, :] + cycles[:, None]).ravel(),
            np.tile(self.name, n),
            np.tile(self.kind, n),
            np.tile(self.count, n),
            np.tile(self.share, (n, 1)),
            np.tile(self.cycles, n),
            np.tile(self.longest_name, n),
            np.tile(self.longest_cycles, n),
        )

    def within(self, start: float, end: float) -> Bars:
        """Return the bars that touch the range."""
        return self.at((self.end_cycle > start) & (self.start_cycle < end))


#: Returns the columns of bars, in the order of the attributes.
_columns_of = attrgetter(*(column.name for column in fields(Bars)))


def join_bars(parts: list[Bars]) -> Bars:
    """Return the bars of all parts one after the other."""
    if len(parts) == 1:
        return parts[0]
    return Bars(
        *(
            np.concatenate(columns)
            for columns in zip(_NO_BARS.columns, *(part.columns for part in parts), strict=True)
        )
    )


_NO_BARS = Bars(
    np.zeros(0, np.int64),
    np.zeros(0, np.int64),
    np.zeros(0, np.int32),
    np.zeros(0, np.uint8),
    np.zeros(0, np.int64),
    np.zeros((0, len(KINDS)), np.uint8),
    np.zeros(0),
    np.zeros(0, np.int32),
    np.zeros(0, np.int64),
)


class GrowingBars:
    """Bars that are added part by part, in one piece of memory."""

    def __init__(self) -> None:
        self._columns, self._n = join_bars([]), 0

    def add(self, bars: Bars) -> None:
        """Add bars after those so far."""
        stop = self._n + len(bars.name)
        room = len(self._columns.name)
        if stop > room:
            self._columns = self._columns.with_room(max(stop, 2 * room), self._n)
        for into, values in zip(self._columns.columns, bars.columns, strict=True):
            into[self._n : stop] = values
        self._n = stop

    def joined(self) -> Bars:
        """Return the bars."""
        return self._columns.at(slice(0, self._n))


class Merged(NamedTuple):
    """Slices as one: half-open range in cycles, their number, and their cycles by kind.

    ``cycles`` is an ndarray of float64, shape (n_kinds,); ``name`` and ``kind`` are those of the
    first slice, ``longest_name`` and ``longest_cycles`` those of the longest.
    """

    start_cycle: int
    end_cycle: int
    name: int
    kind: int
    n_slices: int
    cycles: np.ndarray
    longest_name: int
    longest_cycles: int


def _first_largest(values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return where the largest value of every range is, the first of equal ones.

    Parameters
    ----------
    values : ndarray, shape (n,)
    first : ndarray of int64, shape (n_ranges,)
        Where the ranges begin, strictly ascending from 0; each goes to the next.

    Returns
    -------
    ndarray of int64, shape (n_ranges,)
        Index into ``values``.
    """
    sizes = np.diff(np.append(first, len(values)))
    is_largest = values == np.repeat(np.maximum.reduceat(values, first), sizes)
    hits = np.flatnonzero(is_largest)
    largest: np.ndarray = hits[np.searchsorted(hits, first)]
    return largest


def merged_bars(parts: list[tuple[Merged, np.ndarray]], start: float, pixel_cycles: float) -> Bars:
    """Return slices that are repeated, as one bar for those that begin in the same pixel.

    Parameters
    ----------
    parts : list of (Merged, ndarray of int64, shape (n_repeats,), cycles)
        Slices as one, and how much later they are each time.
    start
        Where the first pixel begins.
    pixel_cycles
        Cycles of a pixel.
    """
    sizes = [len(shift) for _, shift in parts]
    part = np.repeat(np.arange(len(parts)), sizes)
    shift = np.concatenate([shift for _, shift in parts])
    begin = np.asarray([merged.start_cycle for merged, _ in parts])[part] + shift
    order = np.argsort(begin, kind="stable")
    part, begin = part[order], begin[order]
    end = np.asarray([merged.end_cycle for merged, _ in parts])[part] + shift[order]
    pixel = np.floor((begin - start) / pixel_cycles)
    first = np.flatnonzero(np.diff(pixel, prepend=-np.inf))
    count = np.add.reduceat(np.asarray([merged.n_slices for merged, _ in parts])[part], first)
    cycles = np.add.reduceat(np.stack([merged.cycles for merged, _ in parts])[part], first, axis=0)
    name = np.asarray([merged.name for merged, _ in parts], np.int32)[part[first]]
    kind = np.asarray([merged.kind for merged, _ in parts], np.uint8)[part[first]]
    share = _ONE_KIND[kind]
    several = np.flatnonzero(count > 1)
    kind[several] = np.argmax(cycles[several], axis=1)
    name[several] = -1
    total = cycles.sum(axis=1)
    share[several] = np.rint(255 * cycles[several] / np.maximum(total[several, None], 1))
    last = np.append(first[1:], len(begin)) - 1
    longest = np.asarray([merged.longest_cycles for merged, _ in parts])[part]
    place = _first_largest(longest, first)
    longest_name = np.asarray([merged.longest_name for merged, _ in parts], np.int32)[part]
    return Bars(
        begin[first],
        end[last],
        name,
        kind,
        count.astype(np.int64),
        share,
        total,
        longest_name[place],
        longest[place],
    )


def rebinned_bars(bars: Bars, start: float, end: float, n_pixels: int) -> Bars:
    """Return the bars of a window from those of a finer resolution.

    Parameters
    ----------
    bars
        In order of time, of at most a quarter of a pixel unless they are of one slice or loop.
        Shorter ones that begin in the same pixel become one.
    start, end
        The window, cycles.
    n_pixels
        Its width.
    """
    seen = np.searchsorted(bars.start_cycle, [start, end]).tolist()
    first_seen = seen[0] - (seen[0] > 0 and bars.end_cycle[seen[0] - 1] > start)
    bars = bars.at(slice(first_seen, seen[1]))
    pixel_cycles = (end - start) / n_pixels
    is_wide = bars.end_cycle - bars.start_cycle >= pixel_cycles
    has_wide = bool(is_wide.any())
    narrow = bars.at(~is_wide) if has_wide else bars
    if not len(narrow.name):
        return bars
    pixel = np.floor((narrow.start_cycle - start) / pixel_cycles)
    first = np.flatnonzero(np.diff(pixel, prepend=-np.inf))
    last = np.append(first[1:], len(pixel)) - 1
    merged = narrow.at(first)
    is_several = last > first
    several = np.flatnonzero(is_several)
    cycles = np.add.reduceat(narrow.share * narrow.cycles[:, None], first, axis=0)[several]
    share, kind, name = merged.share.copy(), merged.kind.copy(), merged.name.copy()
    share[several] = np.rint(255 * cycles / np.maximum(cycles.sum(axis=1, keepdims=True), 1))
    kind[several], name[several] = np.argmax(cycles, axis=1), -1
    longest = _first_largest(narrow.longest_cycles, first)
    merged = Bars(
        merged.start_cycle,
        narrow.end_cycle[last],
        name,
        kind,
        np.add.reduceat(narrow.count, first),
        share,
        np.add.reduceat(narrow.cycles, first),
        narrow.longest_name[longest],
        narrow.longest_cycles[longest],
    )
    if not has_wide:
        return merged
    together = join_bars([merged, bars.at(is_wide)])
    return together.at(np.argsort(together.start_cycle, kind="stable"))


#: Shares of a bar of one kind, by kind.
_ONE_KIND = np.eye(len(KINDS), dtype=np.uint8) * np.uint8(255)


@dataclass
class SliceLane:
    """Slices made of consecutive entries that do not overlap, sorted by time.

    Attributes
    ----------
    start, end : ndarray of int64, shape (n_entries,), cycles
        Half-open range of each entry.
    row : ndarray of int32, shape (n_entries,)
        Row of the lookup tables for each entry (its step).
    names : ndarray of int32, shape (n_rows,)
        Path shown for a row in this lane.
    kinds : ndarray of uint8, shape (n_rows,)
        Kind shown for a row in this lane.
    first, last : ndarray of int32, shape (n_slices,), or None
        First and last entry of each slice; None when every entry is a slice.
    """

    start: np.ndarray
    end: np.ndarray
    row: np.ndarray
    names: np.ndarray
    kinds: np.ndarray
    first: np.ndarray | None = None
    last: np.ndarray | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def n_slices(self) -> int:
        """Number of slices."""
        return len(self.start) if self.first is None else len(self.first)

    def slice_start(self, index: np.ndarray | slice) -> np.ndarray:
        """Return where slices start, int64, cycles."""
        starts: np.ndarray = self.start[index if self.first is None else self.first[index]]
        return starts

    def slice_end(self, index: np.ndarray | slice) -> np.ndarray:
        """Return the first cycle after slices, int64, cycles."""
        ends: np.ndarray = self.end[index if self.last is None else self.last[index]]
        return ends

    def slice_row(self, index: np.ndarray | slice) -> np.ndarray:
        """Return the row (step) with which slices begin, int32."""
        rows: np.ndarray = self.row[index if self.first is None else self.first[index]]
        return rows

    def slices_of(self, entries: np.ndarray) -> np.ndarray:
        """Return the first slice that begins at or after each entry, int64."""
        if self.first is None:
            return entries
        # Needles of the same type: numpy would else convert the whole array at every call.
        return np.searchsorted(self.first, entries.astype(self.first.dtype), side="left")

    def at(self, cycle: int, first_entry: int, stop_entry: int) -> int | None:
        """Return the slice that covers a cycle among entries of a range, or None."""
        starts = self.start[first_entry:stop_entry]
        entry = first_entry + int(np.searchsorted(starts, cycle, side="right"))
        index = int(self.slices_of(np.asarray([entry]))[0]) - 1
        if index < 0 or self.slice_end(np.asarray([index]))[0] <= cycle:
            return None
        if self.slice_start(np.asarray([index]))[0] > cycle:
            return None
        return index

    def bars(
        self, start: float, end: float, n_pixels: int, first_entry: int, stop_entry: int
    ) -> Bars:
        """Return at most about two bars a pixel for the entries of a range in a window.

        A slice of a pixel or more is a bar of its own. Shorter ones that begin in the same pixel
        become one bar, which carries their number and the kind with the most cycles.

        Parameters
        ----------
        start, end
            The window, cycles.
        n_pixels
            Its width.
        first_entry, stop_entry
            Half-open range of entries to consider.

        Returns
        -------
        Bars
            In order of time, not cut to the window.
        """
        pixel_cycles = (end - start) / n_pixels
        edges = np.ceil(start + pixel_cycles * np.arange(n_pixels + 1)).astype(np.int64)
        edges[-1] = np.ceil(end)  # the product may be a little more, and take in the next slice
        entries = first_entry + np.searchsorted(self.start[first_entry:stop_entry], edges, "left")
        index = self.slices_of(entries)
        lowest = int(self.slices_of(np.asarray([first_entry]))[0])
        low, high = index[:-1], index[1:]
        busy = np.flatnonzero(high > low)
        low, high = low[busy], high[busy]
        last = high - 1
        duration = self.slice_end(last) - self.slice_start(last)
        is_wide = duration >= pixel_cycles
        merged_stop = np.where(is_wide, last, high)
        has_merged = merged_stop > low
        merged = self._merged(low[has_merged], merged_stop[has_merged])
        single = self._single(last[is_wide])
        parts = [merged, single]
        before = int(index[0]) - 1
        if before >= lowest and self.slice_end(np.asarray([before]))[0] > start:
            parts.append(self._single(np.asarray([before])))
        together = join_bars(parts)
        return together.at(np.argsort(together.start_cycle, kind="stable"))

    def whole(self, first_entry: int, stop_entry: int) -> Bars:
        """Return one bar for all slices of a range of entries; nothing when there is none."""
        low, high = self.slices_of(np.asarray([first_entry, stop_entry]))
        if high <= low:
            return join_bars([])
        return self._merged(np.asarray([low]), np.asarray([high]))

    def merged(self, first_entry: int, stop_entry: int) -> Merged | None:
        """Return all slices of a range of entries as one; None when there is none."""
        bounds = self.slices_of(np.asarray([first_entry, stop_entry]))
        low, high = bounds.tolist()
        if high <= low:
            return None
        cycles, longest = self._totals(bounds[:1], bounds[1:])
        row, longest_row = self.slice_row(np.asarray([low, int(longest[0])])).tolist()
        return Merged(
            int(self.slice_start(bounds[:1])[0]),
            int(self.slice_end(bounds[1:] - 1)[0]),
            int(self.names[row]),
            int(self.kinds[row]),
            high - low,
            cycles[0],
            int(self.names[longest_row]),
            int((self.slice_end(longest) - self.slice_start(longest))[0]),
        )

    def every(self, first_entry: int, stop_entry: int) -> Bars:
        """Return all slices of a range of entries, one bar each."""
        low, high = self.slices_of(np.asarray([first_entry, stop_entry]))
        return self._single(np.arange(low, high))

    def _single(self, index: np.ndarray) -> Bars:
        """Return bars of single slices."""
        row = self.slice_row(index)
        start, end = self.slice_start(index), self.slice_end(index)
        name, cycles = self.names[row], end - start
        return Bars(
            start,
            end,
            name,
            self.kinds[row],
            np.ones(len(index), np.int64),
            _ONE_KIND[self.kinds[row]],
            cycles.astype(np.float64),
            name,
            cycles,
        )

    def _merged(self, low: np.ndarray, high: np.ndarray) -> Bars:
        """Return one bar for each half-open range of slices; ranges are not empty."""
        count = high - low
        row = self.slice_row(low)
        name, kind = self.names[row].copy(), self.kinds[row].copy()
        share = _ONE_KIND[kind]
        start, end = self.slice_start(low), self.slice_end(high - 1)
        longest_name, longest_cycles = name.copy(), end - start
        total = longest_cycles.astype(np.float64)
        several = np.flatnonzero(count > 1)
        if len(several):
            cycles, longest = self._totals(low[several], high[several])
            longest_name[several] = self.names[self.slice_row(longest)]
            longest_cycles[several] = self.slice_end(longest) - self.slice_start(longest)
            kind[several] = np.argmax(cycles, axis=1)
            name[several] = -1
            total[several] = cycles.sum(axis=1)
            share[several] = np.rint(255 * cycles / np.maximum(total[several, None], 1))
        return Bars(
            start,
            end,
            name,
            kind,
            count.astype(np.int64),
            share,
            total,
            longest_name,
            longest_cycles,
        )

    def _totals(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return cycles by kind of half-open ranges of slices, and the longest slice of each.

        Ranges are not empty. Cycles are float64, shape (n, n_kinds); of slices of equal length the
        first is the longest.
        """
        begin, sizes = low[:, None], (high - low)[:, None]
        # Few slices a range are looked at faster than what is stored of blocks.
        has_blocks = int(sizes.sum()) > _FEW_SLICES * len(low)
        first, stop = -(-low // _BLOCK), high // _BLOCK
        if has_blocks:
            # Of every range: slices before its whole blocks, the blocks, slices after them.
            before = np.minimum(first * _BLOCK, high)
            after = np.maximum(stop * _BLOCK, before)
            begin = np.stack([low, first, after], axis=1)
            sizes = np.stack([before - low, (after - before) // _BLOCK, high - after], axis=1)
        n_parts, n_here = sizes.ravel(), sizes.sum(axis=1)
        offset = np.cumsum(n_parts) - n_parts
        slice_ = np.repeat(begin.ravel() - offset, n_parts)
        slice_ += np.arange(len(slice_))
        if has_blocks:
            with self._lock:
                sums, longest_of_blocks = self._blocks
            is_block = np.repeat(np.tile([False, True, False], len(low)), n_parts)
            slice_[is_block] = longest_of_blocks[slice_[is_block]]
        cycles = self.slice_end(slice_) - self.slice_start(slice_)
        longest = slice_[_first_largest(cycles, offset[:: begin.shape[1]])]
        cell = np.repeat(np.arange(len(low)) * len(KINDS), n_here)
        cell += self.kinds[self.slice_row(slice_)]
        if has_blocks:
            cycles[is_block] = 0  # in the sums below
        table = np.bincount(cell, cycles, minlength=len(low) * len(KINDS))
        table = table.reshape(len(low), len(KINDS))
        if has_blocks:
            table += sums[np.maximum(first, stop)] - sums[first]
        return table, longest

    @cached_property
    def _blocks(self) -> tuple[np.ndarray, np.ndarray]:
        """Cycles by kind before each block of slices, and the longest slice of each block.

        float64, shape (n_blocks + 1, n_kinds), and int32, shape (n_blocks,).
        """
        n_blocks = -(-self.n_slices // _BLOCK)
        sums = np.zeros((n_blocks + 1, len(KINDS)))
        longest = np.zeros(n_blocks, np.int32)
        step = _BLOCK * 8192
        for low in range(0, self.n_slices, step):
            here = slice(low, min(low + step, self.n_slices))
            cycles = self.slice_end(here) - self.slice_start(here)
            cell = np.arange(len(cycles)) // _BLOCK * len(KINDS)
            cell += self.kinds[self.slice_row(here)]
            first, n_here = low // _BLOCK, -(-len(cycles) // _BLOCK)
            table = np.bincount(cell, cycles, minlength=n_here * len(KINDS))
            sums[first + 1 : first + 1 + n_here] = table.reshape(n_here, len(KINDS))
            cycles = np.append(cycles, np.full(-len(cycles) % _BLOCK, -1))
            largest = np.argmax(cycles.reshape(n_here, _BLOCK), axis=1)
            longest[first : first + n_here] = low + np.arange(n_here) * _BLOCK + largest
        return np.cumsum(sums, axis=0, out=sums), longest
