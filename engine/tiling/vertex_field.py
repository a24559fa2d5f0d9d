"""Fields of convolution vertices: their dimensions, and their sizes for a part."""

from __future__ import annotations

from typing import TypeVar

from tilescope.engine.tiling.dimension import PerDimension
from tilescope.engine.tiling.grouping import Grouping

__all__ = ["field_sizes"]

T = TypeVar("T")


def field_sizes(
    units: PerDimension[T], in_rows: T, in_columns: T, grouping: Grouping
) -> dict[str, tuple[T | int, ...]]:
    """Return the sizes of a vertex's fields along the fields' dimensions.

    Parameters
    ----------
    units
        Units of the vertex's part.
    in_rows, in_columns
        Input rows and columns that the part reads.
    grouping
        Contiguous channels.

    Returns
    -------
    dict
        ``x``: block of groups, image, input group, row, column, channel; ``w``: block of groups,
        output group, input group, kernel row, kernel column, input, output; ``out``: block of
        groups, image, output group, row, column, channel.
    """
    side_by_side = grouping.groups
    return {
        "x": (
            units.groups,
            units.batch,
            units.inputs,
            in_rows,
            in_columns,
            side_by_side * grouping.inputs,
        ),
        "w": (
            units.groups,
            units.outputs,
            units.inputs,
            units.kernel_rows,
            units.kernel_columns,
            grouping.inputs,
            side_by_side * grouping.outputs,
        ),
        "out": (
            units.groups,
            units.batch,
            units.outputs,
            units.rows,
            units.columns,
            side_by_side * grouping.outputs,
        ),
    }
