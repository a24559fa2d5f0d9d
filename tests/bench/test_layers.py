"""Softmax, layer normalisation and an LSTM on 1,472 simulated tiles, beside numpy and onnxruntime.

Never fails on time.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from tests.bench.beside import Times, beside, median_times

from tilescope.engine import (
    Builder,
    Engine,
    Graph,
    compile_programs,
    load_machine,
    resolve_options,
)
from tilescope.engine.library.popnn.norm.layer_norm import layer_norm_statistics, layer_norm_whiten
from tilescope.engine.library.popnn.recurrent.lstm import lstm
from tilescope.engine.library.popnn.softmax import softmax
from tilescope.engine.library.poprand.random_numbers import normal
from tilescope.engine.program import Sequence

ROWS = (2048, 1024)
STEPS, BATCH, SIZE = 64, 16, 128


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def _whitened(x: np.ndarray) -> np.ndarray:
    apart = x - x.mean(1, keepdims=True)
    return np.asarray(apart / np.sqrt(np.square(apart).mean(1, keepdims=True) + 1e-5))


def _layer_norm(builder: Builder, x: Any) -> Any:
    mean, inverse = layer_norm_statistics(builder, x, 1e-5, is_stable=True)
    return layer_norm_whiten(builder, x, mean, inverse)


def _measured(
    name: str, builder: Builder, out: Any, inputs: dict[Any, np.ndarray]
) -> tuple[np.ndarray, str, Times]:
    """Return the result, what to print of the program, and the times of a run."""
    began = perf_counter()
    executable = compile_programs(builder.graph, [builder.sequence])
    compile_s = perf_counter() - began
    with Engine(executable, resolve_options()) as engine:
        for tensor, values in inputs.items():
            engine.write_tensor(tensor, values)
        engine.run()
        run = median_times(engine.run)
        result = engine.read_tensor(out)
    cycles = sum(int(step.cost.cycles.max()) for step in executable.steps)
    return result, f"{name}: compiled in {compile_s:.2f} s, {cycles:,} cycles of steps", run


@pytest.mark.parametrize(
    ("name", "ours", "theirs"),
    [("softmax", softmax, _softmax), ("layer normalisation", _layer_norm, _whitened)],
)
def test_rows(name: str, ours: Any, theirs: Any) -> None:
    graph = Graph(load_machine("gc200"))
    builder = Builder(graph, Sequence("main"))
    x = graph.add_variable("float32", ROWS, "x")
    graph.map_linearly(x, grain=ROWS[1])
    values = np.random.default_rng(0).standard_normal(ROWS).astype(np.float32)
    result, subject, run = _measured(f"{name} of {ROWS}", builder, ours(builder, x), {x: values})
    np.testing.assert_allclose(result, theirs(values), rtol=1e-3, atol=1e-4)
    beside(subject, run, "numpy", median_times(lambda: theirs(values)))


def test_normal_numbers() -> None:
    graph = Graph(load_machine("gc200"))
    builder = Builder(graph, Sequence("main"))
    x, seed = graph.add_variable("float32", ROWS, "x"), graph.add_variable("int32", (2,), "seed")
    for tensor in (x, seed):
        graph.map_linearly(tensor)
    out = normal(builder, seed, 0, x, "float32")
    inputs = {seed: np.array([1, 2], np.int32)}
    result, subject, run = _measured(f"normal numbers {ROWS}", builder, out, inputs)
    assert abs(result.mean()) < 0.01
    random = np.random.default_rng(0)
    beside(subject, run, "numpy", median_times(lambda: random.standard_normal(ROWS, np.float32)))


def test_lstm() -> None:
    random = np.random.default_rng(0)
    w, r = (random.uniform(-0.1, 0.1, (1, 4 * SIZE, SIZE)).astype(np.float32) for _ in range(2))
    values = random.standard_normal((STEPS, BATCH, SIZE)).astype(np.float32)
    graph = Graph(load_machine("gc200"))
    builder = Builder(graph, Sequence("main"))
    x = graph.add_variable("float32", values.shape, "x")
    graph.map_linearly(x, grain=2)
    weights = [part.reshape(4, SIZE, SIZE).transpose(0, 2, 1) for part in (w, r)]
    order = ("input", "output", "forget", "candidate")
    biases = np.zeros((4, SIZE), np.float32)
    out = lstm(builder, x, weights[0], weights[1], biases, cell_order=order)[0]
    result, subject, run = _measured(f"LSTM of {values.shape}", builder, out, {x: values})
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=SIZE)
    model = helper.make_graph(
        [node],
        "lstm",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, values.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (STEPS, 1, BATCH, SIZE))],
        [helper.make_tensor(n, TensorProto.FLOAT, a.shape, a) for n, a in (("w", w), ("r", r))],
    )
    built = helper.make_model(model, opset_imports=[helper.make_opsetid("", 14)], ir_version=9)
    alone = onnxruntime.SessionOptions()
    alone.intra_op_num_threads = 1  # threads that wait would count
    session = onnxruntime.InferenceSession(built.SerializeToString(), alone)
    expected = np.asarray(session.run(None, {"x": values})[0])[:, 0]
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)
    beside(subject, run, "onnxruntime", median_times(lambda: session.run(None, {"x": values})))
