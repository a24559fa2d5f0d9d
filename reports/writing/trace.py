"""Writes the trace of runs: the entries of tracks that repeat each other are stored once."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from tilescope.reports.integrity.totals import Totals
from tilescope.reports.schema import TOTAL_COLUMNS, TRACE_COLUMNS, run_trace, trace_total
from tilescope.reports.writing.trace_bars import BarWriter
from tilescope.reports.writing.writer import ReportWriter

__all__ = ["TraceTrack", "TraceWriter"]

#: Entries whose executions are summed together.
_ENTRIES_OF_TOTAL = 1 << 20


@dataclass(frozen=True)
class TraceTrack:
    """What one or several runs do on one track of an IPU, from cycle 0.

    Parameters
    ----------
    ipu_id
        The IPU.
    track
        0 for compute, 1 for overlapped input and output.
    n_cycles
        Length of the run on this track.
    columns : sequence of ndarrays of integers, shape (n_entries,)
        Step, start, end, period, count and pattern of every entry, in the order of
        `TRACE_COLUMNS`; start and end count from the start of the run.
    """

    ipu_id: int
    track: int
    n_cycles: int
    columns: Sequence[NDArray[np.integer]]

    @property
    def n_entries(self) -> int:
        """Number of entries."""
        return len(self.columns[0])


@dataclass
class _Course:
    """The tracks of runs that do the same.

    Parameters
    ----------
    number
        Number among those of a call.
    first_run
        The first of these runs, by its place in the call.
    tracks : ndarray of int64, shape (7, n_tracks)
        IPU, track, length in cycles, entries, first entry, start of the stored track, and whether
        it is stored with the first of these runs.
    n_runs
        How many runs do this.
    """

    number: int
    first_run: int
    tracks: NDArray[np.int64]
    n_runs: int = 0


class TraceWriter:
    """Writes the tracks of runs, in chronological order.

    Parameters
    ----------
    writer
        Writer of the report.
    """

    def __init__(self, writer: ReportWriter) -> None:
        # The writer keeps this object until it is finished, not the other way round.
        self._open_writer = weakref.ref(writer)
        self._n_entries = 0
        #: First entry and start of the stored track, by digest of its columns.
        self._stored: dict[bytes, tuple[int, int]] = {}
        #: Columns of tracks that are stored at the end of a call.
        self._waiting: dict[str, list[NDArray[np.int64]]] = {name: [] for name in TRACE_COLUMNS}
        self._totals = Totals()
        #: Rows of run_trace that are written, and those that are summed.
        self._n_rows = self._n_summed = self._n_total_rows = 0
        self._bars = BarWriter(writer)
        writer.call_before_finish(self._write_totals)
        writer.call_before_finish(self._bars.finish)

    @property
    def _writer(self) -> ReportWriter:
        writer = self._open_writer()
        assert writer is not None, "who adds runs keeps the writer"
        return writer

    def add(
        self,
        run_ids: Sequence[int],
        starts: NDArray[np.int64],
        tracks_of_runs: Sequence[Sequence[TraceTrack]],
    ) -> None:
        """Add runs.

        Parameters
        ----------
        run_ids
            The runs, at least one.
        starts : ndarray of int64, shape (n_runs, n_ipus), cycles
            Cycle counters of the IPUs at the start of every run.
        tracks_of_runs
            What every run does, in the order in which it is stored. Runs that do the same may
            share a sequence, which is then looked at once.

        Raises
        ------
        ReportNotWritable
            A write failed.
        """
        courses: dict[int, _Course] = {}
        for row, tracks in enumerate(tracks_of_runs):
            course = courses.get(id(tracks))
            if course is None:
                placed = self._placed(tracks, starts[row])
                course = courses[id(tracks)] = _Course(len(courses), row, placed)
            elif self._bars.is_waiting:
                for track in tracks:
                    self._bars.end((track.ipu_id, track.track))
            course.n_runs += 1
        self._append_waiting()
        self._add_rows(run_ids, starts, [courses[id(tracks)] for tracks in tracks_of_runs])
        tracks_of = {id(tracks): tracks for tracks in tracks_of_runs}
        for key, course in courses.items():
            for track in tracks_of[key]:
                self._totals.add((track.ipu_id, track.track), _named(track), course.n_runs)
        if self._totals.n_entries >= _ENTRIES_OF_TOTAL:
            self._write_totals()

    def _add_rows(
        self, run_ids: Sequence[int], starts: NDArray[np.int64], courses: Sequence[_Course]
    ) -> None:
        """Add a row of run_trace for every track of runs; runs and their courses in order."""
        different = {course.number: course for course in courses}
        ordered = [different[number] for number in sorted(different)]
        sizes = np.array([course.tracks.shape[1] for course in ordered], np.int64)
        first_track = np.cumsum(sizes) - sizes
        columns = np.concatenate([course.tracks for course in ordered], axis=1)
        of_run = np.array([course.number for course in courses], np.int64)
        n_tracks = sizes[of_run]
        run = np.repeat(np.arange(len(of_run)), n_tracks)
        nth = np.arange(run.size) - np.repeat(np.cumsum(n_tracks) - n_tracks, n_tracks)
        ipu_id, track, n_cycles, n_entries, first, start, is_new = columns[
            :, first_track[of_run[run]] + nth
        ]
        begin = starts[run, ipu_id]
        first_run = np.array([course.first_run for course in ordered], np.int64)
        shifts = (begin - start).astype(object)
        shifts[(is_new != 0) & (first_run[of_run[run]] == run)] = None
        self._writer.add_columns(
            run_trace,
            {
                "run_id": np.asarray(run_ids, np.int64)[run],
                "ipu_id": ipu_id,
                "track": track,
                "start_cycle": begin,
                "end_cycle": begin + n_cycles,
                "first_entry": first,
                "n_entries": n_entries,
                "shift_cycles": shifts.tolist(),
            },
        )
        self._n_rows += run.size

    def _write_totals(self) -> None:
        """Write the executions since the last time, summed."""
        if self._n_rows == self._n_summed:
            return
        rows = self._totals.take()
        self._writer.append_columns("total", dict(zip(TOTAL_COLUMNS, rows, strict=True)))
        ranges = {
            "first_run_trace": self._n_summed,
            "n_run_traces": self._n_rows - self._n_summed,
            "first_row": self._n_total_rows,
            "n_rows": rows.shape[1],
        }
        self._writer.add(trace_total, [ranges])
        self._n_summed = self._n_rows
        self._n_total_rows += rows.shape[1]

    def _placed(self, tracks: Sequence[TraceTrack], starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the tracks of a course as `_Course` holds them; new ones wait to be stored."""
        rows = []
        for track in tracks:
            first, start, is_new = self._place(track, int(starts[track.ipu_id]))
            rows.append(
                (track.ipu_id, track.track, track.n_cycles, track.n_entries, first, start, is_new)
            )
        return np.array(rows, np.int64).reshape(-1, 7).T

    def _place(self, track: TraceTrack, start: int) -> tuple[int, int, bool]:
        """Return first entry and start of a stored track, and whether it is stored just now."""
        hasher = blake2b(digest_size=16)
        columns = _named(track)
        for values in columns.values():
            hasher.update(values.data)
        key = hasher.digest()
        stored = self._stored.get(key)
        if stored is not None:
            self._bars.end((track.ipu_id, track.track))
            return *stored, False
        first = self._n_entries
        self._stored[key] = (first, start)
        self._n_entries += track.n_entries
        for name, values in columns.items():
            is_time = name in ("start_cycle", "end_cycle")
            self._waiting[name].append(values + start if is_time else values)
        self._bars.add((track.ipu_id, track.track), columns, (first, start))
        return first, start, True

    def _append_waiting(self) -> None:
        """Append the entries of new tracks."""
        for name, parts in self._waiting.items():
            if parts:
                self._writer.append(f"trace.{name}", np.concatenate(parts))
                parts.clear()


def _named(track: TraceTrack) -> dict[str, NDArray[np.int64]]:
    """Return the columns of a track by name."""
    return {
        name: np.ascontiguousarray(values, np.int64)
        for name, values in zip(TRACE_COLUMNS, track.columns, strict=True)
    }
