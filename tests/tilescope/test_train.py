"""``tilescope train`` in this process, and killed in the middle: files, sentences, exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.tilescope.conftest import Outcome

from tilescope.engine.training import Schedule
from tilescope.reports import check_report, find_reports, open_report
from tilescope.reports.schema import run, training_step

Run = Callable[..., Outcome]

BATCH, INPUTS, CLASSES, SAMPLES = 4, 8, 3, 32
OPTIONS = ("--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1,momentum=0.9", "--tiles", "4")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a model of one layer, and data for it."""
    rng = np.random.default_rng(0)
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"], name="layer")],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", INPUTS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", CLASSES])],
        [
            numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name)
            for name, shape in (("w", (INPUTS, CLASSES)), ("b", (CLASSES,)))
        ],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]),
        tmp_path / "model.onnx",
    )
    x = rng.normal(size=(SAMPLES + 2, INPUTS)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, labels=x.argmax(1) % CLASSES)
    return tmp_path


def _weights(path: Path) -> dict[str, bytes]:
    return {t.name: t.raw_data for t in onnx.load(path).graph.initializer}


def _train(tilescope: Run, folder: Path, *arguments: str) -> Outcome:
    return tilescope(
        "train", str(folder / "model.onnx"), "--data", str(folder / "data.npz"),
        "--batch", str(BATCH), *OPTIONS, *arguments,
    )  # fmt: skip


def test_it_trains_and_writes_the_model(folder: Path, tilescope: Run) -> None:
    outcome = _train(
        tilescope, folder, "--epochs", "5", "--output", str(folder / "trained.onnx"), "--json"
    )
    assert outcome.code == 0
    answer = json.loads(outcome.out)
    assert answer["n_steps"] == 5 * SAMPLES // BATCH
    assert answer["n_unused"] == 2
    losses = answer["losses"]
    assert np.mean(losses[-8:]) < np.mean(losses[:8]) / 2
    assert answer["step_cycles"] > 0
    before, after = _weights(folder / "model.onnx"), _weights(folder / "trained.onnx")
    assert before.keys() == after.keys()
    assert all(before[name] != after[name] for name in before)
    onnx.checker.check_model(folder / "trained.onnx")


def test_frozen_weights_stay(folder: Path, tilescope: Run) -> None:
    outcome = _train(tilescope, folder, "--freeze", "b", "--output", str(folder / "trained.onnx"))
    assert outcome.code == 0
    before, after = _weights(folder / "model.onnx"), _weights(folder / "trained.onnx")
    assert before["b"] == after["b"]
    assert before["w"] != after["w"]


def test_resumed_training_gives_the_same_bits(folder: Path, tilescope: Run) -> None:
    state = str(folder / "state.npz")
    whole, resumed = folder / "whole.onnx", folder / "resumed.onnx"
    assert _train(tilescope, folder, "--epochs", "3", "--output", str(whole)).code == 0
    assert _train(tilescope, folder, "--epochs", "1", "--checkpoint", state).code == 0
    again = ("--epochs", "3", "--checkpoint", state, "--resume", "--output", str(resumed))
    assert _train(tilescope, folder, *again).code == 0
    assert _weights(whole) == _weights(resumed)
    refused = _train(tilescope, folder, *again)
    assert refused.code == 2
    assert "has 3 epochs done: ask for more with --epochs" in refused.err


def test_recomputation_gives_the_same_weights(folder: Path, tilescope: Run) -> None:
    weights = []
    for kind in ("none", "standard", "all"):
        output = folder / f"{kind}.onnx"
        outcome = _train(
            tilescope, folder, "--recompute", kind, "--keep-nodes", "nothing*", "--output",
            str(output),
        )  # fmt: skip
        assert outcome.code == 0
        weights.append(_weights(output))
    assert weights[0] == weights[1] == weights[2]


def test_rates_by_weight_and_step_survive_a_resumption(folder: Path, tilescope: Run) -> None:
    arguments = (
        "--optimizer", "adamw:lr=0.1,clip_norm=1,loss_scaling=automatic", "--optimizer-for",
        "b:weight_decay=0,lr=0.2", "--schedule", "cosine:warmup=3,steps=30",
    )  # fmt: skip
    whole, resumed, state = (folder / name for name in ("whole.onnx", "again.onnx", "s.npz"))
    outcome = _train(
        tilescope, folder, *arguments, "--epochs", "3", "--output", str(whole),
        "--report", str(folder / "out"), "--json",
    )  # fmt: skip
    assert outcome.code == 0
    assert json.loads(outcome.out)["n_overflows"] == 0
    (found,) = find_reports([folder / "out"])
    with open_report(found.path) as opened:
        rates = list(opened.column(training_step, "rate"))
    schedule = Schedule(kind="cosine", warmup=3, steps=30)
    assert rates == pytest.approx([0.1 * schedule.factor(i, 24) for i in range(24)])
    once = (*arguments, "--checkpoint", str(state))
    assert _train(tilescope, folder, *once, "--epochs", "1").code == 0
    again = (*once, "--epochs", "3", "--resume", "--output", str(resumed))
    assert _train(tilescope, folder, *again).code == 0
    assert _weights(whole) == _weights(resumed)


@pytest.mark.slow
def test_killed_training_goes_on_to_the_same_bits(folder: Path, tilescope: Run) -> None:
    state, whole, resumed = folder / "s.npz", folder / "whole.onnx", folder / "resumed.onnx"
    arguments = ("--epochs", "400", "--accumulate", "2")
    assert _train(tilescope, folder, *arguments, "--output", str(whole)).code == 0
    command = [
        sys.executable, "-m", "tilescope", "train", str(folder / "model.onnx"), "--data",
        str(folder / "data.npz"), "--batch", str(BATCH), *OPTIONS, *arguments,
        "--checkpoint", str(state), "--checkpoint-steps", "3", "--quiet",
    ]  # fmt: skip
    process = subprocess.Popen(command, env=os.environ)
    for _ in range(1200):
        if state.exists() or process.poll() is not None:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert state.exists()
    assert process.returncode == -signal.SIGKILL, "it was killed before its end"
    again = (*arguments, "--checkpoint", str(state), "--resume", "--output", str(resumed))
    assert _train(tilescope, folder, *again).code == 0
    assert _weights(whole) == _weights(resumed)


def test_the_report_has_the_chosen_steps(folder: Path, tilescope: Run) -> None:
    report = folder / "out"
    outcome = _train(tilescope, folder, "--report", str(report), "--report-steps", "2,5-6")
    assert outcome.code == 0
    (found,) = find_reports([report])
    assert check_report(found.path) == []
    with open_report(found.path) as opened:
        assert list(opened.column(run, "name")) == ["step 2", "step 5", "step 6"]
        steps = opened.rows(training_step, "step", "epoch", "run_id")
    assert [step for step, _, _ in steps] == list(range(1, len(steps) + 1))
    assert {step: run_id for step, _, run_id in steps if run_id is not None} == {2: 0, 5: 1, 6: 2}


@pytest.mark.parametrize(
    ("arguments", "dtype", "facts"),
    [
        ((), "float16", ("mixed", None)),
        (("--keep-float", "/lay*"), "float32", ("mixed", '["/lay*"]')),
        (("--half-policy", "throughout"), "float16", ("throughout", None)),
    ],
)
def test_the_report_says_in_which_type_an_operation_ran(
    folder: Path,
    tilescope: Run,
    arguments: tuple[str, ...],
    dtype: str,
    facts: tuple[str, str | None],
) -> None:
    report = folder / "out"
    outcome = _train(
        tilescope, folder, "--report", str(report), "--precision", "half", *arguments
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    listed = tilescope("ops", report, "--layer", "model", "--json").json()["operations"]
    types = {o["name"]: o["dtype"] for o in listed if o["training_pass"] == "forward"}
    assert types["layer"] == dtype
    assert types["loss"] == ("float16" if facts[0] == "throughout" else "float32")
    assert "Type" in tilescope("ops", report, "--layer", "model").out
    stated = tilescope("summary", report, "--json").json()["provenance"]
    assert stated["precision"] == "half"
    assert (stated["half_policy"], stated.get("keep_float")) == facts


def test_values_beyond_half_are_counted(folder: Path, tilescope: Run) -> None:
    """Gradients overflow until the device has halved the loss scaling often enough."""
    report = folder / "out"
    optimiser = "sgd:lr=0.01,loss_scaling=automatic"
    arguments = (
        "--optimizer", optimiser, "--loss", "cross-entropy:factor=5000", "--precision", "half",
        "--count-overflows",
    )  # fmt: skip
    outcome = _train(tilescope, folder, *arguments, "--report", str(report), "--json")
    assert outcome.code == 0, outcome.err
    answer = outcome.json()
    counts = {kind: n for kind, n in answer["overflows"].items() if n}
    assert counts.keys() <= {"data gradient", "weight gradient"}
    assert counts
    assert 0 < answer["n_overflows"] < answer["n_steps"]
    training = tilescope("summary", report, "--json").json()["training"]
    shown = {k.removeprefix("n_overflows_"): n for k, n in training.items() if "overflows" in k}
    assert shown == {kind.replace(" ", "_"): n for kind, n in counts.items()}
    (found,) = find_reports([report])
    assert check_report(found.path) == []
    assert "values beyond half" in tilescope("summary", report).out
    assert "Values beyond half by pass: forward 0, " in _train(tilescope, folder, *arguments).out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--count-overflows",), "computes nothing in half, so that no overflow can be counted"),
        (("--loss", "huber"), "There is no loss 'huber': choose one of cross-entropy"),
        (("--labels", "answers"), "The data lack 'answers' (the labels; name them with --labels)"),
        (("--optimizer", "adamo:lr=1"), "there is no optimizer 'adamo': choose adadelta, adagrad"),
        (("--optimizer", "adam:lr=fast"), "adam: lr is 'fast'; it has to be a number"),
        (("--optimizer", "adam:beta1=1"), "beta1 is 1; it has to be 0 or more, and less than 1"),
        (("--optimizer", "lamb:decay=none"), "decay is 'none'; it has to be decoupled or l2"),
        (("--optimizer", "adam:state_dtype=half"), "it has to be float32 or float16"),
        (("--optimizer", "sgd:lr=1,is_combined=true"), "is_combined needs a momentum above 0"),
        (("--optimizer-for", "w"), "expected PATTERN:NAME=VALUE,… for --optimizer-for, got w"),
        (("--optimizer-for", "w:clip_norm=1"), "cannot have a 'clip_norm' of their own"),
        (("--optimizer-for", "w:rate=1"), "sgd has no option 'rate'"),
        (("--recompute", "most"), "There is no recomputation 'most': choose none, standard, norm"),
        (("--schedule", "sine"), "There is no schedule 'sine'"),
        (("--schedule", "cosine:steps=x"), "steps is 'x'; it has to be a whole number"),
        (
            ("--optimizer", "sgd:lr=1,is_constant=true", "--schedule", "cosine"),
            "The rate is constant, and a schedule changes it",
        ),
        (("--optimizer", "sgd:lr"), "expected KIND:NAME=VALUE,… for --optimizer, got sgd:lr"),
        (("--batch", "64"), "The data have 34 samples, and a step takes 64"),
        (("--resume",), "name the checkpoint's file with --checkpoint"),
        (("--report-steps", "1"), "--report-steps needs --report"),
        (("--on-nan", "retry"), "on_nan is 'retry': choose stop or skip"),
        (("--train-only", "conv*"), "Unknown parameter 'conv*': the model has no such initializer"),
        (("--freeze", "*"), "has no parameter that can be trained"),
        (("--keep-float", "Gemm"), "--keep-float needs --precision half"),
        (
            ("--precision", "half", "--keep-float", "Gem,/layer"),
            "keep_float: the model has no operator and no node 'Gem'; close names are Gemm",
        ),
        (
            ("--precision", "half", "--half-policy", "most"),
            "Unknown policy 'most': expected throughout or mixed",
        ),
    ],
)
def test_bad_input_gets_one_sentence_before_anything_is_written(
    folder: Path, tilescope: Run, arguments: tuple[str, ...], sentence: str
) -> None:
    output = folder / "trained.onnx"
    outcome = _train(tilescope, folder, *arguments, "--output", str(output))
    assert outcome.code == 2
    assert sentence in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
    assert not output.exists()


@pytest.mark.parametrize("option", ["--output", "--checkpoint"])
def test_a_file_that_cannot_be_written_is_refused_before_the_training(
    folder: Path, tilescope: Run, option: str
) -> None:
    missing = folder / "missing" / "file"
    outcome = _train(tilescope, folder, option, str(missing), "--report", str(folder / "out"))
    assert (outcome.code, outcome.err) == (
        4, f"tilescope: Cannot write {missing}: No such file or directory\n",
    )  # fmt: skip
    outcome = _train(tilescope, folder, option, str(folder))
    assert (outcome.code, outcome.err) == (4, f"tilescope: Cannot write {folder}: Is a directory\n")
    assert not (folder / "out").exists()


def test_labels_out_of_range_are_named(folder: Path, tilescope: Run) -> None:
    data = dict(np.load(folder / "data.npz"))
    data["labels"][7] = CLASSES
    np.savez(folder / "data.npz", **data)
    outcome = _train(tilescope, folder)
    assert outcome.code == 2
    assert "Label 3 of 'labels' at sample 7 is out of range: the model has 3 classes" in outcome.err


def test_a_loss_that_is_no_number_stops_or_is_skipped(folder: Path, tilescope: Run) -> None:
    data = dict(np.load(folder / "data.npz"))
    data["x"][9, 0] = np.nan
    np.savez(folder / "data.npz", **data)
    stopped = _train(tilescope, folder, "--no-shuffle", "--output", str(folder / "trained.onnx"))
    assert stopped.code == 2
    assert "The loss is no number in step 3, first in 'x'" in stopped.err
    assert not (folder / "trained.onnx").exists()
    skipped = _train(tilescope, folder, "--no-shuffle", "--on-nan", "skip", "--json")
    assert skipped.code == 0
    answer = json.loads(skipped.out)
    assert answer["n_skipped"] == 1
    assert answer["n_steps"] == SAMPLES // BATCH - 1


def test_sequences_train_whose_alignment_is_not_known(tmp_path: Path, tilescope: Run) -> None:
    rng = np.random.default_rng(1)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="dense"),
        helper.make_node("Transpose", ["m"], ["y"], name="steps_first", perm=[1, 0, 2]),
    ]
    graph = helper.make_graph(
        nodes,
        "speech",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 6, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(rng.normal(size=(4, 3)).astype(np.float32), "w")],
    )
    model, data = tmp_path / "model.onnx", tmp_path / "data.npz"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), model)
    arrays: dict[str, Any] = {
        "x": rng.normal(size=(8, 6, 4)).astype(np.float32),
        "labels": rng.integers(1, 3, (8, 2)),
        "letters": rng.integers(1, 3, 8),
    }
    np.savez(data, **arrays)
    arguments = (
        "train", str(model), "--data", str(data), "--batch", "4", "--tiles", "4", "--epochs", "20",
        "--optimizer", "adam:lr=0.1", "--json", "--loss",
    )  # fmt: skip
    outcome = tilescope(*arguments, "ctc:lengths=letters")
    assert outcome.code == 0
    losses = json.loads(outcome.out)["losses"]
    assert np.mean(losses[-4:]) < np.mean(losses[:4])
    refused = tilescope(*arguments, "ctc:lengths=letters,blank=x")
    assert refused.code == 2
    assert "ignored, factor, blank and longest are numbers" in refused.err
    np.savez(data, **(arrays | {"labels": arrays["labels"] + 2}))
    refused = tilescope(*arguments, "ctc:lengths=letters")
    assert refused.code == 2
    assert "is out of range: the model has 3 classes, from 0" in refused.err
