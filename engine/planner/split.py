"""Splits of a convolution over tiles: all useful part counts, and what they leave to a tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from engine.codelets.codelet import Batch
from engine.graph.dtype import dtype_of
from engine.planner.families import Grouping
from engine.planner.shape import ConvolutionShape

__all__ = ["PARTS", "Splits", "clipped_range", "part_edges"]

#: The dimensions that are split over tiles.
PARTS = ("groups", "batch", "rows", "columns", "outputs", "inputs")


def part_edges(size: int, parts: int) -> NDArray[np.int64]:
    """Return where each of `parts` nearly equal parts begins, and the end."""
    return np.arange(parts + 1, dtype=np.int64) * size // parts


def clipped_range(
    first: NDArray[np.int64],
    count: NDArray[np.int64],
    size: int,
    window: tuple[int, int, int, int],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the inputs that a range of outputs reads, clipped to the input, and the shift.

    Parameters
    ----------
    first, count : ndarray of int64
        Outputs along a dimension.
    size
        Size of the input along it.
    window
        Kernel, stride, dilation and padding before along it.

    Returns
    -------
    start, length, shift : ndarray of int64
        The range, at least one element, and where the first window begins within it.
    """
    kernel, stride, dilation, padding = window
    begin = first * stride - padding
    end = begin + (count - 1) * stride + (kernel - 1) * dilation + 1
    start = np.clip(begin, 0, size - 1)
    stop = np.clip(end, start + 1, size)
    return start, stop - start, begin - start


@lru_cache(maxsize=65_536)
def _most_inputs(
    n_outputs: int, parts: int, n_inputs: int, window: tuple[int, int, int, int]
) -> int:
    """Return the most inputs along a dimension that one of the parts of its outputs reads."""
    edges = part_edges(n_outputs, parts)
    _, length, _ = clipped_range(edges[:-1], np.diff(edges), n_inputs, window)
    return int(length.max())


def _useful_parts(size: int, limit: int) -> list[int]:
    """Return the part counts that change the largest part of `size`, up to `limit`."""
    parts: list[int] = []
    part = 1
    while part <= min(size, limit):
        parts.append(part)
        largest = -(-size // part)
        if largest == 1:
            break
        part = -(-size // (largest - 1))
    return parts


@lru_cache(maxsize=8)  # the families and groupings of a shape have few sizes between them
def _all_parts(sizes: tuple[int, ...], n_tiles: int) -> NDArray[np.int64]:
    """Return the part counts of all useful splits of so many units, columns contiguous."""
    columns: list[NDArray[np.int64]] = []
    used = np.ones(1, np.int64)
    for size in sizes:
        options = np.array(_useful_parts(size, n_tiles), np.int64)
        n_fitting = np.searchsorted(options, n_tiles // used, side="right")
        row = np.repeat(np.arange(used.size), n_fitting)
        place = np.arange(row.size) - np.repeat(np.cumsum(n_fitting) - n_fitting, n_fitting)
        columns = [column[row] for column in columns] + [options[place]]
        used = used[row] * columns[-1]
    parts = np.stack(columns)
    parts.setflags(write=False)
    return parts.T


@dataclass(frozen=True)
class Splits:
    """All splits of a shape by one grouping.

    Parameters
    ----------
    shape, grouping
        What is split, and into which groups of channels.
    sizes
        Units along each of `PARTS`.
    parts : ndarray of int64, shape (n, 6)
        Part counts of every split.
    n_serial
        How many times a convolution of that shape is made, one after the other, each time of other
        output channels.
    """

    shape: ConvolutionShape
    grouping: Grouping
    sizes: tuple[int, ...]
    parts: NDArray[np.int64]
    n_serial: int = 1

    @classmethod
    def over(
        cls, shape: ConvolutionShape, grouping: Grouping, n_tiles: int, n_serial: int = 1
    ) -> Splits:
        """Return all useful splits over at most `n_tiles` tiles."""
        groups, in_groups, out_groups = grouping.count(shape)
        sizes = (groups, shape.images, shape.height, shape.width, out_groups, in_groups)
        return cls(shape, grouping, sizes, _all_parts(sizes, n_tiles), n_serial)

    @cached_property
    def tiles_used(self) -> NDArray[np.int64]:
        """Tiles of every split: ndarray of int64, shape (n,)."""
        return np.asarray(self.parts.prod(axis=1))

    @cached_property
    def _largest(self) -> NDArray[np.int64]:
        sizes = np.array(self.sizes)[:, None]
        return (-(-sizes // self.parts.T)).T

    def largest(self, less: Sequence[int] = (0,) * len(PARTS)) -> NDArray[np.int64]:
        """Return the largest part along each of `PARTS`: ndarray of int64, shape (n, 6).

        Parameters
        ----------
        less
            Which dimensions to take smaller by 1, where parts of both sizes are.
        """
        if not any(less):
            return self._largest
        is_uneven = self._largest * self.parts > np.array(self.sizes)
        return np.asarray(self._largest - is_uneven * np.array(less))

    def input_extent(self, d: int) -> NDArray[np.int64]:
        """Return the most input rows (0) or columns (1) that a part reads: ndarray of int64."""
        return (self._input_rows, self._input_columns)[d]

    @cached_property
    def _input_rows(self) -> NDArray[np.int64]:
        return self._find_extent(0)

    @cached_property
    def _input_columns(self) -> NDArray[np.int64]:
        return self._find_extent(1)

    def _find_extent(self, d: int) -> NDArray[np.int64]:
        size, window = (self.shape.in_height, self.shape.in_width)[d], self.shape.window(d)
        counts = self.parts[:, 2 + d]
        n_outputs = self.sizes[2 + d]
        found = np.zeros(int(counts.max(initial=0)) + 1, np.int64)
        for part in np.flatnonzero(np.bincount(counts)).tolist():
            found[part] = _most_inputs(n_outputs, part, size, window)
        return found[counts]

    def batch(self, less: Sequence[int] = (0,) * len(PARTS)) -> Batch:
        """Return the vertices with the largest parts, as a cycle law takes them; see `largest`."""
        return self._make_batch(less) if any(less) else self._largest_batch

    @cached_property
    def _largest_batch(self) -> Batch:
        return self._make_batch((0,) * len(PARTS))

    def _make_batch(self, less: Sequence[int]) -> Batch:
        shape, grouping = self.shape, self.grouping
        groups, images, rows, columns, out_groups, in_groups = self.largest(less).T
        n = groups.size

        def columns_of(*sizes: NDArray[np.int64] | int) -> NDArray[np.int64]:
            columns = np.empty((len(sizes), n), np.int64)
            for column, size in zip(columns, sizes, strict=True):
                column[:] = size
            return columns.T

        inside = grouping.groups
        size = {
            "x": columns_of(
                groups,
                images,
                in_groups,
                self.input_extent(0),
                self.input_extent(1),
                inside * grouping.inputs,
            ),
            "w": columns_of(
                groups, out_groups, in_groups, *shape.kernel, grouping.inputs,
                inside * grouping.outputs,
            ),
            "out": columns_of(groups, images, out_groups, rows, columns, inside * grouping.outputs),
        }  # fmt: skip
        scalars = {
            "stride_y": np.full(n, shape.stride[0]),
            "stride_x": np.full(n, shape.stride[1]),
        }
        item_bytes = {"x": shape.item_bytes, "w": shape.item_bytes, "out": shape.partial_bytes}
        kind = dtype_of(shape.dtype).kind
        dtype = {"x": kind, "w": kind, "out": shape.partial_dtype}
        return Batch(n, size, {}, item_bytes, dtype, scalars, np.zeros(n, np.int64))

    def keep(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Splits:
        """Return only the chosen splits, by a mask or their places."""
        if chosen.dtype == np.bool_:
            chosen = np.flatnonzero(chosen)
        return replace(self, parts=np.take(self.parts.T, chosen, axis=1).T)
