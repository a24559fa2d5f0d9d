"""Windows that move along a dimension: what one dimension of a result takes of an operand."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Sliding"]


@dataclass(frozen=True)
class Sliding:
    """A dimension of a result whose elements take a window of an operand each.

    Tap t of output o is element ``o * stride + t * dilation + shift`` of the operand's region; a
    tap outside the region is skipped.

    Parameters
    ----------
    source, result
        Field and its dimension.
    taps
        Field and the dimension whose size is the number of taps, or the scalar that holds it.
    stride, dilation, shift
        Scalars.
    """

    source: tuple[str, int]
    result: tuple[str, int]
    taps: tuple[str, int] | str
    stride: str
    dilation: str
    shift: str
