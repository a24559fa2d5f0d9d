"""Compiles a training step of an LSTM of 1,000 steps, and reads what is alive when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tilescope.engine import (
    Loss,
    Recomputation,
    Sgd,
    compile_model,
    for_training,
    load_machine,
    load_onnx,
)
from tilescope.engine.compiler.executable.executable import Executable, Node
from tilescope.engine.execute.timeline import timeline_of
from tilescope.engine.transform import transform
from tilescope.engine.transform.recurrent_storage import layer_storages

__all__ = ["SIZES", "TABLE", "measure"]

TABLE = Path(__file__).with_name("table.json")
SIZES = {"steps": 1_000, "batch": 64, "inputs": 64, "outputs": 256, "classes": 10}
MACHINE = "gc200"
_ELEMENT_BYTES = 4
#: Values of a step, (batch, outputs) each: four units, the cell state and the output.
_VALUES, _STATES = 6, 2


def _model_file(folder: Path) -> Path:
    """Write the model: the last output of an LSTM, and a dense layer."""
    rng, size = np.random.default_rng(0), SIZES
    n, inputs = size["outputs"], size["inputs"]
    shapes = {"w": (1, 4 * n, inputs), "r": (1, 4 * n, n), "v": (n, size["classes"])}
    weights = {name: rng.normal(size=s).astype(np.float32) / 16 for name, s in shapes.items()}
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r"], ["", "h"], name="lstm", hidden_size=n),
        helper.make_node("Squeeze", ["h", "zero"], ["last"], name="last"),
        helper.make_node("MatMul", ["last", "v"], ["y"], name="dense"),
    ]
    shape = [size["steps"], size["batch"], inputs]
    graph = helper.make_graph(
        nodes,
        "lstm",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            *(numpy_helper.from_array(w, name) for name, w in weights.items()),
            numpy_helper.from_array(np.array([0]), "zero"),
        ],
    )
    path = folder / "lstm.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def _leaves(node: Node, n_rounds: int) -> Iterator[tuple[Any, int]]:
    """Yield the steps of a program in their order, and how often each of them runs."""
    n_rounds *= node.repeat_count
    if node.step is not None:
        yield node.step, n_rounds
    for child in (*node.children, *([] if node.function is None else [node.function])):
        yield from _leaves(child, n_rounds)


def _curve(executable: Executable) -> list[tuple[int, int]]:
    """Return the cycles of all rounds of a step and the bytes alive, by step of the training."""
    memory = executable.memory
    alive = memory.live.dense().sum(axis=-1) + int(memory.always_live.sum())
    index = {id(step): i for i, step in enumerate(executable.steps)}
    curve: list[tuple[int, int]] = []
    for step, n_rounds in _leaves(executable.roots[0], 1):
        cycles = n_rounds * int(step.cost.cycles.max())
        n_bytes = int(alive[index[id(step)]])
        if curve and curve[-1][1] == n_bytes:
            curve[-1] = curve[-1][0] + cycles, n_bytes
        elif cycles:
            curve.append((cycles, n_bytes))
    return curve


def _alive_at_loss(executable: Executable) -> int:
    """Return the bytes that are alive during the loss, between the passes."""
    live = executable.memory.live.dense().sum(axis=-1)
    names = [step.name.startswith("loss/") for step in executable.steps]
    return int(live[names].min())


def measure(folder: Path) -> Mapping[str, Any]:
    """Return the figures of the training step with values of all steps and with checkpoints."""
    path, machine = _model_file(folder), load_machine(MACHINE)
    value_bytes = SIZES["batch"] * SIZES["outputs"] * _ELEMENT_BYTES
    found = {}
    for kind in ("none", "standard"):
        model = for_training(
            load_onnx(path, trainable="*"),
            Loss(kind="cross-entropy"),
            Sgd(lr=0.1),
            recomputation=Recomputation(kind),
        )
        executable = compile_model(model, machine).executable
        (layer,) = layer_storages(transform(model), machine, 1.0).values()
        storage, memory = layer.storage, executable.memory
        kept = _VALUES * storage.n_steps
        if storage.recomputes:
            kept = _STATES * storage.n_stretches
        found[kind] = {
            "cycles": timeline_of(executable.roots[0], machine)[0].n_cycles,
            "steps_per_checkpoint": storage.steps_per_checkpoint,
            "steps_per_update": storage.steps_per_update,
            "stored_bytes": kept * value_bytes,
            "alive_at_loss_bytes": _alive_at_loss(executable),
            "peak_bytes": int(memory.live.dense().sum(axis=-1).max())
            + int(memory.always_live.sum()),
            "curve": _curve(executable),
        }
    return {"machine": MACHINE, "sizes": SIZES, "kinds": found}
