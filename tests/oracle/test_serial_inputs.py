"""Convolutions and products with serial parts of the inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.oracle.compared import check, held, near, seeds, values_for
from tests.oracle.drawn_graphs import machines, new_builder, views
from tests.oracle.test_gradients import naive_input_gradient, naive_weight_gradient
from tests.oracle.windows import naive_convolution, windows

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import View
from tilescope.engine.library.poplin.convolution import convolution, matmul
from tilescope.engine.library.poplin.transposed import transposed_convolution
from tilescope.engine.library.poplin.weight_gradient import weight_gradient
from tilescope.engine.library.window import Window, output_size

MANY_PLANS = settings(max_examples=10, suppress_health_check=[HealthCheck.filter_too_much])

#: Parts of the inputs, and optionally of the other summed dimensions.
SPLITS = st.sampled_from(
    [
        {"serial inputs": 2},
        {"serial inputs": 4},
        {"serial inputs": 2, "inputs": 1},
        {"serial inputs": 2, "inputs": 2},
    ]
)


@MANY_PLANS
@given(st.data(), machines(), st.sampled_from(["float32", "float16"]), st.booleans(), seeds)
def test_convolution(
    data: st.DataObject, machine: Any, dtype: str, is_constant: bool, seed: int
) -> None:
    """One group and several, strided, dilated and padded, with partial sums in half and float."""
    graph, builder = new_builder(machine)
    size = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    window = data.draw(windows(*size))
    groups = data.draw(st.sampled_from([1, 2, 5]))
    inputs = data.draw(st.sampled_from([4, 8, 32, 48]))
    outputs = data.draw(st.sampled_from([1, 8, 24]))
    requested = data.draw(SPLITS)
    x = data.draw(views(graph, (2, groups * inputs, *size), dtype))
    shape = (groups * outputs, inputs, *window.kernel)
    operands: list[tuple[View, np.ndarray]] = [(x, values_for(x, seed))]
    w: Any = np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
    if not is_constant:
        w = data.draw(views(graph, shape, dtype, "w"))
        operands.append((w, values_for(w, seed + 1, low=-1, high=1)))
    sums = data.draw(st.sampled_from(["float", "half"] if dtype == "float16" else ["float"]))
    try:
        out = convolution(builder, x, w, window, groups, partials_type=sums, split=requested)
    except BadGraph as refused:
        assume("has the split" not in str(refused))
        raise
    (plan,) = builder.plans
    assert {name: plan.split[name] for name in requested} == requested
    assert plan.n_serial == requested["serial inputs"]
    (result,) = check(builder, operands, [out])
    known = held(graph, *operands[1]) if not is_constant else w.astype(dtype).astype(np.float32)
    expected = naive_convolution(held(graph, *operands[0]), known, window, groups)
    n_terms = inputs * window.kernel[0] * window.kernel[1]
    near(result, expected, n_terms, dtype)


@MANY_PLANS
@given(st.data(), machines(), st.sampled_from(["constant", "computed", "left"]), seeds)
def test_matmul(data: st.DataObject, machine: Any, kind: str, seed: int) -> None:
    """Also batched; with swapped operands, the constants are the images."""
    graph, builder = new_builder(machine)
    batch = data.draw(st.sampled_from([1, 3]))
    rows, inner, columns = (data.draw(st.sampled_from([4, 8, 16, 48])) for _ in range(3))
    requested = data.draw(SPLITS)
    a = data.draw(views(graph, (batch, rows, inner), name="a"))
    left, right = values_for(a, seed), np.random.default_rng(seed).random((batch, inner, columns))
    operands: list[tuple[View, np.ndarray]] = [(a, left)]
    try:
        if kind == "computed":
            b = data.draw(views(graph, right.shape, name="b"))
            operands.append((b, right))
            out = matmul(builder, a, b, split=requested)
        else:
            out = matmul(builder, a, right, split=requested)
    except BadGraph as refused:
        assume("has the split" not in str(refused))
        raise
    assert builder.plans[0].n_serial > 1
    (result,) = check(builder, operands, [out])
    near(result, left.astype(np.float64) @ right, inner, "float32")


@MANY_PLANS
@given(st.data(), machines(), st.booleans(), seeds)
def test_backward_passes(data: st.DataObject, machine: Any, of_weights: bool, seed: int) -> None:
    """The weight gradient sums over the images, the input gradient over the outputs."""
    graph, builder = new_builder(machine)
    size = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    window = data.draw(windows(*size))
    window = Window(window.kernel, (1, 1), window.dilation, window.padding_before, window.kernel)
    field = tuple(output_size(size[d], d, window) for d in (0, 1))
    assume(min(field) > 0)
    groups, requested = data.draw(st.sampled_from([1, 2])), {"serial inputs": 2}
    n_images, outputs = (4, 3) if of_weights else (1, 8)
    gradient = data.draw(views(graph, (n_images, groups * outputs, *field), name="gradient"))
    arriving = values_for(gradient, seed)
    if of_weights:
        x = data.draw(views(graph, (n_images, groups * 2, *size)))
        values = values_for(x, seed + 1)
        out = weight_gradient(builder, x, gradient, window, groups, split=requested)
        operands = [(x, values), (gradient, arriving)]
        expected = naive_weight_gradient(values, arriving, window, groups)
    else:
        w = np.random.default_rng(seed).uniform(-1, 1, (groups * outputs, 2, *window.kernel))
        w = w.astype(np.float32)
        out = transposed_convolution(builder, gradient, w, window, size, groups, split=requested)
        operands = [(gradient, arriving)]
        expected = naive_input_gradient(arriving, w, window, size, groups)
    assert builder.plans[0].split["serial inputs"] == 2
    (result,) = check(builder, operands, [out])
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
