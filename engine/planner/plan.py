"""Plans: the split of an operation, its predicted cost, and the runner-up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, fields
from math import prod
from typing import Any

from tilescope.engine.graph import DebugContext, Stage
from tilescope.engine.options.catalogue import AVAILABLE_MEMORY_PROPORTION
from tilescope.engine.planner.phase import Phase, stage_name
from tilescope.engine.planner.serial import SERIAL, Serial
from tilescope.engine.tiling import SUMMED

__all__ = ["Plan", "PlannedStage"]


@dataclass(frozen=True)
class PlannedStage:
    """A stage of a plan, with its predicted cost.

    Parameters
    ----------
    stage, index
        As in `tilescope.engine.graph.PlanStage`.
    exchange_cycles, compute_cycles
        Cycles of the exchange before the vertices, and of the vertices, over all serial parts; None
        if the planner expects no such phase.
    """

    stage: Stage
    index: int = 0
    exchange_cycles: int | None = None
    compute_cycles: int | None = None

    @property
    def name(self) -> str:
        """Display name."""
        return stage_name(self.stage, self.index)

    @property
    def predicted_cycles(self) -> int:
        """Sum of the two, cycles."""
        return (self.exchange_cycles or 0) + (self.compute_cycles or 0)

    @classmethod
    def of_phases(cls, cycles: Mapping[Phase, int]) -> tuple[PlannedStage, ...]:
        """Return the stages of phases that take so many cycles, in the order of their phases."""
        stages = dict.fromkeys((phase.stage, phase.index) for phase in cycles)
        return tuple(
            cls(*stage, cycles.get(Phase(*stage, True)), cycles.get(Phase(*stage)))
            for stage in stages
        )


@dataclass(frozen=True)
class Plan:
    """A split of one operation, with its predicted cost.

    Parameters
    ----------
    family
        The vertices that compute: a name of `tilescope.engine.planner.families`; ``in place`` or
        ``grid`` for a reduction.
    grouping
        Convolution groups, inputs and outputs that are processed as one; ``combined`` counts the
        groups of the operation that form one of these, if several do.
    split
        Number of parts by dimension: see `tilescope.engine.tiling.DIMENSIONS`. Parts of the
        dimensions that are summed, inputs and kernel, give partial sums; ``serial outputs`` or
        ``serial inputs`` count the serial parts, if there are several; every serial part is split
        over tiles by the other counts. A reduction has counts of its own: see
        `tilescope.engine.planner.reduction.choice.StageChoice`.
    swaps_operands
        Whether a product is computed as the product of its transposed operands in reverse order.
    stages
        The stages in the order in which they run, with predicted cycles.
    temporary_bytes
        Largest temporary memory on a tile, bytes.
    tile_balance
        Mean over maximum of the compute cycles of all tiles, 0 to 1.
    available_memory_proportion
        Largest share of a tile that temporary memory may take, 0 to 1.
    bound
        Why no faster split was taken: a code of `tilescope.reports.schema.vocabulary.BOUNDS`.
    runner_up
        The next best: its family, grouping (its counts as above), split and cycles by name.
    partial_dtype
        Type of what its vertices write; that of the results, where nothing is summed after them.
        Empty for a reduction.
    plan_id
        Its id in the graph, which its compute sets carry as `ComputeSet.plan_stage`; None until a
        library call adopts the plan.
    call
        Context of that library call.
    """

    name: str
    operation: str
    family: str
    grouping: Mapping[str, int]
    split: Mapping[str, int]
    swaps_operands: bool
    n_tiles: int
    stages: tuple[PlannedStage, ...]
    temporary_bytes: int
    tile_balance: float
    bound: str
    runner_up: Mapping[str, int | str]
    available_memory_proportion: float = AVAILABLE_MEMORY_PROPORTION
    partial_dtype: str = ""
    plan_id: int | None = field(default=None, compare=False)
    call: DebugContext | None = field(default=None, compare=False, repr=False)

    @property
    def n_partials(self) -> int:
        """Partial sums of every output, on different tiles."""
        return prod(self.split[d.label] for d in SUMMED)

    @property
    def n_serial(self) -> int:
        """Number of serial parts; 1 if the operation is not serialised."""
        return self.serial.n_parts

    @property
    def serial(self) -> Serial:
        """The serial parts."""
        return Serial(*(self.split.get(name, 1) for name in SERIAL))

    @property
    def predicted_phases(self) -> Mapping[Phase, int]:
        """Cycles by phase, in running order."""
        cycles = {}
        for stage in self.stages:
            if stage.exchange_cycles is not None:
                cycles[Phase(stage.stage, stage.index, is_exchange=True)] = stage.exchange_cycles
            if stage.compute_cycles is not None:
                cycles[Phase(stage.stage, stage.index)] = stage.compute_cycles
        return cycles

    @property
    def predicted(self) -> Mapping[str, int]:
        """Cycles by display name of the phase."""
        return {phase.name: cycles for phase, cycles in self.predicted_phases.items()}

    @property
    def predicted_cycles(self) -> int:
        """Sum over the stages, cycles."""
        return sum(stage.predicted_cycles for stage in self.stages)

    @property
    def n_reduce_stages(self) -> int:
        """Stages that sum partials in part, before the last."""
        return sum(stage.stage is Stage.REDUCE_STAGE for stage in self.stages)

    def to_facts(self) -> dict[str, Any]:
        """Return the decision as JSON types, without the library call."""
        facts = {name: getattr(self, name) for name in _FACTS}
        return {**facts, "stages": [list(astuple(stage)) for stage in self.stages]}

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> Plan:
        """Return the plan that `to_facts` described.

        Raises
        ------
        ValueError
            If the facts do not describe a plan.
        """
        if set(facts) != set(_FACTS):
            raise ValueError("not the facts of a plan")
        stages = tuple(PlannedStage(Stage(kind), *rest) for kind, *rest in facts["stages"])
        return cls(**{**facts, "stages": stages})


#: Fields of a decision; the others identify the library call.
_FACTS = tuple(f.name for f in fields(Plan) if f.name not in ("plan_id", "call"))
