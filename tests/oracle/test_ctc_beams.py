"""The search for labels against a plain one, the sum over alignments, and the naive machine."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from tests.oracle.compared import check, held, seeds, small_machine
from tests.oracle.drawn_graphs import machines, new_builder, views
from tests.oracle.test_ctc import alignments_of

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import View
from tilescope.engine.library.popnn.ctc.beam_plan import create_ctc_beam_input, plan_ctc_beams
from tilescope.engine.library.popnn.ctc.beam_search import ctc_beam_search

Label = tuple[int, ...]


def plain_search(logs: np.ndarray, width: int, blank: int) -> list[tuple[Label, float]]:
    """Return labels with the logarithms of what their alignments in the beams add up to."""
    beams: dict[Label, tuple[float, float]] = {(): (-np.inf, 0.0)}
    for row in logs:
        after: dict[Label, list[float]] = defaultdict(lambda: [-np.inf, -np.inf])
        for label, (of_class, of_blank) in beams.items():
            both = np.logaddexp(of_class, of_blank)
            kept = after[label]
            kept[1] = np.logaddexp(kept[1], both + row[blank])
            if label:
                kept[0] = np.logaddexp(kept[0], of_class + row[label[-1]])
            for symbol in range(row.size):
                if symbol != blank:
                    before = of_blank if label[-1:] == (symbol,) else both
                    more = after[(*label, symbol)]
                    more[0] = np.logaddexp(more[0], before + row[symbol])
        totals = {label: np.logaddexp(a, b) for label, (a, b) in after.items()}
        order = sorted(totals, key=lambda label: -totals[label])[:width]
        beams = {x: (after[x][0], after[x][1]) for x in order if np.isfinite(totals[x])}
    return [(label, float(np.logaddexp(*both))) for label, both in beams.items()]


def found(results: Any, sequence: int) -> list[tuple[Label, float]]:
    """Return the labels of a sequence with their logarithms, those that are none left out."""
    logs, lengths, labels = results
    paths = []
    for path, n in enumerate(lengths[sequence]):
        label = labels[sequence, path]
        assert (label[n:] == -1).all()
        if logs[sequence, path] > -6e4:
            paths.append((tuple(label[:n].tolist()), float(logs[sequence, path])))
    return paths


def assert_equal(
    actual: list[tuple[Label, float]], expected: list[tuple[Label, float]], near: float
) -> None:
    assert [label for label, _ in actual] == [label for label, _ in expected]
    np.testing.assert_allclose(
        [p for _, p in actual], [p for _, p in expected], rtol=near, atol=near
    )


def drawn(shape: tuple[int, int, int], seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Return scores, steps and the blank."""
    random = np.random.default_rng(seed)
    scores = random.uniform(-2, 2, shape).astype(np.float32)
    steps = random.integers(1, shape[0] + 1, shape[1]).astype(np.int32)
    return scores, steps, int(random.integers(shape[2]))


SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 2), st.integers(2, 4))


@settings(max_examples=8, deadline=None)
@given(st.data(), machines(), SHAPES, st.integers(1, 5), seeds)
def test_any_layout(data: Any, machine: Any, shape: Any, width: int, seed: int) -> None:
    scores, steps, blank = drawn(shape, seed)
    graph, builder = new_builder(machine)
    x = data.draw(views(graph, shape, "float32", "scores"))
    counts = data.draw(views(graph, steps.shape, "int32", "steps"))
    results = ctc_beam_search(builder, x, counts, width, n_paths=width, blank=blank)
    actual = check(builder, [(x, scores), (counts, steps)], list(results))
    logs = special.log_softmax(held(graph, x, scores), axis=2)
    for b, n in enumerate(steps):
        assert_equal(found(actual, b), plain_search(logs[:n, b], width, blank), 1e-5)


def _searched(
    scores: np.ndarray,
    steps: np.ndarray,
    width: int,
    n_tiles: int,
    dtype: str = "float32",
    partials: str = "float32",
    **options: Any,
) -> tuple[Any, np.ndarray]:
    """Return the results of a search, and the scores as the machine has them."""
    graph, builder = new_builder(small_machine(n_tiles))
    plan = plan_ctc_beams(builder, dtype, scores.shape, width, partials_type=partials)
    x: View = create_ctc_beam_input(builder, dtype, plan)
    counts = graph.add_variable("int32", steps.shape, "steps")
    graph.map_linearly(counts)
    results = ctc_beam_search(builder, x, counts, width, n_paths=width, plan=plan, **options)
    actual = check(builder, [(x, scores), (counts, steps)], list(results))
    return actual, held(graph, x, scores)


@pytest.mark.parametrize("n_tiles", [1, 3, 16, 64])
def test_two_stages_of_the_sort(n_tiles: int) -> None:
    """From 20 classes on; groups share tiles where there are few of them."""
    scores, steps, _ = drawn((3, 2, 21), 4)
    actual, _ = _searched(scores, steps, 3, n_tiles, blank=7)
    logs = special.log_softmax(scores.astype(np.float64), axis=2)
    for b, n in enumerate(steps):
        assert_equal(found(actual, b), plain_search(logs[:n, b], 3, 7), 1e-5)


def test_with_beams_for_all_labels_it_is_the_sum_over_alignments() -> None:
    scores, _, blank = drawn((3, 1, 3), 6)
    logs = special.log_softmax(scores.astype(np.float64), axis=2)
    totals = {label: np.log(p) for label, (p, _) in alignments_of(logs[:, 0], blank).items()}
    steps = np.array([3], np.int32)
    actual, _ = _searched(scores, steps, len(totals) + 2, 32, blank=blank)
    order = sorted(totals, key=lambda label: -totals[label])
    assert_equal(found(actual, 0), [(label, float(totals[label])) for label in order], 1e-5)
    assert actual[1][0, len(totals) :].tolist() == [0, 0]


@pytest.mark.parametrize("partials", ["float32", "float16"])
def test_halves(partials: str) -> None:
    scores, steps, blank = drawn((5, 2, 3), 9)
    actual, held_ = _searched(scores, steps, 3, 16, "float16", partials, blank=blank)
    logs = special.log_softmax(held_, axis=2)
    for b, n in enumerate(steps):
        assert_equal(found(actual, b), plain_search(logs[:n, b], 3, blank), 2e-2)


def test_logarithms_of_probabilities() -> None:
    scores, steps, blank = drawn((5, 2, 3), 3)
    logs = special.log_softmax(scores.astype(np.float64), axis=2)
    actual, _ = _searched(logs, steps, 4, 16, blank=blank, takes_logs=True)
    for b, n in enumerate(steps):
        assert_equal(found(actual, b), plain_search(logs[:n, b], 4, blank), 1e-5)


def test_a_class_that_follows_itself() -> None:
    """Behind a blank it counts again, otherwise it is the same."""
    logs = np.full((3, 1, 2), -20.0, np.float32)
    for step, symbol in enumerate((1, 0, 1)):
        logs[step, 0, symbol] = -0.01
    actual, _ = _searched(logs, np.array([3], np.int32), 2, 8, takes_logs=True)
    assert found(actual, 0)[0][0] == (1, 1)
    logs[1, 0] = (-20, -0.01)
    actual, _ = _searched(logs, np.array([3], np.int32), 2, 8, takes_logs=True)
    assert found(actual, 0)[0][0] == (1,)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "type": ({"dtype": "int32"}, "expected float16 or float32"),
    "steps": ({"steps": (3,)}, r"its steps 'steps' .* expected int32 \(2,\)"),
    "blank": ({"blank": 3}, "the blank is class 3 of 3"),
    "width": ({"width": 0}, "width of ctc_beam_search"),
    "paths": ({"n_paths": 5}, "n_paths of ctc_beam_search"),
    "plan": ({"plan": 3}, "the plan is for .* plan for these"),
}


@pytest.mark.parametrize(("changes", "sentence"), BAD.values(), ids=BAD)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], sentence: str) -> None:
    given_ = {"dtype": "float32", "steps": (2,), "width": 4, **changes}
    graph, builder = new_builder(small_machine(16))
    scores = graph.add_variable(given_.pop("dtype"), (5, 2, 3), "scores")
    steps = graph.add_variable("int32", given_.pop("steps"), "steps")
    for tensor in (scores, steps):
        graph.map_linearly(tensor)
    if "plan" in given_:
        given_["plan"] = plan_ctc_beams(builder, "float32", (5, 2, 3), given_["plan"])
    with pytest.raises(BadGraph, match=sentence):
        ctc_beam_search(builder, scores, steps, **given_)


PLANS: dict[str, tuple[tuple[Any, ...], str]] = {
    "classes": (("float32", (5, 2, 1), 4), "classes of plan_ctc_beams"),
    "width": (("float32", (5, 2, 3), 0), "width of plan_ctc_beams"),
    "shape": (("float32", (5, 3), 4), "expected .steps, batch, classes."),
    "type": (("int32", (5, 2, 3), 4), "expected float16 or"),
}


@pytest.mark.parametrize(("arguments", "sentence"), PLANS.values(), ids=PLANS)
def test_plans_that_are_refused(arguments: tuple[Any, ...], sentence: str) -> None:
    _, builder = new_builder(small_machine(16))
    with pytest.raises(BadGraph, match=sentence):
        plan_ctc_beams(builder, *arguments)
