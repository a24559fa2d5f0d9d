"""Transposed convolutions and the backward passes, against explicit sums in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle.compared import check, values_for
from tests.oracle.drawn_graphs import machines, new_builder, views
from tests.oracle.windows import naive_convolution, windows

from tilescope.engine import Engine, compile_programs, load_machine
from tilescope.engine.errors import BadGraph
from tilescope.engine.library.poplin.transposed import transposed_convolution
from tilescope.engine.library.poplin.updates import (
    convolution_bias_update,
    convolution_weight_update,
)
from tilescope.engine.library.poplin.weight_gradient import weight_gradient
from tilescope.engine.library.window import Window, output_size


def places(window: Window, y: int, x: int, ky: int, kx: int) -> tuple[int, int]:
    """Return the input that an output reads through a kernel position."""
    offset = [
        o * window.stride[d] - window.padding_before[d] + k * window.dilation[d]
        for d, (o, k) in enumerate(((y, ky), (x, kx)))
    ]
    return offset[0], offset[1]


def naive_input_gradient(
    gradient: np.ndarray, w: np.ndarray, window: Window, size: tuple[int, int], groups: int
) -> np.ndarray:
    n_out, per_group = w.shape[:2]
    actual = np.zeros((gradient.shape[0], per_group * groups, *size))
    for n, o, y, x in np.ndindex(*gradient.shape):
        group = o // (n_out // groups)
        for i, ky, kx in np.ndindex(*w.shape[1:]):
            r, c = places(window, y, x, ky, kx)
            if 0 <= r < size[0] and 0 <= c < size[1]:
                actual[n, group * per_group + i, r, c] += gradient[n, o, y, x] * w[o, i, ky, kx]
    return actual


def naive_weight_gradient(
    values: np.ndarray, gradient: np.ndarray, window: Window, groups: int
) -> np.ndarray:
    n_out, per_group = gradient.shape[1], values.shape[1] // groups
    actual = np.zeros((n_out, per_group, *window.kernel))
    for n, o, y, x in np.ndindex(*gradient.shape):
        group = o // (n_out // groups)
        for i, ky, kx in np.ndindex(*actual.shape[1:]):
            r, c = places(window, y, x, ky, kx)
            if 0 <= r < values.shape[2] and 0 <= c < values.shape[3]:
                actual[o, i, ky, kx] += (
                    gradient[n, o, y, x] * values[n, group * per_group + i, r, c]
                )
    return actual


@settings(max_examples=8)
@given(st.data(), machines(), st.booleans(), st.integers(0, 1000))
def test_gradient_with_respect_to_the_input(
    data: st.DataObject, machine: Any, is_constant: bool, seed: int
) -> None:
    graph, builder = new_builder(machine)
    size = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    window = data.draw(windows(*size))
    groups = data.draw(st.sampled_from([1, 2]))
    inputs, outputs = data.draw(st.sampled_from([1, 3])), data.draw(st.sampled_from([1, 2, 5]))
    field = [output_size(size[d], d, window) for d in (0, 1)]
    x = data.draw(views(graph, (2, groups * outputs, *field)))
    values = values_for(x, seed)
    w = np.random.default_rng(seed).uniform(-1, 1, (groups * outputs, inputs, *window.kernel))
    w = w.astype(np.float32)
    given_values = [(x, values)]
    if is_constant:
        out = transposed_convolution(builder, x, w, window, size, groups)
    else:
        weights = data.draw(views(graph, w.shape, name="weights"))
        out = transposed_convolution(builder, x, weights, window, size, groups)
        given_values.append((weights, w))
    (result,) = check(builder, given_values, [out])
    np.testing.assert_allclose(
        result, naive_input_gradient(values, w, window, size, groups), rtol=1e-4, atol=1e-4
    )


@settings(max_examples=8)
@given(st.data(), machines(), st.integers(0, 1000))
def test_gradient_with_respect_to_the_weights(data: st.DataObject, machine: Any, seed: int) -> None:
    graph, builder = new_builder(machine)
    size = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    window = data.draw(windows(*size))
    groups = data.draw(st.sampled_from([1, 2]))
    inputs, outputs = data.draw(st.sampled_from([1, 3])), data.draw(st.sampled_from([1, 2, 5]))
    field = [output_size(size[d], d, window) for d in (0, 1)]
    x = data.draw(views(graph, (2, groups * inputs, *size), name="x"))
    gradient = data.draw(views(graph, (2, groups * outputs, *field), name="gradient"))
    values, arriving = values_for(x, seed), values_for(gradient, seed + 1)
    out = weight_gradient(builder, x, gradient, window, groups)
    (result,) = check(builder, [(x, values), (gradient, arriving)], [out])
    np.testing.assert_allclose(
        result, naive_weight_gradient(values, arriving, window, groups), rtol=1e-4, atol=1e-4
    )


def test_forward_and_backward_are_adjoint() -> None:
    """For any x and y: <conv(x), y> = <x, transposed(y)>, without a second definition."""
    random = np.random.default_rng(3)
    window = Window((3, 2), stride=(2, 3), padding_before=(1, 0), padding_after=(0, 1))
    x = random.standard_normal((1, 4, 9, 8)).astype(np.float32)
    w = random.standard_normal((6, 4, 3, 2)).astype(np.float32)
    forward = naive_convolution(x, w, window, 1)
    y = random.standard_normal(forward.shape).astype(np.float32)
    graph, builder = new_builder(load_machine("gc200", tiles_per_ipu=13))
    given_y = graph.add_variable("float32", y.shape, "y")
    graph.map_linearly(given_y)
    out = transposed_convolution(builder, given_y, w, window, (9, 8))
    (back,) = check(builder, [(given_y, y)], [out])
    assert np.isclose((forward * y).sum(), (x * back).sum(), rtol=1e-4)


def test_sizes_that_do_not_fit_are_refused() -> None:
    graph, builder = new_builder(load_machine("gc200", tiles_per_ipu=4))
    x = graph.add_variable("float32", (1, 2, 3, 3), "x")
    with pytest.raises(BadGraph, match=r"gives \(5, 5\)"):
        transposed_convolution(
            builder, x, np.zeros((2, 1, 3, 3), np.float32), Window((3, 3)), (7, 7)
        )
    with pytest.raises(BadGraph, match="but the gradient is"):
        weight_gradient(builder, x, x, Window((3, 3)))


@pytest.mark.parametrize(("batch", "size"), [(2, 28), (1, 28), (3, 9)])
def test_weight_updates_add_the_scaled_gradient_where_the_weights_lie(
    batch: int, size: int
) -> None:
    # With 28 columns, groups of channels hold columns of two images.
    window = Window((3, 3), (2, 2), (1, 1), (1, 1), (1, 1))
    out_size = output_size(size, 0, window)
    graph, builder = new_builder(load_machine("gc200", tiles_per_ipu=64))
    shapes = {
        "x": (batch, 4, size, size),
        "gradient": (batch, 4, out_size, out_size),
        "weights": (4, 4, 3, 3),
        "biases": (4,),
    }
    tensors, values, rng = {}, {}, np.random.default_rng(0)
    for name, shape in shapes.items():
        tensors[name] = graph.add_variable("float32", shape, name)
        builder.spread(tensors[name])
        values[name] = rng.integers(-3, 4, shape).astype(np.float32)
    convolution_weight_update(
        builder, tensors["gradient"], tensors["weights"], tensors["x"], window, -0.5
    )
    convolution_bias_update(builder, tensors["gradient"], tensors["biases"], 0.25)
    executable = compile_programs(graph, [builder.sequence])
    with Engine(executable) as engine:
        for name, tensor in tensors.items():
            engine.write_tensor(tensor, values[name])
        engine.run()
        weights, biases = (engine.read_tensor(tensors[n]) for n in ("weights", "biases"))
    deltas = naive_weight_gradient(values["x"], values["gradient"], window, 1)
    np.testing.assert_array_equal(weights, values["weights"] - 0.5 * deltas)
    sums = values["gradient"].sum((0, 2, 3))
    np.testing.assert_array_equal(biases, values["biases"] + 0.25 * sums)


def test_updates_refuse_other_shapes() -> None:
    graph, builder = new_builder(load_machine("gc200", tiles_per_ipu=4))
    gradient = graph.add_variable("float32", (1, 4, 3, 3), "gradient")
    x = graph.add_variable("float32", (1, 2, 3, 3), "x")
    weights = graph.add_variable("float32", (4, 3, 1, 1), "weights")
    for tensor in (gradient, x, weights):
        builder.spread(tensor)
    with pytest.raises(BadGraph, match=r"the weights 'weights' have shape \(4, 3, 1, 1\)"):
        convolution_weight_update(builder, gradient, weights, x, Window((1, 1)), -1.0)
    with pytest.raises(BadGraph, match="the biases 'x' have shape"):
        convolution_bias_update(builder, gradient, x, -1.0)
