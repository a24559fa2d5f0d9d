"""Explanations of plans: what was expected of an operation's parts beside what they cost."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.target import target
from tilescope.analyser.program.compute_sets import ComputeSetVertices, compute_set_vertices
from tilescope.analyser.program.contexts import enclosing
from tilescope.analyser.program.operations import inside
from tilescope.analyser.program.plans import Plan, plans, stage_of_step, stages
from tilescope.analyser.time.execution import costs, steps
from tilescope.reports import schema

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["PartCost", "PlanExplanation", "explain_plan", "explanation", "plans_of"]

#: Number of similar names shown for an unknown name.
_NEAR_NAMES = 5


@dataclass(frozen=True)
class PartCost:
    """A part of an operation: predicted, and one execution of its steps as compiled, cycles.

    None where the planner does not look at the part, or the program has no step for it.
    """

    part: str
    predicted_cycles: int | None
    compiled_cycles: int | None
    is_exchange: bool


@dataclass(frozen=True)
class PlanExplanation:
    """A plan with what became of it.

    Attributes
    ----------
    asked_by
        Name and type of the model's own node; empty for a graph built with the graph API.
    n_machine_tiles
        Tiles of the machine, idle ones included.
    available_bytes
        What temporary memory on a tile was to keep to.
    live_bytes
        Most that is live but not always on a tile while the operation runs; None without memory.
    vertices
        Codelets of its compute sets, those with the most cycles first.
    """

    plan: Plan
    asked_by: tuple[str, str]
    n_machine_tiles: int
    available_bytes: int
    live_bytes: int | None
    parts: tuple[PartCost, ...]
    vertices: tuple[ComputeSetVertices, ...]

    @property
    def compiled_cycles(self) -> int:
        """Sum over the parts, one execution, cycles."""
        return sum(part.compiled_cycles or 0 for part in self.parts)

    @property
    def compared_cycles(self) -> int:
        """The same over the parts that the planner looks at."""
        return sum(
            part.compiled_cycles or 0 for part in self.parts if part.predicted_cycles is not None
        )


def explain_plan(report: Report, name: str) -> PlanExplanation:
    """Return a plan with its cost as compiled, part by part.

    Parameters
    ----------
    report
        The report.
    name
        The operation's debug name, or that of the model's node that asked for it.

    Raises
    ------
    BadQuestion
        When the plan is unknown, or the node has several.
    """
    return explanation(report, _find(report, name))


def plans_of(report: Report, context_id: int) -> tuple[Plan, ...]:
    """Return the plans of an operation and of what it called, the longest first."""
    context_ids = inside(report, context_id)
    return tuple(plan for plan in plans(report) if plan.debug_context_id in context_ids)


def explanation(report: Report, plan: Plan) -> PlanExplanation:
    """Return one of the report's plans with what became of it."""
    step_ids = _steps_of(report, plan)
    machine = target(report)
    around = enclosing(report, plan.debug_context_id)
    return PlanExplanation(
        plan,
        (around[-1].name, around[-1].operation)
        if around and around[-1].level == "model"
        else ("", ""),
        machine.n_tiles,
        int(machine.capacity_bytes * plan.available_memory_proportion),
        _live_bytes(report, step_ids),
        _parts(report, plan),
        _vertices(report, step_ids),
    )


def _find(report: Report, name: str) -> Plan:
    """Return the plan of an operation's or a node's name."""
    every = plans(report)
    if not every:
        raise BadQuestion(
            "this report has no plans: its program has no convolution, product or reduction,"
            " or it was written without a graph profile"
        )
    exact = [plan for plan in every if plan.name == name]
    if len(exact) > 1:
        raise BadQuestion(
            f"{len(exact)} products or convolutions are called {name!r}: select one on"
            " the page Operations, or give each a name= of its own where the graph is built"
        )
    if exact:
        return exact[0]
    inside = [plan for plan in every if plan.name.startswith(f"{name}/")]
    if len(inside) == 1:
        return inside[0]
    names = [plan.name for plan in inside] or _near(name, [plan.name for plan in every])
    listed = ", ".join(repr(near[:200]) for near in names[:_NEAR_NAMES])
    rest = f" and {len(names) - _NEAR_NAMES} more" if len(names) > _NEAR_NAMES else ""
    if inside:
        raise BadQuestion(f"{name[:200]!r} has {len(inside)} plans; ask for one of {listed}{rest}")
    raise BadQuestion(
        f"unknown plan {name[:200]!r}; this report has {len(every)},"
        f" and the nearest names are {listed}"
    )


def _near(name: str, names: list[str]) -> list[str]:
    """Return the names most like an unknown one: those that hold it, else by likeness."""
    lowered = name.lower()[:200]
    holding = [known for known in names if lowered and lowered in known.lower()]

    def likeness(known: str) -> float:
        return difflib.SequenceMatcher(None, lowered, known.lower()[:200]).ratio()

    return (holding or sorted(names, key=likeness, reverse=True))[:_NEAR_NAMES]


def _parts(report: Report, plan: Plan) -> tuple[PartCost, ...]:
    """Return the stages in the order they run, then those that were predicted and do not exist."""
    cycles = costs(report).per_step("cycles", len(steps(report)), largest=True)
    compiled: dict[int, int] = {}
    for step_id, stage_id in stage_of_step(report).items():
        compiled[stage_id] = compiled.get(stage_id, 0) + int(cycles[step_id])
    return tuple(
        PartCost(
            stage.name,
            stage.predicted_cycles,
            compiled.get(stage.plan_stage_id),
            stage.phase == "exchange",
        )
        for stage in stages(report)
        if stage.plan_id == plan.plan_id
    )


def _steps_of(report: Report, plan: Plan) -> tuple[int, ...]:
    """Return the steps that belong to a plan, in program order."""
    stage_ids = {stage.plan_stage_id for stage in stages(report) if stage.plan_id == plan.plan_id}
    return tuple(step_id for step_id, stage in stage_of_step(report).items() if stage in stage_ids)


def _live_bytes(report: Report, step_ids: tuple[int, ...]) -> int | None:
    """Return the most that is live but not always on one tile in some steps."""
    names = ("step_id", "max_tile_bytes")
    step_id, live = (report.array(f"liveness.{name}").read() for name in names)
    live_bytes = live[np.isin(step_id, step_ids)]
    return int(live_bytes.max()) if live_bytes.size else None


def _vertices(report: Report, step_ids: tuple[int, ...]) -> tuple[ComputeSetVertices, ...]:
    """Return the codelets of the compute sets that some steps run."""
    of_step = report.column(schema.step, "compute_set_id")
    ids = dict.fromkeys(of_step[step_id] for step_id in step_ids)
    used = [vertex for set_id in ids for vertex in compute_set_vertices(report, set_id)[1]]
    return tuple(sorted(used, key=lambda vertex: -vertex.total_cycles))
