"""Comparisons of trainings: what was changed is named; what follows from it is not said again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilescope import analyser
from tilescope.analyser.diff import compare, explain
from tilescope.analyser.diff.causes import Cause
from tilescope.analyser.program.training import pass_totals
from tilescope.analyser.time.execution import execution
from tilescope.main import main

_RNG = np.random.default_rng(3)
_WIDTHS = (8, 12, 12, 4)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that trains a small network and returns its report's directory."""
    folder = tmp_path_factory.mktemp("trainings")
    nodes, weights, value = [], {}, "x"
    for i, sizes in enumerate(pairwise(_WIDTHS)):
        weights[f"w{i}"] = _RNG.normal(size=sizes, scale=0.3).astype(np.float32)
        nodes.append(helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"], name=f"fc{i}"))
        value = f"m{i}"
        if i < len(_WIDTHS) - 2:
            nodes.append(helper.make_node("Tanh", [value], [f"t{i}"], name=f"tanh{i}"))
            value = f"t{i}"
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", _WIDTHS[0]])],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "network.onnx")
    np.savez(
        folder / "data.npz",
        x=_RNG.normal(size=(32, _WIDTHS[0])).astype(np.float32),
        labels=_RNG.integers(0, _WIDTHS[-1], 32),
    )

    @cache
    def train(*arguments: str) -> Path:
        given: Mapping[str, str] = {"--loss": "cross-entropy", "--batch": "8", "--tiles": "4"}
        words = [word for flag, value in given.items() if flag not in arguments
                 for word in (flag, value)]  # fmt: skip
        report = folder / f"report{len(list(folder.iterdir()))}"
        code = main(
            ["train", str(folder / "network.onnx"), "--data", str(folder / "data.npz"),
             "--quiet", "--report", str(report), *words, *arguments]
        )  # fmt: skip
        assert code == 0
        return report

    return train


def _causes(before: Path, after: Path) -> tuple[Cause, ...]:
    with analyser.open(before) as baseline, analyser.open(after) as candidate:
        return compare(baseline, candidate).causes


CHANGES: dict[str, tuple[tuple[str, ...], str]] = {
    "recomputation": (("--recompute", "all"), "Recomputation changed: none → all, "),
    "nodes": (
        ("--recompute-nodes", "fc0", "--recompute-nodes", "tanh*"),
        "Nodes computed again by name changed: none → fc0, tanh*, ",
    ),
    "optimizer": (
        ("--optimizer", "adam:lr=0.02"),
        "Optimizer changed: sgd:lr=0.01 → adam:lr=0.02, ",
    ),
    "rate": (("--optimizer", "sgd:lr=0.5"), "Optimizer changed: sgd:lr=0.01 → sgd:lr=0.5."),
    "groups": (
        ("--optimizer-for", "w0:weight_decay=0.5"),
        "Optimizer of some weights changed: none → w0:weight_decay=0.5",
    ),
    "micro-batches": (("--accumulate", "2"), "Micro-batches of a step changed: 1 → 2, "),
    "loss": (
        ("--loss", "cross-entropy:reduction=sum"),
        "Loss changed: cross-entropy → cross-entropy:reduction=sum.",
    ),
    "schedule": (
        ("--schedule", "cosine:warmup=2"),
        "Schedule of the rate changed: constant → cosine:warmup=2.",
    ),
    "frozen": (("--freeze", "w1"), "Frozen weights changed: none → w1, "),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_is_named_and_explains_what_comes_and_goes(
    change: str, trained: Callable[..., Path]
) -> None:
    arguments, sentence = CHANGES[change]
    first, *others = _causes(trained(), trained(*arguments))
    assert first.kind == "training"
    assert first.sentence.startswith(sentence)
    assert not [cause for cause in others if cause.kind in ("added", "removed", "cost", "size")]
    back, *_ = _causes(trained(*arguments), trained())
    assert (back.kind, back.cycles, back.bytes) == ("training", -first.cycles, -first.bytes)


def test_operations_computed_again_cost_what_their_pass_takes(
    trained: Callable[..., Path],
) -> None:
    first, *_ = _causes(trained(), trained("--recompute", "all"))
    with analyser.open(trained("--recompute", "all")) as report:
        totals = {item.name: item for item in pass_totals(report)}
        n_steps = execution(report).n_runs
    assert first.cycles == totals["recomputation"].cycles / n_steps > 0
    assert f"{totals['recomputation'].n_operations} operations new" in first.sentence


def test_two_changes_have_a_sentence_each(trained: Callable[..., Path]) -> None:
    causes = _causes(trained(), trained("--recompute", "all", "--optimizer", "adam"))
    assert [cause.subject for cause in causes if cause.kind == "training"] == [
        "Optimizer",
        "Recomputation",
    ]


def test_two_steps_of_one_training_do_not_differ(trained: Callable[..., Path]) -> None:
    sides = [trained("--report-steps", step) for step in ("1", "3")]
    with analyser.open(sides[0]) as baseline, analyser.open(sides[1]) as candidate:
        found = compare(baseline, candidate)
        assert found.causes == ()
        assert explain(found) == (
            "All metrics, variables and steps agree; they recorded different steps of a training,"
            " 1 and 3.",
        )


def test_a_training_beside_an_inference(trained: Callable[..., Path], tmp_path: Path) -> None:
    model = trained().parent / "network.onnx"
    run = ["run", str(model), "--batch", "8", "--tiles", "4", "--quiet"]
    assert main([*run, "--report", str(tmp_path / "inference")]) == 0
    first, *_ = _causes(tmp_path / "inference", trained())
    assert first.sentence.startswith("Only the candidate trains the model, ")
