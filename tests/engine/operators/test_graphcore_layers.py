"""Layers of PopART, and operators between replicas, against numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.engine.operators.graphcore import (
    MACHINE,
    Case,
    agrees,
    drawn,
    gradients_agree,
    node_of,
    results_of,
    saved,
)
from tests.engine.operators.graphs import info

from tilescope.engine import Engine, compile_model, load_onnx, resolve_options
from tilescope.engine.errors import BadModel
from tilescope.engine.training import Loss, Sgd, for_training

_X = drawn((2, 4, 3, 3))
_SCALE, _OFFSET = drawn((4,), 1), drawn((4,), 2)


def _group(x: np.ndarray, scale: np.ndarray, offset: np.ndarray, n_groups: int, epsilon: float):
    rows = x.reshape(x.shape[0] * n_groups, -1)
    mean, inverse = rows.mean(1), 1 / np.sqrt(rows.var(1) + epsilon)
    white = ((rows - mean[:, None]) * inverse[:, None]).reshape(x.shape)
    shape = (-1, *(1,) * (x.ndim - 2))
    return white * scale.reshape(shape) + offset.reshape(shape), mean, inverse


def _batch(x: np.ndarray, scale: np.ndarray, offset: np.ndarray, mean: Any, variance: Any):
    of = (0, 2, 3)
    n = x.size // x.shape[1]
    own_mean, own_variance = x.mean(of), x.var(of)
    shape = (1, -1, 1, 1)
    white = (x - own_mean.reshape(shape)) / np.sqrt(own_variance.reshape(shape) + 1e-5)
    out = white * scale.reshape(shape) + offset.reshape(shape)
    sample = own_variance * n / (n - 1)
    return out, 0.8 * mean + 0.2 * own_mean, 0.8 * variance + 0.2 * sample, own_mean, sample


def _convolved(x: np.ndarray, w: np.ndarray, stride: int, pad: int, groups: int = 1) -> np.ndarray:
    wide = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    windows = np.lib.stride_tricks.sliding_window_view(wide, w.shape[2:], (2, 3))
    windows = windows[:, :, ::stride, ::stride]
    parts = zip(np.split(windows, groups, 1), np.split(w, groups, 0), strict=True)
    return np.concatenate([np.einsum("nchwij,ocij->nohw", a, b) for a, b in parts], 1)


def _lstm(
    x: np.ndarray,
    weights: np.ndarray,
    bias: np.ndarray | None = None,
    state: np.ndarray | None = None,
    *,
    is_full: bool = True,
) -> Any:
    n_hidden = weights.shape[2]
    h, c = np.zeros((2, x.shape[1], n_hidden)) if state is None else state
    every = []
    for step in x:
        sums = np.einsum("bi,gih->gbh", np.concatenate([step, h], 1), weights)
        sums = sums if bias is None else sums + bias[:, None]
        forget, enter, leave = (1 / (1 + np.exp(-sums[i])) for i in (0, 1, 3))
        c = forget * c + enter * np.tanh(sums[2])
        h = leave * np.tanh(c)
        every.append(h)
    return (np.stack(every) if is_full else h), c


_STEPS, _WEIGHTS = drawn((3, 2, 4), 5), drawn((4, 4 + 3, 3), 6) * 0.5
_IMAGES, _KERNEL = drawn((1, 3, 5, 5), 1), drawn((4, 3, 3, 3), 2)
_GROUPED, _SMALL = drawn((1, 4, 4, 4), 3), drawn((4, 2, 1, 1), 4)

CASES = [
    Case("GroupNormalization", [_X, _SCALE, _OFFSET],
         lambda x, s, b: _group(x, s, b, 2, 1e-3)[:1], {"num_groups": 2, "epsilon": 1e-3},
         trained=(0, 1, 2), tolerance=1e-5),
    Case("MultiConv", [_IMAGES, _KERNEL, None, _GROUPED, _SMALL, _OFFSET],
         lambda x, w, _, y, v, b: (
             _convolved(x, w, 2, 1), _convolved(y, v, 1, 0, 2) + b.reshape(1, -1, 1, 1)),
         {"strides": [2, 2, 1, 1], "pads": [1, 1, 1, 1, 0, 0, 0, 0], "numConvs": 2,
          "__available_memory": [0.4, 0.5], "__partials_type": ["float", "float"]},
         trained=(0, 1, 3, 4, 5), tolerance=1e-5),
    Case("LSTM", [_STEPS, _WEIGHTS], _lstm, trained=(0, 1), tolerance=1e-5),
    Case("LSTM", [_STEPS, _WEIGHTS, drawn((4, 3), 7), drawn((2, 2, 3), 8)], _lstm,
         trained=(0, 1, 2, 3), tolerance=1e-5, name="LSTM-state"),
    Case("LSTM", [_STEPS, _WEIGHTS, drawn((4, 3), 7)],
         lambda *operands: _lstm(*operands, is_full=False), {"output_full_sequence": 0},
         trained=(0, 1, 2), tolerance=1e-5, name="LSTM-last"),
    Case("ShapedDropout", [_X], lambda x: x, {"shape": [4, 1, 1], "ratio": 0.0}),
    Case("ReplicatedAllReduce", [_X], lambda x: x, {"__collectiveOperator": 0}),
    Case("ReplicatedAllReduce", [_X], lambda x: x, {"__collectiveCommGroup": [1, 1]},
         name="ReplicatedAllReduce-alone"),
    Case("ReplicatedReduceScatter", [_X], lambda x: x.reshape(-1)),
    Case("ReplicatedAllGather", [_X], lambda x: x.reshape(-1)),
]  # fmt: skip
WITH_STATISTICS = [
    Case("GroupNormalization", [_X, _SCALE, _OFFSET],
         lambda x, s, b: _group(x, s, b, 2, 1e-5), {"num_groups": 2}, tolerance=1e-5,
         name="GroupNormalization-statistics"),
    Case("BatchNormalization", [_X, _SCALE, _OFFSET, drawn((4,), 3), np.abs(drawn((4,), 4))],
         _batch, {"momentum": 0.8, "unbiased_variance": 0}, tolerance=1e-5),
    Case("BatchNormalization", [_X, _SCALE, _OFFSET, drawn((4,), 3), np.abs(drawn((4,), 4))],
         lambda x, s, b, m, v: (x - m.reshape(-1, 1, 1)) * (
             s / np.sqrt(v + 1e-5)).reshape(-1, 1, 1) + b.reshape(-1, 1, 1),
         tolerance=1e-5, name="BatchNormalization-inference"),
]  # fmt: skip


@pytest.mark.parametrize("case", [*CASES, *WITH_STATISTICS], ids=str)
def test_results(case: Case, tmp_path: Path) -> None:
    agrees(case, tmp_path)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients(case: Case, tmp_path: Path) -> None:
    gradients_agree(case, tmp_path)


def _drawn_masks(nodes: list[onnx.NodeProto], folder: Path, opset_11: Any) -> dict[str, Any]:
    """Return the outputs of a training step of a layer, whose weight is 1."""
    path = folder / "dropout.onnx"
    outputs = [info("loss", ()), *opset_11]
    saved(nodes, {"x": _X}, outputs, {"one": np.ones((), np.float32)}, path)
    model = for_training(
        load_onnx(path, trainable=["one"]),
        Loss(kind="identity", output="loss", reduction="sum"),
        Sgd(lr=0.0),
        anchors=["y"],
        seed=3,
    )
    compiled = compile_model(model, MACHINE, is_checked=True)
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        engine.load()
        return dict(compiled.run(engine, {"x": _X}))


def test_elements_of_a_shaped_dropout_share_a_mask(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "one"], ["m"], name="m"),
        node_of("ShapedDropout", ["m"], ["y"], shape=[4, 1, 3], ratio=0.5),
        node_of("IdentityLoss", ["y"], ["loss"], reduction="Sum"),
    ]
    y = _drawn_masks(nodes, tmp_path, [info("y", _X.shape)])["y"]
    shares = y / _X
    np.testing.assert_allclose(shares, np.broadcast_to(shares[:1, :, :1], _X.shape), 1e-6)
    assert {round(float(share), 5) for share in shares.reshape(-1)} == {0.0, 2.0}


def test_a_dropout_in_training_returns_its_mask(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "one"], ["m"], name="m"),
        helper.make_node("Dropout", ["m"], ["y", "mask"], name="d", ratio=0.5),
        node_of("IdentityLoss", ["y"], ["loss"], reduction="Sum"),
    ]
    outputs = _drawn_masks(
        nodes, tmp_path, [info("y", _X.shape), info("mask", _X.shape, onnx.TensorProto.BOOL)]
    )
    assert outputs["mask"].dtype == bool
    np.testing.assert_allclose(outputs["y"], np.where(outputs["mask"], 2 * _X, 0), 1e-6)


def test_running_statistics_of_a_training_may_be_inputs(tmp_path: Path) -> None:
    operands = [np.asarray(array) for array in WITH_STATISTICS[1].operands]
    x, scale, offset, mean, variance = operands
    names = ["y", "mean", "variance", "saved_mean", "saved_variance"]
    nodes = [
        node_of("BatchNormalization", ["x", "s", "b", "m", "v"], names, momentum=0.8),
        node_of("IdentityLoss", ["y"], ["loss"], reduction="Sum"),
    ]
    inputs = {"x": x, "b": offset, "m": mean, "v": variance}
    path = tmp_path / "norm.onnx"
    outputs = [info("loss", ()), info("y", _X.shape), info("mean", (4,)), info("variance", (4,))]
    saved(nodes, inputs, outputs, {"s": scale}, path)
    loss = Loss(kind="identity", output="loss", reduction="sum")
    compiled = compile_model(
        for_training(load_onnx(path, trainable=["s"]), loss, Sgd(lr=0)), MACHINE
    )
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        engine.load()
        actual = compiled.run(engine, inputs)
    for name, expected in zip(names[:3], _batch(*operands), strict=False):
        np.testing.assert_allclose(actual[name], expected, 1e-4, 1e-5)


@pytest.mark.parametrize(
    ("op_type", "operands", "attributes", "message"),
    [
        ("ReplicatedAllReduce", [_X], {"__collectiveCommGroup": [1, 2]}, "between 2 replicas"),
        ("ReplicatedAllGather", [_X], {"__collectiveReplicaGrouping": [4, 1, 4]}, "4 replicas"),
        ("LSTM", [_STEPS, _WEIGHTS[:, 1:]], {}, r"'x1' has shape \(4, 6, 3\): expected \(4, 7, 3"),
        ("LSTM", [_X, _WEIGHTS], {}, "expected .steps, batch, inputs."),
        ("MultiConv", [_X], {}, "convolution 0 has no data or no weights"),
        ("MultiConv", [_X, _KERNEL], {"inDilations": [2, 2]}, "inDilations other than 1"),
    ],
)
def test_what_does_not_fit(
    op_type: str, operands: list[Any], attributes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadModel, match=message):
        results_of(Case(op_type, operands, lambda *_: 0.0, attributes), tmp_path / "bad.onnx")
