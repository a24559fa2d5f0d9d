"""The work of a convolution vertex: the shapes that cycle laws of convolutions take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tilescope.engine.graph.vertex.law import Batch

__all__ = ["Counts", "Work", "row_shares", "slowest_and_quickest", "work_of", "zeroing_cycles"]

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Work:
    """The shapes of many vertices, or of many candidate splits.

    Parameters
    ----------
    groups : ndarray of int64, shape (n,)
        Blocks of convolution groups; a block holds `groups_inside` of them.
    images, rows, columns : ndarray of int64, shape (n,)
        Images and output field.
    kernel_rows, kernel_columns : ndarray of int64, shape (n,)
        Kernel.
    in_groups, out_groups : ndarray of int64, shape (n,)
        Channel groups of inputs and outputs.
    groups_inside, inputs, outputs : ndarray of int64, shape (n,)
        Convolution groups per block, and input and output channels per channel group.
    stride_y, stride_x : ndarray of int64, shape (n,)
        Strides of the windows.
    item_bytes, partial_bytes
        Size of an input and of an output, bytes.
    """

    groups: Counts
    images: Counts
    rows: Counts
    columns: Counts
    kernel_rows: Counts
    kernel_columns: Counts
    in_groups: Counts
    out_groups: Counts
    groups_inside: Counts
    inputs: Counts
    outputs: Counts
    stride_y: Counts
    stride_x: Counts
    item_bytes: int
    partial_bytes: int

    @property
    def field(self) -> Counts:
        """Output field elements of all images: ndarray of int64, shape (n,)."""
        return self.images * self.rows * self.columns

    @property
    def kernel(self) -> Counts:
        """Kernel positions: ndarray of int64, shape (n,)."""
        return self.kernel_rows * self.kernel_columns


def work_of(batch: Batch) -> Work:
    """Return the shapes of a batch of vertices: see `codelets.poplin.convolution`."""
    groups, images, out_groups, rows, columns, _ = batch.size["out"].T
    _, _, in_groups, kernel_rows, kernel_columns, inputs, inside_outputs = batch.size["w"].T
    groups_inside = batch.size["x"][:, 5] // inputs
    return Work(
        groups,
        images,
        rows,
        columns,
        kernel_rows,
        kernel_columns,
        in_groups,
        out_groups,
        groups_inside,
        inputs,
        inside_outputs // groups_inside,
        batch.scalars["stride_y"],
        batch.scalars["stride_x"],
        batch.item_bytes["x"],
        batch.item_bytes["out"],
    )


def slowest_and_quickest(
    rows: Counts, columns: Counts, workers: int, cycles_of_part: Counts
) -> tuple[Counts, Counts]:
    """Return the cycles of the slowest and the fastest worker of every vertex.

    The field is divided among workers element by element; a worker pays for every row it touches.

    Parameters
    ----------
    rows, columns : ndarray of int64, shape (n,)
        Field per vertex.
    workers
        Contexts that share the field.
    cycles_of_part : ndarray of int64
        Cycles of a part of a row, by length, up to the longest row or beyond.

    Notes
    -----
    Source: poplin ConvUtilInternal.cpp, partitionConvPartialByWorker.
    """
    edges = np.arange(workers + 1) * (rows * columns)[:, None] // workers
    begin, end, width = edges[:, :-1], edges[:, 1:], np.maximum(columns, 1)[:, None]
    first, last = begin // width, np.maximum(end - 1, begin) // width
    # A part of the first row, whole rows, and a part of the last one.
    of_first = cycles_of_part[np.minimum(end, (first + 1) * width) - begin]
    of_last = np.where(last > first, cycles_of_part[np.maximum(end - last * width, 0)], 0)
    whole_parts = np.maximum(last - first - 1, 0) * cycles_of_part[columns][:, None]
    cycles = np.where(end > begin, of_first + whole_parts + of_last, 0)
    return cycles.max(axis=1), cycles.min(axis=1)


def row_shares(rows: Counts, columns: Counts, workers: int) -> tuple[Counts, Counts, Counts]:
    """Return how rows are divided among workers, with the fewest cuts that balance the load.

    Parameters
    ----------
    rows, columns : ndarray of int64, shape (n,)
        Rows, and elements per row.
    workers
        Contexts that share the rows.

    Returns
    -------
    whole, parts, size : ndarray of int64, shape (n,)
        Whole rows of the busiest worker, its partial rows, and elements per partial row.

    Notes
    -----
    Source: poplin PerformanceEstimation.hpp, estimateConvPartialHorizontalMacInnerLoopCycles and
    estimateConvPartialVerticalMacInnerLoopCycles.
    """
    cuts = workers // np.gcd(workers, rows)
    most_rows = -(-rows * cuts // workers)
    return most_rows // cuts, most_rows % cuts, -(-columns // cuts)


def zeroing_cycles(work: Work, workers: int, data_path_bytes: int) -> Counts:
    """Return the cycles to zero the partial sums before the first pass.

    Notes
    -----
    Source: poplin PerformanceEstimation.hpp, getZeroSupervisorVertexCycleEstimate.
    """
    saved, start = (9, 14) if work.partial_bytes == 4 else (10, 15)
    share = -(-work.field * work.outputs // workers)
    vectors = -(-share * work.partial_bytes // data_path_bytes)
    return np.asarray(workers * (vectors + start - saved) * work.groups * work.out_groups)
