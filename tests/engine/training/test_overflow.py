"""Overflow of half in training: counted by pass, in results and in the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilescope.engine import Engine, resolve_options
from tilescope.engine.errors import BadGraph, BadOption
from tilescope.engine.frontend.onnx import load_onnx
from tilescope.engine.ir import Model, Recomputation
from tilescope.engine.machine import load_machine
from tilescope.engine.session.trainer import LossNotFinite, Trainer
from tilescope.engine.training import Adam, Loss, Sgd, for_training
from tilescope.engine.transform import in_half
from tilescope.engine.transform.overflow import COUNTED_PASSES

MACHINE = load_machine("gc200", tiles_per_ipu=4)
_RNG = np.random.default_rng(0)
_W1 = _RNG.normal(size=(6, 8)).astype(np.float32)
_W2 = _RNG.normal(size=(8, 3)).astype(np.float32)
_X = _RNG.normal(size=(4, 6)).astype(np.float16)
_LABELS = np.zeros((4, 3), np.float16)


def _model(folder: Path) -> Model:
    """Return a model of two products in half, whose first result is moved before it is read."""
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"], name="first"),
        helper.make_node("Reshape", ["h", "shape"], ["moved"], name="move"),
        helper.make_node("Relu", ["moved"], ["r"], name="relu"),
        helper.make_node("MatMul", ["r", "w2"], ["y"], name="second"),
    ]
    weights = {"w1": _W1, "w2": _W2, "shape": np.array([4, 8])}
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    path = folder / "network.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return load_onnx(path, trainable=["w1", "w2"])


def _trained(folder: Path, optimiser: Any = None, n_rounds: int = 1, **options: Any) -> Model:
    half = in_half(_model(folder), has_masters=True)
    sgd = optimiser or Sgd(lr=0.0)
    return for_training(
        half, Loss(kind="mse"), sgd, n_rounds, **{"counts_overflows": True, **options}
    )


def _batch(**others: NDArray[Any]) -> dict[str, NDArray[Any]]:
    return {"x": _X, "labels": _LABELS, **others}


def test_nothing_is_counted_where_all_values_are_within_half(tmp_path: Path) -> None:
    with Trainer(_trained(tmp_path), MACHINE) as trainer:
        outputs = trainer.step(_batch())
        assert trainer.overflows == dict.fromkeys(COUNTED_PASSES, 0)
    assert [*outputs] == ["loss", "y"]


def test_results_of_the_forward_pass_count_once_however_they_are_moved(tmp_path: Path) -> None:
    x = _X.copy()
    x[1] = 60_000
    h = x.astype(np.float64) @ _W1.astype(np.float16).astype(np.float64)
    is_beyond = np.abs(h) > 65_520  # rounds to infinity
    is_positive = is_beyond & (h > 0)
    assert is_beyond.sum() > is_positive.sum() > 0
    with Trainer(_trained(tmp_path), MACHINE) as trainer:
        with np.errstate(over="ignore", invalid="ignore"), pytest.raises(LossNotFinite):
            trainer.step(_batch(x=x))
        n_forward = trainer.overflows["forward"]
    # The product, the relu, and all that the second product makes of a row: results, loss.
    n_later = n_forward - is_beyond.sum() - is_positive.sum()
    assert 3 <= n_later <= 3 + 3 + 3 + 2


def test_gradients_count_by_what_they_are_of(tmp_path: Path) -> None:
    labels = np.full_like(_LABELS, 100)
    sgd = Sgd(lr=0.0, loss_scaling=2.0**14)
    with Trainer(_trained(tmp_path, sgd), MACHINE) as trainer:
        with np.errstate(over="ignore", invalid="ignore"):
            trainer.step(_batch(labels=labels))
        assert trainer.overflows["forward"] == 0
        assert trainer.overflows["data gradient"] > 0
        assert trainer.overflows["weight gradient"] > 0


def test_micro_batches_are_counted_together(tmp_path: Path) -> None:
    sgd = Sgd(lr=0.0, loss_scaling=2.0**14)
    labels = np.full_like(_LABELS, 100)
    with Trainer(_trained(tmp_path, sgd), MACHINE) as trainer, np.errstate(over="ignore"):
        trainer.step(_batch(labels=labels))
        expected = trainer.overflows
    with Trainer(_trained(tmp_path, sgd, 2), MACHINE) as trainer, np.errstate(over="ignore"):
        trainer.step({"x": np.stack([_X, _X]), "labels": np.stack([labels, labels])})
        assert trainer.overflows == {kind: 2 * n for kind, n in expected.items()}


@pytest.mark.parametrize("kind", ["all", "standard"])
def test_weights_and_counts_are_those_without_recomputation(kind: str, tmp_path: Path) -> None:
    results = []
    for options in (
        {"counts_overflows": False},
        {},
        {"recomputation": Recomputation(kind)},
    ):
        with Trainer(_trained(tmp_path, Adam(lr=0.01), **options), MACHINE) as trainer:
            for _ in range(3):
                trainer.step(_batch())
            results.append((trainer.weights(), trainer.overflows))
    assert results[1][1] == results[2][1]
    for weights, _ in results[1:]:
        for name, array in results[0][0].items():
            np.testing.assert_array_equal(weights[name], array)


def test_a_model_that_computes_in_float_has_nothing_to_count(tmp_path: Path) -> None:
    model = for_training(_model(tmp_path), Loss(kind="mse"), Sgd(lr=0.1), counts_overflows=True)
    with pytest.raises(BadOption, match="'network' computes nothing in half"):
        Trainer(model, MACHINE)


def test_a_report_takes_counts_of_passes_only(tmp_path: Path) -> None:
    options = resolve_options(
        code={"autoReport.all": True, "autoReport.directory": str(tmp_path / "out")}
    )
    with Trainer(_trained(tmp_path), MACHINE, options) as trainer:
        engine: Engine = trainer.engine
        with pytest.raises(BadGraph, match="Overflows of pass 'sideways': expected forward, "):
            engine.record_step(1, 1, 0.5, 0.1, overflows={"sideways": 3})
        with pytest.raises(BadGraph, match="overflows of pass 'forward' is -1"):
            engine.record_step(1, 1, 0.5, 0.1, overflows={"forward": -1})
