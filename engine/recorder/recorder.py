"""Writes the report of one engine: the compilation at once, and every recorded run as it ends."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import EngineError, said
from tilescope.engine.fidelity import packaged_version
from tilescope.engine.options import EngineOptions, engine_directory
from tilescope.engine.recorder.beginning import begun_report
from tilescope.engine.recorder.digests import program_digests
from tilescope.engine.recorder.recording import FailureNote, Recording, warn_of_loss
from tilescope.engine.recorder.runs import RunRecord, RunWriter
from tilescope.engine.recorder.training import StepRecord
from tilescope.reports import ReportError, ReportInUse, ReportNotWritable, ReportWriter
from tilescope.reports.schema import engine_option, notice, provenance, wall_clock
from tilescope.tracepoints import note_fact, trace_id

if TYPE_CHECKING:
    from tilescope.engine.compiler.executable.executable import Executable
    from tilescope.engine.execute.timeline import Timeline

__all__ = ["Recorder"]

#: Messages of failures are cut after this many characters.
_MESSAGE_LENGTH = 10_000
_NOT_COUNTED = (
    "No run is recorded: debug.instrument is false, so that cycles were not counted; leave it out"
    " or set it to true"
)


class Recorder:
    """One report while it is being written; inactive when no report is requested.

    The report of an engine that is never closed is sealed when the engine is collected, or when the
    program ends.

    Parameters
    ----------
    recording
        The report being written; None for no report.
    executable
        The compiled program.
    n_recorded
        Maximum number of recorded runs.
    lost
        Reason why a requested report is not written.

    Attributes
    ----------
    is_on
        Whether runs are recorded; failures and steps of a training always are.
    """

    def __init__(
        self,
        recording: Recording | None,
        executable: Executable,
        n_recorded: int = 0,
        lost: str = "",
    ) -> None:
        self._recording = recording
        self._executable = executable
        self._n_recorded = n_recorded
        self._n_runs = 0
        self._lost = lost
        self.is_on = True
        #: Whether the last run is in the report.
        self._has_run = False

    @property
    def path(self) -> Path | None:
        """Path of the sealed report; None before, or without a report."""
        return None if self._recording is None else self._recording.path

    @property
    def written_path(self) -> Path | None:
        """Path of the report, sealed or not; None without a report."""
        return None if self._recording is None else self._recording.written_path

    @property
    def lost(self) -> str:
        """Reason why the report is missing or ended before the run; empty if neither."""
        return self._lost if self._recording is None else self._recording.lost

    @classmethod
    def start(
        cls,
        executable: Executable,
        options: EngineOptions,
        name: str,
        facts: Mapping[str, str],
    ) -> Recorder:
        """Begin a report if the options request one, and write the compilation into it.

        A report that cannot be written costs no results: the reason is in `lost`, and a warning.

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

        Notes
        -----
        While another engine writes a report into the directory, this one goes into a subdirectory
        ``engine2``, ``engine3`` and so on.
        """
        if not options.writes_report:
            return cls(None, executable)
        try:
            directory = engine_directory(options, name)
            writer, patterns = begun_report(directory, executable, options)
        except (ReportInUse, ReportNotWritable) as error:
            return cls._without_report(executable, error)
        try:
            _write_header(writer, executable, options, name, facts)
            if options.wants_execution_profile and not options.writes_execution_profile:
                row = {"severity": "info", "code": "not_instrumented", "message": _NOT_COUNTED}
                writer.add(notice, [row])
            writer.commit("compiled")
        except ReportNotWritable as error:
            writer.abandon()
            return cls._without_report(executable, error)
        except BaseException:
            writer.abandon()
            raise
        recording = Recording(writer, RunWriter(writer, patterns, executable.machine.n_ipus))
        n_recorded = options.profiled_runs if options.writes_execution_profile else 0
        return cls(recording, executable, n_recorded)

    @classmethod
    def _without_report(cls, executable: Executable, error: ReportError) -> Recorder:
        warn_of_loss(str(error))
        return cls(None, executable, lost=str(error))

    @property
    def is_recording(self) -> bool:
        """Whether the next run is recorded."""
        return self._recording is not None and self.is_on and self._n_runs < self._n_recorded

    def record_run(
        self,
        name: str,
        program: int,
        timelines: Callable[[], Sequence[Timeline]],
        start: NDArray[np.int64],
        wall_start_us: int,
        wall_duration_us: int,
    ) -> None:
        """Add a run, unless recording is off or the maximum number of runs is recorded.

        Parameters
        ----------
        name
            Name of the run; numbered when empty.
        program
            Index of the control program.
        timelines
            Returns those of the run, per IPU, starting at cycle 0; called if the run is recorded.
        start : ndarray of int64, shape (n_ipus,)
            Cycle counters of the IPUs at the start of the run.
        wall_start_us, wall_duration_us
            Wall-clock time of the simulator, microseconds.
        """
        recording = self._recording
        self._has_run = False
        if recording is None or not self.is_recording:
            return
        self._n_runs += 1
        is_data_dependent = not self._executable.roots[program].is_static
        recording.put(
            RunRecord(
                name,
                program,
                timelines(),
                start,
                wall_start_us,
                wall_duration_us,
                is_data_dependent,
            )
        )
        self._has_run = True

    def record_step(
        self, step: int, epoch: int, loss: float, rate: float, overflows: Mapping[str, int]
    ) -> None:
        """Add a step of a training, with the run before it if that was recorded."""
        if self._recording is not None:
            self._recording.put(StepRecord(step, epoch, loss, rate, self._has_run, overflows))

    @contextmanager
    def noting_failure(self, action: str) -> Iterator[None]:
        """Record an exception that ends a run early; it propagates to the caller.

        Parameters
        ----------
        action
            The operation in progress.
        """
        recording = self._recording
        if recording is None:
            yield
            return
        recording.unfinished = action
        try:
            yield
        except Exception as error:
            self._note_failure(action, error)
            recording.unfinished = ""
            raise
        except BaseException as error:  # an interrupt: the report ends early unless a run follows
            self._note_failure(action, error)
            raise
        recording.unfinished = ""

    def _note_failure(self, action: str, error: BaseException) -> None:
        self._has_run = False
        if self._recording is None:
            return
        if isinstance(error, EngineError):
            code, reason = error.code, str(error).partition("\n")[0]
        else:
            code = "internal" if isinstance(error, Exception) else "interrupted"
            reason = said(error)
        message = f"{action} failed and has no trace: {reason}"
        self._recording.put(FailureNote(code, message[:_MESSAGE_LENGTH]))

    def note_start(self) -> None:
        """Note that the engine is whole; an interrupt before this ends the report early."""
        if self._recording is not None:
            self._recording.unfinished = ""

    def flush(self) -> None:
        """Return when all recorded runs are durable, or the report is lost."""
        if self._recording is not None:
            self._recording.flush()

    def finish(self, *, ended_early: bool | None = None) -> None:
        """Seal the report; safe to call twice.

        Parameters
        ----------
        ended_early
            Whether an error ends the program; None if that depends on whether the last operation
            was interrupted.
        """
        if self._recording is not None:
            self._recording.end(is_early=ended_early)


def _write_header(
    writer: ReportWriter,
    executable: Executable,
    options: EngineOptions,
    name: str,
    facts: Mapping[str, str],
) -> None:
    """Write provenance, times and options."""
    target_options = executable.machine.target_options
    graph_digest, weights_digest = program_digests(executable)
    created, trace = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}Z", trace_id()
    values = {
        **facts,
        "graph_digest": graph_digest,
        "weights_digest": weights_digest,
        **({"target_options": json.dumps(dict(target_options))} if target_options else {}),
        "engine_name": name,
        "fidelity_version": packaged_version(),
        "tilescope_version": _version("tilescope"),
        "python_version": platform.python_version(),
        "numpy_version": _version("numpy"),
        "numba_version": _version("numba"),
        "wall_compile_cache": executable.record.cache,
        "wall_created": created,
        **({} if trace is None else {"wall_host_trace": trace}),
    }
    note_fact("profile", f"{created} {writer.path.parent.name}")
    writer.add(provenance, [{"key": k, "value": v} for k, v in sorted(values.items())])
    record = executable.record
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
            for record in options.records()
        ],
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
