"""Operators of a program's own, and operators that the host would compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from poptorch.errors import createPoptorchError
from poptorch.running import isRunningOnIpu
from tilescope.engine.frontend.torch import markers

__all__ = ["CPU", "custom_op"]

_KINDS = (float, int, str, list, tuple)


def custom_op(
    inputs: Sequence[torch.Tensor],
    name: str,
    domain: str,
    domain_version: int,
    example_outputs: Sequence[torch.Tensor],
    attributes: Mapping[str, Any] | None = None,
) -> list[torch.Tensor]:
    """Return the results of an operator that the program registered with the engine.

    Parameters
    ----------
    inputs
        Its operands.
    name, domain, domain_version
        As it is registered, with `tilescope.engine.custom_operator`.
    example_outputs
        Tensors of the shapes and types of the results.
    attributes
        Its attributes, by name.

    Raises
    ------
    ValueError
        When an attribute has another type than an operator's attributes.
    """
    for key, value in (attributes or {}).items():
        if not isinstance(key, str):
            raise ValueError("All attribute keys must be strings.")
        if not isinstance(value, _KINDS):
            raise ValueError(
                "Attribute values must be floats, ints, strings or a list/tuple of float, ints of"
                " strings."
            )
        items = value if isinstance(value, (list, tuple)) else [value]
        if any(type(item) is not type(items[0]) for item in items):
            raise ValueError("The types in a list/tuple attribute must all be the same.")
        for text in (key, *items):
            if isinstance(text, str) and not text.isascii():
                raise ValueError(f"{text} contains non-ASCII characters.")
    return markers.custom_op(inputs, name, domain, domain_version, example_outputs, attributes)


class CPU:
    """A function that the host would compute while the device waits; on the host, it does.

    Parameters
    ----------
    layer_to_call
        The function, or module.
    ID
        Its name.
    """

    def __init__(self, layer_to_call: Callable[..., Any], ID: str) -> None:
        self._layer_to_call, self._id = layer_to_call, ID

    def __call__(self, *input: Any, **kwargs: Any) -> Any:
        """Return what the function returns.

        Raises
        ------
        Error
            In a model on the device: a program cannot wait for the host.
        """
        if isRunningOnIpu():
            raise createPoptorchError(
                f"poptorch.CPU({self._id!r}) is not supported: a program on the device cannot call"
                " the host; compute it before or after the model"
            )
        return self._layer_to_call(*input, **kwargs)
