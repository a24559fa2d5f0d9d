"""Softmax, non-linearities and normalisations, against numpy and the naive machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from tests.oracle.compared import check, held, seeds, small_machine, values_for
from tests.oracle.drawn_graphs import machines, new_builder, shapes, views

from tilescope.engine.errors import BadGraph
from tilescope.engine.library.popnn.non_linearity import (
    NON_LINEARITIES,
    NON_LINEARITY_GRADIENTS,
    non_linearity,
    non_linearity_in_place,
    non_linearity_input_gradient,
)
from tilescope.engine.library.popnn.norm.batch_norm import (
    batch_norm_statistics,
    batch_norm_whiten,
    batch_normalise,
)
from tilescope.engine.library.popnn.norm.group_norm import (
    group_norm_statistics,
    group_norm_whiten,
    group_normalise,
)
from tilescope.engine.library.popnn.norm.instance_norm import (
    instance_norm_statistics,
    instance_norm_whiten,
    instance_normalise,
)
from tilescope.engine.library.popnn.norm.layer_norm import (
    layer_norm_statistics,
    layer_norm_whiten,
    layer_normalise,
)
from tilescope.engine.library.popnn.softmax import (
    SOFTMAX_SCALING,
    log_softmax,
    log_softmax_in_place,
    softmax,
    softmax_in_place,
)
from tilescope.engine.library.popnn.spatial_softmax import spatial_softmax_2d

TYPES = st.sampled_from(["float32", "float16"])


def near(dtype: str) -> dict[str, Any]:
    return {"rtol": 8e-3, "atol": 4e-3} if dtype == "float16" else {"rtol": 2e-5, "atol": 1e-5}


@given(st.data(), machines(), shapes(rank=3), TYPES, st.booleans(), st.booleans(), seeds)
def test_softmax(
    data: st.DataObject, machine: Any, shape: Any, dtype: str, stable: bool, in_place: bool,
    seed: int,
) -> None:  # fmt: skip
    graph, builder = new_builder(machine)
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = data.draw(views(graph, shape, dtype))
    logarithm = data.draw(st.booleans())
    out: Any = x
    if in_place:
        if logarithm:
            log_softmax_in_place(builder, x, dim)
        else:
            softmax_in_place(builder, x, dim, stable=stable)
    else:
        out = log_softmax(builder, x, dim) if logarithm else softmax(builder, x, dim, stable=stable)
    values = values_for(x, seed)
    (result,) = check(builder, [(x, values)], [out])
    expected = special.log_softmax if logarithm else special.softmax
    np.testing.assert_allclose(result, expected(held(graph, x, values), axis=dim), **near(dtype))


def test_a_stable_softmax_of_large_numbers_is_finite() -> None:
    graph, builder = new_builder(small_machine(3))
    x = graph.add_variable("float32", (2, 5), "x")
    graph.map_linearly(x)
    stable = softmax(builder, x)
    scaled = softmax(builder, x, scaled=True)
    values = values_for(x, 1) * 1000
    first, second = check(builder, [(x, values)], [stable, scaled])
    expected = special.softmax(values, axis=-1)
    np.testing.assert_allclose(first, expected, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(second, expected * SOFTMAX_SCALING, rtol=1e-5, atol=1e-4)


def test_a_scaled_softmax_of_halves_keeps_small_probabilities() -> None:
    graph, builder = new_builder(small_machine(4))
    x = graph.add_variable("float16", (1, 4000), "x")
    graph.map_linearly(x, grain=4)
    out = softmax(builder, x, scaled=True)
    values = values_for(x, 1)
    (result,) = check(builder, [(x, values)], [out])
    expected = special.softmax(held(graph, x, values), axis=-1)
    np.testing.assert_allclose(result / SOFTMAX_SCALING, expected, rtol=6e-3)


def reference(kind: str, x: np.ndarray) -> np.ndarray:
    by_kind: dict[str, Any] = {
        "sigmoid": special.expit,
        "relu": lambda v: np.maximum(v, 0),
        "tanh": np.tanh,
        "gelu_erf": lambda v: v * special.ndtr(v),
        "gelu": lambda v: v / 2 * (1 + np.tanh(0.7978845608 * (v + 0.044715 * v**3))),
        "swish": lambda v: v * special.expit(v),
        "hard_sigmoid": lambda v: np.clip(0.2 * v + 0.5, 0, 1),
        "hard_swish": lambda v: v * np.clip(v / 6 + 0.5, 0, 1),
        "softmax": lambda v: special.softmax(v, axis=-1),
        "softmax_stable": lambda v: special.softmax(v, axis=-1),
        "softmax_scaled": lambda v: special.softmax(v, axis=-1) * SOFTMAX_SCALING,
    }
    return np.asarray(by_kind[kind](x))


@given(
    st.data(),
    machines(),
    shapes(),
    TYPES,
    st.sampled_from(NON_LINEARITIES),
    st.booleans(),
    seeds,
)
def test_non_linearity(
    data: st.DataObject, machine: Any, shape: Any, dtype: str, kind: str, in_place: bool,
    seed: int,
) -> None:  # fmt: skip
    graph, builder = new_builder(machine)
    x = data.draw(views(graph, shape, dtype))
    out: Any = x
    if in_place:
        non_linearity_in_place(builder, kind, x)
    else:
        out = non_linearity(builder, kind, x)
    values = values_for(x, seed)
    (result,) = check(builder, [(x, values)], [out])
    np.testing.assert_allclose(result, reference(kind, held(graph, x, values)), **near(dtype))


#: Kinds whose gradient follows from the operand, not from the result.
FROM_OPERAND = frozenset({"gelu", "gelu_erf", "swish", "hard_sigmoid", "hard_swish"})
#: Where the slope of a kind is not continuous.
KINKS = {"relu": [0.0], "hard_sigmoid": [-2.5, 2.5], "hard_swish": [-3.0, 3.0]}


def by_differences(kind: str, x: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Return the gradient of an operand: differences of gradient · result, element by element."""
    out = np.empty_like(x)
    h = 1e-5
    for index in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[index] = h
        change = reference(kind, x + step) - reference(kind, x - step)
        out[index] = (gradient * change).sum() / (2 * h)
    return out


@given(
    st.data(),
    machines(),
    shapes(),
    TYPES,
    st.sampled_from(NON_LINEARITY_GRADIENTS),
    seeds,
)
def test_gradient_of_a_non_linearity(
    data: st.DataObject, machine: Any, shape: Any, dtype: str, kind: str, seed: int
) -> None:
    graph, builder = new_builder(machine)
    act = data.draw(views(graph, shape, dtype, "act"))
    gradient = data.draw(views(graph, shape, dtype, "gradient"))
    out = non_linearity_input_gradient(builder, kind, act, gradient)
    operand = values_for(act, seed, low=-4, high=4)
    values = operand if kind in FROM_OPERAND else reference(kind, operand.astype(np.float64))
    inputs = [(act, values), (gradient, values_for(gradient, seed + 1))]
    (result,) = check(builder, inputs, [out])
    expected = by_differences(kind, operand.astype(np.float64), held(graph, *inputs[1]))
    is_smooth = np.ones(shape, np.bool_)
    for kink in KINKS.get(kind, []):
        is_smooth &= np.abs(operand - kink) > 4e-3
    tolerance: Any = (
        {"rtol": 1e-2, "atol": 1e-2} if dtype == "float16" else {"rtol": 1e-4, "atol": 2e-5}
    )
    np.testing.assert_allclose(result[is_smooth], expected[is_smooth], **tolerance)


def test_slopes_at_kinks() -> None:
    graph, builder = new_builder(small_machine(3))
    act = graph.add_variable("float32", (6,), "act")
    gradient = graph.add_variable("float32", (6,), "gradient")
    for tensor in (act, gradient):
        graph.map_linearly(tensor)
    kinds = ("relu", "hard_sigmoid", "hard_swish")
    outs = [non_linearity_input_gradient(builder, kind, act, gradient) for kind in kinds]
    inputs = [
        (act, np.array([-3, -2.5, -0.0, 0, 2.5, 3], np.float32)),
        (gradient, np.full(6, 2, np.float32)),
    ]
    results = check(builder, inputs, outs)
    assert results[0].tolist() == [0, 0, 0, 0, 2, 2]
    np.testing.assert_allclose(results[1], [0, 0.4, 0.4, 0.4, 0.4, 0], rtol=1e-6)
    np.testing.assert_allclose(results[2], [0, -2 / 3, 1, 1, 8 / 3, 2], rtol=1e-6)


def test_a_gradient_lies_where_the_activations_do() -> None:
    graph, builder = new_builder(small_machine(3))
    act = graph.add_variable("float16", (4, 8), "act")
    gradient = graph.add_variable("float16", (8, 4), "gradient").dim_shuffle(1, 0)
    graph.map_linearly(act, grain=8, first=1)
    graph.map_linearly(gradient)
    out = non_linearity_input_gradient(builder, "relu", act, gradient)
    assert out.dims == act.dims
    assert out.variable.map_tile.tolist() == act.variable.map_tile.tolist()
    assert [c.name.rpartition("/")[2] for c in graph.compute_sets] == ["reluGradient"]


@given(
    st.data(),
    machines(),
    st.sampled_from(["batch", "group", "strided", "layer", "instance"]),
    TYPES,
    st.booleans(),
    st.booleans(),
    seeds,
)
def test_normalisation(
    data: st.DataObject, machine: Any, kind: str, dtype: str, is_stable: bool, is_unbiased: bool,
    seed: int,
) -> None:  # fmt: skip
    graph, builder = new_builder(machine)
    field = data.draw(st.sampled_from([(), (3,), (2, 2)]))
    shape = (data.draw(st.integers(1, 3)), data.draw(st.sampled_from([2, 4, 6])), *field)
    x, gamma, beta = (
        data.draw(views(graph, size, dtype, name))
        for size, name in ((shape, "x"), (shape[1:2], "gamma"), (shape[1:2], "beta"))
    )
    epsilon = 0.1
    options: Any = {"is_stable": is_stable, "is_unbiased": is_unbiased}
    both: Any
    if kind == "batch":
        mean, inverse = batch_norm_statistics(builder, x, epsilon, **options)
        both = batch_normalise(builder, x, gamma, beta, mean, inverse)
        white = batch_norm_whiten(builder, x, mean, inverse)
    elif kind == "layer":
        mean, inverse = layer_norm_statistics(builder, x, epsilon, **options)
        both = layer_normalise(builder, x, gamma, beta, mean, inverse)
        white = layer_norm_whiten(builder, x, mean, inverse)
    elif kind == "instance":
        mean, inverse = instance_norm_statistics(builder, x, epsilon, **options)
        both = instance_normalise(builder, x, gamma, beta, mean, inverse)
        white = instance_norm_whiten(builder, x, mean, inverse)
    else:
        strided = kind == "strided"
        mean, inverse = group_norm_statistics(builder, x, epsilon, 2, is_strided=strided, **options)
        both = group_normalise(builder, x, gamma, beta, mean, inverse, is_strided=strided)
        white = group_norm_whiten(builder, x, mean, inverse, is_strided=strided)
    inputs = [(t, values_for(t, seed + i)) for i, t in enumerate((x, gamma, beta))]
    results = check(builder, inputs, [mean, inverse, *both, white])
    values, factor, offset = (held(graph, t, v) for t, v in inputs)
    size = {"batch": shape[1], "layer": 1, "instance": shape[1]}.get(kind, 2)
    axes = (0, *range(2, len(shape))) if kind == "batch" else (1, *range(3, len(shape) + 1))
    rows = values if kind == "batch" else values.reshape(shape[0] * size, -1, *shape[2:])
    if kind == "strided":
        rows = values.reshape(shape[0], -1, 2, *shape[2:]).swapaxes(1, 2).reshape(rows.shape)
    axes = axes if kind == "batch" else tuple(range(1, rows.ndim))
    average = rows.mean(axes, keepdims=True)
    variance = rows.var(axes, keepdims=True, ddof=int(is_unbiased and rows.size > average.size))
    if is_unbiased:  # the epsilon is scaled with the variance, as in the library
        n = rows.size // average.size
        variance = rows.var(axes, keepdims=True)
        expected_inverse = 1 / np.sqrt((variance + epsilon) * (n / (n - 1) if n > 1 else 1))
    else:
        expected_inverse = 1 / np.sqrt(variance + epsilon)
    tolerance: Any = (
        {"rtol": 2e-2, "atol": 2e-2} if dtype == "float16" else {"rtol": 1e-4, "atol": 2e-5}
    )
    np.testing.assert_allclose(results[0], average.reshape(-1), **tolerance)
    np.testing.assert_allclose(results[1], expected_inverse.reshape(-1), **tolerance)
    whitened = (rows - average) * expected_inverse
    if kind == "strided":
        apart = whitened.reshape(shape[0], 2, -1, *shape[2:]).swapaxes(1, 2)
        whitened = apart.reshape(shape)
    whitened = whitened.reshape(shape)
    per_channel = (1, -1, *(1,) * len(field))
    expected = whitened * factor.reshape(per_channel) + offset.reshape(per_channel)
    np.testing.assert_allclose(results[3], whitened, **tolerance)
    np.testing.assert_allclose(results[4], whitened, **tolerance)
    np.testing.assert_allclose(results[2], expected, **tolerance)


def test_batch_normalisation_with_combined_factors() -> None:
    graph, builder = new_builder(small_machine(3))
    x = graph.add_variable("float32", (2, 3, 4), "x")
    factor, addend = (graph.add_variable("float32", (3,), name) for name in ("f", "a"))
    for tensor in (x, factor, addend):
        graph.map_linearly(tensor)
    out = batch_normalise(builder, x, factor, addend)
    inputs = [(t, values_for(t, i)) for i, t in enumerate((x, factor, addend))]
    (result,) = check(builder, inputs, [out])  # type: ignore[list-item]
    values, by, plus = (v for _, v in inputs)
    expected = values * by[None, :, None] + plus[None, :, None]
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b, x, _: softmax(b, x, 2), r"'x' has 2 dimensions: expected -2 to 1, got 2"),
        (lambda b, _, i: softmax(b, i), "'i' is int32: expected float16 or float32; cast it"),
        (lambda b, x, _: softmax(b, x, stable=False, scaled=True), "needs stable=True"),
        (lambda b, x, _: non_linearity(b, "selu", x), "unknown non-linearity 'selu': use one of"),
        (lambda b, _, i: non_linearity_in_place(b, "gelu", i), "'i' is int32: expected float16"),
        (
            lambda b, x, _: non_linearity_input_gradient(b, "softmax_scaled", x, x),
            "'softmax_scaled' has no gradient: use one of relu",
        ),
        (
            lambda b, x, _: non_linearity_input_gradient(b, "relu", x, x.slice(0, 0, 1)),
            "expected the same type and shape",
        ),
        (lambda b, x, _: batch_norm_statistics(b, x.flatten(), 0.1), r"shape \(24,\): expected"),
        (lambda b, x, _: group_norm_statistics(b, x, 0.1, 4), "4 groups of the 6 channels of 'x'"),
        (
            lambda b, x, _: layer_norm_whiten(b, x, x.flatten().slice(0, 0, 9), x),
            "'x' has 9 statistics for 'x'",
        ),
        (
            lambda b, x, _: batch_norm_statistics(b, x, 0.1, partials_type="int32"),
            "the type of partials is int32: expected",
        ),
        (
            lambda b, x, _: batch_normalise(b, x, x.slice(0, 0, 1), x.slice(0, 0, 1), x),
            "expected both mean and inverse, or neither",
        ),
        (
            lambda b, x, _: batch_norm_whiten(b, x, x.slice(1, 0, 1), x.slice(1, 0, 1)),
            "has 4 elements, but 'x' has 6 channels: expected one each",
        ),
    ],
)
def test_invalid_arguments(call: Any, message: str) -> None:
    graph, builder = new_builder(small_machine(2))
    x, i = graph.add_variable("float32", (4, 6), "x"), graph.add_variable("int32", (4, 6), "i")
    for tensor in (x, i):
        graph.map_linearly(tensor)
    with pytest.raises(BadGraph, match=message):
        call(builder, x, i)


@given(st.data(), machines(), shapes(rank=3, most=60), TYPES, st.booleans(), seeds)
def test_spatial_softmax(
    data: st.DataObject, machine: Any, shape: Any, dtype: str, is_weighed: bool, seed: int
) -> None:
    shape = (*shape, *[1] * (3 - len(shape)))
    graph, builder = new_builder(machine)
    fields = data.draw(views(graph, shape, dtype))
    temperature = data.draw(views(graph, (1,), dtype, "t"))
    out = spatial_softmax_2d(builder, fields, temperature, disable_softmax=is_weighed)
    values, hot = values_for(fields, seed), values_for(temperature, seed, low=0.5, high=2)
    (result,) = check(builder, [(fields, values), (temperature, hot)], [out])
    scaled = held(graph, fields, values) / held(graph, temperature, hot)
    weights = scaled if is_weighed else special.softmax(scaled)
    axes = [np.linspace(-1, 1, n) for n in shape[1:]]
    rows = (weights * axes[0][:, None]).sum(axis=(1, 2))
    columns = (weights * axes[1]).sum(axis=(1, 2))
    near_ = 3e-2 if dtype == "float16" else 1e-4
    np.testing.assert_allclose(result, np.stack([rows, columns], 1), rtol=near_, atol=near_ * 3)


def test_spatial_softmax_of_a_known_peak() -> None:
    """Almost all weight is on row 2 of 5 and on the last column of 3."""
    graph, builder = new_builder(small_machine(4, 2))
    fields = graph.add_variable("float32", (1, 5, 3), "fields")
    temperature = graph.add_variable("float32", (1,), "temperature")
    for tensor in (fields, temperature):
        graph.map_linearly(tensor)
    out = spatial_softmax_2d(builder, fields, temperature)
    values = np.zeros((1, 5, 3), np.float32)
    values[0, 2, 2] = 40
    (result,) = check(builder, [(fields, values), (temperature, np.ones(1, np.float32))], [out])
    np.testing.assert_allclose(result, [[0, 1]], atol=1e-5)
    with pytest.raises(BadGraph, match="expected fields, height and width"):
        spatial_softmax_2d(builder, fields.reshape(5, 3), temperature)
    with pytest.raises(BadGraph, match="expected one float32"):
        spatial_softmax_2d(builder, fields, fields)
