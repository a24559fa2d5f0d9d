"""Occupancy: for how long an execution of a step occupies every tile of an IPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.machine.patterns import pattern
from tilescope.analyser.machine.target import target
from tilescope.analyser.time.execution import costs

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["BusyTile", "cost_rows", "occupied_cycles", "slowest_tiles"]


@dataclass(frozen=True)
class BusyTile:
    """A tile in one execution of a step; ``cycles`` in which it works, sends or receives."""

    tile_id: int
    ipu_id: int
    cycles: int


def slowest_tiles(report: Report, step_id: int, n: int = 5) -> tuple[BusyTile, ...]:
    """Return the tiles that are busy for longest in one execution of a step; none that idle."""
    column, machine = costs(report).column, target(report)
    tiles = []
    for row in np.flatnonzero(column["step_id"] == step_id).tolist():
        ipu_id = int(column["ipu_id"][row])
        cycles = report.array("cycles.pattern").row(int(column["pattern_id"][row]))
        for tile in np.argsort(-cycles, kind="stable")[:n].tolist():
            if cycles[tile]:
                first = ipu_id * machine.tiles_per_ipu
                tiles.append(BusyTile(first + tile, ipu_id, int(cycles[tile])))
    return tuple(sorted(tiles, key=lambda tile: (-tile.cycles, tile.tile_id))[:n])


def occupied_cycles(report: Report, pattern_id: int, step_cycles: int) -> NDArray[np.int64]:
    """Return for how long an execution of a step occupies every tile of an IPU.

    A tile that has work is occupied by it and by what the step takes beyond its busiest tile:
    latency of an exchange, the host that is waited for. A step in which no tile has work of its
    own, such as a sync, occupies all of them. The largest value is therefore the time of the step.

    Parameters
    ----------
    report
        The report.
    pattern_id
        Row of ``cycles.pattern``; -1 for an IPU that does not take part.
    step_cycles
        Time of this execution on the IPU, cycles.

    Returns
    -------
    ndarray of int64, shape (tiles_per_ipu,), cycles

    Raises
    ------
    BadQuestion
        When the pattern does not exist.
    """
    if pattern_id < 0:
        return np.zeros(target(report).tiles_per_ipu, dtype=np.int64)
    busy = pattern(report, "cycles.pattern", pattern_id)
    busiest = int(busy.max())
    if not busiest:
        return np.full(len(busy), step_cycles, dtype=np.int64)
    beyond = max(step_cycles - busiest, 0)
    return np.where(busy > 0, busy + beyond, 0)


@cached
def cost_rows(report: Report) -> dict[tuple[int, int], int]:
    """Return the row in the columns of ``costs`` of every step and IPU that takes part."""
    column = costs(report).column
    keys = zip(column["step_id"].tolist(), column["ipu_id"].tolist(), strict=True)
    return {key: row for row, key in enumerate(keys)}
