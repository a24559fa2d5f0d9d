"""Plans of dynamic sparse products: parts of rows, inputs and columns, and the size of buckets.

Rows and columns of the sparse matrix are split into a grid of parts, which have a bucket each, and
the columns of the dense operand into parts whose tiles share the bucket. A bucket has room for its
share of the planned number of blocks; what does not fit is in others, which are passed around.
Source: graphcore/poplibs sdk-release-3.4, lib/popsparse/FullyConnectedPlan.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.reduction.reduce_law import (
    ReduceKind,
    ReduceSizes,
    reduce_work,
)
from tilescope.engine.codelets.popsparse.bucket import Work
from tilescope.engine.codelets.popsparse.dynamic_product import forward_cycles
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Stage
from tilescope.engine.machine import Machine
from tilescope.engine.planner.exchange import exchange_cycles
from tilescope.engine.planner.plan import PlannedStage
from tilescope.engine.planner.sparse.pattern import BlockPattern

__all__ = ["DynamicPlan", "DynamicShape", "plan_dynamic"]

Counts = NDArray[np.int64]

#: Share by which places are larger than those of evenly spread blocks.
#: Source: FullyConnectedOptions.hpp, metaInfoBucketOversizeProportion.
_OVERSIZE = 0.3
#: Bytes of a place; places of a group besides its rows', and of a row besides its blocks'.
_PLACE_BYTES = 2
GROUP_PLACES, ROW_PLACES = 2, 2


@dataclass(frozen=True)
class DynamicShape:
    """A dynamic sparse product: what its plan depends on.

    Parameters
    ----------
    n_rows, n_columns
        Of the sparse matrix, elements.
    n
        Columns of the dense operand.
    block_size
        Rows and columns of a block.
    most_blocks
        Blocks that a pattern may have.
    dtype
        float16 or float32.
    """

    n_rows: int
    n_columns: int
    n: int
    block_size: int
    most_blocks: int
    dtype: str

    @property
    def item_bytes(self) -> int:
        """Bytes of an element."""
        return 2 if self.dtype == "float16" else 4

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of blocks."""
        return self.n_rows // self.block_size, self.n_columns // self.block_size


@dataclass(frozen=True)
class DynamicPlan:
    """How a dynamic sparse product is split over tiles.

    Part (x, y) of the grid has the number x · y_parts + y.

    Parameters
    ----------
    shape
        What it is for.
    rows, columns
        Rows and columns of blocks of a part; the last ones may have fewer.
    z_parts
        Parts of the columns of the dense operand, all of the same width.
    capacity
        Blocks of a bucket.
    n_places
        Places of a bucket: see `tilescope.engine.codelets.popsparse.bucket`.
    stages
        Exchange and compute cycles predicted, of blocks that are spread evenly.
    temporary_bytes
        Most that a tile holds of operands and parts of sums, bytes.
    """

    shape: DynamicShape
    rows: int
    columns: int
    z_parts: int
    capacity: int
    n_places: int
    stages: tuple[PlannedStage, ...]
    temporary_bytes: int

    @property
    def x_parts(self) -> int:
        """Parts of rows."""
        return -(-self.shape.grid[0] // self.rows)

    @property
    def y_parts(self) -> int:
        """Parts of columns."""
        return -(-self.shape.grid[1] // self.columns)

    @property
    def n_parts(self) -> int:
        """Parts of the grid, and buckets."""
        return self.x_parts * self.y_parts

    @property
    def width(self) -> int:
        """Columns of the dense operand of a part."""
        return self.shape.n // self.z_parts

    def part_of(self, pattern: BlockPattern) -> Counts:
        """Return the part of every block of a pattern: ndarray of int64, shape (n_blocks,)."""
        return pattern.rows // self.rows * self.y_parts + pattern.columns // self.columns

    def for_pattern(self, pattern: BlockPattern) -> DynamicPlan:
        """Return the split with buckets in which every part of one pattern fits."""
        part = self.part_of(pattern)
        in_part = np.bincount(part, minlength=self.n_parts)
        rows = np.unique(part * self.shape.grid[0] + pattern.rows) // self.shape.grid[0]
        places = in_part + np.bincount(rows, minlength=self.n_parts) * ROW_PLACES
        n_places = int(places.max()) + GROUP_PLACES + 1
        return replace(self, capacity=max(1, int(in_part.max())), n_places=n_places)


def _sizes(n: int, most_parts: int) -> list[int]:
    """Return sizes of parts to consider: of all small counts, then of ones that grow by a third."""
    counts = [1]
    while counts[-1] < min(n, most_parts):
        counts.append(max(counts[-1] + 1, counts[-1] * 4 // 3))
    return sorted({-(-n // min(count, n)) for count in counts})


@lru_cache(maxsize=256)
def plan_dynamic(
    name: str, shape: DynamicShape, n_tiles: int, machine: Machine, share: float
) -> DynamicPlan:
    """Return the split with the fewest predicted cycles whose temporary data fit a share of a tile.

    Parameters
    ----------
    name
        Of the product, for messages.
    shape
        The product.
    n_tiles
        Tiles that it may use.
    machine
        Source of the rates.
    share
        Largest share of a tile's memory for temporary data, 0 to 1.

    Raises
    ------
    BadGraph
        If no split fits.
    """
    down, across = shape.grid
    plans = [
        _costed(shape, rows, columns, z_parts, machine)
        for z_parts in range(1, min(shape.n, n_tiles) + 1)
        if shape.n % z_parts == 0
        for rows in _sizes(down, n_tiles // z_parts)
        for columns in _sizes(across, n_tiles // z_parts)
        if -(-down // rows) * -(-across // columns) * z_parts <= n_tiles
    ]
    limit = share * machine.allocatable_bytes
    fitting = [plan for plan in plans if plan.temporary_bytes <= limit]
    if not fitting:
        least = min(plan.temporary_bytes for plan in plans)
        raise BadGraph(
            f"{name}: the dynamic sparse product of ({shape.n_rows}, {shape.n_columns}) by"
            f" {shape.n} columns takes {least} bytes of temporary memory on a tile, and"
            f" {int(limit)} are available: raise available_memory_proportion, use more tiles, or"
            " multiply fewer columns at a time"
        )
    return min(fitting, key=lambda plan: sum(stage.predicted_cycles for stage in plan.stages))


def _costed(
    shape: DynamicShape, rows: int, columns: int, z_parts: int, machine: Machine
) -> DynamicPlan:
    """Return a split with its buckets, predicted cycles and memory."""
    down, across = shape.grid
    x_parts, y_parts = -(-down // rows), -(-across // columns)
    n_parts, width = x_parts * y_parts, shape.n // z_parts
    size, item = shape.block_size, shape.item_bytes
    capacity = max(1, -(-shape.most_blocks // n_parts))
    filled = min(rows, capacity)
    places = capacity + filled * ROW_PLACES + GROUP_PLACES
    n_places = int(places * (1 + _OVERSIZE)) + 1 + GROUP_PLACES + ROW_PLACES
    bucket_bytes = capacity * size * size * item + n_places * _PLACE_BYTES
    dense_bytes = columns * size * width * item
    one = np.ones(1, np.int64)
    own = one * (dense_bytes + bucket_bytes * (z_parts > 1))
    used = one * (n_parts * z_parts)
    into = int(exchange_cycles(own, 0 * own, used, machine)[0])
    work = Work(one * filled, one * capacity, one * 0)
    product = int(forward_cycles(work, one * width, size, item, machine)[0])
    sums_bytes = rows * size * width * 4
    outputs = -(-shape.n_rows * shape.n // (n_parts * z_parts))
    received = one * (y_parts * outputs * 4)
    gathered = int(exchange_cycles(received, 0 * received, used, machine)[0])
    kind = ReduceKind("sum", "float32", shape.dtype, 4)
    per_tile = ReduceSizes(one, one * outputs, one * y_parts, one, one, one, one * outputs, one)
    reduced = machine.n_worker_contexts * int(reduce_work(kind, per_tile, machine).longest[0])
    stages = (
        PlannedStage(Stage.COMPUTE, 0, into, product),
        PlannedStage(Stage.REDUCE, 0, gathered, reduced),
    )
    # Buckets that are passed around are there twice.
    held = dense_bytes + bucket_bytes * (3 + (z_parts > 1)) + sums_bytes
    held = max(held, sums_bytes + int(received[0]))
    return DynamicPlan(shape, rows, columns, z_parts, capacity, n_places, stages, held)
