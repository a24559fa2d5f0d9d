"""``tilescope trace``: the same figures as the analyser's, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tests.generated_report import generate_report

from tilescope import analyser
from tilescope.analyser import trace
from tilescope.analyser.summary import metrics
from tilescope.trace_lists import RegionKind

Run = Callable[..., Any]


def test_json_matches_the_analyser(tilescope: Run, reports_directory: Path) -> None:
    actual = tilescope("trace", reports_directory / "baseline", "--json", "--top", 2).json()
    with analyser.open(reports_directory / "baseline") as report:
        values = metrics.values(report)
        expected = trace.range_summary(report, top=2)
    assert actual["cycles"] == values["cycles.total"]
    assert actual["parallel_efficiency"] == pytest.approx(values["parallel.efficiency"])
    assert actual["tile_balance"] == pytest.approx(values["tile.balance"])
    assert [row["name"] for row in actual["contributors"]] == [
        row.name for row in expected.contributors
    ]
    assert actual["ipus"][0]["cycles_by_kind"] == expected.ipus[0].cycles_by_kind
    assert len(actual["runs"]) == len(set(run["run_id"] for run in actual["runs"]))


def test_a_range_cuts_and_ends_may_be_left_out(tilescope: Run, reports_directory: Path) -> None:
    position = reports_directory / "baseline"
    full = tilescope("trace", position, "--json").json()
    middle = (full["start_cycle"] + full["end_cycle"]) // 2
    left = tilescope("trace", position, "--json", "--range", f":{middle}").json()
    right = tilescope("trace", position, "--json", "--range", f"{middle}:").json()
    for kind, cycles in full["ipus"][0]["cycles_by_kind"].items():
        parts = [side["ipus"][0]["cycles_by_kind"][kind] for side in (left, right)]
        assert sum(parts) == cycles


def test_table_names_runs_proportions_and_contributors(
    tilescope: Run, reports_directory: Path
) -> None:
    finished = tilescope("trace", reports_directory / "baseline", "--top", 1)
    assert (finished.code, finished.err) == (0, "")
    assert "Tile balance" in finished.out
    assert "Top contributors" in finished.out
    assert " more" in finished.out


def test_a_report_without_a_run_says_so(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope("trace", reports_directory / "no_runs")
    assert finished.code == 0
    assert "Nothing ran" in finished.out


def test_names_cannot_move_the_cursor(tilescope: Run, reports_directory: Path) -> None:
    finished = tilescope("trace", reports_directory / "hostile")
    assert finished.code == 0
    assert "\x1b" not in finished.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--range", "9:3"), "empty"),
        (("--range", "soon"), "a range of cycles such as"),
        (("--range", "1" * 30 + ":2"), "a range of cycles such as"),
        (("--ipu", "99"), "IPU 99"),
        (("--ipu", "first"), "not a valid int"),
        (("--idle", "9999"), "does not exist in this report; its steps are"),
        (("--idle", "no such words"), "give other words, or the number"),
        (("--idle", "0", "--run", "0"), "neither a range or run nor --stretches"),
        (("--waits", "--stretches"), "--waits takes neither"),
        (("--statistics", "--waits"), "--statistics takes"),
        (("--critical-path", "--waits"), "takes --run and no other list"),
        (("--critical-path", "--run", "77"), "run 77 does not exist"),
        (("--regions", "layer", "--waits"), "and no other list"),
        (("--regions", "weather"), "'layer', 'phase', 'micro-batch'"),
        (("--regions", "micro-batch"), "is of no pipeline"),
        (("--cause", "weather"), "'exchange', 'sync', 'waiting'"),
    ],
)
def test_bad_questions_are_one_sentence(
    tilescope: Run, reports_directory: Path, arguments: tuple[str, str], said: str
) -> None:
    finished = tilescope("trace", reports_directory / "baseline", *arguments)
    assert finished.code == 2
    assert said in finished.err
    assert len(finished.err.strip().splitlines()) == 1


def test_stretches_are_the_analysers(tilescope: Run, reports_directory: Path) -> None:
    path = reports_directory / "baseline"
    actual = tilescope("trace", path, "--stretches", "--json").json()
    with analyser.open(path) as report:
        expected = trace.stretches(report)
    assert [row["name"] for row in actual["rows"]] == [row.name for row in expected.rows]
    assert actual["shares"] == [asdict(share) for share in expected.shares]
    only = tilescope("trace", path, "--cause", "sync", "--json").json()
    assert {row["cause"] for row in only["rows"]} == {"sync"}
    assert only["shares"] == actual["shares"]
    lines = tilescope("trace", path, "--stretches", "--top", 1, "--run", 0).out
    assert "Cycles go to" in lines
    assert f"{expected.rows[0].name}" in lines
    assert "--json all" in lines
    assert f"Next: tilescope trace {path} --range" in lines
    assert "Nothing ran" in tilescope("trace", reports_directory / "no_runs", "--stretches").out


def test_regions_are_the_analysers(tilescope: Run, reports_directory: Path) -> None:
    path = reports_directory / "baseline"
    assert tuple(RegionKind) == trace.REGIONS
    actual = tilescope("trace", path, "--regions", "layer", "--json").json()
    with analyser.open(path) as report:
        expected = trace.regions(report, "layer")
        run = trace.extent(report).runs[1]
        second = trace.regions(report, "layer", run.start_cycle, run.end_cycle, [0])
    assert actual["rows"] == [asdict(row) | {"ipus": list(row.ipus)} for row in expected.rows]
    assert actual["between_cycles"] == expected.between_cycles
    only = tilescope("trace", path, "--regions", "layer", "--run", 1, "--ipu", 0, "--json").json()
    assert [row["cycles"] for row in only["rows"]] == [row.cycles for row in second.rows]
    lines = tilescope("trace", path, "--regions", "layer", "--top", 1).out
    assert f"{expected.rows[0].cycles:,}" in lines
    assert f"… {len(expected.rows) - 1:,} more" in lines
    assert f"Next: tilescope trace {path} --range" in lines
    assert "Nothing ran" in tilescope(
        "trace", reports_directory / "no_runs", "--regions", "layer"
    ).out  # fmt: skip
    changed = tilescope("diff", path, reports_directory / "slower", "--by", "run").out
    assert "Run (cycles, over IPUs)" in changed


def test_waits_are_the_analysers(tilescope: Run, reports_directory: Path, tmp_path: Path) -> None:
    path = generate_report(tmp_path, n_tiles=8, n_ipus=2, n_steps=60, n_variables=5, n_runs=3)
    actual = tilescope("trace", path, "--waits", "--json").json()
    with analyser.open(path) as report:
        expected = trace.waits(report)
    assert actual["rows"] == [asdict(row) for row in expected.rows]
    assert (actual["n_waits"], actual["cycles"]) == (expected.n_waits, expected.cycles)
    longest = max(expected.rows, key=lambda row: row.cycles)
    lines = tilescope("trace", path, "--waits", "--top", 1).out
    assert longest.late_step in lines
    assert f"{longest.cycles:,}" in lines
    assert f"… {expected.n_waits - 1:,} more" in lines
    place = f"{longest.start_cycle}:{longest.end_cycle}"
    only = tilescope("trace", path, "--waits", "--range", place, "--ipu", longest.ipu_id, "--json")
    assert {row["ipu_id"] for row in only.json()["rows"]} == {longest.ipu_id}
    alone = tilescope("trace", reports_directory / "baseline", "--waits").out
    assert "0 waits for other IPUs" in alone


def test_statistics_are_the_analysers(tilescope: Run, reports_directory: Path) -> None:
    path = reports_directory / "baseline"
    answer = tilescope("trace", path, "--statistics", "--run", 0, "--json").json()
    with analyser.open(path) as report:
        run = trace.extent(report).runs[0]
        expected = trace.name_statistics(report, run.start_cycle, run.end_cycle)
    assert answer["rows"] == [asdict(row) for row in expected.rows]
    lines = tilescope("trace", path, "--statistics", "--top", 1).out
    assert f"{expected.rows[0].max_cycles:,}" in lines
    assert "--json all" in lines


def test_the_critical_path_is_the_analysers(
    tilescope: Run, reports_directory: Path, tmp_path: Path
) -> None:
    path = generate_report(tmp_path, n_tiles=8, n_ipus=2, n_steps=60, n_variables=5, n_runs=3)
    with analyser.open(path) as report:
        expected = [trace.critical_spans(report, run_id) for run_id in range(2)]
    for run_id, spans in enumerate(expected):
        answer = tilescope("trace", path, "--critical-path", "--run", run_id, "--json").json()
        assert answer["spans"] == [asdict(span) for span in spans]
    lines = tilescope("trace", path, "--critical-path", "--top", 1).out
    assert f"{sum(span.cycles for span in expected[0]):,} cycles" in lines
    nothing = tilescope("trace", reports_directory / "no_runs", "--critical-path")
    assert "Nothing ran" in nothing.out


def test_idle_tiles_are_the_analysers(tilescope: Run, reports_directory: Path) -> None:
    path = reports_directory / "baseline"
    actual = tilescope("trace", path, "--idle", "conv", "--json").json()["steps"]
    with analyser.open(path) as report:
        expected = trace.idle_tiles_of(report, "conv")
    assert [(row["step_id"], row["n_idle"]) for row in actual] == [
        (row.step_id, row.n_idle) for row in expected
    ]
    shown = tilescope("trace", path, "--idle", expected[0].step_id)
    assert expected[0].name in shown.out
    assert "Idle tiles" in shown.out
