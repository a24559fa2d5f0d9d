"""Sessions: a model compiled for a device, and run step by step."""

from __future__ import annotations

import io
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from popart.builder.attribute_effects import warn_of_attributes
from popart.compilation import compiled_for, engine_options_of
from popart.data_flow import DataFlow
from popart.device import DeviceInfo
from popart.effect import Effect
from popart.enums import AnchorReturnTypeId, SyntheticDataMode
from popart.errors import OutOfMemoryException, popart_exception
from popart.loaded_model import LoadedModel, proto_of
from popart.losses import Loss, with_losses
from popart.options import SessionOptions
from popart.options.effects import OPTION_EFFECTS, effect_of, options_set, warn_without_effect
from popart.patterns import Patterns
from popart.refusals import explanation
from popart.required_patterns import check_required_patterns
from popart.sentences import in_words_of_popart
from popart.step_io import PyWeightsIO, StepIO
from popart.tensor_info import TensorInfo
from popart.training import Trained
from tilescope.engine.errors import EngineError, OutOfTileMemory
from tilescope.engine.ir import Model
from tilescope.engine.options import resolve
from tilescope.engine.session.engine import Engine

if TYPE_CHECKING:
    from popart.optimizers import Optimizer
    from popart.tensor_info import InputShapeInfo
    from tilescope.engine.session.compiled_model import CompiledModel

__all__ = ["InferenceSession", "TrainingSession"]

Array = NDArray[Any]
_GRADIENT = "Gradient___"

#: What a summary shows besides, by PopART's names of report options.
_REPORT_FLAGS = {
    "showExecutionSteps": "show_execution_steps",
    "showVarStorage": "show_var_storage",
    "showPerIpuMemoryUsage": "show_per_ipu_memory_usage",
    "showOptimizations": "show_optimizations",
}


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
        self._options = SessionOptions() if userOptions is None else userOptions
        self._flow, self._device, self.name = dataFlow, deviceInfo, name
        self._patterns = Patterns() if patterns is None else patterns
        self._proto = proto_of(fnModel)
        self._trained = trained
        if trained is not None:
            trained.check(self._options)
        _refuse(self._options)
        _refuse_several_ipus(self._options, self._proto, deviceInfo)
        self._check_patterns()
        warn_without_effect(self._options)
        warn_of_attributes(self._proto)
        shapes = _shapes_of(inputShapeInfo)
        self._loaded = LoadedModel.of(
            self._proto,
            self._outputs(),
            shapes=shapes,
            are_weights_kept=trained is not None or not self._options.constantWeights,
        )
        self._host = {name: np.array(a) for name, a in self._loaded.initializers.items()}
        self._check_anchors()
        with _as_popart(self._proto):
            self._model: Model = (
                self._loaded.model
                if trained is None
                else trained.model_of(
                    self._loaded.model, self._proto, self._gradients(), self._options
                )
            )
        self._compiled: CompiledModel | None = None
        self._engine: Engine | None = None
        self._seed: int | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

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
        for name in self._flow.anchors():
            of = name.removeprefix(_GRADIENT)
            is_gradient = name.startswith(_GRADIENT) and self._trained is not None
            if is_gradient and of in self._loaded.tensors:
                continue
            if name in self._loaded.tensors or name in self._host:
                continue
            if self._trained is not None and _is_of_training(name):
                continue
            raise popart_exception(f"Anchor tensor `{name}' not in Ir Tensors")

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
        of = name.removeprefix(_GRADIENT)
        for known in (self._loaded.tensors, self._held_values()):
            if of in known:
                value = known[of]
                return TensorInfo(_type_of(value.dtype), list(value.shape))
        raise popart_exception(f"TensorInfo for `{name}' is not available: no tensor has that name")

    def _held_values(self) -> dict[str, Any]:
        return {} if self._compiled is None else {v.name: v for v in self._compiled.held}

    def getAllTensorIds(self) -> set[str]:
        """Return the names of all tensors."""
        return set(self._loaded.tensors)

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

    def prepareDevice(self, loadEngine: bool = True) -> None:
        """Compile the model, and load it on the device.

        Raises
        ------
        OutOfMemoryException
            When it does not fit.
        popart_exception
            When it cannot be compiled.
        """
        if not self._options.compileEngine:
            return
        with _as_popart(self._proto):
            options = engine_options_of(self._options)
            self._compiled = compiled_for(self._model, self._device.machine, self._options, options)
            facts = {"model_name": self._proto.graph.name or self.name, "session": self.name}
            if self._model.training is not None:
                facts |= self._model.training.facts
            self._engine = Engine(
                self._compiled.executable, options, name=self.name, provenance=facts
            )
            if loadEngine:
                self._engine.load()
            if self._seed is not None:
                self.setRandomSeed(self._seed)

    def loadEngineAndConnectStreams(self) -> None:
        """Load what `prepareDevice` compiled."""
        _, engine = self._prepared()
        with _as_popart():
            engine.load()

    def _prepared(self) -> tuple[CompiledModel, Engine]:
        if self._compiled is None or self._engine is None:
            raise popart_exception("Devicex::prepare() must be called before: call prepareDevice()")
        return self._compiled, self._engine

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
        compiled, engine = self._prepared()
        held = {value.name for value in compiled.held}
        arrays = {name: array for name, array in self._host.items() if name in held}
        if arrays:
            with _as_popart(), engine.recording(False):
                compiled.write_held(engine, arrays)

    def weightsToHost(self) -> None:
        """Copy the weights of the device to the host."""
        compiled, engine = self._prepared()
        with _as_popart(), engine.recording(False):
            for name, array in compiled.read_held(engine).items():
                if name in self._host:
                    self._host[name] = array.astype(self._host[name].dtype)

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
        for name, source in weightsIo.weights.items():
            weight = self._weight(name)
            if weight.size != source.size:
                raise popart_exception(
                    f"The array for weight {name!r} has {source.size:,} elements; the weight has"
                    f" {weight.size:,}"
                )
            self._host[name] = source.astype(weight.dtype).reshape(weight.shape)

    def _weight(self, name: str) -> Array:
        if name in self._host:
            return self._host[name]
        compiled, engine = self._prepared()
        with _as_popart(), engine.recording(False):
            held = compiled.read_held(engine)
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
        proto = onnx.ModelProto()
        proto.CopyFrom(self._proto)
        for tensor in proto.graph.initializer:
            tensor.CopyFrom(numpy_helper.from_array(self._host[tensor.name], tensor.name))
        try:
            Path(fn).write_bytes(proto.SerializeToString())
        except OSError as error:
            raise popart_exception(f"Cannot write {fn}: {error.strerror}") from None

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
        if self._trained is None and self._options.constantWeights:
            raise popart_exception(
                "Cannot call resetHostWeights when constantWeights is set: set it to False in the"
                " SessionOptions"
            )
        for tensor in proto_of(modelProtoOrFilename).graph.initializer:
            if tensor.name in self._host:
                array = numpy_helper.to_array(tensor)
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
        """Set what dropout and random operators draw from."""
        self._seed = int(seedValue)
        if self._compiled is None or self._engine is None:
            return
        words = np.array([self._seed & (2**64 - 1)], np.uint64).view(np.int32)
        if any(value.name == "seed" for value in self._compiled.held):
            with _as_popart(), self._engine.recording(False):
                self._compiled.write_held(self._engine, {"seed": words})

    def getRandomSeed(self) -> int:
        """Return the seed; 0 before it was set."""
        return self._seed or 0

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
            raise popart_exception(
                f"There is no program {stepio!r}: call run with the data of a step first"
            )
        compiled, engine = self._prepared()
        label = str(debugName) or name
        n_rounds, n_batches = self.accumulationFactor, self._flow.batchesPerStep()
        has_data = self._options.syntheticDataMode is SyntheticDataMode.Off
        if has_data:
            stepio.check(self._sizes(n_batches * n_rounds), self._expected())
        gathered = _Gathered(self._flow)
        for batch in range(n_batches):
            with _as_popart():
                outputs = self._batch(compiled, engine, stepio if has_data else None, label)
            if has_data:
                for anchor in self._flow.anchors():
                    if anchor in outputs:
                        for value in gathered.taken(anchor, batch, outputs[anchor]):
                            stepio.write(anchor, value)
        for anchor, value in gathered.sums():
            stepio.write(anchor, value)

    def _batch(
        self, compiled: CompiledModel, engine: Engine, stepio: StepIO | None, label: str
    ) -> dict[str, Array]:
        """Run one batch, and return the anchors by name: the values of every micro-batch."""
        rounds: list[dict[str, Array]] = [{} for _ in range(self.accumulationFactor)]
        if stepio is not None:
            for value in compiled.model.inputs:
                for inputs in rounds:
                    inputs[value.name] = self._typed(value, stepio)
        if compiled.model.n_rounds > 1:  # a run takes all micro-batches of a step
            joined = {name: np.stack([inputs[name] for inputs in rounds]) for name in rounds[0]}
            outputs = compiled.run(engine, joined, label)
        else:
            runs = [compiled.run(engine, inputs, label) for inputs in rounds]
            outputs = {name: np.stack([run[name] for run in runs]) for name in runs[0]}
        held = [name for name in self._flow.anchors() if name not in outputs]
        if held and stepio is not None:
            with engine.recording(False):
                known = {**self._host, **compiled.read_held(engine)}
            outputs |= {name: known[name][None] for name in held if name in known}
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
        compiled, _ = self._prepared()
        return {v.name: n_batches * int(np.prod(v.shape)) for v in compiled.model.inputs}

    def _expected(self) -> dict[str, int]:
        """Return the elements that a step returns of every anchor."""
        return {
            name: int(np.prod([*self._returned(name), *self.getInfo(name).shape()]))
            for name in self._flow.anchors()
        }

    # Reports

    def getCycleCount(self, id: str = "") -> int:
        """Return the cycles of the last run on the slowest IPU."""
        del id
        _, engine = self._prepared()
        return int(engine.n_cycles().max())

    def getReport(self) -> Any:
        """Return the report so far, as libpva opens it.

        Where the options ask for no report, it is one of the program, without runs.
        """
        import pva

        _, engine = self._prepared()
        engine.flush_report()
        path = engine.recorder.written_path or self._reported_program()
        with warnings.catch_warnings():
            # That the session goes on is no news to it.
            warnings.simplefilter("ignore", pva.ReportStateWarning)
            return pva.openReport(str(path))

    def _reported_program(self) -> Path:
        """Write a report of the program into a directory that goes with the session."""
        compiled, _ = self._prepared()
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="popart-report-")
            options = resolve(
                code={"autoReport.all": True, "autoReport.directory": self._scratch.name}
            )
            with _as_popart():
                Engine(compiled.executable, options).close()
        return Path(self._scratch.name)

    def getSummaryReport(self, resetProfile: bool = True) -> str:
        """Return the summary of the report as text."""
        del resetProfile  # a report has all runs
        _, engine = self._prepared()
        text, asked = io.StringIO(), dict(self._options.reportOptions)
        flags = {
            flag: str(asked.get(name, "false")).lower() == "true"
            for name, flag in _REPORT_FLAGS.items()
        }
        with _as_popart():
            engine.print_profile_summary(file=text, **flags)
        return text.getvalue()

    def getSerializedGraph(self) -> bytes:
        """Return the compiled program in the engine's own form."""
        compiled, _ = self._prepared()
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
        trained = Trained(_given("TrainingSession", "loss", loss), rule)
        super().__init__(model, flow, device, inputShapeInfo, patterns, userOptions, name, trained)

    def updateOptimizerFromHost(self, optimizer: Optimizer) -> None:
        """Take other numbers of the optimiser, for the next steps.

        Raises
        ------
        popart_exception
            When constants differ, or it is another kind of optimiser.
        """
        assert self._trained is not None, "a training session has it"
        compiled, engine = self._prepared()
        with _as_popart(), engine.recording(False):
            changed = self._trained.changed(optimizer, self._options, self._model)
            compiled.write_optimiser(engine, changed)

    def optimizerFromHost(self) -> None:
        """Write the numbers of the optimiser to the device."""
        assert self._trained is not None, "a training session has it"
        self.updateOptimizerFromHost(self._trained.optimizer)


class _Gathered:
    """Values of anchors over the batches of a step, as their return types ask."""

    def __init__(self, flow: DataFlow) -> None:
        self._flow = flow
        self._sums: dict[str, Array] = {}

    def taken(self, anchor: str, batch: int, values: Array) -> list[Array]:
        """Return what is written of the values of a batch's micro-batches."""
        kind = self._flow.art(anchor)
        match kind.id():
            case AnchorReturnTypeId.All:
                return list(values)
            case AnchorReturnTypeId.EveryN:
                return list(values) if (batch + 1) % kind.rp() == 0 else []
            case AnchorReturnTypeId.Final:
                return [values[-1]] if batch + 1 == self._flow.batchesPerStep() else []
        total = values.sum(axis=0, dtype=values.dtype)
        known = self._sums.get(anchor)
        self._sums[anchor] = total if known is None else known + total
        return []

    def sums(self) -> list[tuple[str, Array]]:
        """Return the sums of anchors over all batches."""
        return list(self._sums.items())


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
    """Return whether a name is that of a gradient, or of what an optimiser keeps."""
    return "___" in name


#: PopART's names of types that are not numpy's in capitals.
_TYPES = {"float32": "FLOAT", "float64": "DOUBLE"}


def _type_of(dtype: object) -> str:
    name: str = np.dtype(dtype).name  # type: ignore[call-overload]
    return _TYPES.get(name, name.upper())


#: Options that are refused by what they ask for together.
_JOINT = frozenset(
    {
        "enablePipelining",
        "enableReplicatedGraphs",
        "replicatedGraphCount",
        "enableDistributedReplicatedGraphs",
        "globalReplicationFactor",
        "globalReplicaOffset",
        "virtualGraphMode",
        "virtualGraphSplitRatios",
        "executionPhaseSettings",
        "createImplicitPipeliningFwdOnlyProgram",
        "stashAllTensorsInferencePipeline",
    }
)


def _refuse(options: SessionOptions) -> None:
    """Refuse options that would change what a program computes, and that sessions lack.

    Raises
    ------
    popart_exception
        Names the option.
    """
    for name in options_set(options):
        if name not in _JOINT and effect_of(name) is Effect.REFUSED:
            reason = OPTION_EFFECTS[name][1]
            raise popart_exception(f"{name} is not supported yet ({reason}): leave it out")


def _refuse_several_ipus(
    options: SessionOptions, proto: onnx.ModelProto, device: DeviceInfo
) -> None:
    """Refuse what needs several IPUs.

    Raises
    ------
    popart_exception
        Names the option.
    """
    asked: Mapping[str, bool] = {
        "enablePipelining": bool(options.enablePipelining),
        "enableReplicatedGraphs": bool(options.enableReplicatedGraphs)
        and options.replicatedGraphCount > 1,
        "enableDistributedReplicatedGraphs": bool(options.enableDistributedReplicatedGraphs),
        "virtualGraphMode": _uses_several(proto)
        or (options.virtualGraphMode.name in ("Auto", "ExecutionPhases") and device.numIpus > 1),
    }
    for name, is_asked in asked.items():
        if is_asked:
            raise popart_exception(
                f"{name} needs several IPUs, which sessions do not support yet: leave it out to run"
                " on one"
            )


def _uses_several(proto: onnx.ModelProto) -> bool:
    places = {
        attribute.i
        for node in proto.graph.node
        for attribute in node.attribute
        if attribute.name == "__ipu_number"
    }
    return len(places) > 1
