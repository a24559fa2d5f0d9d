"""Modules on the device: made, loaded from files, and what the device is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from poptorch.executor.executor import PoplarExecutor
from poptorch.executor.machine import N_IPUS
from poptorch.executor.saved_model import read_model
from poptorch.executor.wrapped_model import is_wrapped
from poptorch.options import Options

__all__ = [
    "inferenceModel",
    "ipuHardwareIsAvailable",
    "ipuHardwareVersion",
    "load",
    "trainingModel",
]

#: Version of the IPUs of the simulated system.
_VERSION = 2


def _module_of(model: Any) -> Any:
    return model._user_model if isinstance(model, PoplarExecutor) else model


def inferenceModel(
    model: torch.nn.Module | PoplarExecutor, options: Options | None = None
) -> PoplarExecutor:
    """Return a module that runs on the device.

    Parameters
    ----------
    model
        The module, or an executor of it.
    options
        None for the defaults.

    Raises
    ------
    Error
        When options do not go together.
    """
    return PoplarExecutor(_module_of(model), options, training=False)


def trainingModel(
    model: torch.nn.Module | PoplarExecutor,
    options: Options | None = None,
    optimizer: Any = None,
) -> PoplarExecutor:
    """Return a module that a call trains on the device.

    Parameters
    ----------
    model
        The module, or an executor of it. It returns the loss, as its last scalar or marked by
        `identity_loss`.
    options
        None for the defaults.
    optimizer
        PyTorch's or PopTorch's; SGD with a rate of 0.01 by default.

    Raises
    ------
    RuntimeError
        When the module is trained by another executor.
    Error
        When options do not go together.
    """
    module = _module_of(model)
    if is_wrapped(module):
        raise RuntimeError(
            "Model has already been wrapped in 'poptorch.trainingModel'. Call model.destroy() on"
            " the model to unwrap before wrapping again."
        )
    return PoplarExecutor(module, options, training=True, optimizer=optimizer)


def load(filename: str, edit_opts_fn: Callable[[Options], None] | None = None) -> PoplarExecutor:
    """Return the model of a file that `PoplarExecutor.save` wrote. Load only your own files.

    Parameters
    ----------
    filename
        The file.
    edit_opts_fn
        Changes the options before they are used.

    Raises
    ------
    AssertionError
        When the file has the program only.
    Error
        When it is not such a file.
    """
    saved = read_model(filename)
    assert saved.model is not None, (
        f"{filename} is a valid PopTorch file but was created with 'export_model=False' which means"
        " you need to re-create the PopTorch model using poptorch.inferenceModel or"
        f' poptorch.trainingModel then call poptorch_model.loadExecutable("{filename}").'
    )
    if edit_opts_fn is not None:
        edit_opts_fn(saved.options)
    if saved.optimizer_state is not None:
        saved.optimizer.load_state_dict(saved.optimizer_state)
    if saved.is_training:
        executor = trainingModel(saved.model, saved.options, saved.optimizer)
    else:
        executor = inferenceModel(saved.model, saved.options)
    executor.loadExecutable(filename)
    if saved.rng_state is not None:
        executor.rng_state = saved.rng_state
    return executor


def ipuHardwareIsAvailable(num_ipus: int = 1) -> bool:
    """Whether the simulated system has a number of IPUs."""
    return 1 <= num_ipus <= N_IPUS


def ipuHardwareVersion() -> int:
    """Return the version of the IPUs of the simulated system."""
    return _VERSION
