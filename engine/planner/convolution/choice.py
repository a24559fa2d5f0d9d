"""The choice of a split: the fastest that fits in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from tilescope.engine.errors import BadGraph
from tilescope.engine.machine import Machine
from tilescope.engine.planner.convolution.candidate import Candidates
from tilescope.engine.planner.convolution.cost import is_placed
from tilescope.engine.planner.convolution.fitting import fitting_candidates
from tilescope.engine.planner.convolution.quickest import bearable_cycles, quickest_candidates
from tilescope.engine.planner.request import PlanRequest

__all__ = ["Choice", "choose"]

#: A plan several times slower takes at most this share of the memory of any that is not.
_WORTHWHILE = 0.75  # Assumption: a tenfold slowdown is never worth a percent of memory

#: Searches that a process keeps, some hundred kilobytes each: equal operations with other memory
#: use them again.
_MOST_SEARCHES = 256


@dataclass(frozen=True)
class Choice:
    """A chosen split.

    Parameters
    ----------
    candidates, place
        The candidates that it is one of, and its index.
    bound
        Why no faster split was chosen: a code of `tilescope.reports.schema.vocabulary.BOUNDS`.
    runner_up
        The next best.
    n_considered
        Splits considered as the fastest.
    """

    candidates: Candidates
    place: int
    bound: str
    runner_up: Mapping[str, int | str]
    n_considered: int = 0

    @property
    def temporary_bytes(self) -> int:
        """Its temporary memory, bytes."""
        return int(self.candidates.costs.temporary_bytes[self.place])


def choose(request: PlanRequest, most_bytes: float) -> Choice:
    """Return the fastest split that fits; if none does, the one with the least memory.

    Parameters
    ----------
    request
        The operation, the machine and the constraints.
    most_bytes
        Temporary memory of a tile.

    Raises
    ------
    BadGraph
        If no split meets the request.

    Notes
    -----
    Splits several times slower than the fastest are considered only if no other fits. With less
    memory, the choice is never faster, nor larger: which splits are considered does not depend on
    the memory, and bounds of their costs only skip what would not be chosen.
    Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ConvModel.cpp, which minimises cycles
    within a bound of the memory, however slow.
    """
    quickest, n_considered = _quickest(request)
    if not quickest:
        raise BadGraph(request.refusal())
    chosen = _best(quickest, most_bytes, request.machine)
    if chosen.bound not in ("cycles", "idle_tiles"):
        quickest = quickest + fitting_candidates(
            request, quickest, most_bytes, bearable_cycles(quickest)
        )
        chosen = _best(quickest, most_bytes, request.machine)
    if chosen.bound == "least_memory" and len(request.families) > 1:
        quickest = quickest + _slower(request, chosen, most_bytes)
        chosen = _best(quickest, most_bytes, request.machine)
    return replace(chosen, n_considered=n_considered)


@lru_cache(maxsize=_MOST_SEARCHES)
def _quickest(request: PlanRequest) -> tuple[list[Candidates], int]:
    """Return the fastest splits, and the number of splits considered."""
    return quickest_candidates(request)


def _slower(request: PlanRequest, smallest: Choice, most_bytes: float) -> list[Candidates]:
    """Return splits that take longer than any considered so far and need clearly less memory.

    They take at most several times as long as the fastest of the slowest family.
    """
    machine = request.machine
    worthwhile = np.inf
    if is_placed(smallest.candidates.costs, machine)[smallest.place]:
        worthwhile = _WORTHWHILE * smallest.temporary_bytes
    quickest_of_families = [
        _quickest(replace(request, families=(family,)))[0] for family in request.families
    ]
    slowest = max(bearable_cycles(quickest) for quickest in quickest_of_families if quickest)
    quickest = [candidates for quickest in quickest_of_families for candidates in quickest]
    fitting = fitting_candidates(request, quickest, min(most_bytes, worthwhile), slowest)
    bearable = bearable_cycles(_quickest(request)[0])
    slower = []
    for candidates in quickest + fitting:
        costs = candidates.costs
        is_smaller = is_placed(costs, machine) & (costs.temporary_bytes <= worthwhile)
        slower.append(candidates.keep(is_smaller & (costs.total > bearable)))
    return slower


def _best(candidates: list[Candidates], most_bytes: float, machine: Machine) -> Choice:
    """Return the fastest split that fits; if none fits, the one that needs the least memory.

    Among equals, the results of a tile are in the longest runs: then exchanges after it have few
    fragments.
    """
    which = np.repeat(np.arange(len(candidates)), [len(c.splits.parts) for c in candidates])
    candidate_index = np.concatenate([np.arange(len(c.splits.parts)) for c in candidates])
    total = np.concatenate([c.costs.total for c in candidates])
    temporary = np.concatenate([c.costs.temporary_bytes for c in candidates])
    tiles_used = np.concatenate([c.splits.tiles_used for c in candidates])
    can_be_placed = np.concatenate([is_placed(c.costs, machine) for c in candidates])
    is_allowed = can_be_placed & (temporary <= most_bytes)
    bound = "cycles"
    if not is_allowed.any():
        left = can_be_placed if can_be_placed.any() else ~can_be_placed
        is_allowed = left & (temporary == temporary[left].min())
        bound = "least_memory"
    runs = np.concatenate([c.splits.result_runs for c in candidates])
    order = np.lexsort((tiles_used, -runs, temporary, total))
    allowed = order[is_allowed[order]]
    best = int(allowed[0])
    if bound == "cycles" and order[0] != best:
        bound = "temporary_memory" if can_be_placed[order[0]] else "interleaved_memory"
    if bound == "cycles" and tiles_used[best] * 2 < machine.n_tiles:
        bound = "idle_tiles"
    runner_up: Mapping[str, int | str] = {}
    if len(allowed) > 1:
        second = int(allowed[1])
        runner_up = candidates[which[second]].describe(int(candidate_index[second]))
    return Choice(candidates[which[best]], int(candidate_index[best]), bound, runner_up)
