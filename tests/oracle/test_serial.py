"""Convolutions and products with serial parts of the outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.oracle.compared import check, held, near, seeds, values_for
from tests.oracle.drawn_graphs import machines, new_builder, views
from tests.oracle.windows import naive_convolution

from tilescope.engine.graph import View
from tilescope.engine.library.poplin.convolution import convolution, matmul
from tilescope.engine.library.window import Window

#: A share that no plan meets: the planner chooses the plan with the least memory.
LEAST = 1e-6

# Plans show whether they have serial parts before anything runs.
MANY_PLANS = settings(max_examples=6, suppress_health_check=[HealthCheck.filter_too_much])


@MANY_PLANS
@given(st.data(), machines(), st.sampled_from(["float32", "float16"]), st.booleans(), seeds)
def test_convolution(
    data: st.DataObject, machine: Any, dtype: str, is_constant: bool, seed: int
) -> None:
    graph, builder = new_builder(machine)
    size, kernel = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 2))
    images, inputs = data.draw(st.integers(1, 2)), data.draw(st.sampled_from([8, 16, 20]))
    outputs = data.draw(st.sampled_from([16, 24, 32, 64]))
    window = Window((kernel, kernel), padding_before=(kernel - 1, 0))
    x = data.draw(views(graph, (images, inputs, size, size), dtype))
    shape = (outputs, inputs, kernel, kernel)
    operands: list[tuple[View, np.ndarray]] = [(x, values_for(x, seed))]
    if is_constant:
        w = np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
        out = convolution(builder, x, w, window, available_memory_proportion=LEAST)
        w = w.astype(dtype).astype(np.float32)
    else:
        weights = data.draw(views(graph, shape, dtype, "w"))
        out = convolution(builder, x, weights, window, available_memory_proportion=LEAST)
        operands.append((weights, values_for(weights, seed, low=-1, high=1)))
        w = held(graph, *operands[1])
    assume(builder.plans[0].n_serial > 1)
    (result,) = check(builder, operands, [out])
    expected = naive_convolution(held(graph, *operands[0]), w, window, 1)
    near(result, expected, inputs * kernel**2, dtype)


@MANY_PLANS
@given(st.data(), machines(), st.booleans(), seeds)
def test_matmul(data: st.DataObject, machine: Any, is_constant: bool, seed: int) -> None:
    graph, builder = new_builder(machine)
    rows, inner, columns = (data.draw(st.sampled_from([8, 16, 24, 48])) for _ in range(3))
    a = data.draw(views(graph, (1, rows, inner), name="a"))
    left, right = values_for(a, seed), np.random.default_rng(seed).random((1, inner, columns))
    operands: list[tuple[View, np.ndarray]] = [(a, left)]
    if is_constant:
        out = matmul(builder, a, right, available_memory_proportion=LEAST)
    else:
        b = data.draw(views(graph, right.shape, name="b"))
        out = matmul(builder, a, b, available_memory_proportion=LEAST)
        operands.append((b, right))
    assume(builder.plans[0].n_serial > 1)
    (result,) = check(builder, operands, [out])
    near(result, left.astype(np.float64) @ right, inner, "float32")
