"""The planner for convolutions and products: the cheapest family, grouping and split.

Every family of vertices, grouping of channels and useful split is costed with the cycle laws of the
compiled vertices, plus the exchange of inputs, weights and partial sums and their reduction.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tilescope.engine.codelets.work import work_of
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Stage
from tilescope.engine.machine import Machine
from tilescope.engine.options.catalogue import AVAILABLE_MEMORY_PROPORTION
from tilescope.engine.planner.cost import COMPUTE, Available, Costs, cost_of, exact_compute_cycles
from tilescope.engine.planner.families import Family
from tilescope.engine.planner.plan import Plan, PlannedStage
from tilescope.engine.planner.request import PlanRequest
from tilescope.engine.planner.serial import AT_ONCE, Serial
from tilescope.engine.planner.split import Splits
from tilescope.engine.tiling import DIMENSIONS, ConvolutionShape
from tilescope.reports.figures import tile_balance

__all__ = ["plan_convolution"]

#: Plans slower than the fastest by more than this factor are not considered.
_MOST_TIMES = 4  # Assumption: a tenfold slowdown is never worth a percent of memory

#: Splits of a family and grouping that are costed exactly.
_PROMISING = 128

#: Splits of the kernel that are costed at a time.
_FIRST_LOOK = 4096

#: A split faster than the fastest so far by this factor is costed exactly at once.
_CLEARLY = 0.8

#: Share of memory below which the planner warns that few plans are left.
_SMALL_SHARE = 0.05  # Source: poplin ConvPlan.cpp warns of shares below 5 percent

#: Plans that a process keeps, a few kilobytes each; the least recently used is dropped first.
_MOST_PLANS = 4096

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Choice:
    """All splits of one family and grouping."""

    family: Family
    splits: Splits
    costs: Costs
    swaps_operands: bool

    def within(self, most_cycles: float) -> _Choice:
        """Return the splits that take at most `most_cycles`."""
        kept = self.costs.total <= most_cycles
        return replace(self, splits=self.splits.keep(kept), costs=self.costs.keep(kept))

    def promising(self, available: Available, machine: Machine) -> _Choice:
        """Return the fastest splits, the fastest that fit and the smallest, with exact costs."""
        total, temporary = self.costs.total, self.costs.temporary_bytes
        fits = np.flatnonzero(available.holds(self.costs))
        is_beyond = ~available.places(self.costs)
        kept = [
            np.argsort(total, kind="stable")[:_PROMISING],
            fits[np.argsort(total[fits], kind="stable")[:_PROMISING]],
            np.lexsort((total, temporary, is_beyond))[:_PROMISING],
        ]
        chosen = np.unique(np.concatenate(kept))
        splits, costs = self.splits.keep(chosen), self.costs.keep(chosen)
        compute = exact_compute_cycles(self.family, splits, machine)
        costs = replace(costs, by_phase={**costs.by_phase, COMPUTE: compute})
        return replace(self, splits=splits, costs=costs)

    def stages(self, i: int) -> tuple[PlannedStage, ...]:
        """Return the stages of a split, without partial sums in stages that it does not have."""
        found = {phase: int(cycles[i]) for phase, cycles in self.costs.by_phase.items()}
        return PlannedStage.of_phases(
            {at: n for at, n in found.items() if n or at.stage is not Stage.REDUCE_STAGE}
        )

    def split(self, i: int) -> dict[str, int]:
        """Return the part counts of a split by dimension, and its serial parts."""
        counts = dict(zip(DIMENSIONS, self.splits.parts[i].tolist(), strict=True))
        return {**counts, **self.splits.serial.counts()}

    def describe(self, i: int) -> dict[str, int | str]:
        """Return a split as a plan's runner-up."""
        return {
            "family": self.family.name,
            "grouping": " x ".join(map(str, self.splits.grouping.counts().values())),
            **self.split(i),
            "cycles": int(self.costs.total[i]),
        }


def plan_convolution(
    name: str,
    shape: ConvolutionShape,
    machine: Machine,
    available_memory_proportion: float = AVAILABLE_MEMORY_PROPORTION,
    family: str = "",
    split: tuple[tuple[str, int], ...] = (),
) -> Plan:
    """Return the plan with the fewest predicted cycles within the memory bound.

    Parameters
    ----------
    name
        Debug name of the operation.
    shape
        The operation to split.
    machine
        The machine; all its tiles may be used.
    available_memory_proportion
        Largest share of a tile that temporary memory may take. If no split fits, the plan is the
        one that needs the least, so that a smaller share never takes more memory; 0 requests it.
        Plans several times slower than the fastest are never chosen.
    family
        The only family to consider; all if empty.
    split
        Part counts that the plan must have, by dimension as in `Plan.split`; the others are free.

    Raises
    ------
    BadGraph
        If the family or dimension is unknown, or no plan of the shape meets the request.

    Notes
    -----
    If the fastest split does not fit in memory, serial parts are considered too: the operation as
    2, 4, 8 … equal parts of its output or input channels in sequence. Operations of several groups
    have no serial parts of their outputs, nor have outputs that are padded to whole channel groups.
    Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ConvModel.cpp, outChanSplit.serial and
    inChanSplit.serial. Assumption: powers of two are enough, as they halve the memory of a part.
    """
    if available_memory_proportion < _SMALL_SHARE:
        _log.warning(
            "%s: a share of %g of a tile for temporary memory leaves few plans, or none",
            name,
            available_memory_proportion,
        )
    plan, n_candidates = _planned(shape, machine, available_memory_proportion, family, split)
    _log.debug(
        "planned %s %s: %s, split %s over %d tiles, %d cycles, bound by %s, of %d candidates",
        plan.operation,
        name,
        plan.family,
        plan.split,
        plan.n_tiles,
        plan.predicted_cycles,
        plan.bound,
        n_candidates,
    )
    # A copy: callers may modify its dictionaries.
    return replace(
        plan,
        name=name,
        grouping=dict(plan.grouping),
        split=dict(plan.split),
        runner_up=dict(plan.runner_up),
    )


@functools.lru_cache(maxsize=_MOST_PLANS)
def _planned(
    shape: ConvolutionShape,
    machine: Machine,
    available_memory_proportion: float,
    family: str,
    split: tuple[tuple[str, int], ...],
) -> tuple[Plan, int]:
    """Return the plan without a name, and the number of splits considered.

    It depends on its arguments only, so that compilations may share what is kept of it.
    """
    request = PlanRequest.of(shape, machine, family, split)
    limit = available_memory_proportion * machine.allocatable_bytes
    available = Available(limit, machine.interleaved_bytes)
    choices, n_candidates = _weighed(request, available)
    picked = _picked(choices, available, machine)
    choice, i = picked.choice, picked.place
    plan = Plan(
        name="",
        operation=shape.operation,
        family=choice.family.name,
        grouping=choice.splits.grouping.counts(),
        split=choice.split(i),
        swaps_operands=choice.swaps_operands,
        n_tiles=int(choice.splits.tiles_used[i]),
        stages=choice.stages(i),
        temporary_bytes=int(choice.costs.temporary_bytes[i]),
        tile_balance=_balance(choice.splits, i, machine),
        bound=picked.bound,
        runner_up=picked.runner_up,
        available_memory_proportion=available_memory_proportion,
    )
    return plan, n_candidates


def _weighed(request: PlanRequest, available: Available) -> tuple[list[_Choice], int]:
    """Return the promising choices with exact costs, and the number of splits considered.

    Raises
    ------
    BadGraph
        If no choice meets the request.
    """
    found = _choices(request, request.serial or AT_ONCE)
    if not found:
        raise BadGraph(request.refusal())
    bearable, machine = _bearable_cycles(found), request.machine
    choices = _promising(found, bearable, available, machine)
    if not request.has_kernel_parts:
        most_cycles = min(bearable, _cycles_of_two(choices, available))
        over_kernel = _over_kernel(found, machine, available, most_cycles)
        choices += _promising(over_kernel, bearable, available, machine)
        found += over_kernel
        if over_kernel and not _quickest_fits(choices, available):
            bearable = _bearable_cycles(found)
            choices = _promising(found, bearable, available, machine)
    if request.serial is None and not _quickest_fits(choices, available):
        bearable = min(bearable, _cycles_of_two(choices, available))
        choices += _serial_choices(request, bearable, available)
    return choices, sum(len(choice.splits.parts) for choice in found)


@dataclass(frozen=True)
class _Picked:
    """The best split: its choice and index, why no faster split was chosen, and the next best."""

    choice: _Choice
    place: int
    bound: str
    runner_up: Mapping[str, int | str]


def _picked(choices: list[_Choice], available: Available, machine: Machine) -> _Picked:
    """Return the fastest split that fits; if none fits, the one that needs the least memory.

    Among equals, the results of a tile are in the longest runs: then exchanges after it have few
    fragments.
    """
    which = np.repeat(np.arange(len(choices)), [len(c.splits.parts) for c in choices])
    place = np.concatenate([np.arange(len(c.splits.parts)) for c in choices])
    total = np.concatenate([c.costs.total for c in choices])
    temporary = np.concatenate([c.costs.temporary_bytes for c in choices])
    tiles_used = np.concatenate([c.splits.tiles_used for c in choices])
    is_allowed = np.concatenate([available.holds(c.costs) for c in choices])
    is_placed = np.concatenate([available.places(c.costs) for c in choices])
    bound = "cycles"
    if not is_allowed.any():
        left = is_placed if is_placed.any() else ~is_placed
        is_allowed = left & (temporary == temporary[left].min())
        bound = "least_memory"
    runs = np.concatenate([c.splits.result_runs for c in choices])
    order = np.lexsort((tiles_used, -runs, temporary, total))
    allowed = order[is_allowed[order]]
    best = int(allowed[0])
    if bound == "cycles" and order[0] != best:
        bound = "temporary_memory" if is_placed[order[0]] else "interleaved_memory"
    if bound == "cycles" and tiles_used[best] * 2 < machine.n_tiles:
        bound = "idle_tiles"
    runner_up: Mapping[str, int | str] = {}
    if len(allowed) > 1:
        second = int(allowed[1])
        runner_up = choices[which[second]].describe(int(place[second]))
    return _Picked(choices[which[best]], int(place[best]), bound, runner_up)


def _promising(
    choices: list[_Choice], bearable: float, available: Available, machine: Machine
) -> list[_Choice]:
    """Return the promising splits with exact costs.

    The fastest come first: a split slower than two that fit is neither chosen nor the runner-up.
    """
    least = [int(choice.costs.total.min()) for choice in choices]
    looked_at: dict[int, _Choice] = {}
    for i in np.argsort(least, kind="stable").tolist():
        if least[i] > bearable:
            break
        looked_at[i] = choices[i].within(bearable).promising(available, machine)
        bearable = min(bearable, _cycles_of_two([*looked_at.values()], available))
    return [looked_at[i] for i in sorted(looked_at)]


def _quickest_fits(choices: list[_Choice], available: Available) -> bool:
    """Whether the fastest split fits in the available memory."""
    quickest = min(choices, key=lambda choice: int(choice.costs.total.min())).costs
    return bool(available.holds(quickest)[quickest.total.argmin()])


def _cycles_of_two(choices: list[_Choice], available: Available) -> float:
    """Return the cycles of the second fastest split that fits; infinity without one."""
    fitting = [choice.costs.total[available.holds(choice.costs)] for choice in choices]
    cycles = np.sort(np.concatenate(fitting))
    return float(cycles[1]) if cycles.size > 1 else np.inf


def _serial_choices(request: PlanRequest, bearable: float, available: Available) -> list[_Choice]:
    """Return the promising splits with 2, 4, 8 … serial parts."""
    found: list[_Choice] = []
    for kind in ("outputs", "inputs"):
        n_parts = 2
        while True:
            choices = _choices(request, Serial(**{kind: n_parts}), bearable)
            if not request.has_kernel_parts:
                choices += _over_kernel(choices, request.machine, available, bearable)
            choices = _promising(choices, bearable, available, request.machine)
            if not choices:
                break
            found += choices
            bearable = min(bearable, _cycles_of_two(found, available))
            n_parts *= 2
    return found


def _bearable_cycles(choices: list[_Choice]) -> float:
    """Return the most cycles that a split may take to be considered."""
    return _MOST_TIMES * min(int(choice.costs.total.min()) for choice in choices)


def _over_kernel(
    choices: list[_Choice], machine: Machine, available: Available, most_cycles: float
) -> list[_Choice]:
    """Return the choices with the kernel split too, where that may take fewer cycles."""
    found: list[_Choice] = []
    # The exchange of partial sums takes at least this long.
    fixed = machine.sync_cycles + machine.latest_start_cycles
    for choice in choices:
        busy = choice.costs.before_sums
        splits, least = choice.splits.over_kernel(busy, machine.n_tiles, most_cycles - fixed)
        # The fastest candidates come first: they rule out most others.
        for begin in range(0, least.size, _FIRST_LOOK):
            n_quick = int(np.searchsorted(least, most_cycles - fixed, side="right"))
            chosen = np.arange(begin, min(begin + _FIRST_LOOK, n_quick))
            if not chosen.size:
                break
            some = splits.keep(chosen)
            costs = cost_of(choice.family, some, machine, most_cycles)
            weighed = replace(choice, splits=some, costs=costs).within(most_cycles)
            if not weighed.costs.total.size:
                continue
            found.append(weighed)
            most_cycles = min(most_cycles, _bearable_cycles([weighed]))
            is_much_quicker = weighed.costs.total.min() < _CLEARLY * most_cycles
            if is_much_quicker and available.holds(weighed.costs).any():
                exact = _promising([weighed], most_cycles, available, machine)
                most_cycles = min(most_cycles, _cycles_of_two(exact, available))
    return found


def _choices(request: PlanRequest, serial: Serial, most_cycles: float = np.inf) -> list[_Choice]:
    """Return the choices of all families, costed, with the given serial parts.

    Splits that take more than `most_cycles` are not costed in full.
    """
    shape, machine = request.shape, request.machine
    choices = []
    # Among equal plans of a product, the one with swapped operands is chosen.
    # Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ConvPlan.cpp, getSwapOperandCandidates.
    for way in (shape.swapped, shape) if shape.swapped else (shape,):
        part = serial.part_of(way)
        if part is None:
            continue
        for family in request.families:
            for grouping in family.groupings(part, machine):
                if not serial.suits(part, grouping):
                    continue
                most_products = machine.n_tiles * family.most_products(part, grouping, machine)
                if serial.n_parts * part.n_products > most_cycles * most_products:
                    continue  # even at full utilisation of all tiles
                splits = Splits.over(part, grouping, machine.n_tiles, serial, request.split)
                splits = splits.keep(family.can_do(work_of(splits.batch())))
                if len(splits.parts):
                    costs = cost_of(family, splits, machine, most_cycles)
                    most_cycles = min(most_cycles, _MOST_TIMES * int(costs.total.min()))
                    # A copy drops the batch cached during costing.
                    choices.append(_Choice(family, replace(splits), costs, way is not shape))
    return choices


def _balance(splits: Splits, i: int, machine: Machine) -> float:
    """Return the tile balance of a split, estimated from its work without a cycle law."""
    largest = np.prod(splits.largest()[i].astype(np.float64))
    total = np.prod(np.asarray(splits.sizes, dtype=np.float64))
    return tile_balance(float(total), float(largest), machine.n_tiles) or 0.0
