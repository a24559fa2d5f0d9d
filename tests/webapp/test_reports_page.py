"""The Reports page: a line for every report that is served."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.generated_report import generate_report
from tests.webapp.test_callbacks import Browser

from tilescope.analyser.metrics import METRICS
from tilescope.analyser.overview import ReportOverview, report_overview
from tilescope.analyser.quantities import format_bytes
from tilescope.analyser.tile_memory import fullest_tile
from tilescope.reports import ReportWriter, open_report
from tilescope.webapp.library import Library
from tilescope.webapp.pages.reports import Overviews


@pytest.fixture(scope="module")
def browser(client: TestClient) -> Browser:
    return Browser(client)


def test_every_report_has_a_line_with_its_figures(
    browser: Browser, ids: dict[str, str], library: Library
) -> None:
    text = json.dumps(browser.ask("reports")["reports-body.children"], ensure_ascii=False)
    for name, report_id in ids.items():
        assert f"/summary?report={report_id}" in text, name
    for name in ("baseline", "candidate", "pair"):
        with library.opened(ids[name]) as report:
            cycles = METRICS["cycles.total"].compute(report)
            fullest = fullest_tile(report)
        assert f'"{cycles:,}"' in text
        assert format_bytes(fullest.bytes) in text
        assert f"report={ids[name]}&tiles={fullest.tile_id}" in text
    assert text.count("report-tick") == 3, "an empty report cannot be compared"
    assert "gc200 × 2" in text
    assert "4 reports" in text


def test_a_filter_finds_names_and_machines(browser: Browser, ids: dict[str, str]) -> None:
    text = json.dumps(browser.ask("reports", find="PAIR")["reports-body.children"])
    assert ids["pair"] in text
    assert ids["baseline"] not in text
    assert "1 of 4 reports" in text
    none = json.dumps(browser.ask("reports", find="nowhere")["reports-body.children"])
    assert "clear the filter" in none


def test_lines_follow_the_files(tmp_path: Path) -> None:
    generate_report(tmp_path / "a", n_tiles=8, n_steps=24, n_variables=5, seed=1)
    overviews, library = Overviews(), Library([tmp_path], clock=iter(range(0, 1000, 10)).__next__)
    (entry,) = library.found()
    first = overviews.of(entry)
    assert isinstance(first, ReportOverview)
    with open_report(entry.path) as report:
        assert first == report_overview(report)
    assert overviews.of(entry) is first
    generate_report(tmp_path / "b", n_tiles=8, n_steps=40, n_variables=5, seed=2)
    shutil.move(tmp_path / "b" / entry.path.name, entry.path)
    (again,) = library.found()
    second = overviews.of(again)
    assert isinstance(second, ReportOverview)
    assert second.cycles != first.cycles
    entry.path.write_bytes(entry.path.read_bytes()[:5000])
    line = overviews.of(library.found()[0])
    assert line in {"damaged", "cannot be read"}
    assert str(tmp_path) not in str(line)


def test_what_a_killed_run_left_is_named(tmp_path: Path) -> None:
    (tmp_path / "killed").mkdir()
    ReportWriter.create(tmp_path / "killed").abandon()
    (entry,) = Library([tmp_path]).found()
    assert Overviews().of(entry) == "cannot be read"


def test_an_overview_of_a_report_without_runs_has_no_cycles(tmp_path: Path) -> None:
    generate_report(tmp_path / "a", n_tiles=8, n_steps=24, n_variables=5, n_runs=0, seed=1)
    with open_report(tmp_path / "a") as report:
        line = report_overview(report)
    assert (line.machine, line.n_ipus, line.n_runs, line.cycles) == ("gc200", 1, 0, None)
    assert line.n_tiles_over == 0
