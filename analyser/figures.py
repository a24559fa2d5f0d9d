"""Figures of a report: which tiles fit, tile balance, parallel efficiency; defined only once.

`tilescope.reports.figures` defines them; here is what of a report they are applied to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.data_dependent import is_measured, measured
from tilescope.analyser.execution import PHASES, costs, execution, steps
from tilescope.analyser.machine import target
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
    "tile_balance",
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
    """Return how many times each row of ``step_cost`` was executed, int64."""
    cost = costs(report).column
    return execution(report).executions[cost["ipu_id"], cost["step_id"]]


@cached
def _busy_cycles(report: Report) -> tuple[int, int]:
    """Return busy tile cycles of compute, and those of each step's busiest tile, summed."""
    cost, all_steps = costs(report).column, steps(report)
    is_compute = all_steps.phase[cost["step_id"]] == PHASES.index("compute")
    is_compute &= ~is_measured(report)[cost["step_id"]]
    weights = executed_weights(report)[is_compute]
    busy = (weights * cost["total_tile_cycles"][is_compute]).sum()
    busiest = (weights * cost["max_tile_cycles"][is_compute]).sum()
    for counted in measured(report).values():
        busy += (counted.count * counted.total_tile_cycles).sum()
        busiest += (counted.count * counted.max_tile_cycles).sum()
    return int(busy), int(busiest)


def _exchange_cycles(report: Report) -> int:
    """Return cycles in which tiles send or receive, summed over tiles and executions."""
    cost, all_steps = costs(report).column, steps(report)
    exchanges = [number for number, name in enumerate(PHASES) if PHASE[name].is_exchange]
    is_exchange = np.isin(all_steps.phase[cost["step_id"]], exchanges)
    return int((executed_weights(report) * cost["total_tile_cycles"])[is_exchange].sum())


def parallel_efficiency(report: Report) -> float | None:
    """Return the parallel efficiency of all recorded runs; None without one."""
    active = _busy_cycles(report)[0] + _exchange_cycles(report)
    return figures.parallel_efficiency(
        active, execution(report).total_cycles, target(report).n_tiles
    )


def tile_balance(report: Report) -> float | None:
    """Return the tile balance of all recorded compute steps; None without one."""
    if not execution(report).n_runs:
        return None
    return figures.tile_balance(*_busy_cycles(report), target(report).tiles_per_ipu)
