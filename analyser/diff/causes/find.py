"""All causes of a difference, sorted by impact."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from tilescope.analyser.diff.causes.cause import OTHERS, Cause
from tilescope.analyser.diff.causes.circumstances import (
    batch_causes,
    batch_parts_causes,
    data_causes,
    identity_causes,
    input_causes,
    machine_causes,
    model_causes,
    opset_causes,
    option_causes,
    precision_causes,
    run_causes,
)
from tilescope.analyser.diff.causes.mapping import mapping_causes, size_causes, users_of_changed
from tilescope.analyser.diff.causes.operation import (
    argument_causes,
    cost_causes,
    new_and_gone,
    plan_causes,
)
from tilescope.analyser.diff.causes.training import training_causes
from tilescope.analyser.time.execution import steps

if TYPE_CHECKING:
    from tilescope.analyser.diff.causes.evidence import Evidence, Group

__all__ = ["find_causes"]

#: Kinds that come before all others, and those that say only what has no cost.
_FIRST = frozenset(
    {
        "other model",
        "machine",
        "data",
        "opset",
        "batch",
        "input",
        "precision",
        "training",
        "version",
    }
)
_LAST = frozenset({"weights", "names", "order", "seed", "model"})


def find_causes(evidence: Evidence) -> tuple[Cause, ...]:
    """Return why two reports differ: circumstances of the whole program, then by impact."""
    n_steps = [len(steps(report)) for report in evidence.sides]
    if min(n_steps) == 0 < max(n_steps):
        side = "baseline" if n_steps[0] == 0 else "candidate"
        sentence = f"The {side} holds no steps; programs are not compared."
        missing = Cause("steps", side, 0, 0, sentence)
        return (missing, *machine_causes(evidence), *option_causes(evidence))
    of_models = model_causes(evidence)
    if of_models:
        return (
            *of_models,
            *machine_causes(evidence),
            *option_causes(evidence),
            *run_causes(evidence),
        )
    of_parts, repeated = batch_parts_causes(evidence)
    of_whole = [
        *machine_causes(evidence),
        *data_causes(evidence),
        *(of_parts or batch_causes(evidence) or input_causes(evidence)),
        *precision_causes(evidence),
    ]
    of_training, explained = training_causes(evidence)
    explained |= repeated
    is_all_explained = bool(of_whole or explained)
    of_whole += of_training
    parts = _part_causes(evidence, explained, is_all_explained=is_all_explained)
    of_whole += opset_causes(evidence)
    options = option_causes(evidence)
    is_alone = not of_whole and not parts and not options
    is_alone = is_alone and not any(metric.delta for metric in evidence.metrics)
    causes = [
        *of_whole,
        *options,
        *parts,
        *run_causes(evidence),
        *identity_causes(evidence, is_alone=is_alone),
    ]
    totals = [
        max(*(int(side or 0) for side in (metric.baseline, metric.candidate)), 1)
        for metric in (evidence.metric("cycles.total"), evidence.metric("memory.total"))
    ]

    def place(cause: Cause) -> tuple[int, float]:
        rank = 0 if cause.kind in _FIRST else 3 if cause.kind in _LAST else 1
        rank = 2 if cause.subject in OTHERS else rank
        return rank, -max(abs(cause.cycles) / totals[0], abs(cause.bytes) / totals[1])

    return tuple(sorted(causes, key=place))


def _part_causes(
    evidence: Evidence, settled_groups: Container[Group], *, is_all_explained: bool
) -> list[Cause]:
    """Return causes in operations and variables.

    Parameters
    ----------
    evidence
        What the reports hold.
    settled_groups
        Operations that one side has alone for a known reason.
    is_all_explained
        Whether machine, batch, precision or training changed: plans, mappings and costs follow.
    """
    causes = new_and_gone(evidence, settled_groups)
    known: dict[Group, Cause] = argument_causes(evidence)
    if is_all_explained:
        return [*causes, *known.values()]
    known |= plan_causes(evidence, known)
    causes += known.values()
    explained = set(known)
    if causes:
        # Neighbours of what changed read or write variables that changed with it.
        near = users_of_changed(evidence)
    else:
        moved = mapping_causes(evidence)
        causes += [cause for cause, _ in moved]
        near = frozenset().union(*(step_ids for _, step_ids in moved))
    explained |= {group for group in evidence.groups if _has_step(group, near)}
    costs = cost_causes(evidence, explained)
    settled = {("call", *group.calls) for group in explained}
    settled |= {("call", *group.calls) for group in evidence.groups if not group.is_on_both}
    sizes = size_causes(evidence, settled)
    # What is said of a variable is not said again of its call.
    return [*causes, *sizes, *(cost for cost in costs if cost.kind != "size" or not sizes)]


def _has_step(group: Group, step_ids: frozenset[int]) -> bool:
    """Return whether a step of a group is one of the baseline's steps given."""
    return bool(step_ids) and any(step_id in step_ids for step_id, _ in group.steps)
