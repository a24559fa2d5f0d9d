"""The planner for convolutions and products: the cheapest family, grouping and split.

Every family of vertices, grouping of channels and useful split is costed with the cycle laws of the
compiled vertices, plus the exchange of inputs, weights and partial sums and their reduction.
"""

from __future__ import annotations

import functools
import logging
from dataclasses import replace

import numpy as np

from tilescope.engine.channels import POPLIN
from tilescope.engine.machine import Machine
from tilescope.engine.options.catalogue import AVAILABLE_MEMORY_PROPORTION
from tilescope.engine.planner.convolution.choice import choose
from tilescope.engine.planner.convolution.split import Splits
from tilescope.engine.planner.plan import Plan
from tilescope.engine.planner.request import PlanRequest
from tilescope.engine.tiling import ConvolutionShape
from tilescope.reports.figures import tile_balance
from tilescope.tracepoints import traced

__all__ = ["plan_convolution"]

#: Share of memory below which the planner warns that few plans are left.
_SMALL_SHARE = 0.05  # Source: poplin ConvPlan.cpp warns of shares below 5 percent

#: Plans that a process keeps, a few kilobytes each; the least recently used is dropped first.
_MOST_PLANS = 4096

_log = logging.getLogger(__name__)


@traced(POPLIN, "plan convolution")
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
        Plans several times slower than the fastest are chosen only if no other fits.
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
    2 to 16, 32, 64 … equal parts of its output or input channels in sequence. Operations of several
    groups have no serial parts of their outputs, nor have outputs that are padded to whole channel
    groups.
    Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ConvModel.cpp, outChanSplit.serial and
    inChanSplit.serial. Assumption: beyond 16 parts, powers of two are enough.
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
    chosen = choose(request, available_memory_proportion * machine.allocatable_bytes)
    candidates, i = chosen.candidates, chosen.place
    costs, splits = candidates.costs, candidates.splits
    plan = Plan(
        name="",
        operation=shape.operation,
        family=candidates.family.name,
        grouping=splits.grouping.counts(),
        split=candidates.split(i),
        swaps_operands=candidates.swaps_operands,
        n_tiles=int(splits.tiles_used[i]),
        stages=candidates.stages(i),
        temporary_bytes=int(costs.temporary_bytes[i]),
        tile_balance=_balance(splits, i, machine),
        bound=chosen.bound,
        runner_up=chosen.runner_up,
        available_memory_proportion=available_memory_proportion,
        partial_dtype=splits.shape.partial_dtype,
    )
    return plan, chosen.n_considered


def _balance(splits: Splits, i: int, machine: Machine) -> float:
    """Return the tile balance of a split, estimated from its work without a cycle law."""
    largest = np.prod(splits.largest()[i].astype(np.float64))
    total = np.prod(np.asarray(splits.sizes, dtype=np.float64))
    return tile_balance(float(total), float(largest), machine.n_tiles) or 0.0
