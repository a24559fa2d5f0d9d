"""Occupancy: for how long an execution of a step occupies every tile of an IPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.data_dependent import is_measured, measured
from tilescope.analyser.execution import PHASES, costs, execution, steps
from tilescope.analyser.machine import target
from tilescope.analyser.patterns import pattern

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["cost_rows", "occupied_cycles", "tile_cycles"]


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


@cached
def tile_cycles(report: Report) -> NDArray[np.int64]:
    """Return for how long all executions occupy tiles, summed over an IPU's tiles.

    It is the sum of `occupied_cycles` over tiles and executions, computed from the steps' costs.

    Returns
    -------
    ndarray of int64, shape (n_phases, n_ipus), cycles
        A row per name of `tilescope.analyser.execution.PHASES`.
    """
    machine, column, ran = target(report), costs(report).column, execution(report)
    step_id, ipu_id = column["step_id"], column["ipu_id"]
    executions = np.where(is_measured(report)[step_id], 0, ran.executions[ipu_id, step_id])
    names = ("cycles", "total_tile_cycles", "max_tile_cycles", "n_active_tiles")
    taken = executions * _occupied_sum(machine.tiles_per_ipu, *(column[name] for name in names))
    answer = np.zeros((len(PHASES), machine.n_ipus), dtype=np.int64)
    np.add.at(answer, (steps(report).phase[step_id], ipu_id), taken)
    for ipu, entries in measured(report).items():
        taken = entries.count * _occupied_sum(
            machine.tiles_per_ipu,
            entries.end - entries.start,
            entries.total_tile_cycles,
            entries.max_tile_cycles,
            entries.n_active_tiles,
        )
        np.add.at(answer[:, ipu], steps(report).phase[entries.step_id], taken)
    answer.flags.writeable = False
    return answer


def _occupied_sum(
    n_tiles: int,
    step_cycles: NDArray[np.int64],
    total: NDArray[np.int64],
    busiest: NDArray[np.int64],
    n_active: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the sum of `occupied_cycles` over tiles; all arrays have one entry per execution."""
    beyond = np.maximum(step_cycles - busiest, 0)
    return np.where(busiest > 0, total + n_active * beyond, n_tiles * step_cycles)
