"""Metrics of the small report, computed on paper from its description."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.analyser.small_report import Shape
from tests.generated_report import generate_report

from tilescope import analyser
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.summary.metrics import METRICS, ipu_values, metric, values
from tilescope.analyser.time.execution import PHASES
from tilescope.reports import Report
from tilescope.reports.schema.vocabulary import MEMORY_CATEGORY

# Per run on IPU 0: compute 200 + 3·30, exchange 20 + 3·5, sync 10, copies 100 + 50; two runs.
# Busy tile cycles per run: 500 + 300 + 3·(120 + 120); offered: 4·(200 + 150 + 3·(30 + 30)).
BY_HAND = {
    "cycles.total": 970,
    "cycles.compute": 580,
    "cycles.exchange": 70,
    "cycles.global_exchange": 0,
    "cycles.sync": 20,
    "cycles.stream_copy": 300,
    "cycles.other": 0,
    "time.total": 970e-9,
    "parallel.efficiency": 2 * 1520 / (970 * 8),
    "tile.balance": 1520 / (4 * 530),
    "cycles.waiting": 0,
    "memory.total": 1776,
    "memory.max_tile": 280,
    "memory.max_address": 288,
    "memory.total_including_gaps": 1776 + 12,
    "memory.tiles_over_capacity": 0,
    "memory.always_live": 320 + 64 + 1040 + 192,
    "memory.peak_not_always_live": 128,
    "memory.vertex_code": 1040,
    "memory.exchange_code": 192,
    "memory.category.constant": 320,
    "memory.category.stack": 0,
    # Two exchanges, the second three times, on two IPUs, 32 bytes each, two runs.
    "exchange.bytes": 2 * 2 * 4 * 32,
    "exchange.link_bytes": 0,
    "host.bytes_in": 2 * 2 * 64,
    "host.bytes_out": 2 * 2 * 40,
    "remote.bytes_in": 2 * 2 * 8,
    "remote.bytes_out": 2 * 2 * 24,
    "flops.total": 2 * 2 * 4 * 1000,
    "graph.vertices": 14,
    "graph.edges": 34,
    "graph.compute_sets": 2,
    "graph.variables": 4,
    "graph.steps": 7,
}


@pytest.mark.parametrize("name", BY_HAND)
def test_a_metric_matches_its_definition(small: Report, name: str) -> None:
    assert METRICS[name].compute(small) == pytest.approx(BY_HAND[name], rel=1e-12)


def test_phases_add_up_to_the_total(small: Report) -> None:
    actual = values(small)
    phases = [f"cycles.{phase}" for phase in PHASES]
    assert len(phases) == 6
    assert sum(actual[name] or 0 for name in phases) == actual["cycles.total"]


# Per run on IPU 1: compute 150 + 3·30, exchange 25 + 3·5, sync 10, copies 100 + 50; two runs.
BY_HAND_ON_IPU_1 = {
    "cycles.total": 880,
    "cycles.compute": 480,
    "cycles.exchange": 80,
    "cycles.sync": 20,
    "cycles.stream_copy": 300,
    "cycles.other": 0,
    "cycles.waiting": 0,
    "time.total": 880e-9,
}


def test_time_in_no_step_is_other(variation: Callable[[Shape], Report]) -> None:
    report = variation(Shape(idle_cycles=7))
    assert METRICS["cycles.other"].compute(report) == 14
    assert METRICS["cycles.total"].compute(report) == 970 + 14


def test_the_slowest_ipu_counts(variation: Callable[[Shape], Report]) -> None:
    # With a convolution of 150 cycles on both IPUs, IPU 1 takes longer: its exchange is 25.
    report = variation(Shape(conv_tile0_cycles=120))
    assert METRICS["cycles.total"].compute(report) == 2 * 440
    assert METRICS["cycles.exchange"].compute(report) == 2 * (25 + 3 * 5)


def test_a_report_without_runs_has_memory_but_no_cycles(
    variation: Callable[[Shape], Report],
) -> None:
    actual = values(variation(Shape(n_runs=0)))
    measured = {name for name, metric in METRICS.items() if metric.is_measured}
    unstated = {name for name in METRICS if name.startswith("memory.purpose.")}
    unstated.add("memory.stored_activations")
    assert {name for name, value in actual.items() if value is None} == measured | unstated
    assert actual["memory.total"] == BY_HAND["memory.total"]


def test_every_category_has_a_metric_and_every_metric_a_definition() -> None:
    assert {f"memory.category.{name}" for name in MEMORY_CATEGORY} <= METRICS.keys()
    for name, actual in METRICS.items():
        assert actual.name == name
        assert actual.definition[0].isupper()
        assert actual.worse in {"higher", "lower", "neither"}


def test_tiles_over_capacity(variation: Callable[[Shape], Report]) -> None:
    report = variation(Shape(bytes_per_tile=260))
    assert METRICS["memory.tiles_over_capacity"].compute(report) == 4


def test_an_unknown_metric_names_the_nearest() -> None:
    with pytest.raises(BadQuestion, match=r"'cycles\.totl'.*'cycles\.total'"):
        metric("cycles.totl")


def test_figures_of_an_ipu_are_those_computed_by_hand(small: Report) -> None:
    results = {name: by_ipu[1] for name, by_ipu in ipu_values(small).items()}
    assert {name: results[name] for name in BY_HAND_ON_IPU_1} == pytest.approx(BY_HAND_ON_IPU_1)


#: How the figures of IPUs make up the figure over all: cycles on the path are nobody's own.
COMBINED: dict[str, Callable[..., Any]] = {
    "cycles.total": max,
    "cycles.waiting": sum,
    "time.total": max,
    "memory.total": sum,
    "memory.max_tile": max,
    "memory.max_address": max,
    "memory.total_including_gaps": sum,
    "memory.tiles_over_capacity": sum,
    "memory.always_live": sum,
    "memory.vertex_code": sum,
    "memory.exchange_code": sum,
    "exchange.bytes": sum,
    "exchange.link_bytes": sum,
    "host.bytes_in": sum,
    "host.bytes_out": sum,
    "remote.bytes_in": sum,
    "remote.bytes_out": sum,
    "flops.total": sum,
    **{f"memory.category.{name}": sum for name in MEMORY_CATEGORY},
}


@pytest.mark.parametrize("bytes_per_tile", [1000, 260])
def test_ipus_make_up_the_whole(
    variation: Callable[[Shape], Report], bytes_per_tile: int, tmp_path: Path
) -> None:
    generated = generate_report(tmp_path, n_tiles=24, n_ipus=4, n_steps=200, n_variables=30)
    with analyser.open(generated) as several:
        for report in (variation(Shape(bytes_per_tile=bytes_per_tile)), several):
            full, by_ipu = values(report), ipu_values(report)
            for name, combine in COMBINED.items():
                assert combine(value or 0 for value in by_ipu[name]) == full[name], name
            for ipu in range(len(by_ipu["cycles.total"])):
                phases = sum(by_ipu[f"cycles.{phase}"][ipu] or 0 for phase in PHASES)
                assert phases == by_ipu["cycles.total"][ipu]
            assert set(by_ipu) == {name for name in full if not name.startswith("graph.")}
