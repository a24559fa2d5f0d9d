"""The dimensions along which an operation is split over tiles, and their order."""

from __future__ import annotations

from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar

from tilescope.engine.tiling.grouping import Grouping
from tilescope.engine.tiling.shape import ConvolutionShape

__all__ = [
    "DIMENSIONS",
    "KERNEL",
    "SUMMED",
    "TILE_ORDER",
    "Dimension",
    "PerDimension",
    "unit_counts",
]

T = TypeVar("T")


class PerDimension(NamedTuple, Generic[T]):
    """One value per dimension: a count, or an array of counts."""

    groups: T
    batch: T
    rows: T
    columns: T
    outputs: T
    inputs: T
    kernel_rows: T
    kernel_columns: T


class Dimension(IntEnum):
    """A dimension that is split over tiles: its index in `PerDimension`."""

    GROUPS = 0
    BATCH = 1
    ROWS = 2
    COLUMNS = 3
    OUTPUTS = 4
    INPUTS = 5
    KERNEL_ROWS = 6
    KERNEL_COLUMNS = 7

    @property
    def label(self) -> str:
        """Its name in plans and reports."""
        return self.name.lower().replace("_", " ")


#: Names of the dimensions in plans, in order.
DIMENSIONS = tuple(d.label for d in Dimension)

#: The dimensions of the kernel.
KERNEL = (Dimension.KERNEL_ROWS, Dimension.KERNEL_COLUMNS)

#: The dimensions that are summed: their parts give partial sums of the same outputs.
SUMMED = (Dimension.INPUTS, *KERNEL)

#: The order in which parts are assigned to tiles, the last dimension fastest. Parts of the outputs
#: are on neighbouring tiles: they read the same inputs, which both tiles of a pair receive at once.
TILE_ORDER = (
    Dimension.GROUPS,
    Dimension.BATCH,
    Dimension.ROWS,
    Dimension.COLUMNS,
    *SUMMED,
    Dimension.OUTPUTS,
)


def unit_counts(shape: ConvolutionShape, grouping: Grouping) -> PerDimension[int]:
    """Return the units along each dimension: channels count in groups, padding included."""
    groups, in_groups, out_groups = grouping.count(shape)
    return PerDimension(
        groups, shape.images, shape.height, shape.width, out_groups, in_groups, *shape.kernel
    )
