"""Differences between variations of the small report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.analyser.small_report import Shape
from tests.generated_report import generate_report

from tilescope.analyser.diff import compare, explain
from tilescope.analyser.diff.alignment.align import align, align_in_turn
from tilescope.analyser.summary.metrics import METRICS
from tilescope.reports import DamagedReport, Report, open_report

Variation = Callable[[Shape], Report]


def test_a_report_does_not_differ_from_itself(small: Report) -> None:
    actual = compare(small, small)
    assert actual.is_identical
    assert actual.unequal == ()
    assert actual.context == ()
    assert {metric.verdict for metric in actual.metrics} == {"same", "absent"}
    absent = {metric.name for metric in actual.metrics if metric.verdict == "absent"}
    of_training = (".pass.", ".purpose.", "memory.stored_activations")
    assert all(any(part in name for part in of_training) for name in absent)
    assert not actual.tiles.delta_bytes.any()
    for changes in (actual.steps, actual.variables):
        assert changes.added == changes.removed == changes.changed == ()
    assert explain(actual) == ("The two reports hold identical data.",)


def test_where_a_report_lies_is_not_compared(small: Report, variation: Variation) -> None:
    options = {"autoReport.all": "true", "autoReport.directory": "/elsewhere"}
    actual = compare(small, variation(Shape(options=options)))
    assert actual.is_identical
    assert actual.context == ()


def test_another_clock_is_another_time(small: Report, variation: Variation) -> None:
    actual = compare(small, variation(Shape(target_name="bow", clock_hz=2.0e9)))
    assert actual.metric("cycles.total").delta == 0
    assert actual.metric("time.total").verdict == "better"
    assert "At the machines' clock rates this is 485 ns → 242.5 ns (-50.00 %)." in explain(actual)


def test_the_wall_clock_is_not_compared(small: Report, variation: Variation) -> None:
    assert compare(small, variation(Shape(wall_host="elsewhere"))).is_identical


@pytest.mark.parametrize(
    ("shape", "unequal"),
    [
        (Shape(seed="2"), {"provenance"}),
        (Shape(options={}), {"engine_option"}),
        (Shape(target_name="bow"), {"target"}),
        (Shape(idle_cycles=1), {"run", "run_trace", "trace.start_cycle", "trace.end_cycle"}),
    ],
)
def test_whatever_differs_is_named(
    small: Report, variation: Variation, shape: Shape, unequal: set[str]
) -> None:
    actual = compare(small, variation(shape))
    assert not actual.is_identical
    assert set(actual.unequal) == unequal


def test_another_machine_comes_first(small: Report, variation: Variation) -> None:
    actual = compare(small, variation(Shape(target_name="bow", bytes_per_tile=900)))
    first = actual.context[0]
    assert (first.key, first.baseline, first.candidate) == ("name", "small", "bow")
    assert {change.follows for change in actual.context[1:]} == {"name"}
    assert explain(actual)[0] == "Machine changed: small → bow."


def test_a_changed_option_without_effect_is_reported(small: Report, variation: Variation) -> None:
    options = {"autoReport.all": "true", "debug.instrument": "true"}
    sentences = explain(compare(small, variation(Shape(options=options))))
    assert sentences[0].startswith("Options changed: debug.instrument")
    assert sentences[1:] == ("All metrics, variables and steps agree.",)


def test_a_slower_step(small: Report, variation: Variation) -> None:
    actual = compare(small, variation(Shape(conv_tile0_cycles=260)))
    total = actual.metric("cycles.total")
    assert (total.baseline, total.candidate, total.delta, total.verdict) == (
        485,
        545,
        60,
        "worse",
    )
    assert total.percent_of_baseline == pytest.approx(100 * 120 / 970)
    assert [(step.name, step.delta_cycles) for step in actual.steps.changed] == [
        ("layer1/conv", 60)
    ]
    assert actual.steps.n_same == 6
    text = " ".join(explain(actual))
    assert "Cycles change by +60 cycles (+12.37 %): compute +60 cycles" in text
    assert "OnTileExecute (layer1/conv) +60 cycles" in text


def test_a_variable_more_and_another_larger(small: Report, variation: Variation) -> None:
    actual = compare(small, variation(Shape(has_bias=True, weights_bytes=400)))
    assert [(variable.name, variable.delta_bytes) for variable in actual.variables.added] == [
        ("bias", 16)
    ]
    assert [(variable.name, variable.delta_bytes) for variable in actual.variables.changed] == [
        ("weights", 80)
    ]
    assert actual.variables.removed == ()
    assert actual.variables.n_same == 3
    assert actual.tiles.delta_bytes.tolist() == [26, 10, 10, 10, 10, 10, 10, 10]
    assert actual.metric("memory.category.constant").delta == 96
    text = " ".join(explain(actual))
    assert "Memory changes by +96 B (+5.41 %) over all tiles" in text
    assert "By category: constants +96 B" in text


def test_a_renamed_step_stays_the_same(small: Report, variation: Variation) -> None:
    actual = compare(small, variation(Shape(conv_name="first")))
    assert actual.steps.added == actual.steps.removed == actual.steps.changed == ()
    assert actual.steps.n_same == 7


def test_a_side_without_runs(small: Report, variation: Variation) -> None:
    actual = compare(small, variation(Shape(n_runs=0)))
    assert actual.metric("cycles.total").verdict == "missing"
    assert actual.steps.basis == "estimate"
    assert "The candidate has no run; cycles are not compared." in explain(actual)


def test_a_side_without_memory(small: Report, variation: Variation) -> None:
    actual = compare(small, variation(Shape(has_memory=False)))
    assert actual.metric("memory.max_tile").verdict == "missing"
    assert "The candidate holds no memory; memory is not compared." in explain(actual)
    assert actual.steps.n_same == 7


def test_an_incomplete_side_is_reported(small: Report, variation: Variation) -> None:
    actual = compare(small, variation(Shape(is_finished=False)))
    assert not actual.candidate.is_complete
    assert explain(actual)[0].startswith("Candidate: The run ended early")


shapes = st.builds(
    Shape,
    target_name=st.sampled_from(["small", "bow"]),
    n_runs=st.integers(0, 2),
    conv_tile0_cycles=st.integers(100, 300),
    weights_bytes=st.sampled_from([160, 320, 400]),
    has_bias=st.booleans(),
    conv_name=st.sampled_from(["layer1/conv", "first"]),
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(baseline=shapes, candidate=shapes)
def test_swapping_the_sides_turns_every_sign(
    variation: Variation, baseline: Shape, candidate: Shape
) -> None:
    first, second = variation(baseline), variation(candidate)
    there, back = compare(first, second), compare(second, first)
    assert there.is_identical == back.is_identical
    assert set(there.unequal) == set(back.unequal)
    for forth, reverse in zip(there.metrics, back.metrics, strict=True):
        assert (forth.baseline, forth.candidate) == (reverse.candidate, reverse.baseline)
        if forth.delta is not None:
            assert forth.delta == -(reverse.delta or 0)
    assert np.array_equal(there.tiles.delta_bytes, -back.tiles.delta_bytes)
    assert there.steps.delta_cycles == -back.steps.delta_cycles
    for kind, opposite in (("added", "removed"), ("removed", "added"), ("changed", "changed")):
        for changes in ("steps", "variables"):
            forward = getattr(getattr(there, changes), kind)
            backward = getattr(getattr(back, changes), opposite)
            sides = ("baseline_step_id", "candidate_step_id", "delta_cycles")
            if changes == "variables":
                sides = ("baseline", "candidate", "delta_bytes")
            assert {tuple(getattr(change, side) for side in sides) for change in forward} == {
                (getattr(change, sides[1]), getattr(change, sides[0]), -getattr(change, sides[2]))
                for change in backward
            }
    if there.steps.basis == "runs":
        # Steps account for all time but gaps, so their changes add up to the total's.
        gaps = there.metric("cycles.other").delta or 0
        assert there.steps.delta_cycles + gaps == there.metric("cycles.total").delta


def test_a_name_more_at_the_front_shifts_nothing() -> None:
    pairs, removed, added = align("aaa", "aaaa", [1, 2, 3], [9, 1, 2, 3])
    assert pairs == [(0, 1), (1, 2), (2, 3)]
    assert (removed, added) == ([], [0])


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), max_size=8),
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), max_size=8),
)
def test_alignment_is_symmetric_and_complete(
    baseline: list[tuple[str, int]], candidate: list[tuple[str, int]]
) -> None:
    names = [[row[0] for row in side] for side in (baseline, candidate)]
    shapes = [[row[1] for row in side] for side in (baseline, candidate)]
    pairs, removed, added = align(names[0], names[1], shapes[0], shapes[1])
    swapped, gone, come = align(names[1], names[0], shapes[1], shapes[0])
    assert sorted((first, second) for second, first in swapped) == pairs
    assert (gone, come) == (added, removed)
    assert sorted([first for first, _ in pairs] + removed) == list(range(len(baseline)))
    assert sorted([second for _, second in pairs] + added) == list(range(len(candidate)))
    assert all(names[0][first] == names[1][second] for first, second in pairs)
    for name in "ab":
        counts = [side.count(name) for side in names]
        assert sum(names[0][first] == name for first, _ in pairs) == min(counts)


def test_every_metric_is_compared(small: Report) -> None:
    assert [metric.name for metric in compare(small, small).metrics] == list(METRICS)


def test_a_damaged_report_is_never_called_identical(tmp_path: Path) -> None:
    full = generate_report(tmp_path / "whole", n_tiles=8, n_steps=40, n_variables=20)
    connection = apsw.Connection(str(full), flags=apsw.SQLITE_OPEN_READONLY)
    packed = [bytes(data) for (data,) in connection.execute("SELECT data FROM chunk")]
    connection.close()
    content = full.read_bytes()
    # A chunk that fits in one page is stored contiguously in the file.
    inside = max((data for data in packed if data in content), key=len)
    offset = content.index(inside) + len(inside) // 2
    damaged = tmp_path / "damaged.pop"
    damaged.write_bytes(content[:offset] + bytes([content[offset] ^ 0x10]) + content[offset + 1 :])
    with open_report(full) as baseline, open_report(damaged) as candidate:
        assert compare(baseline, baseline).is_identical
        with pytest.raises(DamagedReport):
            compare(baseline, candidate)


def test_no_further_name_is_asked_for_once_all_are_paired() -> None:
    def rounds() -> Iterator[tuple[list[str], list[str]]]:
        yield ["a", "b"], ["b", "a"]
        raise AssertionError("a second name was asked for")

    assert align_in_turn(rounds(), ["", ""], ["", ""]) == ([(0, 1), (1, 0)], [], [])
