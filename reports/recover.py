"""Takes the sound runs out of a damaged or unfinished report, into a new one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from tilescope.reports.check import check_report
from tilescope.reports.errors import DamagedReport, ReportNotFound, WrongKind
from tilescope.reports.integrity.guard import GuardedConnection
from tilescope.reports.integrity.salvage import Salvage, SalvagedArray
from tilescope.reports.reading.open import regular_file
from tilescope.reports.reading.snapshot import copy_snapshot
from tilescope.reports.schema import (
    ARRAYS,
    TABLES,
    TRACE_COLUMNS,
    TableSpec,
    notice,
    run,
    run_trace,
    step,
    target,
    wall_clock,
)
from tilescope.reports.writing.trace import TraceTrack, TraceWriter
from tilescope.reports.writing.writer import ReportWriter

__all__ = ["Recovery", "recover_report"]

#: Tables of the file's own storage, which the writer makes anew.
_STORAGE = frozenset(("array", "array_chunk", "chunk", "milestone", "row_block"))
#: Tables with rows of runs, which are taken run by run; notices are taken as far as they are sound.
_BY_RUN = frozenset(("run", "run_trace", "trace_total", "trace_bar", "wall_clock", "notice"))
_PATTERNS = "cycles.pattern"
#: Groups of arrays with entries of runs, their sums and bars.
_ARRAYS_BY_RUN = frozenset(("trace", "total", "bar", "bar_share"))


@dataclass(frozen=True)
class Recovery:
    """What was recovered.

    Parameters
    ----------
    path
        The new report.
    n_runs
        Recorded runs in it.
    lost
        Names of the runs that are damaged and were left out.
    """

    path: Path
    n_runs: int
    lost: tuple[str, ...]


@dataclass(frozen=True)
class _Track:
    """Entries of a run on one track of one IPU, at the cycles at which the run was."""

    ipu_id: int
    track: int
    start_cycle: int
    end_cycle: int
    columns: Sequence[np.ndarray]

    def from_start(self) -> TraceTrack:
        """Return the same entries from cycle 0."""
        moved = {"start_cycle": self.start_cycle, "end_cycle": self.start_cycle}
        columns = [
            values - moved.get(name, 0)
            for name, values in zip(TRACE_COLUMNS, self.columns, strict=True)
        ]
        n_cycles = self.end_cycle - self.start_cycle
        return TraceTrack(self.ipu_id, self.track, n_cycles, columns)


def recover_report(path: Path | str, directory: Path | str) -> Recovery:
    """Write the sound runs of a report into a new report, which is sealed as ended early.

    The source stays as it is. Its compilation has to be sound as a whole.

    Parameters
    ----------
    path : Path or str
        A report file, damaged, unfinished or sound.
    directory : Path or str
        Directory of the new report.

    Raises
    ------
    ReportNotFound, NotAReport, UnsupportedSchema
        The path is not a report file of this version.
    WrongKind
        It is a host's trace.
    DamagedReport
        The compilation, or what SQLite needs to read the file at all, is damaged.
    ReportInUse, ReportNotWritable
        The new report cannot be written.
    """
    source = Path(path)
    with _private_copy(source) as connection, ReportWriter.create(directory) as writer:
        if connection.kind:
            raise WrongKind(
                f"{source} is of the kind {connection.kind}, of which the runs of a program are not"
                " taken out. Open it as it is: `tilescope system` reads unfinished traces."
            )
        salvage = Salvage(connection)
        arrays = salvage.arrays()
        _copy_compilation(writer, salvage, arrays, source)
        n_patterns = _copy_patterns(writer, arrays)
        writer.commit("compiled")
        runs, lost = _copy_runs(writer, salvage, arrays, n_patterns)
        sentence = f"Recovered from {source.name}: {runs:,} sound runs"
        if lost:
            sentence += f"; {len(lost):,} damaged ones were left out"
        row = {"severity": "warning", "code": "recovered", "message": sentence}
        writer.add(notice, [row])
        final = writer.finish(ended_early=True)
    problems = check_report(final)
    if problems:
        final.unlink()
        raise DamagedReport(
            f"Cannot recover {source}: its compilation is inconsistent: {problems[0].sentence}"
        )
    return Recovery(final, runs, lost)


@contextmanager
def _private_copy(source: Path) -> Iterator[GuardedConnection]:
    """Open a copy of a report file and its side files.

    Raises
    ------
    ReportNotFound
        The file cannot be read.
    """
    directory = Path(tempfile.mkdtemp(prefix="tilescope-"))  # readable by this user only
    try:
        try:
            copy = copy_snapshot(regular_file(source), directory)
        except OSError as error:
            raise ReportNotFound(
                f"Cannot read {source}: {error.strerror}. Expected a report file."
            ) from error
        connection = GuardedConnection(copy, str(copy), apsw.SQLITE_OPEN_READWRITE, str(source))
        try:
            yield connection
        finally:
            connection.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _copy_compilation(
    writer: ReportWriter, salvage: Salvage, arrays: Mapping[str, SalvagedArray], source: Path
) -> None:
    """Copy tables and arrays of the compilation.

    Raises
    ------
    DamagedReport
        A part of it is not sound.
    """
    for table in TABLES.values():
        if table.name in _STORAGE or table.name in _BY_RUN:
            continue
        rows, n_damaged = salvage.rows(table)
        if n_damaged or (table is target and not rows):
            raise DamagedReport(
                f"Cannot recover {source}: table {table.name} of its compilation is damaged."
                " Run the program again to make a new report."
            )
        _add(writer, table, rows)
    for table in (notice, wall_clock):
        rows, _ = salvage.rows(table)
        compilation_rows = [
            row for row in rows if table is notice or row[table.place["run_id"]] is None
        ]
        _add(writer, table, [(number, *row[1:]) for number, row in enumerate(compilation_rows)])
    for name in ARRAYS:
        group = name.partition(".")[0]
        if group in _ARRAYS_BY_RUN or name == _PATTERNS or name not in arrays:
            continue
        if ARRAYS[name].sum_of is not None:  # the writer sums what is copied
            continue
        parts = arrays[name].prefix()
        if sum(map(len, parts)) != arrays[name].n_rows:
            raise DamagedReport(
                f"Cannot recover {source}: array {name} of its compilation is damaged."
                " Run the program again to make a new report."
            )
        _append(writer, name, parts)


def _copy_patterns(writer: ReportWriter, arrays: Mapping[str, SalvagedArray]) -> int:
    """Copy the sound patterns of cycles; return their number."""
    parts = arrays[_PATTERNS].prefix() if _PATTERNS in arrays else []
    _append(writer, _PATTERNS, parts)
    return sum(map(len, parts))


def _copy_runs(
    writer: ReportWriter, salvage: Salvage, arrays: Mapping[str, SalvagedArray], n_patterns: int
) -> tuple[int, tuple[str, ...]]:
    """Copy runs that are sound; return their number, and the names of the others."""
    tracks: dict[int, list[tuple[Any, ...]]] = {}
    for row in salvage.rows(run_trace)[0]:
        tracks.setdefault(row[1], []).append(row[2:])
    clocks = {row[2]: row for row in salvage.rows(wall_clock)[0] if row[2] is not None}
    n_steps = len(salvage.rows(step)[0])
    n_ipus = salvage.rows(target)[0][0][target.place["n_ipus"]]
    runs = salvage.rows(run)[0]
    last = np.zeros(n_ipus, np.int64)
    trace = TraceWriter(writer)
    copied = 0
    sound_ids = {row[0] for row in runs}
    lost = [row[1] for row in salvage.readable(run) if row[0] not in sound_ids]
    for run_id, name, program, start, end, is_data_dependent in runs:
        sound = _sound_tracks(tracks.get(run_id, []), arrays, n_ipus, (n_steps, n_patterns))
        begins = {track.ipu_id: track.start_cycle for track in sound}
        ends = {track.ipu_id: track.end_cycle for track in sound}
        is_sound = (
            sorted({track.ipu_id for track in sound if track.track == 0}) == list(range(n_ipus))
            and (start, end) == (min(begins.values()), max(ends.values()))
            and all(begins[ipu_id] >= last[ipu_id] for ipu_id in begins)
        )
        if not is_sound:
            lost.append(name)
            continue
        last[list(ends)] = list(ends.values())
        starts = np.zeros((1, n_ipus), np.int64)
        starts[0, list(begins)] = list(begins.values())
        values = (copied, name, program, start, end, bool(is_data_dependent))
        writer.add(run, [dict(zip(run.place, values, strict=True))])
        trace.add([copied], starts, [[track.from_start() for track in sound]])
        if run_id in clocks:
            event, _, began_us, duration_us = clocks[run_id][1:]
            row = ("event", event), ("run_id", copied)
            times = ("wall_start_us", began_us), ("wall_duration_us", duration_us)
            writer.add(wall_clock, [dict((*row, *times))])
        copied += 1
    writer.commit("run")
    return copied, tuple(lost)


def _sound_tracks(
    rows: Sequence[tuple[Any, ...]],
    arrays: Mapping[str, SalvagedArray],
    n_ipus: int,
    limits: tuple[int, int],
) -> list[_Track]:
    """Return the tracks of a run; none unless all of them are there and plausible."""
    tracks = []
    for ipu_id, number, start, end, first, n, shift in rows:
        moved = {"start_cycle": shift or 0, "end_cycle": shift or 0}
        columns = [
            arrays[f"trace.{name}"].read(first, first + n)
            if n and f"trace.{name}" in arrays
            else (None if n else np.zeros(0, ARRAYS[f"trace.{name}"].dtype))
            for name in TRACE_COLUMNS
        ]
        present = [
            column + moved.get(name, 0)
            for name, column in zip(TRACE_COLUMNS, columns, strict=True)
            if column is not None
        ]
        if len(present) != len(TRACE_COLUMNS) or not 0 <= ipu_id < n_ipus or n < 0 or end < start:
            return []
        track = _Track(ipu_id, number, start, end, present)
        if not _is_plausible(track, *limits):
            return []
        tracks.append(track)
    return tracks


def _is_plausible(track: _Track, n_steps: int, n_patterns: int) -> bool:
    """Return whether entries are sorted, within their run, and of known steps and patterns."""
    step_id, start, end, period, count, pattern = track.columns
    if not len(step_id):
        return True
    last = end + period * (count.astype(np.int64) - 1)
    return bool(
        step_id.min() >= 0
        and step_id.max() < n_steps
        and pattern.min() >= 0
        and pattern.max() < n_patterns
        and count.min() >= 1
        and ((period > 0) == (count > 1)).all()
        and (end >= start).all()
        and (np.diff(start) >= 0).all()
        and start[0] >= track.start_cycle
        and last.max() <= track.end_cycle
    )


def _add(writer: ReportWriter, table: TableSpec, rows: Sequence[tuple[Any, ...]]) -> None:
    if rows:
        columns = zip(*rows, strict=True)
        writer.add_columns(table, dict(zip(table.place, map(list, columns), strict=True)))


def _append(writer: ReportWriter, name: str, parts: Sequence[np.ndarray]) -> None:
    for part in parts:
        writer.append(name, part if ARRAYS[name].columns != "one" else part[:, 0])
