"""The search for the fastest plans, whatever memory they need."""

from __future__ import annotations

import numpy as np

from tilescope.engine.machine import Machine
from tilescope.engine.planner.convolution.candidate import Candidates, ways_of
from tilescope.engine.planner.convolution.cost import cost_of, is_placed
from tilescope.engine.planner.request import PlanRequest
from tilescope.engine.planner.serial import AT_ONCE

__all__ = ["bearable_cycles", "quickest_candidates"]

#: Plans slower than the fastest by more than this factor are not considered beside it.
_MOST_TIMES = 4  # Assumption: a tenfold slowdown is never worth a percent of memory

#: Splits of a family and grouping that are costed exactly.
_PROMISING = 128

#: Splits of the kernel that are costed at a time.
_FIRST_LOOK = 4096

#: A split faster than the fastest so far by this factor is costed exactly at once.
_CLEARLY = 0.8


def quickest_candidates(request: PlanRequest) -> tuple[list[Candidates], int]:
    """Return the fastest splits with exact costs, and the number of splits considered.

    No split if none meets the request.

    There are no serial parts unless the request says so: they save memory only.

    Parameters
    ----------
    request
        The operation, the machine and the constraints.
    """
    machine = request.machine
    candidates_ = _weighed(request)
    if not candidates_:
        return [], 0
    bearable = bearable_cycles(candidates_)
    quick = _promising(candidates_, bearable, machine)
    if not request.has_kernel_parts:
        over_kernel = _over_kernel(
            candidates_, machine, min(bearable, _cycles_of_two(quick, machine))
        )
        quick += _promising(over_kernel, bearable, machine)
        candidates_ += over_kernel
    return quick, sum(len(candidates.splits.parts) for candidates in candidates_)


def _weighed(request: PlanRequest) -> list[Candidates]:
    """Return the splits of all families; those several times slower are not costed in full."""
    machine, most_cycles = request.machine, np.inf
    candidates_ = []
    for variant in ways_of(request, request.serial or AT_ONCE):
        if variant.least_cycles > most_cycles:
            continue
        splits = variant.supported(variant.splits(request))
        if len(splits.parts):
            candidates_.append(variant.weighed(splits, machine, most_cycles))
            most_cycles = min(most_cycles, bearable_cycles(candidates_[-1:]))
    return candidates_


def _promising(
    candidates_list: list[Candidates], bearable: float, machine: Machine
) -> list[Candidates]:
    """Return the promising splits with exact costs.

    The fastest come first: a split slower than two that can be placed is neither chosen nor the
    runner-up.
    """
    quickest_cycles = [int(candidates.costs.total.min()) for candidates in candidates_list]
    looked_at: dict[int, Candidates] = {}
    for i in np.argsort(quickest_cycles, kind="stable").tolist():
        if quickest_cycles[i] > bearable:
            break
        looked_at[i] = _first(candidates_list[i].within(bearable), machine).exact(machine)
        bearable = min(bearable, _cycles_of_two([*looked_at.values()], machine))
    return [looked_at[i] for i in sorted(looked_at)]


def _first(candidates: Candidates, machine: Machine) -> Candidates:
    """Return the fastest splits, and the fastest that can be placed."""
    total = candidates.costs.total
    placed = np.flatnonzero(is_placed(candidates.costs, machine))
    first_candidates = [
        np.argsort(total, kind="stable")[:_PROMISING],
        placed[np.argsort(total[placed], kind="stable")[:_PROMISING]],
    ]
    return candidates.keep(np.unique(np.concatenate(first_candidates)))


def _cycles_of_two(candidates_list: list[Candidates], machine: Machine) -> float:
    """Return the cycles of the second fastest split that can be placed; infinity without one."""
    placed = [c.costs.total[is_placed(c.costs, machine)] for c in candidates_list]
    cycles = np.sort(np.concatenate(placed))
    return float(cycles[1]) if cycles.size > 1 else np.inf


def bearable_cycles(candidates_list: list[Candidates]) -> float:
    """Return the most cycles that a split may take to be considered besides others.

    Parameters
    ----------
    candidates_list
        The others.
    """
    return _MOST_TIMES * min(int(candidates.costs.total.min()) for candidates in candidates_list)


def _over_kernel(
    candidates_list: list[Candidates], machine: Machine, most_cycles: float
) -> list[Candidates]:
    """Return the splits with the kernel split too, where that may take fewer cycles."""
    fitting: list[Candidates] = []
    # The exchange of partial sums takes at least this long.
    fixed = machine.sync_cycles + machine.latest_start_cycles
    for undivided in candidates_list:
        busy = undivided.costs.before_sums
        splits, least_cycles = undivided.splits.over_kernel(
            busy, machine.n_tiles, most_cycles - fixed
        )
        # The fastest candidates come first: they rule out most others.
        for begin in range(0, least_cycles.size, _FIRST_LOOK):
            n_quick = int(np.searchsorted(least_cycles, most_cycles - fixed, side="right"))
            chosen = np.arange(begin, min(begin + _FIRST_LOOK, n_quick))
            if not chosen.size:
                break
            some = splits.keep(chosen)
            costs = cost_of(undivided.family, some, machine, most_cycles)
            weighed = Candidates(undivided.family, some, costs, undivided.swaps_operands)
            weighed = weighed.within(most_cycles)
            if not weighed.costs.total.size:
                continue
            fitting.append(weighed)
            most_cycles = min(most_cycles, bearable_cycles([weighed]))
            is_much_quicker = weighed.costs.total.min() < _CLEARLY * most_cycles
            if is_much_quicker and is_placed(weighed.costs, machine).any():
                exact = _promising([weighed], most_cycles, machine)
                most_cycles = min(most_cycles, _cycles_of_two(exact, machine))
    return fitting
