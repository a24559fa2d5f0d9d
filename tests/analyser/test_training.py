"""Passes of a training step and the loss curve, as the analyser reads them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.generated_report import generate_report
from tests.golden.recipe import GOLDEN
from tests.training_report import N_STEPS, training_report

from tilescope import analyser
from tilescope.analyser.diff import compare, explain
from tilescope.analyser.export.json_document import json_document
from tilescope.analyser.program.operations import LAYERS, operations, steps_of
from tilescope.analyser.program.programs import node
from tilescope.analyser.program.training import has_training, pass_totals, passes_of_steps, place_of
from tilescope.analyser.program.training_links import links_of_step, training_links
from tilescope.analyser.summary.loss import LossCurve, loss_curve, text_curve
from tilescope.analyser.summary.metrics import METRICS, values
from tilescope.analyser.summary.summarise import summarise
from tilescope.analyser.time.selection import Selection
from tilescope.analyser.trace import step_details
from tilescope.reports import Report
from tilescope.reports.schema.vocabulary import TRAINING_PASSES

OLD = sorted(GOLDEN.parents[1].glob("v[45]/small.pop"))


@pytest.fixture(scope="module")
def report() -> Iterator[Report]:
    with analyser.open(training_report()) as opened:
        yield opened


def _curve(*losses: float) -> LossCurve:
    n = len(losses)
    numbers = np.arange(n, dtype=np.int64)
    return LossCurve(numbers, numbers // 4, np.array(losses), np.full(n, 0.1), np.full(n, -1))


@pytest.mark.parametrize("selection", [Selection(), Selection(0, 1)])
def test_passes_add_up_to_the_whole(report: Report, selection: Selection) -> None:
    totals = pass_totals(report, selection)
    listed = operations(report, "model", selection)
    names = [name for name in TRAINING_PASSES if name != "recomputation"]  # nothing runs again
    assert [item.name for item in totals] == [*names, ""]
    assert sum(item.cycles for item in totals) == listed.total_cycles
    assert sum(item.share or 0 for item in totals) == pytest.approx(1)
    for item in totals:
        mine = listed.of_pass(item.name).operations
        if item.name:
            assert item.cycles == sum(operation.cycles for operation in mine) > 0
            assert item.n_operations == len(mine)
            assert item.flops == sum(operation.flops for operation in mine)


def test_metrics_are_those_of_the_passes(report: Report) -> None:
    found = values(report)
    passes = [found[f"flops.pass.{item.key}"] for item in TRAINING_PASSES.values()]
    assert sum(value or 0 for value in passes) == found["flops.total"]
    for item in pass_totals(report)[:-1]:
        name = f"cycles.pass.{TRAINING_PASSES[item.name].key}"
        assert found[name] == item.cycles
        assert METRICS[name].of_run(report) == item.cycles / 3


@pytest.mark.parametrize("layer", LAYERS)
def test_operations_of_every_layer_have_their_pass(report: Report, layer: str) -> None:
    listed = operations(report, layer)  # type: ignore[arg-type]
    assert listed.has_training
    for operation in listed.operations:
        if operation.name.startswith("fc1:GemmWeightsGrad"):
            assert (operation.training_pass, operation.origin) == ("weight gradient", "fc1")
        if operation.name.startswith("fc2/"):
            assert (operation.training_pass, operation.origin) == ("forward", None)


def test_forward_operation_and_gradients_lead_to_each_other(report: Report) -> None:
    listed = operations(report, "model")
    forward = training_links(report, listed.by_key["fc2"].debug_context_id)
    assert forward is not None
    names = {related.name for related in forward.gradients}
    assert names == {"fc2:GemmDataGrad", "fc2:GemmWeightsGrad"}
    for related in forward.gradients:
        operation = listed.by_key[related.key]
        links = training_links(report, operation.debug_context_id)
        assert links is not None
        assert links.training_pass == related.training_pass == operation.training_pass
        assert links.origin is not None
        assert (links.origin.name, links.origin.key) == ("fc2", "fc2")
        assert not links.gradients
    assert place_of(report, None) is None


def test_steps_and_programs_have_the_pass_of_their_operation(report: Report) -> None:
    listed = operations(report, "model")
    gradient = listed.by_key["relu:ReluDataGrad"]
    for step_id in steps_of(report, gradient.debug_context_id):
        assert passes_of_steps(report)[step_id] == "data gradient"
        details = step_details(report, step_id)
        assert details.training is not None
        assert details.training.label == "Data gradient"
        assert links_of_step(report, step_id) == details.training
        assert node(report, details.program_id).training == details.training
    assert links_of_step(report, 0) is None, "it is a copy from the host"


def test_the_loss_of_the_steps(report: Report) -> None:
    curve = loss_curve(report)
    assert len(curve) == N_STEPS
    assert (curve.n_epochs, curve.n_recorded, curve.n_not_finite) == (3, 3, 0)
    assert curve.epoch_starts.tolist() == [0, 3, 6]
    assert curve.first is not None
    assert curve.least == curve.last
    assert curve.first.run_id == 0
    rows = {row.key: row for row in summarise(report).training}
    assert rows["loss_first"].value == curve.first.loss
    assert rows["loss_last"].text.endswith("(step 8)")
    assert "n_losses_not_finite" not in rows


def test_losses_that_are_not_finite_are_counted_and_drawn() -> None:
    curve = _curve(4.0, math.inf, 2.0, math.nan, 1.0, 3.0)
    assert curve.n_not_finite == 2
    assert curve.least is not None
    assert (curve.least.step, curve.least.loss) == (4, 1.0)
    assert text_curve(curve) == "█×▃×▁▆"
    assert curve.as_json()["loss"] == [4.0, "Infinity", 2.0, "NaN", 1.0, 3.0]
    assert text_curve(_curve(math.nan)) == "×"
    assert text_curve(_curve(2.0, 2.0)) == "▁▁"
    assert text_curve(_curve()) == ""
    assert _curve(math.nan).least is None


def test_thinning_keeps_peaks_ends_and_what_is_not_finite() -> None:
    random = np.random.default_rng(0)
    losses = random.random(100_000)
    losses[31_234], losses[77_777], losses[50_000] = 9, -3, np.nan
    curve = _curve(*losses.tolist())
    positions = curve.thinned(500)
    assert len(positions) <= 1_010
    assert {0, 31_234, 50_000, 77_777, 99_999} <= set(positions.tolist())
    part = curve.thinned(500, 31_000, 31_100).tolist()
    assert part == list(range(30_999, 31_102))


def test_steps_that_do_not_ascend_are_placed_in_their_order() -> None:
    curve = _curve(3.0, 2.0, 1.0)
    again = LossCurve(np.array([0, 1, 0]), curve.epoch, curve.loss, curve.rate, curve.run_id)
    assert curve.axis.tolist() == [0, 1, 2]
    assert again.axis.tolist() == [0, 1, 2]
    assert again.step.tolist() == [0, 1, 0]


def test_changes_are_attributed_to_passes() -> None:
    with (
        analyser.open(training_report()) as baseline,
        analyser.open(training_report(momentum=0.9)) as candidate,
    ):
        difference = compare(baseline, candidate)
        sentences = explain(difference)
        same = compare(baseline, baseline)
    changes = {change.name: change for change in difference.passes}
    assert changes["weight update"].n_changed == 4
    assert changes["weight update"].delta_cycles > 0
    (sentence,) = (text for text in sentences if text.startswith("By pass"))
    assert "4 weight updates +" in sentence
    assert all(change.delta_cycles == 0 for change in same.passes)
    document = json_document(difference, sentences, {}, (), ())
    assert len(document["passes"]) == 4  # type: ignore[arg-type]


@pytest.mark.parametrize("path", [*OLD, GOLDEN], ids=lambda path: path.parent.name)
def test_inference_and_older_reports_have_nothing_of_it(path: Path) -> None:
    with analyser.open(path) as report:
        assert not has_training(report)
        assert pass_totals(report) == ()
        assert len(loss_curve(report)) == 0
        assert "Training" not in summarise(report).sections
        assert not operations(report, "model").has_training
        assert step_details(report, 0).training is None
        assert {values(report)[name] for name in METRICS if ".pass." in name} == {None}
        assert compare(report, report).passes == ()


def test_a_generated_report_of_a_long_training_is_read(tmp_path: Path) -> None:
    path = generate_report(
        tmp_path, n_tiles=8, n_steps=60, n_variables=9, distinct_patterns=6, n_training_steps=20_000
    )
    with analyser.open(path) as report:
        curve = loss_curve(report)
        assert (len(curve), curve.n_epochs, curve.n_not_finite, curve.n_recorded) == (
            20_000,
            4,
            2,
            1,
        )
        report.verify()


def test_the_same_program_is_the_same_in_another_version_of_the_schema() -> None:
    with analyser.open(OLD[-1]) as baseline, analyser.open(GOLDEN) as candidate:
        assert not {"debug_context", "training_step"} & set(compare(baseline, candidate).unequal)
