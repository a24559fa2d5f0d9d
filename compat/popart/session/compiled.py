"""The program of a session: compiled, taken from a file or a cache, kept, loaded."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from popart.compilation import compiled_for, engine_options_of, question_of
from popart.debug_info import record_contexts
from popart.enums import DeviceConnectionType
from popart.errors import (
    OutOfMemoryException,
    popart_exception,
    popart_runtime_error,
)
from popart.executable_file import export_file, load_program, save_program
from popart.logger import Logger
from popart.optimizer_states import saved_states
from popart.poplibs_log import log_plans
from popart.refusals import check_types
from popart.reports import summary_of_program, write_program_report
from popart.session.engine_errors import as_popart
from popart.session.stated import StatedSession
from popart.virtual_graphs import check_ipus
from tilescope.engine.compiler.memory.overflow import describe_overflow
from tilescope.engine.errors import OutOfTileMemory
from tilescope.engine.options import EngineOptions
from tilescope.engine.session.engine import Engine
from tilescope.engine.session.program_file import ProgramQuestion

if TYPE_CHECKING:
    from tilescope.engine.session.compiled_model import CompiledModel

__all__ = ["CompiledSession"]

_DEVICEX, _SESSION = Logger("devicex"), Logger("session")


def _to_standard_error(line: str) -> None:
    """Write what a program prints where Poplar does."""
    sys.stderr.write(f"{line}\n")


class CompiledSession(StatedSession):
    """A session with its program."""

    def prepareDevice(self, loadEngine: bool = True, err: object = None) -> None:
        """Compile the model, or take its program from a file, and load it on the device.

        Raises
        ------
        OutOfMemoryException
            When it does not fit.
        poplar_exception
            When an engine option is unknown, or a type has no arithmetic.
        popart_exception
            When it cannot be compiled.
        """
        del err  # exceptions are raised
        if not self._options.compileEngine:
            _DEVICEX.info("Not compiling engine by request")
            return
        check_types(self._proto, self._loaded.model)
        check_ipus(self._loaded.model, self._device)
        with as_popart(self._proto):
            options = engine_options_of(self._options)
            question = question_of(self._model, self._device.machine, self._options, options)
            cached = self._cached(question)
            self._compiled = self._program(question, options, cached)
            self._states = self._states_of(self._compiled)
            self._engine = self._engine_of(self._compiled, options)
            if self._file is not None and self._engine.recorder.written_path is not None:
                _DEVICEX.info(f"Restoring profiles from cache: {self._file.parent}")
            if cached is not None and self._file is None:
                self._keep(question, self._compiled, cached)
        self._is_loaded = False
        if loadEngine and self._device.connectionType is not DeviceConnectionType.Never:
            self.loadEngineAndConnectStreams()

    def _cached(self, question: ProgramQuestion) -> Path | None:
        """Return the file of the cache that has the program, or will have it; None without one."""
        asked = self._options
        if not (asked.enableEngineCaching and asked.cachePath and self._device.can_compile_offline):
            return None
        anchors = [(n, a.id().name, a.rp() if a.id().name == "EveryN" else 0)
                   for n in self._flow.anchors() for a in [self._flow.art(n)]]  # fmt: skip
        stated = sorted((str(k), str(v)) for k, v in dict(asked.engineOptions).items())
        stated = [(k, v) for k, v in stated if not k.startswith("autoReport.")]
        name = question.cache_name(self._flow.batchesPerStep(), anchors, stated)
        if not name:
            _SESSION.warn("The program is not cached: an operator of its model has no digest")
        return Path(asked.cachePath) / name if name else None

    def _program(
        self, question: ProgramQuestion, options: EngineOptions, cached: Path | None
    ) -> CompiledModel:
        """Return the program of a file, or compile it."""
        if self._file is None and cached is not None and cached.is_file():
            self._file = cached
            _SESSION.info(f"Loading serialized PopART executable from {cached}")
        if self._file is not None:
            return load_program(question, self._file, self._directory("program"))
        _DEVICEX.debug("Starting compilation")
        compiled = compiled_for(question, options)
        _DEVICEX.info("Graph compiled")
        log_plans(compiled.executable.plans, question.machine)
        graph = self._proto.graph
        tensors = dict.fromkeys(t.name for t in (*graph.input, *graph.initializer))
        record_contexts([*tensors, *(n.name for n in graph.node if n.name)], compiled.executable)
        return compiled

    def _states_of(self, compiled: CompiledModel) -> dict[str, str]:
        """Return the states that the model is saved with, by kind and then by weight."""
        if self._trained is None:
            return {}
        weights = [p.name for p in self._model.parameters if p.is_trainable]
        held = {value.name for value in compiled.held}
        states = saved_states(weights, held, self._trained.optimizer)
        kinds = list(dict.fromkeys(name.partition("___")[0] for name in states))
        names = sorted(states, key=lambda name: kinds.index(name.partition("___")[0]))
        return {name: states[name] for name in names}

    def _engine_of(self, compiled: CompiledModel, options: EngineOptions) -> Engine:
        """Return the engine of a program.

        Raises
        ------
        OutOfMemoryException
            When it does not fit, with the report.
        """
        facts = {"model_name": self._proto.graph.name or self.name, "session": self.name}
        if self._model.training is not None:
            facts |= self._model.training.facts
        executable = compiled.executable
        try:
            engine = Engine(executable, options, name=self.name, provenance=facts)
            engine.print_line = _to_standard_error
            if not executable.overfull_tiles.size:
                return engine
            engine.close()
            path, message = engine.recorder.path, describe_overflow(executable)
        except OutOfTileMemory as error:
            path, message = None, str(error)
            if "\nProfile saved to: " in message:
                path = Path(message.rpartition("\nProfile saved to: ")[2])
        raise OutOfMemoryException(
            f"Out of memory: Cannot fit all variable data onto one or more tiles. {message}",
            summary_of_program(executable, dict(self._options.reportOptions)),
            "" if path is None else str(path.absolute()),
        )

    def _keep(self, question: ProgramQuestion, compiled: CompiledModel, file: Path) -> None:
        """Keep a program in the cache, with the report of its compilation if there is one."""
        file.parent.mkdir(parents=True, exist_ok=True)
        _DEVICEX.info(f"Saving serialized Executablex to {file}")
        reason = save_program(question, compiled, file)
        if reason:
            _SESSION.warn(f"The program is not cached: {reason}")
            return
        if self._engine is not None and self._engine.recorder.written_path is not None:
            _DEVICEX.info(f"Storing profiles to cache: {file.parent}")
            write_program_report(compiled.executable, file.parent, self.name)

    def loadEngineAndConnectStreams(self) -> None:
        """Load what `prepareDevice` compiled, and attach to the device if that is on demand.

        Raises
        ------
        popart_runtime_error
            When nothing is compiled, or the device cannot be attached to.
        """
        if self._device.connectionType is DeviceConnectionType.Never:
            raise popart_runtime_error("Trying to load an engine on an offline device")
        if self._engine is None:
            raise popart_runtime_error(
                "Trying to load an engine but no compiled engine. Did you forget to call"
                " prepareDevice()?"
            )
        on_demand = self._device.connectionType is DeviceConnectionType.OnDemand
        if on_demand and not self._whole_device.tryAttachUntilTimeout():
            raise popart_runtime_error("Failed to attach to device")
        with as_popart():
            self._engine.load()
        self._is_loaded = True
        _DEVICEX.info("Engine loaded")

    def _prepared(self, function: str) -> tuple[CompiledModel, Engine]:
        """Return the program and its engine.

        Raises
        ------
        popart_runtime_error
            When `prepareDevice` was not called.
        """
        if self._compiled is None or self._engine is None:
            raise popart_runtime_error(
                f"Devicex::prepare() must be called before Devicex::{function} is called."
            )
        return self._compiled, self._engine

    def _directory(self, name: str) -> Path:
        """Return a directory that goes with the session."""
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="popart-session-")
        folder = Path(self._scratch.name) / name
        folder.mkdir(exist_ok=True)
        return folder

    def compileAndExport(self, filename: str, err: object = None) -> None:
        """Compile the model, and write the program into a file.

        Parameters
        ----------
        filename
            The file, or a directory for a file ``executable.popef``.

        Raises
        ------
        OutOfMemoryException
            When it does not fit.
        OSError
            When a directory cannot be made.
        popart_exception
            When programs for the device cannot be saved.
        """
        del err  # exceptions are raised
        file = export_file(filename)
        self._check_offline()
        self.prepareDevice(loadEngine=False)
        self._save(file)

    def saveExecutable(
        self, path: str, savePopartMetadata: bool = True, saveVariables: bool = True
    ) -> None:
        """Write the program into a file, or into ``executable.popef`` of a directory.

        Raises
        ------
        popart_exception
            When nothing is compiled, or programs for the device cannot be saved.
        """
        del savePopartMetadata, saveVariables  # a session has both from its model
        self._check_offline()
        self._save(export_file(path))

    def loadExecutable(self, filename: str) -> None:
        """Take the program of a file in place of compiling one.

        Raises
        ------
        popart_exception
            When the file is missing.
        """
        file = Path(filename)
        if not file.is_file():
            raise popart_exception(f"Could not open file {filename}")
        self._file = file
        _SESSION.info(f"Loading serialized PopART executable from {filename}")

    def saveVariables(self, path: str) -> None:
        """Refuse: weights are saved with the model.

        Raises
        ------
        popart_exception
            Always.
        """
        raise popart_exception(
            f"saveVariables({path!r}) is not supported: modelToHost writes the model with its"
            " weights, saveExecutable the program"
        )

    def checkInplacingAmbiguity(self) -> None:
        """Do nothing: the compiler orders what is changed in place."""

    def updateEngineCache(self) -> None:
        """Do nothing: the cache is looked at when the device is prepared."""

    def _save(self, file: Path) -> None:
        if self._compiled is None:
            raise popart_runtime_error(
                "There is no executatable. Try calling Session::prepareDevice first."
            )
        with as_popart():
            options = engine_options_of(self._options)
            question = question_of(self._model, self._device.machine, self._options, options)
            reason = save_program(question, self._compiled, file)
        if reason:
            raise popart_exception(f"The program cannot be saved: {reason}")
        _DEVICEX.info(f"Saving serialized Executablex to {file}")

    def _check_offline(self) -> None:
        if not self._device.can_compile_offline:
            raise popart_exception(
                f"Executables for device type {self._device.type_name} cannot be saved"
            )

    def close(self) -> None:
        """Seal the report and release the device."""
        for part in ("_engine", "_scratch"):
            held = getattr(self, part, None)  # a session that was refused has none
            if isinstance(held, Engine):
                held.close()
            elif held is not None:
                held.cleanup()

    def __del__(self) -> None:
        """Seal the report of a session that is not used any more."""
        self.close()
