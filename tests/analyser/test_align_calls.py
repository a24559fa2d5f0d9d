"""Alignment of calls: by structure first, whatever their names."""

from __future__ import annotations

import json
from collections.abc import Container
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilescope.analyser.diff.alignment.calls import CallPairs, align_calls
from tilescope.analyser.diff.views.operations import operation_pairs
from tilescope.analyser.program.call_tree import CallTree
from tilescope.analyser.program.contexts import DebugContext
from tilescope.analyser.program.operations import Operation, Operations


@dataclass(frozen=True)
class Model:
    """A chain of convolutions, Relus and additions, and what is done to it."""

    n_nodes: int = 60
    dropped: tuple[int, ...] = ()
    has_first: bool = False
    is_renamed: bool = False
    batch: int = 1
    weights: str = "w"

    def nodes(self) -> list[DebugContext]:
        """Return its nodes; the output of node i is ``v<i>``, or has another name."""
        contexts: list[DebugContext] = []
        shape = ["float32", [self.batch, 3]]

        def add(
            value: str, operation: str, operands: list[list[object]], digest: str | None
        ) -> None:
            number = len(contexts)
            name = f"renamed {number * 7}" if self.is_renamed else f"{operation}_{number}"
            attributes = {"kernel_shape": [3]} if operation == "Conv" else {}
            outputs = [[value, *shape]]
            detail = {"attributes": attributes, "inputs": operands, "outputs": outputs}
            text = json.dumps(detail)
            contexts.append(DebugContext(number, None, "onnx", name, operation, text, digest))

        value = "x"
        if self.has_first:
            add("first", "Relu", [[value, *shape, False]], None)
            value = "first"
        for i in range(self.n_nodes):
            if i in self.dropped:
                continue
            operation = ("Conv", "Relu", "Add")[i % 3]
            operands: list[list[object]] = [[value, *shape, False]]
            if operation == "Conv":
                operands.append([f"k{i}", "float32", [3, 3], True])
            value = f"v{i}"
            add(value, operation, operands, f"{self.weights}{i}" if operation == "Conv" else None)
        return contexts


def tree(model: Model) -> CallTree:
    return CallTree({context.debug_context_id: context for context in model.nodes()})


def test_calls_are_in_order_of_their_programs() -> None:
    model, n = Model(n_nodes=6), 6
    every = {context.debug_context_id: context for context in model.nodes()}
    # Convolutions are mentioned first, by their weights; the last two have no program.
    assert CallTree(every, {0: 10, 3: 11, 1: 12, 2: 13}).children(None) == [0, 3, 1, 2, 4, 5]
    assert CallTree(every).children(None) == list(range(n))


def test_nodes_of_a_report_are_paired_whatever_their_numbers() -> None:
    """Contexts may be numbered in the order in which variables mention them."""

    def numbered(weights: str) -> CallTree:
        nodes = Model(n_nodes=30, weights=weights, is_renamed=weights == "other").nodes()
        mentioned = sorted(range(30), key=lambda i: (nodes[i].operation != "Conv", i))
        every = {
            number: replace(nodes[i], debug_context_id=number) for number, i in enumerate(mentioned)
        }
        return CallTree(every, {number: i for number, i in enumerate(mentioned)})

    actual = align_calls(numbered("w"), numbered("other"))
    assert actual.pairs == {number: number for number in range(30)}


def aligned(baseline: Model, candidate: Model) -> tuple[CallPairs, Container[int]]:
    """Return the alignment and the baseline's nodes that were paired with the same node."""
    actual = align_calls(tree(baseline), tree(candidate))
    right = {
        first
        for first, second in actual.pairs.items()
        if actual.baseline.call(first).outputs[0][0] == actual.candidate.call(second).outputs[0][0]
    }
    assert right == set(actual.pairs)
    return actual, right


@pytest.mark.parametrize(
    ("candidate", "n_removed", "n_added"),
    [
        (Model(), 0, 0),
        (Model(is_renamed=True), 0, 0),
        (Model(has_first=True), 0, 1),
        (Model(has_first=True, is_renamed=True), 0, 1),
        (Model(dropped=(13,)), 1, 0),
        (Model(dropped=(12, 31), weights="new"), 2, 0),
        (Model(batch=4), 0, 0),
        (Model(batch=4, weights="new", is_renamed=True), 0, 0),
        (Model(dropped=(13, 40), batch=4, weights="new", is_renamed=True), 2, 0),
    ],
)
def test_nodes_are_found_again(candidate: Model, n_removed: int, n_added: int) -> None:
    actual, _ = aligned(Model(), candidate)
    assert (len(actual.only(0)), len(actual.only(1))) == (n_removed, n_added)


def test_long_models_are_aligned_too() -> None:
    changed = Model(9_000, dropped=(100, 5_002), weights="new", is_renamed=True)
    actual, _ = aligned(Model(9_000), changed)
    assert (len(actual.only(0)), len(actual.only(1))) == (2, 0)


models = st.builds(
    Model,
    n_nodes=st.integers(0, 14),
    dropped=st.lists(st.integers(0, 14), max_size=3).map(tuple),
    has_first=st.booleans(),
    is_renamed=st.booleans(),
    batch=st.sampled_from([1, 4]),
    weights=st.sampled_from(["w", "new"]),
)


@given(models, models)
def test_alignment_is_symmetric(baseline: Model, candidate: Model) -> None:
    there, back = (
        align_calls(tree(first), tree(second)).pairs
        for first, second in ((baseline, candidate), (candidate, baseline))
    )
    assert there == {
        first: second for second, first in sorted(back.items(), key=lambda pair: pair[1])
    }
    nodes = baseline.nodes(), candidate.nodes()
    assert all(
        nodes[0][first].operation == nodes[1][second].operation for first, second in there.items()
    )
    assert all(first < second for first, second in pairwise(there.values())) or len(there) < len(
        nodes[0]
    )


def test_a_node_in_front_of_generic_names_is_the_only_new_operation() -> None:
    def listed(model: Model) -> Operations:
        actual = tree(model)
        return Operations(
            "model",
            tuple(
                Operation(number, context.name, context.operation, 1, 1, 0, None, 0, 0, 0, 1)
                for number, context in actual.contexts.items()
            ),
            100,
            1,
            actual,
        )

    pairs = operation_pairs(listed(Model()), listed(Model(has_first=True)))
    assert [pair.key for pair in pairs if pair.baseline is None] == ["Relu_0"]
    assert all(pair.candidate is not None for pair in pairs)
    second = next(pair for pair in pairs if pair.key == "Relu_1")
    assert second.candidate is not None
    assert second.candidate.name == "Relu_2"
    assert len({pair.key for pair in pairs}) == len(pairs)
