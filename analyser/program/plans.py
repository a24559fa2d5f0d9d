"""Plans: how operations were split over tiles, what was expected of that, what it really costs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np

from tilescope.analyser.cache import cached
from tilescope.analyser.time.execution import steps
from tilescope.analyser.validation import require_known
from tilescope.reports import schema
from tilescope.reports.schema.vocabulary import BOUNDS

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "Plan",
    "Plans",
    "RunnerUp",
    "Stage",
    "plans",
    "predicted_by_stage",
    "product_steps",
    "stage_names",
    "stage_of_step",
    "stages",
]

#: Phases of stages.
_STAGE_PHASES = frozenset({"compute", "exchange"})


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
    wrote something else.
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
    temporary_bytes: int
    available_memory_proportion: float
    bound: str
    runner_up: RunnerUp | None
    debug_context_id: int | None


class Plans(Sequence[Plan]):
    """All plans, those that were predicted to take longest first; each is made when asked for."""

    def __init__(self, report: Report) -> None:
        """Take the columns of a report's plans."""
        names = list(Plan.__dataclass_fields__)
        columns = report.columns(schema.plan, *names)
        self._columns = dict(zip(names, columns, strict=True))
        bounds = self._columns["bound"]
        require_known(report, dict.fromkeys(bounds), BOUNDS, "{} is not a bound of a plan")
        cycles = np.array(self._columns["predicted_cycles"], dtype=np.int64)
        self._rows: list[int] = np.argsort(-cycles, kind="stable").tolist()

    def __len__(self) -> int:
        """Return the number of plans."""
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> Plan: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Plan]: ...

    def __getitem__(self, place: int | slice) -> Plan | Sequence[Plan]:
        """Return the plan at a place, or those of a slice."""
        if isinstance(place, slice):
            return tuple(map(self._plan, self._rows[place]))
        return self._plan(self._rows[place])

    def _plan(self, row: int) -> Plan:
        named = {name: values[row] for name, values in self._columns.items()}
        return Plan(
            **named
            | {
                "grouping": _counts(named["grouping"]),
                "split": _counts(named["split"]),
                "runner_up": _runner_up(named["runner_up"]),
            }
        )


@cached
def plans(report: Report) -> Plans:
    """Return all plans, those that were predicted to take longest first."""
    return Plans(report)


@cached
def predicted_by_stage(report: Report) -> dict[int, dict[str, int]]:
    """Return the predicted cycles of every plan, by its id, and by stage."""
    predicted: dict[int, dict[str, int]] = {}
    for stage in stages(report):
        if stage.predicted_cycles is not None:
            predicted.setdefault(stage.plan_id, {})[stage.name] = stage.predicted_cycles
    return predicted


def product_steps(report: Report) -> tuple[int, ...]:
    """Return the steps that compute the products of plans themselves, in program order."""
    kinds = steps(report).kind
    return tuple(
        step_id
        for step_id, name in stage_names(report).items()
        if name == "compute" and kinds[step_id] == "OnTileExecute"
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
        choice = dict(json.loads(text))
        cycles = int(choice.pop("cycles"))
    except (KeyError, OverflowError, RecursionError, TypeError, ValueError):
        return None
    return RunnerUp(
        {
            str(key): value if isinstance(value, int) else str(value)
            for key, value in choice.items()
        },
        cycles,
    )


class Stage(NamedTuple):
    """A row of ``plan_stage``."""

    plan_stage_id: int
    plan_id: int
    name: str
    phase: str
    predicted_cycles: int | None


@cached
def stages(report: Report) -> tuple[Stage, ...]:
    """Return the stages of all plans, those of a plan in the order they run."""
    rows = report.rows(schema.plan_stage, *Stage._fields)
    plan_id, phase, position = report.columns(schema.plan_stage, "plan_id", "phase", "position")
    known = set(report.column(schema.plan, "plan_id"))
    require_known(report, dict.fromkeys(plan_id), known, "plan {} is missing")
    require_known(report, dict.fromkeys(phase), _STAGE_PHASES, "{} is not a phase of a stage")
    order = np.lexsort((np.array(position, dtype=np.int64), np.array(plan_id, dtype=np.int64)))
    return tuple(Stage._make(rows[row]) for row in order.tolist())


@cached
def stage_of_step(report: Report) -> dict[int, int]:
    """Return the stage of every step that belongs to a plan."""
    rows = report.rows(schema.step, "step_id", "plan_stage_id")
    stage_ids = {step_id: stage_id for step_id, stage_id in rows if stage_id is not None}
    known = {stage.plan_stage_id for stage in stages(report)}
    require_known(report, stage_ids.values(), known, "stage {} of a plan is missing")
    return stage_ids


@cached
def stage_names(report: Report) -> dict[int, str]:
    """Return the stage of its plan of every step that has one, by step."""
    names = {stage.plan_stage_id: stage.name for stage in stages(report)}
    return {step_id: names[stage_id] for step_id, stage_id in stage_of_step(report).items()}
