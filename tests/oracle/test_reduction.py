"""Reductions, and partial sums reduced in two and three stages, against the naive machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.compared import check, held, seeds, small_machine, values_for
from tests.oracle.drawn_graphs import machines, new_builder, shapes, tensors, views
from tests.oracle.naive_codelets import REDUCTIONS

from tilescope.engine import (
    load_machine,
)
from tilescope.engine.errors import BadGraph
from tilescope.engine.library.poplin.convolution import convolution, matmul
from tilescope.engine.library.popops.reduction.reduce import (
    Reduction,
    reduce,
    reduce_many,
    reduce_with_output,
)
from tilescope.engine.library.window import Window
from tilescope.engine.machine import Machine
from tilescope.engine.planner.convolution.reduction import left_after_stages

NUMPY_REDUCTIONS: dict[str, Any] = {
    "sum": np.sum,
    "square_sum": lambda x, **how: np.sum(x * x, **how),
    "maximum": np.max,
    "minimum": np.min,
    "product": np.prod,
    "log_add": np.logaddexp.reduce,
    "logical_and": np.all,
    "logical_or": np.any,
}
#: Types of operands by operation; the last column of a case.
OF_BOOLS = {"logical_and", "logical_or"}
OF_FLOATS = sorted(set(REDUCTIONS) - OF_BOOLS)
OF_INTEGERS = ["sum", "square_sum", "maximum", "minimum", "product"]
UPDATING = ["log_add", "square_sum", "sum"]


def numpy_value(operation: str, values: np.ndarray, dims: Any) -> np.ndarray:
    full = values.astype(np.float64)
    for d in sorted(dims) if operation == "log_add" else ():
        full = np.logaddexp.reduce(full, axis=d, keepdims=True)
    if operation == "log_add":
        return full
    return np.asarray(NUMPY_REDUCTIONS[operation](full, axis=tuple(dims), keepdims=True))


def scaled(operation: str, value: np.ndarray, scale: float) -> np.ndarray:
    return value + scale if operation == "log_add" else value * scale


@given(
    st.data(),
    machines(),
    shapes(most=60),
    st.sampled_from(OF_FLOATS),
    st.sampled_from(["float32", "float16"]),
    seeds,
)
def test_reduce(
    data: st.DataObject, machine: Any, shape: Any, operation: str, dtype: str, seed: int
) -> None:
    graph, builder = new_builder(machine)
    x = data.draw(views(graph, shape, dtype))
    dims = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    scale = data.draw(st.sampled_from([None, 0.25]))
    out = reduce(builder, operation, x, dims, scale)
    values = values_for(x, seed, low=-1.2, high=1.2)
    (result,) = check(builder, [(x, values)], [out])
    expected = numpy_value(operation, held(graph, x, values), dims)
    if scale is not None:
        expected = scaled(operation, expected, scale)
    step = 2e-5 if dtype == "float32" else 2e-3
    np.testing.assert_allclose(result, expected, rtol=step, atol=step)


@given(st.data(), machines(), shapes(most=60), st.sampled_from(OF_INTEGERS), seeds)
def test_reduce_integers(
    data: st.DataObject, machine: Any, shape: Any, operation: str, seed: int
) -> None:
    graph, builder = new_builder(machine)
    x = data.draw(views(graph, shape, "int32"))
    dims = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    out = reduce(builder, operation, x, dims)
    low = -2 if operation == "product" else -1000
    values = np.random.default_rng(seed).integers(low, -low, shape).astype(np.int32)
    (result,) = check(builder, [(x, values)], [out])
    function = NUMPY_REDUCTIONS[operation]
    with np.errstate(over="ignore"):
        expected = function(values.astype(np.int64), axis=tuple(dims), keepdims=True)
    np.testing.assert_array_equal(result, expected.astype(np.int32))


@given(st.data(), machines(), shapes(most=60), st.sampled_from(sorted(OF_BOOLS)), seeds)
def test_reduce_bools(
    data: st.DataObject, machine: Any, shape: Any, operation: str, seed: int
) -> None:
    graph, builder = new_builder(machine)
    x = data.draw(views(graph, shape, "bool"))
    dims = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    out = reduce(builder, operation, x, dims)
    share = 0.9 if operation == "logical_and" else 0.1
    values = np.random.default_rng(seed).random(shape) < share
    (result,) = check(builder, [(x, values)], [out])
    expected = NUMPY_REDUCTIONS[operation](values, axis=tuple(dims), keepdims=True)
    np.testing.assert_array_equal(result, expected)


@given(
    st.data(),
    machines(),
    shapes(most=40),
    st.sampled_from(OF_FLOATS),
    st.sampled_from(["float32", "float16"]),
    st.booleans(),
    seeds,
)
def test_reduce_with_output(
    data: st.DataObject,
    machine: Any,
    shape: Any,
    operation: str,
    dtype: str,
    is_update: bool,
    seed: int,
) -> None:
    """Any layout of the output, which may differ in precision."""
    graph, builder = new_builder(machine)
    x = data.draw(views(graph, shape, dtype))
    dims = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    result_shape = tuple(1 if d in dims else size for d, size in enumerate(shape))
    out_dtype = data.draw(st.sampled_from(["float32", "float16"]))
    out = data.draw(views(graph, result_shape, out_dtype, "out"))
    is_update = is_update and operation in UPDATING
    reduce_with_output(builder, operation, x, out, dims, 0.5, is_update)
    values = values_for(x, seed, low=-1.2, high=1.2)
    before = values_for(out, seed + 1)
    (result,) = check(builder, [(x, values), (out, before)], [out])
    expected = scaled(operation, numpy_value(operation, held(graph, x, values), dims), 0.5)
    if is_update:
        old = held(graph, out, before)
        expected = np.logaddexp(old, expected) if operation == "log_add" else old + expected
    step = 2e-5 if dtype == out_dtype == "float32" else 3e-3
    np.testing.assert_allclose(result, expected, rtol=step, atol=step)


@given(
    st.data(),
    machines(),
    shapes(most=60),
    st.sampled_from(OF_FLOATS),
    st.sampled_from(["float32", "float16"]),
    st.booleans(),
    seeds,
)
def test_a_scale_that_another_tensor_holds(
    data: st.DataObject,
    machine: Any,
    shape: Any,
    operation: str,
    dtype: str,
    is_update: bool,
    seed: int,
) -> None:
    graph, builder = new_builder(machine)
    x = data.draw(views(graph, shape, dtype))
    dims = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    result_shape = tuple(1 if d in dims else size for d, size in enumerate(shape))
    out = data.draw(views(graph, result_shape, dtype, "out"))
    scale = data.draw(tensors(graph, (1, 1), "float32", "scale"))
    is_update = is_update and operation in UPDATING
    reduce_with_output(builder, operation, x, out, dims, scale, is_update)
    values = values_for(x, seed, low=-1.2, high=1.2)
    number = data.draw(st.sampled_from([1.0, 0.25]))
    before, factor = values_for(out, seed + 1), np.full((1, 1), number)
    (result,) = check(builder, [(x, values), (out, before), (scale, factor)], [out])
    expected = scaled(operation, numpy_value(operation, held(graph, x, values), dims), number)
    if is_update:
        old = held(graph, out, before)
        expected = np.logaddexp(old, expected) if operation == "log_add" else old + expected
    step = 2e-5 if dtype == "float32" else 3e-3
    np.testing.assert_allclose(result, expected, rtol=step, atol=step)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_an_output_without_tiles_gets_those_of_the_result(dtype: str) -> None:
    """Also where the result lies in another order than its output: of a transposed operand."""
    graph, builder = new_builder(small_machine(4))
    x = graph.add_variable("float16", (5, 3, 8), "x")
    graph.map_linearly(x)
    out = graph.add_variable(dtype, (3, 5), "out")
    reduce_with_output(builder, "sum", x.dim_shuffle(1, 0, 2), out, [2])
    values = values_for(x, 0)
    (result,) = check(builder, [(x, values)], [out])
    np.testing.assert_allclose(result, held(graph, x, values).sum(2).T, rtol=2e-3, atol=1e-2)
    assert len(graph.tile_mapping(out).tile) > 1


@pytest.mark.parametrize(("dtype", "shape"), [("float16", (1,)), ("float32", (2,))])
def test_a_scale_is_one_float(dtype: str, shape: tuple[int, ...]) -> None:
    graph, builder = new_builder(small_machine(2))
    x, scale = graph.add_variable("float32", (4, 4), "x"), graph.add_variable(dtype, shape, "s")
    for tensor in (x, scale):
        graph.map_linearly(tensor)
    with pytest.raises(BadGraph, match=r"scale 's' of a reduction is .* tensor of one float32"):
        reduce(builder, "sum", x, [0], scale)


@given(st.data(), machines(), st.lists(shapes(most=30), min_size=2, max_size=4), seeds)
def test_reduce_many(data: st.DataObject, machine: Any, sizes: Any, seed: int) -> None:
    graph, builder = new_builder(machine)
    required, inputs, expected = [], [], []
    for i, shape in enumerate(sizes):
        x = data.draw(views(graph, shape, "float32", f"x{i}"))
        dims = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
        operation = data.draw(st.sampled_from(OF_FLOATS))
        values = values_for(x, seed + i, low=-1.2, high=1.2)
        required.append(Reduction(operation, x, dims))
        inputs.append((x, values))
        expected.append(numpy_value(operation, values, dims))
    outs = reduce_many(builder, required)
    alone = [len(plan.stages) for plan in builder.plans]
    named = [s for s in graph.compute_sets if "/reduceMany/reduce" in f"/{s.name}"]
    assert len(named) == max(alone)
    results = check(builder, inputs, outs)
    for result, value in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, value, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("operation", OF_FLOATS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("shape", "dims", "n_tiles"),
    [((2, 600), (1,), 8), ((600, 6), (0,), 16), ((4, 40, 3, 8), (1, 2), 24), ((1500,), (0,), 40)],
)
def test_a_long_reduction_goes_over_partial_results(
    operation: str, dtype: str, shape: tuple[int, ...], dims: tuple[int, ...], n_tiles: int
) -> None:
    graph, builder = new_builder(small_machine(n_tiles))
    x = graph.add_variable(dtype, shape, "x")
    graph.map_linearly(x, grain=3)
    out = reduce(builder, operation, x, dims, 0.5)
    values = values_for(x, 3, low=0.99, high=1.01)
    (result,) = check(builder, [(x, values)], [out])
    assert len(builder.plans[0].stages) > 1
    expected = scaled(operation, numpy_value(operation, held(graph, x, values), dims), 0.5)
    np.testing.assert_allclose(result, expected, rtol=2e-5 if dtype == "float32" else 2e-3)


def test_sums_of_halves_have_float_partials() -> None:
    """Sixty thousand ones: partial sums of halves would stop at 2048 or overflow."""
    graph, builder = new_builder(small_machine(4))
    x = graph.add_variable("float16", (60_000,), "x")
    graph.map_linearly(x)
    out = reduce(builder, "sum", x, [0], 1 / 60_000)
    (result,) = check(builder, [(x, np.ones(60_000, np.float32))], [out])
    assert result.tolist() == [1.0]
    partials = [v for v in graph.variables if "reduceStage" in v.name]
    assert partials
    assert {v.dtype.name for v in partials} == {"float32"}


def _with_short_sync(n_tiles: int) -> Machine:
    """Return a machine on which further stages pay on few tiles."""
    machine = load_machine("gc200", tiles_per_ipu=n_tiles, parameter_set="ipu_model")
    return replace(machine, sync_cycles=40)


@pytest.mark.parametrize(("n_tiles", "inner", "n_stages"), [(64, 6000, 2), (128, 4000, 3)])
def test_product_in_stages(n_tiles: int, inner: int, n_stages: int) -> None:
    graph, builder = new_builder(_with_short_sync(n_tiles))
    a = graph.add_variable("float32", (1, 2, inner), "a")
    graph.map_linearly(a, grain=4)
    right = np.random.default_rng(1).uniform(-1, 1, (1, inner, 1)).astype(np.float32)
    out = matmul(builder, a, right)
    assert len(left_after_stages(builder.plans[0])) == n_stages
    left = values_for(a, 2)
    (result,) = check(builder, [(a, left)], [out])
    np.testing.assert_allclose(result, left.astype(np.float64) @ right, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("n_tiles", "channels", "n_stages"), [(40, (640, 3), 2), (160, (2560, 1), 3)]
)
def test_convolution_in_stages(n_tiles: int, channels: tuple[int, int], n_stages: int) -> None:
    """Four pixels; the sections of the partial sums differ in size."""
    graph, builder = new_builder(_with_short_sync(n_tiles))
    inputs, outputs = channels
    x = graph.add_variable("float16", (1, inputs, 2, 2), "x")
    graph.map_linearly(x, grain=4)
    w = np.random.default_rng(1).uniform(-1, 1, (outputs, inputs, 1, 1)).astype(np.float32)
    out = convolution(builder, x, w, Window((1, 1)))
    assert len(left_after_stages(builder.plans[0])) == n_stages
    values = values_for(x, 3)
    (result,) = check(builder, [(x, values)], [out])
    expected = np.einsum("nchw,oc->nohw", values.astype(np.float64), w[:, :, 0, 0])
    np.testing.assert_allclose(result, expected, rtol=5e-3, atol=5e-2)
