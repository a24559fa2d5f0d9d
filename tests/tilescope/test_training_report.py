"""What commands print of a report of a training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.training_report import N_STEPS, training_report

Run = Callable[..., Any]


def test_summary_has_passes_losses_and_a_curve(tilescope: Run) -> None:
    finished = tilescope("summary", training_report())
    assert (finished.code, finished.err) == (0, "")
    lines = [line.split() for line in finished.out.splitlines()]
    assert ["Training", "steps", str(N_STEPS)] in lines
    assert any(line[:2] == ["Weight", "update"] for line in lines)
    (curve,) = (line[1] for line in lines if line[:1] == ["Loss"])
    assert len(curve) == N_STEPS
    assert (curve[0], curve[-1]) == ("█", "▁")


def test_summary_json_has_all_steps(tilescope: Run) -> None:
    actual = tilescope("summary", training_report(), "--json").json()
    assert actual["loss_curve"]["step"] == list(range(N_STEPS))
    assert actual["training"]["loss_first"] == actual["loss_curve"]["loss"][0]
    assert [item["name"] for item in actual["passes"]][:2] == ["forward", "data gradient"]
    assert actual["metrics"]["cycles.pass.forward"] == actual["passes"][0]["cycles"]


def test_summary_of_inference_has_nothing_of_it(tilescope: Run, reports_directory: Path) -> None:
    path = reports_directory / "baseline"
    assert "Training" not in tilescope("summary", path).out
    actual = tilescope("summary", path, "--json").json()
    assert not {"loss_curve", "training", "passes"} & set(actual)


def test_ops_lists_one_pass(tilescope: Run) -> None:
    path = training_report()
    everything = tilescope("ops", path, "--layer", "model", "--top", 100).out
    assert "Weight gradient" in everything
    assert "rest belongs to no operation" in everything
    arguments = ("ops", path, "--layer", "model", "--pass", "weight-update")
    finished = tilescope(*arguments)
    assert finished.out.startswith("4 nodes of the model take ")
    assert "Forward" not in finished.out
    assert "rest belongs" not in finished.out
    actual = tilescope(*arguments, "--json").json()
    assert actual["pass"] == "weight update"
    assert {item["training_pass"] for item in actual["operations"]} == {"weight update"}


def test_ops_says_what_a_gradient_belongs_to(tilescope: Run) -> None:
    path = training_report()
    finished = tilescope("ops", path, "--why", "fc1:GemmWeightsGrad", "--layer", "model")
    assert "It belongs to the weight gradient of fc1." in finished.out
    finished = tilescope("ops", path, "--why", "fc1", "--layer", "model")
    assert "Its gradients: fc1:GemmWeightsGrad." in finished.out


def test_a_pass_of_inference_is_refused(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope("ops", reports_directory / "baseline", "--pass", "forward")
    assert finished.code == 2
    assert "is not of a training" in finished.err
    finished = tilescope("ops", training_report(), "--pass", "forward", "--why", "fc1")
    assert finished.code == 2


def test_diff_attributes_changes_to_passes(tilescope: Run) -> None:
    finished = tilescope("diff", training_report(), training_report(momentum=0.9))
    assert "By pass: 4 weight updates +" in finished.out


def test_programs_say_their_pass(tilescope: Run) -> None:
    finished = tilescope("programs", training_report(), "--search", "relu:ReluDataGrad", "--json")
    number = finished.json()["matches"][0]["program_id"]
    shown = tilescope("programs", training_report(), "--node", number)
    assert "Pass of the training step: data gradient" in shown.out
