"""Reports and cycle counts of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from popart.enums import DeviceType, Instrumentation
from popart.errors import popart_exception, popart_runtime_error, poplar_exception
from popart.reports import open_report, summary, write_program_report
from popart.session.engine_errors import as_popart
from popart.session.running import RunningSession
from tilescope.engine.session.engine import Engine

if TYPE_CHECKING:
    from tilescope.engine.session.compiled_model import CompiledModel

__all__ = ["ReportedSession"]


class ReportedSession(RunningSession):
    """A session that reports what ran."""

    def getCycleCount(self, id: str = "") -> int:
        """Return the cycles of the last call of `run`.

        Parameters
        ----------
        id
            Empty for all batches on the slowest IPU, ``inner_ipu_0`` for one micro-batch on an IPU.

        Raises
        ------
        popart_runtime_error
            When nothing ran, ``instrumentWithHardwareCycleCounter`` is off, or
            ``hardwareInstrumentations`` does not have what is asked for.
        """
        if not self._has_run:
            raise popart_runtime_error("Must call run before getCycleCount.")
        if not self._options.instrumentWithHardwareCycleCounter:
            raise popart_runtime_error(
                "SessionOption 'instrumentWithHardwareCycleCounter' must be set to true in order to"
                " measure cycle count"
            )
        _, engine = self._prepared("cycleCountTensorToHost()")
        counts: dict[str, int] = {}
        kinds = self._options.hardwareInstrumentations
        if Instrumentation.Outer in kinds:
            counts[""] = int(self._cycles.max())
        if Instrumentation.Inner in kinds:
            inner = engine.n_cycles()
            counts |= {f"inner_ipu_{ipu}": int(n) for ipu, n in enumerate(inner)}
        if id not in counts:
            raise popart_runtime_error(
                f"Invalid id for cycle counter, '{id}'. Make sure you have set"
                " SessionOption::hardwareInstrumentations correctly."
            )
        return counts[id]

    def _reported(self) -> tuple[CompiledModel, Engine]:
        """Return the program and its engine, of which there can be reports.

        Raises
        ------
        popart_runtime_error
            When there are none.
        """
        if self._compiled is None or self._engine is None:
            raise popart_runtime_error(
                "Session must have been prepared before a report can be fetched"
            )
        if self._file is not None:
            raise popart_runtime_error(
                "Unable to get reports when using a cached executable.\nEither remove the cache"
                f" file ({self._file}), or \ndisable engine caching"
                " (userOptions.enableEngineCaching = false)"
            )
        return self._compiled, self._engine

    def getReport(self) -> Any:
        """Return the report so far, as libpva opens it.

        Where the options ask for no report, it is one of the program, without runs.

        Raises
        ------
        popart_runtime_error
            When the device is not prepared, or the program is from a file.
        """
        compiled, engine = self._reported()
        engine.flush_report()
        path = engine.recorder.written_path
        if path is None:
            path = self._directory("report")
            if not any(path.iterdir()):
                with as_popart():
                    write_program_report(compiled.executable, path)
        return open_report(path)

    def getSummaryReport(self, resetProfile: bool = True) -> str:
        """Return the summary of the report as text.

        Raises
        ------
        poplar_exception
            When the device is a CPU.
        popart_runtime_error
            When the device is not prepared, or the program is from a file.
        """
        del resetProfile  # a report has all runs
        _, engine = self._reported()
        if self._device.type is DeviceType.Cpu:
            raise poplar_exception("Profiling is disabled for current device type.")
        with as_popart():
            return summary(engine, dict(self._options.reportOptions))

    def getSerializedGraph(self) -> bytes:
        """Return the compiled program in the engine's own form.

        Raises
        ------
        popart_runtime_error
            When the device is not prepared, or the program is from a file.
        """
        compiled, _ = self._reported()
        with as_popart():
            return compiled.executable.to_bytes()

    def _serializeIr(self, format: object) -> str:
        """Refuse: PopART's intermediate form does not exist here."""
        del format
        raise popart_exception(
            "There is no IR of PopART's to serialise: the engine compiles its own operator graph."
            " The report shows its operations (engineOptions['autoReport.all'] = 'true')"
        )
