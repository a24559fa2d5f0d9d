"""Bytes over an axis of tiles or steps, at a level of detail: what the charts draw of a range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.detail import keep_extremes
from tilescope.analyser.errors import BadQuestion
from tilescope.reports.schema.vocabulary import PURPOSES

if TYPE_CHECKING:
    from tilescope.analyser.memory.liveness import Curve
    from tilescope.analyser.memory.purposes import Purposes
    from tilescope.analyser.memory.tile_memory import TileMemory

__all__ = ["ChartRange", "ChartSeries", "Matches", "shown_together", "step_series", "tile_series"]


@dataclass(frozen=True)
class ChartRange:
    """A half-open range of an axis of whole places, and the columns to draw it in.

    Raises
    ------
    BadQuestion
        When the range is empty, or there is no column.
    """

    start: int
    end: int
    n_columns: int

    def __post_init__(self) -> None:
        """Refuse a range that shows nothing."""
        if self.end <= self.start or self.n_columns < 1:
            raise BadQuestion(
                f"expected a range and a number of columns above 0,"
                f" got {self.start:,} to {self.end:,} in {self.n_columns:,}"
            )


@dataclass(frozen=True)
class Matches:
    """Places of an axis that a search finds: the highest of every column, of ``n_found`` in all.

    Attributes
    ----------
    place, item, bytes : ndarray of int64, shape (n_shown,)
        As in `ChartSeries`; ``bytes`` is the height of the stack.
    """

    n_found: int
    place: NDArray[np.int64]
    item: NDArray[np.int64]
    bytes: NDArray[np.int64]


@dataclass(frozen=True)
class ChartSeries:
    """Series of one report at the places that a chart shows of a range.

    Attributes
    ----------
    place : ndarray of int64, shape (n_shown,)
        Ascending places on the axis: of every column those with the lowest and highest stack.
    item : ndarray of int64, shape (n_shown,)
        The tile or step at each place.
    series
        Label to ndarray of int64, shape (n_shown,), bytes; stacked in this order.
    total_bytes : ndarray of int64, shape (n_shown,)
        What all series together mean; less than the stack where categories share addresses.
    highest_bytes
        Of the stack over the whole axis.
    capacity_bytes
    beside_bytes
        What lives beside the series and is not drawn: the series may reach the capacity less this.
    n_items
        Tiles or steps in the range, shown or not.
    matches
        What a search finds in the range; None without a search.
    """

    place: NDArray[np.int64]
    item: NDArray[np.int64]
    series: dict[str, NDArray[np.int64]]
    total_bytes: NDArray[np.int64]
    highest_bytes: int
    capacity_bytes: int
    beside_bytes: int
    n_items: int
    matches: Matches | None = None


def shown_together(
    sides: Sequence[Callable[[NDArray[np.int64]], ChartSeries]],
) -> list[ChartSeries]:
    """Return the series of several reports, which show the places of one another as well.

    Parameters
    ----------
    sides
        Functions that return a report's series for the parameter ``also`` of `tile_series`.
    """
    none = np.zeros(0, dtype=np.int64)
    charts = [side(none) for side in sides]
    if len(charts) < 2:
        return charts
    every = np.unique(np.concatenate([series.place for series in charts]))
    return [side(every) for side in sides]


def tile_series(
    memory: TileMemory,
    chart_range: ChartRange,
    order: NDArray[np.int64] | None = None,
    also: NDArray[np.int64] | None = None,
) -> ChartSeries:
    """Return the memory of tiles; series that are 0 on all tiles are left out of several.

    Parameters
    ----------
    memory
        The memory of every tile.
    chart_range
        Range of tiles, by place in the order.
    order : ndarray of int64, shape (n_tiles,), or None
        The tiles in order of their places; by number by default.
    also : ndarray of int64, or None
        Ascending places of the range that are shown in any case.
    """
    height = memory.stacked_bytes
    item = np.arange(len(height), dtype=np.int64) if order is None else order
    kept_rows = _kept(height[item], np.arange(len(item), dtype=np.int64), chart_range, also)
    picked = item[kept_rows]
    many = len(memory.series) > 1
    series = {
        label: values[picked] for label, values in memory.series.items() if not many or values.any()
    }
    return ChartSeries(
        kept_rows,
        picked,
        series,
        memory.total_bytes[picked],
        int(height.max(initial=0)),
        memory.capacity_bytes,
        0,
        max(0, min(chart_range.end, len(item)) - max(chart_range.start, 0)),
    )


def step_series(
    live: Curve,
    chart_range: ChartRange,
    *,
    includes_always_live: bool = False,
    text: str = "",
    purposes: Purposes | None = None,
    positions: NDArray[np.int64] | None = None,
    also: NDArray[np.int64] | None = None,
) -> ChartSeries:
    """Return the live memory of steps, without or with what is always live.

    Parameters
    ----------
    live
        Live memory at each step.
    chart_range
        Range of steps, by place.
    includes_always_live
        Whether live memory is stacked on what is always live.
    text
        Steps whose name or kind contains it are matches; empty for no search.
    purposes
        The same memory by what it is needed for, as which it is stacked; None for one series.
    positions : ndarray of int64, shape (n_steps,), or None
        Ascending place of every step, such as those of `LivenessPairs`; its number by default.
    also : ndarray of int64, or None
        Ascending places of the range that are shown in any case, if a step is there.
    """
    values = live.not_always_live_bytes
    base = live.always_live_bytes if includes_always_live else 0
    where = live.step_id if positions is None else positions
    step = _kept(values, where, chart_range, also)
    series = {"Not always live": values[step]}
    if purposes is not None:
        series = _by_purpose(purposes, step, includes_always_live)
    elif includes_always_live:
        series = {"Always live": np.full(len(step), base, dtype=np.int64), **series}
    low, high = np.searchsorted(where, [chart_range.start, chart_range.end]).tolist()
    matches = None
    if text.strip():
        matches = _matches(live.matching(text), values, base, where, chart_range)
    return ChartSeries(
        where[step],
        step,
        series,
        values[step] + base,
        base + int(values.max(initial=0)),
        live.capacity_bytes,
        live.always_live_bytes - base,
        high - low,
        matches,
    )


def _by_purpose(
    purposes: Purposes, step: NDArray[np.int64], includes_always_live: bool
) -> dict[str, NDArray[np.int64]]:
    """Return the series of those purposes that take anything, by label."""
    always = purposes.always_bytes if includes_always_live else np.zeros_like(purposes.always_bytes)
    return {
        item.label: live[step] + base
        for item, live, base in zip(PURPOSES.values(), purposes.live_bytes, always, strict=True)
        if base or live.any()
    }


def _kept(
    height: NDArray[np.int64],
    positions: NDArray[np.int64],
    chart_range: ChartRange,
    also: NDArray[np.int64] | None,
) -> NDArray[np.int64]:
    """Return the positions to show of values at ascending places."""
    low, high = np.searchsorted(positions, [chart_range.start, chart_range.end]).tolist()
    extremes: NDArray[np.int64] = (
        keep_extremes(height[low:high], max(1, chart_range.n_columns // 2)) + low
    )
    if also is not None and len(also):
        extremes = np.union1d(extremes, np.flatnonzero(np.isin(positions[low:high], also)) + low)
    return extremes


def _matches(
    rows: NDArray[np.int64],
    values: NDArray[np.int64],
    base: int,
    where: NDArray[np.int64],
    chart_range: ChartRange,
) -> Matches:
    """Return the matching steps of a range, one a column."""
    positions = where[rows]
    is_inside = (positions >= chart_range.start) & (positions < chart_range.end)
    inner, positions = rows[is_inside], positions[is_inside]
    n_places = min(chart_range.end, int(where[-1]) + 1 if len(where) else 0) - chart_range.start
    column = (positions - chart_range.start) * chart_range.n_columns // max(1, n_places)
    # The highest of a column comes first; the first of equals is kept.
    order = np.lexsort((positions, -values[inner], column))
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = np.diff(column[order]) != 0
    chosen = np.sort(order[is_first])
    step = inner[chosen]
    return Matches(len(rows), where[step], step, values[step] + base)
