"""Compilation of the module."""

from __future__ import annotations

import tempfile
import weakref
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

from poptorch import optim
from poptorch._logging import logger
from poptorch.enums import ConnectionType
from poptorch.errors import createPoptorchError
from poptorch.executor.arguments import Arguments, on_device
from poptorch.executor.attached import AttachedExecutor
from poptorch.executor.batches import BatchPlan
from poptorch.executor.export import exported
from poptorch.executor.hooks import run_hooks
from poptorch.executor.program import DeviceProgram
from poptorch.executor.replica_groups import grouped
from poptorch.executor.wrapped_model import unwrap, unwrapped
from poptorch.options.validation import check_options

__all__ = ["CompiledExecutor"]


class CompiledExecutor(AttachedExecutor):
    """An executor that compiles its module."""

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
        with self._profiling.tracepoint("modelCompilation"):
            self._compile_traced(arguments, file)

    def _compile_traced(self, arguments: Arguments, file: Path | None) -> None:
        options, plan = self._options, BatchPlan.of(self._options)
        popart = options._Popart.options
        check_options(options.toDict(), popart)
        groups = grouped(self._replica_groups, self._user_model, plan.n_replicas)
        self._arguments = arguments
        narrowed = arguments.map(lambda tensor: _without_gradient(plan.narrowed(tensor)))
        narrowed = narrowed.map(on_device)
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
                    groups,
                    is_training=self._training,
                )
            self._note_optimizer()
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


def _close(program: DeviceProgram, scratch: tempfile.TemporaryDirectory[str] | None) -> None:
    """Seal the report of a program, and remove the parts of its file."""
    program.close()
    if scratch is not None:
        scratch.cleanup()


def _without_gradient(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.requires_grad:
        return tensor
    logger.warning(
        "Input tensor has requires_grad=True set. This tensor will be detached because backward"
        " pass via inputs is not supported."
    )
    return tensor.detach()
