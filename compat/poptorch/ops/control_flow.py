"""Loops and branches on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from poptorch.running import isRunningOnIpu

__all__ = ["cond", "for_loop"]

_Body = Callable[..., Any]


def _listed(results: Any) -> list[torch.Tensor]:
    return [*results] if isinstance(results, (list, tuple)) else [results]


def _copied(results: Any) -> list[torch.Tensor]:
    """Return results as PyTorch asks for those of a branch: none of them is an operand."""
    return [tensor.clone() for tensor in _listed(results)]


def for_loop(count: int, body: _Body, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return what a function makes of tensors when it takes its own results again and again.

    Parameters
    ----------
    count
        Number of rounds.
    body
        Takes and returns as many tensors, of the same shapes and types.
    inputs
        What the first round takes.

    Raises
    ------
    ValueError
        When the inputs are not a list of tensors.
    """
    what = "poptorch.for_loop expects input tensors (inputs) to be a list of tensors."
    if not isinstance(inputs, list):
        raise ValueError(f"{what} (Object is not list)")
    for index, tensor in enumerate(inputs):
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(
                f"{what} (Object contained in list at index {index} is not torch.tensor)"
            )
    values = [tensor.clone() for tensor in inputs]
    for _ in range(count):
        values = _listed(body(*values))
    return values


def cond(
    condition: torch.Tensor,
    then_body: _Body,
    then_inps: list[torch.Tensor],
    else_body: _Body,
    else_inps: list[torch.Tensor],
) -> list[torch.Tensor]:
    """Return what one of two functions makes of tensors.

    Parameters
    ----------
    condition
        A bool: which of them.
    then_body, then_inps
        The function, and its tensors, where it is true.
    else_body, else_inps
        Those where it is false; it returns as many tensors, of the same shapes and types.

    Raises
    ------
    ValueError
        When inputs are not lists.
    """
    if not isinstance(then_inps, list) or not isinstance(else_inps, list):
        raise ValueError(
            "poptorch.cond expects then_inps and else_inps tensors to be a list of tensors."
            " (Object is not list)"
        )
    if not isRunningOnIpu():
        return _listed(then_body(*then_inps) if condition else else_body(*else_inps))
    n_then = len(then_inps)

    def then(*tensors: torch.Tensor) -> list[torch.Tensor]:
        return _copied(then_body(*tensors[:n_then]))

    def otherwise(*tensors: torch.Tensor) -> list[torch.Tensor]:
        return _copied(else_body(*tensors[n_then:]))

    results = torch.cond(condition, then, otherwise, (*then_inps, *else_inps))
    return _listed(results)
