"""Plans of multi-slices: how groups, lookups, rows and columns are split over tiles.

As in graphcore/poplibs sdk-release-3.4, lib/popops/DynamicSlice.cpp: the split with the fewest
predicted cycles whose temporary data fit a share of a tile's memory. If the rows of the base are
split, every part looks all its offsets up, and a second stage chooses between the parts. Unlike the
library, the base is not assumed to lie where a plan wants it: every plan pays for its exchange,
unless the base was allocated by a plan of its own (`tilescope.engine.planner.embedding`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.slicing.multi_slice import (
    multi_slice_cycles,
    part_slice_cycles,
)
from tilescope.engine.graph.vertex.law import worker_share
from tilescope.engine.machine import Machine
from tilescope.engine.planner.embedding import EmbeddingPlan
from tilescope.engine.planner.exchange import exchange_cycles

__all__ = ["SliceShape", "SliceSplit", "plan_slice", "split_of_plan"]

#: Default share of a tile's memory, and bytes of an offset.
_MEMORY_SHARE = 0.6
_OFFSET_BYTES = 4
#: Worker cycles to divide an offset by the rows of a part. Source: the rate of integer divisions,
#: tilescope.engine.codelets.popops.elementwise.binary_functions
_DIVIDE_CYCLES = 277


@dataclass(frozen=True)
class SliceShape:
    """Sizes of a multi-slice: `n_lookups` of `n_rows` rows of `n_columns`, in every group."""

    n_groups: int
    n_lookups: int
    n_rows: int
    n_columns: int
    item_bytes: int


@dataclass(frozen=True)
class SliceSplit:
    """Number of parts of every dimension, and the cycles predicted for both stages."""

    groups: int
    lookups: int
    rows: int
    columns: int
    cycles: int

    @property
    def n_tiles(self) -> int:
        """Number of tiles, one per part."""
        return self.groups * self.lookups * self.rows * self.columns

    def detail(self) -> dict[str, int]:
        """Return what a debug context states."""
        return {name: value for name, value in vars(self).items()}


def _counts(size: int, largest: int) -> NDArray[np.int64]:
    """Return the numbers of parts to consider: all small ones, then ones that grow by a third."""
    counts = [1]
    while counts[-1] < min(size, largest):
        counts.append(max(counts[-1] + 1, counts[-1] * 4 // 3))
    return np.unique(np.minimum(counts, min(size, largest)))


def plan_slice(
    shape: SliceShape, machine: Machine, plan: EmbeddingPlan | None = None
) -> SliceSplit:
    """Return the split with the fewest predicted cycles of those that fit; the smallest otherwise.

    Parameters
    ----------
    shape
        The multi-slice.
    machine
        The tiles, and the laws' figures.
    plan
        Of the base, which is split into these columns; None if it may be split in any way.
    """
    grain = max(1, machine.data_path_bytes // shape.item_bytes) if plan is None else plan.grain
    sizes = (shape.n_groups, shape.n_lookups, shape.n_rows, -(-shape.n_columns // grain))
    axes = [_counts(size, machine.n_tiles) for size in sizes]
    if plan is not None:
        axes[2] = np.union1d(axes[2], [plan.rows])
        axes[3] = np.array([plan.columns])
    count = [grid.reshape(-1) for grid in np.meshgrid(*axes, indexing="ij")]
    fits_tiles = count[0] * count[1] * count[2] * count[3] <= machine.n_tiles
    groups, lookups, rows, columns = (part[fits_tiles] for part in count)
    split = (groups, lookups, rows, columns)
    cycles, n_bytes = _cost(shape, split, grain, machine, plan)
    limit = _MEMORY_SHARE * machine.allocatable_bytes
    fits = n_bytes <= limit
    best = int(np.argmin(np.where(fits, cycles, np.inf)) if fits.any() else np.argmin(n_bytes))
    chosen = [int(part[best]) for part in (groups, lookups, rows, columns)]
    return SliceSplit(chosen[0], chosen[1], chosen[2], chosen[3], int(cycles[best]))


def split_of_plan(shape: SliceShape, machine: Machine, plan: EmbeddingPlan) -> SliceSplit:
    """Return the split of the plan that a base was allocated by, with its predicted cycles."""
    split = [np.array([n]) for n in (1, plan.lookups, plan.rows, plan.columns)]
    cycles, _ = _cost(shape, split, plan.grain, machine, plan)
    return SliceSplit(1, plan.lookups, plan.rows, plan.columns, int(cycles[0]))


def _cost(
    shape: SliceShape, counts: Any, grain: int, machine: Machine, plan: EmbeddingPlan | None
) -> tuple[Any, Any]:
    """Return cycles and temporary bytes of the busiest tile, by split.

    A base that a plan has allocated stays where it is if the split is the plan's, and otherwise
    moves in few fragments, as its columns lie in blocks.
    """
    groups, lookups, rows, columns = counts
    in_place = np.zeros(np.shape(rows), np.bool_)
    if plan is not None and plan.lookups == 1:
        in_place = (lookups == 1) & (rows == plan.rows)
    is_torn = columns > (1 if plan is None else plan.columns)
    item = shape.item_bytes
    n_groups = -(-shape.n_groups // groups)
    n_lookups = -(-shape.n_lookups // lookups)
    n_rows = -(-shape.n_rows // rows)
    n_grains = -(-shape.n_columns // grain)
    n_columns = np.minimum(-(-n_grains // columns) * grain, shape.n_columns)
    base = np.where(in_place, 0, n_groups * n_rows * n_columns * item)
    offsets = n_groups * n_lookups * _OFFSET_BYTES
    slices = n_groups * n_lookups * n_columns * item
    first = n_groups * multi_slice_cycles(
        n_lookups, n_columns, n_rows / shape.n_rows, item, machine
    )
    n_tiles = groups * lookups * rows * columns
    fragments = n_groups * np.where(is_torn, n_rows, 1)
    cycles = first + exchange_cycles(base + offsets, 0 * base, n_tiles, machine, fragments)

    is_split = rows > 1
    n_second = -(-n_lookups // rows)
    received = rows * n_groups * n_second * n_columns * item
    second = n_groups * part_slice_cycles(n_second, n_columns, item, machine)
    n_indices = -(-shape.n_groups * shape.n_lookups // machine.n_tiles)
    divided = worker_share(np.array(n_indices), machine) * _DIVIDE_CYCLES
    second = second + machine.n_worker_contexts * divided
    # Indices are spread over the tiles, and then divided.
    second = second + 2 * (machine.sync_cycles + machine.latest_start_cycles)
    fragments = rows * n_groups * np.where(is_torn, n_second, 1)
    second = second + exchange_cycles(received, 0 * base, n_tiles, machine, fragments)
    n_bytes = base + offsets + slices + is_split * (slices + received)
    return cycles + is_split * second, n_bytes
