"""Comparison of results, for tests of models."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["allclose"]


def allclose(ref: Any, other: Any) -> bool:
    """Return whether tensors, or tensors in equal tuples and lists, are close.

    Parameters
    ----------
    ref
        What is expected.
    other
        What is compared with it.
    """
    if isinstance(ref, torch.Tensor):
        return torch.allclose(other, ref)
    if type(ref) is not type(other) or len(ref) != len(other):
        return False
    return all(allclose(one, another) for one, another in zip(ref, other, strict=True))
