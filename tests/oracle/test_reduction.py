"""Partial sums added up in two and three stages, against the naive machine."""

from __future__ import annotations

import numpy as np
import pytest

from engine import load_machine
from engine.library.convolution import convolution, matmul
from engine.library.window import Window
from engine.planner.reduction import left_after_stages
from tests.oracle.drawn_graphs import new_builder
from tests.oracle.test_library import check, values_for


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
    """Of four pixels; the sections of the partial sums are not of one size."""
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
