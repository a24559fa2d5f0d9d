"""Sorts, top-k, cumulative sums, histograms, encodings and padding, against the naive machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.compared import check, held, seeds, small_machine, values_for
from tests.oracle.drawn_graphs import machines, new_builder, shapes, views

from tilescope.engine.errors import BadGraph
from tilescope.engine.library.popops.elementwise.operations import row_major_copy
from tilescope.engine.library.popops.reduction.cumulative_sum import cumulative_sum
from tilescope.engine.library.popops.reduction.histogram import histogram
from tilescope.engine.library.popops.slicing.one_hot import one_hot
from tilescope.engine.library.popops.slicing.padding import PADDING_MODES, pad, unfold
from tilescope.engine.library.popops.sorting.sort import (
    sort,
    sort_key_value,
    top_k,
    top_k_with_permutation,
)
from tilescope.engine.library.popops.sorting.sorting_network import network_steps

TYPES = st.sampled_from(["float32", "float16", "int32"])


@given(st.data(), machines(), shapes(most=70, rank=2), TYPES, st.booleans(), seeds)
def test_top_k(
    data: st.DataObject, machine: Any, shape: Any, dtype: str, largest: bool, seed: int
) -> None:
    graph, builder = new_builder(machine)
    dim = data.draw(st.integers(0, len(shape) - 1))
    k = data.draw(st.integers(1, shape[dim]))
    x = data.draw(views(graph, shape, dtype))
    keys, actual = top_k_with_permutation(builder, x, k, dim, largest=largest)
    alone = top_k(builder, x, k, dim, largest=largest)
    values = np.random.default_rng(seed).integers(-5, 5, shape).astype(np.float32)
    results = check(builder, [(x, values)], [keys, actual, alone])
    order = np.argsort(-values if largest else values, axis=dim, kind="stable")
    order = np.take(order, np.arange(k), dim)
    np.testing.assert_array_equal(results[0], np.take_along_axis(values, order, dim))
    np.testing.assert_array_equal(results[1], order)
    np.testing.assert_array_equal(results[2], results[0])


@given(st.data(), machines(), shapes(most=70, rank=2), st.booleans(), seeds)
def test_sort(data: st.DataObject, machine: Any, shape: Any, descending: bool, seed: int) -> None:
    graph, builder = new_builder(machine)
    dim = data.draw(st.integers(0, len(shape) - 1))
    x = data.draw(views(graph, shape))
    peer = data.draw(views(graph, shape, "float16", "y"))
    alone = sort(builder, x, dim, descending=descending)
    keys, moved = sort_key_value(builder, x, peer, dim, descending=descending)
    values, items = values_for(x, seed), values_for(peer, seed + 1)
    results = check(builder, [(x, values), (peer, items)], [alone, keys, moved])
    order = np.argsort(-values if descending else values, axis=dim)
    np.testing.assert_array_equal(results[0], np.take_along_axis(values, order, dim))
    np.testing.assert_array_equal(results[1], results[0])
    expected = np.take_along_axis(held(graph, peer, items), order, dim)
    np.testing.assert_array_equal(results[2], expected)


@given(st.integers(1, 200), st.data())
def test_the_network_sorts_zeros_and_ones(n: int, data: st.DataObject) -> None:
    """A network that sorts all rows of zeros and ones sorts everything (Knuth, 5.3.4)."""
    k = data.draw(st.integers(1, n))
    row = np.array(data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)))
    expected = np.sort(row)[:k]
    n_pairs = 0
    for step in network_steps(n, k):
        for low, high, length in zip(*step.pairs(n), strict=True):
            for i in range(length):
                j = high - i if step.is_mirrored else high + i
                row[low + i], row[j] = min(row[low + i], row[j]), max(row[low + i], row[j])
        n_pairs += int(step.pairs(n)[2].sum())
    np.testing.assert_array_equal(row[:k], expected)
    assert n_pairs == sum(step.n_pairs for step in network_steps(n, k))


@given(
    st.data(),
    machines(),
    shapes(most=200, rank=2),
    st.sampled_from(["float32", "float16", "int32"]),
    st.booleans(),
    st.booleans(),
    seeds,
)
def test_cumulative_sum(
    data: st.DataObject, machine: Any, shape: Any, dtype: str, exclusive: bool, reverse: bool,
    seed: int,
) -> None:  # fmt: skip
    graph, builder = new_builder(machine)
    dim = data.draw(st.integers(0, len(shape) - 1))
    x = data.draw(views(graph, shape, dtype))
    out = cumulative_sum(builder, x, dim, exclusive=exclusive, reverse=reverse)
    values = values_for(x, seed)
    (result,) = check(builder, [(x, values)], [out])
    terms = np.flip(held(graph, x, values), dim) if reverse else held(graph, x, values)
    expected = np.cumsum(terms, dim) - (terms if exclusive else 0)
    expected = np.flip(expected, dim) if reverse else expected
    near = 2e-3 if dtype == "float16" else 1e-5
    np.testing.assert_allclose(result, expected, rtol=near, atol=near)


@pytest.mark.parametrize(("n", "n_tiles"), [(65, 3), (1000, 2), (5000, 40)])
def test_a_long_cumulative_sum_goes_over_segments(n: int, n_tiles: int) -> None:
    graph, builder = new_builder(small_machine(n_tiles))
    x = graph.add_variable("int32", (3, n), "x")
    graph.map_linearly(x)
    out = cumulative_sum(builder, x, 1)
    assert len(graph.compute_sets) >= 3
    values = values_for(x, 1)
    (result,) = check(builder, [(x, values)], [out])
    np.testing.assert_array_equal(result, np.cumsum(values, 1))


@given(st.data(), machines(), shapes(most=60, rank=2), st.booleans(), seeds)
def test_histogram(
    data: st.DataObject, machine: Any, shape: Any, absolute: bool, seed: int
) -> None:
    graph, builder = new_builder(machine)
    dtype = data.draw(st.sampled_from(["float32", "float16"]))
    limits = np.array(sorted(data.draw(st.lists(st.integers(-3, 3), min_size=1, max_size=5))))
    x = data.draw(views(graph, shape, dtype))
    levels = data.draw(views(graph, limits.shape, dtype, "levels"))
    out = histogram(builder, x, levels, absolute=absolute)
    values = np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)
    (result,) = check(builder, [(x, values), (levels, limits)], [out])
    counted = np.abs(values) if absolute else values
    index = np.searchsorted(limits, counted.reshape(-1), side="right")
    np.testing.assert_array_equal(result, np.bincount(index, minlength=limits.size + 1))


@given(st.data(), machines(), shapes(most=20, rank=2), st.integers(1, 9), seeds)
def test_one_hot(data: st.DataObject, machine: Any, shape: Any, depth: int, seed: int) -> None:
    graph, builder = new_builder(machine)
    dtype = data.draw(st.sampled_from(["float32", "float16", "int32"]))
    indices = data.draw(views(graph, shape, "int32", "i"))
    out = one_hot(builder, indices, depth, dtype, on=3, off=-2)
    values = np.random.default_rng(seed).integers(-1, depth + 1, shape)
    (result,) = check(builder, [(indices, values)], [out])
    np.testing.assert_array_equal(result, np.where(values[..., None] == np.arange(depth), 3, -2))


@given(st.data(), machines(), shapes(most=30, rank=3), st.sampled_from(PADDING_MODES), seeds)
def test_pad(data: st.DataObject, machine: Any, shape: Any, mode: str, seed: int) -> None:
    graph, builder = new_builder(machine)
    x = data.draw(views(graph, shape))
    maximum = {"constant": 3, "edge": 3}.get(mode, 0)
    before, after = (
        [data.draw(st.integers(0, min(3, max(maximum, n - (mode == "reflect"))))) for n in shape]
        for _ in range(2)
    )
    out = row_major_copy(builder, pad(builder, x, before, after, mode, 7.0))
    values = values_for(x, seed)
    (result,) = check(builder, [(x, values)], [out])
    constant = {"constant_values": 7} if mode == "constant" else {}
    expected = np.pad(values, list(zip(before, after, strict=True)), mode, **constant)  # type: ignore[call-overload]
    np.testing.assert_array_equal(result, expected)


@given(st.data(), machines(), shapes(most=40, rank=3), seeds)
def test_unfold(data: st.DataObject, machine: Any, shape: Any, seed: int) -> None:
    graph, builder = new_builder(machine)
    dim = data.draw(st.integers(0, len(shape) - 1))
    size, step = data.draw(st.integers(1, shape[dim])), data.draw(st.integers(1, 3))
    x = data.draw(views(graph, shape))
    out = row_major_copy(builder, unfold(builder, x, dim, size, step))
    values = values_for(x, seed)
    (result,) = check(builder, [(x, values)], [out])
    windows = np.lib.stride_tricks.sliding_window_view(values, size, dim)
    np.testing.assert_array_equal(result, np.take(windows, range(0, windows.shape[dim], step), dim))


def test_invalid_operands() -> None:
    graph, builder = new_builder(small_machine(2))
    x, i = graph.add_variable("float32", (4, 6), "x"), graph.add_variable("bool", (4, 6), "flags")
    for tensor in (x, i):
        graph.map_linearly(tensor)
    for message, call in (
        ("k is 7, but dimension 1 of 'x' has 6 elements", lambda: top_k(builder, x, 7, 1)),
        ("'flags' is bool: expected float16, float32 or int32", lambda: sort(builder, i)),
        ("'flags' is bool: expected float16", lambda: cumulative_sum(builder, i)),
        ("the levels 'x' are float32 of shape", lambda: histogram(builder, x, x)),
        ("'x' is float32: expected indices of int32", lambda: one_hot(builder, x, 3)),
        ("mode 'other'; use one of", lambda: pad(builder, x, [0, 0], [0, 0], "other")),
        ("mode 'reflect' adds at most 3", lambda: pad(builder, x, [4, 0], [0, 0], "reflect")),
        ("at least one must be left", lambda: pad(builder, x, [-4, 0], [0, 0])),
        ("windows of 7 elements, 1 apart", lambda: unfold(builder, x, 1, 7)),
    ):  # fmt: skip
        with pytest.raises(BadGraph, match=message):
            call()
