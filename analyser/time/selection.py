"""A selection of what ran: all IPUs or one, all recorded runs or one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.machine.target import tile_range
from tilescope.analyser.time.execution import (
    costs,
    execution,
    ipu_cycles,
    steps,
    taken_cycles,
)

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["ALL", "Selection", "selected_costs", "selected_cycles", "selected_step_cycles"]


class Selection(NamedTuple):
    """One IPU or all, one recorded run or all of them.

    Over all IPUs, time is that of the critical path; on one IPU it is what the IPU does, waits
    for others included.
    """

    ipu_id: int | None = None
    run_id: int | None = None


#: Everything that ran.
ALL = Selection()


def selected_step_cycles(report: Report, selection: Selection = ALL) -> NDArray[np.int64]:
    """Return the time in every step, of one execution of each when no run was recorded.

    Returns
    -------
    ndarray of int64, shape (n_steps,), cycles

    Raises
    ------
    BadQuestion
        When the IPU or the run does not exist.
    """
    ipu_id, run_id = _checked(report, selection)
    ran = execution(report, run_id)
    if ran.n_runs:
        return (
            ran.step_cycles if ipu_id is None else np.asarray(taken_cycles(report, run_id)[ipu_id])
        )
    cost, n_steps = costs(report), len(steps(report))
    if ipu_id is None:
        return cost.per_step("cycles", n_steps, largest=True)
    answer = np.zeros(n_steps, dtype=np.int64)
    here = cost.column["ipu_id"] == ipu_id
    answer[cost.column["step_id"][here]] = cost.column["cycles"][here]
    return answer


def selected_cycles(report: Report, selection: Selection = ALL) -> int:
    """Return the time of the runs, time in no step included; the sum of the steps without a run.

    Raises
    ------
    BadQuestion
        When the IPU or the run does not exist.
    """
    ipu_id, run_id = _checked(report, selection)
    ran = execution(report, run_id)
    if not ran.n_runs:
        return int(selected_step_cycles(report, selection).sum())
    return ran.total_cycles if ipu_id is None else int(ipu_cycles(report, run_id)[ipu_id])


def selected_costs(
    report: Report, selection: Selection = ALL
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return which rows of the costs are selected, and how often each of them was executed.

    Returns
    -------
    rows : ndarray of intp, shape (n_rows,)
        Rows of `tilescope.analyser.time.execution.costs`.
    executions : ndarray of int64, shape (n_rows,)
        Once each when no run was recorded.

    Raises
    ------
    BadQuestion
        When the IPU or the run does not exist.
    """
    ipu_id, run_id = _checked(report, selection)
    ran, column = execution(report, run_id), costs(report).column
    is_chosen = column["ipu_id"] == ipu_id if ipu_id is not None else column["ipu_id"] >= 0
    rows = np.flatnonzero(is_chosen)
    if not ran.n_runs:
        return rows, np.ones(len(rows), dtype=np.int64)
    return rows, ran.executions[column["ipu_id"][rows], column["step_id"][rows]]


def _checked(report: Report, selection: Selection) -> Selection:
    """Return a selection whose IPU exists; `execution` checks the run."""
    if selection.ipu_id is not None:
        tile_range(report, ("ipu", selection.ipu_id))
    return selection
