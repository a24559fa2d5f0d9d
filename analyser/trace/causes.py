"""What the cycles of an execution go to: work, exchange, sync, waiting, imbalance or the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilescope.reports.schema.vocabulary import PHASES, PROGRAM_KINDS, Phase

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilescope.analyser.trace.index import Trace

__all__ = ["CAUSES", "GAP", "CauseCycles"]

#: What can bind a stretch, in the order in which it is listed.
CAUSES = ("exchange", "sync", "waiting", "imbalance", "host")
#: Stands for the step of cycles that no step took.
GAP = -1
_WAITING, _IMBALANCE = CAUSES.index("waiting"), CAUSES.index("imbalance")
_NONE = -1


def _cause_of(phase: Phase) -> int:
    """Return the number of the cause of a phase's cycles, ``_NONE`` for compute."""
    if phase.is_exchange:
        return CAUSES.index("exchange")
    name = {"sync": "sync", "stream_copy": "host"}.get(phase.name)
    return _NONE if name is None else CAUSES.index(name)


class CauseCycles:
    """Divides the cycles of executions on one IPU by cause.

    Notes
    -----
    A step that is not data-dependent takes what it costs; what an execution takes beyond is
    *waiting*: for an IPU that arrives later, or for the other side of an overlap. So are cycles
    between two executions. What it costs goes to the cause of its kind. The cycles of a compute
    step are *imbalance* as far as its busiest tile works longer than the mean of all tiles, in
    data-dependent steps by the proportion of their estimates. The rest is work, which has no cause.

    Parameters
    ----------
    trace
        The trace.
    ipu_id
        The IPU.
    """

    def __init__(self, trace: Trace, ipu_id: int) -> None:
        n_steps = len(trace.steps)
        costs = trace.step_costs.get(ipu_id)
        zeros = np.zeros(n_steps, np.int64)
        names = ("cycles", "max_tile_cycles", "total_tile_cycles")
        cost, busiest, total = (zeros if costs is None else costs[name] for name in names)
        varies = np.asarray(trace.steps.is_data_dependent, np.bool_)
        # One row more, that of cycles in no step.
        self._limit = np.append(np.where(varies, np.iinfo(np.int64).max, cost), 0)
        phases = [PHASES[PROGRAM_KINDS[kind].phase] for kind in trace.steps.kind]
        self._cause = np.array([*map(_cause_of, phases), _NONE], np.int64)
        is_compute = np.array([phase.name == "compute" for phase in phases], np.bool_)
        slack = busiest - total / trace.tiles_per_ipu
        idle = np.where(is_compute, slack / np.maximum(cost, 1), 0.0)
        self._idle_share = np.append(np.clip(idle, 0.0, 1.0), 0.0)

    def divide(self, step: NDArray[np.integer], cycles: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the cycles of executions by cause.

        Parameters
        ----------
        step : ndarray of int, shape (n,)
            Their steps; ``GAP`` for cycles in no step.
        cycles : ndarray of int64, shape (n,), cycles
            What they take.

        Returns
        -------
        ndarray of int64, shape (n_causes, n), cycles
            The rest is work.
        """
        answer = np.zeros((len(CAUSES), len(step)), np.int64)
        answer[_WAITING] = np.maximum(cycles - self._limit[step], 0)
        taken = cycles - answer[_WAITING]
        for number in range(len(CAUSES)):
            answer[number] += np.where(self._cause[step] == number, taken, 0)
        answer[_IMBALANCE] += np.rint(taken * self._idle_share[step]).astype(np.int64)
        return answer
