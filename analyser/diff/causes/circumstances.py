"""Causes around the program: machine, versions, options, batch, runs, weights and names."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tilescope.analyser.diff.causes.cause import Cause, CauseKind, short
from tilescope.analyser.quantities import format_change
from tilescope.analyser.summary.provenance import model_name

if TYPE_CHECKING:
    from tilescope.analyser.diff.causes.evidence import Evidence, Group
    from tilescope.analyser.diff.context import ContextChange
    from tilescope.analyser.program.call_tree import Call

__all__ = [
    "batch_causes",
    "data_causes",
    "identity_causes",
    "input_causes",
    "machine_causes",
    "model_causes",
    "opset_causes",
    "option_causes",
    "precision_causes",
    "run_causes",
    "typed_otherwise",
]

_MACHINE_WORDS = {
    "name": "machine",
    "n_ipus": "number of IPUs",
    "n_replicas": "number of replicas",
    "tiles_per_ipu": "number of tiles per IPU",
}
#: Options and the library calls whose plans they change.
_CALLS_OF_OPTIONS = {"convolutionOptions.": "poplin.convolution", "matmulOptions.": "poplin.matMul"}
#: Share of the shapes that a new batch must explain.
_MOST_SHAPES = 0.8
#: Share of operations of one kind from which on two reports are of one model.
_MOST_ALIKE = 0.6
#: Share of the values of a type that a new precision must explain.
_MOST_TYPES = 0.8


def _total(evidence: Evidence) -> tuple[int, int]:
    """Return the change of cycles and memory as a whole."""
    deltas = [evidence.metric(name).delta for name in ("cycles.total", "memory.total")]
    return int(deltas[0] or 0), int(deltas[1] or 0)


def machine_causes(evidence: Evidence) -> list[Cause]:
    """Return what changed in the machine and in versions."""
    causes = []
    cycles, n_bytes = _total(evidence)
    for change in evidence.context:
        if change.section == "machine" and not change.follows:
            word = _MACHINE_WORDS.get(change.key, change.key)
            before, after = (_fact(value) for value in (change.baseline, change.candidate))
            text = f"{word[0].upper()}{word[1:]} changed: {before} → {after}."
            causes.append(Cause("machine", word, cycles, n_bytes, text))
    versions = [change for change in evidence.context if change.key.endswith("_version")]
    if versions:
        listed = _listing(
            [f"{version.key} {version.baseline} → {version.candidate}" for version in versions]
        )
        causes.append(Cause("version", "versions", cycles, n_bytes, f"Versions changed: {listed}."))
    return causes


def _fact(value: object) -> str:
    """Return a value of the machine; counts have thousands separators."""
    return f"{value:,}" if isinstance(value, int) else str(value)


def _provenance(evidence: Evidence, key: str) -> ContextChange | None:
    """Return how a fact of the provenance changed; None if it did not."""
    changes = (
        change for change in evidence.context if (change.section, change.key) == ("provenance", key)
    )
    return next(changes, None)


def model_causes(evidence: Evidence) -> list[Cause]:
    """Return that the reports are of different models: other files, operations and weights."""
    trees = evidence.calls.baseline, evidence.calls.candidate
    kinds = [
        Counter(tree.contexts[number].operation for number in tree.children(None)) for tree in trees
    ]
    if _provenance(evidence, "model_sha256") is None or not all(kinds):
        return []
    n_alike = sum((kinds[0] & kinds[1]).values())
    weights = [
        {context.weights_digest for context in tree.contexts.values()} - {None} for tree in trees
    ]
    if n_alike > _MOST_ALIKE * max(kind.total() for kind in kinds) or weights[0] & weights[1]:
        return []
    names = [model_name(report) or "unnamed" for report in evidence.sides]
    named = f"{names[0]} and {names[1]}" if names[0] != names[1] else f"both called {names[0]}"
    counts = f"{n_alike:,} of {kinds[0].total():,} and {kinds[1].total():,} operations"
    text = f"The reports are of different models, {named}: {counts} are of one kind."
    return [Cause("other model", "model", *_total(evidence), text)]


def data_causes(evidence: Evidence) -> list[Cause]:
    """Return that data on the device replace those of the host, or other ones."""
    change = _provenance(evidence, "synthetic_data")
    if change is None:
        return []
    before, after = (value or "from the host" for value in (change.baseline, change.candidate))
    text = f"Data changed: {before} → {after}"
    streamed = [evidence.metric("cycles.stream_copy"), evidence.metric("cycles.total")]
    if all(metric.delta for metric in streamed):
        text += f"; stream copies take {format_change(streamed[0].delta, 'cycles')}"
    return [Cause("data", "data", *_total(evidence), f"{text}.")]


def opset_causes(evidence: Evidence) -> list[Cause]:
    """Return another version of ONNX's operators."""
    change = _provenance(evidence, "opset")
    if change is None:
        return []
    text = f"Opset changed: {change.baseline} → {change.candidate}."
    return [Cause("opset", "opset", *_total(evidence), text)]


def input_causes(evidence: Evidence) -> list[Cause]:
    """Return another shape of an input of the model, that of its first reader."""
    sizes: list[dict[str, list[int]]] = []
    for tree in (evidence.calls.baseline, evidence.calls.candidate):
        calls = [tree.call(number) for number in tree.children(None)]
        produced = {operand[0] for call in calls for operand in call.outputs}
        sizes.append(
            {
                operand[0]: list(operand[2])
                for call in calls
                for operand in call.inputs
                if not operand[-1] and operand[0] not in produced
            }
        )
    causes = []
    for name, shape in sizes[0].items():
        after = sizes[1].get(name)
        if after is not None and after != shape:
            words = " → ".join(" × ".join(map(str, before)) for before in (shape, after))
            text = f"Shape of input {short(name)} changed: {words}."
            causes.append(Cause("input", name, *_total(evidence), text))
    return causes


def batch_causes(evidence: Evidence) -> list[Cause]:
    """Return a new size of the batch: the first dimension of almost all values is scaled by it."""
    trees = evidence.calls.baseline, evidence.calls.candidate
    if all(
        trees[0].contexts[first].detail == trees[1].contexts[second].detail
        for first, second in evidence.calls.roots
    ):
        return []
    scaled: dict[tuple[int, int], int] = {}
    n_values = 0
    for first, second in evidence.calls.roots:
        calls = trees[0].call(first), trees[1].call(second)
        for before, after in zip(*(_activations(call) for call in calls), strict=False):
            n_values += 1
            if before and after and before[0] != after[0] and before[1:] == after[1:]:
                key = (before[0], after[0])
                scaled[key] = scaled.get(key, 0) + 1
    if not scaled:
        return []
    (before_size, after_size), count = max(scaled.items(), key=lambda item: (item[1], item[0]))
    if count < _MOST_SHAPES * n_values:
        return []
    text = f"Batch size changed: {before_size:,} → {after_size:,}."
    return [Cause("batch", "batch size", *_total(evidence), text)]


def batch_parts_causes(evidence: Evidence) -> tuple[list[Cause], frozenset[Group]]:
    """Return another number of parts of the batch, and the operations that run once more for it.

    They have the names of operations that are on both sides.
    """
    change = _provenance(evidence, "batch_parts")
    if change is None:
        return [], frozenset()
    on_both = {group.name for group in evidence.groups if group.is_on_both}
    repeated = (g for g in evidence.groups if not g.is_on_both and g.name in on_both)
    before, after = change.baseline or "1", change.candidate or "1"
    text = f"Parts of the batch changed: {before} → {after}."
    cause = Cause("batch", "parts of the batch", *_total(evidence), text)
    return [cause], frozenset(repeated)


def precision_causes(evidence: Evidence) -> list[Cause]:
    """Return a new type of almost all values of another type, such as float16 for float32."""
    counts = typed_otherwise(evidence)
    if counts is None:
        return []
    text = f"Precision changed: {counts[0]} → {counts[1]}."
    return [Cause("precision", "precision", *_total(evidence), text)]


def typed_otherwise(evidence: Evidence) -> tuple[str, str] | None:
    """Return the type that almost all values of another type have in the candidate, and it."""
    trees = evidence.calls.baseline, evidence.calls.candidate
    counted: dict[tuple[str, str], int] = {}
    for first, after in evidence.calls.roots:
        calls = trees[0].call(first), trees[1].call(after)
        sides = [[operand[1] for operand in (*call.inputs, *call.outputs)] for call in calls]
        for pair in zip(*sides, strict=False):
            counted[pair] = counted.get(pair, 0) + 1
    changed = {pair: n for pair, n in counted.items() if pair[0] != pair[1]}
    if not changed:
        return None
    pair = max(changed, key=lambda types: (changed[types], types))
    n_before = sum(n for (before, _), n in counted.items() if before == pair[0])
    return pair if changed[pair] >= _MOST_TYPES * n_before else None


def _activations(call: Call) -> list[list[Any]]:
    """Return the shapes of a node's inputs and outputs that are not constant."""
    operands = [operand for operand in call.inputs if not operand[-1]]
    return [list(operand[2]) for operand in (*operands, *call.outputs) if operand[2]]


def option_causes(evidence: Evidence) -> list[Cause]:
    """Return changed options: those with an effect, then those without."""
    changed = [change for change in evidence.context if change.section == "option"]
    if not changed:
        return []
    moved = any(metric.delta for metric in evidence.metrics)
    cycles = n_bytes = 0
    if moved:
        cycles, n_bytes = _planned(evidence, [change.key for change in changed])
    listed = _listing([f"{item.key} {item.baseline} → {item.candidate}" for item in changed])
    tail = "" if moved else ", without effect on cycles and memory"
    return [Cause("option", changed[0].key, cycles, n_bytes, f"Options changed: {listed}{tail}.")]


def _planned(evidence: Evidence, keys: list[str]) -> tuple[int, int]:
    """Return the impact of options: of the calls that they plan, or of everything."""
    operations_ = {_CALLS_OF_OPTIONS.get(f"{key.partition('.')[0]}.", "") for key in keys}
    if "" in operations_:
        return _total(evidence)
    tree, cycles, n_bytes = evidence.calls.baseline, 0, 0
    for group in evidence.groups:
        call = group.calls[0]
        if call is None or group.calls[1] is None:
            continue
        inside = (call, *tree.children(call))
        if operations_ & {tree.contexts[number].operation for number in inside}:
            cycles, n_bytes = cycles + group.cycles, n_bytes + group.bytes
    return cycles, n_bytes


def run_causes(evidence: Evidence) -> list[Cause]:
    """Return that the reports hold different numbers of runs."""
    before, after = evidence.n_runs
    if before == after:
        return []
    text = f"The baseline recorded {before} run{'s' * (before != 1)}, the candidate {after}"
    if not before or not after:
        return [Cause("runs", "runs", 0, 0, f"{text}; cycles are not compared.")]
    return [Cause("runs", "runs", 0, 0, f"{text}; figures are per run.")]


def identity_causes(evidence: Evidence, *, is_alone: bool) -> list[Cause]:
    """Return that weights, names or the file of the model changed.

    Parameters
    ----------
    evidence
        What the reports hold.
    is_alone
        Whether nothing else changed.
    """
    changed = {change.key for change in evidence.context if change.section == "provenance"}
    calls = evidence.calls
    renamed = [
        before
        for before, after in calls.roots
        if calls.baseline.contexts[before].name != calls.candidate.contexts[after].name
    ]
    weighted = [
        before
        for before, after in calls.roots
        if calls.baseline.contexts[before].weights_digest
        != calls.candidate.contexts[after].weights_digest
    ]
    causes: list[Cause] = []

    def add(kind: CauseKind, subject: str, sentence: str) -> None:
        causes.append(Cause(kind, subject, 0, 0, sentence))

    # Digests of another type say nothing of the values.
    # The digest of all weights follows their order; those of aligned operations say whose changed.
    has_weights = "weights_digest" in changed and typed_otherwise(evidence) is None
    has_weights &= bool(weighted) or not calls.roots
    if has_weights and is_alone and not renamed:
        add(
            "weights", "weights", "Only the weights changed; the program and its cost are the same."
        )
    elif has_weights and weighted:
        add("weights", "weights", f"Weights {_of(weighted, evidence)} changed.")
    elif has_weights:
        add("weights", "weights", "Weights changed.")
    if renamed and is_alone:
        nodes = "All nodes" if len(renamed) == len(calls.roots) else _count(len(renamed), "node")
        verb = "was" if len(renamed) == 1 else "were"
        rest = "" if has_weights else "; nothing else changed"
        add("names", "names", f"{nodes} {verb} renamed{rest}.")
    seed = _provenance(evidence, "seed")
    if seed is not None:
        text = f"Seed of the inputs changed: {seed.baseline} → {seed.candidate}"
        add(
            "seed",
            "seed",
            f"{text}; nothing else changed." if is_alone and not causes else f"{text}.",
        )
    if (
        not causes
        and is_alone
        and "opset" not in changed
        and {"weights_digest", "graph_digest"} & changed
    ):
        add(
            "order",
            "order of nodes",
            "Order of nodes or initializers changed; operations, weights and cost are the same.",
        )
    elif not causes and "graph_digest" not in changed and "model_sha256" in changed:
        if "opset" not in changed:
            add("model", "model file", "Model file changed.")
    elif not causes and (name := _provenance(evidence, "model_name")) is not None:
        text = f"Model file was renamed: {name.baseline} → {name.candidate}; nothing else changed."
        add("names", "model file", text if is_alone else text.replace("; nothing else changed", ""))
    return causes


def _of(weighted: list[int], evidence: Evidence) -> str:
    """Return which operations have other weights."""
    if len(weighted) > 2:
        return f"of {len(weighted):,} operations"
    return "of " + " and ".join(
        short(evidence.calls.baseline.contexts[number].name) for number in weighted
    )


def _count(number: int, word: str) -> str:
    """Return a number with its word in singular or plural."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _listing(items: list[str]) -> str:
    """Return at most five items and the number of the others."""
    listed = ", ".join(items[:5])
    return listed if len(items) <= 5 else f"{listed} and {len(items) - 5} more"
