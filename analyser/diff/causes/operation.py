"""Causes in operations: added, removed, other arguments, another plan, or simply dearer."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from tilescope.analyser.cache import cached
from tilescope.analyser.diff.causes.cause import (
    OTHERS,
    Cause,
    CauseKind,
    sentence_of,
    short,
)
from tilescope.analyser.diff.causes.circumstances import typed_otherwise
from tilescope.analyser.program.compute_sets import compute_set_vertices
from tilescope.analyser.program.plans import Plan, plans
from tilescope.analyser.quantities import format_change
from tilescope.analyser.time.execution import costs, execution, steps
from tilescope.reports import schema
from tilescope.reports.schema.vocabulary import BOUNDS

if TYPE_CHECKING:
    from tilescope.analyser.diff.causes.evidence import Evidence, Group
    from tilescope.analyser.program.call_tree import Call
    from tilescope.reports import Report

__all__ = ["argument_causes", "cost_causes", "new_and_gone", "plan_causes"]

#: Arguments in words.
_WORDS = {
    "kernel_shape": "kernel",
    "kernel": "kernel",
    "strides": "stride",
    "dilations": "dilation",
    "pads": "padding",
    "group": "groups",
    "auto_pad": "automatic padding",
    "partialsType": "partials type",
}
#: Arguments of library calls that hold shapes of values, whose change comes from elsewhere.
_OPERANDS = frozenset({"input", "a", "b", "shape", "shapes", "output"})
#: Most items of a sentence.
_MOST_WORDS = 5
_LONGEST_VALUE = 60
#: Most operations whose cost has a cause of its own.
_MOST_DETAILED = 20


def new_and_gone(evidence: Evidence, explained: Container[Group] = ()) -> list[Cause]:
    """Return the outermost calls that one side has alone, without those that others explain."""
    causes = []
    for group in evidence.groups:
        before, after = group.calls
        if group.is_on_both or group in explained:
            continue
        kind: CauseKind = "added" if before is None else "removed"
        tree = evidence.calls.candidate if before is None else evidence.calls.baseline
        context = tree.contexts[before if after is None else after]  # type: ignore[index]
        text = f"{short(group.name)} ({context.operation}) was {kind}"
        sentence = f"{text}: {group.impact}." if group.impact else f"{text}."
        causes.append(Cause(kind, group.name, group.cycles, group.bytes, sentence))
    return causes


def argument_causes(evidence: Evidence) -> dict[Group, Cause]:
    """Return the operations whose arguments or weights' shapes changed."""
    causes = {}
    types = typed_otherwise(evidence)
    for group in evidence.groups:
        before, after = group.calls
        if before is None or after is None:
            continue
        trees = evidence.calls.baseline, evidence.calls.candidate
        if trees[0].contexts[before].detail == trees[1].contexts[after].detail:
            continue
        calls = trees[0].call(before), trees[1].call(after)
        words = _argument_words(*calls, types)
        if _is_reordered(evidence, *calls):
            words.append("operands in another order")
        if words:
            text = f"{short(group.name)} ({calls[0].operation[1]}) changed: {_listed(words)}"
            sentence = f"{text}; {group.impact}." if group.impact else f"{text}."
            causes[group] = Cause("arguments", group.name, group.cycles, group.bytes, sentence)
    return causes


def _is_reordered(evidence: Evidence, before: Call, after: Call) -> bool:
    """Return whether a node reads the same values in another order."""
    sides = []
    for side, call in enumerate((before, after)):
        producers, numbers = evidence.producers[side], evidence.calls.numbers[side]
        names = [operand[0] for operand in call.inputs if not operand[-1]]
        sides.append([str(numbers.get(producers[n], n)) if n in producers else n for n in names])
    return sides[0] != sides[1] and sorted(sides[0]) == sorted(sides[1])


def _argument_words(before: Call, after: Call, types: tuple[str, str] | None) -> list[str]:
    """Return what changed in a call by itself: arguments, and shapes of constant operands.

    ``types`` is a change of type that the precision of the whole program explains.
    """
    words = []
    of_both = before.arguments, after.arguments
    for name in dict.fromkeys(chain(*of_both)):
        values = [arguments.get(name) for arguments in of_both]
        if values[0] == values[1]:
            continue
        if before.operation[0] != "model" and name in _OPERANDS and before.operation[1]:
            words.append(f"{name} {_value(values[0])} → {_value(values[1])}")
        elif name == "weights" and isinstance(values[0], list) and isinstance(values[1], list):
            words += _weight_words(values[0], values[1])
        else:
            words.append(f"{_WORDS.get(name, name)} {_value(values[0])} → {_value(values[1])}")
    if not any("kernel" in word for word in words):
        for first, second in zip(before.inputs, after.inputs, strict=False):
            is_typed = first[1] != second[1] and (first[1], second[1]) != types
            if first[-1] and second[-1] and (is_typed or first[2] != second[2]):
                sides = [
                    f"{operand[1]} {_value(operand[2])}" if is_typed else _value(operand[2])
                    for operand in (first, second)
                ]
                words.append(f"weights {sides[0]} → {sides[1]}")
    return words


def _weight_words(before: Sequence[int], after: Sequence[int]) -> list[str]:
    """Return what changed in the weights of a convolution: channels, then kernel."""
    words = []
    if before[:2] != after[:2]:
        words.append(f"channels {_value(before[:2])} → {_value(after[:2])}")
    if before[2:] != after[2:]:
        words.append(f"kernel {_value(before[2:])} → {_value(after[2:])}")
    return words


def _value(value: Any) -> str:
    """Return an argument; a list of numbers as a shape."""
    if isinstance(value, list | tuple) and value and all(isinstance(n, int) for n in value):
        return " × ".join(f"{n:,}" for n in value)
    text = "none" if value is None else str(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def plan_causes(evidence: Evidence, known: Mapping[Group, Cause]) -> dict[Group, Cause]:
    """Return the operations with another plan, except those whose cause is known."""
    plan_of = [{plan.debug_context_id: plan for plan in plans(report)} for report in evidence.sides]
    roots = evidence.calls.baseline.root_of
    group_of = {group.calls[0]: group for group in evidence.groups if None not in group.calls}
    changed: dict[Group, list[str]] = {}
    for context, before in plan_of[0].items():
        after = plan_of[1].get(evidence.calls.pairs.get(context or 0, -1))
        group = group_of.get(roots.get(context or 0))
        if context is None or after is None or group is None or group in known:
            continue
        words = _plan_words(before, after)
        if words:
            changed.setdefault(group, []).extend(words)
    causes = {}
    for group, words in changed.items():
        text = f"Plan of {short(group.name)} changed: {_listed(words)}"
        sentence = f"{text}; {group.impact}." if group.impact else f"{text}."
        causes[group] = Cause("plan", group.name, group.cycles, group.bytes, sentence)
    return causes


def _plan_words(before: Plan, after: Plan) -> list[str]:
    """Return what changed in a plan: memory share, vertices, split, what limits it."""
    memory = before.available_memory_proportion, after.available_memory_proportion
    is_same = (before.family, before.grouping, before.split) == (
        after.family,
        after.grouping,
        after.split,
    )
    if is_same and before.swaps_operands == after.swaps_operands:
        return []
    words = []
    if memory[0] != memory[1]:
        words.append(f"availableMemoryProportion {memory[0]:g} → {memory[1]:g}")
    if before.family != after.family:
        words.append(f"vertices {before.family} → {after.family}")
    for name in dict.fromkeys((*before.split, *after.split)):
        counts = before.split.get(name, 1), after.split.get(name, 1)
        if counts[0] != counts[1]:
            words.append(f"{name} split {counts[0]:,} → {counts[1]:,}")
    if before.grouping != after.grouping:
        words.append(f"grouping {_parts(before.grouping)} → {_parts(after.grouping)}")
    if before.bound != after.bound:
        words.append(f"bound {_bound(before)} → {_bound(after)}")
    return words


def _parts(grouping: Mapping[str, int]) -> str:
    """Return a grouping in short."""
    return " × ".join(str(number) for number in grouping.values())


def _bound(plan: Plan) -> str:
    """Return the name of a bound as a word."""
    return plan.bound.replace("_", " ") if plan.bound in BOUNDS else "unknown"


def cost_causes(evidence: Evidence, known: Container[Group]) -> list[Cause]:
    """Return what takes more or less time, or holds more or less, without a known cause.

    The largest have a cause of their own; the others share one.
    """
    results = [
        group
        for group in evidence.groups
        if group not in known
        and group.is_on_both
        and (group.own_cycles or group.cycles or group.bytes)
    ]
    results.sort(key=lambda group: (-abs(group.cycles), -abs(group.own_cycles), -abs(group.bytes)))
    causes = [_cost(evidence, group) for group in results[:_MOST_DETAILED]]
    further = results[_MOST_DETAILED:]
    if further:
        cycles, n_bytes = (
            sum(getattr(group, measure) for group in further) for measure in ("cycles", "bytes")
        )
        text = sentence_of(f"{len(further):,} other operations changed", cycles, n_bytes)
        causes.append(Cause("cost", OTHERS[0], cycles, n_bytes, text))
    return causes


def _cost(evidence: Evidence, group: Group) -> Cause:
    """Return the cause of a group whose cost changed."""
    name, own_cycles = short(group.name), group.own_cycles
    stream = _stream_words(evidence, group)
    if stream:
        kind: CauseKind = "added" if own_cycles > 0 else "removed"
        text = f"{stream} {name} was {kind}: {group.impact}."
        return Cause(kind, group.name, group.cycles, group.bytes, text)
    if not own_cycles and not group.cycles:
        text = sentence_of(f"Variables of {name} changed", 0, group.bytes)
        return Cause("size", group.name, 0, group.bytes, text)
    before, after = (int(side[group.ipu_id]) for side in (group.before, group.after))
    word = "more" if own_cycles > 0 else "less"
    is_per_run = evidence.steps.has_runs and evidence.n_runs != (1, 1)
    basis = " per run" if is_per_run else ""
    amount = f"{abs(own_cycles):,} cycle{'s' * (abs(own_cycles) != 1)} {word}{basis}"
    text = f"{name} takes {amount} ({before:,} → {after:,})"
    if len(group.before) > 1:
        text = f"IPU {group.ipu_id} takes {amount} in {name} ({before:,} → {after:,})"
    if not own_cycles:
        text = f"Steps of {name} take as long as before in all, at other times"
    details = _step_words(evidence, group)
    if details:
        text += f": {_listed(details)}"
    effect = f"; {group.effect}" if group.effect else ""
    waiting = _waiting(evidence, group) if group.cycles > 0 else ""
    return Cause("cost", group.name, group.cycles, group.bytes, f"{text}{effect}{waiting}.")


def _stream_words(evidence: Evidence, group: Group) -> str:
    """Return the word for a stream copy that one side has alone; empty for anything else."""
    if (
        group.steps
        or group.calls != (None, None)
        or bool(group.before.any()) == bool(group.after.any())
    ):
        return ""
    report = evidence.sides[int(not group.before.any())]
    every = steps(report)
    ids = [i for i, name in enumerate(every.name) if (name or every.kind[i]) == group.name]
    if not ids or not all(every.kind[i].startswith("StreamCopy") for i in ids):
        return ""
    sent = costs(report).per_step("host_out_bytes", len(every))
    return "Output" if any(sent[i] for i in ids) else "Input"


def _waiting(evidence: Evidence, group: Group) -> str:
    """Return which other IPUs wait longer."""
    before, after = evidence.waiting_cycles
    n_ipus = min(len(before), len(after))
    longer = [
        ipu_id
        for ipu_id in range(n_ipus)
        if ipu_id != group.ipu_id and after[ipu_id] > before[ipu_id]
    ]
    if not longer:
        return ""
    if len(longer) > 1:
        return f"; {len(longer)} IPUs wait for it"
    return f"; IPU {longer[0]} waits for it"


@dataclass(frozen=True)
class _StepCost:
    """A step of a group on both sides."""

    one: int
    other: int
    delta: int


def _step_words(evidence: Evidence, group: Group) -> list[str]:
    """Return what changed in the step of a group whose time changed most."""
    own_cycles = evidence.own_cycles
    changes = [
        _StepCost(
            before,
            after,
            int(own_cycles[1][group.ipu_id, after] - own_cycles[0][group.ipu_id, before]),
        )
        for before, after in group.steps
        if group.ipu_id < min(len(own_cycles[0]), len(own_cycles[1]))
    ]
    if not changes:
        return []
    largest = max(changes, key=lambda step: abs(step.delta))
    if not largest.delta:
        return []
    times = [
        int(execution(report).executions[:, step].max(initial=0))
        for report, step in zip(evidence.sides, (largest.one, largest.other), strict=True)
    ]
    if times[0] != times[1] and evidence.n_runs[0] == evidence.n_runs[1]:
        return [f"it runs {times[0]:,} → {times[1]:,} times"]
    kind = steps(evidence.baseline).kind[largest.one]
    if kind != "OnTileExecute":
        return [f"{kind} {format_change(largest.delta, 'cycles')}"]
    return _vertex_words(evidence, largest) or [f"compute {format_change(largest.delta, 'cycles')}"]


def _vertex_words(evidence: Evidence, step: _StepCost) -> list[str]:
    """Return what changed in the vertices of a compute step."""
    sides = []
    for report, step_id in zip(evidence.sides, (step.one, step.other), strict=True):
        _, vertices = compute_set_vertices(report, _compute_sets(report).get(step_id))
        sides.append(vertices)
    if not all(sides):
        return []
    names = [", ".join(short(item.vertex_type) for item in side[:2]) for side in sides]
    words = [] if names[0] == names[1] else [f"codelet {names[0]} → {names[1]}"]
    measures = (
        ("vertices", [sum(item.n_vertices for item in side) for side in sides]),
        ("tiles", [max(item.n_tiles for item in side) for side in sides]),
        ("cycles of the slowest vertex", [max(item.max_cycles for item in side) for side in sides]),
    )
    words += [
        f"{label} {before:,} → {after:,}" for label, (before, after) in measures if before != after
    ]
    return words


@cached
def _compute_sets(report: Report) -> dict[int, int]:
    """Return the compute set of every compute step."""
    rows = report.rows(schema.step, "step_id", "compute_set_id")
    return {step_id: number for step_id, number in rows if number is not None}


def _listed(words: Sequence[str]) -> str:
    """Return at most five items and the number of the others."""
    listed = ", ".join(words[:_MOST_WORDS])
    n_more = len(words) - _MOST_WORDS
    return listed if n_more <= 0 else f"{listed} and {n_more} more"
