"""Limits of the norms of gradients, of all weights or of groups of them."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from tilescope.engine.errors import BadOption

__all__ = ["ClipGroup"]


@dataclass(frozen=True, kw_only=True)
class ClipGroup:
    """Weights whose gradients are scaled so that their joint norm is not too large.

    Parameters
    ----------
    weights
        Patterns of their names.
    norm
        The largest norm.
    is_scaled
        Whether the norm is that of the sums of gradients as they are, with the loss scaling and
        before the mean of micro-batches, as in PopART.

    Raises
    ------
    BadOption
        When the norm is not above 0.

    Notes
    -----
    Source: graphcore/popart, willow/src/transforms/clipweightgradientsbynorm.cpp
    """

    weights: tuple[str, ...]
    norm: float
    is_scaled: bool = False

    def __post_init__(self) -> None:
        """Check the norm."""
        if not (np.isfinite(self.norm) and self.norm > 0):
            names = ", ".join(self.weights)
            raise BadOption(f"clipping of {names}: norm is {self.norm:g}; it has to be above 0")

    def __str__(self) -> str:
        """Return ``WEIGHTS:norm=NUMBER``."""
        return f"{','.join(self.weights)}:norm={self.norm:g}"

    def has(self, name: str) -> bool:
        """Return whether a weight belongs to the group."""
        return any(fnmatchcase(name, pattern) for pattern in self.weights)
