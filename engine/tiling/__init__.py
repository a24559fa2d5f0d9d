"""Division of convolutions and products over tiles: rules shared by planner and library."""

from tilescope.engine.tiling.dimension import (
    DIMENSIONS,
    KERNEL,
    SUMMED,
    TILE_ORDER,
    Dimension,
    PerDimension,
    unit_counts,
)
from tilescope.engine.tiling.grouping import Grouping
from tilescope.engine.tiling.shape import ConvolutionShape

__all__ = [
    "DIMENSIONS",
    "KERNEL",
    "SUMMED",
    "TILE_ORDER",
    "ConvolutionShape",
    "Dimension",
    "Grouping",
    "PerDimension",
    "unit_counts",
]
