"""One track of one IPU in sections: where it is looked at closely it is read, else drawn from bars.

The entries of a short trace are one section, and stay in memory. A long one is read a section at a
time: few sections are kept, and of the whole track the bars of one fine resolution.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tilescope.reports.bars.coarse import BIN_ENTRIES, LONG_TRACE_ENTRIES, SECTION_ENTRIES
from tilescope.reports.bars.group import TrackGroup
from tilescope.reports.bars.lane import Bars, GrowingBars, SliceLane, join_bars, rebinned_bars

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilescope.analyser.time.execution import TrackRow
    from tilescope.analyser.trace.drawing import Drawing, Drawings
    from tilescope.reports.bars.paths import PathTable
    from tilescope.reports.bars.timeline import Piece, Timeline

__all__ = ["GroupCache", "Limits", "Section", "TrackSections", "joined_ranges"]

_Lanes = Callable[[TrackGroup], Sequence[SliceLane]]


@dataclass(frozen=True)
class Limits:
    """How much of a trace is in memory at a time.

    Attributes
    ----------
    trace_entries
        A trace with more entries, over all tracks, is read a section at a time.
    section_entries
        Most entries of a section, unless a single run has more.
    kept_entries
        Most entries of the sections that are kept, over all tracks; one is always kept.
    bins
        Bars that the extent of a trace is divided into at the fine resolution, over all tracks.
    least_bins
        The same on one track, however many there are.
    """

    trace_entries: int = LONG_TRACE_ENTRIES
    section_entries: int = SECTION_ENTRIES
    kept_entries: int = 1 << 19
    bins: int = 1 << 16
    least_bins: int = 1 << 13


#: Views whose bars are stored.
_STORED_VIEWS = ("flat", "flame")
#: Bins of a pixel from which on a window is drawn from bars of the fine resolution.
_BINS_OF_PIXEL = 2


class Source(Protocol):
    """What sections are read from."""

    @property
    def paths(self) -> PathTable:
        """Paths of the step names."""

    @property
    def step_kinds(self) -> NDArray[np.uint8]:
        """Kind number of each step."""

    def timeline(self, rows: Sequence[TrackRow]) -> Timeline:
        """Return the executions of some runs on one track."""

    def column(self, name: str, ranges: Sequence[tuple[int, int]]) -> NDArray[np.integer]:
        """Return the values of a column of the trace over some ranges of rows."""

    def drawn(self, drawings: Sequence[tuple[Drawing, int]], resolution: int) -> list[Bars]:
        """Return stored bars by level, of all executions and of the names."""


@dataclass(frozen=True)
class Section:
    """Consecutive runs on one track, in order of time; half-open range in cycles."""

    rows: tuple[TrackRow, ...]
    #: Stored bars of these runs.
    drawing: Drawing | None = None

    @property
    def shift_cycles(self) -> int:
        """How much later the runs are than their bars are stored."""
        return next((row.shift_cycles for row in self.rows if row.n_entries), 0)

    @property
    def start_cycle(self) -> int:
        """First cycle."""
        return self.rows[0].start_cycle

    @property
    def end_cycle(self) -> int:
        """First cycle after the last run."""
        return self.rows[-1].end_cycle

    @property
    def n_entries(self) -> int:
        """Number of different entries."""
        return sum(stop - first for first, stop in {row.place for row in self.rows})


@dataclass
class GroupCache:
    """Groups of sections, the last ones used; all stay where there is no limit."""

    most_entries: float
    _groups: OrderedDict[tuple[int, int, int], TrackGroup] = field(default_factory=OrderedDict)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def get(self, key: tuple[int, int, int], build: Callable[[], TrackGroup]) -> TrackGroup:
        """Return the group of IPU, track and section, building it if it is not kept."""
        with self._lock:
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = build()
            self._groups.move_to_end(key)
            n_entries = sum(len(kept.timeline.step) for kept in self._groups.values())
            while n_entries > self.most_entries and len(self._groups) > 1:
                n_entries -= len(self._groups.popitem(last=False)[1].timeline.step)
            return group

    def known(self, key: tuple[int, int, int]) -> TrackGroup | None:
        """Return a group if it is kept."""
        with self._lock:
            return self._groups.get(key)


class TrackSections:
    """A track of an IPU.

    Parameters
    ----------
    source
        What the sections are read from.
    key
        IPU and track.
    rows
        The runs on it, at least one.
    cache
        Keeps groups of sections.
    limits
        How much is in memory at a time; None for all of it.
    bin_cycles
        Length of a bar of the fine resolution.
    drawings
        Stored bars; None for none.
    """

    def __init__(
        self,
        source: Source,
        key: tuple[int, int],
        rows: Collection[TrackRow],
        cache: GroupCache,
        limits: Limits | None,
        bin_cycles: float,
        drawings: Drawings | None = None,
    ) -> None:
        self._source, self.key, self._cache = source, key, cache
        self._is_long, self._bin_cycles = limits is not None, bin_cycles
        ordered = sorted(rows, key=lambda row: row.start_cycle)
        most_entries = math.inf if limits is None else limits.section_entries
        self.sections = _cut(ordered, most_entries, drawings)
        self._starts = [section.start_cycle for section in self.sections]
        self._ends = [section.end_cycle for section in self.sections]
        self._overviews: dict[object, list[Bars]] = {}
        #: Bars of single sections at the fine resolution, and stored bars of a range of sections.
        self._section_bars: dict[tuple[object, int], list[Bars]] = {}
        self._drawn: dict[int, tuple[int, int, list[Bars]]] = {}
        #: Cycles of a bin of stored bars, by resolution and section; infinite for none.
        self._bins = np.full((len(BIN_ENTRIES), len(self.sections)), math.inf)
        for number, section in enumerate(self.sections):
            if section.drawing is not None:
                n_cycles = max(section.end_cycle - section.start_cycle, 1)
                self._bins[:, number] = [n_cycles / r.n_bins for r in section.drawing.resolutions]
        self._lock = threading.Lock()

    def group(self, index: int) -> TrackGroup:
        """Return the group of a section, reading it if it is not kept."""
        return self._cache.get((*self.key, index), lambda: self._read(index))

    def _passing(self, index: int) -> TrackGroup:
        """Return the group of a section of a long trace that is looked at once: it is not kept."""
        if not self._is_long:
            return self.group(index)
        return self._cache.known((*self.key, index)) or self._read(index)

    def _read(self, index: int) -> TrackGroup:
        """Read a section."""
        source = self._source
        timeline = source.timeline(self.sections[index].rows)
        return TrackGroup(*self.key, timeline, source.paths, source.step_kinds)

    def between(self, low: int, high: int) -> Iterator[TrackGroup]:
        """Return the groups of sections that have cycles in a half-open range, in order of time."""
        first = int(np.searchsorted(self._ends, low, side="right"))
        stop = int(np.searchsorted(self._starts, high, side="left"))
        return map(self.group, range(first, stop))

    def after(self, cycle: int) -> Iterator[TrackGroup]:
        """Return the groups of sections that end at or after a cycle, in order of time."""
        return map(self.group, range(self.first_after(cycle), len(self.sections)))

    def first_after(self, cycle: int) -> int:
        """Return the first section that ends at or after a cycle; their number if none does."""
        return int(np.searchsorted(self._ends, cycle, side="left"))

    def pieces(self) -> Iterator[tuple[Timeline, Piece]]:
        """Return all pieces in order of time, and the timelines that they are of."""
        for index in range(len(self.sections)):
            timeline = self._passing(index).timeline
            for piece in timeline.pieces:
                yield timeline, piece

    def n_levels(self, view: str) -> int:
        """Return the number of lanes of a view."""
        if not self._is_long:
            return len(self.group(0).lanes(view))
        return 1 if view == "flat" else self._n_levels

    @cached_property
    def _n_levels(self) -> int:
        """Most levels of the names of steps that ran."""
        if np.isfinite(self._bins).all():
            return len(self._stored(0, len(self.sections), len(BIN_ENTRIES) - 1)) - 1
        depth, most = self._source.paths.depth, -1
        for section in self.sections:
            step = self._source.column("trace.step_id", _ranges(section))
            most = max(most, int(depth[step].max(initial=-1)))
        return most + 1

    def counts(self, is_counted: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return how often some steps ran in every section.

        Parameters
        ----------
        is_counted : ndarray of bool, shape (n_steps,)
            The steps.

        Returns
        -------
        ndarray of int64, shape (n_sections,)
        """
        answer = np.zeros(len(self.sections), np.int64)
        for number, section in enumerate(self.sections):
            places = sorted({row.place for row in section.rows})
            ranges = _ranges(section)
            step, count = (
                self._source.column(f"trace.{name}", ranges) for name in ("step_id", "count")
            )
            below = np.append(0, np.cumsum(np.where(is_counted[step], count, 0), dtype=np.int64))
            ends = np.cumsum([stop - first for first, stop in places])
            n_of_place = dict(zip(places, np.diff(below[ends], prepend=0).tolist(), strict=True))
            answer[number] = sum(n_of_place[row.place] for row in section.rows)
        return answer

    def bars(
        self, name: object, lanes_of: _Lanes, n_levels: int, window: tuple[int, int, int]
    ) -> list[Bars]:
        """Return the bars of some lanes in a window; see ``SliceLane.bars``.

        Parameters
        ----------
        name
            Names the lanes: their bars of the fine resolution are kept.
        lanes_of
            Returns the lanes of a section.
        n_levels
            Their number; a section may have fewer.
        window
            Start and end in cycles, and width in pixels.
        """
        start, end, n_pixels = window
        if not self._is_long:
            group = self.group(0)
            return [group.bars(lane, *window) for lane in lanes_of(group)]
        if name in _STORED_VIEWS and np.isfinite(self._bins).any():
            return self._from_stored(str(name), lanes_of, n_levels, window)
        if end - start >= _BINS_OF_PIXEL * self._bin_cycles * n_pixels:
            return [
                rebinned_bars(bars, *window) for bars in self._overview(name, lanes_of, n_levels)
            ]
        return self._joined(self.between(start, end), lanes_of, n_levels, lambda _: window)

    def _from_stored(
        self, view: str, lanes_of: _Lanes, n_levels: int, window: tuple[int, int, int]
    ) -> list[Bars]:
        """Return the bars of a view in a window, of entries only where stored ones are too long."""
        start, end, n_pixels = window
        first = int(np.searchsorted(self._ends, start, side="right"))
        stop = max(first, int(np.searchsorted(self._starts, end, side="left")))
        longest = (end - start) / n_pixels / _BINS_OF_PIXEL
        bins = self._bins[:, first:stop]
        fits = (bins <= longest) | np.isinf(bins)
        resolution = max((r for r in range(len(bins)) if fits[r].all()), default=0)
        is_stored = bins[resolution] <= longest
        drawn = (first + np.flatnonzero(~is_stored)).tolist()
        levels: list[list[Bars]] = [[] for _ in range(n_levels)]
        if is_stored.any():
            stored = self._stored(first, stop, resolution)
            for level, bars in zip(
                levels, stored[:1] if view == "flat" else stored[1:], strict=False
            ):
                # Without sections that are drawn from their entries.
                keep = np.ones(len(bars.name), np.bool_)
                for index in drawn:
                    low, high = np.searchsorted(
                        bars.start_cycle, [self._starts[index], self._ends[index]]
                    )
                    keep[low:high] = False
                level.append(rebinned_bars(bars if keep.all() else bars.at(keep), *window))
        for index in drawn:
            for level, bars in zip(
                levels, self._of_entries(view, lanes_of, index, window), strict=False
            ):
                level.append(bars)
        joined = [join_bars(parts) for parts in levels]
        if is_stored.all():
            return joined
        return [bars.at(np.argsort(bars.start_cycle, kind="stable")) for bars in joined]

    def _stored(self, first: int, stop: int, resolution: int) -> list[Bars]:
        """Return the stored bars of at least some sections, by level; the last ones are kept."""
        with self._lock:
            low, high, levels = self._drawn.get(resolution, (0, 0, []))
            if not low <= first <= stop <= high or low == high:
                margin = (stop - first) // 2
                low, high = max(0, first - margin), min(len(self.sections), stop + margin)
                drawings = [
                    (section.drawing, section.shift_cycles)
                    for section in self.sections[low:high]
                    if section.drawing is not None
                ]
                levels = self._source.drawn(drawings, resolution)
                self._drawn[resolution] = low, high, levels
            return levels

    def _of_entries(
        self, view: str, lanes_of: _Lanes, index: int, window: tuple[int, int, int]
    ) -> list[Bars]:
        """Return the bars of a section in a window, from its entries; those of a wide one stay."""
        start, end, n_pixels = window
        if end - start < _BINS_OF_PIXEL * self._bin_cycles * n_pixels:
            group = self.group(index)
            return [group.bars(lane, *window) for lane in lanes_of(group)]
        with self._lock:
            bars = self._section_bars.get((view, index))
            if bars is None:
                group = self._passing(index)
                bars = [group.bars(lane, *self._fine(index)) for lane in lanes_of(group)]
                self._section_bars[view, index] = bars
        return [rebinned_bars(level, *window) for level in bars]

    def _overview(self, name: object, lanes_of: _Lanes, n_levels: int) -> list[Bars]:
        """Return the bars of the fine resolution of some lanes, over the whole track."""
        with self._lock:
            if name not in self._overviews:
                groups = map(self._passing, range(len(self.sections)))
                self._overviews[name] = self._joined(groups, lanes_of, n_levels, self._fine)
            return self._overviews[name]

    def _fine(self, index: int) -> tuple[int, int, int]:
        """Return the window of a section at the fine resolution."""
        start, end = self._starts[index], max(self._ends[index], self._starts[index] + 1)
        return start, end, max(1, math.ceil((end - start) / self._bin_cycles))

    @staticmethod
    def _joined(
        groups: Iterator[TrackGroup],
        lanes_of: _Lanes,
        n_levels: int,
        window_of: Callable[[int], tuple[int, int, int]],
    ) -> list[Bars]:
        """Return the bars of lanes over several sections, by level."""
        levels = [GrowingBars() for _ in range(n_levels)]
        for index, group in enumerate(groups):
            for bars, lane in zip(levels, lanes_of(group), strict=False):
                bars.add(group.bars(lane, *window_of(index)))
        return [bars.joined() for bars in levels]


def _cut(rows: Sequence[TrackRow], most_entries: float, drawings: Drawings | None) -> list[Section]:
    """Return consecutive runs: those of stored bars, others of so many different entries at most.

    A single run may have more.
    """
    sections: list[Section] = []
    here: list[TrackRow] = []
    places: set[tuple[int, int]] = set()
    n_entries = number = 0
    while number < len(rows):
        row = rows[number]
        following = None if drawings is None else drawings.following(rows, number)
        if following is not None:
            drawing, after = following
            if here:
                sections.append(Section(tuple(here)))
                here, places, n_entries = [], set(), 0
            sections.append(Section(tuple(rows[number:after]), drawing))
            number = after
            continue
        number += 1
        added = 0 if row.place in places else row.n_entries
        if here and n_entries + added > most_entries:
            sections.append(Section(tuple(here)))
            here, places, n_entries, added = [], set(), 0, row.n_entries
        here.append(row)
        places.add(row.place)
        n_entries += added
    return [*sections, Section(tuple(here))] if here or not sections else sections


def joined_ranges(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges with neighbours that touch made one, so that chunks are decoded once."""
    joined: list[tuple[int, int]] = []
    for first, stop in ranges:
        if joined and joined[-1][1] == first:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((first, stop))
    return joined


def _ranges(section: Section) -> list[tuple[int, int]]:
    """Return the ranges of entries of a section."""
    return joined_ranges(sorted({row.place for row in section.rows}))
