"""The plan that a compute set belongs to, and the stage of the plan that it implements."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["PlanStage", "Stage"]


class Stage(StrEnum):
    """The stages of a planned convolution, product or reduction, in execution order.

    A stage is one compute set, with the exchanges before and after it; an operation split into
    serial parts runs most of its stages once per part.
    """

    #: Copies an operand into one variable or into row-major order; the planner does not predict it.
    REARRANGE = "rearrange"
    #: Copies the input into groups of channels.
    PRE_ARRANGE = "preArrange"
    #: Copies computed weights into blocks of channel groups.
    PRE_ARRANGE_WEIGHTS = "preArrangeWeights"
    #: The vertices of the plan's family.
    COMPUTE = "compute"
    #: Sums, or reduces otherwise, some of the partials; the index counts these stages from 0.
    REDUCE_STAGE = "reduceStage"
    #: Sums, or reduces otherwise, all remaining partials.
    REDUCE = "reduce"
    #: Casts the sums to the result type.
    CAST = "cast"
    #: Copies a serial part of the outputs to its place in the result.
    UPDATE = "update"
    #: Adds a serial part of the inputs to the sum of the earlier parts.
    ADD = "add"


@dataclass(frozen=True)
class PlanStage:
    """The place of a compute set in a plan.

    Parameters
    ----------
    plan_id
        The plan: `tilescope.engine.planner.Plan.plan_id`, unique within a graph.
    stage, index
        Its stage, and the index among the plan's stages of that kind.
    serial_part
        Index of the serial part that runs it, from 0; None for stages that all parts share, and
        for operations without serial parts.
    """

    plan_id: int
    stage: Stage
    index: int = 0
    serial_part: int | None = None
