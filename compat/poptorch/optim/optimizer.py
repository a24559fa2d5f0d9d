"""What PopTorch's optimizers have in common: states that the device keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch

from poptorch.optim.variable_attributes import VariableAttributes

__all__ = ["Optimizer", "parent_arguments"]

_STATES = ("ipu_state", "ipu_param")

_TYPES = (torch.float16, torch.float32)

#: Attributes that stay with a process.
_NOT_SAVED = ("_device_reader",)


class Optimizer:
    """An optimizer with states on the device.

    Attributes
    ----------
    ipu_state_is_dirty
        Whether the states of the host are newer than those of the device.
    host_state_is_dirty
        Whether those of the device are newer.
    loss_scaling
        What the loss is multiplied by.
    variable_attrs
        Which numbers the host may change between runs.
    """

    #: Numbers of the optimizer as a whole.
    _child_vars: ClassVar[tuple[str, ...]] = ("loss_scaling",)
    #: Arguments that PyTorch's optimizer does not have.
    _child_only: ClassVar[tuple[str, ...]] = ()
    #: Numbers of a group of parameters.
    _group_vars: ClassVar[tuple[str, ...]] = ()

    loss_scaling: float
    variable_attrs: VariableAttributes
    defaults: dict[str, Any]
    param_groups: list[dict[str, Any]]

    def __init__(self) -> None:
        self._state_dict: dict[str, Any] = dict.fromkeys(_STATES)
        self._device_reader: Callable[[], None] | None = None
        self.ipu_state_is_dirty = False
        self.host_state_is_dirty = False

    def _set_up(self, given: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        """Keep what PyTorch's optimizer does not have.

        Parameters
        ----------
        given
            Arguments of the constructor, None where they are left out.
        options
            Defaults of those that are attributes, by name.

        Raises
        ------
        AssertionError
            When a type is neither half nor float.
        """
        for name, default in options.items():
            value = default if given[name] is None else given[name]
            if name.endswith("accum_type"):
                message = "Accumulation types must be either torch.float32 or torch.float16"
                assert value in _TYPES, message
            setattr(self, name, value)
        variable = [name for name, value in given.items() if value is not None]
        self.variable_attrs = VariableAttributes(variable, [*self.defaults, *self._child_vars])

    def state_dict(self) -> dict[str, Any]:
        """Return the states, those of the device as the host knows them."""
        if self._device_reader is not None:
            self._device_reader()
        return self.get_state_dict()

    def get_state_dict(self) -> dict[str, Any]:
        """Return the states that the host knows."""
        return {**self._state_dict, **torch.optim.Optimizer.state_dict(self)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Set the states; a model brings them to the device before it runs.

        Raises
        ------
        RuntimeError
            When they are empty, or not those of a device.
        """
        self.set_state_dict(state)
        torch.optim.Optimizer.load_state_dict(self, dict(state))

    def set_state_dict(self, state: Mapping[str, Any]) -> None:
        """Set the states that the device keeps.

        Raises
        ------
        RuntimeError
            When they are empty, or not those of a device.
        """
        if not state:
            raise RuntimeError("Cannot load optimizer state dictionary because it is empty.")
        if any(name not in state for name in _STATES):
            raise RuntimeError("Only IPU optimizer states can be loaded onto the IPU.")
        self._state_dict = {name: state[name] for name in _STATES}
        self.ipu_state_is_dirty, self.host_state_is_dirty = True, False

    def has_state(self) -> bool:
        """Whether the host knows states of the device."""
        return all(self._state_dict.get(name) is not None for name in _STATES)

    def __getstate__(self) -> dict[str, Any]:
        kept = {key: value for key, value in self.__dict__.items() if key not in _NOT_SAVED}
        kept |= dict.fromkeys(_NOT_SAVED)
        return kept | {"ipu_state_is_dirty": self.has_state(), "host_state_is_dirty": False}


def parent_arguments(given: Mapping[str, Any], own: tuple[str, ...]) -> dict[str, Any]:
    """Return the arguments that are given, without those that PyTorch does not have."""
    return {k: v for k, v in given.items() if v is not None and k not in own}
