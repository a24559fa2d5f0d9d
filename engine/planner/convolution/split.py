"""Splits of a convolution over tiles: all useful part counts, and the part of one tile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.number.dtype import dtype_of
from tilescope.engine.planner.convolution.part_counts import (
    all_parts,
    part_options,
    useful_parts,
    widest_parts,
)
from tilescope.engine.planner.serial import AT_ONCE, Serial
from tilescope.engine.tiling import (
    KERNEL,
    ConvolutionShape,
    Dimension,
    Grouping,
    PerDimension,
    unit_counts,
)
from tilescope.engine.tiling.channel_layout import output_layout
from tilescope.engine.tiling.input_range import (
    FieldWindow,
    clipped_range,
    kernel_window,
    part_edges,
)
from tilescope.engine.tiling.vertex_field import field_sizes
from tilescope.engine.tiling.weight_block import block_units, shares_whole_rows

__all__ = ["Splits"]

#: No part count is given.
_NOTHING: Mapping[str, int] = MappingProxyType({})

Counts = NDArray[np.int64]

#: The columns of the kernel, the last ones.
_KERNEL = slice(Dimension.KERNEL_ROWS, None)


@lru_cache(maxsize=65_536)
def _most_inputs(
    n_outputs: int, parts: int, kernel_parts: int, n_inputs: int, window: FieldWindow
) -> int:
    """Return the most inputs along a dimension that one part of its outputs and kernel reads."""
    edges = part_edges(n_outputs, parts)
    kernel_edges = part_edges(int(window.kernel), kernel_parts)
    first, count = edges[:-1, None], np.diff(edges)[:, None]
    part = kernel_window(window, kernel_edges[:-1], np.diff(kernel_edges))
    _, length, _ = clipped_range(first, count, n_inputs, part)
    return int(length.max())


@dataclass(frozen=True)
class Splits:
    """All splits of a shape by one grouping.

    Parameters
    ----------
    shape, grouping
        The operation, and its groups of channels.
    sizes
        Units by dimension.
    parts : ndarray of int64, shape (n, 8)
        Part counts of every split, one column per `Dimension`.
    serial
        The serial parts; the shape is that of one part.
    """

    shape: ConvolutionShape
    grouping: Grouping
    sizes: PerDimension[int]
    parts: NDArray[np.int64]
    serial: Serial = AT_ONCE

    @classmethod
    def over(
        cls,
        shape: ConvolutionShape,
        grouping: Grouping,
        n_tiles: int,
        serial: Serial = AT_ONCE,
        stated: Mapping[str, int] = _NOTHING,
    ) -> Splits:
        """Return the useful splits over at most `n_tiles` tiles, with the given part counts.

        The kernel is whole unless part counts of it are given.
        """
        sizes = unit_counts(shape, grouping)
        parts = all_parts(part_options(sizes, n_tiles, stated), n_tiles)
        return cls(shape, grouping, sizes, parts, serial)

    @classmethod
    def widest(
        cls,
        shape: ConvolutionShape,
        grouping: Grouping,
        n_tiles: int,
        serial: Serial,
        stated: Mapping[str, int],
    ) -> Splits:
        """Return the splits of which no dimension could have more parts, the kernel's included.

        Parameters are those of `over`.
        """
        sizes = unit_counts(shape, grouping)
        parts = widest_parts(part_options(sizes, n_tiles, stated, ()), n_tiles)
        return cls(shape, grouping, sizes, parts, serial)

    def over_kernel(
        self, cycles: NDArray[np.float64], n_tiles: int, most_cycles: float
    ) -> tuple[Splits, NDArray[np.float64]]:
        """Return these splits with the kernel split too, if that may be fast enough.

        Parameters
        ----------
        cycles : ndarray of float64, shape (n,)
            Lower bound of the cycles that splitting the kernel divides.
        n_tiles
            Tiles available.
        most_cycles
            Splits with a greater lower bound are left out.

        Returns
        -------
        splits : Splits
            In ascending order of the lower bound.
        least_cycles : ndarray of float64, shape (n,)
            Lower bound of the cycles.
        """
        rows, columns = self.shape.kernel
        parts_of = [useful_parts(size, n_tiles) for size in self.shape.kernel]
        kernel_parts = np.array([(y, x) for y in parts_of[0] for x in parts_of[1]][1:]).reshape(
            -1, 2
        )
        n_parts = kernel_parts.prod(axis=1)
        shares = np.prod(-(-np.array([rows, columns]) // kernel_parts), axis=1) / (rows * columns)
        quick = cycles * shares.min(initial=1) <= most_cycles
        candidates_ = np.flatnonzero(quick & (self.tiles_used * 2 <= n_tiles))
        fits = self.tiles_used[candidates_, None] * n_parts <= n_tiles
        least_cycles = cycles[candidates_, None] * shares
        row, column = np.nonzero(fits & (least_cycles <= most_cycles))
        least_cycles = least_cycles[row, column]
        order = np.argsort(least_cycles, kind="stable")
        parts = np.take(self.parts.T, candidates_[row[order]], axis=1)
        parts[_KERNEL] = kernel_parts[column[order]].T
        return replace(self, parts=parts.T), least_cycles[order]

    @cached_property
    def n_partials(self) -> NDArray[np.int64]:
        """Partial sums of every output: ndarray of int64, shape (n,)."""
        counts = self.counts
        if self._n_cut < len(Dimension):
            return np.asarray(counts.inputs)
        return np.asarray(counts.inputs * counts.kernel_rows * counts.kernel_columns)

    @cached_property
    def _n_cut(self) -> int:
        """Number of leading dimensions to consider; the kernel comes last and is mostly whole."""
        n = len(Dimension)
        return n if (self.parts[:, _KERNEL] > 1).any() else n - len(KERNEL)

    @property
    def result_runs(self) -> NDArray[np.int64]:
        """Adjacent channel groups of a part's results in memory: ndarray of int64, shape (n,)."""
        return output_layout(self.shape, self.grouping).run_of(self.counts, self.most)

    @cached_property
    def tiles_used(self) -> NDArray[np.int64]:
        """Tiles of every split: ndarray of int64, shape (n,)."""
        return np.asarray(self.parts[:, : self._n_cut].prod(axis=1))

    @cached_property
    def _largest(self) -> NDArray[np.int64]:
        sizes, cut = np.array(self.sizes)[:, None], slice(self._n_cut)
        largest = np.repeat(sizes, len(self.parts), axis=1)
        largest[cut] = -(-sizes[cut] // self.parts.T[cut])
        return largest.T

    @property
    def counts(self) -> PerDimension[Counts]:
        """Part counts of every split, by dimension: ndarrays of int64, shape (n,)."""
        return PerDimension(*self.parts.T)

    @property
    def most(self) -> PerDimension[Counts]:
        """Units of the largest part of every split: ndarrays of int64, shape (n,)."""
        return PerDimension(*self._largest.T)

    def largest(self, smaller: Sequence[Dimension] = ()) -> NDArray[np.int64]:
        """Return the units of the largest part: ndarray of int64, shape (n, 8).

        Parameters
        ----------
        smaller
            Dimensions in which the smaller of two part sizes is taken.
        """
        if not smaller:
            return self._largest
        is_uneven = self._largest * self.parts > np.array(self.sizes)
        less = np.array([d in smaller for d in Dimension])
        return np.asarray(self._largest - is_uneven * less)

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
        n_outputs, counts = (self.sizes.rows, self.sizes.columns)[d], self.counts
        of_kernel_parts = (counts.kernel_rows, counts.kernel_columns)[d]
        step = int(of_kernel_parts.max(initial=1))
        pairs = (counts.rows, counts.columns)[d]
        if step > 1:
            pairs = (pairs - 1) * step + of_kernel_parts
        extent_of_pair = np.zeros(int(pairs.max(initial=0)) + 1, np.int64)
        for pair in np.flatnonzero(np.bincount(pairs)).tolist():
            of_outputs, of_kernel = divmod(pair - 1, step)
            extent_of_pair[pair] = _most_inputs(
                n_outputs, of_outputs + 1, of_kernel + 1, size, window
            )
        return np.asarray(extent_of_pair[pairs])

    def batch(self, smaller: Sequence[Dimension] = ()) -> Batch:
        """Return the vertices with the largest parts, for a cycle law; see `largest`."""
        return self._make_batch(smaller) if smaller else self._largest_batch

    @cached_property
    def _largest_batch(self) -> Batch:
        return self._make_batch(())

    def _make_batch(self, smaller: Sequence[Dimension]) -> Batch:
        shape = self.shape
        largest = PerDimension(*self.largest(smaller).T)
        n = largest.groups.size

        def columns_of(sizes: Sequence[NDArray[np.int64] | int]) -> NDArray[np.int64]:
            columns = np.empty((len(sizes), n), np.int64)
            for column, size in zip(columns, sizes, strict=True):
                column[:] = size
            return columns.T

        sizes = field_sizes(largest, self.input_extent(0), self.input_extent(1), self.grouping)
        size = {name: columns_of(field) for name, field in sizes.items()}
        scalars = {
            "stride_y": np.full(n, shape.stride[0]),
            "stride_x": np.full(n, shape.stride[1]),
        }
        item_bytes = {"x": shape.item_bytes, "w": shape.item_bytes, "out": shape.partial_bytes}
        kind = dtype_of(shape.dtype).kind
        dtype = {"x": kind, "w": kind, "out": shape.partial_dtype}
        return Batch(n, size, {}, item_bytes, dtype, scalars, np.zeros(n, np.int64))

    def weight_blocks(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the blocks of a part's weights, and whether they are shared in whole rows.

        The rules are in `tilescope.engine.tiling.weight_block`.

        Returns
        -------
        n_blocks : ndarray of int64, shape (n,)
            Blocks of weights of the largest part.
        is_whole : ndarray of bool, shape (n,)
            Whether rows are whole.
        """
        counts, largest = self.counts, self.most
        is_unit = block_units(counts)
        n_blocks = (
            largest.groups * largest.outputs * np.where(is_unit.input_groups, largest.inputs, 1)
        )
        n_blocks = n_blocks * np.where(is_unit.kernel_rows, largest.kernel_rows, 1)
        return n_blocks, shares_whole_rows(counts, largest, self.grouping)

    def keep(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Splits:
        """Return the chosen splits, by a mask or by indices."""
        if chosen.dtype == np.bool_:
            chosen = np.flatnonzero(chosen)
        return replace(self, parts=np.take(self.parts.T, chosen, axis=1).T)
