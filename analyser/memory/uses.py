"""Uses of variables: at which steps each is read or written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.reports import schema
from tilescope.reports.schema.vocabulary import PROGRAM_KINDS

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["lives_with_uses", "uses"]

#: Steps that exchange variables with the host.
_STREAMS = ("stream_begin", "stream_copy", "stream_end")


@cached
def uses(report: Report) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return variable and liveness step of every use, sorted, and the variables of streams.

    Three ndarrays of int64; the first two of shape (n_uses,).
    """
    program = report.array("program_variable.program_id").read().astype(np.int64)
    variable = report.array("program_variable.variable_id").read().astype(np.int64)
    leaves = report.array("liveness.program_id").read().astype(np.int64)
    kinds = report.rows(schema.program, "program_id", "kind")
    streams = [number for number, kind in kinds if PROGRAM_KINDS[kind].slice in _STREAMS]
    # The uses of a step are those of its program, which are consecutive.
    low, high = (np.searchsorted(program, leaves, side) for side in ("left", "right"))
    count = high - low
    step = np.repeat(np.arange(len(leaves)), count)
    first = np.cumsum(count) - count
    used = variable[np.arange(len(step)) - np.repeat(first, count) + low[step]]
    order = np.lexsort((step, used))
    return used[order], step[order], np.unique(variable[np.isin(program, streams)])


def lives_with_uses(
    report: Report,
    variable: NDArray[np.integer],
    start: NDArray[np.integer],
    end: NDArray[np.integer],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the uses of variables within some of their lives.

    Parameters
    ----------
    report
        The report.
    variable, start, end : ndarray of integers, shape (n_lives,)
        The variables, and half-open ranges of liveness steps.

    Returns
    -------
    life, step : ndarray of int64, shape (n,)
        Position of the life, ascending, and the liveness step of the use, ascending in each.
    """
    used, steps, _ = uses(report)
    n_steps = 1 + max(int(steps.max(initial=0)), int(end.max(initial=0)))
    keys = used * n_steps + steps
    key = variable.astype(np.int64) * n_steps
    low, high = (np.searchsorted(keys, key + bound) for bound in (start, end))
    count = high - low
    life = np.repeat(np.arange(len(count)), count)
    first = np.cumsum(count) - count
    return life, steps[np.arange(len(life)) - np.repeat(first, count) + low[life]]
