"""Candidates of the planner: the splits of one family and grouping, with their costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.poplin.work import work_of
from tilescope.engine.graph import Stage
from tilescope.engine.machine import Machine
from tilescope.engine.planner.convolution.cost import COMPUTE, Costs, cost_of, exact_compute_cycles
from tilescope.engine.planner.convolution.split import Splits
from tilescope.engine.planner.families import Family
from tilescope.engine.planner.plan import PlannedStage
from tilescope.engine.planner.request import PlanRequest
from tilescope.engine.planner.serial import Serial
from tilescope.engine.tiling import DIMENSIONS, ConvolutionShape, Grouping

__all__ = ["Candidates", "Way", "ways_of"]


class Way(NamedTuple):
    """A family and grouping for an operation, or for one of its serial parts.

    Parameters
    ----------
    family, grouping
        The vertices, and their groups of channels.
    part
        The operation, or one of its serial parts.
    serial
        The serial parts.
    swaps_operands
        Whether it is the product of the transposed operands in reverse order.
    least_cycles
        Lower bound: the multiplications at full utilisation of all tiles.
    """

    family: Family
    grouping: Grouping
    part: ConvolutionShape
    serial: Serial
    swaps_operands: bool
    least_cycles: float

    def splits(self, request: PlanRequest) -> Splits:
        """Return the useful splits; the kernel is whole unless the request says otherwise."""
        n_tiles = request.machine.n_tiles
        return Splits.over(self.part, self.grouping, n_tiles, self.serial, request.split)

    def supported(self, splits: Splits) -> Splits:
        """Return the splits that the vertices support."""
        can_do = self.family.can_do(work_of(splits.batch()))
        return splits if can_do.all() else splits.keep(can_do)

    def weighed(self, splits: Splits, machine: Machine, most_cycles: float = np.inf) -> Candidates:
        """Return supported splits with their costs; see `cost_of`."""
        costs = cost_of(self.family, splits, machine, most_cycles)
        # A copy drops the batch cached during costing.
        return Candidates(self.family, replace(splits), costs, self.swaps_operands)


def ways_of(request: PlanRequest, serial: Serial) -> Iterator[Way]:
    """Yield the families and groupings that a request allows, with the given serial parts.

    Parameters
    ----------
    request
        The operation, the machine and the constraints.
    serial
        The serial parts.
    """
    shape, machine = request.shape, request.machine
    # Among equal plans of a product, the one with swapped operands is chosen.
    # Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ConvPlan.cpp, getSwapOperandCandidates.
    for orientation in (shape.swapped, shape) if shape.swapped else (shape,):
        part = serial.part_of(orientation)
        if part is None:
            continue
        for family in request.families:
            for typed, grouping in _typed_groupings(family, part, machine, serial):
                if serial.suits(typed, grouping):
                    rate = machine.n_tiles * family.most_products(typed, grouping, machine)
                    least_cycles = serial.n_parts * typed.n_products / rate
                    swaps = orientation is not shape
                    yield Way(family, grouping, typed, serial, swaps, least_cycles)


def _typed_groupings(
    family: Family, shape: ConvolutionShape, machine: Machine, serial: Serial
) -> Iterator[tuple[ConvolutionShape, Grouping]]:
    """Yield the groupings of a family, and those without partial sums with results of vertices."""
    for grouping in family.groupings(shape, machine):
        yield shape, grouping
    is_whole = shape.is_pointwise and shape.input_parts == 1 and serial.inputs == 1
    if is_whole and shape.item_bytes == shape.result_bytes < shape.partial_bytes:
        narrow = replace(shape, partial_dtype=shape.result_dtype)
        for grouping in family.in_one_pass(narrow, machine):
            yield narrow, grouping


@dataclass(frozen=True)
class Candidates:
    """Splits of one family and grouping, with their costs.

    Parameters
    ----------
    family
        The vertices.
    splits
        The splits.
    costs
        Their costs.
    swaps_operands
        Whether they are of the product of the transposed operands in reverse order.
    """

    family: Family
    splits: Splits
    costs: Costs
    swaps_operands: bool

    def keep(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Candidates:
        """Return the chosen splits, by a mask or by indices."""
        return replace(self, splits=self.splits.keep(chosen), costs=self.costs.keep(chosen))

    def within(self, most_cycles: float) -> Candidates:
        """Return the splits that take at most `most_cycles`."""
        return self.keep(self.costs.total <= most_cycles)

    def exact(self, machine: Machine) -> Candidates:
        """Return the same splits with the cycles of the slowest tile; see `exact_compute_cycles`.

        They are no fewer than those of the largest part.
        """
        compute = exact_compute_cycles(self.family, self.splits, machine)
        costs = replace(self.costs, by_phase={**self.costs.by_phase, COMPUTE: compute})
        return replace(self, costs=costs)

    def stages(self, i: int) -> tuple[PlannedStage, ...]:
        """Return the stages of a split, without partial sums in stages that it does not have."""
        cycles_of_phase = {phase: int(cycles[i]) for phase, cycles in self.costs.by_phase.items()}
        return PlannedStage.of_phases(
            {
                offset: n
                for offset, n in cycles_of_phase.items()
                if n or offset.stage is not Stage.REDUCE_STAGE
            }
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
