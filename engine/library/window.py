"""Windows over rows and columns: geometry of convolutions and pools."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.planner.split import clipped_range

__all__ = ["Window", "clipped", "group_size", "output_size"]


@dataclass(frozen=True)
class Window:
    """Geometry of a convolution or pool over rows and columns."""

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding_before: tuple[int, int] = (0, 0)
    padding_after: tuple[int, int] = (0, 0)


def output_size(size: int, d: int, window: Window) -> int:
    """Return rows (d = 0) or columns (d = 1) of the output for `size` of the input."""
    extent = (window.kernel[d] - 1) * window.dilation[d] + 1
    padded = size + window.padding_before[d] + window.padding_after[d]
    return (padded - extent) // window.stride[d] + 1


def group_size(channels: int, at_most: int) -> int:
    """Return the largest divisor of `channels` that is no larger than `at_most`."""
    return max(g for g in range(1, min(channels, at_most) + 1) if channels % g == 0)


def clipped(
    first: NDArray[np.int64], count: NDArray[np.int64], d: int, size: int, window: Window
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the input range that outputs along dimension `d` read, and the shift.

    Three ndarrays of int64, shape (n,), as the ranges of outputs: see
    `engine.planner.split.clipped_range`.
    """
    geometry = window.kernel[d], window.stride[d], window.dilation[d], window.padding_before[d]
    return clipped_range(first, count, size, geometry)
