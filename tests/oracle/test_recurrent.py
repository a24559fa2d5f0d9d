"""LSTM, GRU and RNN layers against numpy, and small ones against the naive machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from tests.oracle.compared import check, run_both, small_machine
from tests.oracle.drawn_graphs import machines, new_builder, views

from tilescope.engine import Engine, compile_programs, resolve_options
from tilescope.engine.codelets.popops.elementwise.expression import Expression
from tilescope.engine.errors import BadGraph
from tilescope.engine.library.popnn.recurrent.gru import GRU_UNITS, gru
from tilescope.engine.library.popnn.recurrent.lstm import LSTM_UNITS, RecurrentOptions, lstm
from tilescope.engine.library.popnn.recurrent.rnn import rnn
from tilescope.engine.library.popops.slicing.sliceable import create_sliceable_tensor

N_UNITS = {"lstm": 4, "gru": 3, "rnn": 1}


def _activated(x: np.ndarray, name: str | Expression, clip: float | None) -> np.ndarray:
    x = x if clip is None else np.clip(x, -clip, clip)
    by_name: dict[Any, Any] = {
        "tanh": np.tanh,
        "sigmoid": special.expit,
        "relu": lambda v: np.maximum(v, 0),
        "hard_sigmoid": lambda v: np.clip(0.2 * v + 0.5, 0, 1),
    }
    return np.asarray(by_name[name](x))


def reference(
    kind: str, x: np.ndarray, w: Any, r: Any, b: Any, h: Any, c: Any, o: RecurrentOptions,
    lengths: Any, *, after: bool = False, attention: Any = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Return outputs, last output and last cell state, as the definitions say."""
    out = np.zeros((len(x), *h.shape))
    steps = range(len(x))[::-1] if o.reverse else range(len(x))
    for t in steps:
        gate = lambda v: _activated(v, o.recurrent_activation, o.clip)  # noqa: E731
        new = lambda v: _activated(v, o.activation, o.clip)  # noqa: E731
        if kind == "lstm":
            f, i, g, q = (x[t] @ w[k] + h @ r[k] + b[k] for k in range(4))
            cell = gate(f) * c + gate(i) * new(g)
            output = gate(q) * _activated(cell, o.activation, None)
        elif kind == "rnn":
            output, cell = new(x[t] @ w[0] + h @ r[0] + b[0]), c
        else:
            first, second = (b[:, 0], b[:, 1]) if after else (b, np.zeros_like(b))
            reset, update = (gate(x[t] @ w[k] + first[k] + h @ r[k] + second[k]) for k in range(2))
            if attention is not None:
                update = (1 - attention[t])[:, None] * update
            if after:
                n = new(x[t] @ w[2] + first[2] + reset * (h @ r[2] + second[2]))
            else:
                n = new(x[t] @ w[2] + first[2] + (reset * h) @ r[2])
            output, cell = (1 - update) * n + update * h, c
        due = (t < lengths)[:, None]
        out[t] = np.where(due, output, 0)
        h, c = np.where(due, output, h), np.where(due, cell, c)
    return out, h, c


def arrays_of(kind: str, sizes: tuple[int, ...], seed: int, *, after: bool = False) -> list[Any]:
    steps, batch, n_in, n_out = sizes
    n = N_UNITS[kind]
    bias = (n, 2, n_out) if after else (n, n_out)
    shapes = [
        (steps, batch, n_in),
        (n, n_in, n_out),
        (n, n_out, n_out),
        bias,
        *[(batch, n_out)] * 2,
    ]
    random = np.random.default_rng(seed)
    return [random.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]


OPTIONS = [
    RecurrentOptions(),
    RecurrentOptions(reverse=True, pre_weighted=True),
    RecurrentOptions(full_sequence=False, clip=0.4),
    RecurrentOptions("relu", "hard_sigmoid"),
]


@settings(max_examples=6)
@given(
    st.data(),
    machines(4),
    st.sampled_from(sorted(N_UNITS)),
    st.sampled_from(OPTIONS),
    st.booleans(),
    st.booleans(),
    st.integers(0, 99),
)
def test_against_the_naive_machine(
    data: st.DataObject, machine: Any, kind: str, options: RecurrentOptions, is_short: bool,
    is_constant: bool, seed: int,
) -> None:  # fmt: skip
    sizes = (data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2)), 2, 3)
    after = kind == "gru" and data.draw(st.booleans())
    arrays = arrays_of(kind, sizes, seed, after=after)
    graph, builder = new_builder(machine)
    names = ["x", "w", "r", "b", "h", "c"][: 6 if kind == "lstm" else 5]
    tensors = {
        name: data.draw(views(graph, array.shape, "float32", name))
        for name, array in zip(names, arrays, strict=False)
        if not (is_constant and name in "wrb")
    }
    given_ = [tensors.get(name, array) for name, array in zip(names, arrays, strict=False)]
    inputs = [(t, arrays[names.index(name)]) for name, t in tensors.items()]
    lengths, counts = None, np.full(sizes[1], sizes[0])
    if is_short:
        lengths = data.draw(views(graph, (sizes[1],), "int32", "lengths"))
        counts = np.random.default_rng(seed).integers(0, sizes[0] + 1, sizes[1]).astype(np.int32)
        inputs.append((lengths, counts))
    extra: Any = {"reset_after": after} if kind == "gru" else {}
    function: Any = {"lstm": lstm, "gru": gru, "rnn": rnn}[kind]
    built = function(builder, *given_, lengths=lengths, options=options, **extra)
    results = check(builder, inputs, list(built))
    x, w, r, b, h, c = arrays
    expected = reference(kind, x, w, r, b, h, c, options, counts, after=after)
    if not options.full_sequence:
        expected = (expected[1], *expected[1:])
    for result, right in zip(results, expected, strict=False):
        np.testing.assert_allclose(result, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", sorted(N_UNITS))
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_layer_of_useful_size(kind: str, dtype: str) -> None:
    sizes = (20, 4, 24, 32)
    arrays = arrays_of(kind, sizes, 3)
    graph, builder = new_builder(small_machine(64))
    x = graph.add_variable(dtype, arrays[0].shape, "x")
    graph.map_linearly(x, grain=4)
    function: Any = {"lstm": lstm, "gru": gru, "rnn": rnn}[kind]
    weights = [array / 4 for array in arrays[1:4]]
    built = function(builder, x, *weights)
    executable = compile_programs(graph, [builder.sequence])
    with Engine(executable, resolve_options()) as engine:
        engine.write_tensor(x, arrays[0])
        engine.run()
        results = [engine.read_tensor(tensor) for tensor in built]
    zeros = np.zeros((4, 32))
    full = np.full(4, 20)
    w, r, b = weights
    expected = reference(kind, arrays[0], w, r, b, zeros, zeros, OPTIONS[0], full)
    near = 2e-2 if dtype == "float16" else 1e-4
    for result, right in zip(results, expected, strict=False):
        np.testing.assert_allclose(result, right, rtol=near, atol=near)
    products = [plan for plan in builder.plans if plan.operation == "matmul"]
    assert len(products) == {"lstm": 1, "gru": 3, "rnn": 1}[kind], "planned once, not per step"


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("after", "n_ipus"), [(False, 1), (True, 2)])
def test_attention_scores(options: RecurrentOptions, after: bool, n_ipus: int) -> None:
    arrays = arrays_of("gru", (5, 2, 3, 4), 11, after=after)
    x, w, r, b, h, _ = arrays
    scores = np.random.default_rng(2).uniform(0, 1, (5, 2)).astype(np.float32)
    graph, builder = new_builder(small_machine(4, n_ipus))
    given_ = []
    for name, array in (("x", x), ("h", h), ("a", scores)):
        tensor = graph.add_variable("float32", array.shape, name)
        graph.map_linearly(tensor)
        given_.append((tensor, array))
    (x_at, _), (h_at, _), (a_at, _) = given_
    extra: Any = {"attention": a_at, "reset_after": after, "options": options}
    built = gru(builder, x_at, w, r, b, h_at, **extra)
    results = check(builder, given_, list(built))
    full = np.full(2, 5)
    expected = reference("gru", x, w, r, b, h, h, options, full, after=after, attention=scores)
    if not options.full_sequence:
        expected = (expected[1], *expected[1:])
    for result, right in zip(results, expected, strict=False):
        np.testing.assert_allclose(result, right, rtol=1e-4, atol=1e-5)
    variable = graph.add_variable("float32", (2, 5), "turned")
    graph.map_linearly(variable)
    with pytest.raises(BadGraph, match=r"'turned' is float32 of shape \(2, 5\): expected float32"):
        gru(builder, x_at, w, r, b, h_at, **{**extra, "attention": variable})


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("is_constant", [False, True])
def test_peepholes(options: RecurrentOptions, is_constant: bool) -> None:
    """Gates see the cell: forget and input the last one, output the new one."""
    x, w, r, b, h, c = arrays_of("lstm", (3, 2, 4, 5), 7)
    order = ("output", "forget", "candidate", "input")
    p = np.random.default_rng(7).uniform(-1, 1, (3, 5)).astype(np.float32)
    outputs, cells = [], []
    new_h, new_c = h.astype(float), c.astype(float)
    for t in range(3)[:: -1 if options.reverse else 1]:
        o, f, g, i = (x[t] @ w[k] + new_h @ r[k] + b[k] for k in range(4))
        gate: Any = (options.recurrent_activation, options.clip)
        f, i = (_activated(v + new_c * p[k], *gate) for v, k in ((f, 1), (i, 2)))
        new_c = f * new_c + i * _activated(g, options.activation, options.clip)
        o = _activated(o + new_c * p[0], *gate)
        new_h = o * _activated(new_c, options.activation, None)
        outputs.append(new_h)
        cells.append(new_c)
    graph, builder = new_builder(small_machine(3))
    tensors = []
    for name, array in zip("xwrbhcp", (x, w, r, b, h, c, p), strict=True):
        tensors.append(graph.add_variable("float32", array.shape, name))
        graph.map_linearly(tensors[-1])
    inputs = list(zip(tensors, (x, w, r, b, h, c, p), strict=True))
    peepholes = p if is_constant else tensors[-1]
    built = lstm(builder, *tensors[:6], peepholes=peepholes, cell_order=order, options=options)
    results = check(builder, inputs[: 6 if is_constant else 7], list(built))
    every = np.stack(outputs[:: -1 if options.reverse else 1])
    expected = [every if options.full_sequence else new_h, new_h, new_c]
    for result, right in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, right, rtol=1e-4, atol=1e-5)


def test_the_order_of_units_follows_the_weights() -> None:
    results = []
    arrays = arrays_of("lstm", (3, 2, 4, 5), 1)
    for order in (LSTM_UNITS, ("output", "candidate", "input", "forget")):
        graph, builder = new_builder(small_machine(5))
        x = graph.add_variable("float32", arrays[0].shape, "x")
        graph.map_linearly(x)
        offset = [LSTM_UNITS.index(name) for name in order]
        w, r, b = (array[offset] for array in arrays[1:4])
        built = lstm(builder, x, w, r, b, cell_order=order)
        results.append(run_both(graph, builder.sequence, [(x, arrays[0])], list(built))[1])
    for first, second in zip(*results, strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-6)


@given(machines(), st.integers(1, 3), st.integers(1, 5), st.integers(1, 9), st.integers(0, 2))
def test_a_sliceable_tensor_has_whole_columns(
    machine: Any, outer: int, n: int, inner: int, dim: int
) -> None:
    graph, builder = new_builder(machine)
    shape = [(n, outer, inner), (outer, n, inner), (outer, inner, n)][dim]
    tensor = create_sliceable_tensor(builder, "float16", shape, dim)
    assert tensor.shape == shape
    order = [dim, *(d for d in range(3) if d != dim)]
    mapping = graph.tile_mapping(tensor.dim_shuffle(*order))
    owner = np.zeros(tensor.n_elements, np.int64)
    for tile in range(machine.n_tiles):
        for start, stop in mapping.intervals(tile):
            owner[start:stop] = tile
    rows = owner.reshape(n, -1)
    assert (rows == rows[0]).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b, x, a: lstm(b, x.flatten(), *a[1:4]), "expected float16 or float32 of shape"),
        (lambda b, x, a: lstm(b, x, a[1][:3], a[2], a[3]), r"input weights have shape \(3, 4, 5\)"),
        (lambda b, x, a: lstm(b, x, a[1], a[2], a[3][:, :2]), r"biases have shape \(4, 2\)"),
        (
            lambda b, x, a: lstm(b, x, a[1], a[2], a[3], x),
            r"initial output 'x' is float32 of shape",
        ),
        (lambda b, x, a: lstm(b, x, *a[1:4], cell_order=GRU_UNITS), "cell order is .*expected for"),
        (
            lambda b, x, a: lstm(b, x, *a[1:4], peepholes=a[3]),
            r"peepholes have shape \(4, 5\): exp",
        ),
        (lambda b, x, a: lstm(b, x, *a[1:4], lengths=x), "sequence lengths 'x' are float32 of"),
        (lambda *_: RecurrentOptions("softmax"), "activation of a recurrent layer is 'softmax'"),
        (lambda *_: RecurrentOptions(clip=0.0), "clip of a recurrent layer is 0.0: expected more"),
        (
            lambda b, x, a: gru(b, x, a[1][:3], a[2][:3], a[3][:3], reset_after=True),
            r"expected \(3, 2, outputs\) with reset_after=True",
        ),
    ],
)
def test_invalid_arguments(call: Any, message: str) -> None:
    arrays = arrays_of("lstm", (3, 2, 4, 5), 1)
    graph, builder = new_builder(small_machine(2))
    x = graph.add_variable("float32", arrays[0].shape, "x")
    graph.map_linearly(x)
    with pytest.raises(BadGraph, match=message):
        call(builder, x, arrays)
