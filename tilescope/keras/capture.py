"""A Keras model as a module of PyTorch whose parameters have the names of Keras's variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import keras
import torch
from keras.src.backend.torch import random as torch_random

from tilescope.engine.frontend.torch import markers
from tilescope.keras.stages import stage_of

__all__ = ["LOSS", "PREDICTIONS", "Captured"]

#: Results of the module.
PREDICTIONS, LOSS = "predictions", "loss"


class _Group(torch.nn.Module):
    """Holds the variables of a layer."""


class Captured(torch.nn.Module):
    """What a model computes from a batch: predictions and, of labels, a loss.

    Parameters
    ----------
    model
        A built Keras model.
    is_training
        Whether layers are called as in training.
    """

    def __init__(self, model: Any, *, is_training: bool) -> None:
        super().__init__()
        # Not a submodule: its parameters would be those of this module under other names.
        object.__setattr__(self, "_model", model)
        self._variables: list[tuple[Any, str]] = []
        for variable in model.variables:
            if "float" in variable.dtype:
                name = self._hold(variable, is_training=is_training)
                self._variables.append((variable, name))
        self.train(is_training)

    @property
    def variables(self) -> Mapping[str, Any]:
        """Keras's variables by the name of the parameter or buffer."""
        return {name: variable for variable, name in self._variables}

    def _hold(self, variable: Any, *, is_training: bool) -> str:
        """Register a variable below a module for every layer, and return its name."""
        *groups, name = variable.path.split("/")
        holder: torch.nn.Module = self
        for group in groups[1:] or groups:
            if group not in holder._modules:
                holder.add_module(group, _Group())
            holder = holder.get_submodule(group)
        value = variable.value
        if not is_training:  # the device holds all variables, so that new ones need no new program
            holder.register_parameter(name, torch.nn.Parameter(value.detach()))
        elif variable.trainable:
            holder.register_parameter(name, value)
        else:
            holder.register_buffer(name, value.detach())
        return ".".join([*(groups[1:] or groups), name])

    def forward(self, x: Any, y: Any = None, sample_weight: Any = None) -> dict[str, Any]:
        """Return the predictions for inputs, and the loss where there are labels."""
        model, is_training = self._model, self.training
        held = [(variable, _found(self, name)) for variable, name in self._variables]
        with keras.StatelessScope(state_mapping=held) as scope, _layers_named(), _device_draws():
            kwargs = {"training": is_training} if model._call_has_training_arg else {}
            predictions = model(x, **kwargs)
            results = {PREDICTIONS: predictions}
            if y is not None:
                with markers.named("loss"):
                    loss = model._compute_loss(
                        x=x, y=y, y_pred=predictions, sample_weight=sample_weight,
                        training=is_training,
                    )  # fmt: skip
                results[LOSS] = markers.identity_loss(loss, "sum")
        for variable, tensor in held:
            value = scope.get_current_value(variable)
            has_changed = value is not None and value is not tensor
            if is_training and not variable.trainable and has_changed:
                tensor.copy_(value)
        return results


def _found(module: torch.nn.Module, name: str) -> torch.Tensor:
    """Return a parameter or buffer by its path."""
    *path, last = name.split(".")
    tensor: torch.Tensor = getattr(module.get_submodule(".".join(path)), last)
    return tensor


@contextmanager
def _layers_named() -> Iterator[None]:
    """Let what a layer computes have its name, and run in its stage."""
    call = keras.layers.Layer.__call__

    def named(layer: Any, *args: Any, **kwargs: Any) -> Any:
        with ExitStack() as stack:
            stack.enter_context(markers.named(layer.name))
            if stage_of(layer) is not None:
                stack.enter_context(markers.placed(stage=stage_of(layer)))
            return call(layer, *args, **kwargs)

    with patch.object(keras.layers.Layer, "__call__", named):
        yield


@contextmanager
def _device_draws() -> Iterator[None]:
    """Let the device draw the masks of dropout, from seeds of its own."""

    def dropout(
        inputs: torch.Tensor,
        rate: float,
        noise_shape: Sequence[int | None] | None = None,
        seed: Any = None,
    ) -> torch.Tensor:
        del seed
        if noise_shape is None:
            return torch.nn.functional.dropout(inputs, rate, training=True)
        shape = [inputs.shape[i] if n is None else n for i, n in enumerate(noise_shape)]
        ones = torch.ones(shape, dtype=inputs.dtype)
        return inputs * torch.nn.functional.dropout(ones, rate, training=True)

    with patch.object(torch_random, "dropout", dropout):
        yield
