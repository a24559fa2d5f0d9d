"""Windows over rows and columns: geometry of convolutions and pools."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.arguments import a_count, a_list, shown
from tilescope.engine.errors import BadGraph
from tilescope.engine.tiling.input_range import FieldWindow, clipped_range

__all__ = ["Window", "clipped", "group_size", "output_size"]


@dataclass(frozen=True)
class Window:
    """Geometry of a convolution or pool over rows and columns."""

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    padding_before: tuple[int, int] = (0, 0)
    padding_after: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        """Check that every field is two integers; a negative padding crops.

        Raises
        ------
        BadGraph
            If one is not, or if a kernel, stride or dilation is less than 1.
        """
        if self._is_right():
            return
        for field in fields(self):
            subject = f"The {field.name.replace('_', ' ')} of a window"
            pair = a_list(subject, getattr(self, field.name), "two integers")
            if len(pair) != 2:
                raise BadGraph(
                    f"{subject} is {shown(pair)}: expected two integers, rows and columns"
                )
            minimum = None if field.name.startswith("padding") else 1
            sizes = tuple(a_count(subject, size, minimum) for size in pair)
            object.__setattr__(self, field.name, sizes)

    def _is_right(self) -> bool:
        """Return whether all fields are as the loop in `__post_init__` leaves them."""
        for least, pairs in (
            (1, (self.kernel, self.stride, self.dilation)),
            (None, (self.padding_before, self.padding_after)),
        ):
            for pair in pairs:
                if type(pair) is not tuple or len(pair) != 2:
                    return False
                if not all(type(n) is int and (least is None or n >= least) for n in pair):
                    return False
        return True


def output_size(size: int, d: int, window: Window) -> int:
    """Return the output rows (d = 0) or columns (d = 1) for an input of `size`.

    Raises
    ------
    BadGraph
        If the window does not fit.
    """
    extent = (window.kernel[d] - 1) * window.dilation[d] + 1
    padded = size + window.padding_before[d] + window.padding_after[d]
    if padded < extent:
        raise BadGraph(
            f"A window of {extent} {'rows' if d == 0 else 'columns'} does not fit {padded}: use"
            " more padding or a smaller kernel"
        )
    return (padded - extent) // window.stride[d] + 1


def group_size(channels: int, at_most: int) -> int:
    """Return the largest divisor of `channels` that is at most `at_most`."""
    return max(g for g in range(1, min(channels, at_most) + 1) if channels % g == 0)


def clipped(
    first: NDArray[np.int64], count: NDArray[np.int64], d: int, size: int, window: Window
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the input range that outputs along dimension `d` read, and the shift.

    Three ndarrays of int64, shape (n,), like the ranges of outputs: see
    `tilescope.engine.tiling.input_range.clipped_range`.
    """
    along = FieldWindow(
        window.kernel[d], window.stride[d], window.dilation[d], window.padding_before[d]
    )
    return clipped_range(first, count, size, along)
