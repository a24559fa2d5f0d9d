"""Losses, their gradients and accuracy, against numpy and the naive machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from tests.oracle.compared import check, held, seeds, small_machine, values_for
from tests.oracle.drawn_graphs import machines, new_builder, views

from tilescope.engine.errors import BadGraph
from tilescope.engine.library.popnn.loss import MASKED_LABEL, calc_accuracy, calc_loss
from tilescope.engine.library.popnn.softmax import SOFTMAX_SCALING, softmax

TYPES = st.sampled_from(["float32", "float16"])
SHAPES = st.tuples(st.integers(1, 5), st.integers(1, 7))


def near(dtype: str) -> dict[str, Any]:
    return {"rtol": 1e-2, "atol": 1e-2} if dtype == "float16" else {"rtol": 2e-5, "atol": 1e-5}


def labels_for(shape: tuple[int, int], seed: int) -> np.ndarray:
    """Return classes, and masks or numbers beyond the last class here and there."""
    return np.random.default_rng(seed).integers(-1, shape[1] + 1, shape[0]).astype(np.int32)


def one_hot(labels: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    return np.asarray(labels[:, None] == np.arange(shape[1]), np.float64)


@given(st.data(), machines(), SHAPES, TYPES, st.sampled_from([0.5, 1.0, 128.0]), seeds)
def test_cross_entropy(
    data: st.DataObject, machine: Any, shape: Any, dtype: str, scale: float, seed: int
) -> None:
    graph, builder = new_builder(machine)
    outputs = data.draw(views(graph, shape, dtype, "outputs"))
    expected = data.draw(views(graph, shape[:1], "int32", "expected"))
    loss, deltas = calc_loss(builder, "cross_entropy", outputs, expected, deltas_scale=scale)
    labels = labels_for(shape, seed)
    inputs = [(outputs, special.softmax(values_for(outputs, seed), axis=1)), (expected, labels)]
    results = check(builder, inputs, [loss, deltas])
    p = held(graph, *inputs[0])
    correct = one_hot(labels, shape)
    np.testing.assert_allclose(results[0], -(correct * np.log(p)).sum(axis=1), **near(dtype))
    gradient = (p - correct) * (labels != MASKED_LABEL)[:, None]
    np.testing.assert_allclose(results[1] / scale, gradient, **near(dtype))


@given(st.data(), machines(), SHAPES, TYPES, seeds)
def test_sum_of_squares(
    data: st.DataObject, machine: Any, shape: Any, dtype: str, seed: int
) -> None:
    graph, builder = new_builder(machine)
    outputs = data.draw(views(graph, shape, dtype, "outputs"))
    expected = data.draw(views(graph, shape[:1], "int32", "expected"))
    loss, deltas = calc_loss(builder, "sum_squared", outputs, expected)
    labels = labels_for(shape, seed)
    inputs = [(outputs, values_for(outputs, seed)), (expected, labels)]
    results = check(builder, inputs, [loss, deltas])
    difference = held(graph, *inputs[0]) - one_hot(labels, shape)
    np.testing.assert_allclose(results[0], (difference**2).sum(axis=1) / 2, **near(dtype))
    np.testing.assert_allclose(results[1], difference, **near(dtype))


@given(st.data(), machines(), SHAPES, TYPES, seeds)
def test_accuracy(data: st.DataObject, machine: Any, shape: Any, dtype: str, seed: int) -> None:
    """The count is added to what the tensor holds."""
    graph, builder = new_builder(machine)
    outputs = data.draw(views(graph, shape, dtype, "outputs"))
    expected = data.draw(views(graph, shape[:1], "int32", "expected"))
    count = graph.add_variable("int32", (1,), "count")
    graph.map_linearly(count)
    calc_accuracy(builder, outputs, expected, count)
    values, labels = np.round(values_for(outputs, seed)), labels_for(shape, seed)
    labels[::2] = values[::2].argmax(axis=1)
    inputs = [(outputs, values), (expected, labels), (count, np.array([5], np.int32))]
    (result,) = check(builder, inputs, [count])
    assert result.tolist() == [5 + int((values.argmax(axis=1) == labels).sum())]


def test_the_gradient_is_that_of_the_logits() -> None:
    """Central differences of the cross entropy of a softmax, in float64."""
    graph, builder = new_builder(small_machine(4))
    logits = graph.add_variable("float32", (3, 5), "logits")
    expected = graph.add_variable("int32", (3,), "expected")
    for tensor in (logits, expected):
        graph.map_linearly(tensor)
    _, deltas = calc_loss(builder, "cross_entropy", softmax(builder, logits), expected)
    values, labels = values_for(logits, 0), np.array([4, MASKED_LABEL, 0], np.int32)
    (result,) = check(builder, [(logits, values), (expected, labels)], [deltas])

    def total(x: np.ndarray) -> float:
        chosen = special.log_softmax(x, axis=1)[[0, 2], [4, 0]]
        return -float(chosen.sum())

    for index in np.ndindex(3, 5):
        step = np.zeros((3, 5))
        step[index] = 1e-5
        slope = (total(values + step) - total(values - step)) / 2e-5
        assert result[index] == pytest.approx(slope, abs=1e-5)


def test_outputs_of_a_scaled_softmax() -> None:
    graph, builder = new_builder(small_machine(4))
    logits = graph.add_variable("float16", (4, 8), "logits")
    expected = graph.add_variable("int32", (4,), "expected")
    scales = [graph.add_variable("float16", (1,), name) for name in ("deltas", "outputs")]
    for tensor in (logits, expected, *scales):
        graph.map_linearly(tensor)
    outputs = softmax(builder, logits, scaled=True)
    loss, deltas = calc_loss(
        builder, "cross_entropy", outputs, expected,
        deltas_scale=scales[0], output_scaling=scales[1],
    )  # fmt: skip
    values, labels = values_for(logits, 0), np.array([0, 7, 3, 3], np.int32)
    factor = float(np.float16(SOFTMAX_SCALING))
    inputs = [
        (logits, values),
        (expected, labels),
        (scales[0], np.array([512], np.float32)),
        (scales[1], np.array([factor], np.float32)),
    ]
    results = check(builder, inputs, [loss, deltas])
    p = special.softmax(held(graph, logits, values), axis=1)
    np.testing.assert_allclose(results[0], -np.log(p[range(4), labels]), rtol=1e-2)
    np.testing.assert_allclose(results[1] / 512, p - one_hot(labels, (4, 8)), atol=2e-3)


def test_a_probability_of_zero_has_a_finite_loss() -> None:
    for dtype, most in (("float32", 87.34), ("float16", 16.64)):
        graph, builder = new_builder(small_machine(2))
        outputs = graph.add_variable(dtype, (1, 4), "outputs")
        expected = graph.add_variable("int32", (1,), "expected")
        for tensor in (outputs, expected):
            graph.map_linearly(tensor)
        loss, _ = calc_loss(builder, "cross_entropy", outputs, expected)
        values = np.array([[0, 1, 0, 0]], np.float32)
        inputs = [(outputs, values), (expected, np.zeros(1, np.int32))]
        (result,) = check(builder, inputs, [loss])
        assert result[0] == pytest.approx(most, rel=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b, y, e, _: calc_loss(b, "hinge", y, e), "unknown loss 'hinge': use one of"),
        (lambda b, y, e, _: calc_loss(b, "sum_squared", e, y), r"is not \(rows, classes\)"),
        (lambda b, y, _, __: calc_loss(b, "sum_squared", y, y), "expected a label per row"),
        (
            lambda b, y, e, _: calc_loss(b, "sum_squared", y, e, deltas_scale=2.0),
            "only a cross entropy has scales",
        ),
        (
            lambda b, y, e, _: calc_loss(b, "cross_entropy", y, e, deltas_scale=y),
            "expected one float32, or a number",
        ),
        (lambda b, y, e, _: calc_accuracy(b, y, e, e), "expected one int32"),
        (lambda b, _, e, n: calc_accuracy(b, n.reshape(1, 1), e, n), "expected float16 or float32"),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, message: str) -> None:
    graph, builder = new_builder(small_machine(3))
    outputs = graph.add_variable("float32", (2, 4), "outputs")
    expected = graph.add_variable("int32", (2,), "expected")
    count = graph.add_variable("int32", (1,), "count")
    for tensor in (outputs, expected, count):
        graph.map_linearly(tensor)
    with pytest.raises(BadGraph, match=message):
        call(builder, outputs, expected, count)
