"""Gates on the difference of two reports."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.analyser.small_report import Shape

from tilescope.analyser.diff import compare
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.gates import (
    GateResult,
    evaluate,
    parse_acknowledgement,
    parse_gate,
    parse_limit,
)
from tilescope.analyser.summary.metrics import METRICS
from tilescope.reports import Report

Sides = tuple[Report, Report]


def outcomes(sides: Sides, *gates: str) -> tuple[GateResult, ...]:
    return evaluate([parse_gate(gate) for gate in gates], compare(*sides), *sides)


@pytest.fixture
def slower(small: Report, variation: Callable[[Shape], Report]) -> Sides:
    """Return two reports: +120 cycles of 970, +16 bytes on the fullest tile."""
    return small, variation(Shape(conv_tile0_cycles=260, has_bias=True))


@pytest.mark.parametrize(
    ("text", "metric", "limit", "is_percent"),
    [
        ("cycles.total:+1%", "cycles.total", Fraction(1), True),
        ("cycles.total:1.5%", "cycles.total", Fraction(3, 2), True),
        ("cycles.total:-5%", "cycles.total", Fraction(-5), True),
        ("cycles.total:+100", "cycles.total", Fraction(100), False),
        ("cycles.total:+100cycles", "cycles.total", Fraction(100), False),
        ("memory.max_tile:+0B", "memory.max_tile", Fraction(0), False),
        ("memory.max_tile:+1024B", "memory.max_tile", Fraction(1024), False),
        ("memory.max_tile:+1KiB", "memory.max_tile", Fraction(1024), False),
        ("memory.max_tile:+1kB", "memory.max_tile", Fraction(1000), False),
        ("parallel.efficiency:-0.01", "parallel.efficiency", Fraction(-1, 100), False),
    ],
)
def test_a_gate_is_read(text: str, metric: str, limit: Fraction, is_percent: bool) -> None:
    gate = parse_gate(text)
    read = gate.limits[metric]
    assert (gate.metric, read.amount, read.kind == "percent") == (metric, limit, is_percent)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cycles.totl:+1%", "nearest is 'cycles.total'"),
        ("memory.maxtile:+1%", "nearest is 'memory.max_tile'"),
        ("cycles.total", "METRIC:LIMIT"),
        ("cycles.total:", "METRIC:LIMIT"),
        ("cycles.total:+x%", "METRIC:LIMIT"),
        ("cycles.total:+1e3", "METRIC:LIMIT"),
        ("cycles.total:+nan", "METRIC:LIMIT"),
        ("cycles.total:++1%", "METRIC:LIMIT"),
        ("", "METRIC:LIMIT"),
        ("cycles.total:+1KiB", "limit of cycles.total: unit 'KiB' is not one of %, c, us"),
        ("memory.max_tile:+1cycles", "not one of %, B, kB"),
        ("cycles.total@tile3:+1%", "expected an IPU such as ipu1"),
        ("operation.cycles:+1%", "operation.cycles@Conv1"),
        ("operation.cycle@a:+1%", "nearest is 'operation.cycles'"),
        ("nothing*:+1%", "no metric matches 'nothing*'"),
        ("graph.variables:+1B", "not one of % or a plain number"),
    ],
)
def test_an_invalid_gate_is_explained(text: str, said: str) -> None:
    with pytest.raises(BadQuestion) as error:
        parse_gate(text)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("cycles.total:+0%", "failed"),
        ("cycles.total:+12%", "failed"),
        ("cycles.total:+12.38%", "passed"),
        ("cycles.total:+59", "failed"),
        ("cycles.total:+60", "passed"),
        ("cycles.sync:+0%", "passed"),
        ("cycles.total:-1%", "failed"),
        ("memory.max_tile:+15B", "failed"),
        ("memory.max_tile:+16B", "passed"),
        # For efficiency lower is worse: it fell by 2.94 points, 7.50 % of the baseline.
        ("parallel.efficiency:-7%", "failed"),
        ("parallel.efficiency:-8%", "passed"),
        ("parallel.efficiency:+0%", "failed"),
        # Percent of a baseline of zero allows no change at all.
        ("memory.category.stack:+50%", "passed"),
    ],
)
def test_a_gate_comes_out(slower: Sides, text: str, status: str) -> None:
    (result,) = outcomes(slower, text)
    assert result.status == status
    assert ("within" if status == "passed" else "outside") in result.text


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(cycles=st.integers(1, 400), planted=st.integers(0, 64), data=st.data())
def test_a_gate_fails_from_one_unit_beyond_its_limit(
    small: Report,
    variation: Callable[[Shape], Report],
    cycles: int,
    planted: int,
    data: st.DataObject,
) -> None:
    """The limit at the measured change passes, one unit less fails, whatever changed."""
    sides = small, variation(Shape(conv_tile0_cycles=cycles, planted_bytes=4 * planted))
    first, second = (
        {name: metric.of_run(report) for name, metric in METRICS.items()} for report in sides
    )
    names = ["cycles.total", "cycles.compute", "memory.total", "memory.max_tile"]
    name = data.draw(st.sampled_from(names))
    before, after = first[name], second[name]
    assert isinstance(before, int)
    assert isinstance(after, int)
    delta = after - before
    (within,) = outcomes(sides, f"{name}:{delta:+d}")
    (beyond,) = outcomes(sides, f"{name}:{delta - 1:+d}")
    assert (within.status, beyond.status, within.delta) == ("passed", "failed", delta)


def test_an_improvement_passes(small: Report, variation: Callable[[Shape], Report]) -> None:
    faster = variation(Shape(conv_tile0_cycles=260)), small
    results = outcomes(
        faster, "cycles.total:+0%", "parallel.efficiency:-0%", "cycles.total:-11%",
        "cycles.total:-12%",
    )  # fmt: skip
    assert [result.status for result in results] == ["passed", "passed", "passed", "failed"]


def test_a_figure_that_is_new_is_gated_in_its_own_unit_only(
    small: Report, variation: Callable[[Shape], Report]
) -> None:
    results = outcomes(
        (variation(Shape(n_runs=0)), small),
        "cycles.total:+1%", "cycles.total:+484", "cycles.total:+485",
    )  # fmt: skip
    assert [result.status for result in results] == ["missing", "failed", "passed"]
    assert "is missing in the baseline" in results[0].text


def test_a_figure_that_is_gone_is_missing(
    small: Report, variation: Callable[[Shape], Report]
) -> None:
    (result,) = outcomes((small, variation(Shape(n_runs=0))), "cycles.total:+100")
    assert result.status == "missing"
    assert "is missing in the candidate" in result.text


def test_data_dependent_cycles_are_marked(
    small: Report, variation: Callable[[Shape], Report]
) -> None:
    cycles, memory = outcomes(
        (small, variation(Shape(is_data_dependent=True))), "cycles.total:+0%", "memory.total:+0B"
    )
    assert cycles.is_data_dependent
    assert cycles.text.endswith("These cycles are data-dependent.")
    assert not memory.is_data_dependent


@pytest.mark.parametrize(
    ("text", "status"),
    [
        # 60 cycles at 1 GHz are 0.06 µs.
        ("cycles.total:+0.06us", "passed"),
        ("cycles.total:+0.059us", "failed"),
        ("cycles.total:+60c", "passed"),
        ("time.total:+0.06us", "passed"),
        ("time.total:+0.05us", "failed"),
        ("memory.max_tile:+0.000000015GB", "failed"),
        ("memory.max_tile:+0.000000016GB", "passed"),
    ],
)
def test_units_of_limits(slower: Sides, text: str, status: str) -> None:
    assert outcomes(slower, text)[0].status == status


def test_one_planted_cycle_moves_the_gates_of_report_ipu_and_operation(
    small: Report, variation: Callable[[Shape], Report]
) -> None:
    sides = small, variation(Shape(conv_tile0_cycles=201, n_runs=2))
    names = ("cycles.total", "cycles.compute@ipu0", "operation.cycles@layer1/conv")
    # One cycle of one step in every run.
    tight = outcomes(sides, *(f"{name}:+0c" for name in names))
    wide = outcomes(sides, *(f"{name}:+1c" for name in names))
    assert [result.status for result in tight] == ["failed"] * 3
    assert [result.status for result in wide] == ["passed"] * 3
    rest = outcomes(sides, "memory.*:+0B", "cycles.*@ipu1:+0c")
    moved = {result.name for result in rest if result.status != "passed"}
    assert moved <= {"cycles.waiting@ipu1"}


def test_a_wildcard_gates_every_metric_that_it_matches(slower: Sides) -> None:
    results = outcomes(slower, "cycles.*:+0c")
    failed = [result.metric for result in results if result.status == "failed"]
    assert failed == ["cycles.total", "cycles.compute"]
    assert len(results) > 5


def test_a_wildcard_leaves_out_figures_of_other_units(slower: Sides) -> None:
    names = {result.metric for result in outcomes(slower, "memory.*:+0B")}
    assert "memory.max_tile" in names
    assert "memory.tiles_over_capacity" not in names


def test_a_gate_on_ipus(small: Report, variation: Callable[[Shape], Report]) -> None:
    sides = small, variation(Shape(conv_tile0_cycles=260))
    results = outcomes(
        sides, "cycles.total@ipu*:+0c", "cycles.total@ipu1:+0c", "cycles.total@ipu2:+0c"
    )
    assert [(result.name, result.status) for result in results] == [
        ("cycles.total@ipu0", "failed"),
        ("cycles.total@ipu1", "passed"),
        ("cycles.total@ipu1", "passed"),
        ("cycles.total@ipu2", "missing"),
    ]


def test_a_metric_without_values_of_ipus() -> None:
    with pytest.raises(BadQuestion, match="has no value per IPU; remove '@ipu1'"):
        parse_gate("graph.steps@ipu1:+0")


def test_a_gate_on_an_operation(slower: Sides) -> None:
    results = outcomes(
        slower,
        "operation.cycles@layer1/conv:+59c",
        "operation.cycles@layer1/conv:+60c",
        "operation.cycles@layer1*:+20%",
    )
    assert [(result.name, result.status) for result in results] == [
        ("operation.cycles@layer1/conv", "failed"),
        ("operation.cycles@layer1/conv", "passed"),
        ("operation.cycles@layer1", "failed"),
        ("operation.cycles@layer1/conv", "failed"),
    ]


def test_an_operation_that_neither_report_has_is_missing(slower: Sides) -> None:
    named, pattern = outcomes(slower, "operation.cycles@laye1/conv:+1%", "operation.code@x*[:+1B")
    assert (named.status, pattern.status) == ("missing", "missing")
    assert named.text == "operation.cycles@laye1/conv is missing in either report."
    assert pattern.text == "operation.code@x*[ matches nothing in either report."


def test_an_operation_of_the_baseline_that_is_gone(
    small: Report, variation: Callable[[Shape], Report]
) -> None:
    sides = small, variation(Shape(conv_name="layer1/other"))
    named, *rest = outcomes(sides, "operation.cycles@layer1:+0c", "operation.cycles@layer1/c*:+0c")
    assert named.status == "passed"
    assert [peer.status for peer in rest] == ["passed"]


def test_cycles_of_operations_need_runs_on_both_sides(
    small: Report, variation: Callable[[Shape], Report]
) -> None:
    sides = small, variation(Shape(n_runs=0))
    cycles, code = outcomes(
        sides, "operation.cycles@layer1/conv:+100%", "operation.code@layer1/conv:+0B"
    )
    assert (cycles.status, code.status) == ("missing", "passed")


def test_names_with_colons_at_signs_and_brackets() -> None:
    gate = parse_gate("operation.cycles@a:b@c[0]/*:+1%")
    assert gate.selector == "a:b@c[0]/*"


def test_a_gate_that_only_warns(slower: Sides) -> None:
    gate = parse_gate("cycles.total:+0%", "warn")
    (result,) = evaluate([gate], compare(*slower), *slower)
    assert result.status == "warned"


@pytest.mark.parametrize(
    ("metric", "limit", "until", "status"),
    [
        ("cycles.total", None, "2026-12-31", "acknowledged"),
        ("cycles.*", "+13%", "2026-12-31", "acknowledged"),
        ("cycles.total", "+120c", "2026-06-01", "acknowledged"),
        ("cycles.total", "+12%", "2026-12-31", "failed"),
        ("cycles.total", None, "2026-05-31", "failed"),
        ("cycles.compute", None, "2026-12-31", "failed"),
        ("memory.*", None, "2026-12-31", "failed"),
    ],
)
def test_an_acknowledged_regression_passes_until_its_last_day(
    slower: Sides, metric: str, limit: str | None, until: str, status: str
) -> None:
    accepted = parse_acknowledgement(metric, date.fromisoformat(until), "the new kernel.", limit)
    (result,) = evaluate(
        [parse_gate("cycles.total:+0%")], compare(*slower), *slower,
        acknowledgements=[accepted], today=date(2026, 6, 1),
    )  # fmt: skip
    assert result.status == status
    if status == "acknowledged":
        assert result.text.endswith(f"until {until}: the new kernel.")


def test_a_limit_without_a_baseline_takes_no_percentage() -> None:
    assert parse_limit("300 KiB", "bytes", allows_percent=False).amount == 300 * 1024
    with pytest.raises(BadQuestion, match="unit '%' is not one of B, kB"):
        parse_limit("3%", "bytes", allows_percent=False)


def test_gates_are_about_one_run(variation: Callable[[Shape], Report]) -> None:
    """Recording more runs of one program moves no gate, and a regression fails all the same."""
    texts = ("cycles.*:+0c", "time.total:+0us", "exchange.*:+0B", "host.*:+0B", "tile_cycles.*:+0c",
             "cycles.*@ipu*:+0c", "operation.cycles@*:+0c", "flops.total:+0")  # fmt: skip
    item, three = variation(Shape(n_runs=1)), variation(Shape(n_runs=3))
    for sides in ((item, three), (three, item)):
        assert {result.status for result in outcomes(sides, *texts)} == {"passed"}
    slower = variation(Shape(n_runs=3, conv_tile0_cycles=201))
    (total, of_ipu, of_operation) = outcomes(
        (item, slower),
        "cycles.total:+0c",
        "cycles.total@ipu0:+0c",
        "operation.cycles@layer1/conv:+0c",
    )
    assert [total.delta, of_ipu.delta, of_operation.delta] == [1, 1, 1]
    assert {total.status, of_ipu.status, of_operation.status} == {"failed"}
