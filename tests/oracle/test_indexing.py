"""Slices, updates, gathers and scatters at positions in data, against the naive machine."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.compared import check, held, seeds, small_machine, values_for
from tests.oracle.drawn_graphs import machines, new_builder, shapes, tensors, views

from tilescope.engine.codelets.popops.slicing.multi_slice import MULTI_SLICE
from tilescope.engine.errors import BadGraph
from tilescope.engine.execute.binding import bindings_of
from tilescope.engine.execute.host_arenas import HostMemory
from tilescope.engine.execute.launch import Launches
from tilescope.engine.graph import GraphCopy
from tilescope.engine.library.popops.slicing import multi_slice as multi_slice_module
from tilescope.engine.library.popops.slicing.dynamic_slice import dynamic_slice, dynamic_update
from tilescope.engine.library.popops.slicing.gather import (
    gather_elements,
    gather_nd,
    scatter_elements,
    scatter_nd,
)
from tilescope.engine.library.popops.slicing.multi_slice import grouped_multi_slice, multi_slice
from tilescope.engine.library.popops.slicing.multi_update import (
    grouped_multi_update,
    multi_update,
    multi_update_add,
    multi_update_op,
)
from tilescope.engine.library.popops.slicing.scalar_in_rows import (
    MASKED_LABEL,
    select_scalar_from_rows,
    update_scalar_in_rows,
)
from tilescope.engine.library.popops.slicing.sequence_slice import sequence_slice

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
    values, offset = values_for(x, seed), positions(seed, shape[dim], where)
    (result,) = check(builder, [(x, values), (indices, offset)], [out])
    np.testing.assert_array_equal(result, np.take(held(graph, x, values), offset, dim))


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
    values, offset = values_for(x, 1), np.array([-1, 299, 300, 0, 150])
    (result,) = check(builder, [(x, values), (indices, offset)], [out])
    expected = np.where(((offset >= 0) & (offset < 300))[:, None], values[offset % 300], 0)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
@pytest.mark.parametrize("n_parts", [1, 7])
def test_joined_look_ups_do_what_the_vertices_do_alone(
    dtype: str, n_parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row parts of unequal lengths, several columns, indices twice and out of range."""
    offset = np.random.default_rng(3).integers(-2, 203, 90).astype(np.int32)
    results = []
    for codelet in (MULTI_SLICE, replace(MULTI_SLICE, independent=())):
        monkeypatch.setattr(multi_slice_module, "MULTI_SLICE", codelet)
        graph, builder = new_builder(small_machine(60))
        x = graph.add_variable(dtype, (201, 70), "x")
        indices = graph.add_variable("int32", (90,), "i")
        for tensor in (x, indices):
            graph.map_linearly(tensor)
        out = multi_slice(builder, x, indices)
        values = values_for(x, 1)
        memory = HostMemory(GraphCopy(graph).freeze())
        memory.write(x, values, "x")
        memory.write(indices, offset, "i")
        launches = Launches(memory, 6)
        for step, compute_set in enumerate(graph.compute_sets):
            for launch in launches.of(step, bindings_of(compute_set)):
                cuts = np.arange(n_parts + 1) * launch.n_pieces // n_parts
                for first, last in itertools.pairwise(cuts.tolist()):
                    launch.call(first, last, launch.table.ctypes.data)
        results.append(memory.read(out))
    assert results[0].tobytes() == results[1].tobytes()
    expected = np.where(
        ((offset >= 0) & (offset < 201))[:, None], held(graph, x, values)[offset % 201], 0
    )
    np.testing.assert_array_equal(results[0], expected)


@given(st.data(), machines(), shapes(most=30, rank=3), TYPES, seeds)
def test_grouped_multi_slice(
    data: st.DataObject, machine: Any, shape: Any, dtype: str, seed: int
) -> None:
    graph, builder = new_builder(machine)
    shape = (data.draw(st.integers(1, 4)), *shape)
    dim = data.draw(st.integers(0, len(shape) - 2))
    x = data.draw(views(graph, shape, dtype))
    where = (shape[0], *data.draw(shapes(most=6, rank=2)))
    indices = data.draw(views(graph, where, "int32", "i"))
    out = grouped_multi_slice(builder, x, indices, dim)
    values, offset = values_for(x, seed), positions(seed, shape[dim + 1], where)
    (result,) = check(builder, [(x, values), (indices, offset)], [out])
    groups = zip(held(graph, x, values), held(graph, indices, offset), strict=True)
    expected = np.stack([np.take(group, local.astype(np.int32), dim) for group, local in groups])
    np.testing.assert_array_equal(result, expected)


@given(st.data(), machines(), shapes(most=30, rank=2), FLOATS, seeds)
def test_grouped_multi_update(
    data: st.DataObject, machine: Any, shape: Any, dtype: str, seed: int
) -> None:
    graph, builder = new_builder(machine)
    shape = (data.draw(st.integers(1, 4)), *shape)
    dim = data.draw(st.integers(0, len(shape) - 2))
    operation = data.draw(st.sampled_from(["none", "add", "multiply", "maximum", "minimum"]))
    n = data.draw(st.integers(1, 5))
    x = data.draw(views(graph, shape, dtype))
    indices = data.draw(views(graph, (shape[0], n), "int32", "i"))
    new_shape = (*shape[: dim + 1], n, *shape[dim + 2 :])
    updates = data.draw(views(graph, new_shape, dtype, "u"))
    grouped_multi_update(builder, operation, x, indices, updates, dim=dim)
    values, new = values_for(x, seed), values_for(updates, seed + 1)
    offset = positions(seed, shape[dim + 1], (shape[0], n))
    (result,) = check(builder, [(x, values), (updates, new), (indices, offset)], [x])
    expected, rows = held(graph, x, values), held(graph, updates, new)
    own_at = held(graph, indices, offset).astype(np.int32)
    function: Any = {
        "none": lambda _, b: b,
        "add": np.add,
        "multiply": np.multiply,
        "maximum": np.maximum,
        "minimum": np.minimum,
    }[operation]
    for group in range(shape[0]):
        expansion = np.moveaxis(expected[group], dim, 0)
        for i, row in zip(own_at[group], np.moveaxis(rows[group], dim, 0), strict=True):
            expansion[i] = function(expansion[i], row)
    near = 1e-5 if dtype == "float32" else 2e-2
    np.testing.assert_allclose(result, expected, rtol=near, atol=near)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("n_ipus", [1, 2])
def test_scalars_in_rows(dtype: str, n_ipus: int) -> None:
    offset = np.array([0, 6, MASKED_LABEL, 7, 3, -2, 3], np.int32)
    labels = [(0, 0), (1, 6), (4, 3), (6, 3)]
    graph, builder = new_builder(small_machine(5, n_ipus))
    x, indices = graph.add_variable(dtype, (7, 7), "x"), graph.add_variable("int32", (7,), "i")
    for tensor in (x, indices):
        graph.map_linearly(tensor)
    chosen = select_scalar_from_rows(builder, x, indices)
    update_scalar_in_rows(builder, x, indices)
    values = values_for(x, 2)
    actual, updated = check(builder, [(x, values), (indices, offset)], [chosen, x])
    expected, of_rows = held(graph, x, values), np.zeros(7)
    for row, label in labels:
        of_rows[row] = expected[row, label]
        expected[row, label] -= 1
    of_rows[[3, 5]] = np.nan
    expected[[3, 5]] = np.nan
    np.testing.assert_array_equal(actual, of_rows)
    np.testing.assert_allclose(updated, expected, rtol=1e-6 if dtype == "float32" else 1e-3)


@given(st.data(), machines(), TYPES, st.booleans(), seeds)
def test_sequence_slice(
    data: st.DataObject, machine: Any, dtype: str, zero_unused: bool, seed: int
) -> None:
    graph, builder = new_builder(machine)
    n_from, n_to = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 12))
    x = data.draw(views(graph, (n_from, 2, 3), dtype))
    target = data.draw(views(graph, (n_to, 6), dtype, "t"))
    cuts = sorted(data.draw(st.lists(st.integers(0, n_to), min_size=2, max_size=5)))
    runs = [(b - a, data.draw(st.integers(0, n_from)), a) for a, b in itertools.pairwise(cuts)]
    runs = [(min(n, n_from - first), first, to) for n, first, to in runs]
    given_runs = [data.draw(views(graph, (len(runs),), "int32", name)) for name in ("n", "f", "o")]
    sequence_slice(builder, x, target, *given_runs, zero_unused=zero_unused)
    columns = [np.array(column, np.int32) for column in zip(*runs, strict=True)]
    values, before = values_for(x, seed), values_for(target, seed + 1)
    pairs = [(x, values), (target, before), *zip(given_runs, columns, strict=True)]
    (result,) = check(builder, pairs, [target])
    rows, expected = held(graph, x, values).reshape(n_from, 6), held(graph, target, before)
    if zero_unused:
        expected[:] = 0
    for n, first, to in runs:
        expected[to : to + n] = rows[first : first + n]
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
    position = np.array([data.draw(st.integers(-1, shape[dim])) for dim in dims])
    out = dynamic_slice(builder, x, offset, dims, sizes)
    values = values_for(x, seed)
    (result,) = check(builder, [(x, values), (offset, position)], [out])
    expected = held(graph, x, values)
    for dim, size, given_first in zip(dims, sizes, position, strict=True):
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
    position = [data.draw(st.integers(0, shape[dim] - new_shape[dim])) for dim in dims]
    dynamic_update(builder, x, new, offset, dims)
    values, update = values_for(x, seed), values_for(new, seed + 1)
    (result,) = check(builder, [(x, values), (new, update), (offset, np.array(position))], [x])
    expected = held(graph, x, values)
    where = [slice(None)] * len(shape)
    for dim, first in zip(dims, position, strict=True):
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
    values, new, offset = (
        values_for(x, seed),
        values_for(updates, seed + 1),
        positions(seed, shape[dim], n),
    )
    (result,) = check(builder, [(x, values), (updates, new), (indices, offset)], [x])
    expected = np.moveaxis(held(graph, x, values), dim, 0)
    rows = np.moveaxis(held(graph, updates, new), dim, 0)
    for i, row in zip(offset, rows, strict=True):
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
    values, new, offset = values_for(x, 1), values_for(u, 2), np.array([3, 3, 8, 0])
    (result,) = check(builder, [(x, values), (u, new), (i, offset)], [x])
    expected = values.copy()
    for row, update in zip(offset, new, strict=True):
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
    offset = np.take(order, np.arange(n), dim).astype(np.int32)
    inputs = [(x, values), (indices, offset), (updates, new)]
    result, changed = check(builder, inputs, [out, scattered])
    expected = held(graph, x, values)
    np.testing.assert_array_equal(result, np.take_along_axis(expected, offset, dim))
    np.put_along_axis(expected, offset, held(graph, updates, new), dim)
    np.testing.assert_array_equal(changed, expected)


@given(st.data(), machines(), shapes(most=60, rank=4), seeds)
def test_tuples_of_indices(data: st.DataObject, machine: Any, shape: Any, seed: int) -> None:
    graph, builder = new_builder(machine)
    n_batch = data.draw(st.integers(0, len(shape) - 1))
    length = data.draw(st.integers(1, len(shape) - n_batch))
    n = data.draw(st.integers(1, 4))
    x = data.draw(views(graph, shape))
    where = (*shape[:n_batch], n, length)
    offset = np.stack(
        [positions(seed + i, shape[n_batch + i], where[:-1]) for i in range(length)], -1
    )
    indices = data.draw(tensors(graph, where, "int32", "i"))
    out = gather_nd(builder, x, indices, n_batch)
    values = values_for(x, seed)
    inputs = [(x, values), (indices, offset)]
    outputs = [out]
    if not n_batch:
        updates = data.draw(tensors(graph, out.shape, "float32", "u"))
        outputs.append(scatter_nd(builder, x, indices, updates, "add"))
        inputs.append((updates, values_for(updates, seed + 1)))
    results = check(builder, inputs, outputs)
    batch = np.indices(where[:-1])[:n_batch]
    index = (*batch, *np.moveaxis(offset, -1, 0))
    np.testing.assert_array_equal(results[0].reshape(values[index].shape), values[index])
    if not n_batch:
        expected = values.astype(np.float64)
        np.add.at(expected, index, inputs[2][1].reshape(values[index].shape))
        np.testing.assert_allclose(results[1], expected, rtol=1e-5, atol=1e-5)


def test_updates_in_several_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilescope.engine.library.popops.slicing.multi_update._MEMORY_SHARE", 1e-4)
    graph, builder = new_builder(small_machine(3))
    x, u = graph.add_variable("float32", (9,), "x"), graph.add_variable("float32", (50,), "u")
    i = graph.add_variable("int32", (50,), "i")
    for tensor in (x, u, i):
        graph.map_linearly(tensor)
    multi_update_add(builder, x, i, u)
    assert len(graph.compute_sets) > 1
    values, new, offset = values_for(x, 1), values_for(u, 2), positions(1, 9, 50)
    (result,) = check(builder, [(x, values), (u, new), (i, offset)], [x])
    expected = values.copy()
    np.add.at(expected, offset, new)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_invalid_groups_rows_and_runs() -> None:
    graph, builder = new_builder(small_machine(2))
    x = graph.add_variable("float32", (3, 4), "x")
    i, runs = graph.add_variable("int32", (2, 2), "i"), graph.add_variable("int32", (2,), "n")
    for tensor in (x, i, runs):
        graph.map_linearly(tensor)
    with pytest.raises(BadGraph, match="have no dimension 1: use 0 to 0"):
        grouped_multi_slice(builder, x, i, 1)
    with pytest.raises(BadGraph, match="expected positions for each of the 3 groups of 'x'"):
        grouped_multi_slice(builder, x, i)
    of_x = i.reshape(4).slice(0, 0, 3).reshape(3, 1)
    with pytest.raises(BadGraph, match="Unknown update operation 'divide'"):
        grouped_multi_update(builder, "divide", x, of_x, x)
    with pytest.raises(BadGraph, match="only sums of floats are scaled"):
        grouped_multi_update(builder, "maximum", x, of_x, x, scale=2)
    with pytest.raises(BadGraph, match=r"expected float32 of shape \(3, 1\)"):
        grouped_multi_update(builder, "add", x, of_x, x)
    with pytest.raises(BadGraph, match="expected rows and columns of float16 or float32"):
        select_scalar_from_rows(builder, i, runs)
    with pytest.raises(BadGraph, match=r"expected int32 of shape \(3,\), an index for each row"):
        update_scalar_in_rows(builder, x, runs)
    with pytest.raises(BadGraph, match="expected one type, two or more dimensions"):
        sequence_slice(builder, x, i, runs, runs, runs)
    with pytest.raises(BadGraph, match="expected int32 of one dimension"):
        sequence_slice(builder, x, x, runs, i, runs)


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
