"""How an operation belongs to others in a training step, by the keys that lists of them have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilescope.analyser.program.operations import operation_of
from tilescope.analyser.program.training import pass_label, passes_of_steps, place_of
from tilescope.reports import schema

if TYPE_CHECKING:
    from tilescope.analyser.program.contexts import DebugContext
    from tilescope.reports import Report

__all__ = ["RelatedOperation", "TrainingLinks", "links_of_step", "training_links"]


@dataclass(frozen=True)
class RelatedOperation:
    """An operation of the model, by its name and its key in `Operations.by_key`."""

    name: str
    key: str
    training_pass: str


@dataclass(frozen=True)
class TrainingLinks:
    """Where an operation stands in a training step.

    Attributes
    ----------
    training_pass, label
        A name in `TRAINING_PASSES`, and the same for people.
    origin
        Of a gradient, or what is part of one: the forward operation that it belongs to.
    gradients
        Of a forward operation, or what is part of one: its gradients.
    """

    training_pass: str
    label: str
    origin: RelatedOperation | None
    gradients: tuple[RelatedOperation, ...]


def training_links(report: Report, context_id: int | None) -> TrainingLinks | None:
    """Return how a debug context belongs to others in a training step; None outside training."""
    place = place_of(report, context_id)
    if place is None:
        return None
    return TrainingLinks(
        place.training_pass,
        pass_label(place.training_pass),
        None if place.origin is None else _related(report, place.origin),
        tuple(_related(report, context) for context in place.gradients),
    )


def links_of_step(report: Report, step_id: int) -> TrainingLinks | None:
    """Return how the operation of a step belongs to others; None for a step of no pass."""
    if passes_of_steps(report)[step_id] is None:
        return None
    rows = report.rows(schema.program, "step_id", "debug_context_id")
    return training_links(report, next(context for number, context in rows if number == step_id))


def _related(report: Report, context: DebugContext) -> RelatedOperation:
    found = operation_of(report, context.debug_context_id)
    key = context.name if found is None else found[0]
    return RelatedOperation(context.name, key, context.training_pass or "")
