"""Gates on the difference of two reports."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from tests.analyser.small_report import Shape

from tilescope.analyser.diff import Difference, compare
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.gates import evaluate, parse_gate
from tilescope.reports import Report


@pytest.fixture
def slower(small: Report, variation: Callable[[Shape], Report]) -> Difference:
    """Return a difference of +120 cycles of 970 and +16 bytes of 288 on the fullest tile."""
    return compare(small, variation(Shape(conv_tile0_cycles=260, has_bias=True)))


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
    assert (gate.metric, gate.limit, gate.is_percent) == (metric, limit, is_percent)


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
        ("cycles.total:+1KiB", "cycles.total allows %, cycles"),
        ("memory.max_tile:+1cycles", "memory.max_tile allows %, B"),
        ("graph.variables:+1B", "graph.variables allows %"),
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
        ("cycles.total:+119", "failed"),
        ("cycles.total:+120", "passed"),
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
def test_a_gate_comes_out(slower: Difference, text: str, status: str) -> None:
    (result,) = evaluate([parse_gate(text)], slower)
    assert result.status == status
    assert ("within" if status == "passed" else "outside") in result.text


def test_an_improvement_passes(small: Report, variation: Callable[[Shape], Report]) -> None:
    faster = compare(variation(Shape(conv_tile0_cycles=260)), small)
    gates = [parse_gate(text) for text in ("cycles.total:+0%", "parallel.efficiency:-0%")]
    assert [gate.status for gate in evaluate(gates, faster)] == ["passed", "passed"]
    assert evaluate([parse_gate("cycles.total:-11%")], faster)[0].status == "passed"
    assert evaluate([parse_gate("cycles.total:-12%")], faster)[0].status == "failed"


def test_a_figure_that_is_new_is_gated_in_its_own_unit_only(
    small: Report, variation: Callable[[Shape], Report]
) -> None:
    appeared = compare(variation(Shape(n_runs=0)), small)
    texts = ("cycles.total:+1%", "cycles.total:+969", "cycles.total:+970")
    results = evaluate([parse_gate(text) for text in texts], appeared)
    assert [result.status for result in results] == ["missing", "failed", "passed"]
    assert "is missing in the baseline" in results[0].text


def test_a_figure_that_is_gone_is_missing(
    small: Report, variation: Callable[[Shape], Report]
) -> None:
    gone = compare(small, variation(Shape(n_runs=0)))
    (result,) = evaluate([parse_gate("cycles.total:+100")], gone)
    assert result.status == "missing"
    assert "is missing in the candidate" in result.text


def test_data_dependent_cycles_are_marked(
    small: Report, variation: Callable[[Shape], Report]
) -> None:
    found = compare(small, variation(Shape(is_data_dependent=True)))
    cycles, memory = evaluate(
        [parse_gate("cycles.total:+0%"), parse_gate("memory.total:+0B")], found
    )
    assert cycles.is_data_dependent
    assert cycles.text.endswith("These cycles are data-dependent.")
    assert not memory.is_data_dependent
