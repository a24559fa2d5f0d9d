"""Convolutions with forced kernel splits over tiles, against explicit sums in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.oracle.compared import check, held, seeds, values_for
from tests.oracle.drawn_graphs import new_builder, views
from tests.oracle.test_gradients import naive_input_gradient, naive_weight_gradient
from tests.oracle.windows import naive_convolution, windows

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import View
from tilescope.engine.library.poplin.convolution import convolution
from tilescope.engine.library.poplin.transposed import transposed_convolution
from tilescope.engine.library.poplin.weight_gradient import weight_gradient
from tilescope.engine.library.window import Window, output_size
from tilescope.engine.machine import load_machine

MANY_PLANS = settings(max_examples=8, suppress_health_check=[HealthCheck.filter_too_much])


@st.composite
def splits(draw: st.DrawFn, kernel: tuple[int, int]) -> dict[str, int]:
    """Return part counts of a kernel, with several parts in at least one dimension."""
    parts = [draw(st.integers(1, size)) for size in kernel]
    assume(parts[0] * parts[1] > 1)
    requested = {"kernel rows": parts[0], "kernel columns": parts[1]}
    if draw(st.booleans()):
        requested["rows"] = 1
    return requested


def machine_of(data: st.DataObject, least: int = 12) -> Any:
    """Return a machine with more tiles than kernel parts."""
    return load_machine(
        data.draw(st.sampled_from(["gc200", "c600"])),
        n_ipus=data.draw(st.integers(1, 2)),
        tiles_per_ipu=data.draw(st.integers(least, least + 12)),
    )


@pytest.mark.parametrize("family", ["amp", "slic", "horizontal mac", "vertical mac"])
@MANY_PLANS
@given(st.data(), st.booleans(), seeds)
def test_convolution(family: str, data: st.DataObject, is_constant: bool, seed: int) -> None:
    graph, builder = new_builder(machine_of(data))
    is_half = family in ("slic", "vertical mac") or data.draw(st.booleans())
    dtype = "float16" if is_half else "float32"
    size = data.draw(st.integers(2, 5)), data.draw(st.integers(2, 5))
    window = data.draw(windows(*size))
    if family == "slic":
        window = Window(window.kernel, (1, 2), (1, 1), window.padding_before, window.kernel)
    groups = data.draw(st.sampled_from([1, 2, 5]))
    inputs = 1 if family == "vertical mac" else data.draw(st.sampled_from([1, 3, 20]))
    outputs = 1 if family == "vertical mac" else data.draw(st.sampled_from([1, 2, 10]))
    requested = data.draw(splits(window.kernel))
    x = data.draw(views(graph, (2, groups * inputs, *size), dtype))
    shape = (groups * outputs, inputs, *window.kernel)
    operands: list[tuple[View, np.ndarray]] = [(x, values_for(x, seed))]
    w: Any = np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
    if not is_constant:
        w = data.draw(views(graph, shape, dtype, "w"))
        operands.append((w, values_for(w, seed + 1, low=-1, high=1)))
    try:
        out = convolution(builder, x, w, window, groups, family=family, split=requested)
    except BadGraph as refused:
        assume("has the split" not in str(refused))
        raise
    (plan,) = builder.plans
    assert {name: plan.split[name] for name in requested} == requested
    (result,) = check(builder, operands, [out])
    known = held(graph, *operands[1]) if not is_constant else w.astype(dtype).astype(np.float32)
    expected = naive_convolution(held(graph, *operands[0]), known, window, groups)
    near = 1e-4 if dtype == "float32" else 2e-2 * inputs
    np.testing.assert_allclose(result, expected, rtol=near, atol=near)


@MANY_PLANS
@given(st.data(), st.sampled_from([1, 2]), seeds)
def test_gradient_with_respect_to_the_weights(data: st.DataObject, groups: int, seed: int) -> None:
    """The kernel is the whole output field."""
    graph, builder = new_builder(machine_of(data))
    size = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    window = data.draw(windows(*size))
    inputs, outputs = data.draw(st.sampled_from([1, 3])), data.draw(st.sampled_from([1, 5]))
    field = tuple(output_size(size[d], d, window) for d in (0, 1))
    requested = data.draw(splits((min(field[0], 4), min(field[1], 3))))
    x = data.draw(views(graph, (2, groups * inputs, *size)))
    gradient = data.draw(views(graph, (2, groups * outputs, *field), name="gradient"))
    values, arriving = values_for(x, seed), values_for(gradient, seed + 1)
    out = weight_gradient(builder, x, gradient, window, groups, split=requested)
    assert builder.plans[0].n_partials >= requested["kernel rows"] * requested["kernel columns"] > 1
    (result,) = check(builder, [(x, values), (gradient, arriving)], [out])
    expected = naive_weight_gradient(values, arriving, window, groups)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@MANY_PLANS
@given(st.data(), st.sampled_from([1, 2]), seeds)
def test_transposed_convolution(data: st.DataObject, groups: int, seed: int) -> None:
    graph, builder = new_builder(machine_of(data))
    size = data.draw(st.integers(2, 5)), data.draw(st.integers(2, 5))
    window = data.draw(windows(*size))
    window = Window(window.kernel, (1, 1), window.dilation, window.padding_before, window.kernel)
    requested = data.draw(splits(window.kernel))
    field = tuple(output_size(size[d], d, window) for d in (0, 1))
    assume(min(field) > 0)
    x = data.draw(views(graph, (1, groups * 5, *field)))
    values = values_for(x, seed)
    w = np.random.default_rng(seed).uniform(-1, 1, (groups * 5, 3, *window.kernel))
    w = w.astype(np.float32)
    out = transposed_convolution(builder, x, w, window, size, groups, split=requested)
    assert builder.plans[0].n_partials > 1
    (result,) = check(builder, [(x, values)], [out])
    expected = naive_input_gradient(values, w, window, size, groups)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
