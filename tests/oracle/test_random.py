"""Random numbers: against the naive machine, on any tiling, and by their statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats
from tests.oracle.compared import check, held, small_machine, values_for
from tests.oracle.drawn_graphs import machines, new_builder, shapes, views
from tests.oracle.naive_codelets import naive_philox

from tilescope.engine import Engine, compile_programs, resolve_options
from tilescope.engine.codelets.poprand.philox import normal_quantile, philox_block
from tilescope.engine.errors import BadGraph
from tilescope.engine.library.poprand.random_numbers import (
    bernoulli,
    dropout,
    log_uniform,
    normal,
    shaped_dropout,
    truncated_normal,
    uniform,
)

SEED = np.array([0x1234567, -2], np.int32)
DRAWS: dict[str, Any] = {
    "uniform": lambda b, s, m, r: uniform(b, s, m, r, "float32", -1.0, 3.0),
    "uniform_int": lambda b, s, m, r: uniform(b, s, m, r, "int32", -5, 6),
    "log_uniform": lambda b, s, m, r: log_uniform(b, s, m, r, "float32", 1.0, 100.0),
    "normal": lambda b, s, m, r: normal(b, s, m, r, "float32", 1.0, 2.0),
    "truncated_normal": lambda b, s, m, r: truncated_normal(b, s, m, r, "float16", 0.5, 1.0, 1.5),
    "bernoulli": lambda b, s, m, r: bernoulli(b, s, m, r, "float16", 0.3),
    "dropout": lambda b, s, m, r: dropout(b, s, m, r, r, 0.7, 1 / 0.7),
}


# Source: Random123 1.09, tests/kat_vectors, philox4x32 10.
@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([2**32 - 1] * 4, [2**32 - 1] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_known_answers(counter: list[int], key: list[int], expected: list[int]) -> None:
    assert naive_philox(counter, key) == expected
    assert [int(n) for n in philox_block(*map(np.uint64, [*counter, *key]))] == expected


def test_the_inverse_of_the_normal_distribution() -> None:
    p = np.concatenate([np.geomspace(2.0**-33, 0.5, 400), 1 - np.geomspace(2.0**-33, 0.5, 400)])
    actual = np.array([normal_quantile(float(x)) for x in p])
    np.testing.assert_allclose(actual, special.ndtri(p), rtol=3e-7, atol=3e-7)


@given(st.data(), machines(), shapes(), st.sampled_from(sorted(DRAWS)), st.integers(0, 2**32 - 1))
def test_against_the_naive_machine(
    data: st.DataObject, machine: Any, shape: Any, name: str, modifier: int
) -> None:
    graph, builder = new_builder(machine)
    reference = data.draw(views(graph, shape))
    seed = data.draw(views(graph, (2,), "int32", "seed"))
    out = DRAWS[name](builder, seed, modifier, reference)
    check(builder, [(seed, SEED), (reference, values_for(reference, 1))], [out])


def drawn(name: str, n_tiles: int, shape: tuple[int, ...], modifier: int = 0, **how: Any) -> Any:
    graph, builder = new_builder(small_machine(n_tiles))
    seed = graph.add_variable("int32", (2,), "seed")
    order = how.get("order", range(len(shape)))
    reference = graph.add_variable("float32", [shape[d] for d in order], "reference")
    graph.map_linearly(reference, grain=how.get("grain", 1))
    graph.map_linearly(seed)
    turned = reference.dim_shuffle(*np.argsort(order).tolist())
    out = DRAWS[name](builder, seed, modifier, turned)
    executable = compile_programs(graph, [builder.sequence])
    with Engine(executable, resolve_options()) as engine:
        engine.write_tensor(seed, how.get("seed", SEED))
        engine.write_tensor(turned, np.ones(shape, np.float32))
        engine.run()
        return engine.read_tensor(out)


@pytest.mark.parametrize("name", sorted(DRAWS))
def test_numbers_are_equal_on_any_machine_and_mapping(name: str) -> None:
    """The one property that the machine's own generators do not have."""
    first = drawn(name, 1, (6, 50))
    for n_tiles, how in ((7, {}), (64, {"grain": 3}), (5, {"order": (1, 0)})):
        np.testing.assert_array_equal(drawn(name, n_tiles, (6, 50), **how), first)
    assert (drawn(name, 1, (6, 50), modifier=1) != first).any()
    assert (drawn(name, 1, (6, 50), seed=SEED + 1) != first).any()


@pytest.mark.parametrize(
    ("name", "distribution"),
    [
        ("uniform", stats.uniform(-1, 4)),
        ("log_uniform", stats.loguniform(1, 100)),
        ("normal", stats.norm(1, 2)),
        ("truncated_normal", stats.truncnorm(-1.5, 1.5, 0.5, 1)),
    ],
)
def test_a_distribution(name: str, distribution: Any) -> None:
    numbers = drawn(name, 16, (40_000,)).astype(np.float64)
    if name == "truncated_normal":  # halves have ties: smear them over their rounding interval
        numbers = numbers + np.random.default_rng(0).uniform(-0.5, 0.5, numbers.size) * 2.0**-11
    assert stats.kstest(numbers, distribution.cdf).pvalue > 0.01
    tolerance = 4 * distribution.std() / np.sqrt(numbers.size)
    assert abs(numbers.mean() - distribution.mean()) < tolerance


def test_whole_numbers_are_uniform_and_include_both_ends() -> None:
    numbers = drawn("uniform_int", 16, (40_000,))
    values, counts = np.unique(numbers, return_counts=True)
    assert values.tolist() == list(range(-5, 7))
    assert stats.chisquare(counts).pvalue > 0.01


def test_ones_have_their_probability() -> None:
    numbers = drawn("bernoulli", 16, (40_000,))
    assert set(np.unique(numbers)) == {0, 1}
    assert stats.binomtest(int(numbers.sum()), 40_000, 0.3).pvalue > 0.01


@pytest.mark.parametrize("lag", [1, 2, 4, 64])
def test_neighbours_and_modifiers_are_uncorrelated(lag: int) -> None:
    numbers = drawn("normal", 8, (20_000,))
    assert abs(np.corrcoef(numbers[:-lag], numbers[lag:])[0, 1]) < 4 / np.sqrt(20_000)
    peer = drawn("normal", 8, (20_000,), modifier=lag)
    assert abs(np.corrcoef(numbers, peer)[0, 1]) < 4 / np.sqrt(20_000)


def test_a_dropout_drops_whole_rows_of_a_reference() -> None:
    graph, builder = new_builder(small_machine(5))
    x, reference = (
        graph.add_variable("float32", (50, 4), "x"),
        graph.add_variable("float32", (50, 1), "r"),
    )
    seed = graph.add_variable("int32", (2,), "seed")
    for tensor in (x, reference, seed):
        graph.map_linearly(tensor)
    out = shaped_dropout(builder, seed, 7, x, reference, 0.5, 2.0)
    values = values_for(x, 3)
    (result,) = check(builder, [(seed, SEED), (x, values)], [out])
    selected = result[:, :1] != 0
    assert 10 < selected.sum() < 40
    np.testing.assert_allclose(result, np.where(selected, held(graph, x, values) * 2, 0), rtol=1e-6)


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_certain_outcomes(probability: float) -> None:
    graph, builder = new_builder(small_machine(3))
    x, seed = graph.add_variable("float32", (100,), "x"), graph.add_variable("int32", (2,), "seed")
    for tensor in (x, seed):
        graph.map_linearly(tensor)
    out = bernoulli(builder, seed, 0, x, "int32", probability)
    selected = dropout(builder, seed, 0, x, x, probability, 1.0)
    values = values_for(x, 3)
    results = check(builder, [(seed, SEED), (x, values)], [out, selected])
    np.testing.assert_array_equal(results[0], probability)
    np.testing.assert_array_equal(results[1], values * np.float32(probability))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b, _, x: normal(b, x, 0, x, "float32"), "the seed 'x' is float32 of shape"),
        (lambda b, s, x: normal(b, s, -1, x, "float32"), "the seed modifier is -1: expected 0 to"),
        (lambda b, s, x: normal(b, s, 0, x, "int32"), "the type is int32: expected one of float16"),
        (lambda b, s, x: normal(b, s, 0, x, "float32", 0.0, -1.0), "deviation is -1.0: expected 0"),
        (lambda b, s, x: uniform(b, s, 0, x, "float32", 2.0, 1.0), "interval is 2.0 to 1.0"),
        (lambda b, s, x: uniform(b, s, 0, x, "int32", 0.5, 9), "expected integers of 32 bits"),
        (lambda b, s, x: uniform(b, s, 0, x, "int32", 0, 2**30), "expected at most 2..24"),
        (lambda b, s, x: log_uniform(b, s, 0, x, "float32", 0.0, 9.0), "expected 1 <= low < high"),
        (lambda b, s, x: log_uniform(b, s, 0, x, "float32", 1.0, 9.0, 1.0), "base is 1.0"),
        (lambda b, s, x: bernoulli(b, s, 0, x, "float32", 1.5), "probability is 1.5: expected 0"),
        (lambda b, s, x: truncated_normal(b, s, 0, x, "float32", 0.0, 1.0, 0.0), "alpha is 0.0"),
        (
            lambda b, s, x: dropout(b, s, 0, x, x.slice(0, 0, 3), 0.5, 1.0),
            r"'x' has shape \(3,\), but 'x' has \(10,\): expected equal shapes",
        ),
    ],
)
def test_invalid_arguments(call: Any, message: str) -> None:
    graph, builder = new_builder(small_machine(2))
    x, seed = graph.add_variable("float32", (10,), "x"), graph.add_variable("int32", (2,), "seed")
    for tensor in (x, seed):
        graph.map_linearly(tensor)
    with pytest.raises(BadGraph, match=message):
        call(builder, seed, x)
