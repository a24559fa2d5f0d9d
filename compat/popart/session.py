"""Sessions: a model compiled for a device, and run step by step."""

from __future__ import annotations

import copy
import dataclasses
import sys
import tempfile
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import onnx
from numpy.typing import NDArray

from popart.anchor_values import AnchorValues
from popart.builder.attribute_effects import warn_of_attributes
from popart.builder.tensor import array_of, initializer_of
from popart.compilation import compiled_for, engine_options_of, question_of
from popart.data_flow import DataFlow
from popart.debug_info import record_contexts
from popart.device import DeviceInfo
from popart.enums import (
    AnchorReturnTypeId,
    DeviceConnectionType,
    DeviceType,
    Instrumentation,
    SyntheticDataMode,
)
from popart.errors import (
    OutOfMemoryException,
    popart_exception,
    popart_runtime_error,
    poplar_exception,
)
from popart.executable_file import ProgramQuestion, export_file, load_program, save_program
from popart.external_data import move_contents, with_contents, write_contents
from popart.loaded_model import LoadedModel, folder_of, proto_of
from popart.logger import Logger
from popart.losses import Loss, with_losses
from popart.names import reservedLossScalingPrefix
from popart.node_refusals import explanation
from popart.optimizer_states import saved_states
from popart.options import SessionOptions
from popart.options.effects import warn_without_effect
from popart.patterns import Patterns
from popart.pipelines import check_pipelining, in_pipeline, is_one_run, with_anchors
from popart.poplibs_log import log_plans
from popart.random_state import ROUNDING_SEED, RandomState
from popart.refusals import (
    check_model,
    check_products,
    check_types,
    refuse_options,
    refuse_several_ipus,
)
from popart.reports import open_report, summary, summary_of_program, write_program_report
from popart.required_patterns import check_required_patterns
from popart.sentences import in_words_of_popart
from popart.step_io import PyWeightsIO, StepIO
from popart.tensor_info import TensorInfo
from popart.training import FINAL_LOSS_SCALE, Trained, refuse_training_options
from popart.virtual_graphs import check_ipus, on_virtual_graphs
from tilescope.engine.compiler.memory.overflow import describe_overflow
from tilescope.engine.errors import EngineError, OutOfTileMemory
from tilescope.engine.ir import Model
from tilescope.engine.options import EngineOptions
from tilescope.engine.session.engine import Engine
from tilescope.engine.training.modes import SEED, drawing

if TYPE_CHECKING:
    from popart.optimizers import Optimizer
    from popart.tensor_info import InputShapeInfo
    from tilescope.engine.session.compiled_model import CompiledModel

__all__ = ["InferenceSession", "TrainingSession"]

Array = NDArray[Any]
_GRADIENT, _RESTORED = "Gradient___", "Restored___"

_DEVICEX, _SESSION = Logger("devicex"), Logger("session")


@contextmanager
def _as_popart(proto: onnx.ModelProto | None = None) -> Any:
    """Raise the engine's errors as PopART's; of a model, with what PopART says of its nodes."""
    try:
        yield
    except OutOfTileMemory as error:
        raise OutOfMemoryException(str(error)) from None
    except EngineError as error:
        said = None if proto is None else explanation(proto)
        raise popart_exception(said or in_words_of_popart(str(error))) from None


def _to_standard_error(line: str) -> None:
    """Write what a program prints where Poplar does."""
    sys.stderr.write(f"{line}\n")


class _Session:
    """What sessions of both kinds have.

    Attributes
    ----------
    _host
        Weights on the host, by name.
    """

    def __init__(
        self,
        fnModel: bytes | str | Path,
        dataFlow: DataFlow,
        deviceInfo: DeviceInfo,
        inputShapeInfo: InputShapeInfo | None,
        patterns: Patterns | None,
        userOptions: SessionOptions | None,
        name: str,
        trained: Trained | None,
    ) -> None:
        self._options = SessionOptions() if userOptions is None else copy.deepcopy(userOptions)
        self._flow, self._device, self.name = dataFlow, deviceInfo, name
        self._patterns = Patterns() if patterns is None else patterns
        self._proto = proto_of(fnModel)
        complete = with_contents(self._proto, folder_of(fnModel))
        self._trained = trained
        if trained is not None:
            trained.check(self._options)
        else:
            refuse_training_options(self._options)
        refuse_options(self._options)
        check_pipelining(self._options, deviceInfo)
        refuse_several_ipus(self._options, deviceInfo)
        self._check_patterns()
        warn_without_effect(self._options)
        warn_of_attributes(self._proto)
        shapes = _shapes_of(inputShapeInfo)
        is_trained = trained is not None
        check_model(self._proto, dataFlow, self._options, shapes, is_trained=is_trained)
        self._loaded = LoadedModel.of(
            complete,
            self._outputs(),
            shapes=shapes,
            are_weights_kept=trained is not None or not self._options.constantWeights,
            gradients=self._gradients(),
        )
        self._host = {name: np.array(a) for name, a in self._loaded.initializers.items()}
        check_products(self._proto, self._loaded.tensors)
        self._check_anchors()
        with _as_popart(self._proto):
            placed = on_virtual_graphs(self._loaded.model, self._options, deviceInfo)
            placed = in_pipeline(placed, self._options, dataFlow, is_trained=is_trained)
            if is_trained:
                placed = with_anchors(placed, self._loaded.tensors, self._options, dataFlow)
            self._loaded = dataclasses.replace(self._loaded, model=placed)
            self._model: Model = (
                drawing(placed, 0)
                if trained is None
                else trained.model_of(self._loaded, self._proto, self._gradients(), self._options)
            )
        self._states: dict[str, str] = {}
        self._compiled: CompiledModel | None = None
        self._engine: Engine | None = None
        self._random = RandomState(deviceInfo)
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._file: Path | None = None  # of the program, if it was not compiled here
        self._is_loaded = self._has_run = self._has_weights = False
        self._cycles: NDArray[np.int64] = np.zeros(0, np.int64)

    # What is asked for

    def _outputs(self) -> list[str]:
        """Return the tensors of the forward pass that are anchors, the loss first."""
        known = {t.name for t in self._proto.graph.initializer}
        names = [
            name for name in self._flow.anchors() if name not in known and not _is_of_training(name)
        ]
        loss = [] if self._trained is None else [self._trained.loss]
        return list(dict.fromkeys([*loss, *names]))

    def _gradients(self) -> list[str]:
        """Return the tensors whose gradients are anchors."""
        names = self._flow.anchors()
        return [n.removeprefix(_GRADIENT) for n in names if n.startswith(_GRADIENT)]

    def _check_patterns(self) -> None:
        loss = "" if self._trained is None else self._trained.loss
        check_required_patterns(self._proto, self._patterns, loss, self._gradients())

    def _check_anchors(self) -> None:
        known = self._loaded.tensors
        reached = set() if self._trained is None else self._loaded.flow.reached(self._trained.loss)
        for name in self._flow.anchors():
            of = name.removeprefix(_GRADIENT)
            if name.startswith(_RESTORED) and name.removeprefix(_RESTORED) not in known:
                raise popart_exception(f"Anchor tensor `{name}' not in Ir Tensors.")
            if name.startswith(_GRADIENT) and self._trained is not None:
                if of in reached:
                    continue
                reason = " It has no gradient: no floating-point values lead from it to the loss."
                raise popart_exception(
                    f"Anchor tensor `{name}' not in Ir Tensors.{reason * (of in known)}"
                )
            if name in known or name in self._host:
                continue
            if name in self._scalars() or (self._trained is not None and "___" in name):
                continue
            raise popart_exception(f"Anchor tensor `{name}' not in Ir Tensors.")

    @property
    def dataFlow(self) -> DataFlow:
        """The batches of a step, and the anchors."""
        return self._flow

    @property
    def replicationFactor(self) -> int:
        """Replicas: 1."""
        return 1

    @property
    def accumulationFactor(self) -> int:
        """Micro-batches of a step of the optimiser."""
        options = self._options
        return int(options.accumulationFactor) if options.enableGradientAccumulation else 1

    def getInfo(self, name: str) -> TensorInfo:
        """Return type and shape of a tensor.

        Raises
        ------
        popart_exception
            When there is none of the name.
        """
        of = name.removeprefix(_GRADIENT).removeprefix(_RESTORED)
        scalars = self._scalars()
        if name in scalars:
            return TensorInfo(_type_of(scalars[name].dtype), [])
        for known in (self._loaded.tensors, self._held_values()):
            if of in known:
                value = known[of]
                return TensorInfo(_type_of(value.dtype), list(value.shape))
        raise popart_exception(f"TensorInfo for `{name}' is not available: no tensor has that name")

    def _scalars(self) -> dict[str, Array]:
        """Return the numbers of the optimizer that may be anchors, by name."""
        if self._trained is None:
            return {}
        weights = [(p.name, _type_of(p.dtype)) for p in self._loaded.model.parameters]
        return self._trained.scalars(weights, self._options)

    def _held_values(self) -> dict[str, Any]:
        return {} if self._compiled is None else {v.name: v for v in self._compiled.held}

    def getAllTensorIds(self) -> set[str]:
        """Return the names of all tensors."""
        return set(self._loaded.tensors)

    getTensorIds = getAllTensorIds

    def initAnchorArrays(self) -> dict[str, Array]:
        """Return an array for every anchor, of the shape that a step returns."""
        arrays = {}
        for name in self._flow.anchors():
            info = self.getInfo(name)
            shape = [n for n in self._returned(name) if n != 1] + list(info.shape())
            arrays[name] = np.empty(shape, info.data_type_lcase())
        return arrays

    def _returned(self, name: str) -> list[int]:
        """Return how many values of an anchor a step returns, by dimension."""
        kind, batches = self._flow.art(name), self._flow.batchesPerStep()
        if kind.id() in (AnchorReturnTypeId.Final, AnchorReturnTypeId.Sum):
            return []
        period = kind.rp() if kind.id() is AnchorReturnTypeId.EveryN else 1
        return [batches // period, self.accumulationFactor]

    # Compiling

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
        with _as_popart(self._proto):
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
        return Path(asked.cachePath) / name

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
        save_program(question, compiled, file)
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
        if on_demand and not self._device.tryAttachUntilTimeout():
            raise popart_runtime_error("Failed to attach to device")
        with _as_popart():
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

    # Executables

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
        with _as_popart():
            options = engine_options_of(self._options)
            question = question_of(self._model, self._device.machine, self._options, options)
            save_program(question, self._compiled, file)
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

    # Weights

    def weightsFromHost(self) -> None:
        """Copy the weights of the host to the device."""
        compiled, engine = self._prepared("weightsFromHost()")
        held = {value.name for value in compiled.held}
        starts: dict[str, Array] = {}
        if not self._host.keys() >= self._states.keys():  # the first time
            with _as_popart(), engine.recording(False):
                starts = compiled.read_held(engine)
            self._host = {k: starts[known] for k, known in self._states.items()} | self._host
        names = {name: self._states.get(name, name) for name in self._host}
        arrays = {names[k]: array for k, array in self._host.items() if names[k] in held}
        if arrays:
            with _as_popart(), engine.recording(False):
                compiled.write_held(engine, starts | arrays)
        self._has_weights = True

    def weightsToHost(self) -> None:
        """Copy the weights of the device to the host."""
        compiled, engine = self._prepared(
            "weightsToHost(const std::map<TensorId, MutableVoidData> &)"
        )
        with _as_popart(), engine.recording(False):
            for name, array in self._held(compiled, engine).items():
                if name in self._host:
                    self._host[name] = array.astype(self._host[name].dtype)
                elif name in self._states:
                    self._host[name] = array

    def _held(self, compiled: CompiledModel, engine: Engine) -> dict[str, Array]:
        """Return what the device holds, under PopART's names."""
        held = compiled.read_held(engine)
        states = {name: held[known] for name, known in self._states.items()}
        others = {name: held[name] for name in held.keys() - {*self._states.values()}}
        return others | states

    def readWeights(self, weightsIo: PyWeightsIO) -> None:
        """Copy the weights of the host into arrays.

        Raises
        ------
        popart_exception
            When there is no weight of a name, or it has another size.
        """
        for name, target in weightsIo.weights.items():
            source = self._weight(name)
            if target.size != source.size:
                raise popart_exception(
                    f"The array for weight {name!r} has {target.size:,} elements; the weight has"
                    f" {source.size:,}"
                )
            target.reshape(-1)[:] = source.reshape(-1)

    def writeWeights(self, weightsIo: PyWeightsIO) -> None:
        """Copy arrays into the weights of the host; `weightsFromHost` brings them to the device.

        Raises
        ------
        popart_exception
            When there is no weight of a name, or it has another size.
        """
        self._refuse_constants("writeWeights")
        for name, source in weightsIo.weights.items():
            weight = self._weight(name)
            if weight.size != source.size:
                raise popart_exception(
                    f"The array for weight {name!r} has {source.size:,} elements; the weight has"
                    f" {weight.size:,}"
                )
            self._host[name] = source.astype(weight.dtype).reshape(weight.shape)

    def _refuse_constants(self, function: str) -> None:
        if self._trained is None and self._options.constantWeights:
            raise popart_runtime_error(
                f"Cannot call {function} when constantWeights is set. Set `constantWeights` to"
                " False in the `SessionOption`s when initialising the session to enable this"
                " behaviour."
            )

    def _weight(self, name: str) -> Array:
        if name in self._host:
            return self._host[name]
        compiled, engine = self._prepared("readWeights()")
        with _as_popart(), engine.recording(False):
            held = self._held(compiled, engine)
        if name not in held:
            raise popart_exception(
                f"There is no weight {name!r}; the model has {', '.join(self._host) or 'none'}"
            )
        return held[name]

    def modelToHost(self, fn: str) -> None:
        """Write the model with the weights of the device into an ONNX file.

        Raises
        ------
        popart_exception
            When it cannot be written.
        """
        self.weightsToHost()
        states = {name: self._host[name] for name in self._states}
        write_contents(self._proto, self._host, states)
        proto = onnx.ModelProto()
        proto.CopyFrom(self._proto)
        for tensor in proto.graph.initializer:
            if tensor.data_location != onnx.TensorProto.EXTERNAL:
                tensor.CopyFrom(initializer_of(self._host[tensor.name], tensor.name, tensor))
        known = {tensor.name for tensor in proto.graph.initializer}
        proto.graph.initializer.extend(
            initializer_of(self._host[name], name) for name in self._states if name not in known
        )
        try:
            Path(fn).write_bytes(proto.SerializeToString())
        except OSError as error:
            raise popart_exception(f"Cannot write {fn}: {error.strerror}") from None

    def updateExternallySavedTensorLocations(self, fromLocation: str, toLocation: str) -> None:
        """Copy the contents of a file beside the model into a new one, for `modelToHost`.

        Raises
        ------
        popart_runtime_error
            When the file does not exist, the new one does, or the model has nothing in the file.
        """
        move_contents(self._proto, fromLocation, toLocation)

    def broadcastWeights(self, rootRank: int = 0) -> None:
        """Do nothing: there is one process."""

    def resetHostWeights(
        self,
        modelProtoOrFilename: bytes | str | Path,
        ignoreWeightsInModelWithoutCorrespondingHostWeight: bool = False,
    ) -> None:
        """Take the weights of another model; `weightsFromHost` brings them to the device.

        Raises
        ------
        popart_exception
            When weights are constants, or the model has weights that this one lacks.
        """
        self._refuse_constants("resetHostWeights")
        self._has_weights = False
        model = modelProtoOrFilename
        for tensor in with_contents(proto_of(model), folder_of(model)).graph.initializer:
            if tensor.name in self._host:
                array = array_of(tensor)
                if array.shape != self._host[tensor.name].shape:
                    raise popart_exception(
                        f"resetWeights, weight {tensor.name!r} has shape {list(array.shape)};"
                        f" expected {list(self._host[tensor.name].shape)}"
                    )
                self._host[tensor.name] = array.copy()
            elif not ignoreWeightsInModelWithoutCorrespondingHostWeight:
                raise popart_exception(f"resetWeights, no tensor '{tensor.name}' in tensors")

    # Running

    def setRandomSeed(self, seedValue: int) -> None:
        """Set what dropout, random operators and rounding by chance draw from.

        Raises
        ------
        popart_runtime_error
            When the device is not prepared.
        """
        if not self._is_random():
            _SESSION.warn(
                "Trying to set the random seed, but this session has no random behaviour. Doing"
                " nothing."
            )
            return
        compiled, engine = self._prepared("setRandomSeedFromHost(uint64_t)")
        self._random.set_seed(int(seedValue))
        words = np.array([int(seedValue) & (2**64 - 1)], np.uint64).view(np.int32)
        names = {value.name for value in compiled.held}
        seeds = {name: words for name in (SEED, ROUNDING_SEED) if name in names}
        if seeds:
            with _as_popart(), engine.recording(False):
                compiled.write_held(engine, seeds)

    def getRandomSeed(self) -> int:
        """Return the seed, which follows from the one that was set and the runs since then.

        Raises
        ------
        popart_runtime_error
            When the device is not prepared.
        """
        if not self._is_random():
            _SESSION.warn(
                "Trying to get the random seed, but this session has no random behaviour. Doing"
                " nothing."
            )
            return 0
        compiled, engine = self._prepared("getRandomSeedToHost()")
        with _as_popart(), engine.recording(False):
            held = compiled.read_held(engine)
        words = held.get(SEED, held.get(ROUNDING_SEED))
        return 0 if words is None else int(np.ascontiguousarray(words).view(np.uint64)[0])

    def _is_random(self) -> bool:
        """Return whether the model draws random numbers, or rounds by chance."""
        draws = any(update.held.name == SEED for update in self._model.updates)
        return draws or bool(self._options.enableStochasticRounding)

    def getRNGState(self) -> list[int]:
        """Return the state of the device's random numbers: four words of every worker.

        Raises
        ------
        popart_runtime_error
            When ``enableLoadAndOffloadRNGState`` is off, or the device is not prepared.
        """
        self._check_rng("get", "getRngStateToHost")
        return [] if self._is_synthetic else [int(word) for word in self._random.words()]

    def setRNGState(self, rngValue: Sequence[int]) -> None:
        """Set the state of the device's random numbers.

        Raises
        ------
        popart_runtime_error
            When ``enableLoadAndOffloadRNGState`` is off, the device is not prepared, or the state
            has another size.
        """
        self._check_rng("set", "setRngStateFromHost")
        if not self._is_synthetic:
            self._random.set_words(rngValue)

    def _check_rng(self, verb: str, function: str) -> None:
        if not self._options.enableLoadAndOffloadRNGState:
            raise popart_runtime_error(
                f"Trying to {verb} the RNG state, but the session option"
                " enableLoadAndOffloadRNGState must be set to True."
            )
        self._prepared(function)

    @property
    def _is_synthetic(self) -> bool:
        return bool(self._options.syntheticDataMode is not SyntheticDataMode.Off)

    def run(self, stepio: StepIO | str, debugName: StepIO | str = "", name: str = "") -> None:
        """Run a step: all its batches.

        Parameters
        ----------
        stepio
            Where batches come from and anchors go to.
        debugName
            Name of the run in the report.

        Raises
        ------
        popart_exception
            When data do not fit the model.
        """
        if isinstance(stepio, str):  # the form with a program's name in front
            raise popart_exception(f"[Devicex::run] Program {stepio} not found.")
        compiled, engine = self._runnable()
        label = str(debugName) or name
        n_rounds, n_batches = self.accumulationFactor, self._flow.batchesPerStep()
        has_data = self._options.syntheticDataMode is SyntheticDataMode.Off
        if has_data:
            inputs = {info.name for info in self._proto.graph.input}
            stepio.check(self._sizes(n_batches * n_rounds), self._expected(), inputs)
        gathered = AnchorValues(self._flow, n_rounds)
        self._load_random_state(compiled, engine)
        self._cycles = np.zeros(self._device.numIpus, np.int64)
        # Batches of one run of the program: a pipeline without accumulation takes all of a step.
        n_joined = n_batches if is_one_run(self._options) else 1
        for first in range(0, n_batches, n_joined):
            with _as_popart():
                outputs = self._batches(
                    compiled, engine, stepio if has_data else None, label, n_joined * n_rounds
                )
            if not has_data:
                continue
            for anchor in self._flow.anchors():
                if anchor not in outputs:
                    continue
                of_batches = np.split(outputs[anchor], n_joined)
                for batch, values in enumerate(of_batches, first):
                    for value in gathered.taken(anchor, batch, values):
                        stepio.write(anchor, value)
        for anchor, value in gathered.sums():
            stepio.write(anchor, value)
        self._has_run = True
        if self._options.enableStochasticRounding:
            self._random.advance()

    def _runnable(self) -> tuple[CompiledModel, Engine]:
        """Return the program and its engine, loaded.

        Raises
        ------
        popart_runtime_error
            When there is none, or weights were not copied to it.
        """
        if self._device.connectionType is DeviceConnectionType.Never:
            raise popart_runtime_error("Offline IPU device is not configured for execution")
        if self._trained is not None and self._host and not self._has_weights:
            raise popart_runtime_error(
                "Must call weightsFromHost before run as the model has initializers and the session"
                " has been created in training mode"
            )
        prepared = self._prepared("run(const IStepIO &)")
        if not self._is_loaded:
            self.loadEngineAndConnectStreams()
        return prepared

    def _load_random_state(self, compiled: CompiledModel, engine: Engine) -> None:
        """Round by chance from the state of the device, if that is in the program's hands."""
        names = {value.name for value in compiled.held}
        if self._options.enableLoadAndOffloadRNGState and ROUNDING_SEED in names:
            with _as_popart(), engine.recording(False):
                compiled.write_held(engine, {ROUNDING_SEED: self._random.seed()})

    def _batches(
        self,
        compiled: CompiledModel,
        engine: Engine,
        stepio: StepIO | None,
        label: str,
        n_rounds: int,
    ) -> dict[str, Array]:
        """Run batches of some micro-batches, and return the anchors of all of them by name."""
        rounds: list[dict[str, Array]] = [{} for _ in range(n_rounds)]
        if stepio is not None:
            for value in compiled.model.inputs:
                for inputs in rounds:
                    inputs[value.name] = self._typed(value, stepio)
        before = self._before(compiled, engine) if stepio is not None else {}
        if compiled.model.n_rounds > 1:  # a run takes all micro-batches of a step
            joined = {name: np.stack([inputs[name] for inputs in rounds]) for name in rounds[0]}
            outputs = self._counted(compiled, engine, joined, label)
            constant = {name for name, value in compiled.model.outputs if value.known is not None}
            outputs |= {
                name: np.stack([outputs[name]] * n_rounds) for name in constant & outputs.keys()
            }
        else:
            runs = [self._counted(compiled, engine, inputs, label) for inputs in rounds]
            outputs = {name: np.stack([run[name] for run in runs]) for name in runs[0]}
        held = [name for name in self._flow.anchors() if name not in outputs]
        if held and stepio is not None:
            with engine.recording(False):
                known = {**self._host, **self._held(compiled, engine), **before}
            outputs |= {
                name: np.stack([known[name]] * len(rounds)) for name in held if name in known
            }
        return outputs

    def _before(self, compiled: CompiledModel, engine: Engine) -> dict[str, Array]:
        """Return what the optimizer computes a batch with, of anchors."""
        names = [name for name in self._flow.anchors() if name not in self._loaded.tensors]
        scalars = self._scalars() if names else {}
        asked = {name: scalars[name] for name in names if name in scalars}
        if FINAL_LOSS_SCALE in asked:
            with engine.recording(False):
                asked[FINAL_LOSS_SCALE] = compiled.read_held(engine)["lossScaling"]
        return asked

    def _counted(
        self, compiled: CompiledModel, engine: Engine, inputs: dict[str, Array], label: str
    ) -> dict[str, Array]:
        """Run once, and count its cycles if they are asked for."""
        outputs = compiled.run(engine, inputs, label)
        if self._options.instrumentWithHardwareCycleCounter:
            self._cycles = self._cycles + engine.n_cycles()
        return outputs

    def _typed(self, value: Any, stepio: StepIO) -> Array:
        array = stepio.read(value.name, value.shape)
        expected = np.dtype(value.dtype)
        if array.dtype == expected:
            return array
        if array.dtype.kind in "iu" and expected.kind in "iu":
            return array.astype(expected)
        raise popart_exception(
            f"Type discrepancy for tensor {value.name}. User provided : {_type_of(array.dtype)} and"
            f" expected : {_type_of(expected)}. Consider a custom conversion of the data"
        )

    def _sizes(self, n_batches: int) -> dict[str, int]:
        """Return the elements that a step takes of every input."""
        compiled, _ = self._prepared("run(const IStepIO &)")
        return {v.name: n_batches * int(np.prod(v.shape)) for v in compiled.model.inputs}

    def _expected(self) -> dict[str, int]:
        """Return the elements that a step returns of every anchor."""
        return {
            name: int(np.prod([*self._returned(name), *self.getInfo(name).shape()]))
            for name in self._flow.anchors()
        }

    # Reports

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
                with _as_popart():
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
        with _as_popart():
            return summary(engine, dict(self._options.reportOptions))

    def getSerializedGraph(self) -> bytes:
        """Return the compiled program in the engine's own form.

        Raises
        ------
        popart_runtime_error
            When the device is not prepared, or the program is from a file.
        """
        compiled, _ = self._reported()
        with _as_popart():
            return compiled.executable.to_bytes()

    def _serializeIr(self, format: object) -> str:
        """Refuse: PopART's intermediate form does not exist here."""
        del format
        raise popart_exception(
            "There is no IR of PopART's to serialise: the engine compiles its own operator graph."
            " The report shows its operations (engineOptions['autoReport.all'] = 'true')"
        )


class InferenceSession(_Session):
    """A session that runs a model.

    Parameters
    ----------
    fnModel
        Bytes of an ONNX model, or the path of a file.
    dataFlow
        Batches of a step, and anchors. The first releases of PopART call it ``dataFeed``.
    deviceInfo
        A device of `DeviceManager`.
    inputShapeInfo
        Shapes of inputs, where the model leaves them open.
    patterns, userOptions, name
        As PopART has them.

    Raises
    ------
    popart_exception
        When the model cannot be used, or an anchor does not exist.
    """

    def __init__(
        self,
        fnModel: bytes | str | Path,
        dataFlow: DataFlow | None = None,
        deviceInfo: DeviceInfo | None = None,
        inputShapeInfo: InputShapeInfo | None = None,
        patterns: Patterns | None = None,
        userOptions: SessionOptions | None = None,
        name: str = "inference",
        *,
        dataFeed: DataFlow | None = None,
    ) -> None:
        flow = _given("InferenceSession", "dataFlow", dataFlow, dataFeed)
        device = _given("InferenceSession", "deviceInfo", deviceInfo)
        super().__init__(fnModel, flow, device, inputShapeInfo, patterns, userOptions, name, None)


class TrainingSession(_Session):
    """A session that trains a model.

    Parameters
    ----------
    fnModel, dataFlow, deviceInfo, inputShapeInfo, patterns, userOptions, name
        As for `InferenceSession`.
    loss
        Name of the tensor that is minimised: a scalar. The first releases of PopART take records
        instead, as ``losses``: their sum is minimised.
    optimizer
        How weights change.

    Raises
    ------
    popart_exception
        When the model cannot be trained.
    """

    def __init__(
        self,
        fnModel: bytes | str | Path,
        dataFlow: DataFlow | None = None,
        loss: str | None = None,
        optimizer: Optimizer | None = None,
        deviceInfo: DeviceInfo | None = None,
        inputShapeInfo: InputShapeInfo | None = None,
        patterns: Patterns | None = None,
        userOptions: SessionOptions | None = None,
        name: str = "training",
        *,
        dataFeed: DataFlow | None = None,
        losses: Sequence[Loss] | None = None,
    ) -> None:
        flow = _given("TrainingSession", "dataFlow", dataFlow, dataFeed)
        device = _given("TrainingSession", "deviceInfo", deviceInfo)
        rule = _given("TrainingSession", "optimizer", optimizer)
        model: bytes | str | Path = fnModel
        if losses is not None and loss is None:
            proto, loss = with_losses(proto_of(fnModel), losses)
            model = proto.SerializeToString()
        trained = Trained(_given("TrainingSession", "loss", loss), copy.deepcopy(rule))
        super().__init__(model, flow, device, inputShapeInfo, patterns, userOptions, name, trained)

    def updateOptimizerFromHost(self, optimizer: Optimizer) -> None:
        """Take other numbers of the optimiser, for the next steps.

        Raises
        ------
        popart_exception
            When constants differ, or it is another kind of optimiser.
        """
        assert self._trained is not None, "a training session has it"
        compiled, engine = self._prepared("optimizerFromHost()")
        with _as_popart(), engine.recording(False):
            changed = self._trained.changed(optimizer, self._options, self._model)
            compiled.write_optimiser(engine, changed)

    def optimizerFromHost(self) -> None:
        """Write the numbers of the optimiser to the device."""
        assert self._trained is not None, "a training session has it"
        self.updateOptimizerFromHost(self._trained.optimizer)


_Argument = TypeVar("_Argument")


def _given(session: str, name: str, *values: _Argument | None) -> _Argument:
    """Return an argument that a session needs, under one of its names.

    Raises
    ------
    TypeError
        When it is not given, as Python does.
    """
    for value in values:
        if value is not None:
            return value
    raise TypeError(f"{session}() is missing the argument {name!r}")


def _shapes_of(info: InputShapeInfo | None) -> dict[str, tuple[int, ...]]:
    if info is None:
        return {}
    return {name: tuple(info.get(name).shape()) for name in info.getAllTensorIds()}


def _is_of_training(name: str) -> bool:
    """Return whether a name is that of a gradient, or of what an optimiser has."""
    return "___" in name or name.startswith((reservedLossScalingPrefix(), FINAL_LOSS_SCALE))


#: PopART's names of types that are not numpy's in capitals.
_TYPES = {"float32": "FLOAT", "float64": "DOUBLE"}


def _type_of(dtype: object) -> str:
    name: str = np.dtype(dtype).name  # type: ignore[call-overload]
    return _TYPES.get(name, name.upper())
