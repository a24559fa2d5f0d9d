"""Plans: how operations were split over tiles, what was expected of that, what it really costs."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilescope.analyser.cache import cached
from tilescope.analyser.compute_sets import ComputeSetVertices, compute_set_vertices
from tilescope.analyser.contexts import enclosing
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.execution import costs, steps
from tilescope.analyser.machine import target
from tilescope.analyser.operations import inside
from tilescope.analyser.validation import require_known
from tilescope.reports import schema
from tilescope.reports.schema.vocabulary import BOUNDS

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "PartCost",
    "Plan",
    "PlanExplanation",
    "RunnerUp",
    "explain_plan",
    "explanation",
    "plans",
    "plans_of",
    "product_steps",
    "stage_names",
]

#: Phases of stages.
_STAGE_PHASES = frozenset({"compute", "exchange"})
#: Number of similar names shown for an unknown name.
_NEAR_NAMES = 5


@dataclass(frozen=True)
class RunnerUp:
    """What would have been taken next: how it is split, and its predicted cycles."""

    choice: dict[str, int | str]
    cycles: int


@dataclass(frozen=True)
class Plan:
    """How an operation was split over tiles.

    ``family`` are the vertices that compute, ``grouping`` the convolution groups, inputs and
    outputs that they work on as one, and with ``combined`` how many groups of the operation were
    made one of these. ``split`` is the number of parts by dimension; these are empty if the engine
    wrote something else. ``predicted`` are cycles by stage.
    ``tile_balance`` is of what was compiled, 0 to 1; ``temporary_bytes`` the most on a tile, as
    predicted.
    """

    plan_id: int
    name: str
    operation: str
    family: str
    grouping: dict[str, int]
    split: dict[str, int]
    swaps_operands: bool
    n_tiles: int
    tile_balance: float
    predicted_cycles: int
    predicted: dict[str, int]
    temporary_bytes: int
    available_memory_proportion: float
    bound: str
    runner_up: RunnerUp | None
    debug_context_id: int | None


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


@cached
def plans(report: Report) -> tuple[Plan, ...]:
    """Return all plans, those that were predicted to take longest first."""
    names = [name for name in Plan.__dataclass_fields__ if name != "predicted"]
    predicted: dict[int, dict[str, int]] = {}
    for stage in _stages(report):
        if stage.predicted_cycles is not None:
            predicted.setdefault(stage.plan_id, {})[stage.name] = stage.predicted_cycles
    answer = []
    for row in report.rows(schema.plan, *names):
        named = dict(zip(names, row, strict=True))
        named["predicted"] = predicted.get(named["plan_id"], {})
        for name in ("grouping", "split"):
            named[name] = _counts(named[name])
        named["runner_up"] = _runner_up(named["runner_up"])
        answer.append(Plan(**named))
    require_known(report, (plan.bound for plan in answer), BOUNDS, "{} is not a bound of a plan")
    return tuple(sorted(answer, key=lambda plan: -plan.predicted_cycles))


def product_steps(report: Report) -> tuple[int, ...]:
    """Return the steps that compute the products of plans themselves, in program order."""
    kinds = steps(report).kind
    return tuple(
        step_id
        for step_id, name in stage_names(report).items()
        if name == "compute" and kinds[step_id] == "OnTileExecute"
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
    wanted = inside(report, context_id)
    return tuple(plan for plan in plans(report) if plan.debug_context_id in wanted)


def explanation(report: Report, plan: Plan) -> PlanExplanation:
    """Return one of the report's plans with what became of it."""
    found = _steps_of(report, plan)
    machine = target(report)
    around = enclosing(report, plan.debug_context_id)
    return PlanExplanation(
        plan,
        (around[-1].name, around[-1].operation)
        if around and around[-1].layer == "onnx"
        else ("", ""),
        machine.n_tiles,
        int(machine.capacity_bytes * plan.available_memory_proportion),
        _live_bytes(report, found),
        _parts(report, plan),
        _vertices(report, found),
    )


@lru_cache(maxsize=4_096)
def _counts(text: str) -> dict[str, int]:
    """Return a JSON object of whole numbers; empty if it is something else."""
    try:
        return {str(name): int(number) for name, number in json.loads(text).items()}
    except (AttributeError, OverflowError, RecursionError, TypeError, ValueError):
        return {}


@lru_cache(maxsize=4_096)
def _runner_up(text: str) -> RunnerUp | None:
    """Return the runner-up; None if there was none, or the engine wrote something else."""
    try:
        found = dict(json.loads(text))
        cycles = int(found.pop("cycles"))
    except (KeyError, OverflowError, RecursionError, TypeError, ValueError):
        return None
    return RunnerUp(
        {str(key): value if isinstance(value, int) else str(value) for key, value in found.items()},
        cycles,
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
    listed = ", ".join(repr(near) for near in names[:_NEAR_NAMES])
    more = f" and {len(names) - _NEAR_NAMES} more" if len(names) > _NEAR_NAMES else ""
    if inside:
        raise BadQuestion(f"{name!r} has {len(inside)} plans; ask for one of {listed}{more}")
    raise BadQuestion(
        f"unknown plan {name!r}; this report has {len(every)}, and the nearest names are {listed}"
    )


def _near(name: str, names: list[str]) -> list[str]:
    """Return the names most like an unknown one: those that hold it, else by likeness."""
    wanted = name.lower()[:200]
    holding = [known for known in names if wanted and wanted in known.lower()]

    def likeness(known: str) -> float:
        return difflib.SequenceMatcher(None, wanted, known.lower()[:200]).ratio()

    return (holding or sorted(names, key=likeness, reverse=True))[:_NEAR_NAMES]


class _Stage(NamedTuple):
    """A row of ``plan_stage``."""

    plan_stage_id: int
    plan_id: int
    name: str
    phase: str
    predicted_cycles: int | None


@cached
def _stages(report: Report) -> tuple[_Stage, ...]:
    """Return the stages of all plans, those of a plan in the order they run."""
    rows = report.rows(schema.plan_stage, "position", *_Stage._fields)
    known = set(report.column(schema.plan, "plan_id"))
    rows.sort(key=lambda row: (row[2], row[0]))  # plan, then position
    found = tuple(_Stage(*row[1:]) for row in rows)
    require_known(report, (stage.plan_id for stage in found), known, "plan {} is missing")
    phases = {stage.phase for stage in found}
    require_known(report, phases, _STAGE_PHASES, "{} is not a phase of a stage")
    return found


@cached
def _stage_of_step(report: Report) -> dict[int, int]:
    """Return the stage of every step that belongs to a plan."""
    rows = report.rows(schema.step, "step_id", "plan_stage_id")
    found = {step_id: stage_id for step_id, stage_id in rows if stage_id is not None}
    known = {stage.plan_stage_id for stage in _stages(report)}
    require_known(report, found.values(), known, "stage {} of a plan is missing")
    return found


def _parts(report: Report, plan: Plan) -> tuple[PartCost, ...]:
    """Return the stages in the order they run, then those that were predicted and do not exist."""
    cycles = costs(report).per_step("cycles", len(steps(report)), largest=True)
    compiled: dict[int, int] = {}
    for step_id, stage_id in _stage_of_step(report).items():
        compiled[stage_id] = compiled.get(stage_id, 0) + int(cycles[step_id])
    return tuple(
        PartCost(
            stage.name,
            stage.predicted_cycles,
            compiled.get(stage.plan_stage_id),
            stage.phase == "exchange",
        )
        for stage in _stages(report)
        if stage.plan_id == plan.plan_id
    )


def _steps_of(report: Report, plan: Plan) -> tuple[int, ...]:
    """Return the steps that belong to a plan, in program order."""
    own = {stage.plan_stage_id for stage in _stages(report) if stage.plan_id == plan.plan_id}
    return tuple(step_id for step_id, stage in _stage_of_step(report).items() if stage in own)


def _live_bytes(report: Report, found: tuple[int, ...]) -> int | None:
    """Return the most that is live but not always on one tile in some steps."""
    names = ("step_id", "max_tile_bytes")
    step_id, live = (report.array(f"liveness.{name}").read() for name in names)
    own = live[np.isin(step_id, found)]
    return int(own.max()) if own.size else None


def _vertices(report: Report, found: tuple[int, ...]) -> tuple[ComputeSetVertices, ...]:
    """Return the codelets of the compute sets that some steps run."""
    of_step = report.column(schema.step, "compute_set_id")
    ids = dict.fromkeys(of_step[step_id] for step_id in found)
    used = [vertex for one in ids for vertex in compute_set_vertices(report, one)[1]]
    return tuple(sorted(used, key=lambda vertex: -vertex.total_cycles))


@cached
def stage_names(report: Report) -> dict[int, str]:
    """Return the stage of its plan of every step that has one, by step."""
    names = {stage.plan_stage_id: stage.name for stage in _stages(report)}
    return {step_id: names[stage_id] for step_id, stage_id in _stage_of_step(report).items()}
