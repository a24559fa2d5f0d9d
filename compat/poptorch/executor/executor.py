"""A module that runs on the device: what `inferenceModel` and `trainingModel` return."""

from __future__ import annotations

import copy
import tempfile
import weakref
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from poptorch import optim
from poptorch._logging import logger
from poptorch.enums import CommGroupType, ConnectionType, OutputMode, VariableRetrievalMode
from poptorch.errors import createPoptorchError
from poptorch.executor.arguments import ArgumentBinder, Arguments
from poptorch.executor.attribute_checks import AttributeChecks
from poptorch.executor.batches import BatchPlan, joined
from poptorch.executor.engine_optimizer import check_optimizer, engine_optimizer
from poptorch.executor.hooks import run_hooks
from poptorch.executor.optimizer_states import held_of, parameters_of, states_of
from poptorch.executor.program import DeviceProgram, exported
from poptorch.executor.saved_model import SavedModel, file_of, read_model, write_model
from poptorch.executor.timing import CallTimes, latency
from poptorch.executor.wrapped_model import unwrap, unwrapped, wrap
from poptorch.options import Options, PipelinedExecution, ShardedExecution
from poptorch.options.validation import check_options
from poptorch.printing import module_repr
from poptorch.profiling import Channel
from poptorch.trees import flatten
from poptorch.version import __version__

__all__ = ["PoplarExecutor"]

Array = NDArray[Any]

_NOT_COMPILED = "Model has not been compiled or has been destroyed."


class PoplarExecutor:
    """A module on the device. It compiles when it is called first.

    Parameters
    ----------
    model
        The module.
    options
        None for the defaults.
    training
        Whether a call trains the module.
    optimizer
        What trains it; SGD with a rate of 0.01 by default.

    Raises
    ------
    Error
        When options do not go together.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        options: Options | None,
        training: bool,
        optimizer: Any = None,
    ) -> None:
        self.__dict__["_user_model"] = model
        # A model stays in the mode that it has now: a change of the user's own does not reach it.
        self._model = copy.copy(model)
        if options is not None and not isinstance(options, Options):
            raise createPoptorchError(
                f"Invalid type: 'options' is of type {type(options)} (Expected poptorch.Options)"
            )
        if options is not None:
            options._freeze()
        self._options = Options() if options is None else options.clone()
        self._training = training
        self._set_output_modes()
        if not training:
            assert not optimizer, "Optimizer should be None for inference"
            self._check_accumulation()
        elif optimizer is None:
            optimizer = optim.SGD(model.parameters(), lr=0.01)
        self._host_weights_version, self._seen_weights_version = 0, 0
        self._binder = ArgumentBinder(model)
        self._arguments: Arguments | None = None
        self._program: DeviceProgram | None = None
        self._closing: Any = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._anchor_memory: dict[str, torch.Tensor] = {}
        self._optimizer: Any = None
        self._checks = AttributeChecks(is_relaxed=self._options._relax_optimizer_checks)
        self._engine_optimizer: Any = None
        self._is_attached = self._is_dirty = False
        self._seed: list[int] | None = None
        self._times = CallTimes()
        self._replica_groups: dict[str, Any] = {}
        self._profiling = Channel("poptorch." + ("trainingModel" if training else "inferenceModel"))
        if optimizer is not None:
            self.setOptimizer(optimizer)
        self._options._freeze()
        if training:
            wrap(model, self.copyWeightsToHostIfNeeded, self.destroy)

    def _set_output_modes(self) -> None:
        """Choose the outputs that are returned, where the program did not."""
        options = self._options
        if options.defaultOutputMode():
            options.outputMode(OutputMode.Final if self._training else OutputMode.All)
        for anchor in options.anchored_tensors.values():
            if anchor[1]:
                anchor[2], anchor[3] = options.output_mode, options.output_return_period

    def _check_accumulation(self) -> None:
        if self._options.Training.gradient_accumulation == 1:
            return
        strategy = self._options._execution_strategy
        is_pipelined = isinstance(strategy, PipelinedExecution) and not isinstance(
            strategy, ShardedExecution
        )
        hint = (
            " Use poptorch.Options().deviceIterations to process a sufficient number of batches"
            " each run for pipelined execution instead."
        )
        raise createPoptorchError(
            "You must set poptorch.Options().Training.gradientAccumulation to 1 or leave it as its"
            " default value (1) when running a poptorch.inferenceModel()."
            + (hint if is_pipelined else "")
        )

    # What the executor is

    @property
    def model(self) -> torch.nn.Module:
        """The module."""
        return self._user_model

    @property
    def options(self) -> Options:
        """The options, frozen."""
        return self._options

    @property
    def training(self) -> bool:
        """Whether the module is in training mode."""
        return self._user_model.training

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_user_model" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        value = getattr(self._user_model, name)
        if isinstance(value, torch.nn.Parameter):
            return _Weight(self, name, value)
        return value

    def __repr__(self) -> str:
        return module_repr(self._user_model)

    def isCompiled(self) -> bool:
        """Whether there is a program."""
        return self._program is not None

    def isAttachedToDevice(self) -> bool:
        """Whether the program is on a device."""
        return self.isCompiled() and self._is_attached

    def _compiled(self) -> DeviceProgram:
        """Return the program.

        Raises
        ------
        Error
            When there is none.
        """
        if self._program is None:
            raise createPoptorchError(_NOT_COMPILED)
        return self._program

    # Compilation

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the module for arguments, without running it.

        Raises
        ------
        Error
            When it cannot be compiled, or does not fit.
        """
        if self.isCompiled():
            logger.warning("Call to compile() ignored: the executable is already compiled")
            return
        self._compile(self._binder(args, kwargs))

    def _compile(self, arguments: Arguments, file: Path | None = None) -> None:
        options, plan = self._options, BatchPlan.of(self._options)
        popart = options._Popart.options
        check_options(options.toDict(), popart)
        if self._replica_groups and plan.n_replicas > 1:
            name = next(iter(self._replica_groups))
            raise createPoptorchError(
                f"Weight {name} differs by group of replicas, which is not supported yet"
            )
        self._arguments = arguments
        narrowed = arguments.map(lambda tensor: _without_gradient(plan.narrowed(tensor)))
        narrowed = narrowed.map(_on_device)
        shows = options._show_compilation_progress_bar
        if shows:
            options._progress_bar(0, 100)
        run_hooks("before")
        try:
            with unwrapped(self._user_model):
                graph = exported(
                    self._model,
                    narrowed,
                    options,
                    self._trained_paths(),
                    is_training=self._training,
                )
            optimizer = self._optimizer_of(graph.interface.parameters)
            if file is not None:
                self._scratch = tempfile.TemporaryDirectory(prefix="poptorch-")
            scratch = None if self._scratch is None else Path(self._scratch.name)
            name = options.model_name if options.exists("model_name") else ""
            label = name or ("training" if self._training else "inference")
            self._program = DeviceProgram(graph, options, optimizer, label, file, scratch)
        finally:
            run_hooks("after")
        if shows:
            options._progress_bar(100, 100)
        self._closing = weakref.finalize(self, _close, self._program, self._scratch)
        if options.connection_type != ConnectionType.Never.value:
            self._attach()

    def _trained_paths(self) -> list[str]:
        """Return the module paths of the parameters that the optimizer changes."""
        if self._optimizer is None:
            return []
        chosen = {id(p) for group in self._optimizer.param_groups for p in group["params"]}
        named = self._user_model.named_parameters(remove_duplicate=False)
        return [path for path, p in named if id(p) in chosen and p.requires_grad]

    def _optimizer_of(self, names: Mapping[str, str]) -> Any:
        """Return the engine's optimizer; None for inference."""
        if self._optimizer is None:
            return None
        named = self._user_model.named_parameters(remove_duplicate=False)
        by_id = {id(parameter): names[path] for path, parameter in named if path in names}
        self._engine_optimizer = engine_optimizer(self._optimizer, by_id, self._options)
        return self._engine_optimizer

    def compilationTime(self) -> timedelta:
        """Return how long compilation took.

        Raises
        ------
        Error
            When nothing is compiled, or no bar was shown.
        """
        if not self.isCompiled():
            raise createPoptorchError("Please compile the model before obtaining compilation time.")
        if not self._options._show_compilation_progress_bar:
            raise createPoptorchError(
                "Please set showCompilationProgressBar option to obtain compilation time."
            )
        return self._options._progress_bar.compilation_time or timedelta()

    def destroy(self) -> None:
        """End the program; its weights are on the host then."""
        if not self.isCompiled():
            return
        if self._training:
            self.copyWeightsToHostIfNeeded()
            self._read_optimizer_state()
        self._closing()
        self._program, self._is_attached = None, False
        if self._training:
            if isinstance(self._optimizer, optim.Optimizer):
                self._optimizer._device_reader = None
            unwrap(self._user_model)

    # Files

    def save(self, filename: str, export_model: bool = True, save_rng_state: bool = True) -> None:
        """Write the program into a file.

        Parameters
        ----------
        filename
            The file, or a folder for ``model.poptorch``.
        export_model
            Whether the file has the module and its optimizer, so that `poptorch.load` can read it.
        save_rng_state
            Whether it has the state of the random numbers.

        Raises
        ------
        Error
            When nothing is compiled, or it cannot be written.
        """
        program, file = self._compiled(), file_of(filename)
        saved = SavedModel(__version__, self._arguments, self._options)
        if export_model:
            self.copyWeightsToHostIfNeeded()
            saved.is_training, saved.model = self._training, self._user_model
            saved.optimizer = self._optimizer
            saved.optimizer_state = (
                None if self._optimizer is None else self._optimizer.state_dict()
            )
        if save_rng_state:
            saved.rng_state = self.rng_state
        program.save(file)
        with unwrapped(self._user_model):
            write_model(file, saved)

    def compileAndExport(
        self, filename: str, *args: Any, export_model: bool = True, **kwargs: Any
    ) -> None:
        """Compile the module for arguments, and write the program into a file; see `save`.

        Raises
        ------
        Error
            When it cannot be compiled or written.
        """
        self.compile(*args, **kwargs)
        self.save(filename, export_model)

    def loadExecutable(self, filename: str) -> None:
        """Take the program of a file in place of compiling one.

        Raises
        ------
        Error
            When the file has another model's.
        """
        self._compile(read_model(filename).arguments, Path(filename))

    # Runs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module, or train it, on combined batches.

        Returns
        -------
        Any
            What the module returns, of the batches that the output mode asks for.

        Raises
        ------
        Error
            When the arguments are not those that the module is compiled for.
        AssertionError
            When the model is offline.
        """
        assert self._options.connection_type != ConnectionType.Never.value, (
            "Trying to run a model on an offline device (ConnectionType.Never): use"
            " model.compile(inputs) instead of model(inputs)"
        )
        arguments = self._binder(args, kwargs)
        if not self.isCompiled():
            self._compile(arguments)
        if not self._is_attached:
            self.attachToDevice()
        self._take_newer_weights()
        program = self._compiled()
        assert self._arguments is not None
        self._arguments.check(arguments)
        self._write_optimizer_state()
        values = program.run(self._inputs(program, arguments), "")
        self._is_dirty = self._training
        if isinstance(self._optimizer, optim.Optimizer):
            self._optimizer.host_state_is_dirty = True
        self._seed = None
        self._note_times(program, arguments)
        self._keep_anchors(values)
        return self._returned(program, values)

    def _inputs(self, program: DeviceProgram, arguments: Arguments) -> dict[str, Array]:
        """Return the arrays of a call by the names of the model's inputs."""
        assert self._arguments is not None
        tensors = arguments.tensors_like(self._arguments)
        names = [value.name for value in program.graph.model.inputs]
        return {
            name: _on_device(tensor.detach()).numpy()
            for name, tensor in zip(names, tensors, strict=True)
        }

    def _keep_anchors(self, values: Mapping[str, Array]) -> None:
        for short, (long, _, mode, period) in self._options.anchored_tensors.items():
            if long in values:
                array = joined(values[long], mode, period)
                self._anchor_memory[short] = torch.from_numpy(np.array(array))

    def _returned(self, program: DeviceProgram, values: Mapping[str, Array]) -> Any:
        mode, period = self._options.output_mode, self._options.output_return_period
        arrays = {name: joined(array, mode, period) for name, array in values.items()}
        returned = program.graph.interface.give(_renamed(program, arrays))
        for tensor in flatten(returned):
            tensor.backward = _refuse_backward
        return returned

    def _note_times(self, program: DeviceProgram, arguments: Arguments) -> None:
        n_cycles = int(program.engine.n_cycles().max()) * self._options.device_iterations
        clock_hz = program.question.machine.clock_hz
        plan = program.plan
        n_given = plan.n_iterations * plan.n_rounds * plan.n_replicas
        n_outputs = len(program.graph.interface.model.outputs)
        mode = OutputMode(self._options.output_mode)
        n_done = n_given if mode is OutputMode.All else plan.n_replicas
        if mode is OutputMode.EveryN:
            n_done = max(1, n_given // self._options.output_return_period)
        n_inputs = len(arguments.tensors())
        self._times.add(n_inputs, n_outputs, (n_given, n_done), n_cycles / clock_hz)

    # Weights

    def copyWeightsToHostIfNeeded(self) -> bool:
        """Bring the weights to the host if those of the device are newer; return whether."""
        if not self.__dict__.get("_is_dirty"):
            return False
        logger.debug("Implicit copyWeightsToHost()")
        self.copyWeightsToHost()
        return True

    def copyWeightsToHost(self) -> None:
        """Bring the weights of the device to the host.

        Raises
        ------
        Error
            When nothing is compiled.
        """
        program = self._compiled()
        self._is_dirty = False
        held, interface = program.held(), program.graph.interface
        names = {**interface.parameters, **interface.buffers}
        with unwrapped(self._user_model), torch.no_grad():
            for path, tensor in self._tensors().items():
                if names.get(path) in held:
                    tensor.copy_(torch.from_numpy(held[names[path]]).reshape(tensor.shape))
        self._host_weights_version += 1
        version = self._host_weights_version
        object.__setattr__(self._user_model, "_host_weights_version", version)

    def copyWeightsToDevice(self) -> None:
        """Bring the weights of the host to the device.

        Raises
        ------
        Error
            When nothing is compiled.
        """
        self._is_dirty = False
        self._copy_to_device(None)

    def copyNamedBuffersToDevice(self) -> None:
        """Bring the buffers that `Options.updatableNamedBuffers` names to the device.

        Raises
        ------
        Error
            When nothing is compiled, or the option names none.
        """
        self._compiled()
        names = self._options._Popart.options.get("updatableNamedBuffers")
        if names is None:
            raise createPoptorchError(
                "No named buffers marked as updatable via updatableNamedBuffers option"
            )
        self._copy_to_device(set(names))

    def _copy_to_device(self, paths: set[str] | None) -> None:
        program = self._compiled()
        interface = program.graph.interface
        names = {**interface.parameters, **interface.buffers}
        with unwrapped(self._user_model):
            arrays = {
                names[path]: tensor.detach().numpy()
                for path, tensor in self._tensors().items()
                if path in names and (paths is None or path in paths)
            }
            program.hold(arrays)

    def _tensors(self) -> dict[str, torch.Tensor]:
        """Return parameters and buffers by module path."""
        module = self._user_model
        parameters = dict(module.named_parameters(remove_duplicate=False))
        return {**parameters, **dict(module.named_buffers(remove_duplicate=False))}

    def _take_newer_weights(self) -> None:
        """Bring the weights to the device that another executor trained meanwhile."""
        if self._training:
            return
        refresh = getattr(self._user_model, "copyWeightsToHostIfNeeded", None)
        if callable(refresh):
            refresh()
        version = self._user_model.__dict__.get("_host_weights_version", 0)
        if version != self._seen_weights_version:
            logger.debug("Implicit copyWeightsToDevice()")
            self.copyWeightsToDevice()
            self._seen_weights_version = version

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> Any:
        """Set the weights of the host, and those of the device if the model is on it."""
        loaded = self._user_model.load_state_dict(state_dict, strict)
        if self.isAttachedToDevice():
            self.copyWeightsToDevice()
        return loaded

    # The optimizer

    def setOptimizer(self, optimizer: Any) -> None:
        """Set what trains the module; its numbers reach the device at once.

        Raises
        ------
        Error
            When the program is compiled for one that computes otherwise.
        """
        if self.isCompiled() and optimizer is not self._optimizer:
            if isinstance(self._optimizer, optim.Optimizer):
                self._read_optimizer_state()
                self._optimizer._device_reader = None
            if isinstance(optimizer, optim.Optimizer):
                optimizer.ipu_state_is_dirty = True
        check_optimizer(optimizer, self._checks)
        self._optimizer = optimizer
        if isinstance(optimizer, optim.Optimizer):
            optimizer._device_reader = _weakly(self._read_optimizer_state)
        if self.isCompiled():
            before = self._engine_optimizer
            names = self._compiled().graph.interface.parameters
            after = self._optimizer_of(names)
            if after != before:
                self._compiled().set_optimizer(after)
            self._write_optimizer_state()

    def _read_optimizer_state(self) -> None:
        """Bring the optimizer's states to the host if those of the device are newer."""
        optimizer = self._optimizer
        if not isinstance(optimizer, optim.Optimizer) or not optimizer.host_state_is_dirty:
            return
        program = self._compiled()
        held = program.held()
        optimizer._state_dict = {
            "ipu_state": states_of(held, program.graph.interface.parameters, self._initial_scale),
            "ipu_param": parameters_of(program.compiled.held, held),
        }
        optimizer.host_state_is_dirty = optimizer.ipu_state_is_dirty = False

    @property
    def _initial_scale(self) -> float | None:
        """The loss scaling at first, where the device changes it."""
        scaling = self._engine_optimizer.scaling if self._engine_optimizer else None
        return None if scaling is None else scaling.initial

    def _write_optimizer_state(self) -> None:
        """Bring the optimizer's states to the device if those of the host are newer."""
        optimizer = self._optimizer
        if not isinstance(optimizer, optim.Optimizer) or not optimizer.ipu_state_is_dirty:
            return
        if optimizer.has_state() and self.isCompiled():
            stated = {**optimizer._state_dict["ipu_state"], **optimizer._state_dict["ipu_param"]}
            self._compiled().hold(held_of(stated, self._initial_scale))
        optimizer.ipu_state_is_dirty = False

    # The device

    def _attach(self) -> None:
        self._is_attached = True
        self._copy_to_device(None)
        optimizer = self._optimizer
        if isinstance(optimizer, optim.Optimizer):
            if optimizer.has_state():
                optimizer.ipu_state_is_dirty = True
                self._write_optimizer_state()
            else:
                optimizer.host_state_is_dirty = True
                optimizer.ipu_state_is_dirty = False
        if self._seed is not None:
            self._compiled().set_seed(self._seed[1:])

    def attachToDevice(self) -> None:
        """Bring the program, its weights and states to the device.

        Raises
        ------
        Error
            When nothing is compiled, or the program is on the device.
        AssertionError
            When the model is offline.
        """
        self._compiled()
        assert self._options.connection_type != ConnectionType.Never.value, (
            "Trying to attach to an offline device (ConnectionType.Never)"
        )
        if self._is_attached:
            raise createPoptorchError("Device is already attached")
        self._attach()

    def detachFromDevice(self) -> None:
        """Bring weights and states to the host, and give the device back.

        Raises
        ------
        Error
            When nothing is compiled, or the program is on no device.
        """
        self._compiled()
        if not self._is_attached:
            raise createPoptorchError("Device is not attached")
        self._seed = self.rng_state
        if self._training:
            self.copyWeightsToHostIfNeeded()
            self._read_optimizer_state()
        self._is_attached = False

    @property
    def rng_state(self) -> list[int]:
        """State of the random numbers: the seed of the options, and the words of the device."""
        program = self._compiled()
        if self._seed is None:
            options = self._options
            first = options.random_seed if options.exists("random_seed") else 0
            self._seed = [first, *program.seed()]
        return self._seed

    @rng_state.setter
    def rng_state(self, state: list[int]) -> None:
        program = self._compiled()
        self._seed = [*state]
        if self._is_attached:
            program.set_seed(state[1:])

    # What a run tells

    def getTensorNames(self) -> list[str]:
        """Return the names of tensors that can be anchored.

        Raises
        ------
        AssertionError
            When nothing is compiled.
        """
        assert self._program is not None, "Model must be compiled before calling getTensorNames"
        gradients: list[str] = []
        if self._training:
            weights = self._program.graph.interface.parameters
            gradients = [f"{kind}___{n}" for kind in ("Gradient", "UpdatedVar") for n in weights]
        held = [value.name for value in self._program.compiled.held if value.is_setting]
        return [*self._program.graph.names, *gradients, *held]

    def getAnchoredTensor(self, short_name: str) -> torch.Tensor:
        """Return the values of an anchored tensor in the last call.

        Raises
        ------
        AssertionError
            When there is none of the name.
        """
        assert short_name in self._anchor_memory, f"No tensor with name {short_name} found."
        return self._anchor_memory[short_name]

    def cycleCount(self) -> int:
        """Return the cycles of the last call, on the slowest IPU.

        Raises
        ------
        Error
            When they are not counted, or nothing ran.
        """
        if not self._options._Popart.options["instrumentWithHardwareCycleCounter"]:
            raise createPoptorchError(
                "Cycle count logging is disabled. Please set option logCycleCount to True to"
                " enable."
            )
        if self._program is None:
            raise createPoptorchError(
                "Please run the model at least once before obtaining cycle count."
            )
        return self._program.cycles

    def getPerfCounters(self) -> dict[str, list[list[float]]]:
        """Return when the last call gave inputs and took outputs; simulated time, in seconds."""
        return self._times.read()

    def getHostIpuLatency(self) -> tuple[float, float, float]:
        """Return the shortest, longest and mean time of the transfer of inputs, in seconds."""
        return latency(self._times.read(), "input", "input_complete")

    def getComputeLatency(self) -> tuple[float, float, float]:
        """Return the shortest, longest and mean time from inputs to outputs, in seconds."""
        return latency(self._times.read(), "input_complete", "output")

    def getIpuHostLatency(self) -> tuple[float, float, float]:
        """Return the shortest, longest and mean time of the transfer of outputs, in seconds."""
        return latency(self._times.read(), "output", "output_complete")

    def getLatency(self) -> tuple[float, float, float]:
        """Return the shortest, longest and mean time of a batch, in seconds."""
        return latency(self._times.read(), "input", "output_complete")


def _close(program: DeviceProgram, scratch: tempfile.TemporaryDirectory[str] | None) -> None:
    """Seal the report of a program, and remove the parts of its file."""
    program.close()
    if scratch is not None:
        scratch.cleanup()


class _Weight:
    """A parameter of an executor's module."""

    def __init__(self, executor: PoplarExecutor, name: str, parameter: Any) -> None:
        self._executor, self._name, self._parameter = executor, name, parameter

    def replicaGrouping(
        self,
        comm_group_type: CommGroupType,
        shards: int,
        variable_retrieval_mode: VariableRetrievalMode,
    ) -> None:
        """Let groups of replicas have values of their own, the entries of the first dimension."""
        stated = (comm_group_type, shards, variable_retrieval_mode)
        self._executor._replica_groups[self._name] = stated

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parameter, name)


def _renamed(program: DeviceProgram, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return outputs under the names that the module's structure has."""
    names = [name for name, _ in program.graph.interface.model.outputs]
    loss = program.graph.loss
    known = dict(arrays)
    if loss and loss not in known:
        known[loss] = arrays[f"{loss}/scalar"]
    return {name: known[name] for name in names}


def _weakly(method: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls a method as long as its object lives."""
    held = weakref.WeakMethod(method)

    def call() -> None:
        function = held()
        if function is not None:
            function()

    return call


def _without_gradient(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.requires_grad:
        return tensor
    logger.warning(
        "Input tensor has requires_grad=True set. This tensor will be detached because backward"
        " pass via inputs is not supported."
    )
    return tensor.detach()


def _on_device(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in a type that the device has."""
    return tensor.float() if tensor.dtype == torch.float64 else tensor


def _refuse_backward(*_: Any, **__: Any) -> None:
    """Refuse to compute gradients of what a device returned.

    Raises
    ------
    Error
        Always.
    """
    raise createPoptorchError(
        "backward() cannot be called explicitly on outputs of a PopTorch model. If you're using a"
        " trainingModel, the backwards pass is performed automatically when invoking the model. If"
        " you're using an inferenceModel, you should use a trainingModel instead."
    )
