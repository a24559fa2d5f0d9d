"""The passes: order, names and effects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.engine.operators.graphs import info, model_of

from tilescope.engine import compile_model, load_machine, load_onnx
from tilescope.engine.errors import BadModel, BadOption
from tilescope.engine.ir import Model
from tilescope.engine.options.patterns import PATTERNS
from tilescope.engine.transform import PASSES, Phase, decompose, prune, transform


@pytest.fixture
def model(tmp_path: Path) -> Model:
    """Return Gemm, Softmax, and an unused Relu."""
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["g"], name="dense", transB=1),
        helper.make_node("Dropout", ["g"], ["d"], name="drop"),
        helper.make_node("Relu", ["d"], ["r"], name="unused"),
        helper.make_node("Softmax", ["d"], ["y"], name="softmax"),
    ]
    weights = {"w": np.ones((3, 4), np.float32), "b": np.ones(3, np.float32)}
    path = tmp_path / "model.onnx"
    onnx.save(model_of(nodes, [info("x", [2, 4])], [info("y", [2, 3])], weights), path)
    return load_onnx(path)


def _operators(model: Model) -> list[str]:
    return [operation.operator.key for operation in model.operations]


def test_a_front_end_keeps_operators_whole(model: Model) -> None:
    assert _operators(model) == ["Gemm", "Dropout", "Relu", "Softmax"]
    assert model.operations[0].attributes == {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1}
    assert [value.name for value in model.parameters] == ["w", "b"]


def test_the_passes_run_in_their_order(model: Model) -> None:
    differentiating = [
        *("softmax_loss", "serialise_batch", "differentiate", "recompute", "count_overflows")
    ]
    by_phase = {name: step.phase for name, step in PASSES.items()}
    assert [n for n in PASSES if by_phase[n] is Phase.DIFFERENTIATE] == differentiating
    names = [name for name in PASSES if name not in differentiating]
    last = ("prune", "offload", "schedule", "place", "merge_collectives")
    assert names == ["give_stages", "decompose", *PATTERNS, *last]
    phases = [list(Phase).index(step.phase) for step in PASSES.values()]
    assert phases == sorted(phases)
    assert {step.phase for step in PASSES.values()} == set(Phase)
    rewrites = Phase.REWRITE, Phase.SCALE
    assert {name for name, step in PASSES.items() if step.phase in rewrites} == set(PATTERNS)
    by_hand = prune(decompose(model))
    assert _operators(transform(model)) == _operators(by_hand) == ["matmul", "binary", "softmax"]
    assert {operation.source for operation in by_hand.operations} == {"Gemm", "Softmax"}


def test_a_pass_can_be_left_out(model: Model) -> None:
    assert _operators(transform(model, without=["decompose"])) == ["Gemm", "Dropout", "Softmax"]
    assert "unary" in _operators(transform(model, without=["prune"]))
    with pytest.raises(BadOption, match="'fuse': the passes are give_stages, decompose, pow"):
        transform(model, without=["fuse"])


def test_an_operator_can_be_kept_whole_and_needs_a_lowering_then(model: Model) -> None:
    selected = prune(decompose(model, keep={"Softmax"}))
    assert _operators(selected) == ["matmul", "binary", "Softmax"]
    machine = load_machine("gc200", tiles_per_ipu=2)
    compile_model(selected, machine)  # the pipeline takes it apart
    from tilescope.engine.lower import lower

    with pytest.raises(BadModel, match=r"Node 'softmax' \(Softmax\).*has no lowering"):
        lower(selected, machine)
