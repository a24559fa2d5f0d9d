"""Parts of a dimension, and the input range of a part of the outputs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["FieldWindow", "clipped_range", "kernel_window", "part_edges"]

Counts = NDArray[np.int64]


class FieldWindow(NamedTuple):
    """The window along rows or columns; part of a kernel is also a window.

    `kernel` and `padding` may be arrays, one value per part.
    """

    kernel: Counts | int
    stride: int
    dilation: int
    padding: Counts | int


def part_edges(size: int, parts: int) -> Counts:
    """Return the starts of `parts` nearly equal parts, and the end."""
    return np.arange(parts + 1, dtype=np.int64) * size // parts


def clipped_range(
    first: Counts, count: Counts, size: int, window: FieldWindow
) -> tuple[Counts, Counts, Counts]:
    """Return the inputs that a range of outputs reads, clipped to the input, and the shift.

    Parameters
    ----------
    first, count : ndarray of int64
        Outputs along a dimension.
    size
        Input size along the dimension.
    window
        The window along the dimension.

    Returns
    -------
    start, length, shift : ndarray of int64
        The range, at least one element, and the first window's start relative to it.
    """
    begin = first * window.stride - window.padding
    end = begin + (count - 1) * window.stride + (window.kernel - 1) * window.dilation + 1
    start = np.clip(begin, 0, size - 1)
    stop = np.clip(end, start + 1, size)
    return start, stop - start, begin - start


def kernel_window(window: FieldWindow, first: Counts, count: Counts) -> FieldWindow:
    """Return the windows of parts of a kernel.

    Parameters
    ----------
    window
        The window of the whole kernel.
    first, count : ndarray of int64
        Positions of the kernel along the dimension.
    """
    padding = window.padding - first * window.dilation
    return window._replace(kernel=count, padding=padding)
