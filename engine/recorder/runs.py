"""Recorded runs: what the engine notes of a run, and its rows and entries in a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.execute.timeline import Timeline
from tilescope.reports import ReportWriter
from tilescope.reports.schema import notice, run, run_trace, wall_clock

__all__ = ["RunRecord", "RunWriter"]

#: Maximum count of a trace entry, which is stored in 32 bits.
_MOST_COUNT = (1 << 31) - 1
#: Names are cut after this many characters.
_NAME_LENGTH = 1_000
#: Entries that are written at once: tens of megabytes.
_ENTRIES_AT_A_TIME = 1 << 18
#: Different timelines that are written at once: some ten milliseconds.
_TIMELINES_AT_A_TIME = 1 << 8
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
class _Trace:
    """The timelines of a run as they are stored: tracks, and entries that follow each other.

    Parameters
    ----------
    lengths : ndarray of int64, shape (n_ipus,)
        Length of the run on every IPU, cycles.
    tracks : ndarray of int64, shape (n_tracks, 3)
        IPU, number of the track and number of entries.
    entries
        By name of a column, ndarray of shape (n_entries,).
    ipus : ndarray of int64, shape (n_entries,)
        IPU of every entry.
    has_spread
        Whether executions are spread evenly over their loop.
    """

    lengths: NDArray[np.int64]
    tracks: NDArray[np.int64]
    entries: Mapping[str, NDArray[Any]]
    ipus: NDArray[np.int64]
    has_spread: bool


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
        self._n_runs = 0
        self._n_entries = 0
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
        batch: list[tuple[RunRecord, _Trace]] = []
        traces: dict[int, _Trace] = {}
        n_entries = 0
        for record in records:
            key = id(record.timelines)
            if key not in traces:
                traces[key] = self._trace(record.timelines)
            trace = traces[key]
            batch.append((record, trace))
            n_entries += trace.ipus.size
            if n_entries >= _ENTRIES_AT_A_TIME or len(traces) >= _TIMELINES_AT_A_TIME:
                self._write_batch(batch)
                batch, traces, n_entries = [], {}, 0
                yield
        if batch:
            self._write_batch(batch)
            yield

    def _write_batch(self, batch: Sequence[tuple[RunRecord, _Trace]]) -> None:
        """Add runs."""
        writer, n_runs = self._writer, len(batch)
        records, traces = [record for record, _ in batch], [trace for _, trace in batch]
        ids = range(self._n_runs, self._n_runs + n_runs)
        start = np.array([record.start for record in records], np.int64).reshape(n_runs, -1)
        end = start + np.array([trace.lengths for trace in traces])
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
        self._write_tracks(start, end, traces)
        self._write_entries(start, traces)
        writer.add_columns(
            wall_clock,
            {
                "event": "run",
                "run_id": ids,
                "wall_start_us": [record.wall_start_us for record in records],
                "wall_duration_us": [record.wall_duration_us for record in records],
            },
        )
        if not self._is_spread_noted and any(trace.has_spread for trace in traces):
            writer.add(notice, [{"severity": "info", "code": "loops_spread", "message": _SPREAD}])
            self._is_spread_noted = True
        self._n_runs += n_runs

    def _write_tracks(
        self, start: NDArray[np.int64], end: NDArray[np.int64], traces: Sequence[_Trace]
    ) -> None:
        """Add the range of entries of every track of runs."""
        row = np.repeat(np.arange(len(traces)), [len(trace.tracks) for trace in traces])
        ipu, track, n_entries = np.concatenate([trace.tracks for trace in traces]).T
        self._writer.add_columns(
            run_trace,
            {
                "run_id": self._n_runs + row,
                "ipu_id": ipu,
                "track": track,
                "start_cycle": start[row, ipu],
                "end_cycle": end[row, ipu],
                "first_entry": np.cumsum(n_entries) - n_entries + self._n_entries,
                "n_entries": n_entries,
            },
        )
        self._n_entries += int(n_entries.sum())

    def _write_entries(self, start: NDArray[np.int64], traces: Sequence[_Trace]) -> None:
        """Add the entries of runs."""
        row = np.repeat(np.arange(len(traces)), [trace.ipus.size for trace in traces])
        shift = start[row, np.concatenate([trace.ipus for trace in traces])]
        for name in traces[0].entries:
            column = np.concatenate([trace.entries[name] for trace in traces])
            is_moved = name in ("start_cycle", "end_cycle")
            self._writer.append(f"trace.{name}", column + shift if is_moved else column)

    def _trace(self, timelines: Sequence[Timeline]) -> _Trace:
        """Return the timelines of a run as they are stored."""
        tracks = _tracks(timelines)
        lines = [line for _, _, line in tracks]

        def joined(name: str) -> NDArray[Any]:
            return np.concatenate([getattr(line, name) for line in lines])

        sizes = [line.step_id.size for line in lines]
        ipus = [ipu_id for ipu_id, _, _ in tracks]
        return _Trace(
            np.array([timeline.n_cycles for timeline in timelines], np.int64),
            np.array([ipus, [number for _, number, _ in tracks], sizes], np.int64).T,
            {
                "step_id": joined("step_id"),
                "start_cycle": joined("start"),
                "end_cycle": joined("end"),
                "period": joined("period"),
                "count": joined("count"),
                "pattern_id": np.concatenate(
                    [self._patterns(line, ipu_id) for ipu_id, _, line in tracks]
                ),
            },
            np.repeat(np.array(ipus, np.int64), sizes),
            any(line.has_spread for line in lines),
        )

    def _patterns(self, line: Timeline, ipu_id: int) -> NDArray[np.int32]:
        """Return the row of ``cycles.pattern`` of every entry of a track."""
        rows = line.step_id.astype(np.int64) * self._n_ipus + ipu_id
        patterns = self._pattern_of_step[rows]
        for entry, tile_cycles in line.patterns.items():
            patterns[entry] = self._writer.pattern("cycles.pattern", tile_cycles)
        return patterns


def _tracks(timelines: Sequence[Timeline]) -> list[tuple[int, int, Timeline]]:
    """Return IPU, number and timeline of the tracks of a run, in the order of storage."""
    return [
        (ipu_id, number, track.with_counts_up_to(_MOST_COUNT))
        for ipu_id, timeline in enumerate(timelines)
        for number, track in enumerate((timeline, timeline.io))
        if track is not None
    ]
