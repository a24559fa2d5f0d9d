"""What a report holds of a training: passes, forward operations, steps, chosen runs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.training_report import (
    LABELS,
    N_STEPS,
    RECORDED,
    X,
    compiled_training,
    engine_of,
    training_report,
)

from tilescope.engine.errors import BadGraph, CallbackFailed, EngineClosed
from tilescope.engine.ir import TrainingPass
from tilescope.engine.session.engine import Engine
from tilescope.reports import check_report, open_report
from tilescope.reports.schema import debug_context, notice, run, training_step
from tilescope.reports.schema.vocabulary import TRAINING_PASSES
from tilescope.reports.state import State

INPUTS: dict[str, NDArray[Any]] = {"x": X, "labels": LABELS}


def _steps(path: Path) -> list[tuple[Any, ...]]:
    with open_report(path) as report:
        return report.rows(training_step, "step", "epoch", "loss", "rate", "run_id")


def test_reports_know_the_passes_of_the_engine() -> None:
    assert [str(item) for item in TrainingPass] == list(TRAINING_PASSES)


def test_operations_of_the_model_have_a_pass_and_gradients_their_forward_operation() -> None:
    path = training_report(momentum=0.9, n_rounds=2)
    assert check_report(path / "profile.pop") == []
    with open_report(path) as report:
        columns = ("debug_context_id", "name", "layer", "training_pass", "origin_id")
        rows = report.rows(debug_context, *columns)
    name_of = {number: name for number, name, *_ in rows}
    of_model = {
        name: (training_pass, name_of.get(origin))
        for _, name, layer, training_pass, origin in rows
        if layer == "onnx"
    }
    assert of_model["fc1"] == ("forward", None)
    assert of_model["fc1:GemmWeightsGrad"] == ("weight gradient", "fc1")
    assert of_model["fc2:GemmDataGrad"] == ("data gradient", "fc2")
    assert of_model["relu:ReluDataGrad"] == ("data gradient", "relu")
    assert of_model["Accum___w1"] == ("weight gradient", None)
    assert of_model["Update/w1"] == ("weight update", None)
    assert all(training_pass for training_pass, _ in of_model.values())
    # What is inside belongs to the pass of the operation around it.
    inside = {name: item for _, name, layer, item, _ in rows if layer != "onnx"}
    assert {name: item for name, item in inside.items() if item} == {"updates": "weight update"}


def test_a_gradient_states_its_own_operands() -> None:
    with open_report(training_report()) as report:
        details = dict(report.rows(debug_context, "name", "detail"))
    detail = json.loads(details["relu:ReluDataGrad"])
    assert (detail["pass"], detail["origin"]) == ("data gradient", "relu")
    assert [name for name, *_ in detail["outputs"]] == ["Gradient___h"]
    assert "Gradient___r" in [name for name, *_ in detail["inputs"]]
    assert json.loads(details["fc1"])["pass"] == "forward"
    update = json.loads(details["Update/w1"])
    assert "origin" not in update


def test_steps_have_their_run_if_it_is_recorded() -> None:
    rows = _steps(training_report())
    assert [row[:2] for row in rows] == [(step, step // 3) for step in range(N_STEPS)]
    losses = [loss for _, _, loss, _, _ in rows]
    assert losses == sorted(losses, reverse=True)
    runs = [RECORDED.index(step) if step in RECORDED else None for step in range(N_STEPS)]
    assert [run_id for *_, run_id in rows] == runs
    assert {rate for *_, rate, _ in rows} == {0.1}


def test_runs_that_are_not_recorded_are_executed_and_take_time() -> None:
    with open_report(training_report()) as report:
        starts = list(report.column(run, "start_cycle"))
        (length,) = {end - start for start, end in report.rows(run, "start_cycle", "end_cycle")}
        assert starts == [step * length for step in RECORDED]
        assert report.state.is_complete


def test_recording_can_be_nested_and_ends_with_an_exception(tmp_path: Path) -> None:
    compiled = compiled_training()
    with engine_of(compiled, tmp_path) as engine:
        with engine.recording(False):
            with engine.recording(True):
                compiled.run(engine, INPUTS, "inner")
            compiled.run(engine, INPUTS, "hidden")
        with pytest.raises(RuntimeError), engine.recording(False):
            raise RuntimeError
        compiled.run(engine, INPUTS, "after")
        with pytest.raises(BadGraph, match="expected True or False"), engine.recording(1):  # type: ignore[arg-type]
            pass
    with open_report(tmp_path) as report:
        assert list(report.column(run, "name")) == ["inner", "after"]
        assert report.state.is_complete


def test_a_failure_is_told_although_its_run_is_not_recorded(tmp_path: Path) -> None:
    compiled = compiled_training()
    engine = engine_of(compiled, tmp_path)
    compiled.run(engine, INPUTS)
    engine.connect_stream("x", lambda: 1 / 0)
    with pytest.raises(CallbackFailed) as caught, engine.recording(False):
        engine.run()
    engine.__exit__(CallbackFailed, caught.value, None)
    (path,) = tmp_path.glob("profile_*.pop")
    with open_report(path) as report:
        assert report.state.state is State.ENDED_EARLY
        assert report.n_rows(run) == 1
        assert any("has no trace" in text for text in report.column(notice, "message"))


def test_losses_that_are_not_finite_are_stored_and_told(tmp_path: Path) -> None:
    losses = (1.5, math.inf, math.nan, -math.inf, np.float32(0.5), np.array([0.25]))
    with engine_of(compiled_training(), tmp_path) as engine:
        for step, loss in enumerate(losses):
            engine.record_step(step, 0, loss, 0.1)  # type: ignore[arg-type]
    assert check_report(tmp_path / "profile.pop") == []
    assert [row[2] for row in _steps(tmp_path)] == [1.5, math.inf, None, -math.inf, 0.5, 0.25]
    with open_report(tmp_path) as report:
        notices = report.rows(notice, "severity", "code", "message")
    (told,) = (item for item in notices if item[1] == "loss_not_finite")
    text = "The loss is infinite in step 1, the first of those recorded"
    assert told == ("warning", "loss_not_finite", text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 0, 1.0, 0.1), "number of the step is -1"),
        ((1.5, 0, 1.0, 0.1), "number of the step is 1.5: expected an integer"),
        ((1, "a", 1.0, 0.1), "number of the epoch is 'a'"),
        ((1, 0, "low", 0.1), "The loss is 'low': expected a number"),
        ((1, 0, np.zeros(3), 0.1), "expected a number"),
        ((1, 0, 1.0, math.nan), "learning rate is nan"),
        ((1, 0, 1.0, -0.1), "learning rate is -0.1: expected 0 to"),
    ],
)
def test_numbers_that_a_report_cannot_hold_are_refused(
    tmp_path: Path, arguments: tuple[Any, ...], message: str
) -> None:
    with engine_of(compiled_training(), tmp_path) as engine:
        with pytest.raises(BadGraph, match=message):
            engine.record_step(*arguments)
        engine.record_step(0, 0, 1.0, 0.0)
    assert len(_steps(tmp_path)) == 1


def test_steps_are_durable_after_a_flush_and_refused_after_the_end(tmp_path: Path) -> None:
    with engine_of(compiled_training(), tmp_path) as engine:
        engine.record_step(3, 1, 0.5, 0.1)
        engine.flush_report()
        (path,) = tmp_path.glob("profile_*.pop")
        assert _steps(path) == [(3, 1, 0.5, 0.1, None)]
    with pytest.raises(EngineClosed):
        engine.record_step(4, 1, 0.5, 0.1)


def test_without_a_report_steps_cost_nothing() -> None:
    compiled = compiled_training()
    with Engine(compiled.executable) as engine:
        engine.record_step(0, 0, 1.0, 0.1)
        with engine.recording(False):
            compiled.run(engine, INPUTS)
