"""What recurrent layers keep for their gradients, chosen by memory or by recomputation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tests.engine.many_threads import share_all

from tilescope.engine import (
    Loss,
    Recomputation,
    Sgd,
    Trainer,
    compile_model,
    for_training,
    load_machine,
    load_onnx,
)
from tilescope.engine.ir import Model
from tilescope.engine.machine import Machine
from tilescope.engine.operators.recurrent.training import LAYER, LAYER_GRADIENT
from tilescope.engine.options.available_memory import AvailableMemory
from tilescope.engine.session.compiled_model import CompiledModel
from tilescope.engine.transform import transform
from tilescope.engine.transform.recurrent_storage import (
    LayerStorage,
    layer_storages,
    store_layers,
)

MACHINE = load_machine("gc200", tiles_per_ipu=16)
_STEPS, _BATCH, _INPUTS, _HIDDEN, _CLASSES = 48, 4, 8, 16, 3
_UNITS = {"LSTM": 4, "GRU": 3, "RNN": 1}
#: Bytes of a value of one step, (batch, outputs).
_VALUE_BYTES = _BATCH * _HIDDEN * 4

Arrays = dict[str, NDArray[Any]]


def _saved(
    folder: Path,
    kinds: list[str],
    n_steps: int = _STEPS,
    n_inputs: int = _INPUTS,
    **attributes: Any,
) -> Path:
    """Return the file of recurrent layers and a dense one of the last output."""
    rng = np.random.default_rng(3)
    weights: Arrays = {"dense": rng.normal(size=(_HIDDEN, _CLASSES)), "zero": np.array([0])}
    nodes, value, width = [], "x", n_inputs
    for i, kind in enumerate(kinds):
        n = _UNITS[kind]
        weights |= {
            f"w{i}": rng.normal(size=(1, n * _HIDDEN, width)) / 4,
            f"r{i}": rng.normal(size=(1, n * _HIDDEN, _HIDDEN)) / 4,
        }
        nodes.append(
            helper.make_node(
                kind, [value, f"w{i}", f"r{i}"], [f"y{i}", f"h{i}"], name=f"layer{i}",
                hidden_size=_HIDDEN, **attributes,
            )
        )  # fmt: skip
        nodes.append(helper.make_node("Squeeze", [f"y{i}", "one"], [f"s{i}"], name=f"all{i}"))
        value, width = f"s{i}", _HIDDEN
    weights["one"] = np.array([1])
    nodes.append(helper.make_node("Squeeze", [f"h{len(kinds) - 1}", "zero"], ["last"], name="cut"))
    nodes.append(helper.make_node("MatMul", ["last", "dense"], ["y"], name="dense"))
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [n_steps, _BATCH, n_inputs])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(w if w.dtype == np.int64 else w.astype(np.float32), name)
            for name, w in weights.items()
        ],
    )
    path = folder / "network.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def _model(path: Path, recomputation: Recomputation | None = None, **loading: Any) -> Model:
    model = load_onnx(path, trainable=loading.get("trainable", "*"))
    return for_training(model, Loss(kind="cross-entropy"), Sgd(lr=0.5), recomputation=recomputation)


def _trained(
    model: Model, machine: Machine = MACHINE, n_steps: int = _STEPS
) -> tuple[list[Any], Arrays, CompiledModel]:
    """Return losses and weights of three steps."""
    rng, losses = np.random.default_rng(5), []
    with Trainer(model, machine) as trainer:
        for _ in range(3):
            labels = rng.integers(0, _CLASSES, _BATCH)
            x = rng.normal(size=(n_steps, _BATCH, _INPUTS)).astype(np.float32)
            losses.append(trainer.step({"x": x, "labels": labels})["loss"])
        return losses, trainer.weights(), trainer.compiled


def _same(a: Arrays, b: Arrays) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize(
    ("kinds", "attributes"),
    [
        (["LSTM"], {}),
        (["GRU"], {"linear_before_reset": 1}),
        (["LSTM", "GRU", "RNN"], {}),
        (["LSTM"], {"direction": "reverse"}),
    ],
)
@pytest.mark.parametrize("kind", ["standard", "all"])
def test_the_bits_stay(kind, kinds, attributes, tmp_path):
    path = _saved(tmp_path, kinds, **attributes)
    losses, weights, _ = _trained(_model(path))
    again_losses, again_weights, compiled = _trained(_model(path, Recomputation(kind)))
    assert np.array_equal(losses, again_losses)
    assert _same(weights, again_weights)
    codes = [notice.code for notice in compiled.executable.notices]
    assert codes.count("recurrent_storage") == sum(kind != "RNN" for kind in kinds)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_the_bits_stay_where_weights_are_updated_in_the_loop(kind, tmp_path):
    machine = load_machine("gc200", tiles_per_ipu=2)
    path = _saved(tmp_path, [kind], 60)
    (storage,) = layer_storages(transform(_model(path)), machine, 1.0).values()
    assert storage.storage.is_interleaved
    assert 1 < storage.storage.steps_per_update < 60
    losses, weights, _ = _trained(_model(path), machine, 60)
    again = _trained(_model(path, Recomputation("all")), machine, 60)
    assert np.array_equal(losses, again[0])
    assert _same(weights, again[1])


@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_compute_the_same_bits(n_threads, monkeypatch, tmp_path):
    path = _saved(tmp_path, ["LSTM", "GRU"])
    losses, weights, _ = _trained(_model(path, Recomputation("all")))
    share_all(monkeypatch, n_threads)
    again = _trained(_model(path, Recomputation("all")))
    assert np.array_equal(losses, again[0])
    assert _same(weights, again[1])


def _peaks(path: Path, n_steps: int) -> tuple[list[int], list[int], LayerStorage]:
    """Return the least bytes alive during the loss and the most of a step, without and with."""
    at_loss, most = [], []
    for kind in ("none", "standard"):
        model = _model(path, Recomputation(kind))
        compiled = compile_model(model, MACHINE)
        live = np.asarray(compiled.executable.memory.live.dense().sum(axis=-1))
        names = [step.name for step in compiled.executable.steps]
        at_loss.append(int(live[[name.startswith("loss/") for name in names]].min()))
        most.append(int(live.max()))
    (storage,) = layer_storages(transform(model), MACHINE, 1.0).values()
    assert storage.storage.stretch * storage.storage.n_stretches == n_steps
    return at_loss, most, storage


def test_an_lstm_of_1000_steps_keeps_two_states_of_some_instead_of_six_values_of_all(tmp_path):
    """Namely four units, the cell state and the output of a step, or the states before some."""
    path = _saved(tmp_path, ["LSTM"], 1_000)
    at_loss, most, storage = _peaks(path, 1_000)
    n_checkpoints = storage.storage.n_stretches
    saved = (6 * 1_000 - 2 * n_checkpoints) * _VALUE_BYTES
    assert at_loss[0] - at_loss[1] == saved
    # Where the steps run again, their weights are alive, and the number of the checkpoint.
    weights = (_INPUTS + _HIDDEN + 1) * 4 * _HIDDEN * 4
    assert most[0] - most[1] == saved - weights - 4


def test_a_gru_of_600_steps_keeps_a_state_of_some_instead_of_four_values_of_all(tmp_path):
    path = _saved(tmp_path, ["GRU"], 600)
    at_loss, _, storage = _peaks(path, 600)
    assert at_loss[0] - at_loss[1] == (4 * 600 - storage.storage.n_stretches) * _VALUE_BYTES


def _storages(path: Path, share: float, **loading: Any) -> list[LayerStorage]:
    return [*layer_storages(transform(_model(path, **loading)), MACHINE, share).values()]


def test_layers_compute_again_where_all_steps_exceed_the_share(tmp_path):
    path = _saved(tmp_path, ["LSTM", "GRU", "RNN"], 200)
    every = _storages(path, 1.0)
    assert [storage.storage.recomputes for storage in every] == [False] * 3
    assert [storage.reason for storage in every] == [""] * 3
    total = sum(storage.tile_bytes for storage in every)
    # The LSTM keeps most, and a plain cell only its outputs.
    for share, expected in ((total, [0, 0, 0]), (total - 1, [1, 0, 0]), (0, [1, 1, 0])):
        found = _storages(path, (share + 0.5) / MACHINE.allocatable_bytes)
        assert [storage.storage.recomputes for storage in found] == [bool(x) for x in expected]
    assert found[0].reason == "all layers may take 0"
    assert found[0].every_step_bytes == every[0].tile_bytes


def test_a_layer_keeps_to_a_share_of_its_own(tmp_path):
    path = _saved(tmp_path, ["LSTM"], 200)
    model = transform(_model(path))
    (every,) = layer_storages(model, MACHINE, 1.0).values()
    share = (every.tile_bytes - 0.5) / MACHINE.allocatable_bytes
    operations = [
        replace(
            operation,
            attributes={
                **operation.attributes,
                "options": replace(
                    operation.attributes["options"], available_memory_proportion=share
                ),
            },
        )
        if operation.operator is LAYER
        else operation
        for operation in model.operations
    ]
    model = replace(model, operations=tuple(operations))
    (found,) = layer_storages(model, MACHINE, 1.0).values()
    assert found.storage.recomputes
    assert found.reason == f"the layer may take {every.tile_bytes - 1:,}"


def test_nodes_that_stay_keep_all_steps(tmp_path):
    path = _saved(tmp_path, ["LSTM", "GRU"], 200)
    kept = Recomputation("all", kept=("layer0",))
    again = [s.storage.recomputes for s in _storages(path, 0.0, recomputation=kept)]
    assert again == [False, True]
    named = Recomputation("none", again=("layer1",))
    again = [s.storage.recomputes for s in _storages(path, 1.0, recomputation=named)]
    assert again == [False, True]


def test_a_program_that_does_not_fit_computes_steps_again(tmp_path):
    path = _saved(tmp_path, ["LSTM"], 400, n_inputs=64)
    small = load_machine("gc200", tiles_per_ipu=2)
    stated = compile_model(_model(path), small, available_memory=AvailableMemory())
    assert stated.executable.overfull_tiles.size
    assert not [n for n in stated.executable.notices if n.code == "recurrent_storage"]
    chosen = compile_model(_model(path), small)
    assert not chosen.executable.overfull_tiles.size
    (notice,) = (n for n in chosen.executable.notices if n.code == "recurrent_storage")
    assert "The layer 'layer0' keeps its states every" in notice.message
    assert "all layers may take" in notice.message


def test_gradients_that_nothing_reads_are_not_computed(tmp_path):
    """Of data, and of weights that are not trained."""
    path = _saved(tmp_path, ["LSTM"], _STEPS)
    model = transform(_model(path))
    of_layer = store_layers(model, MACHINE, 1.0).operations
    (of_data,) = (op for op in of_layer if op.operator is LAYER_GRADIENT)
    assert of_data.outputs[0] is None
    model = transform(_model(path, trainable=["dense"]))
    assert not [op for op in model.operations if op.operator in (LAYER_GRADIENT, LAYER)]
