"""Figures of a report: which tiles fit, tile balance, parallel efficiency; defined only once.

`tilescope.reports.figures` defines them; here is what of a report they are applied to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.machine.target import target
from tilescope.analyser.time.data_dependent import is_measured, measured
from tilescope.analyser.time.execution import PHASES, costs, execution, ipu_cycles, steps
from tilescope.analyser.time.selection import Selection, selected_costs
from tilescope.analyser.validation import require
from tilescope.reports import figures
from tilescope.reports.schema.vocabulary import MEMORY_ROWS
from tilescope.reports.schema.vocabulary import PHASES as PHASE

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "code_missing_bytes",
    "executed_weights",
    "has_memory",
    "memory_missing_bytes",
    "missing_bytes",
    "parallel_efficiency",
    "step_busy_cycles",
    "tile_balance",
    "tile_cycles",
    "tile_rows",
]


def has_memory(report: Report) -> bool:
    """Return whether a report holds memory: it was compiled, with a graph profile."""
    return bool(report.array("memory.tile").shape[0])


@cached
def tile_rows(report: Report) -> dict[str, NDArray[np.int64]]:
    """Return the rows of ``memory.tile`` by name; zeros where the report holds no memory.

    Returns
    -------
    dict of str to ndarray of int64, shape (n_tiles,), bytes
        Keys are those of `tilescope.reports.schema.vocabulary.MEMORY_ROWS`.
    """
    packed = report.array("memory.tile")
    values = np.zeros((len(MEMORY_ROWS), target(report).n_tiles), dtype=np.int64)
    if packed.shape[0]:
        is_whole = packed.shape == values.shape
        require(report, is_whole, f"its memory.tile is not {len(values)} rows of all tiles")
        values[:] = packed.read()
    values.flags.writeable = False
    return {name: values[row.number] for name, row in MEMORY_ROWS.items()}


def missing_bytes(report: Report) -> NDArray[np.int64]:
    """Return the bytes that each tile lacks, int64 of shape (n_tiles,); 0 where it fits."""
    machine, rows = target(report), tile_rows(report)
    return figures.missing_bytes(
        rows["including_gaps"], rows["code_end"], machine.capacity_bytes, machine.executable_bytes
    )


def code_missing_bytes(report: Report) -> NDArray[np.int64]:
    """Return how far each tile's code lies past executable memory, int64 of shape (n_tiles,)."""
    return figures.bytes_past(tile_rows(report)["code_end"], target(report).executable_bytes)


def memory_missing_bytes(report: Report) -> NDArray[np.int64]:
    """Return how far each tile's addresses reach past its memory, int64 of shape (n_tiles,)."""
    return figures.bytes_past(tile_rows(report)["including_gaps"], target(report).capacity_bytes)


@cached
def executed_weights(report: Report) -> NDArray[np.int64]:
    """Return how many times each row of the costs was executed, int64."""
    cost = costs(report).column
    return execution(report).executions[cost["ipu_id"], cost["step_id"]]


@cached
def step_busy_cycles(report: Report, run_id: int | None = None) -> NDArray[np.int64]:
    """Return cycles of compute by IPU and step: of all tiles together, and of the busiest.

    Of all recorded runs or one; of one execution of each step when no run was recorded.

    Returns
    -------
    ndarray of int64, shape (2, n_ipus, n_steps), cycles
    """
    cost, all_steps = costs(report).column, steps(report)
    rows, times = selected_costs(report, Selection(run_id=run_id))
    is_counted = all_steps.phase[cost["step_id"][rows]] == PHASES.index("compute")
    by_data = measured(report, run_id)
    if by_data:
        is_counted &= ~is_measured(report)[cost["step_id"][rows]]
    rows, times = rows[is_counted], times[is_counted]
    busy = np.zeros((2, target(report).n_ipus, len(all_steps)), dtype=np.int64)
    for row, name in enumerate(("total_tile_cycles", "max_tile_cycles")):
        np.add.at(
            busy[row], (cost["ipu_id"][rows], cost["step_id"][rows]), times * cost[name][rows]
        )
    for ipu_id, counted in by_data.items():
        np.add.at(busy[0, ipu_id], counted.step_id, counted.count * counted.total_tile_cycles)
        np.add.at(busy[1, ipu_id], counted.step_id, counted.count * counted.max_tile_cycles)
    busy.flags.writeable = False
    return busy


def _busy_cycles(report: Report) -> NDArray[np.int64]:
    """Return `step_busy_cycles` summed over steps; int64, shape (2, n_ipus), cycles."""
    return np.asarray(step_busy_cycles(report).sum(axis=2))


@cached
def _exchange_cycles(report: Report) -> NDArray[np.int64]:
    """Return cycles in which tiles send or receive, over tiles and executions: (n_ipus,)."""
    cost, all_steps = costs(report).column, steps(report)
    exchanges = [number for number, name in enumerate(PHASES) if PHASE[name].is_exchange]
    is_exchange = np.isin(all_steps.phase[cost["step_id"]], exchanges)
    cycles = (executed_weights(report) * cost["total_tile_cycles"])[is_exchange]
    answer = np.zeros(target(report).n_ipus, dtype=np.int64)
    np.add.at(answer, cost["ipu_id"][is_exchange], cycles)
    return answer


def parallel_efficiency(report: Report, ipu_id: int | None = None) -> float | None:
    """Return the parallel efficiency of all recorded runs, or of one IPU in them; None without."""
    machine, active = target(report), _busy_cycles(report)[0] + _exchange_cycles(report)
    if ipu_id is None:
        cycles = execution(report).total_cycles
        return figures.parallel_efficiency(int(active.sum()), cycles, machine.n_tiles)
    cycles = int(ipu_cycles(report)[ipu_id])
    return figures.parallel_efficiency(int(active[ipu_id]), cycles, machine.tiles_per_ipu)


def tile_balance(report: Report, ipu_id: int | None = None) -> float | None:
    """Return the tile balance of all recorded compute steps, or of one IPU's; None without one."""
    if not execution(report).n_runs:
        return None
    busy, busiest = (
        int(row.sum() if ipu_id is None else row[ipu_id]) for row in _busy_cycles(report)
    )
    return figures.tile_balance(busy, busiest, target(report).tiles_per_ipu)


@cached
def tile_cycles(report: Report) -> NDArray[np.int64]:
    """Return for how long all executions occupy tiles, summed over an IPU's tiles.

    It is the sum of `tilescope.analyser.time.occupancy.occupied_cycles` over tiles and executions,
    computed from the steps' costs.

    Returns
    -------
    ndarray of int64, shape (n_phases, n_ipus), cycles
        A row per name of `tilescope.analyser.time.execution.PHASES`.
    """
    machine, column, ran = target(report), costs(report).column, execution(report)
    step_id, ipu_id = column["step_id"], column["ipu_id"]
    executions = np.where(is_measured(report)[step_id], 0, ran.executions[ipu_id, step_id])
    names = ("cycles", "total_tile_cycles", "max_tile_cycles", "n_active_tiles")
    cycles = executions * _occupied_sum(machine.tiles_per_ipu, *(column[name] for name in names))
    answer = np.zeros((len(PHASES), machine.n_ipus), dtype=np.int64)
    np.add.at(answer, (steps(report).phase[step_id], ipu_id), cycles)
    for ipu, entries in measured(report).items():
        cycles = entries.count * _occupied_sum(
            machine.tiles_per_ipu,
            entries.end - entries.start,
            entries.total_tile_cycles,
            entries.max_tile_cycles,
            entries.n_active_tiles,
        )
        np.add.at(answer[:, ipu], steps(report).phase[entries.step_id], cycles)
    answer.flags.writeable = False
    return answer


def _occupied_sum(
    n_tiles: int,
    step_cycles: NDArray[np.int64],
    total: NDArray[np.int64],
    busiest: NDArray[np.int64],
    n_active: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the sum of occupied cycles over tiles; all arrays have one entry per execution."""
    beyond = np.maximum(step_cycles - busiest, 0)
    return np.where(busiest > 0, total + n_active * beyond, n_tiles * step_cycles)
