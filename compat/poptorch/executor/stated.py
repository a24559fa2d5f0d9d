"""An executor as its program states it: module, options, and whether there is a program."""

from __future__ import annotations

import copy
import tempfile
from typing import Any

import torch

from poptorch.enums import OutputMode
from poptorch.errors import createPoptorchError
from poptorch.executor.arguments import ArgumentBinder, Arguments
from poptorch.executor.attribute_checks import AttributeChecks
from poptorch.executor.optimizer_log import OptimizerLog
from poptorch.executor.program import DeviceProgram
from poptorch.executor.replica_groups import ReplicatedWeight
from poptorch.executor.timing import CallTimes
from poptorch.options import Options, PipelinedExecution, ShardedExecution
from poptorch.printing import module_repr
from poptorch.profiling import Channel

__all__ = ["StatedExecutor"]

_NOT_COMPILED = "Model has not been compiled or has been destroyed."


class StatedExecutor:
    """A module, its options, and what is known of its program.

    Parameters
    ----------
    model
        The module.
    options
        None for the defaults.
    training
        Whether a call trains the module.
    optimizer
        What trains it; None for inference, or for the default.

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
        optimizer: Any,
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
        self._optimizer_log = OptimizerLog()
        self._paths: dict[int, str] = {}
        self._is_attached = self._is_dirty = False
        self._seed: list[int] | None = None
        self._times = CallTimes()
        self._replica_groups: dict[str, Any] = {}
        self._profiling = Channel("poptorch." + ("trainingModel" if training else "inferenceModel"))

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

    @property
    def model(self) -> torch.nn.Module:
        """The module; in inference a copy with the same weights, whose mode is its own."""
        return self._user_model if self._training else self._model

    @property
    def options(self) -> Options:
        """The options, frozen."""
        return self._options

    @property
    def training(self) -> bool:
        """Whether the module is in training mode."""
        return self.model.training

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_user_model" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        value = getattr(self._user_model, name)
        if isinstance(value, torch.nn.Parameter):
            return ReplicatedWeight(name, value, self._replica_groups)
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
