"""A module that runs on the device: what `inferenceModel` and `trainingModel` return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from poptorch import optim
from poptorch.enums import ConnectionType, OutputMode
from poptorch.errors import createPoptorchError
from poptorch.executor.arguments import Arguments, on_device
from poptorch.executor.batches import joined
from poptorch.executor.program import DeviceProgram
from poptorch.executor.reported import ReportedExecutor
from poptorch.executor.wrapped_model import wrap
from poptorch.options import Options
from poptorch.trees import flatten

__all__ = ["PoplarExecutor"]

Array = NDArray[Any]


class PoplarExecutor(ReportedExecutor):
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
        super().__init__(model, options, training, optimizer)
        self._profiling.instrument(
            self, "copyWeightsToHost", "copyWeightsToDevice", "setOptimizer", "compile", "destroy"
        )
        if training:
            chosen = optim.SGD(model.parameters(), lr=0.01) if optimizer is None else optimizer
            self.setOptimizer(chosen)
        self._options._freeze()
        if training:
            wrap(model, self.copyWeightsToHostIfNeeded, self.destroy)

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
        with self._profiling.tracepoint("modelExecution"):
            values = program.run(self._inputs(program, arguments), "")
        self._write_arguments(program, arguments, values)
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
            name: on_device(tensor.detach()).numpy()
            for name, tensor in zip(names, tensors, strict=True)
        }

    def _write_arguments(
        self, program: DeviceProgram, arguments: Arguments, values: Mapping[str, Array]
    ) -> None:
        """Write into the tensors of a call what the module writes into its arguments."""
        written = program.graph.interface.written
        if not written or program.compiled.model.data is not None:
            return
        assert self._arguments is not None
        tensors = arguments.tensors_like(self._arguments)
        names = [value.name for value in program.graph.model.inputs]
        for name, tensor in zip(names, tensors, strict=True):
            if name in written:
                array = program.plan.whole(values[written[name]], tensor.shape)
                tensor.detach().copy_(torch.from_numpy(np.array(array)))

    def _keep_anchors(self, values: Mapping[str, Array]) -> None:
        for short, (long, _, mode, period) in self._options.anchored_tensors.items():
            if long in values:
                array = joined(values[long], mode, period)
                self._anchor_memory[short] = torch.from_numpy(np.array(array))

    def _returned(self, program: DeviceProgram, values: Mapping[str, Array]) -> Any:
        mode, period = self._options.output_mode, self._options.output_return_period
        arrays = {name: joined(array, mode, period) for name, array in values.items()}
        arrays = {
            name: array.astype(np.int32) if array.dtype == np.int64 else array
            for name, array in arrays.items()
        }
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


def _renamed(program: DeviceProgram, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return outputs under the names that the module's structure has."""
    names = [name for name, _ in program.graph.interface.model.outputs]
    loss = program.graph.loss
    known = dict(arrays)
    if loss and loss not in known:
        known[loss] = arrays[f"{loss}/scalar"]
    return {name: known[name] for name in names}


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
