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
        self._totals = Totals()
        #: Rows of run_trace that are written, and those that are summed.
        self._n_rows = self._n_summed = self._n_total_rows = 0
        writer.call_before_finish(self._write_totals)

    @property
    def _writer(self) -> ReportWriter:
        writer = self._open_writer()
        assert writer is not None, "who adds runs keeps the writer"
        return writer

    def add(
        self, run_ids: Sequence[int], starts: NDArray[np.int64], tracks: Sequence[TraceTrack]
    ) -> None:
        """Add runs that do the same.

        Parameters
        ----------
        run_ids
            The runs.
        starts : ndarray of int64, shape (n_runs, n_ipus), cycles
            Cycle counters of the IPUs at the start of every run.
        tracks
            What they do, in the order in which it is stored.

        Raises
        ------
        ReportNotWritable
            A write failed.
        """
        places = [self._place(track, int(starts[0, track.ipu_id])) for track in tracks]
        ipus = [track.ipu_id for track in tracks]
        begin = starts[:, ipus]
        shift = begin - np.array([start for _, start, _ in places], np.int64)
        shifts = shift.astype(object)
        for column, (_, _, is_new) in enumerate(places):
            if is_new:
                shifts[0, column] = None
        n_runs = len(run_ids)
        self._writer.add_columns(
            run_trace,
            {
                "run_id": np.repeat(np.asarray(run_ids, np.int64), len(tracks)),
                "ipu_id": ipus * n_runs,
                "track": [track.track for track in tracks] * n_runs,
                "start_cycle": begin.ravel(),
                "end_cycle": (begin + np.array([t.n_cycles for t in tracks], np.int64)).ravel(),
                "first_entry": [first for first, _, _ in places] * n_runs,
                "n_entries": [track.n_entries for track in tracks] * n_runs,
                "shift_cycles": shifts.ravel().tolist(),
            },
        )
        for track in tracks:
            self._totals.add((track.ipu_id, track.track), _named(track), n_runs)
        self._n_rows += len(tracks) * n_runs
        if self._totals.n_entries >= _ENTRIES_OF_TOTAL:
            self._write_totals()

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

    def _place(self, track: TraceTrack, start: int) -> tuple[int, int, bool]:
        """Return first entry and start of a stored track, and whether it was stored just now."""
        hasher = blake2b(digest_size=16)
        columns = _named(track)
        for values in columns.values():
            hasher.update(values.data)
        key = hasher.digest()
        stored = self._stored.get(key)
        if stored is not None:
            return *stored, False
        first = self._n_entries
        self._stored[key] = (first, start)
        self._n_entries += track.n_entries
        for name, values in columns.items():
            is_time = name in ("start_cycle", "end_cycle")
            self._writer.append(f"trace.{name}", values + start if is_time else values)
        return first, start, True


def _named(track: TraceTrack) -> dict[str, NDArray[np.int64]]:
    """Return the columns of a track by name."""
    return {
        name: np.ascontiguousarray(values, np.int64)
        for name, values in zip(TRACE_COLUMNS, track.columns, strict=True)
    }
