"""Slices that begin where a tensor says."""

from __future__ import annotations

from typing import Any

import torch

from poptorch.errors import createPoptorchError
from poptorch.ops.marks import check_tensor

__all__ = ["dynamic_slice", "dynamic_update"]


def _check_integer(value: Any, name: str) -> None:
    """Refuse what is not an integer.

    Raises
    ------
    Error
        Names it.
    """
    if not isinstance(value, int):
        raise createPoptorchError(f"{name} must be an integer.")


def dynamic_slice(
    tensor: torch.Tensor, dim: int, start: torch.Tensor, size: int, step: int
) -> torch.Tensor:
    """Return a slice of a tensor.

    Parameters
    ----------
    tensor
        The tensor.
    dim
        Its dimension.
    start
        Where the slice begins: a tensor of one integer.
    size
        How many elements it spans.
    step
        Distance of two elements.

    Raises
    ------
    Error
        When an argument has another type.
    """
    check_tensor(tensor, "dynamic_slice must take a torch.tensor input.")
    _check_integer(dim, "Dimension")
    check_tensor(start, "Slice start argument to dynamic_slice must be a torch.tensor.")
    _check_integer(size, "Size")
    _check_integer(step, "Step")
    places = start.reshape(()) + torch.arange(0, size, step)
    return tensor.index_select(dim, places)


def dynamic_update(
    input: torch.Tensor, src: torch.Tensor, dim: int, start: torch.Tensor, size: int
) -> torch.Tensor:
    """Return a tensor with another one in place of a slice.

    Parameters
    ----------
    input
        The tensor.
    src
        What is in place of the slice.
    dim
        Dimension of the slice.
    start
        Where the slice begins: a tensor of one integer.
    size
        How many elements it has.

    Raises
    ------
    Error
        When an argument has another type, or the tensors do not go together.
    """
    check_tensor(input, "dynamic_update must take a torch.tensor input.")
    _check_integer(dim, "Dimension")
    check_tensor(start, "Slice start argument to dynamic_update must be a torch.tensor.")
    check_tensor(src, "Src argument to dynamic_update must be a torch.tensor.")
    _check_integer(size, "Size")
    if input.dim() != src.dim():
        raise createPoptorchError(
            f"input and src tensors must have same dimensionality. ({input.dim()}) vs ({src.dim()})"
        )
    if input.dtype != src.dtype:
        raise createPoptorchError(
            f"input and src tensor must have same dtype. ({input.dtype} vs {src.dtype})"
        )
    places = start.reshape(()) + torch.arange(size)
    return input.index_copy(dim, places, src)
