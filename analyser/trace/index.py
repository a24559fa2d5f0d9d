"""The trace of a report: steps, runs, and the tracks of every IPU."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.machine.target import target
from tilescope.analyser.time.execution import (
    Steps,
    TrackRow,
    costs,
    external_syncs,
    steps,
    track_rows,
)
from tilescope.analyser.trace.drawing import Drawing, Drawings
from tilescope.analyser.trace.sections import GroupCache, Limits, TrackSections, joined_ranges
from tilescope.analyser.validation import require
from tilescope.reports import DamagedReport, schema
from tilescope.reports.bars.coarse import BarColumns, bars_of_columns
from tilescope.reports.bars.kinds import RUN, classify
from tilescope.reports.bars.lane import Bars, SliceLane
from tilescope.reports.bars.paths import PathTable, build_paths
from tilescope.reports.bars.timeline import Repeats, Timeline, build_timeline
from tilescope.reports.schema import BAR_COLUMNS, BAR_SHARE_COLUMNS

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["RunRow", "Trace", "trace_of"]

#: Reports whose index is kept.
_KEPT = 4
#: How much of a trace is in memory at a time.
LIMITS = Limits()


@dataclass(frozen=True)
class RunRow:
    """A recorded call of the engine; half-open range on the earliest and latest IPU, cycles."""

    run_id: int
    name: str
    start_cycle: int
    end_cycle: int


@dataclass
class Trace:
    """Index of the trace of one report. Tracks are read when first asked for."""

    _report: weakref.ref[Report]
    runs: list[RunRow]
    tracks: list[TrackRow]
    limits: Limits
    tile_cycles: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    _sections: dict[tuple[int, int], TrackSections] = field(default_factory=dict, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    @property
    def report(self) -> Report:
        """The report, which whoever asks keeps alive; the index alone does not."""
        report = self._report()
        if report is None:
            raise ReferenceError("the report of this trace is gone; open it again")
        return report

    @cached_property
    def start_cycle(self) -> int:
        """First cycle of the earliest run; 0 when nothing ran."""
        return min((row.start_cycle for row in self.tracks), default=0)

    @cached_property
    def end_cycle(self) -> int:
        """First cycle after the latest run; 0 when nothing ran."""
        return max((row.end_cycle for row in self.tracks), default=0)

    @cached_property
    def keys(self) -> list[tuple[int, int]]:
        """IPU and track of every group, ascending."""
        return sorted({(row.ipu_id, row.track) for row in self.tracks})

    @property
    def ipus(self) -> list[int]:
        """IPUs with a trace, ascending."""
        return sorted({ipu_id for ipu_id, _ in self.keys})

    @cached_property
    def steps(self) -> Steps:
        """The steps; their identities count from 0, so that an identity is also a row."""
        return steps(self.report)

    @cached_property
    def paths(self) -> PathTable:
        """Paths of the step names."""
        return build_paths(self.steps.name)

    @cached_property
    def step_kinds(self) -> np.ndarray:
        """Kind number of each step, uint8."""
        external = np.flatnonzero(external_syncs(self.report))
        return classify(self.steps.kind, set(external.tolist()))

    @cached_property
    def names(self) -> tuple[list[str], list[int]]:
        """Labels and parents of all paths, and after them the names of the runs."""
        labels = self.paths.labels + [run.name for run in self.runs]
        return labels, self.paths.parents + [-1] * len(self.runs)

    @cached_property
    def step_costs(self) -> dict[int, dict[str, np.ndarray]]:
        """Per IPU, a value per step of each cost column, int64; 0 where a step costs nothing."""
        columns = costs(self.report).column
        by_ipu: dict[int, dict[str, np.ndarray]] = {}
        for ipu_id in np.unique(columns["ipu_id"]).tolist():
            mine = np.flatnonzero(columns["ipu_id"] == ipu_id)
            by_ipu[ipu_id] = {}
            for name, values in columns.items():
                by_ipu[ipu_id][name] = np.zeros(len(self.steps), np.int64)
                by_ipu[ipu_id][name][columns["step_id"][mine]] = values[mine]
        return by_ipu

    @cached_property
    def tiles_per_ipu(self) -> int:
        """Tiles of one IPU."""
        return target(self.report).tiles_per_ipu

    @cached_property
    def _is_long(self) -> bool:
        """Whether it has too many entries to keep all in memory."""
        n_entries = sum(stop - first for first, stop in {row.place for row in self.tracks})
        return n_entries > self.limits.trace_entries

    @cached_property
    def _drawings(self) -> Drawings:
        """Stored bars of coarse resolutions."""
        return Drawings(self.report, self.tracks)

    @cached_property
    def _groups(self) -> GroupCache:
        """Groups of sections, over all tracks."""
        return GroupCache(self.limits.kept_entries if self._is_long else math.inf)

    def track(self, ipu_id: int, track: int) -> TrackSections:
        """Return a track; its part of the trace is read where it is asked for."""
        with self._lock:
            key = (ipu_id, track)
            if key not in self._sections:
                rows = [row for row in self.tracks if (row.ipu_id, row.track) == key]
                limits = self.limits if self._is_long else None
                n_bins = max(self.limits.bins // len(self.keys), self.limits.least_bins)
                bin_cycles = max(1.0, (self.end_cycle - self.start_cycle) / n_bins)
                drawings = self._drawings if self._is_long else None
                self._sections[key] = TrackSections(
                    self, key, rows, self._groups, limits, bin_cycles, drawings
                )
            return self._sections[key]

    def known_timeline(self, ipu_id: int, track: int) -> Timeline | None:
        """Return the executions of a track if all of them are in memory."""
        group = None if self._is_long else self._groups.known((ipu_id, track, 0))
        return None if group is None else group.timeline

    @cached_property
    def run_lanes(self) -> dict[tuple[int, int], SliceLane]:
        """The bar of runs above each group."""
        lanes = {}
        run_row = {run.run_id: row for row, run in enumerate(self.runs)}
        n_paths = len(self.paths.labels)
        names = np.arange(n_paths, n_paths + len(self.runs), dtype=np.int32)
        kinds = np.full(len(self.runs), RUN, np.uint8)
        for key in self.keys:
            rows = [row for row in self.tracks if (row.ipu_id, row.track) == key]
            rows.sort(key=lambda row: row.start_cycle)
            lanes[key] = SliceLane(
                np.asarray([row.start_cycle for row in rows], np.int64),
                np.asarray([row.end_cycle for row in rows], np.int64),
                np.asarray([run_row[row.run_id] for row in rows], np.int32),
                names,
                kinds,
            )
        return lanes

    def timeline(self, rows: Sequence[TrackRow]) -> Timeline:
        """Return the executions of some runs on one track, read from the report.

        Raises
        ------
        DamagedReport
            They name unknown steps.
        """
        rows = sorted((row for row in rows if row.n_entries), key=lambda row: row.start_cycle)
        places = sorted({row.place for row in rows})
        joined = joined_ranges(places)
        number = {place: stored for stored, place in enumerate(places)}
        runs = Repeats(
            np.array([number[row.place] for row in rows], np.int64),
            np.array([row.shift_cycles for row in rows], np.int64),
        )
        sizes = [stop - first for first, stop in places]
        run_starts = np.cumsum([0, *sizes[:-1]]).astype(np.int64) if sizes else np.zeros(0, int)
        has_loops = any(
            _largest(self.report, "trace.count", first, stop) > 1 for first, stop in joined
        )
        step = self.column("trace.step_id", joined)
        if len(step) and not 0 <= int(step.min()) <= int(step.max()) < len(self.steps):
            raise DamagedReport(
                f"the trace in {self.report.name} names unknown steps; run it again"
            )
        return build_timeline(
            self.column("trace.start_cycle", joined),
            self.column("trace.end_cycle", joined),
            step,
            run_starts,
            self.column("trace.period", joined) if has_loops else None,
            self.column("trace.count", joined) if has_loops else None,
            runs,
        )

    def drawn(self, drawings: Sequence[tuple[Drawing, int]], resolution: int) -> list[Bars]:
        """Return stored bars by level, from that of all executions on.

        Parameters
        ----------
        drawings
            Consecutive ones, and how many cycles later each is than it is stored.
        resolution
            Number of the resolution, from the finest.

        Raises
        ------
        DamagedReport
            Their shares are not all there, or they have more levels than the names of steps.
        """
        places = [drawing.resolutions[resolution] for drawing, _ in drawings]
        rows, shares = [place.bars for place in places], [place.shares for place in places]
        columns = BarColumns(
            {name: self.column(f"bar.{name}", joined_ranges(rows)) for name in BAR_COLUMNS},
            {
                name: self.column(f"bar_share.{name}", joined_ranges(shares))
                for name in BAR_SHARE_COLUMNS
            },
        )
        bar, n_levels = columns.bar, len(self.paths.level)
        is_whole = int(bar["n_kinds"].sum()) == len(columns.share["kind"])
        is_whole &= int(bar["level"].max(initial=0)) <= n_levels
        require(self.report, is_whole, "stored bars of its trace are inconsistent")
        shift = np.repeat([shift for _, shift in drawings], [stop - first for first, stop in rows])
        for name in ("start_cycle", "end_cycle"):
            bar[name] = bar[name] + shift
        return bars_of_columns(columns, self.paths)

    def column(self, name: str, ranges: Sequence[tuple[int, int]]) -> np.ndarray:
        """Return the values of a column of the trace over some ranges of rows."""
        array = self.report.array(name)
        parts = [array.read(first, stop) for first, stop in ranges]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([np.zeros(0, array.dtype), *parts])


def _largest(report: Report, name: str, first: int, stop: int) -> int:
    """Return the largest value that the chunks touching a range of rows can hold."""
    summary = report.array(name).summary()
    row_start = np.asarray(summary.row_start)
    touches = (row_start < stop) & (row_start + np.asarray(summary.n_rows) > first)
    maximum = np.asarray(summary.maximum)[touches]
    return int(maximum.max()) if len(maximum) else 0


_TRACES: weakref.WeakKeyDictionary[Report, Trace] = weakref.WeakKeyDictionary()
_TRACES_LOCK = threading.Lock()


def trace_of(report: Report) -> Trace:
    """Return the index of a report's trace; kept for the last few reports while they live."""
    with _TRACES_LOCK:
        trace = _TRACES.pop(report, None) or _read_trace(report)
        _TRACES[report] = trace  # the last in order is the last used
        for old in list(_TRACES)[:-_KEPT]:
            del _TRACES[old]
        return trace


def _read_trace(report: Report) -> Trace:
    """Read the small tables: which runs there are and where their entries lie."""
    runs = report.rows(schema.run, "run_id", "name", "start_cycle", "end_cycle")
    rows = [RunRow(*row) for row in runs]
    return Trace(weakref.ref(report), rows, list(track_rows(report)), LIMITS)
