"""LSTM, GRU and RNN of models, against onnxruntime."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.engine.operators.graphs import both, info, model_of

from tilescope.engine import compile_model, load_machine, load_onnx
from tilescope.engine.errors import BadModel

STEPS, BATCH, INPUTS, HIDDEN = 4, 3, 5, 6
UNITS = {"LSTM": 4, "GRU": 3, "RNN": 1}


def model(
    op_type: str,
    *,
    lengths: Any = None,
    states: bool = False,
    peepholes: bool = False,
    **attributes: Any,
) -> Any:
    """Return a model with random weights, and its inputs."""
    n = 2 if attributes.get("direction") == "bidirectional" else 1
    units = UNITS[op_type]
    random = np.random.default_rng(4)
    weights = {
        "w": random.uniform(-1, 1, (n, units * HIDDEN, INPUTS)).astype(np.float32),
        "r": random.uniform(-1, 1, (n, units * HIDDEN, HIDDEN)).astype(np.float32),
        "b": random.uniform(-1, 1, (n, 2 * units * HIDDEN)).astype(np.float32),
    }
    inputs = {"x": random.uniform(-1, 1, (STEPS, BATCH, INPUTS)).astype(np.float32)}
    names = ["x", "w", "r", "b", "", "", "", ""]
    if peepholes:
        names[7] = "p"
        weights["p"] = random.uniform(-1, 1, (n, 3 * HIDDEN)).astype(np.float32)
    if lengths is not None:
        names[4] = "lengths"
        inputs["lengths"] = np.array(lengths, np.int32)
    if states:
        for i, name in enumerate(("h", "c")[: 2 if op_type == "LSTM" else 1]):
            names[5 + i] = name
            inputs[name] = random.uniform(-1, 1, (n, BATCH, HIDDEN)).astype(np.float32)
    outputs = ["y", "last", "cell"][: 3 if op_type == "LSTM" else 2]
    while not names[-1]:
        names.pop()
    node = helper.make_node(op_type, names, outputs, name="layer", hidden_size=HIDDEN, **attributes)
    every = [STEPS, n, BATCH, HIDDEN]
    shapes = [every, every[1:], every[1:]]
    kinds = {"lengths": onnx.TensorProto.INT32}
    return model_of(
        [node],
        [info(k, v.shape, kinds.get(k, onnx.TensorProto.FLOAT)) for k, v in inputs.items()],
        [info(k, s) for k, s in zip(outputs, shapes, strict=False)],
        weights,
    ), inputs


@pytest.mark.parametrize("op_type", sorted(UNITS))
@pytest.mark.parametrize(
    "options",
    [
        {"direction": "bidirectional", "states": True},
        {"direction": "reverse", "lengths": [2, 4, 1], "clip": 0.5},
    ],
    ids=["both", "reverse"],
)
def test_a_layer(tmp_path: Path, op_type: str, options: dict[str, Any]) -> None:
    built, inputs = model(op_type, **options)
    for actual, expected in both(built, tmp_path / "model.onnx", inputs):
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_an_lstm_with_peepholes(tmp_path: Path) -> None:
    options: Any = {"direction": "bidirectional", "lengths": [4, 2, 3], "clip": 0.6}
    built, inputs = model("LSTM", peepholes=True, states=True, **options)
    for actual, expected in both(built, tmp_path / "model.onnx", inputs):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_a_gru_that_resets_after_the_product(tmp_path: Path) -> None:
    built, inputs = model("GRU", linear_before_reset=1, lengths=[4, 2, 3])
    for actual, expected in both(built, tmp_path / "model.onnx", inputs):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("peepholes", [False, True])
def test_an_lstm_with_coupled_gates(tmp_path: Path, peepholes: bool) -> None:
    built, inputs = model("LSTM", input_forget=1, peepholes=peepholes, states=True)
    for actual, expected in both(built, tmp_path / "model.onnx", inputs):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("LSTM", {"activations": ["Sigmoid", "Tanh", "Relu"]}),
        ("LSTM", {"activations": ["HardSigmoid", "ScaledTanh", "LeakyRelu"],
                  "activation_alpha": [0.3, 1.2, 0.1], "activation_beta": [0.4, 0.7]}),
        ("GRU", {"activations": ["Sigmoid", "Elu"], "activation_alpha": [0.5]}),
        ("GRU", {"activations": ["HardSigmoid", "Softsign"]}),
        ("RNN", {"activations": ["Affine"], "activation_alpha": [0.5], "activation_beta": [0.1]}),
        ("RNN", {"activations": ["ThresholdedRelu"], "activation_alpha": [0.2]}),
        ("RNN", {"activations": ["Softplus"]}),
    ],
)  # fmt: skip
def test_activations_with_parameters(
    tmp_path: Path, op_type: str, attributes: dict[str, Any]
) -> None:
    """An activation that has a parameter takes the next one that is given."""
    built, inputs = model(op_type, **attributes)
    for actual, expected in both(built, tmp_path / "model.onnx", inputs):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("op_type", "attributes", "message"),
    [
        ("GRU", {"activations": ["Sigmoid", "Cube"]}, "'cube' is not supported: expected one of"),
        ("LSTM", {"activations": ["Sigmoid", "Tanh"]}, "expected 3 activations per direction"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, op_type: str, attributes: dict[str, Any], message: str
) -> None:
    built, _ = model(op_type, **attributes)
    onnx.save(built, tmp_path / "model.onnx")
    with pytest.raises(BadModel, match=message):
        load_onnx(tmp_path / "model.onnx")


def test_another_process_loads_a_compiled_layer(tmp_path: Path) -> None:
    built, inputs = model("GRU", clip=0.5, activations=["HardSigmoid", "Tanh"])
    onnx.save(built, tmp_path / "model.onnx")
    compiled = compile_model(load_onnx(tmp_path / "model.onnx"), load_machine("gc200"))
    assert inputs
    (tmp_path / "layer.bin").write_bytes(compiled.executable.to_bytes())
    code = (
        "import sys; from pathlib import Path; from tilescope.engine import Executable;"
        "Executable.from_bytes(Path(sys.argv[1]).read_bytes())"
    )
    arguments = [sys.executable, "-c", code, str(tmp_path / "layer.bin")]
    paths = os.pathsep.join(path for path in sys.path if path)
    subprocess.run(arguments, check=True, env={**os.environ, "PYTHONPATH": paths})
