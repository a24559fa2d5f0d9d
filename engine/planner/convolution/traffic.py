"""Operands that a tile holds and receives before its vertices start."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.machine import Machine
from tilescope.engine.machine.exchange_law import bus_time
from tilescope.engine.planner.convolution.arrange import arranged_bytes, is_arranged
from tilescope.engine.planner.convolution.split import Splits
from tilescope.engine.tiling.weight_block import n_sharers, n_shares

__all__ = ["Traffic", "sum_bytes"]


@dataclass(frozen=True)
class Traffic:
    """Bytes of the largest part of every split.

    Parameters
    ----------
    arranged_bytes, input_bytes, weight_bytes, paired_bytes : ndarray of int64, shape (n,)
        Arranged images on the tile; inputs and weights received; those of them that both tiles of a
        pair receive, which arrive at the rate of the pair.
    """

    arranged_bytes: NDArray[np.int64]
    input_bytes: NDArray[np.int64]
    weight_bytes: NDArray[np.int64]
    paired_bytes: NDArray[np.int64]

    @classmethod
    def of(cls, splits: Splits, machine: Machine) -> Traffic:
        """Return the bytes of splits on a machine."""
        shape, batch = splits.shape, splits.batch()
        input_bytes = batch.n_elements("x") * shape.item_bytes
        weight_bytes = batch.n_elements("w") * shape.item_bytes
        # Weights are spread over the tiles that share them; inputs come from any tile.
        shares = _weight_shares(splits, machine)
        own_bytes = np.where(shares < n_sharers(splits.counts), 0, weight_bytes // shares)
        weight_bytes = weight_bytes - own_bytes
        arranged = arranged_bytes(shape, splits.grouping, splits.tiles_used)
        if shape.is_input_local:
            # The data is spread over the tiles that read it.
            input_bytes = input_bytes - input_bytes // splits.counts.outputs
        else:
            input_bytes = input_bytes - _held_bytes(splits, arranged)
        paired_bytes = _paired_bytes(splits, input_bytes, weight_bytes)
        return cls(arranged, input_bytes, weight_bytes, paired_bytes)

    @property
    def own_bytes(self) -> NDArray[np.int64]:
        """Bytes received on the tile's own bus: ndarray of int64, shape (n,)."""
        return self.input_bytes + self.weight_bytes - self.paired_bytes

    @property
    def held_bytes(self) -> NDArray[np.int64]:
        """Bytes in temporary memory: ndarray of int64, shape (n,)."""
        return self.arranged_bytes + self.input_bytes + self.weight_bytes

    def least_cycles(self, machine: Machine) -> NDArray[np.float64]:
        """Return a lower bound of the cycles of the exchange: ndarray of float64, shape (n,)."""
        return bus_time(self.own_bytes, machine, self.paired_bytes)

    def fragments(self, splits: Splits, machine: Machine) -> NDArray[np.int64]:
        """Return the fragments in which inputs and weights arrive: ndarray of int64.

        Inputs are spread evenly: one fragment per tile that holds some. A block of weights comes in
        one fragment from every tile that shares it.
        """
        shape = splits.shape
        total = shape.images * shape.in_height * shape.in_width * shape.groups * shape.in_channels
        is_copied = is_arranged(shape, splits.grouping)
        everywhere = np.full_like(splits.tiles_used, machine.n_tiles)
        holders: NDArray[np.int64] = splits.tiles_used if is_copied else everywhere
        held_bytes = np.maximum(-(-total * shape.item_bytes // holders), machine.data_path_bytes)
        shares, sharers = _weight_shares(splits, machine), n_sharers(splits.counts)
        n_blocks, _ = splits.weight_blocks()
        weights = np.where(shares < sharers, shares, shares - 1) * n_blocks
        return np.asarray(-(-self.input_bytes // held_bytes) + weights)


def sum_bytes(splits: Splits) -> NDArray[np.int64]:
    """Return the bytes of partial sums on a tile: ndarray of int64, shape (n,).

    A reduction brings about as many sums again to the tiles that add them.

    Parameters
    ----------
    splits
        The splits.
    """
    out_bytes = splits.batch().n_elements("out") * splits.shape.partial_bytes
    return np.asarray(np.where(splits.n_partials > 1, 2, 1) * out_bytes)


def _held_bytes(splits: Splits, arranged: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bytes of a tile's arranged inputs that are local: ndarray of int64.

    Inputs and parts are both in the order of groups, rows and columns over the tiles; with the
    columns split, a tile holds its own columns of its rows.
    """
    counts = splits.counts
    is_in_order = (counts.outputs == 1) & (splits.n_partials == 1)
    return np.where(is_in_order, arranged // counts.columns, 0)


def _paired_bytes(
    splits: Splits, input_bytes: NDArray[np.int64], weight_bytes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the bytes that both tiles of a pair read: ndarray of int64.

    Neighbouring tiles have parts of the outputs and read the same inputs (`TILE_ORDER`). Where the
    outputs are not split, they have parts of the kernel, or of the field if nothing is summed over
    tiles: parts of the field read the same weights, and both kinds some of the same inputs.
    """
    counts, largest, shape = splits.counts, splits.most, splits.shape
    is_summed = splits.n_partials > 1
    common = np.zeros(len(splits.parts))
    is_beside = np.zeros(len(splits.parts), dtype=bool)
    has_columns, has_kernel_columns = counts.columns == 1, counts.kernel_columns == 1
    for d, units, steps, pairs in (
        (0, largest.rows, shape.stride, ~is_summed & has_columns & (counts.rows % 2 == 0)),
        (1, largest.columns, shape.stride, ~is_summed & (counts.columns % 2 == 0)),
        (
            0,
            largest.kernel_rows,
            shape.dilation,
            has_kernel_columns & (counts.kernel_rows % 2 == 0),
        ),
        (1, largest.kernel_columns, shape.dilation, counts.kernel_columns % 2 == 0),
    ):
        if not pairs.any():
            continue
        extent = splits.input_extent(d)
        share = np.maximum(extent - units * steps[d], 0) / extent
        common = np.where(pairs, share, common)
        is_beside |= pairs
    is_beside &= counts.outputs == 1
    same = common * input_bytes + np.where(is_summed, 0, weight_bytes)
    beside = np.where(is_beside, same, 0).astype(np.int64)
    return np.where(counts.outputs % 2 == 0, input_bytes, beside)


def _weight_shares(splits: Splits, machine: Machine) -> NDArray[np.int64]:
    """Return the number of tiles that hold a share of a block of weights: ndarray of int64."""
    grouping, item = splits.grouping, splits.shape.item_bytes
    row_bytes = max(machine.data_path_bytes, grouping.groups * grouping.outputs * item)
    n_blocks, is_whole = splits.weight_blocks()
    block_bytes = splits.batch().n_elements("w") * item // n_blocks
    grain_bytes = np.where(is_whole, row_bytes, machine.data_path_bytes)
    is_constant = splits.shape.weights == "constant"
    return n_shares(block_bytes, grain_bytes, n_sharers(splits.counts), is_constant=is_constant)
