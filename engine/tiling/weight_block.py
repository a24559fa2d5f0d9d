"""Blocks of weights: contiguous weights of one part, and their division among the sharers.

A block is all inputs of a part if the kernel is whole, the rows of one input group if the kernel is
split, and part of one kernel row if the kernel's columns are split. The parts of the batch and the
field share a block: in whole rows of outputs if an input group has enough rows for all sharers,
otherwise in vectors. Of constants, every share has so many bytes at least.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.tiling.dimension import PerDimension
from tilescope.engine.tiling.grouping import Grouping

__all__ = [
    "LEAST_CONSTANT_BYTES",
    "BlockUnits",
    "block_units",
    "n_sharers",
    "n_shares",
    "shares_whole_rows",
]

#: Smallest share of a block of constants; smaller ones would need more exchange code than memory.
#: Source: graphcore/poplibs, lib/poplin/Convolution.cpp, mapActivationsOrWeights: minBytesPerTile.
LEAST_CONSTANT_BYTES = 256

Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]


class BlockUnits(NamedTuple):
    """Whether a block has one input group, and one kernel row: ndarrays of bool."""

    input_groups: Flags
    kernel_rows: Flags


def block_units(counts: PerDimension[Any]) -> BlockUnits:
    """Return the dimensions along which a block of weights is a single unit.

    Parameters
    ----------
    counts
        Part counts: ints, or ndarrays of int64.
    """
    has_columns = np.asarray(counts.kernel_columns) > 1
    return BlockUnits(has_columns | (np.asarray(counts.kernel_rows) > 1), has_columns)


def n_sharers(counts: PerDimension[Any]) -> Counts:
    """Return the number of tiles that share a block of weights: ndarray of int64."""
    return np.asarray(counts.batch * counts.rows * counts.columns)


def n_shares(n_bytes: Any, grain_bytes: Any, sharers: Any, *, is_constant: bool) -> Counts:
    """Return the number of shares of blocks of weights: ndarray of int64.

    Parameters
    ----------
    n_bytes, grain_bytes
        Size of a block, and of what is not divided: ints, or ndarrays of int64.
    sharers
        Tiles that share a block.
    is_constant
        Whether the weights are constants; others are copied to their shares by the sharers.
    """
    least_bytes = np.maximum(grain_bytes, LEAST_CONSTANT_BYTES if is_constant else 1)
    return np.asarray(np.minimum(sharers, -(-n_bytes // least_bytes)))


def shares_whole_rows(
    counts: PerDimension[Any], largest: PerDimension[Any], grouping: Grouping
) -> Flags:
    """Return whether sharers take whole rows of outputs: ndarray of bool.

    Parameters
    ----------
    counts
        Part counts: ints, or ndarrays of int64.
    largest
        Units of the largest part: ints, or ndarrays of int64.
    grouping
        Contiguous channels.
    """
    kernel_rows = np.where(block_units(counts).kernel_rows, 1, largest.kernel_rows)
    n_rows = kernel_rows * largest.kernel_columns * grouping.inputs
    return np.asarray(n_rows >= n_sharers(counts))
