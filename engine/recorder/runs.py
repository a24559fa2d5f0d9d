"""Recorded runs: what the engine notes of a run, and its rows and entries in a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
#: Runs, different timelines and entries of these that are written at once: some megabytes.
_RUNS_AT_A_TIME, _TIMELINES_AT_A_TIME, _ENTRIES_AT_A_TIME = 4_096, 1 << 8, 1 << 18
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
        batch: list[tuple[RunRecord, Sequence[TraceTrack]]] = []
        tracks: dict[int, Sequence[TraceTrack]] = {}
        n_entries = 0
        for record in records:
            key = id(record.timelines)
            if key not in tracks:
                tracks[key] = self._tracks(record.timelines)
                n_entries += record.n_entries
            batch.append((record, tracks[key]))
            is_much = n_entries >= _ENTRIES_AT_A_TIME or len(tracks) >= _TIMELINES_AT_A_TIME
            if is_much or len(batch) >= _RUNS_AT_A_TIME:
                self._write_batch(batch)
                batch, tracks, n_entries = [], {}, 0
                yield
        if batch:
            self._write_batch(batch)
            yield

    def _write_batch(self, batch: Sequence[tuple[RunRecord, Sequence[TraceTrack]]]) -> None:
        """Add runs."""
        writer, n_runs = self._writer, len(batch)
        records = [record for record, _ in batch]
        ids = range(self._n_runs, self._n_runs + n_runs)
        start = np.array([record.start for record in records], np.int64).reshape(n_runs, -1)
        lengths = {
            id(record.timelines): [timeline.n_cycles for timeline in record.timelines]
            for record in records
        }
        end = start + np.array([lengths[id(record.timelines)] for record in records], np.int64)
        writer.add_columns(
            run,
            {
                "run_id": ids,
                "name": [
                    record.name[:_NAME_LENGTH] or f"run {number}"
                    for number, record in zip(ids, records, strict=True)
                ],
                "program_index": [record.program for record in records],
                "start_cycle": start.min(axis=1),
                "end_cycle": end.max(axis=1),
                "is_data_dependent": [record.is_data_dependent for record in records],
            },
        )
        self._trace.add(ids, start, [tracks for _, tracks in batch])
        writer.add_columns(
            wall_clock,
            {
                "event": "run",
                "run_id": ids,
                "wall_start_us": [record.wall_start_us for record in records],
                "wall_duration_us": [record.wall_duration_us for record in records],
            },
        )
        if not self._is_spread_noted and any(map(_has_spread, records)):
            writer.add(notice, [{"severity": "info", "code": "loops_spread", "message": _SPREAD}])
            self._is_spread_noted = True
        self._n_runs += n_runs

    def _tracks(self, timelines: Sequence[Timeline]) -> list[TraceTrack]:
        """Return the tracks of a run as the report stores them, in that order."""
        tracks = []
        for ipu_id, timeline in enumerate(timelines):
            for number, whole in enumerate((timeline, timeline.io)):
                if whole is None:
                    continue
                line = whole.with_counts_up_to(_MOST_COUNT)
                columns = (line.step_id, line.start, line.end, line.period, line.count)
                patterns = self._patterns(line, ipu_id)
                tracks.append(TraceTrack(ipu_id, number, line.n_cycles, (*columns, patterns)))
        return tracks

    def _patterns(self, line: Timeline, ipu_id: int) -> NDArray[np.int32]:
        """Return the row of ``cycles.pattern`` of every entry of a track."""
        rows = line.step_id.astype(np.int64) * self._n_ipus + ipu_id
        patterns = self._pattern_of_step[rows]
        for entry, tile_cycles in line.patterns.items():
            patterns[entry] = self._writer.pattern("cycles.pattern", tile_cycles)
        return patterns


def _has_spread(record: RunRecord) -> bool:
    """Return whether executions are spread evenly over their loop."""
    return any(
        line is not None and line.has_spread
        for timeline in record.timelines
        for line in (timeline, timeline.io)
    )
