"""The search for plans that fit in memory where the fastest does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.machine import Machine
from tilescope.engine.planner.convolution.bound import (
    least_bytes_of_sums,
    least_compute_cycles,
    least_costs,
)
from tilescope.engine.planner.convolution.candidate import Candidates, Way, ways_of
from tilescope.engine.planner.convolution.cost import is_placed
from tilescope.engine.planner.convolution.split import Splits
from tilescope.engine.planner.request import PlanRequest
from tilescope.engine.planner.serial import AT_ONCE, Serial

__all__ = ["fitting_candidates"]

#: Serial parts are any number up to this, which the channels must be divisible by. More of them are
#: powers of two, each half the memory of the one before.
_MOST_UNEVEN = 16

#: Splits that are costed at a time: the first rule out most others.
_AT_A_TIME = 1024


def fitting_candidates(
    request: PlanRequest, quickest: list[Candidates], most_bytes: float, most_cycles: float
) -> list[Candidates]:
    """Return splits with exact costs, among them the two fastest that fit in memory.

    If none fits, the one with the least memory is among them.

    Parameters
    ----------
    request
        The operation, the machine and the constraints.
    quickest
        The fastest splits of all, with exact costs.
    most_bytes
        Temporary memory of a tile.
    most_cycles
        Splits that take more cycles are left out.

    Notes
    -----
    Only splits are considered of which no dimension could have more parts. Assumption: with a part
    less, a tile has more work, and no less memory than a few percent of it. Serial parts are 2 to
    16, 32, 64 … parts of the outputs or inputs. Lower bounds of the costs rule out most splits.
    """
    search = _Search(request, quickest, most_bytes, most_cycles)
    variants = [variant for serial in _serials(request) for variant in ways_of(request, serial)]
    for variant in sorted(variants, key=lambda variant: variant.least_cycles):
        search.explore(variant)
    return search.found


def _serials(request: PlanRequest) -> Iterator[Serial]:
    """Yield the serial parts to consider."""
    if request.serial is not None:
        yield request.serial
        return
    yield AT_ONCE
    for kind in ("outputs", "inputs"):
        for n_parts in _part_counts(request.most_channels(kind)):
            yield Serial(**{kind: n_parts})


def _part_counts(most: int) -> list[int]:
    """Return the serial part counts to consider: all up to a few, then powers of two."""
    doubled = [1 << i for i in range(_MOST_UNEVEN.bit_length(), most.bit_length())]
    return [n for n in (*range(2, _MOST_UNEVEN + 1), *doubled) if n <= most]


class _Search:
    """The best splits so far, and what others must do better.

    Parameters
    ----------
    request, quickest, most_bytes, most_cycles
        As for `fitting_candidates`.
    """

    def __init__(
        self,
        request: PlanRequest,
        quickest: list[Candidates],
        most_bytes: float,
        most_cycles: float,
    ) -> None:
        self.found: list[Candidates] = []
        self._most_cycles = most_cycles
        self._request, self._most_bytes = request, most_bytes
        self._least_bytes = np.inf
        self._fitting = np.zeros(0, np.int64)
        for candidates in quickest:
            self._note(candidates.keep(is_placed(candidates.costs, request.machine)))
        # No plan is faster than the fastest, unless that cannot be placed.
        first = min(quickest, key=lambda candidates: int(candidates.costs.total.min())).costs
        best_index = int(first.total.argmin())
        can_be_placed = bool(is_placed(first, request.machine)[best_index])
        self._fewest_cycles = int(first.total[best_index]) if can_be_placed else 0

    def explore(self, variant: Way) -> None:
        """Cost the splits of a family and grouping that may be better."""
        machine = self._request.machine
        if variant.least_cycles > self._most_cycles:
            return
        splits = Splits.widest(
            variant.part, variant.grouping, machine.n_tiles, variant.serial, self._request.split
        )
        work = least_compute_cycles(variant.family, splits, machine)
        splits = splits.keep(self._may_be_better(least_bytes_of_sums(splits), work))
        if not len(splits.parts):
            return
        splits = variant.supported(splits)
        temporary, cycles = least_costs(variant.family, splits, machine)
        # What fits comes first, the fastest before others; then what needs the least memory.
        order = np.lexsort((cycles, np.maximum(temporary, self._most_bytes)))
        for begin in range(0, order.size, _AT_A_TIME):
            some = order[begin : begin + _AT_A_TIME]
            some = some[self._may_be_better(temporary[some], cycles[some])]
            if some.size:
                self._add(variant.weighed(splits.keep(some), machine), machine)

    def _add(self, weighed: Candidates, machine: Machine) -> None:
        """Keep the splits that may be better, with exact costs."""
        costs = weighed.costs
        is_better = self._may_be_better(costs.temporary_bytes, costs.total)
        weighed = weighed.keep(is_better & is_placed(costs, machine))
        if weighed.costs.total.size:
            exact = weighed.exact(machine)
            exact = exact.keep(exact.costs.total >= self._fewest_cycles)
            self._note(exact)
            self.found.append(exact)

    def _may_be_better(
        self, temporary_bytes: NDArray[np.int64], cycles: NDArray[Any]
    ) -> NDArray[np.bool_]:
        """Return which splits may be better than the two best, by lower bounds of their costs."""
        most_bytes = self._most_bytes
        if not self._fitting.size:
            most_bytes = max(most_bytes, self._least_bytes)
        return np.asarray((temporary_bytes <= most_bytes) & (cycles <= self._most_cycles))

    def _note(self, exact: Candidates) -> None:
        """Note which cycles and which memory others must stay below."""
        temporary, cycles = exact.costs.temporary_bytes, exact.costs.total
        self._least_bytes = min(self._least_bytes, temporary.min(initial=np.iinfo(np.int64).max))
        fitting = cycles[temporary <= self._most_bytes]
        self._fitting = np.sort(np.append(self._fitting, fitting))[:2]
        if self._fitting.size > 1:
            self._most_cycles = min(self._most_cycles, float(self._fitting[1]))
