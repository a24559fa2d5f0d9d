"""Slices, updates, gathers and scatters at positions in data, against the naive machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.compared import check, held, seeds, small_machine, values_for
from tests.oracle.drawn_graphs import machines, new_builder, shapes, tensors, views

from tilescope.engine.errors import BadGraph
from tilescope.engine.library.dynamic_slice import dynamic_slice, dynamic_update
from tilescope.engine.library.gather import (
    gather_elements,
    gather_nd,
    scatter_elements,
    scatter_nd,
)
from tilescope.engine.library.multi_slice import multi_slice
from tilescope.engine.library.multi_update import multi_update, multi_update_add, multi_update_op

FLOATS = st.sampled_from(["float32", "float16"])
TYPES = st.sampled_from(["float32", "float16", "int32"])


def positions(seed: int, most: int, shape: Any) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).integers(0, most, shape), np.int32)


@given(st.data(), machines(), shapes(most=40, rank=3), TYPES, seeds)
def test_multi_slice(data: st.DataObject, machine: Any, shape: Any, dtype: str, seed: int) -> None:
    graph, builder = new_builder(machine)
    dim = data.draw(st.integers(0, len(shape) - 1))
    x = data.draw(views(graph, shape, dtype))
    where = data.draw(shapes(most=9, rank=2))
    indices = data.draw(views(graph, where, "int32", "i"))
    out = multi_slice(builder, x, indices, dim)
    values, at = values_for(x, seed), positions(seed, shape[dim], where)
    (result,) = check(builder, [(x, values), (indices, at)], [out])
    np.testing.assert_array_equal(result, np.take(held(graph, x, values), at, dim))


@pytest.mark.parametrize("n_tiles", [1, 6, 40])
def test_a_position_out_of_range_gives_zeros(n_tiles: int) -> None:
    graph, builder = new_builder(small_machine(n_tiles))
    x, indices = (
        graph.add_variable("float32", (300, 2), "x"),
        graph.add_variable("int32", (5,), "i"),
    )
    graph.map_linearly(x)
    graph.map_linearly(indices)
    out = multi_slice(builder, x, indices)
    values, at = values_for(x, 1), np.array([-1, 299, 300, 0, 150])
    (result,) = check(builder, [(x, values), (indices, at)], [out])
    expected = np.where(((at >= 0) & (at < 300))[:, None], values[at % 300], 0)
    np.testing.assert_array_equal(result, expected)


@given(st.data(), machines(), shapes(most=60, rank=3), TYPES, seeds)
def test_dynamic_slice(
    data: st.DataObject, machine: Any, shape: Any, dtype: str, seed: int
) -> None:
    graph, builder = new_builder(machine)
    axes = st.integers(0, len(shape) - 1)
    dims = data.draw(st.lists(axes, min_size=1, max_size=2, unique=True))
    sizes = [data.draw(st.integers(1, shape[dim])) for dim in dims]
    x = data.draw(views(graph, shape, dtype))
    offset = data.draw(views(graph, (len(dims),), "int32", "o"))
    at = np.array([data.draw(st.integers(-1, shape[dim])) for dim in dims])
    out = dynamic_slice(builder, x, offset, dims, sizes)
    values = values_for(x, seed)
    (result,) = check(builder, [(x, values), (offset, at)], [out])
    expected = held(graph, x, values)
    for dim, size, given_first in zip(dims, sizes, at, strict=True):
        first = given_first if 0 <= given_first < shape[dim] else 0
        expected = np.take(expected, (first + np.arange(size)) % shape[dim], dim)
    np.testing.assert_array_equal(result, expected)


@given(st.data(), machines(), shapes(most=40, rank=3), TYPES, seeds)
def test_dynamic_update(
    data: st.DataObject, machine: Any, shape: Any, dtype: str, seed: int
) -> None:
    graph, builder = new_builder(machine)
    axes = st.integers(0, len(shape) - 1)
    dims = data.draw(st.lists(axes, min_size=1, max_size=2, unique=True))
    new_shape = list(shape)
    for dim in dims:
        new_shape[dim] = data.draw(st.integers(1, shape[dim]))
    x = data.draw(views(graph, shape, dtype))
    new = data.draw(views(graph, new_shape, dtype, "new"))
    offset = data.draw(views(graph, (len(dims),), "int32", "o"))
    at = [data.draw(st.integers(0, shape[dim] - new_shape[dim])) for dim in dims]
    dynamic_update(builder, x, new, offset, dims)
    values, update = values_for(x, seed), values_for(new, seed + 1)
    (result,) = check(builder, [(x, values), (new, update), (offset, np.array(at))], [x])
    expected = held(graph, x, values)
    where = [slice(None)] * len(shape)
    for dim, first in zip(dims, at, strict=True):
        where[dim] = slice(first, first + new_shape[dim])
    expected[tuple(where)] = held(graph, new, update)
    np.testing.assert_array_equal(result, expected)


@given(st.data(), machines(), shapes(most=40, rank=3), FLOATS, seeds)
def test_multi_update(data: st.DataObject, machine: Any, shape: Any, dtype: str, seed: int) -> None:
    graph, builder = new_builder(machine)
    dim = data.draw(st.integers(0, len(shape) - 1))
    n = data.draw(st.integers(1, 6))
    x = data.draw(views(graph, shape, dtype))
    indices = data.draw(views(graph, (n,), "int32", "i"))
    updates = data.draw(views(graph, (*shape[:dim], n, *shape[dim + 1 :]), dtype, "u"))
    scale = data.draw(st.sampled_from([None, 1.0, 0.5]))
    if scale is None:
        multi_update(builder, x, indices, updates, dim)
    else:
        multi_update_add(builder, x, indices, updates, scale, dim)
    values, new, at = (
        values_for(x, seed),
        values_for(updates, seed + 1),
        positions(seed, shape[dim], n),
    )
    (result,) = check(builder, [(x, values), (updates, new), (indices, at)], [x])
    expected = np.moveaxis(held(graph, x, values), dim, 0)
    rows = np.moveaxis(held(graph, updates, new), dim, 0)
    for i, row in zip(at, rows, strict=True):
        expected[i] = row if scale is None else expected[i] + scale * row
    near = 1e-5 if dtype == "float32" else 1e-2
    np.testing.assert_allclose(result, np.moveaxis(expected, 0, dim), rtol=near, atol=near)


@pytest.mark.parametrize(
    ("operation", "function"),
    [("add", np.add), ("multiply", np.multiply), ("maximum", np.maximum), ("minimum", np.minimum)],
)
def test_multi_update_op_of_integers(operation: str, function: Any) -> None:
    graph, builder = new_builder(small_machine(5))
    x, u = graph.add_variable("int32", (9, 3), "x"), graph.add_variable("int32", (4, 3), "u")
    i = graph.add_variable("int32", (4,), "i")
    for tensor in (x, u, i):
        graph.map_linearly(tensor)
    multi_update_op(builder, operation, x, i, u)
    values, new, at = values_for(x, 1), values_for(u, 2), np.array([3, 3, 8, 0])
    (result,) = check(builder, [(x, values), (u, new), (i, at)], [x])
    expected = values.copy()
    for row, update in zip(at, new, strict=True):
        expected[row] = function(expected[row], update)
    np.testing.assert_array_equal(result, expected)


@given(st.data(), machines(), shapes(most=40, rank=3), TYPES, seeds)
def test_elements(data: st.DataObject, machine: Any, shape: Any, dtype: str, seed: int) -> None:
    graph, builder = new_builder(machine)
    dim = data.draw(st.integers(0, len(shape) - 1))
    n = data.draw(st.integers(1, shape[dim]))  # no position twice, for scatters that replace
    where = (*shape[:dim], n, *shape[dim + 1 :])
    x = data.draw(views(graph, shape, dtype))
    indices = data.draw(views(graph, where, "int32", "i"))
    updates = data.draw(views(graph, where, dtype, "u"))
    out = gather_elements(builder, x, indices, dim)
    scattered = scatter_elements(builder, x, indices, updates, dim)
    values, new = values_for(x, seed), values_for(updates, seed + 1)
    order = np.random.default_rng(seed).random(shape).argsort(dim)
    at = np.take(order, np.arange(n), dim).astype(np.int32)
    inputs = [(x, values), (indices, at), (updates, new)]
    result, changed = check(builder, inputs, [out, scattered])
    expected = held(graph, x, values)
    np.testing.assert_array_equal(result, np.take_along_axis(expected, at, dim))
    np.put_along_axis(expected, at, held(graph, updates, new), dim)
    np.testing.assert_array_equal(changed, expected)


@given(st.data(), machines(), shapes(most=60, rank=4), seeds)
def test_tuples_of_indices(data: st.DataObject, machine: Any, shape: Any, seed: int) -> None:
    graph, builder = new_builder(machine)
    n_batch = data.draw(st.integers(0, len(shape) - 1))
    length = data.draw(st.integers(1, len(shape) - n_batch))
    n = data.draw(st.integers(1, 4))
    x = data.draw(views(graph, shape))
    where = (*shape[:n_batch], n, length)
    at = np.stack([positions(seed + i, shape[n_batch + i], where[:-1]) for i in range(length)], -1)
    indices = data.draw(tensors(graph, where, "int32", "i"))
    out = gather_nd(builder, x, indices, n_batch)
    values = values_for(x, seed)
    inputs = [(x, values), (indices, at)]
    outputs = [out]
    if not n_batch:
        updates = data.draw(tensors(graph, out.shape, "float32", "u"))
        outputs.append(scatter_nd(builder, x, indices, updates, "add"))
        inputs.append((updates, values_for(updates, seed + 1)))
    results = check(builder, inputs, outputs)
    batch = np.indices(where[:-1])[:n_batch]
    index = (*batch, *np.moveaxis(at, -1, 0))
    np.testing.assert_array_equal(results[0].reshape(values[index].shape), values[index])
    if not n_batch:
        expected = values.astype(np.float64)
        np.add.at(expected, index, inputs[2][1].reshape(values[index].shape))
        np.testing.assert_allclose(results[1], expected, rtol=1e-5, atol=1e-5)


def test_updates_in_several_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilescope.engine.library.multi_update._MEMORY_SHARE", 1e-4)
    graph, builder = new_builder(small_machine(3))
    x, u = graph.add_variable("float32", (9,), "x"), graph.add_variable("float32", (50,), "u")
    i = graph.add_variable("int32", (50,), "i")
    for tensor in (x, u, i):
        graph.map_linearly(tensor)
    multi_update_add(builder, x, i, u)
    assert len(graph.compute_sets) > 1
    values, new, at = values_for(x, 1), values_for(u, 2), positions(1, 9, 50)
    (result,) = check(builder, [(x, values), (u, new), (i, at)], [x])
    expected = values.copy()
    np.add.at(expected, at, new)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_invalid_operands() -> None:
    graph, builder = new_builder(small_machine(2))
    x, i = graph.add_variable("float32", (4, 6), "x"), graph.add_variable("int32", (3,), "i")
    for tensor in (x, i):
        graph.map_linearly(tensor)
    for message, call in (
        ("'x' of shape .* has no dimension 2: use 0 to 1", lambda: multi_slice(builder, x, i, 2)),
        ("'x' is float32: expected indices of int32", lambda: multi_slice(builder, x, x)),
        ("expected float32 of shape \\(3, 6\\)", lambda: multi_update(builder, x, i, x)),
        ("'i' is int32: a scaled update", lambda: multi_update_add(builder, i, i, i, 0.5)),
        ("operation 'mean'; use one of add", lambda: multi_update_op(builder, "mean", x, i, x)),
        ("3 offsets in 'i' and 1 sizes for 1", lambda: dynamic_slice(builder, x, i, [0], [2])),
        ("a slice of 7 elements of dimension 0 of 'x': expected 1 to 4",
         lambda: dynamic_slice(builder, x, i.slice(0, 0, 1), [0], [7])),
        ("'i' has shape .* expected that of 'x'", lambda: gather_elements(builder, x, i)),
        ("expected tuples of 1 to 2 indices", lambda: gather_nd(builder, x, i)),
    ):  # fmt: skip
        with pytest.raises(BadGraph, match=message):
            call()
