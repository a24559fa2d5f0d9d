"""Bars of coarse resolutions: what the writer stores of a long trace, and readers draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilescope.reports.bars.group import TrackGroup
from tilescope.reports.bars.kinds import KINDS
from tilescope.reports.bars.lane import Bars, join_bars, rebinned_bars
from tilescope.reports.bars.timeline import build_timeline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilescope.reports.bars.paths import PathTable

__all__ = [
    "BIN_ENTRIES",
    "FLAT",
    "LONG_TRACE_ENTRIES",
    "MOST_ENTRIES",
    "SECTION_ENTRIES",
    "BarColumns",
    "Entries",
    "StepLooks",
    "bars_of_columns",
    "coarse_bars",
    "columns_of_bars",
]

#: A trace with more entries, over all tracks, is read a section at a time.
LONG_TRACE_ENTRIES = 1 << 20
#: Entries of the runs of a section, unless a single run has more.
SECTION_ENTRIES = 1 << 16
#: No bars are made of runs with more entries.
MOST_ENTRIES = 1 << 22
#: Entries of a bin on average, by resolution, the finer first.
BIN_ENTRIES = (256, 4_096)
#: Level of executions side by side; those of names follow.
FLAT = 0


@dataclass(frozen=True)
class StepLooks:
    """Name and kind of every step.

    Attributes
    ----------
    paths
        Paths of the names.
    kinds : ndarray of uint8, shape (n_steps,)
        Number of the kind of slice.
    """

    paths: PathTable
    kinds: NDArray[np.uint8]


class Entries(NamedTuple):
    """Entries of a run on one track: ndarrays of shape (n_entries,), as the trace has them."""

    step: NDArray[np.int32]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    period: NDArray[np.int64]
    n_rounds: NDArray[np.int32]


def coarse_bars(runs: Sequence[Entries], looks: StepLooks) -> list[tuple[int, list[Bars]]]:
    """Return the bars of consecutive runs on one track at the resolutions of `BIN_ENTRIES`.

    A slice of a bin or more is a bar of its own; shorter ones that begin in the same bin are one.

    Parameters
    ----------
    runs
        At least one, each with entries.
    looks
        Names and kinds of the steps.

    Returns
    -------
    list of (int, list of Bars)
        For every resolution, the number of bins and the bars by level: those of all executions,
        then those of every level of the names. Their names are steps: of a bar, that of its
        longest slice.
    """
    columns = Entries(*map(np.concatenate, zip(*runs, strict=True)))
    sizes = [len(run.step) for run in runs]
    run_starts = np.cumsum([0, *sizes[:-1]]).astype(np.int64)
    timeline = build_timeline(
        columns.start, columns.end, columns.step, run_starts, columns.period, columns.n_rounds
    )
    group = TrackGroup(0, 0, timeline, looks.paths, looks.kinds)
    start, end = int(columns.start[0]), int(timeline.piece_ends.max())
    end = max(end, start + 1)
    steps = np.arange(len(looks.kinds), dtype=np.int32)
    n_bins = -(-len(timeline.step) // BIN_ENTRIES[0])
    levels = []
    for lane in [*group.lanes("flat"), *group.lanes("flame")]:
        lane.names = steps
        levels.append(group.bars(lane, start, end, n_bins))
    answer = [(n_bins, levels)]
    for entries in BIN_ENTRIES[1:]:
        n_coarse = -(-n_bins // (entries // BIN_ENTRIES[0]))
        answer.append((n_coarse, [rebinned_bars(bars, start, end, n_coarse) for bars in levels]))
    return answer


class BarColumns(NamedTuple):
    """Bars as a report stores them: the columns of ``bar.*`` and ``bar_share.*`` by name."""

    bar: dict[str, NDArray[np.int64]]
    share: dict[str, NDArray[np.int64]]


def columns_of_bars(levels: Sequence[Bars]) -> BarColumns:
    """Return bars by level, whose names are steps, as a report stores them."""
    bars = join_bars(list(levels))
    is_merged = bars.count > 1
    row, kind = np.nonzero(bars.share * is_merged[:, None])
    sizes = [len(level.name) for level in levels]
    bar = {
        "level": np.repeat(np.arange(len(levels)), sizes),
        "start_cycle": bars.start_cycle,
        "end_cycle": bars.end_cycle,
        "n_slices": bars.count,
        "cycles": np.rint(bars.cycles),
        "kind": bars.kind,
        "n_kinds": np.bincount(row, minlength=len(is_merged)),
        "step_id": bars.longest_name,
        "longest_cycles": bars.longest_cycles,
    }
    share = {"kind": kind, "share": bars.share[row, kind]}
    return BarColumns(
        {name: np.asarray(values, np.int64) for name, values in bar.items()},
        {name: np.asarray(values, np.int64) for name, values in share.items()},
    )


def bars_of_columns(columns: BarColumns, paths: PathTable) -> list[Bars]:
    """Return the bars by level that a report stores, in the order in which they are stored.

    Parameters
    ----------
    columns
        As `columns_of_bars` returned them, those of several sections one after the other.
    paths
        Paths of the names of steps.
    """
    bar = columns.bar
    n_bars = len(bar["level"])
    share = np.zeros((n_bars, len(KINDS)), np.uint8)
    is_single = bar["n_kinds"] == 0
    kind = bar["kind"].astype(np.uint8)
    share[np.flatnonzero(is_single), kind[is_single]] = 255
    row = np.repeat(np.arange(n_bars), bar["n_kinds"])
    share[row, columns.share["kind"]] = columns.share["share"]
    n_levels = int(bar["level"].max(initial=FLAT)) + 1
    levels = []
    for level in range(n_levels):
        here = np.flatnonzero(bar["level"] == level)
        path = paths.leaf if level == FLAT else paths.level[level - 1]
        name = path[bar["step_id"][here]].astype(np.int32)
        count = bar["n_slices"][here].astype(np.int64)
        levels.append(
            Bars(
                bar["start_cycle"][here].astype(np.int64),
                bar["end_cycle"][here].astype(np.int64),
                np.where(count > 1, np.int32(-1), name),
                kind[here],
                count,
                share[here],
                bar["cycles"][here].astype(np.float64),
                name,
                bar["longest_cycles"][here].astype(np.int64),
            )
        )
    return levels
