"""Causes in how a model is trained: loss, optimiser, micro-batches, recomputation, schedule."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from tilescope.analyser.diff.causes.cause import Cause, sentence_of
from tilescope.analyser.summary.provenance import provenance

if TYPE_CHECKING:
    from tilescope.analyser.diff.causes.evidence import Evidence, Group

__all__ = ["training_causes"]


@dataclass(frozen=True)
class _Fact:
    """A fact of the training in a report's provenance.

    Attributes
    ----------
    label
        Begins the sentence.
    passes
        Passes whose operations it adds and removes.
    missing
        What holds where the report does not say.
    """

    label: str
    passes: frozenset[str] = frozenset()
    missing: str = "none"


_UPDATES = frozenset({"weight update"})
_AGAIN = frozenset({"recomputation"})
_OF_WEIGHTS = frozenset({"weight gradient", "weight update"})

_FACTS: Mapping[str, _Fact] = MappingProxyType(
    {
        "loss": _Fact("Loss", frozenset({"forward", "data gradient"})),
        "labels": _Fact("Name of the labels"),
        "optimizer": _Fact("Optimizer", _UPDATES),
        "optimizer_for": _Fact("Optimizer of some weights", _UPDATES),
        "micro_batches": _Fact("Micro-batches of a step", _OF_WEIGHTS),
        "recomputation": _Fact("Recomputation", _AGAIN),
        "recomputed_nodes": _Fact("Nodes computed again by name", _AGAIN),
        "kept_nodes": _Fact("Nodes kept by name", _AGAIN),
        "trained": _Fact("Trained weights", _OF_WEIGHTS, "all"),
        "frozen": _Fact("Frozen weights", _OF_WEIGHTS),
        "half_weights": _Fact("Weights in half only", missing="false"),
        "schedule": _Fact("Schedule of the rate"),
        "data_name": _Fact("File of the data", missing="another"),
    }
)


def training_causes(evidence: Evidence) -> tuple[list[Cause], frozenset[Group]]:
    """Return what changed in how a model is trained, and the operations that come or go with it.

    Of two reports of which one trains the model, the pass that the other lacks is the cause.
    """
    facts = [provenance(report) for report in evidence.sides]
    trains = ["optimizer" in side for side in facts]
    if not any(trains):
        return [], frozenset()
    if not all(trains):
        side = "candidate" if trains[1] else "baseline"
        explained = _alone(evidence, frozenset({*_OF_WEIGHTS, "data gradient", *_AGAIN}))
        text = f"Only the {side} trains the model"
        return [_cause("training", text, explained)], explained
    changed = {key: fact for key, fact in _FACTS.items() if facts[0].get(key) != facts[1].get(key)}
    causes: list[Cause] = []
    every: frozenset[Group] = frozenset()
    for key, fact in changed.items():
        before, after = (_plain(side.get(key), fact) for side in facts)
        explained = _alone(evidence, fact.passes) - every
        every |= explained
        causes.append(_cause(fact.label, f"{fact.label} changed: {before} → {after}", explained))
    return causes, every


def _plain(text: str | None, fact: _Fact) -> str:
    """Return the value of a fact for people."""
    if text is None:
        return fact.missing
    return ", ".join(json.loads(text)) if text.startswith("[") else text


def _alone(evidence: Evidence, passes: frozenset[str]) -> frozenset[Group]:
    """Return the operations of some passes that one side has alone."""
    trees = evidence.calls.baseline, evidence.calls.candidate
    return frozenset(
        group
        for group in evidence.groups
        if not group.is_on_both
        for tree, number in zip(trees, group.calls, strict=True)
        if number is not None and tree.contexts[number].training_pass in passes
    )


def _cause(subject: str, text: str, explained: frozenset[Group]) -> Cause:
    """Return a cause with what comes and goes with it."""
    cycles = sum(group.cycles for group in explained)
    n_bytes = sum(group.bytes for group in explained)
    n_new = sum(group.calls[0] is None for group in explained)
    counts = {"new": n_new, "gone": len(explained) - n_new}
    words = [f"{n:,} operation{'s' * (n != 1)} {word}" for word, n in counts.items() if n]
    return Cause(
        "training",
        subject,
        cycles,
        n_bytes,
        sentence_of(f"{text}, {' and '.join(words)}" if words else text, cycles, n_bytes),
    )
