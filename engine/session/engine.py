"""The user-facing engine: a device with options whose runs are recorded in a report."""

from __future__ import annotations

import queue
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

from tilescope.engine.arguments import a_count, a_kind, a_number, a_switch, a_text, shown
from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.errors import BadGraph, BadInput, OutOfTileMemory
from tilescope.engine.execute import Device
from tilescope.engine.execute.profile_summary import profile_summary
from tilescope.engine.options import EngineOptions, resolve
from tilescope.engine.options.catalogue import PROFILED_REPLICA
from tilescope.engine.recorder import Recorder
from tilescope.reports import Report, open_report
from tilescope.reports.schema.vocabulary import TRAINING_PASSES

__all__ = ["Engine"]

#: Exceptions by which programs find the end of their data, and then close their engine.
_ENDS_OF_DATA = (StopIteration, StopAsyncIteration, EOFError, LookupError, queue.Empty)

#: Limits of numbers in a report.
_MOST_STEPS = 2**53
_MOST_RATE = 1e18
_MOST_VALUES = 2**53


class Engine(Device):
    """Runs one executable on the simulated machine.

    Parameters
    ----------
    executable
        Result of `engine.compile_programs`.
    options
        Engine options; if None, those of the environment.
    name
        Name of the engine; its report goes to a directory of that name.
    provenance
        Facts for the report: model name and hash, seed.
    n_computed_replicas
        Replicas whose values are computed, the first ones; None for all. The others are costed, and
        hold what those hold, which the report says.

    Raises
    ------
    BadGraph
        When an argument has the wrong type.
    BadOption
        When the environment's options are malformed.
    OutOfTileMemory
        When the program does not fit and ``debug.allowOutOfMemory`` is off.
    """

    def __init__(
        self,
        executable: Executable,
        options: EngineOptions | None = None,
        *,
        name: str = "",
        provenance: Mapping[str, str] | None = None,
        n_computed_replicas: int | None = None,
    ) -> None:
        if not isinstance(executable, Executable):
            raise BadGraph(
                f"Expected the result of compile_programs, got a {type(executable).__name__}"
            )
        if options is not None:
            a_kind(
                "The options of an engine", options, EngineOptions, "the result of resolve_options"
            )
        facts = {} if provenance is None else provenance
        a_kind("The provenance of an engine", facts, Mapping, "a dictionary of strings")
        for key, value in facts.items():
            a_text(f"The provenance {shown(key)}", value)
        self.options = resolve() if options is None else options
        machine = executable.machine
        if n_computed_replicas is not None and n_computed_replicas != machine.n_replicas:
            facts = {**facts, "computed_replicas": f"{n_computed_replicas} of {machine.n_replicas}"}
        self.recorder = Recorder.start(
            executable, self.options, a_text("The name of an engine", name), facts
        )
        super().__init__(
            executable,
            self.recorder,
            n_computed_replicas=n_computed_replicas,
            profiled_replica=self.options.count(PROFILED_REPLICA),
        )
        if not self.options.allow_out_of_memory:
            self._check_fits()
        self.recorder.note_start()

    def _check_fits(self) -> None:
        """Finalise the report, which shows the memory use, before the error is raised.

        Raises
        ------
        OutOfTileMemory
            When the program does not fit.
        """
        try:
            super()._check_fits()
        except OutOfTileMemory as error:
            self.recorder.finish(ended_early=False)
            self._release()
            if self.recorder.path is None:
                raise
            raise OutOfTileMemory(f"{error}\nProfile saved to: {self.recorder.path}") from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *_: object
    ) -> None:
        """Close the engine; an exception ends its report early."""
        if error is not None and not _is_exit(error):
            self.recorder.finish(ended_early=True)
        self.close()

    def close(self) -> None:
        """Seal the report and release the resources of the device; safe to call twice.

        While an exception is on its way or being handled, the report ends early, unless it is one
        by which programs find the end of their data.

        Raises
        ------
        EngineBusy
            When a callback of the run calls it.
        """
        error = sys.exception()
        is_regular = error is None or _is_exit(error) or isinstance(error, _ENDS_OF_DATA)
        if not is_regular and not self._is_closed:
            self.recorder.finish(ended_early=True)
        super().close()

    def _release(self) -> None:
        self.recorder.finish()
        super()._release()

    @contextmanager
    def recording(self, is_on: bool) -> Iterator[None]:
        """Return a context whose runs are recorded, or are not: a report of chosen steps.

        Runs that are not recorded are executed all the same, and the cycle counters advance. A
        failure is recorded in either case. Contexts may be nested: the innermost counts.

        Parameters
        ----------
        is_on
            Whether to record the runs; the largest number of them,
            ``autoReport.executionProfileProgramRunCount``, applies as well.

        Raises
        ------
        BadGraph
            When the argument is neither True nor False.
        """
        before = self.recorder.is_on
        self.recorder.is_on = a_switch("The argument of recording", is_on)
        try:
            yield
        finally:
            self.recorder.is_on = before

    def record_step(
        self,
        step: int,
        epoch: int,
        loss: float,
        rate: float,
        *,
        overflows: Mapping[str, int] | None = None,
    ) -> None:
        """Record a step of a training: a point of the loss curve of the report.

        A step is recorded whether or not its run is. Like a run, it is durable within a second.

        Parameters
        ----------
        step, epoch
            Numbers, as the program counts.
        loss
            Loss of the step; may be infinite or not a number, which the report says.
        rate
            Learning rate of the step.
        overflows
            Values that were beyond half, by pass: ``forward``, ``data gradient``, ``weight
            gradient``, ``weight update``.

        Raises
        ------
        BadGraph
            When an argument is not a number, or is out of range, or a pass does not exist.
        EngineClosed
            When the engine is closed.
        """
        self._check_open()
        step = a_count("The number of the step", step, 0, _MOST_STEPS)
        epoch = a_count("The number of the epoch", epoch, 0, _MOST_STEPS)
        learning_rate = a_number("The learning rate", rate)
        if not 0 <= learning_rate <= _MOST_RATE:
            raise BadGraph(f"The learning rate is {learning_rate:g}: expected 0 to {_MOST_RATE:g}")
        counts = {
            kind: a_count(f"The number of overflows of pass {kind!r}", n, 0, _MOST_VALUES)
            for kind, n in (overflows or {}).items()
        }
        for kind in counts:
            if kind not in TRAINING_PASSES:
                allowed = ", ".join(TRAINING_PASSES)
                raise BadGraph(f"Overflows of pass {kind!r}: expected {allowed}")
        self.recorder.record_step(step, epoch, a_number("The loss", loss), learning_rate, counts)

    def flush_report(self) -> None:
        """Return when all recorded runs and steps are durable in the report; they are in a second.

        Later ones are recorded as before. Without a report, this does nothing.
        """
        self.recorder.flush()

    def print_profile_summary(
        self,
        *,
        show_execution_steps: bool = False,
        show_var_storage: bool = False,
        show_per_ipu_memory_usage: bool = False,
        show_optimizations: bool = False,
        file: TextIO | None = None,
    ) -> None:
        """Print the resources of the program and the cycles of the last run, as Poplar does.

        Parameters
        ----------
        show_execution_steps
            Whether to list every step that ran.
        show_var_storage
            Whether to list the largest live variables at each step.
        show_per_ipu_memory_usage
            Whether to repeat the memory section for every IPU.
        show_optimizations
            Whether to list the selected plans.
        file
            Output stream; standard output if None.
        """
        last = self._last_program
        text = profile_summary(
            self.executable,
            None if last is None else self.timelines(last),
            show_execution_steps=show_execution_steps,
            show_var_storage=show_var_storage,
            show_per_ipu_memory_usage=show_per_ipu_memory_usage,
            show_optimizations=show_optimizations,
        )
        (sys.stdout if file is None else file).write(text)

    def get_report(self) -> Report:
        """Finish the report and open it; later runs are not recorded.

        Raises
        ------
        BadInput
            When this engine writes no report, or its report is incomplete.
        ReportNotFound, DamagedReport
            When the report was removed or changed in the meantime.
        """
        self.recorder.finish()
        if self.recorder.path is None:
            if self.recorder.lost:
                raise BadInput(f"The report of this engine was lost: {self.recorder.lost}")
            raise BadInput(
                "This engine wrote no report: set POPLAR_ENGINE_OPTIONS to"
                ' {"autoReport.all": "true", "autoReport.directory": "./report"}, or pass these'
                " options to Engine"
            )
        return open_report(self.recorder.path)


def _is_exit(error: BaseException) -> bool:
    """Return whether an exception leaves a program or a generator as it should be left."""
    if isinstance(error, SystemExit):
        return not error.code
    return isinstance(error, GeneratorExit)
