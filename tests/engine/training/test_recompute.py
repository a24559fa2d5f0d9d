"""Forward operations that are computed again for the backward pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilescope.engine import (
    Adam,
    Loss,
    Recomputation,
    Trainer,
    for_training,
    load_machine,
    load_onnx,
)
from tilescope.engine.errors import BadOption
from tilescope.engine.ir import RECOMPUTATIONS, Model, TrainingPass
from tilescope.engine.transform import transform

MACHINE = load_machine("gc200", tiles_per_ipu=16)
_RNG = np.random.default_rng(3)
_BATCH, _WIDTH = 32, 24

Arrays = dict[str, NDArray[Any]]


def _saved(folder: Path, nodes: list[onnx.NodeProto], weights: Arrays, shape: list[int]) -> Path:
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, name) for name, w in weights.items()],
    )
    path = folder / "network.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def _drawn(*shape: int) -> NDArray[np.float32]:
    drawn: NDArray[np.float32] = (_RNG.normal(size=shape) / np.sqrt(shape[-1])).astype(np.float32)
    return drawn


def _deep(folder: Path, n_layers: int) -> Path:
    """Return the file of dense layers, a normalisation, a dropout and a relu each."""
    nodes: list[onnx.NodeProto] = []
    weights: Arrays = {}
    value = "x"
    for i in range(n_layers):
        names = {f"w{i}": _drawn(_WIDTH, _WIDTH), f"b{i}": _drawn(_WIDTH)}
        weights |= {**names, f"s{i}": np.ones(_WIDTH, np.float32), f"o{i}": _drawn(_WIDTH)}
        nodes += [
            helper.make_node("Gemm", [value, f"w{i}", f"b{i}"], [f"h{i}"], name=f"dense{i}"),
            helper.make_node(
                "LayerNormalization", [f"h{i}", f"s{i}", f"o{i}"], [f"n{i}"], name=f"norm{i}"
            ),
            helper.make_node("Relu", [f"n{i}"], [f"r{i}"], name=f"relu{i}"),
            helper.make_node("Dropout", [f"r{i}", "ratio", "yes"], [f"d{i}"], name=f"drop{i}"),
        ]
        value = f"d{i}"
    weights |= {"ratio": np.array(0.25, np.float32), "yes": np.array(True)}
    nodes.append(helper.make_node("Identity", [value], ["y"], name="last"))
    return _saved(folder, nodes, weights, [_BATCH, _WIDTH])


def _recurrent(folder: Path) -> Path:
    """Return the file of an LSTM between convolutions, with batch normalisation."""
    weights = {
        "k": _drawn(8, 3, 3),
        "w": _drawn(1, 32, 8),
        "r": _drawn(1, 32, 8),
        "v": _drawn(8, 5),
        "scale": np.ones(8, np.float32),
        "offset": _drawn(8),
        "mean": np.zeros(8, np.float32),
        "variance": np.ones(8, np.float32),
        "zero": np.array([0]),
    }
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], name="conv", pads=[1, 1]),
        helper.make_node(
            "BatchNormalization", ["c", "scale", "offset", "mean", "variance"],
            ["n", "mean2", "variance2"], name="norm", training_mode=1,
        ),
        helper.make_node("Relu", ["n"], ["a"], name="relu"),
        helper.make_node("Transpose", ["a"], ["t"], name="turn", perm=[2, 0, 1]),
        helper.make_node("LSTM", ["t", "w", "r"], ["", "h"], name="lstm", hidden_size=8),
        helper.make_node("Squeeze", ["h", "zero"], ["s"], name="squeeze"),
        helper.make_node("MatMul", ["s", "v"], ["y"], name="dense"),
    ]  # fmt: skip
    return _saved(folder, nodes, weights, [6, 3, 10])


def _model(path: Path, recomputation: Recomputation | None, n_rounds: int = 1) -> Model:
    model = load_onnx(path, trainable="*")
    return for_training(
        model, Loss(kind="cross-entropy"), Adam(lr=0.01), n_rounds, recomputation=recomputation
    )


def _trained(model: Model, shape: tuple[int, ...], n_classes: int) -> tuple[Any, Arrays, int]:
    """Return losses and weights of three steps, and the bytes that are alive at most."""
    rng = np.random.default_rng(5)
    losses = []
    with Trainer(model, MACHINE) as trainer:
        for _ in range(3):
            labels = rng.integers(0, n_classes, shape[0])
            x = rng.normal(size=shape).astype(np.float32)
            losses.append(trainer.step({"x": x, "labels": labels})["loss"])
        memory = trainer.compiled.executable.memory
        return losses, trainer.weights(), int(memory.live.dense().sum(axis=-1).max())


def _same(a: Arrays, b: Arrays) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("kind", [k for k in RECOMPUTATIONS if k not in ("none", "pipeline")])
def test_the_bits_stay(kind: str, tmp_path: Path) -> None:
    path = _deep(tmp_path, 4)
    losses, weights, _ = _trained(_model(path, None), (_BATCH, _WIDTH), _WIDTH)
    again = _model(path, Recomputation(kind))
    n_again = sum(
        operation.training_pass == TrainingPass.RECOMPUTATION
        for operation in transform(again).operations
    )
    assert n_again >= 4
    others, other_weights, _ = _trained(again, (_BATCH, _WIDTH), _WIDTH)
    assert np.array_equal(losses, others)
    assert _same(weights, other_weights)


@pytest.mark.parametrize("kind", ["standard", "all"])
@pytest.mark.parametrize("n_rounds", [1, 2])
def test_running_statistics_change_once(kind: str, n_rounds: int, tmp_path: Path) -> None:
    path = _recurrent(tmp_path)
    results = []
    for recomputation in (None, Recomputation(kind)):
        model = _model(path, recomputation, n_rounds)
        rng = np.random.default_rng(6)
        with Trainer(model, MACHINE) as trainer:
            for _ in range(2):
                lead = (n_rounds,) if n_rounds > 1 else ()
                x = rng.normal(size=(*lead, 6, 3, 10)).astype(np.float32)
                trainer.step({"x": x, "labels": rng.integers(0, 5, (*lead, 6))})
            results.append(trainer.weights())
    assert "mean" in results[0]
    assert _same(*results)


def test_less_is_alive_in_a_deep_network(tmp_path: Path) -> None:
    path = _deep(tmp_path, 16)
    _, _, most = _trained(_model(path, None), (_BATCH, _WIDTH), _WIDTH)
    _, _, less = _trained(_model(path, Recomputation("standard")), (_BATCH, _WIDTH), _WIDTH)
    assert less < 0.75 * most


def _names(path: Path, recomputation: Recomputation) -> set[str]:
    return {
        operation.origin.name if operation.origin else operation.name
        for operation in transform(_model(path, recomputation)).operations
        if operation.training_pass == TrainingPass.RECOMPUTATION
    }


def test_nodes_are_chosen_by_name(tmp_path: Path) -> None:
    path = _deep(tmp_path, 3)
    assert _names(path, Recomputation("none", again=("norm*",))) == {"norm0", "norm1", "norm2"}
    every = _names(path, Recomputation("all"))
    assert {"dense0", "norm1", "drop1"} <= every
    kept = _names(path, Recomputation("all", kept=("dense*", "drop0")))
    assert kept == every - {"dense0", "dense1", "dense2", "drop0"}
    assert _names(path, Recomputation("norm")) >= {"norm0", "relu0", "norm2", "relu2"}
    assert "dense0" not in _names(path, Recomputation("norm"))


def test_an_identity_that_is_kept_is_a_checkpoint(tmp_path: Path) -> None:
    """Its result stays and not its operand, which the layer's own gradients read."""
    path = _deep(tmp_path, 3)
    proto = onnx.load(path)
    for node in proto.graph.node:
        node.input[:] = [f"k{name[1]}" if name in ("d0", "d1") else name for name in node.input]
    marks = [helper.make_node("Identity", [f"d{i}"], [f"k{i}"], name=f"mark{i}") for i in (0, 1)]
    for i, mark in enumerate(marks):
        proto.graph.node.insert(5 * i + 4, mark)
    onnx.save(proto, path)
    model = _model(path, Recomputation("all", kept=("mark*",)))
    made_in: dict[str, TrainingPass | None] = {}
    read: dict[str, set[str]] = {}
    for operation in transform(model).operations:
        name = (operation.origin or operation).name
        if operation.training_pass == TrainingPass.RECOMPUTATION:
            read.setdefault(name, set()).update(value.name for value in operation.operands)
        made_in |= dict.fromkeys((v.name for v in operation.results), operation.training_pass)
    assert {"dense0", "relu0", "dense1", "relu1"} <= read.keys()
    assert not read.keys() & {"mark0", "mark1"}
    assert {name for name in read["dense1"] if made_in.get(name) == TrainingPass.FORWARD} == {"k0"}
    plain = _trained(_model(path, None), (_BATCH, _WIDTH), _WIDTH)
    losses, weights, _ = _trained(model, (_BATCH, _WIDTH), _WIDTH)
    assert np.array_equal(losses, plain[0])
    assert _same(weights, plain[1])


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(BadOption, match="no recomputation 'some': choose none, standard, norm"):
        Recomputation("some")
