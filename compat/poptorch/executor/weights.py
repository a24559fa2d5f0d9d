"""Weights of the module and of the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from poptorch._logging import logger
from poptorch.errors import createPoptorchError
from poptorch.executor.stated import StatedExecutor
from poptorch.executor.wrapped_model import unwrapped

__all__ = ["WeightsExecutor"]


class WeightsExecutor(StatedExecutor):
    """An executor whose weights can be read and written."""

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
