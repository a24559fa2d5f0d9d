"""Operands allocated for recurrent layers: values, and that the layers read them in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.oracle.compared import small_machine
from tests.oracle.drawn_graphs import new_builder
from tests.oracle.test_recurrent import N_UNITS, arrays_of, reference

from tilescope.engine import Engine, Executable, compile_programs
from tilescope.engine.errors import BadGraph
from tilescope.engine.library.popnn.recurrent.allocators import (
    create_gru_weights,
    create_lstm_weights,
    create_recurrent_input,
    create_recurrent_state,
    create_rnn_weights,
)
from tilescope.engine.library.popnn.recurrent.gru import gru
from tilescope.engine.library.popnn.recurrent.lstm import LSTM_UNITS, RecurrentOptions, lstm
from tilescope.engine.library.popnn.recurrent.rnn import rnn

LAYERS: dict[str, Any] = {"lstm": lstm, "gru": gru, "rnn": rnn}
WEIGHTS: dict[str, Any] = {
    "lstm": create_lstm_weights,
    "gru": create_gru_weights,
    "rnn": create_rnn_weights,
}


def _run(
    kind: str, sizes: tuple[int, ...], options: RecurrentOptions, *, allocated: bool,
    after: bool = False, dtype: str = "float32", **more: Any,
) -> tuple[Executable, list[str], list[np.ndarray]]:  # fmt: skip
    """Run a layer; return the program, the names of its compute sets, and its results."""
    *shape, n_outputs = sizes
    arrays = arrays_of(kind, sizes, 5, after=after)[: 6 if kind == "lstm" else 5]
    graph, builder = new_builder(small_machine(64))
    local: dict[str, Any] = {"reset_after": after} if kind == "gru" else {}
    if allocated:
        x = create_recurrent_input(
            builder, shape, n_outputs, N_UNITS[kind], dtype=dtype, options=options
        )
        weights = WEIGHTS[kind](
            builder, shape, n_outputs, dtype=dtype, options=options, **local, **more
        )
        states = [
            create_recurrent_state(builder, shape, n_outputs, name, dtype=dtype)
            for name in ("output", "cell")
        ]
        tensors = [x, *weights, *states][: len(arrays)]
    else:
        tensors = []
        for name, array in zip("xwrbhc", arrays, strict=False):
            tensors.append(graph.add_variable(dtype, array.shape, name))
            graph.map_linearly(tensors[-1], grain=4)
    assert [tensor.shape for tensor in tensors] == [array.shape for array in arrays]
    built = LAYERS[kind](builder, *tensors, options=options, **local, **more)
    executable = compile_programs(graph, [builder.sequence])
    with Engine(executable) as device:
        for tensor, array in zip(tensors, arrays, strict=True):
            device.write_tensor(tensor, array)
        device.run()
        results = [device.read_tensor(tensor) for tensor in built]
    return executable, [compute_set.name for compute_set in graph.compute_sets], results


def _cycles(executable: Executable) -> int:
    with Engine(executable) as device:
        return device.timelines()[0].n_cycles


def _expected(kind: str, sizes: Any, options: RecurrentOptions, *, after: bool = False) -> Any:
    arrays = arrays_of(kind, sizes, 5, after=after)
    x, w, r, b, h, c = arrays
    lengths = np.full(sizes[1], sizes[0])
    return reference(kind, x, w, r, b, h, c, options, lengths, after=after)


KINDS = [("lstm", False), ("gru", False), ("gru", True), ("rnn", False)]


@pytest.mark.parametrize(("kind", "after"), KINDS)
@pytest.mark.parametrize("pre_weighted", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_allocated_operands_are_read_in_place(
    kind: str, after: bool, pre_weighted: bool, dtype: str
) -> None:
    sizes = (6, 4, 48, 64)
    options = RecurrentOptions(pre_weighted=pre_weighted)
    executable, names, results = _run(
        kind, sizes, options, allocated=True, after=after, dtype=dtype
    )
    near = 3e-2 if dtype == "float16" else 1e-4
    for result, right in zip(results, _expected(kind, sizes, options, after=after), strict=False):
        np.testing.assert_allclose(result, right, rtol=near, atol=near)
    # Nothing arranges weights.
    assert [name for name in names if "rrangeWeights" in name or name.endswith("/weights")] == []
    spread, before, _ = _run(kind, sizes, options, allocated=False, after=after, dtype=dtype)
    assert any("rrangeWeights" in name or name.endswith("/weights") for name in before)
    assert _cycles(executable) < _cycles(spread)


def test_any_order_of_units() -> None:
    sizes = (3, 2, 8, 12)
    order = ("output", "candidate", "input", "forget")
    *_, results = _run("lstm", sizes, RecurrentOptions(), allocated=True, cell_order=order)
    x, w, r, b, h, c = arrays_of("lstm", sizes, 5)
    offset = [order.index(name) for name in LSTM_UNITS]
    full = np.full(2, 3)
    right = reference("lstm", x, w[offset], r[offset], b[offset], h, c, RecurrentOptions(), full)
    for result, expected in zip(results, right, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_the_state_lies_where_the_layer_holds_it() -> None:
    executable, *_ = _run("lstm", (3, 2, 8, 12), RecurrentOptions(), allocated=True)
    copies = [step for step in executable.steps if step.name.endswith("/initial")]
    assert len(copies) == 2
    assert {step.kind for step in copies} == {"OnTileExecute"}, "no exchange"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda b: create_recurrent_input(b, (3, 2), 5, 4),
            r"expected float16 or float32 of shape",
        ),
        (lambda b: create_recurrent_state(b, (3, 2, 4), 0), "A size of 'state'"),
        (lambda b: create_rnn_weights(b, (3, 2, 4), 5, dtype="int32"), "an input of int32"),
        (lambda b: create_lstm_weights(b, (3, 2, 4), 5, cell_order=("a",)), "cell order is"),
    ],
)
def test_invalid_arguments(call: Any, message: str) -> None:
    _, builder = new_builder(small_machine(2))
    with pytest.raises(BadGraph, match=message):
        call(builder)
