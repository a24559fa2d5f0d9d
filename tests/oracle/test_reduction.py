"""Reductions, and partial sums reduced in two and three stages, against the naive machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.compared import check, seeds, small_machine, values_for
from tests.oracle.drawn_graphs import machines, new_builder, shapes, views
from tests.oracle.naive_codelets import REDUCTIONS

from tilescope.engine import (
    load_machine,
)
from tilescope.engine.library.convolution import convolution, matmul
from tilescope.engine.library.reduce import reduce
from tilescope.engine.library.window import Window
from tilescope.engine.planner.reduction import left_after_stages

NUMPY_REDUCTIONS: dict[str, Any] = {
    "sum": np.sum,
    "maximum": np.max,
    "minimum": np.min,
    "product": np.prod,
}


@given(
    st.data(),
    machines(),
    shapes(most=60),
    st.sampled_from(sorted(REDUCTIONS)),
    seeds,
)
def test_reduce(data: st.DataObject, machine: Any, shape: Any, operation: str, seed: int) -> None:
    graph, builder = new_builder(machine)
    x = data.draw(views(graph, shape))
    dims = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    scale = data.draw(st.sampled_from([1.0, 0.25]))
    out = reduce(builder, operation, x, dims, scale)
    values = values_for(x, seed, low=-1.2, high=1.2)
    (result,) = check(builder, [(x, values)], [out])
    function = NUMPY_REDUCTIONS[operation]
    expected = function(values.astype(np.float64), axis=tuple(dims), keepdims=True) * scale
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("operation", sorted(REDUCTIONS))
def test_a_long_reduction_goes_over_partial_results(operation: str) -> None:
    graph, builder = new_builder(small_machine(8))
    x = graph.add_variable("float32", (2, 600), "x")
    graph.map_linearly(x, grain=3)
    out = reduce(builder, operation, x, [1], 0.5)
    values = values_for(x, 3, low=0.99, high=1.01)
    (result,) = check(builder, [(x, values)], [out])
    assert [s.name.rsplit("/", 1)[-1] for s in graph.compute_sets] == [
        "reduceStage1",
        "reduceStage2",
    ]
    function = NUMPY_REDUCTIONS[operation]
    expected = function(values.astype(np.float64), axis=1, keepdims=True) * 0.5
    np.testing.assert_allclose(result, expected, rtol=2e-5)


@pytest.mark.parametrize(("n_tiles", "n_stages"), [(64, 2), (128, 3)])
def test_product_in_stages(n_tiles: int, n_stages: int) -> None:
    machine = load_machine("gc200", tiles_per_ipu=n_tiles, parameter_set="ipu_model")
    graph, builder = new_builder(machine)
    a = graph.add_variable("float32", (1, 2, 4000), "a")
    graph.map_linearly(a, grain=4)
    right = np.random.default_rng(1).uniform(-1, 1, (1, 4000, 1)).astype(np.float32)
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
    machine = load_machine("gc200", tiles_per_ipu=n_tiles, parameter_set="ipu_model")
    graph, builder = new_builder(machine)
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
