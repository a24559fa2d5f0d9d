"""Convolutions, products and pools on random shapes, against the naive machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.compared import check, seeds, small_machine, values_for
from tests.oracle.drawn_graphs import machines, new_builder, views
from tests.oracle.windows import naive_convolution, windows

from tilescope.engine.graph import View
from tilescope.engine.library.poplin.convolution import convolution, matmul
from tilescope.engine.library.popnn.pool import pool
from tilescope.engine.library.popops.elementwise.operations import binary, unary
from tilescope.engine.library.window import Window


@given(st.data(), machines(), seeds)
def test_convolution(data: st.DataObject, machine: Any, seed: int) -> None:
    graph, builder = new_builder(machine)
    height, width = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    groups = data.draw(st.integers(1, 3))
    per_group = data.draw(st.sampled_from([1, 2, 3, 9]))
    outputs = data.draw(st.sampled_from([1, 2, 5, 17]))
    images = data.draw(st.integers(1, 2))
    window = data.draw(windows(height, width))
    x = data.draw(views(graph, (images, groups * per_group, height, width)))
    random = np.random.default_rng(seed)
    w = random.uniform(-1, 1, (groups * outputs, per_group, *window.kernel)).astype(np.float32)
    out = convolution(builder, x, w, window, groups)
    values = values_for(x, seed)
    (result,) = check(builder, [(x, values)], [out])
    expected = naive_convolution(values, w, window, groups)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    assert len(builder.plans) == 1


@pytest.mark.parametrize("before", [-2, -1, 1, 2])
def test_a_kernel_of_one_element_over_a_field_that_is_moved(before: int) -> None:
    """A field cropped at one end and padded at the other keeps its size."""
    graph, builder = new_builder(small_machine(3))
    window = Window((1, 1), padding_before=(before, 0), padding_after=(-before, 0))
    x = graph.add_variable("float32", (2, 3, 4, 2), "x")
    graph.map_linearly(x)
    w = np.random.default_rng(1).uniform(-1, 1, (5, 3, 1, 1)).astype(np.float32)
    out = convolution(builder, x, w, window)
    values = values_for(x, 2)
    (result,) = check(builder, [(x, values)], [out])
    expected = naive_convolution(values, w, window, 1)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@given(st.data(), machines(), seeds)
def test_depthwise_convolution(data: st.DataObject, machine: Any, seed: int) -> None:
    graph, builder = new_builder(machine)
    height, width = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    channels = data.draw(st.sampled_from([2, 3, 16, 20]))
    window = data.draw(windows(height, width))
    x = data.draw(views(graph, (1, channels, height, width)))
    random = np.random.default_rng(seed)
    w = random.uniform(-1, 1, (channels, 1, *window.kernel)).astype(np.float32)
    out = convolution(builder, x, w, window, channels)
    values = values_for(x, seed)
    (result,) = check(builder, [(x, values)], [out])
    expected = naive_convolution(values, w, window, channels)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@given(st.data(), machines(), st.booleans(), seeds)
def test_matmul(data: st.DataObject, machine: Any, is_constant: bool, seed: int) -> None:
    graph, builder = new_builder(machine)
    batch, rows = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 5))
    inner, columns = (data.draw(st.sampled_from([1, 2, 7, 8, 18, 24])) for _ in range(2))
    a = data.draw(views(graph, (batch, rows, inner), name="a"))
    left = values_for(a, seed)
    random = np.random.default_rng(seed)
    right = random.uniform(-1, 1, (batch, inner, columns)).astype(np.float32)
    inputs: list[tuple[View, np.ndarray]] = [(a, left)]
    if is_constant:
        out = matmul(builder, a, right)
    else:
        b = data.draw(views(graph, right.shape, name="b"))
        out = matmul(builder, a, b)
        inputs.append((b, right))
    (result,) = check(builder, inputs, [out])
    np.testing.assert_allclose(result, left.astype(np.float64) @ right, rtol=1e-4, atol=1e-4)


@given(st.data(), machines(), seeds)
def test_half_precision(data: st.DataObject, machine: Any, seed: int) -> None:
    """A product, a bias and a relu in half: all intermediate results are representable in half."""
    graph, builder = new_builder(machine)
    rows, inner, columns = (data.draw(st.sampled_from(sizes)) for sizes in ([1, 3], [2, 16], [4]))
    a = data.draw(views(graph, (1, rows, inner), "float16", "a"))
    bias = data.draw(views(graph, (columns,), "float16", "bias"))
    right = np.random.default_rng(seed).uniform(-1, 1, (1, inner, columns))
    out = matmul(builder, a, right)
    out = unary(builder, "relu", binary(builder, "add", out, bias, out.shape))
    left, added = values_for(a, seed), values_for(bias, seed + 1)
    (result,) = check(builder, [(a, left), (bias, added)], [out])
    assert result.dtype == np.float16
    expected = np.maximum(left.astype(np.float64) @ right + added, 0)
    np.testing.assert_allclose(result, expected, rtol=1e-2, atol=2e-2)


@given(st.data(), machines(), st.sampled_from(["max", "average", "sum"]), st.booleans(), seeds)
def test_pool(
    data: st.DataObject, machine: Any, kind: str, counts_padding: bool, seed: int
) -> None:
    graph, builder = new_builder(machine)
    height, width = data.draw(st.integers(2, 6)), data.draw(st.integers(2, 6))
    channels = data.draw(st.sampled_from([1, 2, 16, 18]))
    kernel = (data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3)))
    before, after = ([data.draw(st.integers(0, k // 2)) for k in kernel] for _ in range(2))
    stride = (data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2)))
    kernel = (min(kernel[0], height), min(kernel[1], width))
    window = Window(kernel, stride, (1, 1), (before[0], before[1]), (after[0], after[1]))
    x = data.draw(views(graph, (data.draw(st.integers(1, 2)), channels, height, width)))
    out = pool(builder, x, window, kind, counts_padding=counts_padding and kind == "average")
    check(builder, [(x, values_for(x, seed))], [out])
