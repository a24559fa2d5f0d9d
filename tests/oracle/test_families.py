"""Every family of vertices, forced, on random shapes and tilings against the naive machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.oracle.compared import check, held, values_for
from tests.oracle.drawn_graphs import machines, new_builder, views
from tests.oracle.windows import naive_convolution, windows

from tilescope.engine import load_machine
from tilescope.engine.errors import BadGraph
from tilescope.engine.library.poplin.convolution import convolution
from tilescope.engine.library.window import Window
from tilescope.engine.planner.families import FAMILIES

NAMES = [family.name for family in FAMILIES]


def _windows(family: str, height: int, width: int) -> st.SearchStrategy[Window]:
    """Return windows that a family supports."""
    if family == "outer product":
        return st.just(Window((1, 1)))
    drawn = windows(height, width)
    if family == "slic":
        return drawn.map(lambda w: _with_short_steps(w, height, width))
    return drawn


def _with_short_steps(window: Window, height: int, width: int) -> Window:
    """Return a window without dilation, with a stride of at most 2, padded to fit."""
    after = [
        max(0, window.kernel[d] - size - window.padding_before[d])
        for d, size in enumerate((height, width))
    ]
    stride = (window.stride[0], min(window.stride[1], 2))
    return replace(window, dilation=(1, 1), stride=stride, padding_after=(after[0], after[1]))


@pytest.mark.parametrize("family", NAMES)
@settings(max_examples=12)
@given(st.data(), machines(), st.integers(0, 1000))
def test_a_convolution_by_every_family(
    family: str, data: st.DataObject, machine: Any, seed: int
) -> None:
    if family in ("slic", "outer product"):
        machine = load_machine("gc200", tiles_per_ipu=data.draw(st.integers(8, 11)))
    graph, builder = new_builder(machine)
    is_vector = family in ("vertical mac", "outer product")
    dtype = data.draw(st.sampled_from(["float16", "float32"] if family != "slic" else ["float16"]))
    dtype = "float16" if family == "vertical mac" else dtype
    groups = data.draw(st.sampled_from([1, 2, 3, 5, 9]))
    inputs = 1 if is_vector else data.draw(st.sampled_from([1, 2, 3, 6]))
    outputs = 1 if family == "vertical mac" else data.draw(st.sampled_from([1, 2, 5]))
    height, width = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    images = 1 if is_vector else data.draw(st.integers(1, 2))
    window = data.draw(_windows(family, height, width))
    x = data.draw(views(graph, (images, groups * inputs, height, width), dtype))
    random = np.random.default_rng(seed)
    w = random.uniform(-1, 1, (groups * outputs, inputs, *window.kernel)).astype(np.float32)
    try:
        out = convolution(builder, x, w, window, groups, family=family)
    except BadGraph as refused:
        assume(f"{family!r} does not support" not in str(refused))
        raise
    values = values_for(x, seed)
    (result,) = check(builder, [(x, values)], [out])
    if dtype == "float16":
        values, w = (a.astype(np.float16).astype(np.float32) for a in (values, w))
    expected = naive_convolution(values, w, window, groups)
    near = 2e-2 if dtype == "float16" else 1e-4
    np.testing.assert_allclose(result, expected, rtol=near, atol=near)
    assert builder.plans[0].family == family


@settings(max_examples=25)
@given(st.data(), machines(), st.integers(0, 1000))
def test_combined_groups_do_not_mix(data: st.DataObject, machine: Any, seed: int) -> None:
    graph, builder = new_builder(machine)
    dtype = data.draw(st.sampled_from(["float32", "float16"]))
    inputs = 1 if dtype == "float32" else data.draw(st.sampled_from([1, 2]))
    groups, outputs = data.draw(st.integers(2, 19)), data.draw(st.sampled_from([1, 1, 2, 3]))
    height, width = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    window = data.draw(windows(height, width))
    x = data.draw(views(graph, (1, groups * inputs, height, width), dtype))
    shape = (groups * outputs, inputs, *window.kernel)
    operands = [(x, values_for(x, seed))]
    if data.draw(st.booleans()):
        w = np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
        out = convolution(builder, x, w, window, groups, family="amp")
        w = w.astype(dtype).astype(np.float32)
    else:
        weights = data.draw(views(graph, shape, dtype, "w"))
        operands.append((weights, values_for(weights, seed, low=-1, high=1)))
        out = convolution(builder, x, weights, window, groups, family="amp")
        w = held(graph, *operands[1])
    assume("combined" in builder.plans[0].grouping)
    (result,) = check(builder, operands, [out])
    expected = naive_convolution(held(graph, *operands[0]), w, window, groups)
    near = 2e-2 if dtype == "float16" else 1e-4
    np.testing.assert_allclose(result, expected, rtol=near, atol=near)
