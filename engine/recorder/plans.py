"""Plans, their stages, and the plan stage of every step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tilescope.engine.compiler.executable.executable import Executable, Step
from tilescope.engine.graph import Stage
from tilescope.engine.planner.phase import Phase
from tilescope.engine.planner.plan import Plan
from tilescope.engine.recorder.contexts import ContextTable
from tilescope.reports import ReportWriter
from tilescope.reports.figures import tile_balance
from tilescope.reports.schema import plan, plan_stage
from tilescope.reports.schema.vocabulary import phase_of

__all__ = ["StageTable", "write_plans"]


@dataclass
class _Stage:
    """A stage of a plan and its compiled steps."""

    phase: Phase
    predicted_cycles: int | None
    steps: list[Step] = field(default_factory=list)


@dataclass(frozen=True)
class StageTable:
    """The plan stage of every step.

    Attributes
    ----------
    stage_of_step
        Step to row of ``plan_stage``; unplanned steps are missing.
    part_of_step
        Step to the index of its serial part, for plans with serial parts.
    """

    stage_of_step: dict[int, int]
    part_of_step: dict[int, int]


def write_plans(writer: ReportWriter, executable: Executable, contexts: ContextTable) -> StageTable:
    """Write the plans of an executable and their stages."""
    stages, parts = _stages(executable)
    writer.add(
        plan,
        [
            {
                "plan_id": number,
                "name": item.name,
                "operation": item.operation,
                "family": item.family,
                "grouping": json.dumps(dict(item.grouping)),
                "split": json.dumps(dict(item.split)),
                "swaps_operands": item.swaps_operands,
                "n_tiles": item.n_tiles,
                "tile_balance": _tile_balance(executable, item, stages[number]),
                "predicted_cycles": item.predicted_cycles,
                "temporary_bytes": item.temporary_bytes,
                "available_memory_proportion": item.available_memory_proportion,
                "bound": item.bound,
                "runner_up": json.dumps(dict(item.runner_up)),
                "debug_context_id": None if item.call is None else contexts.id_of(item.call),
            }
            for number, item in enumerate(executable.plans)
        ],
    )
    rows: list[dict[str, object]] = []
    stage_of_step: dict[int, int] = {}
    for number, of_plan in enumerate(stages):
        for position, stage in enumerate(of_plan.values()):
            stage_of_step |= dict.fromkeys((step.step_id for step in stage.steps), len(rows))
            rows.append(
                {
                    "plan_stage_id": len(rows),
                    "plan_id": number,
                    "position": position,
                    "name": stage.phase.name,
                    "phase": "exchange" if stage.phase.is_exchange else "compute",
                    "predicted_cycles": stage.predicted_cycles,
                }
            )
    writer.add(plan_stage, rows)
    return StageTable(stage_of_step, parts)


def _stages(executable: Executable) -> tuple[list[dict[Phase, _Stage]], dict[int, int]]:
    """Return the stages of every plan by phase, and the serial part of every step that has one.

    Stages are in execution order, followed by predicted stages that were not compiled.
    """
    number_of = {item.plan_id: number for number, item in enumerate(executable.plans)}
    predicted = [item.predicted_phases for item in executable.plans]
    stages: list[dict[Phase, _Stage]] = [{} for _ in executable.plans]
    parts: dict[int, int] = {}
    for step in executable.steps:
        offset = step.plan_stage
        if offset is None or offset.plan_id not in number_of:
            continue
        number = number_of[offset.plan_id]
        phase = Phase(offset.stage, offset.index, phase_of(step.kind) != "compute")
        stage = stages[number].setdefault(phase, _Stage(phase, predicted[number].get(phase)))
        stage.steps.append(step)
        if offset.serial_part is not None:
            parts[step.step_id] = offset.serial_part
    for expected, of_plan in zip(predicted, stages, strict=True):
        for phase, cycles in expected.items():
            of_plan.setdefault(phase, _Stage(phase, cycles))
    return stages, parts


def _tile_balance(executable: Executable, item: Plan, stages: dict[Phase, _Stage]) -> float:
    """Return the tile balance of a plan's compute stage; the prediction where it has no steps.

    The mean is over all tiles of the IPUs that take part, including idle ones.
    """
    compute = Phase(Stage.COMPUTE)
    steps: Sequence[Step] = stages[compute].steps if compute in stages else ()
    machine = executable.machine
    phases = [step.cost.tile_cycles.dense().reshape(machine.n_ipus, -1) for step in steps]
    busiest = sum(int(phase.max()) for phase in phases)
    if not busiest:
        return item.tile_balance
    # A phase may run on some of the IPUs: a mean over their tiles stands for one tile.
    mean = sum(float(np.mean(phase[phase.any(axis=1)])) for phase in phases)
    return tile_balance(mean, busiest, 1) or 0.0
