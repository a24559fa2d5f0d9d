"""Convolutions whose taps become channels, and their gradients, against numpy and each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.oracle.compared import check, small_machine, values_for
from tests.oracle.drawn_graphs import new_builder

from tilescope.engine import Builder, Graph, Tensor, compile_programs, load_machine
from tilescope.engine.library.poplin.allocators import (
    create_convolution_input,
    create_convolution_weights,
)
from tilescope.engine.library.poplin.convolution import convolution
from tilescope.engine.library.poplin.patches import patches_of
from tilescope.engine.library.poplin.transposed import transposed_convolution
from tilescope.engine.library.poplin.weight_gradient import weight_gradient
from tilescope.engine.library.window import Window
from tilescope.engine.program import Sequence

#: Shapes of images and weights, window, groups: patches in both dimensions and in one, a kernel as
#: large as the field, a field of one column, and several groups.
CASES = [
    ((2, 3, 8, 12), (5, 3, 4, 4), Window((4, 4), stride=(4, 4)), 1),
    ((3, 1, 7, 10), (4, 1, 3, 10), Window((3, 10)), 1),
    ((2, 2, 6, 9), (6, 2, 2, 3), Window((2, 3), stride=(1, 3), padding_before=(1, 0)), 1),
    ((2, 4, 9, 1), (6, 2, 3, 1), Window((3, 1), padding_before=(1, 0), padding_after=(1, 0)), 2),
    ((2, 6, 4, 6), (4, 3, 2, 2), Window((2, 2), stride=(2, 2)), 2),
    ((1, 20, 3, 3), (4, 20, 3, 3), Window((3, 3)), 1),
    ((2, 32, 4, 6), (8, 32, 2, 2), Window((2, 2), stride=(2, 2)), 1),
    ((2, 8, 4, 6), (8, 8, 2, 3), Window((2, 3), stride=(2, 3)), 1),
]  # fmt: skip


def expected(
    x: NDArray[Any], w: NDArray[Any], z: NDArray[Any], window: Window, groups: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the result, and the gradients of input and weights for a gradient `z`."""
    before, after = window.padding_before, window.padding_after
    widths = [(0, 0), (0, 0), *((before[d], after[d]) for d in (0, 1))]
    padded = np.pad(x.astype(np.float64), widths)
    out = np.zeros(z.shape)
    x_gradient, w_gradient = np.zeros(padded.shape), np.zeros(w.shape)
    n_out, per_group, *kernel = w.shape
    share = n_out // groups
    for r, c in np.ndindex(*z.shape[2:]):
        rows = slice(r * window.stride[0], r * window.stride[0] + kernel[0])
        columns = slice(c * window.stride[1], c * window.stride[1] + kernel[1])
        for o in range(n_out):
            first = o // share * per_group
            part = np.s_[:, first : first + per_group, rows, columns]
            out[:, o, r, c] = np.einsum("nirc,irc->n", padded[part], w[o])
            x_gradient[part] += np.einsum("n,irc->nirc", z[:, o, r, c], w[o])
            w_gradient[o] += np.einsum("n,nirc->irc", z[:, o, r, c], padded[part])
    inner = np.s_[:, :, before[0] : before[0] + x.shape[2], before[1] : before[1] + x.shape[3]]
    return out, x_gradient[inner], w_gradient


def spread(builder: Builder, shape: tuple[int, ...], name: str) -> Tensor:
    """Add a variable that is spread evenly."""
    tensor = builder.graph.add_variable("float32", shape, name)
    builder.graph.map_linearly(tensor)
    return tensor


@pytest.mark.parametrize(("shape", "weights", "window", "groups"), CASES)
@pytest.mark.parametrize("is_allocated", [False, True])
def test_results_and_gradients(
    shape: tuple[int, ...],
    weights: tuple[int, ...],
    window: Window,
    groups: int,
    is_allocated: bool,
) -> None:
    _, builder = new_builder(small_machine(8))
    if is_allocated:
        x: Tensor = create_convolution_input(builder, shape, weights, window, groups)
        w: Tensor = create_convolution_weights(builder, weights, shape, window, groups)
    else:
        x, w = spread(builder, shape, "x"), spread(builder, weights, "w")
    assert x.shape == shape
    assert w.shape == weights
    out = convolution(builder, x, w, window, groups)
    z = spread(builder, tuple(out.shape), "z")
    deltas = transposed_convolution(builder, z, w, window, (shape[2], shape[3]), groups)
    gradient = weight_gradient(builder, x, z, window, groups)
    x_values, w_values, z_values = (values_for(t, k) for k, t in enumerate((x, w, z), 1))
    operands = [(x, x_values), (w, w_values), (z, z_values)]
    results = check(builder, operands, [out, deltas, gradient])
    rights = expected(x_values, w_values, z_values, window, groups)
    for result, right in zip(results, rights, strict=True):
        np.testing.assert_allclose(result, right, rtol=1e-4, atol=1e-3)


def test_constant_weights() -> None:
    shape, weights, window, groups = CASES[0]
    _, builder = new_builder(small_machine(8))
    x = spread(builder, shape, "x")
    constants = np.random.default_rng(1).uniform(-1, 1, weights).astype(np.float32)
    out = convolution(builder, x, constants, window, groups)
    values = values_for(x, 2)
    (result,) = check(builder, [(x, values)], [out])
    right = expected(values, constants, np.zeros(out.shape), window, groups)[0]
    np.testing.assert_allclose(result, right, rtol=1e-4, atol=1e-3)


def test_taps_of_windows_that_overlap_stay() -> None:
    assert not patches_of(Window((3, 3), stride=(2, 2)), (9, 9), 3)
    assert not patches_of(Window((2, 2), stride=(2, 2)), (9, 9), 3)
    assert not patches_of(Window((2, 2), stride=(2, 2), padding_before=(1, 1)), (7, 7), 3)
    assert not patches_of(Window((4, 4), dilation=(2, 2)), (4, 4), 3)
    assert patches_of(Window((2, 2), stride=(2, 2)), (8, 6), 3).taps == (2, 2)
    assert patches_of(Window((5, 200)), (15, 200), 1).taps == (1, 200)
    assert patches_of(Window((5, 200)), (15, 200), 1).turns


def test_an_embedding_of_patches_costs_what_its_product_costs() -> None:
    """A vision transformer's first layer: 16 x 16 patches of three channels."""

    def cycles(shape: tuple[int, ...], weights: tuple[int, ...], window: Window) -> int:
        graph = Graph(load_machine("gc200", tiles_per_ipu=64, parameter_set="ipu_model"))
        builder = Builder(graph, Sequence("main"))
        x = create_convolution_input(builder, shape, weights, window, dtype="float16")
        w = create_convolution_weights(builder, weights, shape, window, dtype="float16")
        convolution(builder, x, w, window)
        executable = compile_programs(graph, [builder.sequence], plans=builder.plans)
        return sum(int(step.cost.cycles.max()) for step in executable.steps)

    patches = cycles((1, 3, 112, 112), (64, 3, 16, 16), Window((16, 16), stride=(16, 16)))
    assert patches == cycles((1, 768, 7, 7), (64, 768, 1, 1), Window((1, 1)))


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("padding", [0, 1])
def test_columns_of_the_field_as_channels(step: int, padding: int) -> None:
    """Weights of a depthwise convolution: each tap reads columns of its own, or shared ones."""
    _, builder = new_builder(small_machine(16))
    shape, weights = (4, 8, 11, 11), (8, 1, 3, 3)
    window = Window((3, 3), (step, step), (1, 1), (padding, padding), (padding, padding))
    n_columns = (11 + 2 * padding - 3) // step + 1
    x = builder.graph.add_variable("float16", shape, "x")
    z = builder.graph.add_variable("float16", (4, 8, n_columns, n_columns), "z")
    for tensor in (x, z):
        builder.graph.map_linearly(tensor)
    gradient = weight_gradient(builder, x, z, window, 8)
    call = builder.plans[0].call
    assert call is not None
    assert call.detail["input"] == [1, 4 * 8 * n_columns, 11, 3]
    x_values, z_values = (np.round(4 * values_for(t, k)) / 4 for k, t in enumerate((x, z), 1))
    (result,) = check(builder, [(x, x_values), (z, z_values)], [gradient])
    right = expected(x_values, np.zeros(weights), z_values, window, 8)[2]
    np.testing.assert_allclose(result, right, rtol=1e-2, atol=1)
