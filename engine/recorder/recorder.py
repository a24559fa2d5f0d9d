"""Writes the report of one engine: the compilation at once, and every recorded run as it ends."""

from __future__ import annotations

import json
import logging
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import EngineError, said
from tilescope.engine.options import EngineOptions, engine_directory
from tilescope.engine.recorder.compilation import write_compilation
from tilescope.engine.recorder.digests import program_digests
from tilescope.engine.recorder.place import new_report
from tilescope.reports import ReportNotWritable, ReportWriter
from tilescope.reports.schema import engine_option, notice, provenance, run, run_trace, wall_clock

if TYPE_CHECKING:
    from tilescope.engine.compiler.executable import Executable
    from tilescope.engine.execute.timeline import Timeline

__all__ = ["Recorder"]

_log = logging.getLogger(__name__)

#: Maximum count of a trace entry, which is stored in 32 bits.
_MOST_COUNT = (1 << 31) - 1
_SPREAD = (
    "Nested loops ran more often than the trace records individually: execution counts and times"
    " are exact, but some executions are spread evenly over their loop"
)
_NOT_COUNTED = (
    "No run is recorded: debug.instrument is false, so that cycles were not counted; leave it out"
    " or set it to true"
)


class Recorder:
    """One report while it is being written; inactive when no report is requested.

    Parameters
    ----------
    writer
        Writer of the report; None for no report.
    options
        Selects the parts of the report.
    """

    def __init__(
        self, writer: ReportWriter | None, options: EngineOptions, executable: Executable
    ) -> None:
        self._writer = writer
        self._options = options
        self._executable = executable
        self._pattern_of_step: NDArray[np.int32] = np.zeros(0, np.int32)
        self._n_runs = 0
        self._n_entries = 0
        #: Path of the finished report; None before, or without a report.
        self.path: Path | None = None
        #: Reason why the report is incomplete; empty if it is complete, or without a report.
        self.lost = ""

    @classmethod
    def start(
        cls,
        executable: Executable,
        options: EngineOptions,
        name: str,
        facts: Mapping[str, str],
    ) -> Recorder:
        """Begin a report if the options request one, and write the compilation into it.

        Parameters
        ----------
        executable
            The compiled program.
        options
            Directory and parts of the report.
        name
            Name of the engine; a named engine uses a subdirectory.
        facts
            Provenance, besides versions and the machine.

        Raises
        ------
        ReportInUse, ReportNotWritable
            When the report cannot be created.

        Notes
        -----
        While another engine writes a report into the directory, this one goes into a subdirectory
        ``engine2``, ``engine3`` and so on.
        """
        if not options.writes_report:
            return cls(None, options, executable)
        writer = new_report(engine_directory(options, name))
        recorder = cls(writer, options, executable)
        try:
            recorder._write_header(name, facts)
            recorder._pattern_of_step = write_compilation(writer, executable, options)
            if options.wants_execution_profile and not options.writes_execution_profile:
                row = {"severity": "info", "code": "not_instrumented", "message": _NOT_COUNTED}
                writer.add(notice, [row])
            writer.commit("compiled")
        except BaseException:
            writer.abandon()
            raise
        return recorder

    def _write_header(self, name: str, facts: Mapping[str, str]) -> None:
        writer = self._writer
        if writer is None:
            return
        target_options = self._executable.machine.target_options
        graph_digest, weights_digest = program_digests(self._executable)
        values = {
            **facts,
            "graph_digest": graph_digest,
            "weights_digest": weights_digest,
            **({"target_options": json.dumps(dict(target_options))} if target_options else {}),
            "engine_name": name,
            "tilescope_version": _version("tilescope"),
            "python_version": platform.python_version(),
            "numpy_version": _version("numpy"),
            "numba_version": _version("numba"),
            "wall_compile_cache": self._executable.record.cache,
            "wall_created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        writer.add(provenance, [{"key": k, "value": v} for k, v in sorted(values.items())])
        record = self._executable.record
        writer.add(
            wall_clock,
            [
                {
                    "event": "compile",
                    "run_id": None,
                    "wall_start_us": record.wall_start_us,
                    "wall_duration_us": record.wall_duration_us,
                }
            ],
        )
        writer.add(
            engine_option,
            [
                {
                    "name": record.name,
                    "value": record.value,
                    "origin": record.origin,
                    "has_effect": record.has_effect,
                }
                for record in self._options.records()
            ],
        )

    def record_run(
        self,
        name: str,
        program: int,
        timelines: Sequence[Timeline],
        start: NDArray[np.int64],
        wall_start_us: int,
        wall_duration_us: int,
    ) -> None:
        """Add a run, unless the maximum number of runs is recorded.

        Parameters
        ----------
        name
            Name of the run; numbered when empty.
        program
            Index of the control program.
        timelines
            Per IPU, starting at cycle 0.
        start : ndarray of int64, shape (n_ipus,)
            Cycle counters of the IPUs at the start of the run.
        wall_start_us, wall_duration_us
            Wall-clock time of the simulator, microseconds.
        """
        writer = self._writer
        is_wanted = self._options.writes_execution_profile
        if writer is None or not is_wanted or self._n_runs >= self._options.profiled_runs:
            return
        run_id = self._n_runs
        self._n_runs += 1
        ends = start + np.array([timeline.n_cycles for timeline in timelines], dtype=np.int64)
        writer.add(
            run,
            [
                {
                    "run_id": run_id,
                    "name": name or f"run {run_id}",
                    "program_index": program,
                    "start_cycle": int(start.min()),
                    "end_cycle": int(ends.max()),
                    "is_data_dependent": not self._executable.roots[program].is_static,
                }
            ],
        )
        for ipu_id, timeline in enumerate(timelines):
            self._write_track(writer, run_id, ipu_id, 0, timeline, int(start[ipu_id]))
            if timeline.io is not None:
                self._write_track(writer, run_id, ipu_id, 1, timeline.io, int(start[ipu_id]))
        if any(track.has_spread or (track.io and track.io.has_spread) for track in timelines):
            writer.add(notice, [{"severity": "info", "code": "loops_spread", "message": _SPREAD}])
        writer.add(
            wall_clock,
            [
                {
                    "event": "run",
                    "run_id": run_id,
                    "wall_start_us": wall_start_us,
                    "wall_duration_us": wall_duration_us,
                }
            ],
        )
        self._keep(writer, "run")

    @contextmanager
    def noting_failure(self, what: str) -> Iterator[None]:
        """Record an exception that ends a run early; it propagates to the caller.

        Parameters
        ----------
        what
            The operation in progress.
        """
        try:
            yield
        except BaseException as error:
            self._note_failure(what, error)
            raise

    def _note_failure(self, what: str, error: BaseException) -> None:
        writer = self._writer
        if writer is None:
            return
        if isinstance(error, EngineError):
            code, reason = error.code, str(error).partition("\n")[0]
        else:
            code = "interrupted" if isinstance(error, KeyboardInterrupt) else "internal"
            reason = said(error)
        message = f"{what} failed and has no trace: {reason}"
        writer.add(notice, [{"severity": "error", "code": code, "message": message}])
        self._keep(writer, "run failed")

    def _write_track(
        self,
        writer: ReportWriter,
        run_id: int,
        ipu_id: int,
        track: int,
        timeline: Timeline,
        start: int,
    ) -> None:
        n_ipus = self._executable.machine.n_ipus
        timeline = timeline.with_counts_up_to(_MOST_COUNT)
        n = timeline.step_id.size
        writer.add(
            run_trace,
            [
                {
                    "run_id": run_id,
                    "ipu_id": ipu_id,
                    "track": track,
                    "start_cycle": start,
                    "end_cycle": start + timeline.n_cycles,
                    "first_entry": self._n_entries,
                    "n_entries": n,
                }
            ],
        )
        self._n_entries += n
        writer.append("trace.step_id", timeline.step_id)
        writer.append("trace.start_cycle", timeline.start + start)
        writer.append("trace.end_cycle", timeline.end + start)
        writer.append("trace.period", timeline.period)
        writer.append("trace.count", timeline.count)
        rows = timeline.step_id.astype(np.int64) * n_ipus + ipu_id
        patterns = self._pattern_of_step[rows]
        for entry, tile_cycles in timeline.patterns.items():
            patterns[entry] = writer.pattern("cycles.pattern", tile_cycles)
        writer.append("trace.pattern_id", patterns)

    def _keep(self, writer: ReportWriter, milestone: str) -> None:
        """Commit; a full disk ends the report, never the profiled program."""
        try:
            writer.commit(milestone)
        except ReportNotWritable as error:
            _log.warning("warning: %s", error)
            self.lost = str(error)
            writer.abandon()
            self._writer = None

    def finish(self) -> None:
        """Finalise the report; safe to call twice."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            self.path = writer.finish()
        except ReportNotWritable as error:
            _log.warning("warning: %s", error)
            self.lost = str(error)
        finally:
            writer.abandon()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
