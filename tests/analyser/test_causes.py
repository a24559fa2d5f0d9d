"""Causes: what was planted is found and named; what is odd is one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.analyser.small_report import Shape, write_small_report

from tilescope import analyser
from tilescope.analyser.breakdown import Breakdown, change_tables
from tilescope.analyser.diff import compare, explain
from tilescope.analyser.summary.metrics import ipu_values
from tilescope.main import main
from tilescope.reports import Report

Variation = Callable[[Shape], Report]
GOLDEN = Path(__file__).parents[1] / "golden"


def test_one_planted_cycle_is_found_named_and_gated(variation: Variation) -> None:
    first, second = (variation(Shape(n_runs=1, conv_tile0_cycles=n)) for n in (200, 201))
    actual = compare(first, second)
    (cause,) = actual.causes
    assert (cause.kind, cause.subject, cause.cycles, cause.bytes) == ("cost", "layer1", 1, 0)
    assert explain(actual)[0] == (
        "IPU 0 takes 1 cycle more in layer1 (290 → 291): compute +1 cycle."
    )
    gate = ("--fail-on", "cycles.total:+0%")
    assert main(["diff", str(first.path), str(second.path), *gate]) == 1
    assert main(["diff", str(second.path), str(first.path), *gate]) == 0


def test_one_planted_byte_is_found_named_and_gated(variation: Variation) -> None:
    first, second = variation(Shape()), variation(Shape(planted_bytes=1))
    actual = compare(first, second)
    (cause,) = actual.causes
    assert (cause.kind, cause.subject, cause.cycles, cause.bytes) == ("size", "weights", 0, 1)
    assert explain(actual)[0] == "Variable weights grew by 1 B (320 B → 321 B)."
    for metric in ("memory.total", "memory.max_tile"):
        gate = ("--fail-on", f"{metric}:+0%")
        assert main(["diff", str(first.path), str(second.path), *gate]) == 1


def test_other_numbers_of_runs_are_said_and_compared_per_run(variation: Variation) -> None:
    actual = compare(variation(Shape(n_runs=1)), variation(Shape(n_runs=3)))
    (cause,) = actual.causes
    assert cause.kind == "runs"
    assert cause.sentence == ("The baseline recorded 1 run, the candidate 3; figures are per run.")
    slower = compare(variation(Shape(n_runs=1)), variation(Shape(n_runs=3, conv_tile0_cycles=260)))
    cost = next(cause for cause in slower.causes if cause.kind == "cost")
    assert (cost.cycles, cost.subject) == (60, "layer1")
    assert "60 cycles more per run" in cost.sentence


def test_an_option_without_effect_is_said(small: Report, variation: Variation) -> None:
    options = {"autoReport.all": "true", "debug.instrument": "true"}
    (cause,) = compare(small, variation(Shape(options=options))).causes
    assert cause.sentence == (
        "Options changed: debug.instrument None → true, without effect on cycles and memory."
    )


shapes = st.builds(
    Shape,
    n_runs=st.integers(0, 2),
    conv_tile0_cycles=st.integers(100, 300),
    weights_bytes=st.sampled_from([160, 320, 400]),
    planted_bytes=st.integers(0, 3),
    has_bias=st.booleans(),
    idle_cycles=st.integers(0, 2),
    conv_name=st.sampled_from(["layer1/conv", "first"]),
)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(baseline=shapes, candidate=shapes)
def test_parts_sum_to_totals_and_causes_are_antisymmetric(
    variation: Variation, baseline: Shape, candidate: Shape
) -> None:
    first, second = variation(baseline), variation(candidate)
    there, back = compare(first, second), compare(second, first)
    assert {(cause.kind, cause.cycles, cause.bytes) for cause in there.causes} == {
        (cause.kind, -cause.cycles, -cause.bytes) for cause in back.causes
    }
    same = compare(first, first)
    assert (same.causes, same.unequal) == ((), ())
    metrics = {metric.name: metric for metric in there.metrics}
    categories = [m.delta or 0 for n, m in metrics.items() if n.startswith("memory.category.")]
    assert sum(categories) == metrics["memory.total"].delta == there.tiles.delta_bytes.sum()
    by_ipu = [ipu_values(report)["memory.total"] for report in (first, second)]
    assert sum(map(int, by_ipu[1])) - sum(map(int, by_ipu[0])) == metrics["memory.total"].delta  # type: ignore[arg-type]
    if there.steps.basis == "runs":
        total = metrics["cycles.total"].delta
        layers: tuple[Breakdown, ...] = ("operation", "layer")
        for by in layers:
            assert (
                sum(row.delta for row in change_tables(by, there, first, second)[0].rows) == total
            )
        gaps = metrics["cycles.other"].delta or 0
        (by_step,) = change_tables("step", there, first, second)
        assert sum(row.delta for row in by_step.rows) + gaps == total


ODD = {
    "quotes": "a 'b' \"c\" `d`",
    "newlines": "first\nsecond\r\nthird",
    "HTML": "<script>alert(1)</script>&amp;",
    "10,000 characters": "n" * 10_000,
}


@pytest.mark.parametrize("name", ODD.values(), ids=ODD)
def test_odd_names_stay_on_one_line(
    name: str, small: Report, variation: Variation, capsys: pytest.CaptureFixture[str]
) -> None:
    peer = variation(Shape(conv_name=name, conv_tile0_cycles=300))
    for sentence in explain(compare(small, peer)):
        assert "\n" not in sentence
        assert len(sentence) < 1_000
    assert main(["diff", str(small.path), str(peer.path)]) == 0
    assert main(["diff", str(peer.path), str(small.path), "--json"]) == 0
    assert capsys.readouterr().err == ""


def refusal(capsys: pytest.CaptureFixture[str], *paths: Path) -> str:
    assert main(["diff", *map(str, paths)]) == 2
    message = capsys.readouterr().err.strip()
    assert message.count("\n") == 0
    return message


def test_a_report_of_another_schema_version_is_one_sentence(
    small: Report, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refusal(capsys, small.path, GOLDEN / "v2" / "small.pop")
    assert "has report schema 2; this TileScope supports 4" in message


def test_a_report_without_steps_is_compared(small: Report, variation: Variation) -> None:
    empty = variation(Shape(has_steps=False))
    first = explain(compare(small, empty))[0]
    assert first == "The candidate holds no steps; programs are not compared."
    assert main(["diff", str(small.path), str(empty.path)]) == 0
    assert main(["diff", str(empty.path), str(empty.path)]) == 0


def test_compiled_only_incomplete_and_another_machine(
    small: Report, variation: Variation, tmp_path: Path
) -> None:
    compiled = explain(compare(small, variation(Shape(n_runs=0))))
    assert "The baseline recorded 2 runs, the candidate 0; cycles are not compared." in compiled
    path = write_small_report(tmp_path / "unfinished", Shape(is_finished=False))
    with analyser.open(path) as unfinished:
        first = explain(compare(small, unfinished))[0]
    assert first.startswith("Candidate: The run ended early")
    peer = explain(compare(small, variation(Shape(target_name="bow", clock_hz=2e9))))
    assert peer[0] == "Machine changed: small → bow."
