"""Gradients of pools, against numpy and the naive machine."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.compared import check, held, seeds, small_machine, values_for
from tests.oracle.drawn_graphs import machines, new_builder, views

from tilescope.engine import compile_programs
from tilescope.engine.errors import BadGraph
from tilescope.engine.library.popnn.pool import pool
from tilescope.engine.library.popnn.pool_gradient import (
    average_pool_input_gradient,
    max_pool_input_gradient,
)
from tilescope.engine.library.window import Window, output_size

TYPES = st.sampled_from(["float32", "float16"])


@st.composite
def geometries(draw: st.DrawFn) -> tuple[tuple[int, ...], Window]:
    """Return the shape of an input and a window: overlapping or apart, padded or cropped."""
    kernel, stride, dilation, before, after, size = ([0, 0] for _ in range(6))
    for d in (0, 1):
        kernel[d], stride[d] = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        dilation[d] = draw(st.integers(1, 2))
        extent = (kernel[d] - 1) * dilation[d] + 1
        before[d], after[d] = (draw(st.integers(-1, min(2, extent - 1))) for _ in range(2))
        size[d] = draw(st.integers(extent + 2, extent + 5))
    shape = (draw(st.integers(1, 2)), draw(st.sampled_from([1, 3, 4, 18])), *size)
    pairs = ((p[0], p[1]) for p in (kernel, stride, dilation, before, after))
    return shape, Window(*pairs)


def result_shape(shape: tuple[int, ...], window: Window) -> tuple[int, ...]:
    return (*shape[:2], *(output_size(shape[2 + d], d, window) for d in (0, 1)))


def windows(shape: tuple[int, ...], window: Window) -> Any:
    """Yield the row and column of every result with those of the elements that it holds."""
    for result in product(*map(range, result_shape(shape, window)[2:])):
        elements = []
        for tap in product(*map(range, window.kernel)):
            at = [
                result[d] * window.stride[d] + tap[d] * window.dilation[d]
                - window.padding_before[d]
                for d in (0, 1)
            ]  # fmt: skip
            if all(0 <= at[d] < shape[2 + d] for d in (0, 1)):
                elements.append((at[0], at[1]))
        yield result, elements


def stated_flops(program: Any) -> int:
    """Return what the debug contexts of a sequence and of those in it state."""
    if not hasattr(program, "children"):
        return 0
    return (program.debug.flops or 0) + sum(stated_flops(child) for child in program.children)


def near(dtype: str) -> dict[str, Any]:
    return {"rtol": 1e-2, "atol": 1e-2} if dtype == "float16" else {"rtol": 1e-5, "atol": 1e-5}


@given(st.data(), machines(), geometries(), TYPES, st.booleans(), seeds)
def test_maximum(
    data: st.DataObject, machine: Any, geometry: Any, dtype: str, is_scaled: bool, seed: int
) -> None:
    """Elements that equal a maximum get its gradient, or share it; many of these numbers do."""
    shape, window = geometry
    graph, builder = new_builder(machine)
    x = data.draw(views(graph, shape, dtype))
    gradient = data.draw(views(graph, result_shape(shape, window), dtype, "gradient"))
    pooled = pool(builder, x, window)
    out = max_pool_input_gradient(
        builder, x, pooled, gradient, window, use_scaled_gradient=is_scaled
    )
    values = np.round(values_for(x, seed))
    inputs = [(x, values), (gradient, values_for(gradient, seed + 1))]
    (result,) = check(builder, inputs, [out])
    upstream = held(graph, *inputs[1])
    expected = np.zeros(shape)
    for at, elements in windows(shape, window):
        if not elements:
            continue
        taken = np.stack([values[:, :, y, x] for y, x in elements])
        is_largest = taken == taken.max(axis=0)
        share = is_largest / (is_largest.sum(axis=0) if is_scaled else 1)
        for (row, column), part in zip(elements, share, strict=True):
            expected[:, :, row, column] += part * upstream[:, :, at[0], at[1]]
    np.testing.assert_allclose(result, expected, **near(dtype))


@given(
    st.data(),
    machines(),
    geometries(),
    TYPES,
    st.sampled_from([("sum", False), ("average", False), ("average", True)]),
    seeds,
)
def test_average_and_sum(
    data: st.DataObject, machine: Any, geometry: Any, dtype: str, kind: Any, seed: int
) -> None:
    shape, window = geometry
    graph, builder = new_builder(machine)
    gradient = data.draw(views(graph, result_shape(shape, window), dtype, "gradient"))
    out = average_pool_input_gradient(
        builder, gradient, shape, window, kind=kind[0], counts_padding=kind[1]
    )
    inputs = [(gradient, values_for(gradient, seed))]
    (result,) = check(builder, inputs, [out])
    upstream = held(graph, *inputs[0])
    expected = np.zeros(shape)
    for at, elements in windows(shape, window):
        count = window.kernel[0] * window.kernel[1] if kind[1] else len(elements)
        for row, column in elements:
            divisor = count if kind[0] == "average" else 1
            expected[:, :, row, column] += upstream[:, :, at[0], at[1]] / divisor
    np.testing.assert_allclose(result, expected, **near(dtype))


def test_the_gradient_of_a_mean_is_copied() -> None:
    graph, builder = new_builder(small_machine(4))
    gradient = graph.add_variable("float32", (2, 3, 1, 1), "gradient")
    graph.map_linearly(gradient)
    out = average_pool_input_gradient(builder, gradient, (2, 3, 5, 4), Window((5, 4)))
    values = values_for(gradient, 0)
    (result,) = check(builder, [(gradient, values)], [out])
    np.testing.assert_allclose(result, np.broadcast_to(values / 20, (2, 3, 5, 4)), rtol=1e-6)
    assert [c.name.rpartition("/")[2] for c in graph.compute_sets] == ["map", "broadcast"]


@pytest.mark.parametrize("kind", ["max", "average"])
def test_gradients_agree_with_differences_of_the_pool(kind: str) -> None:
    """The sum of gradient · pool, by central differences of the pool on the simulated machine."""
    window = Window((3, 2), (2, 1), padding_before=(1, 0), padding_after=(1, 1))
    shape, random = (1, 2, 5, 4), np.random.default_rng(3)
    values = random.permutation(40).reshape(shape).astype(np.float32)
    graph, builder = new_builder(small_machine(3))
    n_points = 2 * values.size
    x = graph.add_variable("float32", (n_points, *shape[1:]), "x")
    one = graph.add_variable("float32", shape, "one")
    gradient = graph.add_variable("float32", result_shape(shape, window), "gradient")
    for tensor in (x, one, gradient):
        graph.map_linearly(tensor)
    pools = pool(builder, x, window, kind)
    if kind == "max":
        out = max_pool_input_gradient(builder, one, pool(builder, one, window), gradient, window)
    else:
        out = average_pool_input_gradient(builder, gradient, shape, window)
    steps = np.concatenate([np.eye(40), -np.eye(40)]).reshape(n_points, *shape[1:]) / 4
    upstream = random.uniform(-1, 1, gradient.shape).astype(np.float32)
    inputs: Any = [(x, (values + steps).astype(np.float32)), (one, values), (gradient, upstream)]
    results = check(builder, inputs, [pools, out])
    changed = (results[0] * upstream).sum(axis=(1, 2, 3))
    expected = (changed[:40] - changed[40:]).reshape(shape) * 2
    np.testing.assert_allclose(results[1], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b, _, g, i: max_pool_input_gradient(b, i, g, g, Window((2, 2))), "is int32"),
        (
            lambda b, x, g, _: max_pool_input_gradient(b, x, x, g, Window((2, 2))),
            r"'x' is float32 \(1, 2, 4, 4\): expected float32 \(1, 2, 3, 3\)",
        ),
        (
            lambda b, _, g, __: average_pool_input_gradient(b, g, (1, 2, 4), Window((2, 2))),
            "expected four positive integers",
        ),
        (
            lambda b, _, g, __: average_pool_input_gradient(
                b, g, (1, 2, 4, 4), Window((2, 2)), kind="max"
            ),
            "unknown kind 'max': use average or sum",
        ),
        (
            lambda b, _, g, __: average_pool_input_gradient(
                b, g, (1, 2, 4, 4), Window((2, 2)), kind="sum", counts_padding=True
            ),
            "counts_padding has no effect on 'sum'",
        ),
        (
            lambda b, _, g, __: average_pool_input_gradient(b, g, (1, 2, 4, 4), Window((5, 5))),
            "does not fit",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, message: str) -> None:
    graph, builder = new_builder(small_machine(3))
    x = graph.add_variable("float32", (1, 2, 4, 4), "x")
    gradient = graph.add_variable("float32", (1, 2, 3, 3), "gradient")
    indices = graph.add_variable("int32", (1, 2, 4, 4), "indices")
    for tensor in (x, gradient, indices):
        graph.map_linearly(tensor)
    with pytest.raises(BadGraph, match=message):
        call(builder, x, gradient, indices)


@given(
    st.sampled_from(["max", "average", "sum"]),
    st.booleans(),
    geometries(),
    TYPES,
    st.sampled_from([4, 8, 12]),
    seeds,
)
def test_a_pool_reads_smaller_groups_where_they_lie(
    kind: str, counts_padding: bool, geometry: Any, dtype: str, group: int, seed: int
) -> None:
    (n_images, _, *field), window = geometry
    graph, builder = new_builder(small_machine(7))
    blocked = graph.add_variable(dtype, (2 * 48 // group, n_images, *field, group), "x")
    graph.map_linearly(blocked, grain=group)
    x = blocked.dim_shuffle(1, 0, 4, 2, 3).reshape(n_images, 96, *field)
    counts = counts_padding and kind == "average"
    out = pool(builder, x, window, kind, counts_padding=counts)
    values = np.round(values_for(x, seed))
    (result,) = check(builder, [(x, values)], [out])
    assert [c.name.rpartition("/")[2] for c in graph.compute_sets] == ["pool"]
    for at, elements in windows(x.shape, window):
        if not elements:
            continue
        taken = np.stack([values[:, :, row, column] for row, column in elements])
        count = window.kernel[0] * window.kernel[1] if counts else len(elements)
        expected = taken.max(axis=0) if kind == "max" else taken.sum(axis=0)
        expected = expected / (count if kind == "average" else 1)
        np.testing.assert_allclose(result[:, :, at[0], at[1]], expected, **near(dtype))


def test_a_gradient_is_divided_as_the_fewest_cycles_are() -> None:
    """A part per tile: 96 channels of 4, with two parts of the rows."""
    graph, builder = new_builder(small_machine(48))
    gradient = graph.add_variable("float16", (1, 24, 8, 8, 4), "gradient")
    graph.map_linearly(gradient, grain=4)
    view = gradient.dim_shuffle(0, 1, 4, 2, 3).reshape(1, 96, 8, 8)
    window = Window((3, 3), padding_before=(1, 1), padding_after=(1, 1))
    out = average_pool_input_gradient(builder, view, (1, 96, 8, 8), window, kind="sum")
    (batch,) = graph.compute_sets[0].batches
    assert batch.tile.tolist() == list(range(48))
    assert batch.fields["out"].size[0].tolist() == [4, 8, 4]
    assert out.variable.shape == (1, 24, 8, 8, 4)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_gradient_has_one_operation_per_element_of_a_window(dtype: str) -> None:
    graph, builder = new_builder(small_machine(5))
    window = Window((3, 2), (2, 1), (1, 2), (1, -1), (1, 2))
    shape = (2, 8, 7, 6)
    x = graph.add_variable(dtype, shape, "x")
    gradient = graph.add_variable(dtype, result_shape(shape, window), "gradient")
    for tensor in (x, gradient):
        graph.map_linearly(tensor)
    average_pool_input_gradient(builder, gradient, shape, window, kind="sum")
    max_pool_input_gradient(builder, x, gradient, gradient, window)
    n_elements = 2 * 8 * sum(len(elements) for _, elements in windows(shape, window))
    executable = compile_programs(graph, [builder.sequence])
    assert sum(int(step.cost.flops.sum()) for step in executable.steps) == 2 * n_elements
    assert stated_flops(builder.sequence) == 2 * n_elements
