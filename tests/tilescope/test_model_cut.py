"""``tilescope models cut``: a part of a model runs as the whole does there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from tests.engine.operators.graphs import info, model_of

Run = Callable[..., Any]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a model of two inputs, weights, and an operator that is not supported at its end."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="product"),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Add", ["b", "z"], ["c"], name="sum"),
        helper.make_node("Tanh", ["c"], ["d"], name="tanh"),
        helper.make_node("Cast", ["d"], ["s"], name="text", to=TensorProto.STRING),
    ]
    weights = {"w": np.arange(12, dtype=np.float32).reshape(4, 3)}
    proto = model_of(
        nodes, [info("x", [2, 4]), info("z", [2, 3])], [info("s", [2, 3], TensorProto.STRING)],
        weights,
    )  # fmt: skip
    path = tmp_path / "my model.onnx"
    onnx.save(proto, path)
    return path


@pytest.mark.parametrize(
    ("arguments", "inputs", "outputs", "n_nodes"),
    [
        (["--to", "d"], ["x", "z"], ["d"], 4),
        (["--to", "tanh"], ["x", "z"], ["d"], 4),
        (["--to", "relu"], ["x"], ["b"], 2),
        (["--from", "b", "--from", "z", "--to", "d"], ["b", "z"], ["d"], 2),
        (["--from", "relu", "--from", "z", "--to", "d"], ["a", "z"], ["d"], 3),
        (["--to", "b", "--to", "c"], ["x", "z"], ["b", "c"], 3),
    ],
)
def test_a_part_runs(
    tilescope: Run,
    model: Path,
    tmp_path: Path,
    arguments: list[str],
    inputs: list[str],
    outputs: list[str],
    n_nodes: int,
) -> None:
    part = tmp_path / "part.onnx"
    finished = tilescope("models", "cut", model, *arguments, "--output", part, "--json")
    assert finished.json() == {
        "path": str(part), "n_nodes": n_nodes, "inputs": inputs, "outputs": outputs
    }  # fmt: skip
    session = onnxruntime.InferenceSession(str(part))
    assert [item.name for item in session.get_inputs()] == inputs
    assert tilescope("run", part, "--tiles", 2, "--no-report", "--quiet").code == 0
    assert tilescope("models", "check", part).code == 0


def test_the_advice_of_the_check_works(tilescope: Run, model: Path, tmp_path: Path) -> None:
    proto = onnx.load(model)
    proto.graph.node[4].CopyFrom(helper.make_node("Own", ["d"], ["s"], domain="com.example"))
    proto.opset_import.add(domain="com.example", version=1)
    onnx.save(proto, model)
    text = tilescope("models", "check", model)
    assert text.code == 1
    assert f"tilescope models cut '{model}' --to TENSOR --output cut.onnx" in text.out
    part = tmp_path / "cut.onnx"
    finished = tilescope("models", "cut", model, "--to", "d", "--output", part)
    assert finished.out.splitlines()[-1] == f"Next: tilescope models check {part}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--to", "dd"], "has no tensor or node 'dd'"),
        (["--to", "tan"], "near are 'tanh'"),
        (["--from", "z", "--to", "d"], "The part also reads 'x' of the model; add them with"),
    ],
)
def test_a_wrong_cut_is_one_sentence(
    tilescope: Run, model: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    finished = tilescope("models", "cut", model, *arguments, "--output", tmp_path / "part.onnx")
    assert (finished.code, finished.out, len(finished.err.splitlines())) == (2, "", 1)
    assert said in finished.err
    assert not (tmp_path / "part.onnx").exists()


def test_a_file_is_not_overwritten_unless_asked(
    tilescope: Run, model: Path, tmp_path: Path
) -> None:
    part = tmp_path / "part.onnx"
    part.write_text("mine")
    command = ("models", "cut", model, "--to", "d", "--output", part)
    assert tilescope(*command).code == 2
    assert part.read_text() == "mine"
    assert tilescope(*command, "--replace").code == 0
    gone = tilescope("models", "cut", tmp_path / "gone.onnx", "--to", "d", "--output", part)
    assert (gone.code, len(gone.err.splitlines())) == (2, 1)
    nowhere = tilescope("models", "cut", model, "--to", "d", "--output", tmp_path / "no/part.onnx")
    assert (nowhere.code, len(nowhere.err.splitlines())) == (2, 1)
