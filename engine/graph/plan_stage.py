"""Which plan a compute set belongs to, and which of the plan's stages it carries out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["PlanStage", "Stage"]


class Stage(StrEnum):
    """The stages of a planned convolution or product, in the order in which they run.

    A stage is one compute set, with the exchanges before and after it; an operation made in serial
    parts runs most of its stages once per part.
    """

    #: Copies an operand into one variable or into row-major order; the planner does not predict it.
    REARRANGE = "rearrange"
    #: Copies the input into groups of channels.
    PRE_ARRANGE = "preArrange"
    #: Copies computed weights into blocks of channel groups.
    PRE_ARRANGE_WEIGHTS = "preArrangeWeights"
    #: The vertices of the plan's family.
    COMPUTE = "compute"
    #: Sums partials in part; the index counts these stages from 0.
    REDUCE_STAGE = "reduceStage"
    #: Sums all partials that are left.
    REDUCE = "reduce"
    #: Casts the sums to the type of the result.
    CAST = "cast"
    #: Copies a serial part of the outputs to its place in the result.
    UPDATE = "update"
    #: Adds a serial part of the inputs to the sums of the parts before it.
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
        Index of the serial part that runs it, from 0; None for what all parts share, and where the
        operation is made at once.
    """

    plan_id: int
    stage: Stage
    index: int = 0
    serial_part: int | None = None
