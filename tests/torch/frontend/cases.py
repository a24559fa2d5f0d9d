"""Calls of PyTorch's functions, each with the operator that an export makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

__all__ = ["Case", "case", "drawn", "integers"]


def drawn(*shape: int, seed: int = 0, low: float = -1.5, high: float = 1.5) -> torch.Tensor:
    """Return random numbers that are all different."""
    rng = np.random.default_rng([seed, *shape])
    n = int(np.prod(shape))
    numbers = np.linspace(low, high, n + 1)[:n] + (high - low) / (2 * n + 2)
    return torch.tensor(rng.permutation(numbers).reshape(shape), dtype=torch.float32)


def integers(*shape: int, seed: int = 0, low: int = 0, high: int = 5) -> torch.Tensor:
    """Return random integers."""
    return torch.tensor(np.random.default_rng([seed, *shape]).integers(low, high, shape))


@dataclass(frozen=True)
class Case:
    """A call.

    Parameters
    ----------
    name
        Of the operator without its overload, such as ``aten.add``, and what is special.
    function
        Takes the arguments and returns a tensor or several.
    args
        Tensors, the floating-point ones of which get gradients.
    has_gradient
        Whether gradients are compared.
    tolerance
        Of values and gradients.
    """

    name: str
    function: Callable[..., Any]
    args: Sequence[Any]
    has_gradient: bool = True
    tolerance: float = 1e-5

    @property
    def operator(self) -> str:
        """Name of the operator alone."""
        return self.name.partition(" ")[0]


def case(name: str, function: Callable[..., Any], *args: Any, **options: Any) -> Case:
    """Return a case; a name without a domain is ``aten``'s."""
    full = name if "." in name.partition(" ")[0] else f"aten.{name}"
    return Case(full, function, args, **options)
