"""Operations and plans of the small report, computed on paper."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.analyser.small_report import Shape

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.program.operations import inside, operation_steps, operations, steps_of
from tilescope.analyser.program.plan_explanation import (
    PartCost,
    explain_plan,
    explanation,
    plans_of,
)
from tilescope.analyser.program.plan_text import part_rows, plan_facts, split_words
from tilescope.analyser.program.plans import plans
from tilescope.reports import DamagedReport, Report

Variation = Callable[[Shape], Report]


def test_a_call_counts_all_that_came_of_it(small: Report) -> None:
    # Two runs of 485 cycles. In each: the convolution once (200), the relu three times (30).
    listed = operations(small)
    (conv,) = listed.operations
    assert (conv.name, conv.operation) == ("layer1/conv", "poplin.convolution")
    assert conv.cycles == conv.compute_cycles == 2 * (200 + 3 * 30) == listed.cycles
    assert (listed.total_cycles, listed.n_runs) == (970, 2)
    assert conv.n_steps == 2
    # Control code of the two programs over all tiles; no variable names a context.
    assert (conv.code_bytes, conv.always_live_bytes, conv.temporary_bytes) == (16, 0, 0)
    # Busy: 200 + 150 + 100 + 50 and 150 + 150, and 30 on all eight tiles, three times; offered:
    # the four tiles of an IPU for the duration of its steps.
    busy = 500 + 300 + 3 * 8 * 30
    offered = 4 * (200 + 150) + 3 * 8 * 30
    assert conv.utilisation == busy / offered
    (kind,) = listed.kinds
    assert (kind.operation, kind.n_operations, kind.cycles) == ("poplin.convolution", 1, 580)


def test_nodes_of_the_model_are_another_layer(small: Report) -> None:
    (layer,) = operations(small, "model").operations
    assert (layer.name, layer.operation, layer.cycles) == ("layer1", "Conv", 580)


def test_without_runs_every_step_counts_once(variation: Variation) -> None:
    listed = operations(variation(Shape(n_runs=0)))
    (conv,) = listed.operations
    assert (conv.cycles, listed.n_runs) == (200 + 30, 0)
    assert listed.total_cycles == 100 + 10 + 25 + 200 + 5 + 30 + 50


def test_contexts_hold_what_is_inside(small: Report) -> None:
    assert inside(small, 0) == {0, 1}
    assert inside(small, 1) == {1}
    assert steps_of(small, 0) == steps_of(small, 1) == (3, 5)
    assert steps_of(small, None) == ()


def test_a_plan_is_set_beside_what_was_compiled(small: Report) -> None:
    actual = explain_plan(small, "layer1/conv")
    assert actual.plan == plans(small)[0]
    assert actual.asked_by == ("layer1", "Conv")
    assert actual.parts == (
        PartCost("compute", 190, 200, False),
        PartCost("update", None, 30, False),
        PartCost("exchange", 20, None, True),
    )
    assert actual.compiled_cycles == 230
    assert actual.compared_cycles == 200
    assert actual.available_bytes == 250
    assert actual.live_bytes == 32
    assert actual.n_machine_tiles == 8
    assert actual.plan.runner_up is None
    assert [vertex.vertex_type for vertex in actual.vertices] == ["conv<float>", "relu<half>"]


def test_a_plan_is_found_by_its_node(small: Report) -> None:
    assert explain_plan(small, "layer1").plan.name == "layer1/conv"


def test_an_unknown_plan_suggests_similar_names(small: Report) -> None:
    with pytest.raises(BadQuestion) as refused:
        explain_plan(small, "layer2/conv")
    assert str(refused.value) == (
        "unknown plan 'layer2/conv'; this report has 1, and the nearest names are 'layer1/conv'"
    )


@pytest.mark.parametrize("name", ["", "%", "layer1/", "x" * 10_000, "a\nb"])
def test_any_name_is_answered(small: Report, name: str) -> None:
    with pytest.raises(
        BadQuestion, match="this report has 1, and the nearest names are 'layer1/conv'"
    ):
        explain_plan(small, name)


def test_a_report_without_plans_says_so(variation: Variation) -> None:
    report = variation(Shape(has_plan=False))
    assert len(plans(report)) == 0
    with pytest.raises(BadQuestion, match="this report has no plans"):
        explain_plan(report, "layer1/conv")
    assert len(operations(report).operations) == 1


@pytest.mark.parametrize(
    "text", ["[]", "7", '"x"', '{"rows": "many"}', '{"rows": null}', '{"rows": 1e999}', "[" * 5000]
)
def test_a_plan_that_a_stranger_wrote_is_shown_without_its_numbers(
    variation: Variation, text: str
) -> None:
    report = variation(Shape(plan_text=text))
    actual = explain_plan(report, "layer1/conv")
    assert (actual.plan.split, actual.plan.runner_up) == ({}, None)


def test_contexts_that_stand_in_one_another_are_refused(variation: Variation) -> None:
    report = variation(Shape(fault="context"))
    with pytest.raises(DamagedReport, match="parent_id 7 is not"):
        operations(report)


def test_the_steps_of_an_operation_add_up_to_it(small: Report) -> None:
    # Two runs: the convolution once in each, the relu three times.
    (conv,) = operations(small).operations
    actual = operation_steps(small, conv)
    assert [(step.step_id, step.kind, step.cycles, step.n_executions) for step in actual] == [
        (3, "OnTileExecute", 400, 2),
        (5, "OnTileExecute", 180, 6),
    ]
    assert sum(step.cycles for step in actual) == conv.cycles
    assert {step.phase for step in actual} == {"compute"}


def test_the_step_of_a_step_is_itself(small: Report) -> None:
    for step in operations(small, "step").operations:
        (actual,) = operation_steps(small, step)
        assert (actual.step_id, actual.cycles) == (step.step_id, step.cycles)


def test_without_runs_a_step_has_what_one_execution_takes(variation: Variation) -> None:
    report = variation(Shape(n_runs=0))
    actual = operation_steps(report, operations(report).operations[0])
    assert [(step.cycles, step.n_executions) for step in actual] == [(200, 0), (30, 0)]


def test_plans_are_found_from_the_call_and_from_the_node(small: Report) -> None:
    assert plans_of(small, 0) == plans_of(small, 1) == tuple(plans(small))
    assert plans_of(small, 99) == ()
    assert explanation(small, plans(small)[0]) == explain_plan(small, "layer1/conv")


def test_a_plan_as_text_matches_the_table(small: Report) -> None:
    actual = explain_plan(small, "layer1/conv")
    facts = dict(plan_facts(actual, "bytes"))
    assert facts["Asked for by"] == ("Conv node layer1",)
    assert facts["Tiles"][0].startswith(f"{actual.plan.n_tiles:,} of {actual.n_machine_tiles:,} ")
    assert facts["Split"] == (split_words(actual.plan.split),)
    assert f"{actual.plan.temporary_bytes:,} B of temporary memory" in facts["Memory"][0]
    assert "Operands" not in facts
    rows = part_rows(actual)
    assert [row.label for row in rows[: len(actual.parts)]] == [part.part for part in actual.parts]
    sums = [row for row in rows if row.is_sum]
    assert sums[0].predicted_cycles == actual.plan.predicted_cycles


def test_what_is_not_split_is_left_out() -> None:
    assert split_words({"rows": 4, "columns": 1, "outputs": 2}) == "rows 4, outputs 2"
    assert split_words({"rows": 1}) == "not split"
