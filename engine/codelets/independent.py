"""Dimensions along which the elements of a vertex are independent: `Codelet.independent`."""

from __future__ import annotations

__all__ = ["every_dim"]


def every_dim(n_fields: int, n_dims: int = 1) -> tuple[tuple[int, ...], ...]:
    """Return all dimensions, of fields that have the same ones."""
    return tuple((d,) * n_fields for d in range(n_dims))
