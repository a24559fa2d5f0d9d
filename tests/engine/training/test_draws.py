"""Random operators: the same numbers in every inference, others in training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilescope.engine import Engine, compile_model, in_half, load_machine, load_onnx
from tilescope.engine.ir import Model
from tilescope.engine.operators.random_numbers import random_bits
from tilescope.engine.session.trainer import Trainer
from tilescope.engine.training import Loss, Sgd, for_training
from tilescope.engine.training.modes import drawing

MACHINE = load_machine("gc200", tiles_per_ipu=8)
Array = NDArray[Any]

_NODES = {
    "RandomNormal": (helper.make_node("RandomNormal", [], ["r"], name="draw", shape=[4, 8])),
    "RandomUniform": (
        helper.make_node("RandomUniform", [], ["r"], name="draw", shape=[4, 8], low=-1.0, high=3.0)
    ),
    "RandomNormalLike": helper.make_node("RandomNormalLike", ["x"], ["r"], name="draw", scale=2.0),
    "RandomUniformLike": helper.make_node("RandomUniformLike", ["x"], ["r"], name="draw"),
    "Bernoulli": helper.make_node("Bernoulli", ["p"], ["r"], name="draw"),
}


def _model(tmp_path: Path, kind: str, trainable: tuple[str, ...] = ()) -> Model:
    """Return y = x * w + r, with r of a random operator."""
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["p"], name="share"),
        _NODES[kind],
        helper.make_node("Mul", ["x", "w"], ["m"], name="scaled"),
        helper.make_node("Add", ["m", "r"], ["y"], name="sum"),
    ]
    graph = helper.make_graph(
        nodes,
        "noise",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8])],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8])
            for name in ("y", "r", "p")
        ],
        [numpy_helper.from_array(np.ones(8, np.float32), "w")],
    )
    path = tmp_path / "noise.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return load_onnx(path, trainable=trainable)


X = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)


def _runs(model: Model, n: int) -> list[Array]:
    compiled = compile_model(model, MACHINE)
    with Engine(compiled.executable) as engine:
        return [compiled.run(engine, {"x": X})["r"] for _ in range(n)]


@pytest.mark.parametrize("kind", _NODES)
def test_inferences_draw_the_same_unless_they_are_asked_to(kind: str, tmp_path: Path) -> None:
    first, second = _runs(_model(tmp_path, kind), 2)
    np.testing.assert_array_equal(first, second)
    drawn = _runs(drawing(_model(tmp_path, kind), 7), 3)
    assert not any(np.array_equal(a, b) for a, b in ((drawn[0], drawn[1]), (drawn[1], drawn[2])))
    again = _runs(drawing(_model(tmp_path, kind), 7), 3)
    np.testing.assert_array_equal(drawn, again)
    other = _runs(drawing(_model(tmp_path, kind), 8), 1)
    assert not np.array_equal(drawn[0], other[0])


def test_numbers_are_those_of_the_generator(tmp_path: Path) -> None:
    """Uniform numbers from the seed's words and the modifier of the operation."""
    model = drawing(_model(tmp_path, "RandomUniform"), 5)
    (draw,) = (op for op in model.operations if op.operator.name == "draw")
    for step, actual in enumerate(_runs(model, 2)):
        bits = random_bits(32, (5, step), draw.attributes["modifier"]).reshape(4, 8)
        np.testing.assert_allclose(actual, -1 + 4 * (bits >> 8) * 2.0**-24, rtol=1e-6)


@pytest.mark.parametrize("kind", _NODES)
@pytest.mark.parametrize("n_rounds", [1, 2])
def test_training_draws_others_in_every_micro_batch(
    kind: str, n_rounds: int, tmp_path: Path
) -> None:
    model = for_training(
        _model(tmp_path, kind, ("w",)), Loss(kind="identity", output="y"), Sgd(lr=0.0), n_rounds
    )
    with Trainer(model, MACHINE) as trainer:
        batch = X if n_rounds == 1 else np.stack([X] * n_rounds)
        drawn = [trainer.step({"x": batch})["r"] for _ in range(2)]
    rounds = [r for step in drawn for r in ([step] if n_rounds == 1 else step)]
    assert len({r.tobytes() for r in rounds}) == len(rounds) == 2 * n_rounds


def test_what_is_random_in_half_draws_in_training(tmp_path: Path) -> None:
    """The change of types does not fold the numbers."""
    half = in_half(_model(tmp_path, "RandomNormal", ("w",)))
    assert any(op.operator.draws for op in half.operations)
    model = for_training(half, Loss(kind="identity", output="y"), Sgd(lr=0.0))
    with Trainer(model, MACHINE) as trainer:
        first, second = (trainer.step({"x": X})["r"] for _ in range(2))
    assert not np.array_equal(first, second)


def test_means_and_deviations(tmp_path: Path) -> None:
    drawn = np.array(_runs(drawing(_model(tmp_path, "RandomNormalLike"), 1), 100))
    assert abs(drawn.mean()) < 0.15
    assert abs(drawn.std() - 2) < 0.1
    hits = np.array(_runs(drawing(_model(tmp_path, "Bernoulli"), 1), 200)).mean(0)
    np.testing.assert_allclose(hits, 1 / (1 + np.exp(-X)), atol=0.15)
