"""Passes of a training step: which operations and steps belong to them, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.cache import cached
from tilescope.analyser.program.contexts import DebugContext, contexts, enclosing
from tilescope.analyser.time.execution import costs, steps
from tilescope.analyser.time.selection import (
    ALL,
    Selection,
    selected_costs,
    selected_cycles,
    selected_step_cycles,
)
from tilescope.reports import schema
from tilescope.reports.schema.vocabulary import TRAINING_PASSES

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "OperationPlace",
    "PassTotal",
    "has_training",
    "origin_words",
    "pass_label",
    "pass_totals",
    "passes",
    "passes_of_steps",
    "place_of",
]


@dataclass(frozen=True)
class OperationPlace:
    """Where an operation stands in a training step.

    Attributes
    ----------
    training_pass
        A name in `TRAINING_PASSES`.
    context
        The operation of the model.
    origin
        Of a gradient, the forward operation that it belongs to.
    gradients
        Of a forward operation, its gradients.
    """

    training_pass: str
    context: DebugContext
    origin: DebugContext | None
    gradients: tuple[DebugContext, ...]


@dataclass(frozen=True)
class PassTotal:
    """What a pass of a training step costs.

    Attributes
    ----------
    name
        A name in `TRAINING_PASSES`; empty for what belongs to none, such as host copies.
    cycles
        Time in its steps on the critical path, over all recorded runs; of one execution of each
        step when no run was recorded, cycles.
    share
        Of the total cycles, 0 to 1; None where there are none.
    flops
        Useful floating-point operations in the same executions, on all IPUs.
    """

    name: str
    label: str
    n_operations: int
    n_steps: int
    cycles: int
    share: float | None
    flops: int


def pass_label(name: str | None) -> str:
    """Return a pass for people; empty for none."""
    return TRAINING_PASSES[name].label if name else ""


def origin_words(training_pass: str | None, origin: str) -> str:
    """Return how a gradient belongs to a forward operation: ``gradient of fc1``."""
    kind = {"data gradient": "data gradient", "weight gradient": "weight gradient"}
    return f"{kind.get(training_pass or '', 'gradient')} of {origin}"


@cached
def passes(report: Report) -> dict[int, str]:
    """Return the pass of every debug context that has one, or stands in one that has."""
    names: dict[int, str] = {}
    for number, context in contexts(report).items():
        name = context.training_pass or names.get(-1 if (p := context.parent_id) is None else p)
        if name:
            names[number] = name
    return names


def has_training(report: Report) -> bool:
    """Return whether a program trains a model."""
    return bool(passes(report))


@cached
def _gradients(report: Report) -> dict[int, tuple[int, ...]]:
    """Return the gradients of every forward operation."""
    gradients: dict[int, tuple[int, ...]] = {}
    for number, context in contexts(report).items():
        if context.origin_id is not None:
            gradients[context.origin_id] = (*gradients.get(context.origin_id, ()), number)
    return gradients


def place_of(report: Report, context_id: int | None) -> OperationPlace | None:
    """Return where a debug context stands in a training step; None outside training."""
    every = contexts(report)
    for context in enclosing(report, context_id):
        if context.training_pass:
            origin = None if context.origin_id is None else every.get(context.origin_id)
            numbers = _gradients(report).get(context.debug_context_id, ())
            gradients = tuple(every[number] for number in numbers)
            return OperationPlace(context.training_pass, context, origin, gradients)
    return None


@cached
def passes_of_steps(report: Report) -> tuple[str | None, ...]:
    """Return the pass of every step; None for those that belong to none."""
    names: list[str | None] = [None] * len(steps(report))
    of_context = passes(report)
    for step_id, context_id in report.rows(schema.program, "step_id", "debug_context_id"):
        if step_id is not None and step_id < len(names):
            names[step_id] = of_context.get(-1 if context_id is None else context_id)
    return tuple(names)


@cached
def pass_totals(report: Report, selection: Selection = ALL) -> tuple[PassTotal, ...]:
    """Return what the passes of a training step cost, in their order; none outside training.

    What belongs to no pass comes last, if anything does.

    Raises
    ------
    BadQuestion
        When the IPU or the run of the selection does not exist.
    """
    if not has_training(report):
        return ()
    names = [*TRAINING_PASSES, ""]
    of_step = np.array([names.index(name or "") for name in passes_of_steps(report)], np.int64)
    rows, times = selected_costs(report, selection)
    column = costs(report).column
    n_passes = len(names)

    def summed(values: np.ndarray, places: np.ndarray) -> list[int]:
        sums = np.zeros(n_passes, np.int64)
        np.add.at(sums, places, values)
        return [int(value) for value in sums]

    cycles = summed(selected_step_cycles(report, selection), of_step)
    total = selected_cycles(report, selection)
    cycles[-1] += max(total - sum(cycles), 0)
    flops = summed(column["flops"][rows] * times, of_step[column["step_id"][rows]])
    n_steps = np.bincount(of_step, minlength=n_passes).tolist()
    own = [context.training_pass for context in contexts(report).values()]
    totals = (
        PassTotal(
            name,
            pass_label(name) or "No pass",
            own.count(name) if name else 0,
            n_steps[place],
            cycles[place],
            cycles[place] / total if total else None,
            flops[place],
        )
        for place, name in enumerate(names)
    )
    return tuple(item for item in totals if item.n_operations or item.n_steps or item.cycles)
