"""What the trace view draws: the extent of a trace, and the bars of a window of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.trace.index import Trace, trace_of
from tilescope.analyser.trace.tile_lane import (
    FIRST_TILE_LEVEL,
    MOST_TILES,
    busy_cycles,
    tile_lanes,
)
from tilescope.reports.bars.group import TrackGroup
from tilescope.reports.bars.lane import Bars, SliceLane, join_bars

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "STEPS_LEVEL",
    "VIEWS",
    "Extent",
    "Lane",
    "Lanes",
    "Names",
    "RunExtent",
    "TrackExtent",
    "Window",
    "checked_ipus",
    "checked_range",
    "extent",
    "names",
    "window",
]

#: Returns lanes of a section.
LanesOf = Callable[[TrackGroup], list[SliceLane]]
VIEWS = ("flame", "calls", "flat")
#: Level of the lane of all steps.
STEPS_LEVEL = -2
#: Widest window that is answered, pixels.
MAX_PIXELS = 20_000


@dataclass(frozen=True)
class RunExtent:
    """One run; half-open range in cycles."""

    run_id: int
    name: str
    start_cycle: int
    end_cycle: int


@dataclass(frozen=True)
class TrackExtent:
    """One group of lanes: a track of an IPU, with the entries stored for it."""

    ipu_id: int
    track: int
    n_entries: int


@dataclass(frozen=True)
class Extent:
    """Where a trace begins and ends, and what it is made of; cycles."""

    start_cycle: int
    end_cycle: int
    n_entries: int
    runs: list[RunExtent]
    tracks: list[TrackExtent]


@dataclass(frozen=True)
class Names:
    """Names of slices, as a forest: the last level of each path and its parent, -1 at the top."""

    labels: list[str]
    parents: list[int]


@dataclass(frozen=True)
class Lane:
    """One lane: ``level`` counts from 0 below the bar of runs, which has -1.

    The lane of all steps has ``STEPS_LEVEL``, lanes of tiles the number of the tile plus
    ``FIRST_TILE_LEVEL``.
    """

    ipu_id: int
    track: int
    level: int


@dataclass(frozen=True)
class Window:
    """Bars to draw in a range of cycles.

    Attributes
    ----------
    start_cycle, end_cycle
        The range asked for, half-open.
    n_pixels
        Its width.
    lanes : list of Lane
        Lanes from top to bottom.
    lane : ndarray of int32, shape (n_bars,)
        Index into ``lanes``.
    bars : Bars
        The bars, by lane and time, not cut to the range.
    """

    start_cycle: int
    end_cycle: int
    n_pixels: int
    lanes: list[Lane]
    lane: np.ndarray
    bars: Bars

    @property
    def n_slices(self) -> int:
        """Slices that the bars stand for."""
        return int(self.bars.count.sum())


def extent(report: Report) -> Extent:
    """Return the extent of the trace; from small tables only."""
    trace = trace_of(report)
    tracks = [
        TrackExtent(
            ipu_id,
            track,
            sum(
                row.n_entries for row in trace.tracks if (row.ipu_id, row.track) == (ipu_id, track)
            ),
        )
        for ipu_id, track in trace.keys
    ]
    runs = [RunExtent(r.run_id, r.name, r.start_cycle, r.end_cycle) for r in trace.runs]
    total = sum(row.n_entries for row in tracks)
    return Extent(trace.start_cycle, trace.end_cycle, total, runs, tracks)


def names(report: Report) -> Names:
    """Return the names of all slices; an index is the ``name`` of a bar."""
    return Names(*trace_of(report).names)


def checked_range(trace: Trace, start: int | None, end: int | None) -> tuple[int, int]:
    """Return a range with missing ends filled in.

    Raises
    ------
    BadQuestion
        If it is empty.
    """
    low = trace.start_cycle if start is None else start
    high = max(trace.end_cycle, low + 1) if end is None else end
    if high <= low:
        raise BadQuestion(
            f"the range {low}:{high} is empty; give a start below its end, within"
            f" {trace.start_cycle}:{trace.end_cycle} cycles"
        )
    return low, high


def checked_ipus(trace: Trace, ipus: Sequence[int] | None) -> list[int]:
    """Return the IPUs to look at, all when none are named.

    Raises
    ------
    BadQuestion
        If one has no trace.
    """
    if ipus is None:
        return trace.ipus
    for ipu_id in ipus:
        if ipu_id not in trace.ipus:
            known = f"0 to {trace.ipus[-1]}" if trace.ipus else "none: nothing ran"
            raise BadQuestion(f"IPU {ipu_id} has no trace in this report; there is {known}")
    return sorted(set(ipus))


class Lanes(NamedTuple):
    """Which lanes are shown.

    Parameters
    ----------
    ipus
        IPUs to show, all by default.
    view
        ``flame`` (a lane a level of the names), ``calls`` (the same with the phases of a name as
        one slice) or ``flat`` (one lane).
    collapsed
        IPUs of which only one flat lane is shown, whatever the view.
    tiles
        Tiles with a lane of their own below their IPU's, at most 16; see `tile_lanes`.
    has_steps
        Whether there is one lane of all steps as well.
    """

    ipus: Sequence[int] | None = None
    view: str = "flame"
    collapsed: Sequence[int] = ()
    tiles: Sequence[int] = ()
    has_steps: bool = False


def window(
    report: Report,
    start: int,
    end: int,
    width_px: int,
    chosen: Lanes | None = None,
) -> Window:
    """Return the bars of a range at a level of detail that fits its width.

    Every slice that touches the range is in exactly one bar; a bar that stands for several
    slices, all shorter than a pixel, says how many.

    Parameters
    ----------
    report
        The report.
    start, end
        Half-open range, cycles.
    width_px
        Pixels it is drawn on, 1 to 20,000.
    chosen
        The lanes, all by default.

    Returns
    -------
    Window
        Lanes and bars.

    Raises
    ------
    BadQuestion
        For an empty range, an unknown IPU or view, or a width out of bounds.
    """
    trace = trace_of(report)
    start, end = checked_range(trace, start, end)
    ipus, view, collapsed, tiles, has_steps = Lanes() if chosen is None else chosen
    if not 1 <= width_px <= MAX_PIXELS:
        raise BadQuestion(f"the width must be 1 to {MAX_PIXELS} pixels; {width_px} was given")
    if view not in VIEWS:
        raise BadQuestion(f"unknown view '{view}'; use {', '.join(VIEWS)}")
    ipu_ids = set(checked_ipus(trace, ipus))
    if len(tiles) > MOST_TILES:
        raise BadQuestion(f"at most {MOST_TILES} tiles have lanes; {len(tiles)} were given")
    tile_cycles = {
        tile: busy_cycles(trace, tile) for tile in tiles if tile // trace.tiles_per_ipu in ipu_ids
    }
    place = start, end, width_px
    lanes: list[Lane] = []
    parts: list[Bars] = []
    for ipu_id, track in trace.keys:
        if ipu_id not in ipu_ids:
            continue
        how = "flat" if ipu_id in collapsed else view
        sections = trace.track(ipu_id, track)
        run_lane = trace.run_lanes[ipu_id, track]
        results = [(-1, run_lane.bars(*place, 0, len(run_lane.start)))]
        lanes_of = partial(TrackGroup.lanes, view=how)
        if has_steps:
            (bars,) = sections.bars("flat", partial(TrackGroup.lanes, view="flat"), 1, place)
            results.append((STEPS_LEVEL, bars))
        results += enumerate(sections.bars(how, lanes_of, sections.n_levels(how), place))
        if track == min(other_ipu for ipu, other_ipu in trace.keys if ipu == ipu_id):
            for tile, cycles in tile_cycles.items():
                if tile // trace.tiles_per_ipu == ipu_id:
                    lane_of = partial(tile_lanes, tile_id=tile, busy=cycles)
                    (bars,) = sections.bars(tile, lane_of, 1, place)
                    results.append((FIRST_TILE_LEVEL + tile, bars))
        for level, bars in results:
            lanes.append(Lane(ipu_id, track, level))
            parts.append(bars)
    index = np.repeat(np.arange(len(parts), dtype=np.int32), [len(p.name) for p in parts])
    return Window(start, end, width_px, lanes, index, join_bars(parts))


def lanes_of_level(trace: Trace, place: tuple[int, int, int], view: str) -> LanesOf:
    """Return what returns the lane of a section: of IPU, track and level below the bar of runs.

    Raises
    ------
    BadQuestion
        If the lane does not exist.
    """
    ipu_id, track, level = place
    if (ipu_id, track) not in trace.keys:
        raise BadQuestion(f"IPU {ipu_id} has no track {track} in this report")
    if level >= FIRST_TILE_LEVEL:
        tile_id = level - FIRST_TILE_LEVEL
        return partial(tile_lanes, tile_id=tile_id, busy=busy_cycles(trace, tile_id))
    n_levels = trace.track(ipu_id, track).n_levels(view)
    if not 0 <= level < n_levels:
        raise BadQuestion(
            f"IPU {ipu_id}, track {track} has no level {level}; it has 0 to {n_levels - 1}"
        )
    return lambda group: group.lanes(view)[level : level + 1]
