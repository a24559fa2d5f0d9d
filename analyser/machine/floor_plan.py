"""The floor plan of an IPU: in which physical row and column each tile lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.target import target

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["ORDERS", "FloorPlan", "floor_plan", "grid", "tile_order"]

#: Physical rows of tiles by architecture.
#: Source: ipu1: Burchard et al., iPUG, 19 islands a column; ipu21: osmarks/ipu-stack, ipu-target,
#: 23 rows of 64 tiles. Assumption: ipu2 as ipu21, which has the same number of tiles.
_ROWS = {"ipu1": 19, "ipu2": 23, "ipu21": 23}
#: Orders of tiles: by number, or by place on the floor plan.
ORDERS = ("software", "hardware")


@dataclass(frozen=True)
class FloorPlan:
    """Where the tiles of all IPUs lie; hardware order goes down the columns of every IPU in turn.

    Attributes
    ----------
    n_rows, n_columns
        Of one IPU.
    row, column : ndarray of int64, shape (n_tiles,)
        Place of each tile on its IPU.
    physical_id : ndarray of int64, shape (n_tiles,)
        Place of each tile in hardware order.
    hardware_order : ndarray of int64, shape (n_tiles,)
        The tiles in hardware order.
    """

    n_rows: int
    n_columns: int
    row: NDArray[np.int64]
    column: NDArray[np.int64]
    physical_id: NDArray[np.int64]
    hardware_order: NDArray[np.int64]


@cached
def floor_plan(report: Report) -> FloorPlan:
    """Return the floor plan of a report's machine.

    Raises
    ------
    BadQuestion
        When the architecture is one whose floor plan is not known.

    Notes
    -----
    Tiles 2k and 2k + 1 lie side by side. Pairs fill a column of rows; columns of pairs run down
    and up alternately. A machine with fewer tiles fills the plan from its first column.
    Source: osmarks/ipu-stack, ipu-target, tile numbering of the C600.
    """
    machine = target(report)
    n_rows = _ROWS.get(machine.architecture)
    if n_rows is None:
        raise BadQuestion(
            f"the floor plan of architecture {machine.architecture[:40]!r} is not known;"
            f" known are {', '.join(_ROWS)}; use software order"
        )
    tile = np.arange(machine.tiles_per_ipu, dtype=np.int64)
    pair_column, row = np.divmod(tile // 2, n_rows)
    row = np.where(pair_column % 2 == 1, n_rows - 1 - row, row)
    column = 2 * pair_column + tile % 2
    rows, columns = np.tile(row, machine.n_ipus), np.tile(column, machine.n_ipus)
    ipu = np.arange(machine.n_tiles, dtype=np.int64) // machine.tiles_per_ipu
    order = np.lexsort((rows, columns, ipu)).astype(np.int64)
    physical = np.empty_like(order)
    physical[order] = np.arange(len(order))
    for array in (rows, columns, physical, order):
        array.flags.writeable = False
    n_columns = 2 * int(pair_column.max() + 1)
    return FloorPlan(n_rows, n_columns, rows, columns, physical, order)


def tile_order(report: Report, order: str) -> NDArray[np.int64]:
    """Return the tiles in an order, int64 of shape (n_tiles,).

    Raises
    ------
    BadQuestion
        When the order is unknown, or is that of an unknown floor plan.
    """
    if order not in ORDERS:
        raise BadQuestion(f"order {order[:40]!r} is not known; allowed are {', '.join(ORDERS)}")
    if order == "hardware":
        return floor_plan(report).hardware_order
    return np.arange(target(report).n_tiles, dtype=np.int64)


def grid(report: Report, values: NDArray[np.int64], ipu_id: int) -> NDArray[np.int64]:
    """Return values per tile as they lie on an IPU: int64, shape (n_rows, n_columns); -1: no tile.

    Parameters
    ----------
    report
        The report.
    values : ndarray of int64, shape (n_tiles,)
        From 0.
    ipu_id
        The IPU.
    """
    plan, n_tiles = floor_plan(report), target(report).tiles_per_ipu
    tiles = slice(ipu_id * n_tiles, (ipu_id + 1) * n_tiles)
    answer = np.full((plan.n_rows, plan.n_columns), -1, dtype=np.int64)
    answer[plan.row[tiles], plan.column[tiles]] = values[tiles]
    return answer
