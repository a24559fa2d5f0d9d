"""Batch normalisations are folded into the convolutions before them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import NodeProto, helper
from onnx.reference import ReferenceEvaluator
from tests.engine.operators.graphs import info, model_of

from tilescope.engine import compile_model, load_machine, load_onnx
from tilescope.engine.ir import Model
from tilescope.engine.session.engine import Engine
from tilescope.engine.transform import transform

_RANDOM = np.random.default_rng(5)
_NORM = ("scale", "shift", "mean", "variance")


def _weights(out_channels: int, in_channels: int) -> dict[str, NDArray[Any]]:
    results: dict[str, NDArray[Any]] = {}
    results["w"] = _RANDOM.standard_normal((out_channels, in_channels, 3, 3)).astype(np.float32)
    results |= {n: _RANDOM.standard_normal(out_channels).astype(np.float32) for n in ("b", *_NORM)}
    results["variance"] = np.abs(results["variance"]) + 0.5
    results["by_channel"] = np.linspace(-1, 2, out_channels, dtype=np.float32).reshape(-1, 1, 1)
    results["by_column"] = np.linspace(-1, 2, 9, dtype=np.float32)
    results["number"] = np.array(3, np.float32)
    return results


def _norm(x: str, y: str) -> NodeProto:
    return helper.make_node("BatchNormalization", [x, *_NORM], [y], name=f"norm_{y}")


def _conv(inputs: Sequence[str], y: str, **attributes: Any) -> NodeProto:
    return helper.make_node("Conv", inputs, [y], name=f"conv_{y}", **attributes)


_FOLDED = {
    "norm": ([_conv(["x", "w"], "c"), _norm("c", "y")], 1),
    "bias and norm": ([_conv(["x", "w", "b"], "c"), _norm("c", "y")], 1),
    "two norms": ([_conv(["x", "w"], "c"), _norm("c", "n"), _norm("n", "y")], 1),
    "groups": ([_conv(["x", "w"], "c", group=2), _norm("c", "y")], 2),
    "then another function": (
        [
            _conv(["x", "w", "b"], "c"),
            _norm("c", "n"),
            helper.make_node("Relu", ["n"], ["r"]),
            _norm("r", "y"),
        ],
        1,
    ),
}
_NO_CONVOLUTION = {
    "two norms": [_norm("x", "n"), _norm("n", "y")],
    "norm and product": [_norm("x", "n"), helper.make_node("Mul", ["n", "by_channel"], ["y"])],
    "norm and number": [_norm("x", "n"), helper.make_node("Mul", ["number", "n"], ["y"])],
}
_NOT_FOLDED = {
    "a convolution used twice": [
        _conv(["x", "w"], "c"),
        _norm("c", "n"),
        helper.make_node("Add", ["c", "n"], ["y"]),
    ],
    "a function between": [
        _conv(["x", "w"], "c"),
        helper.make_node("Relu", ["c"], ["r"]),
        _norm("r", "y"),
    ],
    "no convolution": [_norm("x", "y")],
    "a product used twice": [
        _norm("x", "n"),
        _norm("n", "m"),
        helper.make_node("Add", ["n", "m"], ["y"]),
    ],
    "a factor that differs within a channel": [
        _norm("x", "n"),
        helper.make_node("Mul", ["n", "by_column"], ["y"]),
    ],
}


def _load(tmp_path: Path, nodes: list[NodeProto], n_groups: int = 1) -> tuple[Model, Any]:
    weights = _weights(4, 4 // n_groups)
    height = 7 if nodes[0].op_type == "Conv" else 9
    proto = model_of(nodes, [info("x", [1, 4, 9, 9])], [info("y", [1, 4, height, height])], weights)
    onnx.save(proto, tmp_path / "model.onnx")
    return load_onnx(tmp_path / "model.onnx"), proto


def _functions(model: Model) -> list[str]:
    return [op.attributes.get("function", op.operator.key) for op in model.operations]


@pytest.mark.parametrize(("nodes", "n_groups"), _FOLDED.values(), ids=_FOLDED)
def test_a_norm_becomes_weights_and_one_sum(
    tmp_path: Path, nodes: list[NodeProto], n_groups: int
) -> None:
    model, proto = _load(tmp_path, nodes, n_groups)
    after = _functions(transform(model))
    assert after[:2] == ["convolution", "add"]
    assert after[2:] == (["relu", "multiply", "add"] if len(nodes) == 4 else [])
    before = transform(model, without=["fold_batch_norm"])
    assert [context.name for context in before.operations[:1]] == ["conv_c"]
    x = _RANDOM.standard_normal((1, 4, 9, 9)).astype(np.float32)
    expected: Any
    (expected,) = ReferenceEvaluator(proto).run(None, {"x": x})
    compiled = compile_model(model, load_machine("gc200", tiles_per_ipu=4))
    with Engine(compiled.executable) as engine:
        actual = compiled.run(engine, {"x": x})["y"]
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("nodes", _NO_CONVOLUTION.values(), ids=_NO_CONVOLUTION)
def test_norms_without_a_convolution_become_one_factor_and_one_sum(
    tmp_path: Path, nodes: list[NodeProto]
) -> None:
    model, proto = _load(tmp_path, nodes)
    assert _functions(transform(model)) == ["multiply", "add"]
    x = _RANDOM.standard_normal((1, 4, 9, 9)).astype(np.float32)
    expected: Any
    (expected,) = ReferenceEvaluator(proto).run(None, {"x": x})
    compiled = compile_model(model, load_machine("gc200", tiles_per_ipu=4))
    with Engine(compiled.executable) as engine:
        actual = compiled.run(engine, {"x": x})["y"]
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("nodes", _NOT_FOLDED.values(), ids=_NOT_FOLDED)
def test_what_stays_as_it_is(tmp_path: Path, nodes: list[NodeProto]) -> None:
    model, _ = _load(tmp_path, nodes)
    assert _functions(transform(model)) == _functions(transform(model, without=["fold_batch_norm"]))


def test_weights_that_would_overflow_stay_as_they_are(tmp_path: Path) -> None:
    weights = {name: value.astype(np.float16) for name, value in _weights(4, 4).items()}
    weights["scale"][:] = 60_000
    weights["mean"][:], weights["variance"][:] = 0, 1
    nodes = [_conv(["x", "w"], "c"), _norm("c", "y")]
    inputs = [info("x", [1, 4, 9, 9], onnx.TensorProto.FLOAT16)]
    outputs = [info("y", [1, 4, 7, 7], onnx.TensorProto.FLOAT16)]
    onnx.save(model_of(nodes, inputs, outputs, weights), tmp_path / "model.onnx")
    model = load_onnx(tmp_path / "model.onnx")
    assert _functions(transform(model)) == ["convolution", "multiply", "add"]
