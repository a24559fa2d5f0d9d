"""Memory by what it is needed for: every byte once, and computed anew on a small training."""

from __future__ import annotations

import numpy as np
import pytest
from tests.golden.recipe import GOLDEN
from tests.training_report import training_report

from tilescope import analyser
from tilescope.analyser.diff import compare, explain
from tilescope.analyser.machine.target import Source, target
from tilescope.analyser.memory.charts import ChartRange, step_series
from tilescope.analyser.memory.liveness import curve, liveness_step_ids, step_variables
from tilescope.analyser.memory.lowered_variables import variable_columns
from tilescope.analyser.memory.purposes import (
    backward_start,
    has_purposes,
    purpose_of_variables,
    purpose_totals,
    purposes,
    stored_activation_bytes,
)
from tilescope.analyser.program.training import passes_of_steps
from tilescope.analyser.summary.metrics import METRICS, values
from tilescope.analyser.summary.summarise import summarise
from tilescope.engine.ir import Purpose
from tilescope.reports import Report, schema
from tilescope.reports.schema.vocabulary import PURPOSES

OLD = sorted(GOLDEN.parents[1].glob("v[4567]/small.pop"))
_LAST_TILE = 15


def _bytes_of(report: Report, *names: str) -> int:
    rows = report.rows(schema.variable, "name", "bytes")
    return sum(n_bytes for name, n_bytes in rows if name in names)


def test_the_engine_states_what_reports_know() -> None:
    assert [str(item) for item in Purpose] == [p.name for p in PURPOSES.values() if p.is_stated]


@pytest.mark.parametrize("source", ["all", ("ipu", 0), ("tile", 0), ("tile", _LAST_TILE)])
def test_purposes_add_up_to_what_is_live(source: Source) -> None:
    with analyser.open(training_report(momentum=0.9, n_rounds=2)) as report:
        assert target(report).n_tiles > _LAST_TILE
        found, live = purposes(report, source), curve(report, source)
        assert found.always_bytes.sum() == live.always_live_bytes
        assert (found.live_bytes >= 0).all()
        np.testing.assert_array_equal(found.live_bytes.sum(axis=0), live.not_always_live_bytes)


def test_a_small_training() -> None:
    with analyser.open(training_report(momentum=0.9, n_rounds=2)) as report:
        totals = {item.name: item for item in purpose_totals(report)}
        weights = [name for name, value in _purposes_by_name(report).items() if value == "weight"]
        assert sorted(weights) == ["b1", "b2", "w1", "w2"]
        n_bytes = _bytes_of(report, *weights)
        assert totals["weight"].always_bytes == n_bytes
        # A velocity for every weight, and the numbers of the optimiser, of 4 bytes each.
        assert n_bytes <= totals["optimiser state"].always_bytes < n_bytes + 64
        # The sums of gradients over the micro-batches.
        assert totals["gradient"].always_bytes == n_bytes
        assert totals["activation"].always_bytes == 0
        # Results of the forward pass that are there when the backward pass begins.
        first = backward_start(report)
        assert first is not None
        names = passes_of_steps(report)
        steps = liveness_step_ids(report)
        assert names[steps[first]] == "data gradient"
        assert "data gradient" not in {names[step] for step in steps[:first]}
        live = step_variables(report, first)
        of_activations = {
            number
            for number, purpose in enumerate(purpose_of_variables(report))
            if list(PURPOSES)[purpose] == "activation"
        }
        stored = [
            n for v, n in zip(live.variable_id, live.bytes, strict=True) if v in of_activations
        ]
        assert stored_activation_bytes(report) == sum(stored) > 0


def _purposes_by_name(report: Report) -> dict[str, str | None]:
    return dict(report.rows(schema.variable, "name", "purpose"))


def test_sums_of_gradients_begin_again_without_stored_zeros() -> None:
    with analyser.open(training_report(momentum=0.0, n_rounds=2)) as report:
        columns = variable_columns(report)
        assert "zeros" not in columns["name"]


def test_inference_has_activations_but_no_backward_pass() -> None:
    with analyser.open(GOLDEN) as report:
        assert backward_start(report) is None
        assert stored_activation_bytes(report) is None
        assert METRICS["memory.stored_activations"].compute(report) is None


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.parent.name)
def test_old_reports_do_not_say(path: object) -> None:
    with analyser.open(str(path)) as report:
        assert not has_purposes(report)
        assert purpose_totals(report) == ()
        assert not summarise(report).purposes
        assert {values(report)[f"memory.purpose.{p.key}"] for p in PURPOSES.values()} == {None}


def test_the_summary_and_the_metrics_say_the_same() -> None:
    with analyser.open(training_report(momentum=0.9, n_rounds=2)) as report:
        rows = {row.key: row.value for row in summarise(report).purposes}
        figures = values(report)
        for item in PURPOSES.values():
            assert rows.get(f"{item.key}_bytes", 0) == figures[f"memory.purpose.{item.key}"]
        assert rows["stored_activations_bytes"] == figures["memory.stored_activations"]
        live = curve(report)
        worst = live.always_live_bytes + int(live.not_always_live_bytes.max())
        assert sum(figures[f"memory.purpose.{p.key}"] or 0 for p in PURPOSES.values()) == worst


@pytest.mark.parametrize("always", [False, True])
def test_the_chart_stacks_purposes_to_the_same_height(always: bool) -> None:
    with analyser.open(training_report(momentum=0.9, n_rounds=2)) as report:
        live = curve(report)
        shown = ChartRange(0, len(live), 4 * len(live))
        one, stacked = (
            step_series(live, shown, includes_always_live=always, purposes=by)
            for by in (None, purposes(report))
        )
        assert len(stacked.series) == (7 if always else 3)
        np.testing.assert_array_equal(sum(stacked.series.values()), one.total_bytes)


def test_a_difference_says_for_what_memory_changed() -> None:
    with (
        analyser.open(training_report(momentum=0.0)) as baseline,
        analyser.open(training_report(momentum=0.9)) as candidate,
    ):
        sentences = " ".join(explain(compare(baseline, candidate)))
        n_bytes = values(baseline)["memory.purpose.weight"]
        change = compare(baseline, candidate).metric("memory.purpose.optimiser_state")
        assert isinstance(n_bytes, int)
        assert change.delta is not None
        assert change.delta >= n_bytes
        assert "By purpose, where most is live: " in sentences
        assert "optimiser state +" in sentences
