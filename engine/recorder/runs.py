"""Recorded runs: what the engine notes of a run, and its rows and entries in a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

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

    @property
    def n_entries(self) -> int:
        return int(self.timeline.step_id.size)


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
        for _, group in groupby(records, key=lambda record: id(record.timelines)):
            alike = list(group)
            tracks = _tracks(alike[0].timelines)
            n_entries = sum(track.n_entries for track in tracks)
            at_a_time = max(1, _ENTRIES_AT_A_TIME // max(1, n_entries))
            for first in range(0, len(alike), at_a_time):
                self._write_alike(alike[first : first + at_a_time], tracks)
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
        self._write_tracks(ids, start, tracks)
        self._write_entries(start, tracks)
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

    def _write_tracks(self, ids: range, start: NDArray[np.int64], tracks: Sequence[_Track]) -> None:
        """Add the range of entries of every track of every run."""
        n_runs, ipus = len(ids), [track.ipu_id for track in tracks]
        sizes = np.array([track.n_entries for track in tracks], np.int64)
        begin = np.array([track.timeline.n_cycles for track in tracks], np.int64)
        first = np.cumsum(np.tile(sizes, n_runs)) - np.tile(sizes, n_runs)
        self._writer.add_columns(
            run_trace,
            {
                "run_id": np.repeat(np.arange(ids.start, ids.stop), len(tracks)),
                "ipu_id": ipus * n_runs,
                "track": [track.number for track in tracks] * n_runs,
                "start_cycle": start[:, ipus].ravel(),
                "end_cycle": (start[:, ipus] + begin).ravel(),
                "first_entry": first + self._n_entries,
                "n_entries": np.tile(sizes, n_runs),
            },
        )
        self._n_entries += int(sizes.sum()) * n_runs

    def _write_entries(self, start: NDArray[np.int64], tracks: Sequence[_Track]) -> None:
        """Add the entries of runs with the same timelines."""
        writer, n_runs = self._writer, len(start)
        ipu_of_entry = np.concatenate([np.full(t.n_entries, t.ipu_id) for t in tracks])
        shift = start[:, ipu_of_entry]

        def joined(name: str) -> NDArray[np.int64]:
            return np.concatenate([getattr(track.timeline, name) for track in tracks])

        writer.append("trace.step_id", np.tile(joined("step_id"), n_runs))
        writer.append("trace.start_cycle", (shift + joined("start")).ravel())
        writer.append("trace.end_cycle", (shift + joined("end")).ravel())
        writer.append("trace.period", np.tile(joined("period"), n_runs))
        writer.append("trace.count", np.tile(joined("count"), n_runs))
        patterns = np.concatenate([self._patterns(track) for track in tracks])
        writer.append("trace.pattern_id", np.tile(patterns, n_runs))

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
