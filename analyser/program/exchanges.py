"""Exchanges: what each of them moves, between which tiles and IPUs, its code and its cycles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.search import search_words, words_fit
from tilescope.analyser.time.execution import costs, execution, steps
from tilescope.analyser.time.occupancy import BusyTile, slowest_tiles
from tilescope.analyser.time.selection import (
    ALL,
    Selection,
    selected_costs,
    selected_cycles,
    selected_step_cycles,
)
from tilescope.reports import schema
from tilescope.reports.schema.vocabulary import PROGRAM_KINDS

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["BusyTile", "Exchange", "Exchanges", "busiest_tiles", "exchanges"]


@dataclass(frozen=True)
class Exchange:
    """A step that moves data: within an IPU, between IPUs, or from and to the host.

    Attributes
    ----------
    cycles
        One execution on the IPU where it takes longest, cycles.
    total_cycles
        On the critical path over the recorded runs, or on the chosen IPU with its waits; of one
        execution when no run was recorded, cycles.
    n_executions
        On the IPU where it ran most often; 0 without a run.
    sent_bytes, received_bytes
        Of all tiles in one execution; a multicast is sent once.
    max_sent_bytes, max_received_bytes
        The most that one tile sends or receives.
    n_fragments
        Separate fragments received on the busiest tile.
    n_active_tiles
        Tiles that send or receive.
    host_bytes, remote_bytes
        From and to the host, and from and to remote buffers, in one execution.
    senders, receivers
        IPUs that send to and receive from other IPUs.
    code_bytes
        Exchange code over all tiles.
    """

    step_id: int
    program_id: int
    kind: str
    name: str
    cycles: int
    total_cycles: int
    n_executions: int
    sent_bytes: int
    received_bytes: int
    max_sent_bytes: int
    max_received_bytes: int
    n_fragments: int
    n_active_tiles: int
    host_bytes: int
    remote_bytes: int
    link_bytes: int
    senders: tuple[int, ...]
    receivers: tuple[int, ...]
    code_bytes: int


@dataclass(frozen=True)
class Exchanges:
    """The exchanges of a program, those that take longest first.

    ``total_cycles`` are of the whole run or runs, of one execution of each step without a run.
    """

    exchanges: tuple[Exchange, ...]
    total_cycles: int
    n_runs: int

    @property
    def cycles(self) -> int:
        """Time in exchanges, cycles."""
        return sum(exchange.total_cycles for exchange in self.exchanges)


def exchanges(report: Report, text: str = "", selection: Selection = ALL) -> Exchanges:
    """Return the exchanges whose name or kind contains a text, whatever its case.

    Parameters
    ----------
    report
        The report.
    text
        Empty for all of them.
    selection
        IPU and run that count.

    Raises
    ------
    BadQuestion
        When the IPU or the run does not exist.
    """
    every, column = steps(report), costs(report).column
    rows, _ = selected_costs(report, selection)
    picked = _moving_steps(report)
    words = search_words(text)
    picked = [step for step in picked if words_fit(words, every.kind[step], every.name[step])]
    rows = rows[np.isin(column["step_id"][rows], np.array(picked, dtype=np.int64))]
    rows_of: dict[int, list[int]] = {}
    for row, step in zip(rows.tolist(), column["step_id"][rows].tolist(), strict=True):
        rows_of.setdefault(step, []).append(row)
    total = selected_step_cycles(report, selection)
    run_id = selection.run_id
    code = _code_bytes(report)
    results = [
        _exchange(report, step, of_step, int(total[step]), code.get(step, 0), run_id)
        for step, of_step in rows_of.items()
    ]
    results.sort(key=lambda exchange: (-exchange.total_cycles, exchange.step_id))
    n_runs = execution(report, run_id).n_runs
    return Exchanges(tuple(results), selected_cycles(report, selection), n_runs)


def busiest_tiles(report: Report, step_id: int, n: int = 5) -> tuple[BusyTile, ...]:
    """Return the tiles that send or receive for longest in one execution of an exchange.

    Raises
    ------
    BadQuestion
        When the step does not exist, or moves no data.
    """
    if step_id not in _moving_steps(report):
        n_steps = len(steps(report))
        raise BadQuestion(
            f"step {step_id} is not an exchange or stream copy; this report has {n_steps:,} steps,"
            " and 'tilescope exchange' lists those that move data"
        )
    return slowest_tiles(report, step_id, n)


@cached
def _moving_steps(report: Report) -> list[int]:
    """Return the steps that have exchange code, in program order."""
    return [
        step
        for step, kind in enumerate(steps(report).kind)
        if PROGRAM_KINDS[kind].has_exchange_code
    ]


@cached
def _code_bytes(report: Report) -> dict[int, int]:
    """Return the code of every step's program over all tiles, bytes."""
    rows = report.rows(schema.program, "step_id", "code_bytes")
    return {step_id: size for step_id, size in rows if step_id is not None}


@cached
def _cost_lists(report: Report) -> dict[str, list[int]]:
    """Return the costs of steps as lists, quicker to pick from one by one than arrays."""
    return {name: values.tolist() for name, values in costs(report).column.items()}


def _exchange(
    report: Report,
    step: int,
    rows: list[int],
    total: int,
    code_bytes: int,
    run_id: int | None,
) -> Exchange:
    """Return one exchange from its rows of costs, one per IPU."""
    column, every = _cost_lists(report), steps(report)

    def summed(*names: str) -> int:
        return sum(column[name][row] for name in names for row in rows)

    def largest(name: str) -> int:
        return max(column[name][row] for row in rows)

    def ipus(name: str) -> tuple[int, ...]:
        return tuple(column["ipu_id"][row] for row in rows if column[name][row] > 0)

    ran = execution(report, run_id).executions
    executions = max(int(ran[column["ipu_id"][row], step]) for row in rows)
    return Exchange(
        step,
        int(every.program_id[step]),
        every.kind[step],
        every.name[step],
        largest("cycles"),
        total,
        executions,
        summed("total_sent_bytes"),
        summed("total_received_bytes"),
        largest("max_sent_bytes"),
        largest("max_received_bytes"),
        largest("n_fragments"),
        summed("n_active_tiles"),
        summed("host_in_bytes", "host_out_bytes"),
        summed("remote_in_bytes", "remote_out_bytes"),
        summed("link_out_bytes"),
        ipus("link_out_bytes"),
        ipus("link_in_bytes"),
        code_bytes,
    )
