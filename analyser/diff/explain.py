"""A difference in a few plain sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilescope.analyser.diff.causes.cause import short
from tilescope.analyser.quantities import (
    format_bytes,
    format_change,
    format_lives,
    format_percent,
    format_value,
    percent_of,
)
from tilescope.analyser.time.execution import PHASES
from tilescope.reports.schema.vocabulary import (
    MEMORY_CATEGORY,
    PHASE_LABELS,
    PURPOSES,
    TRAINING_PASSES,
)

if TYPE_CHECKING:
    from tilescope.analyser.diff.alignment.steps import StepChange
    from tilescope.analyser.diff.alignment.variables import VariableChange
    from tilescope.analyser.diff.compare import Difference
    from tilescope.analyser.diff.measures import MetricChange

__all__ = ["explain"]

#: Largest percentage that is said; larger ones have next to nothing as their base.
_MOST_PERCENT = 100_000
#: Data that belong to the runs of training steps alone.
_OF_TRAINING_STEPS = frozenset(
    {"training_step", "run", "run_trace", "trace.start_cycle", "trace.end_cycle"}
)
#: Most causes that are said; the others are counted.
_MOST_CAUSES = 6
#: Most nodes in another stage that are named.
_MOST_MOVED = 6


def explain(difference: Difference, *, has_states: bool = True) -> tuple[str, ...]:
    """Return the difference in sentences: what caused most first, then what changed.

    Parameters
    ----------
    difference
        Of two reports.
    has_states
        Whether to begin with the states of reports that are not complete.
    """
    states = _states(difference) if has_states else []
    if difference.is_identical:
        return (*states, "The two reports hold identical data.")
    causes = [cause.sentence for cause in difference.causes[:_MOST_CAUSES]]
    n_more = len(difference.causes) - _MOST_CAUSES
    if n_more > 0:
        causes.append(f"{_count(n_more, 'smaller cause')} more.")
    effects = [
        *_cycles(difference),
        *_passes(difference),
        *_stages(difference),
        *_steps(difference),
        *_memory(difference),
        *_purposes(difference),
        *_variables(difference),
    ]
    if not effects and all(metric.verdict in {"same", "absent"} for metric in difference.metrics):
        agreed = "All metrics, variables and steps agree"
        names = ", ".join(difference.unequal)
        others = _training_steps(difference) or f"only details differ: {names}"
        effects = [f"{agreed}." if causes else f"{agreed}; {others}."]
    notes = []
    if difference.is_data_dependent:
        notes.append("Some cycles are data-dependent and may vary between identical runs.")
    return (*states, *causes, *effects, *notes)


def _training_steps(difference: Difference) -> str:
    """Return which training steps two reports of the same steps' costs have; empty if the same."""
    ranges = [side.training_steps for side in (difference.baseline, difference.candidate)]
    if None in ranges or not _OF_TRAINING_STEPS.issuperset(difference.unequal):
        return ""
    before, after = (format_lives(of_side or []) for of_side in ranges)
    if before == after:
        return "only the losses of their training steps differ"
    return f"they recorded different steps of a training, {before} and {after}"


def _states(difference: Difference) -> list[str]:
    """Return sentences about reports that are not complete, or not of the newest run."""
    sentences = []
    for name, side in (("Baseline", difference.baseline), ("Candidate", difference.candidate)):
        newer = side.newer_run
        texts = (side.state.sentence, "" if newer is None else newer.sentence)
        sentences += [f"{name}: {text}" for text in texts if text]
    return sentences


def _cycles(difference: Difference) -> list[str]:
    """Return a sentence about time and where it changed."""
    total = difference.metric("cycles.total")
    if total.delta == 0 and difference.metric("time.total").delta:
        return [_time(difference)]
    if not total.delta:
        if total.verdict in {"new", "missing"}:
            side = "baseline" if total.verdict == "new" else "candidate"
            return [f"The {side} has no run; cycles are not compared."]
        return []
    text = f"Cycles change by {_amount(total)}"
    parts = []
    for phase in PHASES:
        change = difference.metric(f"cycles.{phase}")
        if change.delta:
            parts.append((abs(change.delta), f"{_word(PHASE_LABELS[phase])} {_amount(change)}"))
    parts.sort(key=lambda part: -part[0])
    if parts:
        text += ": " + ", ".join(part for _, part in parts[:4])
    clock = next((change for change in difference.context if change.key == "clock_hz"), None)
    if clock is None:
        return [f"{text}."]
    return [f"{text}.", _time(difference)]


def _time(difference: Difference) -> str:
    """Return a sentence about time if the clock rates differ."""
    change = difference.metric("time.total")
    return (
        f"At the machines' clock rates this is {format_value(change.baseline, 'seconds')} →"
        f" {format_value(change.candidate, 'seconds')}"
        f" ({format_percent(change.percent_of_baseline, is_signed=True)})."
    )


def _passes(difference: Difference) -> list[str]:
    """Return a sentence about the passes of a training step, the largest change first."""
    changes = [change for change in difference.passes if change.delta_cycles]
    changes.sort(key=lambda change: -abs(change.delta_cycles))
    parts = []
    for change in changes:
        percent = change.percent_of_baseline
        share = "" if percent is None else f" ({format_percent(percent, is_signed=True)})"
        count = f"{change.n_changed:,} " if change.n_changed else ""
        noun = TRAINING_PASSES[change.name]
        words = noun.singular if change.n_changed == 1 else noun.plural
        subject = f"{count}{words}"
        parts.append(f"{subject} {format_change(change.delta_cycles, 'cycles')}{share}")
    return [f"By pass: {', '.join(parts)}."] if parts else []


def _stages(difference: Difference) -> list[str]:
    """Return sentences about nodes in other stages of a pipeline, and stages that changed."""
    sentences = []
    moved = difference.moved
    if moved:
        parts = [
            f"{short(node.name)} ({node.baseline_stage} → {node.candidate_stage})"
            for node in moved[:_MOST_MOVED]
        ]
        if len(moved) > _MOST_MOVED:
            parts.append(f"{len(moved) - _MOST_MOVED:,} more")
        subject = _count(len(moved), "node")
        sentences.append(f"In another stage: {subject}: {', '.join(parts)}.")
    changes = [change for change in difference.stages if round(change.delta_cycles)]
    changes.sort(key=lambda change: -abs(change.delta_cycles))
    parts = []
    for change in changes:
        percent = percent_of(change.baseline_cycles, change.delta_cycles)
        share = "" if percent is None else f" ({format_percent(percent, is_signed=True)})"
        parts.append(f"{change.name} {format_change(round(change.delta_cycles), 'cycles')}{share}")
    if parts:
        sentences.append(f"By stage, for a micro-batch: {', '.join(parts)}.")
    return sentences


def _purposes(difference: Difference) -> list[str]:
    """Return a sentence about memory by purpose in training, the largest change first."""
    changes = [
        (item.label, difference.metric(f"memory.purpose.{item.key}")) for item in PURPOSES.values()
    ]
    changes = [(label, change) for label, change in changes if change.delta]
    stored = difference.metric("memory.stored_activations")
    if not changes or (stored.baseline is None and stored.candidate is None):
        return []
    changes.sort(key=lambda change: -abs(change[1].delta or 0))
    parts = [f"{_word(label)} {_amount(change)}" for label, change in changes]
    words = f"By purpose, where most is live: {', '.join(parts)}"
    if stored.delta:
        words += f"; activations when the backward pass begins {_amount(stored)}"
    return [f"{words}."]


def _steps(difference: Difference) -> list[str]:
    """Return sentences about the steps with the largest changes."""
    steps, sentences = difference.steps, []
    counted = [
        f"{len(changes):,} {word}"
        for changes, word in (
            (steps.added, "added"),
            (steps.removed, "removed"),
            (steps.changed, "changed"),
        )
        if changes
    ]
    if counted:
        sentences.append(f"Steps: {', '.join(counted)}; {steps.n_same:,} unchanged.")
    every = sorted(
        (*steps.added, *steps.removed, *steps.changed), key=lambda change: -abs(change.delta_cycles)
    )
    largest = [_step(change) for change in every[:3] if change.delta_cycles]
    if largest:
        sentences.append(f"Largest changes: {', '.join(largest)}.")
    return sentences


def _step(change: StepChange) -> str:
    """Return a step with its change."""
    label = f"{change.kind} ({short(change.name)})" if change.name else change.kind
    if change.baseline_cycles is None:
        return f"{label} is new ({change.delta_cycles:+,} cycles)"
    if change.candidate_cycles is None:
        return f"{label} is gone ({change.delta_cycles:+,} cycles)"
    return f"{label} {change.delta_cycles:+,} cycles"


def _memory(difference: Difference) -> list[str]:
    """Return sentences about memory."""
    sentences = []
    total, largest = difference.metric("memory.total"), difference.metric("memory.max_tile")
    if total.verdict in {"new", "missing"}:
        side = "baseline" if total.verdict == "new" else "candidate"
        return [f"The {side} holds no memory; memory is not compared."]
    if total.delta or largest.delta:
        sentences.append(
            f"Memory changes by {_amount(total)} over all tiles and by {_amount(largest)} on the"
            f" fullest tile, which holds {_bytes(largest.candidate)}."
        )
    highest = difference.metric("memory.max_address")
    if highest.delta:
        sentences.append(
            f"The highest address changes by {_amount(highest)} to {_bytes(highest.candidate)}."
        )
    over = difference.metric("memory.tiles_over_capacity")
    if over.delta and over.candidate is not None:
        sentences.append(
            f"{_count(int(over.candidate), 'tile')} of the candidate exceed their memory,"
            f" {over.baseline} of the baseline."
        )
    categories = [
        change
        for change in difference.metrics
        if change.name.startswith("memory.category.") and change.delta
    ]
    categories.sort(key=lambda change: -abs(change.delta or 0))
    if categories:
        listed = [f"{_category(category.name)} {_amount(category)}" for category in categories[:4]]
        sentences.append(f"By category: {', '.join(listed)}.")
    return sentences


def _category(metric: str) -> str:
    """Return the category of a metric in words: ``memory.category.vertexCode``, vertex code."""
    return _word(MEMORY_CATEGORY[metric.rpartition(".")[2]].label)


def _word(label: str) -> str:
    """Return a label as it stands inside a sentence."""
    return label[:1].lower() + label[1:]


def _variables(difference: Difference) -> list[str]:
    """Return a sentence about variables."""
    variables = difference.variables
    parts = []
    for changes, word in (
        (variables.added, "added"),
        (variables.removed, "removed"),
        (variables.changed, "changed"),
    ):
        if changes:
            parts.append(f"{len(changes):,} {word} ({_largest(changes)})")
    return [f"Variables: {'; '.join(parts)}."] if parts else []


def _largest(changes: Sequence[VariableChange]) -> str:
    """Return the largest changes by name."""
    listed = [
        f"{short(change.name)} {format_change(change.delta_bytes, 'bytes')}"
        for change in changes[:2]
    ]
    return ", ".join(listed) + (", …" if len(changes) > 2 else "")


def _amount(change: MetricChange) -> str:
    """Return a change with its percentage of the baseline."""
    text = format_change(change.delta, change.unit)
    percent = change.percent_of_baseline
    if percent is None or not change.delta or abs(percent) > _MOST_PERCENT:
        return text
    return f"{text} ({format_percent(percent, is_signed=True)})"


def _bytes(value: float | None) -> str:
    """Return bytes for people."""
    return format_bytes(None if value is None else int(value))


def _count(number: int, word: str) -> str:
    """Return a number with its word in singular or plural."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
