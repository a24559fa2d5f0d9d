"""Recorded runs: what the engine notes of a run, and its rows and entries in a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.execute.timeline import Timeline
from tilescope.reports import ReportWriter, TraceTrack, TraceWriter
from tilescope.reports.schema import notice, run, wall_clock

__all__ = ["RunRecord", "RunWriter"]

#: Maximum count of a trace entry, which is stored in 32 bits.
_MOST_COUNT = (1 << 31) - 1
#: Names are cut after this many characters.
_NAME_LENGTH = 1_000
#: Equal runs that are written at once: some megabytes of rows.
_RUNS_AT_A_TIME = 4_096
_SPREAD = (
    "Nested loops ran more often than the trace records individually: execution counts and times"
    " are exact, but some executions are spread evenly over their loop"
)


@dataclass(frozen=True)
class RunRecord:
    """One run of the engine; nothing in it changes any more.

    Parameters
    ----------
    name
        Name of the run; numbered when empty.
    program
        Index of the control program.
    timelines
        Per IPU, starting at cycle 0. Runs of a static program share them.
    start : ndarray of int64, shape (n_ipus,)
        Cycle counters of the IPUs at the start of the run.
    wall_start_us, wall_duration_us
        Wall-clock time of the simulator, microseconds.
    is_data_dependent
        Whether the cycles depend on the data.
    """

    name: str
    program: int
    timelines: Sequence[Timeline]
    start: NDArray[np.int64]
    wall_start_us: int
    wall_duration_us: int
    is_data_dependent: bool

    @property
    def n_entries(self) -> int:
        """Entries of its trace, roughly: those of overlapped I/O are not counted."""
        return sum(timeline.step_id.size for timeline in self.timelines)

    @property
    def own_bytes(self) -> int:
        """Memory that this run does not share with others: that of data-dependent timelines."""
        if not self.is_data_dependent:
            return 0
        return sum(
            40 * timeline.step_id.size + sum(cycles.nbytes for cycles in timeline.patterns.values())
            for timeline in self.timelines
        )


@dataclass(frozen=True)
class _Track:
    """A timeline as it is stored: one track of one IPU."""

    ipu_id: int
    number: int
    timeline: Timeline


class RunWriter:
    """Writes runs into a report whose compilation is written.

    Parameters
    ----------
    writer
        Writer of the report.
    pattern_of_step : ndarray of int32, shape (n_steps * n_ipus,)
        Row of ``cycles.pattern`` of each step on each IPU.
    n_ipus
        IPUs of the machine.
    """

    def __init__(
        self, writer: ReportWriter, pattern_of_step: NDArray[np.int32], n_ipus: int
    ) -> None:
        self._writer = writer
        self._pattern_of_step = pattern_of_step
        self._n_ipus = n_ipus
        self._trace = TraceWriter(writer)
        self._n_runs = 0
        self._is_spread_noted = False

    def write(self, records: Sequence[RunRecord]) -> Iterator[None]:
        """Add runs in chronological order, some at a time; a commit may come between.

        Yields
        ------
        None
            After every part.

        Raises
        ------
        ReportNotWritable
            A write failed.
        """
        for _, group in groupby(records, key=lambda record: id(record.timelines)):
            alike = list(group)
            tracks = _tracks(alike[0].timelines)
            for first in range(0, len(alike), _RUNS_AT_A_TIME):
                self._write_alike(alike[first : first + _RUNS_AT_A_TIME], tracks)
                yield

    def _write_alike(self, records: Sequence[RunRecord], tracks: Sequence[_Track]) -> None:
        """Add runs that have the same timelines."""
        writer, n_runs = self._writer, len(records)
        ids = range(self._n_runs, self._n_runs + n_runs)
        start = np.array([record.start for record in records], np.int64).reshape(n_runs, -1)
        lengths = np.array([timeline.n_cycles for timeline in records[0].timelines], np.int64)
        writer.add_columns(
            run,
            {
                "run_id": ids,
                "name": [
                    record.name[:_NAME_LENGTH] or f"run {number}"
                    for number, record in zip(ids, records, strict=True)
                ],
                "program_index": records[0].program,
                "start_cycle": start.min(axis=1),
                "end_cycle": (start + lengths).max(axis=1),
                "is_data_dependent": [record.is_data_dependent for record in records],
            },
        )
        self._trace.add(ids, start, [self._track(track) for track in tracks])
        writer.add_columns(
            wall_clock,
            {
                "event": "run",
                "run_id": ids,
                "wall_start_us": [record.wall_start_us for record in records],
                "wall_duration_us": [record.wall_duration_us for record in records],
            },
        )
        if not self._is_spread_noted and any(track.timeline.has_spread for track in tracks):
            writer.add(notice, [{"severity": "info", "code": "loops_spread", "message": _SPREAD}])
            self._is_spread_noted = True
        self._n_runs += n_runs

    def _track(self, track: _Track) -> TraceTrack:
        """Return a track as the report stores it."""
        line = track.timeline
        columns = (line.step_id, line.start, line.end, line.period, line.count)
        patterns = self._patterns(track)
        return TraceTrack(track.ipu_id, track.number, line.n_cycles, (*columns, patterns))

    def _patterns(self, track: _Track) -> NDArray[np.int32]:
        """Return the row of ``cycles.pattern`` of every entry of a track."""
        rows = track.timeline.step_id.astype(np.int64) * self._n_ipus + track.ipu_id
        patterns = self._pattern_of_step[rows]
        for entry, tile_cycles in track.timeline.patterns.items():
            patterns[entry] = self._writer.pattern("cycles.pattern", tile_cycles)
        return patterns


def _tracks(timelines: Sequence[Timeline]) -> list[_Track]:
    """Return the tracks of a run in the order in which they are stored."""
    tracks = []
    for ipu_id, timeline in enumerate(timelines):
        for number, track in enumerate((timeline, timeline.io)):
            if track is not None:
                tracks.append(_Track(ipu_id, number, track.with_counts_up_to(_MOST_COUNT)))
    return tracks
