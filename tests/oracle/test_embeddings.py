"""Tables allocated, looked up and updated by a plan, against the naive machine and numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.compared import check, held, seeds, small_machine, values_for
from tests.oracle.drawn_graphs import machines, new_builder, views

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor
from tilescope.engine.library.popops.slicing.dynamic_slice import dynamic_slice
from tilescope.engine.library.popops.slicing.embedding import create_slice_tensor, plan_embedding
from tilescope.engine.library.popops.slicing.multi_slice import multi_slice
from tilescope.engine.library.popops.slicing.multi_update import (
    multi_update,
    multi_update_add,
    multi_update_op,
)
from tilescope.engine.library.popops.slicing.sliceable import create_sliceable_tensor
from tilescope.engine.planner.embedding import EmbeddingPlan, EmbeddingShape

FLOATS = st.sampled_from(["float32", "float16"])
TYPES = st.sampled_from(["float32", "float16", "int32"])


@st.composite
def plans(draw: Any, n_tiles: int, shape: EmbeddingShape) -> EmbeddingPlan:
    """Draw any split, not only those that the planner would choose."""
    grain = draw(st.sampled_from([1, 2, 4]))
    n_grains = -(-shape.n_columns // grain)

    def parts(size: int, largest: int) -> int:
        n_parts: int = draw(st.integers(1, max(1, min(size, largest))))
        return -(-size // -(-size // n_parts))

    columns = parts(n_grains, n_tiles)
    rows = parts(shape.n_rows, n_tiles // columns)
    lookups = parts(shape.n_lookups, n_tiles // columns // rows)
    return EmbeddingPlan(shape, lookups, rows, columns, grain, 0, 0)


def indices_of(seed: int, n_rows: int, n: int, *, is_valid: bool) -> np.ndarray:
    """Return positions, some of them several times and, unless valid, some out of range."""
    low, high = (0, n_rows) if is_valid else (-2, n_rows + 3)
    return np.random.default_rng(seed).integers(low, high, n).astype(np.int32)


def taken(values: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """Return rows, and zeros for those that do not exist."""
    exists = (offset >= 0) & (offset < len(values))
    return np.where(exists[:, None], values[np.where(exists, offset, 0)], 0)


@given(st.data(), machines(), TYPES, seeds)
def test_look_ups(data: st.DataObject, machine: Any, dtype: str, seed: int) -> None:
    _, builder = new_builder(machine)
    n_rows, n_columns, n = (data.draw(st.integers(1, size)) for size in (30, 14, 24))
    item_bytes = 2 if dtype == "float16" else 4
    shape = EmbeddingShape(n_rows, n_columns, n, item_bytes)
    plan = data.draw(plans(builder.tiles.ids.size, shape))
    x = create_sliceable_tensor(builder, dtype, (n_rows, n_columns), plan=plan)
    indices = data.draw(views(builder.graph, (n,), "int32", "i"))
    out = multi_slice(builder, x, indices, plan=data.draw(st.sampled_from([plan, None])))
    values, offset = values_for(x, seed), indices_of(seed, n_rows, n, is_valid=False)
    (result,) = check(builder, [(x, values), (indices, offset)], [out])
    np.testing.assert_array_equal(result, taken(held(builder.graph, x, values), offset))


@given(st.data(), machines(), FLOATS, seeds)
def test_updates(data: st.DataObject, machine: Any, dtype: str, seed: int) -> None:
    _, builder = new_builder(machine)
    n_rows, n_columns, n = (data.draw(st.integers(1, size)) for size in (30, 14, 24))
    shape = EmbeddingShape(n_rows, n_columns, n, 2 if dtype == "float16" else 4)
    plan = data.draw(plans(builder.tiles.ids.size, shape))
    x = create_sliceable_tensor(builder, dtype, (n_rows, n_columns), plan=plan)
    indices = data.draw(views(builder.graph, (n,), "int32", "i"))
    if data.draw(st.booleans()):
        updates = create_slice_tensor(builder, dtype, (n_rows, n_columns), n, plan)
    else:
        updates = data.draw(views(builder.graph, (n, n_columns), dtype, "u"))
    scale = data.draw(st.sampled_from([None, 1.0, 0.5]))
    if scale is None:
        multi_update(builder, x, indices, updates, plan=plan)
    else:
        multi_update_add(builder, x, indices, updates, scale)
    values, new = values_for(x, seed), values_for(updates, seed + 1)
    offset = indices_of(seed, n_rows, n, is_valid=False)
    (result,) = check(builder, [(x, values), (updates, new), (indices, offset)], [x])
    expected = held(builder.graph, x, values)
    for i, row in zip(offset, held(builder.graph, updates, new), strict=True):
        if 0 <= i < n_rows:
            expected[i] = row if scale is None else expected[i] + scale * row
    near = 1e-5 if dtype == "float32" else 3e-2
    np.testing.assert_allclose(result, expected, rtol=near, atol=near)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(
    ("shape", "n"), [((1, 1), 1), ((1, 9), 5), ((40, 6), 1), ((33, 7), 50), ((2, 64), 3)]
)
def test_planned_tables(dtype: str, shape: tuple[int, int], n: int) -> None:
    """One row, one look-up, odd sizes, tables smaller than the tiles; look up, then update."""
    graph, builder = new_builder(small_machine(24))
    plan = plan_embedding(builder, dtype, shape, n)
    x = create_sliceable_tensor(builder, dtype, shape, plan=plan)
    indices = graph.add_variable("int32", (n,), "i")
    graph.map_linearly(indices)
    out = multi_slice(builder, x, indices, plan=plan)
    multi_update_add(builder, x, indices, out, 0.5, plan=plan)
    values, offset = values_for(x, 1), indices_of(2, shape[0], n, is_valid=False)
    result, changed = check(builder, [(x, values), (indices, offset)], [out, x])
    expected = held(graph, x, values)
    rows = taken(expected, offset)
    np.testing.assert_array_equal(result, rows)
    exists = (offset >= 0) & (offset < shape[0])
    np.add.at(expected, offset[exists], 0.5 * rows[exists])
    near = 1e-5 if dtype == "float32" else 3e-2
    np.testing.assert_allclose(changed, expected, rtol=near, atol=near)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("n_lookups", [(4,), (2, 3)])
def test_other_dimensions(dim: int, n_lookups: tuple[int, ...]) -> None:
    graph, builder = new_builder(small_machine(30))
    shape = (6, 10, 4)
    plan = plan_embedding(builder, "float32", shape, int(np.prod(n_lookups)), dim)
    x = create_sliceable_tensor(builder, "float32", shape, dim, plan=plan)
    indices = graph.add_variable("int32", n_lookups, "i")
    graph.map_linearly(indices)
    out = multi_slice(builder, x, indices, dim, plan)
    multi_update_op(builder, "maximum", x, indices, out, dim)
    multi_update(builder, x, indices, out, dim, plan)
    values = values_for(x, 1)
    offset = np.random.default_rng(1).integers(0, shape[dim], n_lookups).astype(np.int32)
    result, changed = check(builder, [(x, values), (indices, offset)], [out, x])
    np.testing.assert_array_equal(result, np.take(values, offset, dim))
    np.testing.assert_array_equal(changed, values)


def test_a_plan_of_more_look_ups_or_fewer() -> None:
    graph, builder = new_builder(small_machine(30))
    plan = EmbeddingPlan(EmbeddingShape(20, 8, 12, 4), 3, 2, 4, 2, 0, 0)
    x = create_sliceable_tensor(builder, "float32", (20, 8), plan=plan)
    inputs: list[Any] = [(x, values_for(x, 1))]
    outputs, expected = [], []
    for n in (1, 2, 30):
        indices = graph.add_variable("int32", (n,), f"i{n}")
        graph.map_linearly(indices)
        outputs.append(multi_slice(builder, x, indices, plan=plan))
        inputs.append((indices, indices_of(n, 20, n, is_valid=True)))
        expected.append(inputs[0][1][inputs[-1][1]])
    for result, rows in zip(check(builder, inputs, outputs), expected, strict=True):
        np.testing.assert_array_equal(result, rows)


def test_a_plan_for_a_table_that_lies_in_any_other_way() -> None:
    graph, builder = new_builder(small_machine(30))
    plan = plan_embedding(builder, "float32", (20, 8), 12)
    x, i = graph.add_variable("float32", (20, 8), "x"), graph.add_variable("int32", (12,), "i")
    for tensor in (x, i):
        graph.map_linearly(tensor)
    out = multi_slice(builder, x, i, plan=plan)
    multi_update_add(builder, x, i, out, plan=plan)
    values, offset = values_for(x, 1), np.arange(12, dtype=np.int32)
    result, changed = check(builder, [(x, values), (i, offset)], [out, x])
    np.testing.assert_array_equal(result, values[:12])
    np.testing.assert_allclose(changed[:12], 2 * values[:12], rtol=1e-6)


def test_a_large_table_is_sliced_dynamically() -> None:
    """Its columns are in blocks, which a dynamic slice copies."""
    graph, builder = new_builder(small_machine(16))
    x = create_sliceable_tensor(builder, "float16", (6_000, 64))
    assert isinstance(x, Tensor)
    assert x.variable.map_start.size <= 64, "a row has no intervals of its own"
    offset = graph.add_variable("int32", (1,), "offset")
    graph.map_linearly(offset)
    out = dynamic_slice(builder, x, offset, [0], [2])
    values = values_for(x, 1)
    (result,) = check(builder, [(x, values), (offset, np.array([5_000]))], [out])
    np.testing.assert_array_equal(result, held(graph, x, values)[5_000:5_002])


def test_invalid_plans() -> None:
    graph, builder = new_builder(small_machine(8))
    plan = plan_embedding(builder, "float32", (20, 8), 12)
    x, i = graph.add_variable("float32", (20, 6), "x"), graph.add_variable("int32", (12,), "i")
    for tensor in (x, i):
        graph.map_linearly(tensor)
    with pytest.raises(BadGraph, match="the plan is for 20 rows of 8 elements"):
        multi_slice(builder, x, i, plan=plan)
    with pytest.raises(BadGraph, match="the plan is for 20 rows of 8 elements"):
        create_sliceable_tensor(builder, "float16", (20, 8), plan=plan)
    with pytest.raises(BadGraph, match="parts for 8 tiles, but the builder has 2"):
        create_sliceable_tensor(builder.on_tiles([0, 1]), "float32", (20, 8), plan=plan)
    with pytest.raises(BadGraph, match="expected a share above 0"):
        plan_embedding(builder, "float32", (20, 8), 12, available_memory_proportion=0.0)
    with pytest.raises(BadGraph, match="dim is 2: expected 0 to 1"):
        plan_embedding(builder, "float32", (20, 8), 12, 2)
    with pytest.raises(BadGraph, match="expected a plan of plan_embedding"):
        multi_slice(builder, x, i, plan=3)  # type: ignore[arg-type]
