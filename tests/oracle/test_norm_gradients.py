"""Gradients of normalisations, against differences of the forward pass in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.many_threads import share_all
from tests.oracle.compared import check, held, seeds, small_machine, values_for
from tests.oracle.drawn_graphs import machines, new_builder, views

from tilescope.engine import Builder, Engine, Tensor, compile_programs, resolve_options
from tilescope.engine.errors import BadGraph
from tilescope.engine.library.popnn.norm import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    rms_norm,
)
from tilescope.engine.library.popops.elementwise.map import map_expression, operand
from tilescope.engine.library.popops.elementwise.operations import binary
from tilescope.engine.library.popops.reduction.reduce import Reduction, reduce_many
from tilescope.engine.library.replicas import Replicas

EPSILON = 0.1
KINDS = ("batch", "group", "strided", "instance", "layer")
TYPES = st.sampled_from(["float32", "float16"])


class Calls:
    """The calls of one kind of normalisation, with their arguments in common."""

    def __init__(self, builder: Builder, kind: str, n_groups: int = 2) -> None:
        name = "group" if kind == "strided" else kind
        module: Any = {
            "batch": batch_norm,
            "group": group_norm,
            "instance": instance_norm,
            "layer": layer_norm,
        }[name]
        grouping: dict[str, Any] = {"is_strided": True} if kind == "strided" else {}
        parts = {
            "normalise": f"{name}_normalise",
            "whiten": f"{name}_norm_whiten",
            "gradients": f"{name}_norm_gradients",
            "param_gradients": f"{name}_norm_param_gradients",
        }
        for part, called in parts.items():
            function = partial(getattr(module, called), builder)
            setattr(self, part, partial(function, **(grouping if kind == "strided" else {})))
        size = {"n_groups": n_groups} if name == "group" else {}
        statistics = getattr(module, f"{name}_norm_statistics")
        self.statistics = partial(statistics, builder, epsilon=EPSILON, **size, **grouping)
        self.param_update = partial(getattr(module, f"{name}_norm_param_update"), builder)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def grouped_rows(kind: str, x: np.ndarray, n_groups: int) -> tuple[np.ndarray, Any]:
    """Return the elements with a row per mean, and the way back."""
    n, channels, *field = x.shape
    if kind == "batch":
        apart = np.moveaxis(x, 1, 0)
        return apart.reshape(channels, -1), lambda r: np.moveaxis(r.reshape(apart.shape), 0, 1)
    size = {"layer": 1, "instance": channels}.get(kind, n_groups)
    if kind == "strided":
        split = x.reshape(n, channels // size, size, -1).swapaxes(1, 2)
        rows = split.reshape(n * size, -1)
        return rows, lambda r: r.reshape(split.shape).swapaxes(1, 2).reshape(n, channels, *field)
    return x.reshape(n * size, -1), lambda r: r.reshape(x.shape)


def whitened(kind: str, x: np.ndarray, n_groups: int = 2) -> np.ndarray:
    rows, back = grouped_rows(kind, x, n_groups)
    mean = rows.mean(1, keepdims=True)
    return np.asarray(back((rows - mean) / np.sqrt(rows.var(1, keepdims=True) + EPSILON)))


def per_channel(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    return values.reshape(1, -1, *(1,) * (x.ndim - 2))


def slopes(function: Callable[[np.ndarray], float], at: np.ndarray) -> np.ndarray:
    """Return the derivatives of a function, from differences of the fourth order."""
    out, step = np.zeros_like(at), 1e-3
    for i in np.ndindex(*at.shape):
        steps = []
        for k in (-2, -1, 1, 2):
            moved = at.copy()
            moved[i] += k * step
            steps.append(function(moved))
        out[i] = (steps[0] - 8 * steps[1] + 8 * steps[2] - steps[3]) / (12 * step)
    return out


def near_largest(result: np.ndarray, expected: np.ndarray, terms: np.ndarray, dtype: str) -> None:
    """Compare gradients relative to the largest term of their sums, which may cancel."""
    share = {"float32": 1e-5, "float16": 1e-2}[dtype]
    assert np.abs(result - expected).max() <= share * np.abs(terms).max()


@given(st.data(), machines(), st.sampled_from(KINDS), TYPES, st.booleans(), seeds)
def test_gradients(
    data: st.DataObject, machine: Any, kind: str, dtype: str, is_white: bool, seed: int
) -> None:
    """From the whitened tensor, or from the input and its statistics."""
    graph, builder = new_builder(machine)
    field = data.draw(st.sampled_from([(), (3,), (2, 2)]))
    shape = (data.draw(st.integers(2, 3)), data.draw(st.sampled_from([2, 4, 6])), *field)
    x, gradient, gamma, beta = (
        data.draw(views(graph, size, dtype, name))
        for size, name in (
            (shape, "x"),
            (shape, "gradient"),
            (shape[1:2], "gamma"),
            (shape[1:2], "beta"),
        )
    )
    of_statistics = data.draw(st.sampled_from([None, "float32"]))
    calls = Calls(builder, kind)
    mean, inverse = calls.statistics(x, statistics_type=of_statistics, is_stable=True)
    if is_white:
        white = calls.normalise(x, gamma, beta, mean, inverse)[1]
        of_params = calls.param_gradients(white, gradient)
        of_x = calls.gradients(white, gradient, inverse, gamma)
    else:
        of_params = calls.param_gradients(x, gradient, mean, inverse)
        of_x = calls.gradients(x, gradient, inverse, gamma, mean)
    inputs = [(t, values_for(t, seed + i)) for i, t in enumerate((x, gradient, gamma, beta))]
    results = check(builder, inputs, [of_x, *of_params])
    values, of_result, factor, _ = (held(graph, t, v) for t, v in inputs)

    def loss(v: np.ndarray) -> float:
        return float((whitened(kind, v) * per_channel(factor, v) * of_result).sum())

    axes = tuple(d for d in range(len(shape)) if d != 1)
    assert [r.shape for r in results] == [shape, shape[1:2], shape[1:2]]
    largest = 1 / np.sqrt(EPSILON) * np.abs(factor).max() * of_result
    near_largest(results[0], slopes(loss, values), largest, dtype)
    near_largest(results[1], (whitened(kind, values) * of_result).sum(axes), largest, dtype)
    near_largest(results[2], of_result.sum(axes), of_result, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_a_layer(kind: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In sizes of a layer, relative to the largest gradient: the closed form in float64."""
    shape = (4, 16, 8, 8)
    graph, builder = new_builder(small_machine(16))
    x, gradient = (graph.add_variable(dtype, shape, name) for name in ("x", "gradient"))
    gamma, beta = (graph.add_variable(dtype, shape[1:2], name) for name in ("gamma", "beta"))
    for tensor in (x, gradient, gamma, beta):
        graph.map_linearly(tensor, grain=8)
    calls = Calls(builder, kind, n_groups=4)
    mean, inverse = calls.statistics(x, statistics_type="float32")
    _, white = calls.normalise(x, gamma, beta, mean, inverse)
    of_params = calls.param_gradients(white, gradient)
    of_x = calls.gradients(white, gradient, inverse, gamma)
    assert (mean.dtype.name, inverse.dtype.name) == ("float32", "float32")
    inputs = [(t, values_for(t, i)) for i, t in enumerate((x, gradient, gamma, beta))]
    values, of_result, factor, _ = (held(graph, t, v) for t, v in inputs)
    executable = compile_programs(graph, [builder.sequence])
    by_threads = []
    for n_threads in (1, 3):
        share_all(monkeypatch, n_threads)
        with Engine(executable, resolve_options()) as engine:
            for tensor, array in inputs:
                engine.write_tensor(tensor, array)
            engine.run()
            by_threads.append([engine.read_tensor(t) for t in (of_x, *of_params)])
    results = by_threads[0]
    for one, two in zip(*by_threads, strict=True):
        np.testing.assert_array_equal(one, two)
    rows, _ = grouped_rows(kind, values, 4)
    g, back = grouped_rows(kind, of_result * per_channel(factor, values), 4)
    w, _ = grouped_rows(kind, whitened(kind, values, 4), 4)
    scale = 1 / np.sqrt(rows.var(1, keepdims=True) + EPSILON)
    expected = scale * (g - g.mean(1, keepdims=True) - w * (g * w).mean(1, keepdims=True))
    near: dict[str, float] = {"float32": 1e-5, "float16": 4e-3}
    axes = (0, 2, 3)
    for result, exact in (
        (results[0], back(expected)),
        (results[1], (whitened(kind, values, 4) * of_result).sum(axes)),
        (results[2], of_result.sum(axes)),
    ):
        assert np.abs(result - exact).max() <= near[dtype] * np.abs(exact).max()


@given(st.data(), machines(), TYPES, seeds)
def test_root_mean_square(data: st.DataObject, machine: Any, dtype: str, seed: int) -> None:
    graph, builder = new_builder(machine)
    shape = (data.draw(st.integers(1, 4)), data.draw(st.integers(2, 6)))
    x, gradient, gamma = (
        data.draw(views(graph, size, dtype, name))
        for size, name in ((shape, "x"), (shape, "gradient"), (shape[1:], "gamma"))
    )
    of_statistics = data.draw(st.sampled_from([None, "float32"]))
    inverse = rms_norm.rms_norm_statistics(builder, x, EPSILON, statistics_type=of_statistics)
    out, white = rms_norm.rms_normalise(builder, x, gamma, inverse)
    again = rms_norm.root_mean_square_normalise(builder, x, EPSILON)
    of_gamma = rms_norm.rms_norm_param_gradients(builder, white, gradient)
    of_x = rms_norm.rms_norm_gradients(builder, white, gradient, inverse, gamma)
    inputs = [(t, values_for(t, seed + i)) for i, t in enumerate((x, gradient, gamma))]
    results = check(builder, inputs, [out, white, of_gamma, of_x, again])
    values, of_result, factor = (held(graph, t, v) for t, v in inputs)

    def normalised(v: np.ndarray) -> np.ndarray:
        return np.asarray(v / np.sqrt((v**2).mean(1, keepdims=True) + EPSILON))

    def loss(v: np.ndarray) -> float:
        return float((normalised(v) * factor * of_result).sum())

    white_values = normalised(values)
    largest = np.abs(factor).max() * white_values
    near_largest(results[0], white_values * factor, largest, dtype)
    near_largest(results[1], white_values, white_values, dtype)
    near_largest(results[2], (white_values * of_result).sum(0), of_result, dtype)
    terms = 1 / np.sqrt(EPSILON) * np.abs(factor).max() * of_result
    near_largest(results[3], slopes(loss, values), terms, dtype)
    near_largest(results[4], white_values, white_values, dtype)


@pytest.mark.parametrize("kind", ["batch", "group", "instance", "layer"])
@pytest.mark.parametrize("is_number", [True, False])
def test_an_update_of_parameters(kind: str, is_number: bool) -> None:
    graph, builder = new_builder(small_machine(3))
    names = ("of_gamma", "of_beta", "gamma", "beta", "scale")
    tensors = [graph.add_variable("float32", (1 if n == "scale" else 5,), n) for n in names]
    for tensor in tensors:
        graph.map_linearly(tensor)
    of_gamma, of_beta, gamma, beta, scale = tensors
    by = -0.25 if is_number else scale
    Calls(builder, kind).param_update(of_gamma, of_beta, by, gamma, beta)
    inputs = [(t, values_for(t, i)) for i, t in enumerate(tensors)]
    results = check(builder, inputs, [gamma, beta])
    first, second, before, offset, drawn = (v for _, v in inputs)
    factor = np.full(1, -0.25) if is_number else drawn
    np.testing.assert_allclose(results[0], before + factor * first, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(results[1], offset + factor * second, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("is_stable", [False, True])
def test_statistics_of_halves_in_floats(is_stable: bool) -> None:
    """Means of halves far from 0 are not rounded, so that variances keep their digits."""
    graph, builder = new_builder(small_machine(4))
    x = graph.add_variable("float16", (4, 2, 64), "x")
    graph.map_linearly(x, grain=8)
    options: Any = {"is_stable": is_stable, "statistics_type": "float32", "is_unbiased": True}
    mean, inverse = batch_norm.batch_norm_statistics(builder, x, 1e-3, **options)
    in_halves, _ = batch_norm.batch_norm_statistics(builder, x, 1e-3, is_stable=is_stable)
    inputs = [(x, values_for(x, 1, low=4, high=6))]
    results = check(builder, inputs, [mean, inverse])
    values = held(graph, *inputs[0])
    n = values.size // 2
    variance = (values.var((0, 2)) + 1e-3) * n / (n - 1)
    np.testing.assert_allclose(results[0], values.mean((0, 2)), rtol=1e-6)
    # The stable form subtracts means of halves from halves.
    near = 1e-3 if is_stable else 1e-4
    np.testing.assert_allclose(results[1], 1 / np.sqrt(variance), rtol=near)
    assert in_halves.dtype.name == "float16"


def test_one_pass_over_the_input() -> None:
    """Both sums share their compute sets, whatever types they have."""
    graph, builder = new_builder(small_machine(4))
    x = graph.add_variable("float16", (2, 4, 64), "x")
    graph.map_linearly(x, grain=8)
    batch_norm.batch_norm_statistics(builder, x, 1e-3)
    names = {s.name for s in compile_programs(graph, [builder.sequence]).steps}
    assert not [name for name in names if "cast" in name]
    assert any("reduceMany" in name for name in names)


@pytest.mark.parametrize("is_stable", [False, True])
def test_statistics_of_equal_replicas(is_stable: bool) -> None:
    """With equal images, sums over three replicas are three times their own."""

    def add(builder: Builder, tensors: Sequence[Tensor], n_replicas: int) -> list[Tensor]:
        assert [t.shape for t in tensors] == [(6,)] * len(tensors)
        rounds.append(len(tensors))
        return [map_expression(builder, operand(0) * n_replicas, [t]) for t in tensors]

    rounds: list[int] = []
    graph, builder = new_builder(small_machine(5))
    x, gradient = (graph.add_variable("float32", (2, 6, 5), name) for name in ("x", "gradient"))
    gamma = graph.add_variable("float32", (6,), "gamma")
    for tensor in (x, gradient, gamma):
        graph.map_linearly(tensor)
    outputs = []
    for images in (6, 2):
        options: Any = {"replicas": Replicas(images, add)}
        mean, inverse = batch_norm.batch_norm_statistics(
            builder, x, EPSILON, is_stable=is_stable, **options
        )
        white = batch_norm.batch_norm_whiten(builder, x, mean, inverse)
        of_x = batch_norm.batch_norm_gradients(builder, white, gradient, inverse, gamma, **options)
        outputs += [mean, inverse, of_x]
    assert rounds == ([1, 1, 2] if is_stable else [2, 2])
    inputs = [(t, values_for(t, i)) for i, t in enumerate((x, gradient, gamma))]
    results = check(builder, inputs, outputs)
    for shared, alone in zip(results[:3], results[3:], strict=True):
        np.testing.assert_allclose(shared, alone, rtol=2e-5, atol=2e-6)
    n = 3 * 2 * 5
    with pytest.raises(
        BadGraph, match="Replicas share 5 images, of which this one has 2: expected"
    ):
        batch_norm.batch_norm_statistics(builder, x, EPSILON, replicas=Replicas(5, add))
    _, unbiased = batch_norm.batch_norm_statistics(
        builder, x, EPSILON, is_unbiased=True, replicas=Replicas(6, add)
    )
    results = check(builder, inputs, [unbiased, outputs[1]])
    np.testing.assert_allclose(results[0], results[1] * np.sqrt((n - 1) / n), rtol=2e-5)


def test_sums_of_several_replicas() -> None:
    """One replica's results, with what the other one sends: those of the whole batch."""
    values, gradients = (
        np.random.default_rng(i).uniform(-2, 2, (4, 6, 5)).astype(np.float32) for i in (1, 2)
    )
    factor = np.linspace(0.5, 2, 6)
    mean, variance = values.mean((0, 2)), values.var((0, 2))
    white = (values - mean[:, None]) / np.sqrt(variance + EPSILON)[:, None]
    g = gradients * factor[:, None]
    of_addition = 20 ** (-1 / 4)
    sums = iter(
        [
            [values[2:].sum((0, 2)) / 20, (values[2:] ** 2).sum((0, 2)) / 20],
            [-(t[2:].sum((0, 2))) / 20 / of_addition for t in (g * white, g)],
        ]
    )

    def add(builder: Builder, tensors: Sequence[Tensor], _: int) -> list[Tensor]:
        return [
            binary(builder, "add", t, builder.constant(other.astype(np.float32), "other"))
            for t, other in zip(tensors, next(sums), strict=True)
        ]

    graph, builder = new_builder(small_machine(5))
    x, gradient = (graph.add_variable("float32", (2, 6, 5), name) for name in ("x", "gradient"))
    gamma = graph.add_variable("float32", (6,), "gamma")
    for tensor in (x, gradient, gamma):
        graph.map_linearly(tensor)
    replicas = Replicas(4, add)
    of_batch = batch_norm.batch_norm_statistics(builder, x, EPSILON, replicas=replicas)
    of_x = batch_norm.batch_norm_gradients(
        builder, x, gradient, of_batch[1], gamma, of_batch[0], replicas=replicas
    )
    inputs = [(x, values[:2]), (gradient, gradients[:2]), (gamma, factor.astype(np.float32))]
    results = check(builder, inputs, [*of_batch, of_x])
    scale = 1 / np.sqrt(variance + EPSILON)
    means = (g.mean((0, 2))[:, None], (g * white).mean((0, 2))[:, None])
    expected = scale[:, None] * (g - means[0] - white * means[1])
    np.testing.assert_allclose(results[0], mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(results[1], scale, rtol=1e-5)
    np.testing.assert_allclose(results[2], expected[:2], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Replicas(0, lambda *_: []), "The images of replicas is 0: expected at least 1"),
        (lambda: Replicas(2, 3), "The sum over replicas is 3: expected a function"),  # type: ignore[arg-type]
    ],
)
def test_invalid_replicas(call: Any, message: str) -> None:
    with pytest.raises(BadGraph, match=message):
        call()


def test_sums_of_replicas_of_another_shape() -> None:
    graph, builder = new_builder(small_machine(2))
    x = graph.add_variable("float32", (2, 6), "x")
    graph.map_linearly(x)
    with pytest.raises(BadGraph, match="expected 2 tensors of the shapes and types given"):
        batch_norm.batch_norm_statistics(
            builder, x, EPSILON, replicas=Replicas(4, lambda *_: [x, x])
        )


def test_compute_sets_of_gradients() -> None:
    """In the library's order: normGradients, then normStatisticsGradients."""
    graph, builder = new_builder(small_machine(4))
    x, gradient = (graph.add_variable("float16", (2, 4, 64), name) for name in ("x", "gradient"))
    inverse, gamma = (graph.add_variable("float16", (4,), name) for name in ("inverse", "gamma"))
    for tensor in (x, gradient, inverse, gamma):
        graph.map_linearly(tensor, grain=4)
    batch_norm.batch_norm_gradients(builder, x, gradient, inverse, gamma)
    steps = compile_programs(graph, [builder.sequence]).steps
    names = [s.name.partition("/")[2] for s in steps if s.kind == "OnTileExecute"]
    assert names == [
        "multiply/multiply",
        "gradient",
        "multiply/multiply",
        "reduceMany/reduceStage0",
        "reduceMany/reduce",
        "multiply/multiply",
        "mapInPlace/map",
        "addInPlace/add",
        "scaledAdd/addTo",
        "multiplyInPlace/multiply",
    ]


def test_a_reduction_of_halves_to_floats() -> None:
    graph, builder = new_builder(small_machine(4))
    x = graph.add_variable("float16", (3, 64), "x")
    graph.map_linearly(x, grain=8)
    total, mean = reduce_many(
        builder,
        [Reduction("sum", x, [1], 1.0, "float32"), Reduction("sum", x, [0, 1], 1 / 3)],
    )
    inputs = [(x, values_for(x, 1, low=0, high=100))]
    results = check(builder, inputs, [total, mean])
    values = held(graph, *inputs[0])
    np.testing.assert_allclose(results[0], values.sum(1, keepdims=True), rtol=1e-6)
    assert (total.dtype.name, mean.dtype.name) == ("float32", "float16")
    with pytest.raises(BadGraph, match="The result of a reduction is int32, but the reduced 'x'"):
        reduce_many(builder, [Reduction("sum", x, [1], dtype="int32")])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda b, t: batch_norm.batch_norm_gradients(b, t.x, t.small, t.six, t.six),
            r"batch_norm_gradients: 'small' has shape \(4, 5\), but 'x' has \(4, 6\): expected",
        ),
        (
            lambda b, t: group_norm.group_norm_gradients(b, t.x, t.half, t.four, t.six),
            r"group_norm_gradients: 'half' is float16, but 'x' is float32: cast one",
        ),
        (
            lambda b, t: layer_norm.layer_norm_gradients(b, t.x, t.y, t.six, t.six),
            "'six' has 6 statistics for 'x'",
        ),
        (
            lambda b, t: batch_norm.batch_norm_gradients(b, t.x, t.y, t.four, t.six),
            "'four' has 4 elements, but 'batchNormGradients/gradient' has 6 channels",
        ),
        (
            lambda b, t: batch_norm.batch_norm_param_gradients(b, t.x, t.y, t.six),
            "batch_norm_param_gradients: expected both mean and inverse, or neither; got one",
        ),
        (
            lambda b, t: instance_norm.instance_norm_param_gradients(b, t.x, t.y, t.six),
            "group_norm_param_gradients: expected both mean and inverse, or neither; got one",
        ),
        (
            lambda b, t: rms_norm.rms_norm_gradients(b, t.x, t.y, t.six, t.six),
            r"rms_norm_gradients: 'six' has 6 statistics for 'x' of shape \(4, 6\): expected one",
        ),
        (
            lambda b, t: rms_norm.rms_norm_param_gradients(b, t.six, t.six),
            r"shape \(6,\): expected",
        ),
        (
            lambda b, t: rms_norm.rms_norm_statistics(b, t.x, 0.1, statistics_type="int32"),
            "rms_norm_statistics: the type of statistics is int32: expected float16 or float32",
        ),
        (
            lambda b, t: layer_norm.layer_norm_param_update(b, t.six, t.four, 1, t.six, t.six),
            r"group_norm_param_update: 'four' has shape \(4,\), but 'six' has \(6,\)",
        ),
    ],
)
def test_invalid_arguments(call: Any, message: str) -> None:
    class Tensors:
        def __getattr__(self, name: str) -> Any:
            raise AttributeError(name)

    graph, builder = new_builder(small_machine(2))
    tensors = Tensors()
    shapes = {"x": (4, 6), "y": (4, 6), "half": (4, 6), "small": (4, 5), "six": (6,), "four": (4,)}
    for name, shape in shapes.items():
        dtype = "float16" if name == "half" else "float32"
        tensor = graph.add_variable(dtype, shape, name)
        graph.map_linearly(tensor)
        setattr(tensors, name, tensor)
    with pytest.raises(BadGraph, match=message):
        call(builder, tensors)
