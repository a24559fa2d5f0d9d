"""Validation of the shapes of views: reshape, broadcast, slice."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilescope.engine.arguments import a_count, a_list
from tilescope.engine.errors import BadGraph

__all__ = ["slice_range", "whole_shape", "wide_shape"]


def whole_shape(shape: Sequence[int], new_shape: Sequence[int]) -> list[int]:
    """Return the new shape of a reshape of `shape`, with -1 resolved.

    Raises
    ------
    BadGraph
        When the number of elements differs, or a size is invalid.
    """
    n_elements = prod(shape)
    sizes = [
        size if type(size) is int else a_count("A dimension to reshape to", size)
        for size in new_shape
    ]
    if sizes.count(-1) == 1:
        rest = prod(s for s in sizes if s != -1)
        sizes[sizes.index(-1)] = n_elements // rest if rest else 0
    if any(size < 1 for size in sizes) or prod(sizes) != n_elements:
        raise BadGraph(f"Cannot reshape a tensor of shape {tuple(shape)} to {tuple(new_shape)}")
    return sizes


def wide_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the target shape of a broadcast.

    Raises
    ------
    BadGraph
        When it is not a list of integers.
    """
    if type(shape) is tuple and all(type(size) is int and size > 0 for size in shape):
        return shape
    subject = "The shape to broadcast to"
    sizes = a_list(subject, shape, "a list of dimensions")
    return tuple(a_count("A dimension to broadcast to", size, 1) for size in sizes)


def slice_range(shape: Sequence[int], dim: int, start: int, stop: int) -> tuple[int, int, int]:
    """Return the dimension, the first element and the end of a slice.

    Raises
    ------
    BadGraph
        When a value is not an integer, or is out of range.
    """
    if not (type(dim) is type(start) is type(stop) is int):
        dim = a_count("The dimension to slice", dim)
        start, stop = a_count("The start of a slice", start), a_count("The end of a slice", stop)
    if not 0 <= dim < len(shape):
        raise BadGraph(f"A tensor of shape {tuple(shape)} has no dimension {dim} to slice")
    size = shape[dim]
    if not 0 <= start < stop <= size:
        raise BadGraph(f"Slice {start}:{stop} is out of range for dimension {dim} of size {size}")
    return dim, start, stop
