"""Figures of a range, slices, search and steps, against sums computed on paper."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tilescope import engine
from tilescope.analyser import trace
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.summary import metrics
from tilescope.engine.program import Copy, Sequence, StreamCopyOut
from tilescope.reports import Report

from .conftest import executions, loop, sequence

Make = Callable[..., Report]


def test_extent_names_runs_and_tracks(make: Make) -> None:
    report = make([(0, 0, 0, sequence(10)), (1, 0, 0, sequence(200))])
    extent = trace.extent(report)
    assert (extent.start_cycle, extent.end_cycle, extent.n_entries) == (10, 299, 12)
    assert [run.name for run in extent.runs] == ["Engine::run #0", "Engine::run #1"]


def test_a_report_without_a_run_is_empty_not_an_error(make: Make) -> None:
    report = make([])
    assert trace.extent(report).runs == []
    assert trace.window(report, 0, 10, 100).lanes == []
    summary = trace.range_summary(report)
    assert (summary.cycles, summary.parallel_efficiency, summary.contributors) == (0, None, [])


def test_range_summary_of_a_whole_run(make: Make) -> None:
    summary = trace.range_summary(make([(0, 0, 0, sequence(10))]))
    (ipu,) = summary.ipus
    assert summary.cycles == ipu.cycles == 99
    assert ipu.cycles_by_kind["compute"] == 65
    assert ipu.cycles_by_kind["exchange"] == 10
    assert ipu.cycles_by_kind["sync"] == 5
    assert ipu.cycles_by_kind["external_sync"] == 7
    assert ipu.cycles_by_kind["stream_copy"] == 12
    assert ipu.cycles_by_kind["idle"] == 0
    assert (ipu.host_in_bytes, ipu.host_out_bytes, ipu.exchange_bytes) == (300, 96, 80)
    assert (ipu.remote_in_bytes, ipu.remote_out_bytes) == (20, 12)
    assert ipu.tile_balance == pytest.approx((40 + 20 + 25 + 12) / (65 * 4))
    assert ipu.parallel_efficiency == pytest.approx((40 + 20 + 25 + 12 + 20) / (99 * 4))


def test_the_whole_range_agrees_with_the_metrics(make: Make) -> None:
    tracks = [(0, 0, 0, sequence(0)), (0, 1, 0, sequence(0, (0, 1))), (1, 0, 0, sequence(200))]
    report = make(tracks, 2)
    summary, values = trace.range_summary(report), metrics.values(report)
    assert summary.cycles == values["cycles.total"]
    assert summary.parallel_efficiency == pytest.approx(values["parallel.efficiency"])
    assert summary.tile_balance == pytest.approx(values["tile.balance"])
    traffic = ("exchange.bytes", "host.bytes_in", "host.bytes_out", "exchange.link_bytes")
    names = ("exchange_bytes", "host_in_bytes", "host_out_bytes", "global_out_bytes")
    for metric, name in zip(traffic, names, strict=True):
        assert sum(getattr(ipu, name) for ipu in summary.ipus) == values[metric]
    assert values["exchange.bytes"] == 3 * 80


def test_what_goes_between_tiles_counts_whatever_links_it_crosses(tmp_path: Path) -> None:
    """Elements exchanged within an IPU and between IPUs, and a copy to the host."""
    graph = engine.Graph(engine.load_machine("gc200", n_ipus=2, tiles_per_ipu=4))
    x, y = (graph.add_variable("float32", (8,), name) for name in "xy")
    graph.map_linearly(x)
    graph.map_linearly(y, first=1)  # every element goes to the next tile
    program = Sequence("main", [Copy(x, y), StreamCopyOut(y, "y")])
    requested = json.dumps({"autoReport.all": "true", "autoReport.directory": str(tmp_path)})
    options = engine.resolve_options(environ={"POPLAR_ENGINE_OPTIONS": requested})
    with engine.Engine(engine.compile_programs(graph, [program]), options) as device:
        device.run()
        report = device.get_report()
    summary, values = trace.range_summary(report), metrics.values(report)
    assert values["exchange.bytes"] == 8 * 4
    assert sum(ipu.exchange_bytes for ipu in summary.ipus) == 8 * 4
    assert values["exchange.link_bytes"] == 2 * 4
    report.close()


def test_a_cut_step_counts_by_its_part(make: Make) -> None:
    report = make([(0, 0, 0, sequence(0))])
    left, right = trace.range_summary(report, 0, 45), trace.range_summary(report, 45, 99)
    assert left.ipus[0].cycles_by_kind["exchange"] == 5
    assert left.ipus[0].exchange_bytes + right.ipus[0].exchange_bytes == 80
    assert left.cycles + right.cycles == 99
    inside = trace.range_summary(report, 2, 3)
    assert inside.ipus[0].cycles_by_kind["compute"] == 1


@pytest.mark.parametrize("count", [3, 50_000_000])
def test_ranges_cut_loops_where_iterations_are(make: Make, count: int) -> None:
    report = make([(0, 0, 0, loop(0, count, (0, 1)))])
    cut = (count // 2) * 50 + 45
    low, high = trace.range_summary(report, 0, cut), trace.range_summary(report, cut, count * 50)
    assert low.ipus[0].cycles_by_kind["exchange"] == (count // 2) * 10 + 5
    assert low.cycles + high.cycles == count * 50
    total = low.ipus[0].cycles_by_kind["compute"] + high.ipus[0].cycles_by_kind["compute"]
    assert total == count * 40


def test_contributors_are_by_name_and_kind_most_cycles_first(make: Make) -> None:
    report = make([(0, 0, 0, sequence(0)), (1, 0, 0, sequence(200, (3, 3, 3)))])
    top = trace.range_summary(report, top=2).contributors
    assert [(row.name, row.kind, row.count, row.cycles) for row in top] == [
        ("net/fc/matmul", "compute", 4, 100),
        ("net/conv1/convolve", "compute", 1, 40),
    ]
    every = trace.range_summary(report).contributors
    assert sum(row.share for row in every) == pytest.approx(1)


def test_slice_at_names_group_step_run_and_nothing(make: Make) -> None:
    report = make([(0, 0, 0, sequence(0))])
    group = trace.slice_at(report, 0, 0, 1, 45)
    assert group is not None
    assert (group.name, group.start_cycle, group.end_cycle, group.n_steps, group.step_id) == (
        "net/conv1",
        0,
        50,
        2,
        None,
    )
    step = trace.slice_at(report, 0, 0, 2, 45)
    assert step is not None
    assert (step.step_id, step.kind, step.run_name) == (1, "exchange", "Engine::run #0")
    assert trace.slice_at(report, 0, 0, 2, 52) is None
    run = trace.slice_at(report, 0, 0, -1, 52)
    assert run is not None
    assert run.name == "Engine::run #0"
    with pytest.raises(BadQuestion, match="level 9"):
        trace.slice_at(report, 0, 0, 9, 52)


def test_search_counts_all_and_lists_the_first(make: Make) -> None:
    report = make([(0, 0, 0, sequence(0)), (1, 0, 0, sequence(200))])
    actual = trace.search(report, "CONV1", limit=3)
    assert (actual.n_names, actual.n_occurrences) == (2, 6)
    assert [(match.name, match.count, match.cycles) for match in actual.names] == [
        ("net/conv1/convolve", 4, 100),
        ("net/conv1", 2, 10),
    ]
    assert [occurrence.start_cycle for occurrence in actual.occurrences] == [0, 40, 50]
    assert trace.search(report, "nothing").n_occurrences == 0
    with pytest.raises(BadQuestion, match="empty"):
        trace.search(report, " ")


@pytest.mark.parametrize("count", [3, 6_000])
def test_matches_are_numbered_in_order_of_time(make: Make, count: int) -> None:
    empty_step = (3, 99, 99, 0, 1)  # takes no cycle and begins where the next one begins
    entries = [*sequence(0), empty_step, *loop(99, count, (0, 3, 1)), *loop(10**6, 2, (4, 0))]
    report = make([(0, 0, 0, entries), (0, 1, 0, sequence(0))], 2)
    expected = {0, 1, 3}
    every = sorted(
        (start, ipu, step)
        for ipu, rows in enumerate((entries, sequence(0)))
        for start, _, step in executions(rows)
        if step in expected
    )
    n = len(every)
    for number in {1, 2, 3, 7, 8, 9, n // 2, n - 2, n - 1, n}:
        match = trace.match(report, "/", number=number, hidden=["sync"])
        assert match.n_matches == n
        assert match.number == number
        assert match.occurrence is not None
        item = match.occurrence
        assert (item.start_cycle, item.ipu_id) == every[number - 1][:2]
    ties = [trace.match(report, "/", number=k, hidden=["sync"]).occurrence for k in range(1, 12)]
    assert sorted((o.start_cycle, o.ipu_id, o.step_id) for o in ties if o) == every[:11]


def test_the_nearest_match_goes_round_at_the_ends(make: Make) -> None:
    report = make([(0, 0, 0, sequence(0)), (1, 0, 0, loop(200, 3000, (0, 1)))])
    last = 200 + 2999 * 50 + 40

    def near(cycle: int, direction: str) -> tuple[int, int]:
        match = trace.match(report, "convolve", cycle=cycle, direction=direction)
        assert match.n_matches == 6002
        assert match.occurrence is not None
        return match.occurrence.start_cycle, match.number

    assert [near(offset, "next") for offset in (-1, 0, 40, 199)] == [
        (0, 1),
        (40, 2),
        (200, 3),
        (200, 3),
    ]
    assert near(200, "previous") == (40, 2)
    assert near(10**9, "previous") == (last, 6002)
    assert near(last, "next") == (0, 1)
    assert near(0, "previous") == (last, 6002)
    nothing = trace.match(report, "nothing")
    assert (nothing.occurrence, nothing.number, nothing.n_matches) == (None, 0, 0)


def test_matches_of_an_ipu_and_of_shown_kinds_only(make: Make) -> None:
    report = make([(0, 0, 0, sequence(0)), (0, 1, 0, sequence(3))], 2)
    match = trace.match(report, "convolve", number=1, ipus=[1], hidden=["compute"])
    assert match.n_matches == 1
    assert match.occurrence is not None
    assert (match.occurrence.ipu_id, match.occurrence.step_id) == (1, 1)
    assert trace.search(report, "convolve", hidden=["exchange"]).n_occurrences == 2
    for question, words in (
        ({"number": 5}, "match 5 does not exist; there are 4"),
        ({"hidden": ["noise"]}, "unknown kind 'noise'"),
        ({"direction": "up"}, "unknown direction"),
    ):
        with pytest.raises(BadQuestion, match=words):
            trace.match(report, "convolve", **question)


def test_the_first_execution_of_a_step_is_in_any_run(make: Make) -> None:
    report = make([(0, 0, 0, sequence(0, (2,))), (1, 0, 0, loop(200, 3000, (0, 1)))])
    results = [trace.first_execution(report, step) for step in range(6)]
    assert [item and (item.step_id, item.start_cycle) for item in results] == [
        (0, 200), (1, 240), (2, 0), None, None, None,
    ]  # fmt: skip
    with pytest.raises(BadQuestion, match="steps are 0 to 5"):
        trace.first_execution(report, 6)


def test_step_details_give_costs_histogram_and_vertices(make: Make) -> None:
    details = trace.step_details(make([(0, 0, 0, sequence(0))]), 0)
    (cost,) = details.costs
    assert (details.kind, details.compute_set, cost.n_active_tiles) == ("compute", "convolve", 2)
    assert cost.tile_balance == pytest.approx(60 / 160)
    assert cost.histogram.n_idle_tiles == 2
    assert cost.histogram.n_tiles.sum() == 2
    assert (cost.histogram.edges_cycles[0], cost.histogram.edges_cycles[-1]) == (20, 40)
    assert details.vertices[0].name == "ConvPartial<float>"
    with pytest.raises(BadQuestion, match="0 to 5"):
        trace.step_details(make([(0, 0, 0, sequence(0))]), 77)
