"""The loss of alignments against the sum over all of them, and the naive machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from tests.oracle.compared import check, held, seeds, small_machine
from tests.oracle.drawn_graphs import machines, new_builder, views

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import View, concat
from tilescope.engine.library.ctc_options import CtcLossOptions
from tilescope.engine.library.popnn.ctc.loss import ctc_loss, ctc_loss_and_gradient
from tilescope.engine.library.popnn.ctc.loss_plan import (
    create_ctc_data_input,
    create_ctc_labels_input,
    plan_ctc_loss,
)


def alignments_of(logs: np.ndarray, blank: int) -> dict[tuple[int, ...], tuple[float, np.ndarray]]:
    """Return the probability of every label, and of every class at every step in its alignments."""
    n_steps, n_classes = logs.shape
    totals: dict[tuple[int, ...], float] = defaultdict(float)
    visits: dict[tuple[int, ...], np.ndarray] = {}
    for path in product(range(n_classes), repeat=n_steps):
        label = tuple(symbol for symbol, _ in groupby(path) if symbol != blank)
        probability = float(np.exp(logs[range(n_steps), path].sum()))
        totals[label] += probability
        visits.setdefault(label, np.zeros(logs.shape))[range(n_steps), path] += probability
    return {label: (total, visits[label]) for label, total in totals.items()}


@dataclass
class Sequences:
    """A batch of sequences and labels."""

    scores: np.ndarray
    labels: np.ndarray
    steps: np.ndarray
    lengths: np.ndarray
    blank: int

    @classmethod
    def drawn(cls, shape: tuple[int, int, int], longest: int, seed: int) -> Sequences:
        random = np.random.default_rng(seed)
        n_steps, n_batch, n_classes = shape
        blank = int(random.integers(n_classes))
        others = [c for c in range(n_classes) if c != blank]
        return cls(
            random.uniform(-2, 2, shape).astype(np.float32),
            random.choice(others, (n_batch, longest)).astype(np.int32),
            random.integers(1, n_steps + 1, n_batch).astype(np.int32),
            random.integers(0, longest + 1, n_batch).astype(np.int32),
            blank,
        )

    def expected(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return losses, and gradients with respect to the scores: infinite and NaN if none is."""
        logs = special.log_softmax(scores.astype(np.float64), axis=2)
        losses = np.full(logs.shape[1], np.inf)
        gradients = np.full(logs.shape, np.nan)
        for b, (n, length) in enumerate(zip(self.steps, self.lengths, strict=True)):
            label = tuple(self.labels[b, :length].tolist())
            total, visits = alignments_of(logs[:n, b], self.blank).get(label, (0, None))
            if visits is not None:
                losses[b] = -np.log(total)
                gradients[:n, b] = np.exp(logs[:n, b]) - visits / total
                gradients[n:, b] = np.exp(logs[n:, b])
        return losses, gradients


def inputs_of(given: Sequences, operands: Mapping[str, View]) -> Any:
    return [(view, getattr(given, name)) for name, view in operands.items()]


def whole(graph: Any, given: Sequences, dtype: str = "float32") -> dict[str, View]:
    """Add variables for all operands."""
    operands = {}
    for name in ("scores", "labels", "steps", "lengths"):
        kind = dtype if name == "scores" else "int32"
        operands[name] = graph.add_variable(kind, getattr(given, name).shape, name)
        graph.map_linearly(operands[name])
    return operands


SHAPES = st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(2, 3))


@settings(max_examples=12, deadline=None)
@given(st.data(), machines(), SHAPES, st.integers(1, 3), seeds)
def test_loss_and_gradient(
    data: st.DataObject, machine: Any, shape: Any, longest: int, seed: int
) -> None:
    """Any layout of operands, any plan."""
    given_ = Sequences.drawn(shape, longest, seed)
    graph, builder = new_builder(machine)
    sizes = {"steps": shape[0], "batch": shape[1], "label": longest}
    split = {name: data.draw(st.integers(1, n), label=name) for name, n in sizes.items()}
    split["last_blank_apart"] = data.draw(st.integers(0, 1))
    try:
        plan = plan_ctc_loss(builder, "float32", shape, longest, split=split)
    except BadGraph:
        plan = None  # of parts without a step or a class, or on more tiles than there are
    operands = {
        name: data.draw(
            views(
                graph, getattr(given_, name).shape, "float32" if name == "scores" else "int32", name
            )
        )
        for name in ("scores", "labels", "steps", "lengths")
    }
    loss, gradient = ctc_loss_and_gradient(
        builder, *operands.values(), plan=plan, options=CtcLossOptions(given_.blank)
    )
    results = check(builder, inputs_of(given_, operands), [loss, gradient])
    losses, gradients = given_.expected(held(graph, operands["scores"], given_.scores))
    exists = np.isfinite(losses)
    np.testing.assert_allclose(results[0][exists], losses[exists], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(results[1][:, exists], gradients[:, exists], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(results[0][~exists], 1e30, rtol=1e-6)


PARTS = [(1, 1, 1, 0), (2, 1, 1, 0), (3, 2, 2, 0), (3, 1, 3, 1), (3, 4, 1, 1), (6, 1, 3, 1)]


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_plans_give_the_same(parts: tuple[int, ...], dtype: str) -> None:
    """Sequences of 6 steps, with repeated classes, an empty label and short sequences."""
    given_ = Sequences.drawn((6, 4, 3), 3, 5)
    given_.blank = 1
    given_.labels = np.array([[0, 0, 2], [2, 0, 2], [0, 2, 2], [2, 2, 2]], np.int32)
    given_.steps, given_.lengths = (np.array(n, np.int32) for n in ([6, 5, 3, 1], [3, 3, 2, 0]))
    graph, builder = new_builder(small_machine(64))
    names = ("steps", "batch", "label", "last_blank_apart")
    plan = plan_ctc_loss(builder, dtype, (6, 4, 3), 3, split=dict(zip(names, parts, strict=True)))
    operands = whole(graph, given_, dtype)
    operands["scores"] = create_ctc_data_input(builder, dtype, plan)
    operands["labels"] = create_ctc_labels_input(builder, plan)
    loss, gradient = ctc_loss_and_gradient(
        builder, *operands.values(), plan=plan, options=CtcLossOptions(1, out_type="float32")
    )
    results = check(builder, inputs_of(given_, operands), [loss, gradient])
    losses, gradients = given_.expected(held(graph, operands["scores"], given_.scores))
    near = 1e-5 if dtype == "float32" else 4e-3
    np.testing.assert_allclose(results[0], losses, rtol=near, atol=near)
    np.testing.assert_allclose(results[1], gradients, rtol=near, atol=near)


@pytest.mark.parametrize("partials", ["float32", "float16"])
def test_labels_that_no_alignment_gives(partials: str) -> None:
    """Three equal classes take five steps; their loss and its gradient are 0 if asked for."""
    given_ = Sequences.drawn((4, 2, 3), 3, 1)
    given_.blank, given_.labels[:] = 0, 1
    given_.steps, given_.lengths = np.array([4, 4], np.int32), np.array([3, 2], np.int32)
    graph, builder = new_builder(small_machine(16))
    plan = plan_ctc_loss(builder, "float16", (4, 2, 3), 3, partials_type=partials)
    operands = whole(graph, given_, "float16")
    options = CtcLossOptions(out_type=partials)
    infinite = ctc_loss(builder, *operands.values(), plan=plan, options=options)
    loss, gradient = ctc_loss_and_gradient(
        builder, *operands.values(), plan=plan, options=replace(options, zero_infinity=True)
    )
    inputs = inputs_of(given_, operands)
    results = check(builder, inputs, [infinite, loss, gradient])
    losses, gradients = given_.expected(held(graph, operands["scores"], given_.scores))
    near = 4e-3 if partials == "float32" else 2e-2
    assert results[0][0] == pytest.approx(65504 if partials == "float16" else 1e30, rel=1e-5)
    np.testing.assert_allclose(results[1], [0, losses[1]], rtol=near, atol=near)
    np.testing.assert_allclose(results[2][:, 1], gradients[:, 1], rtol=near, atol=near)
    assert not results[2][:, 0].any()


def test_logarithms_of_probabilities() -> None:
    given_ = Sequences.drawn((5, 2, 3), 2, 3)
    graph, builder = new_builder(small_machine(16))
    losses, gradients = given_.expected(given_.scores)
    given_.scores = special.log_softmax(given_.scores.astype(np.float64), axis=2)
    operands = whole(graph, given_)
    loss, gradient = ctc_loss_and_gradient(
        builder, *operands.values(), options=CtcLossOptions(given_.blank, takes_logs=True)
    )
    results = check(builder, inputs_of(given_, operands), [loss, gradient])
    exists = np.isfinite(losses)
    np.testing.assert_allclose(results[0][exists], losses[exists], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(results[1][:, exists], gradients[:, exists], rtol=1e-5, atol=1e-5)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "blank": ({"blank": 3}, "the blank is class 3 of 3"),
    "rank": ({"scores": ("float32", (5, 2))}, "its scores"),
    "type": ({"scores": ("int32", (5, 2, 3))}, "expected float16 or float32"),
    "labels": ({"labels": ("float32", (2, 2))}, r"its labels 'labels' are float32 \(2, 2\)"),
    "batch": ({"labels": ("int32", (3, 2))}, r"expected int32 \(2, 2\)"),
    "steps": ({"steps": ("int32", (2, 1))}, r"its steps 'steps' .* expected int32 \(2,\)"),
    "result": ({"out_type": "int32"}, "expected float16 or float32"),
    "plan": ({"plan": ((5, 2, 3), 4)}, "the plan is for .* plan for these"),
    "plan type": ({"plan": ((5, 2, 3), 2, "float16")}, "not for float32"),
}


@pytest.mark.parametrize(("changes", "sentence"), BAD.values(), ids=BAD)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], sentence: str) -> None:
    graph, builder = new_builder(small_machine(16))
    operands: dict[str, Any] = {
        "scores": ("float32", (5, 2, 3)),
        "labels": ("int32", (2, 2)),
        "steps": ("int32", (2,)),
        "lengths": ("int32", (2,)),
    }
    options = {name: value for name, value in changes.items() if name == "plan"}
    stated = {name: changes[name] for name in ("blank", "out_type") if name in changes}
    if "plan" in options:
        shape, longest, *kind = options["plan"]
        dtype = kind[0] if kind else "float32"
        options["plan"] = plan_ctc_loss(builder, dtype, shape, longest)
    views_ = []
    for name, operand in operands.items():
        dtype, shape = changes.get(name, operand)
        views_.append(graph.add_variable(dtype, shape, name))
        graph.map_linearly(views_[-1])
    with pytest.raises(BadGraph, match=sentence):
        ctc_loss_and_gradient(builder, *views_, options=CtcLossOptions(**stated), **options)


PLANS: dict[str, tuple[dict[str, Any], str]] = {
    "size": ({"shape": (0, 2, 3)}, "size in the shape of plan_ctc_loss"),
    "rank": ({"shape": (5, 3)}, "expected .steps, batch, classes."),
    "partials": ({"partials_type": "float16"}, "partials at least as wide"),
    "share": ({"available_memory_proportion": 0.0}, "expected a share above 0"),
    "part": ({"split": {"time": 2}}, "unknown part 'time'"),
    "tiles": ({"split": {"steps": 5, "label": 4}}, "no split of 2 sequences of 5 steps"),
    "memory": ({"shape": (5, 2, 10**7)}, "fits 60% of a tile"),
}


@pytest.mark.parametrize(("changes", "sentence"), PLANS.values(), ids=PLANS)
def test_plans_that_are_refused(changes: dict[str, Any], sentence: str) -> None:
    _, builder = new_builder(small_machine(16))
    options = {"shape": (5, 2, 3), "longest": 4, **changes}
    with pytest.raises(BadGraph, match=sentence):
        plan_ctc_loss(builder, "float32", **options)


@pytest.mark.parametrize("is_joined", [False, True])
def test_labels_of_several_strides(is_joined: bool) -> None:
    """Parts of a label of 6 classes begin at every second one."""
    given_ = Sequences.drawn((6, 2, 3), 6, 2)
    given_.lengths[:] = (3, 6)
    graph, builder = new_builder(small_machine(16))
    operands = whole(graph, given_)
    halves = [graph.add_variable("int32", (2, 3), f"half{i}") for i in (0, 1)]
    both = graph.add_variable("int32", (3, 2, 2), "turned")
    for tensor in (*halves, both):
        graph.map_linearly(tensor)
    turned = both.dim_shuffle(1, 2, 0).reshape(2, 6)
    operands["labels"] = concat(halves, 1) if is_joined else turned
    plan = plan_ctc_loss(builder, "float32", (6, 2, 3), 6, split={"label": 3})
    loss = ctc_loss(builder, *operands.values(), plan=plan, options=CtcLossOptions(given_.blank))
    (actual,) = check(builder, inputs_of(given_, operands), [loss])
    losses = given_.expected(given_.scores)[0]
    exists = np.isfinite(losses)
    assert exists.any()
    np.testing.assert_allclose(actual[exists], losses[exists], rtol=1e-5)
