"""Writes the trace of runs: the entries of tracks that repeat each other are stored once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from tilescope.reports.schema import TRACE_COLUMNS, run_trace
from tilescope.reports.writing.writer import ReportWriter

__all__ = ["TraceTrack", "TraceWriter"]


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
        self._writer = writer
        self._n_entries = 0
        #: First entry and start of the stored track, by digest of its columns.
        self._stored: dict[bytes, tuple[int, int]] = {}

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

    def _place(self, track: TraceTrack, start: int) -> tuple[int, int, bool]:
        """Return first entry and start of a stored track, and whether it was stored just now."""
        hasher = blake2b(digest_size=16)
        columns = [np.asarray(values).astype(np.int64) for values in track.columns]
        for values in columns:
            hasher.update(values.data)
        key = hasher.digest()
        stored = self._stored.get(key)
        if stored is not None:
            return *stored, False
        first = self._n_entries
        self._stored[key] = (first, start)
        self._n_entries += track.n_entries
        for name, values in zip(TRACE_COLUMNS, columns, strict=True):
            is_time = name in ("start_cycle", "end_cycle")
            self._writer.append(f"trace.{name}", values + start if is_time else values)
        return first, start, True
