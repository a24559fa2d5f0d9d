"""The home page: a line for every report that is served, from the server."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from starlette.testclient import TestClient
from tests.generated_report import generate_report

from tilescope.analyser.catalogue.catalogue import Catalogue
from tilescope.analyser.memory.tile_memory import fullest_tile
from tilescope.analyser.quantities import format_bytes
from tilescope.analyser.summary.metrics import METRICS
from tilescope.analyser.summary.overview import ReportOverview, report_overview
from tilescope.reports import ReportWriter, open_report
from tilescope.reports.stamp import file_stamp
from tilescope.webapp.api.reports import listing
from tilescope.webapp.frame import Frame
from tilescope.webapp.home import MOST_REPORTS, Overviews, home_values, overview_cells
from tilescope.webapp.library import Library
from tilescope.webapp.serve import DEMO


def test_every_report_has_a_line_and_no_script_of_dash(
    client: TestClient, ids: dict[str, str]
) -> None:
    text = client.get("/").text
    for name, report_id in ids.items():
        assert f'href="/summary?report={report_id}"' in text, name
    assert "_dash-component-suites" not in text
    assert text.count('type="checkbox"') == len(ids)


def test_the_figures_of_reports_come_after_the_list(
    client: TestClient, ids: dict[str, str], library: Library
) -> None:
    expected = [ids[name] for name in ("baseline", "pair", "killed")]
    answer = client.get("/api/reports/overviews", params={"id": [*expected, "unknown"]}).json()
    assert set(answer["overviews"]) == set(expected)
    with library.opened(ids["baseline"]) as report:
        cycles = METRICS["cycles.total"].compute(report)
        fullest = fullest_tile(report)
    cells = {cell["name"]: cell for cell in answer["overviews"][ids["baseline"]]}
    assert cells["cycles"]["text"] == f"{cycles:,}"
    assert cells["holds"]["text"] == format_bytes(fullest.bytes)
    assert f"tiles={fullest.tile_id}&select=tile:{fullest.tile_id}" in cells["tile"]["href"]
    pair = {cell["name"]: cell["text"] for cell in answer["overviews"][ids["pair"]]}
    assert pair["machine"] == "gc200 × 2"
    killed = {cell["name"]: cell for cell in answer["overviews"][ids["killed"]]}
    assert killed["state"]["text"] == "ended early"
    assert not killed["cycles"]["href"]


def test_too_many_reports_at_once_are_refused(client: TestClient) -> None:
    answer = client.get("/api/reports/overviews", params={"id": ["x"] * 21})
    assert answer.status_code == 422


def test_links_of_earlier_versions_lead_on(client: TestClient, ids: dict[str, str]) -> None:
    answer = client.get("/", params={"report": ids["baseline"], "with": ids["candidate"]})
    assert answer.headers["location"].startswith(f"/summary?report={ids['baseline']}&with=")
    assert client.get("/reports").headers["location"] == "/"


def test_lines_follow_the_files(tmp_path: Path) -> None:
    generate_report(tmp_path / "a", n_tiles=8, n_steps=24, n_variables=5, seed=1)
    library = Library([tmp_path], clock=iter(range(0, 1000, 10)).__next__)
    overviews = Overviews(library.states)
    (entry,) = library.found()
    assert overviews.known(entry) is None
    first = overviews.of(entry)
    assert isinstance(first, ReportOverview)
    with open_report(entry.path) as report:
        assert first == report_overview(report)
    assert overviews.known(entry) is first
    generate_report(tmp_path / "b", n_tiles=8, n_steps=40, n_variables=5, seed=2)
    shutil.move(tmp_path / "b" / entry.path.name, entry.path)
    (again,) = library.found()
    second = overviews.of(again)
    assert isinstance(second, ReportOverview)
    assert second.cycles != first.cycles
    entry.path.write_bytes(entry.path.read_bytes()[:5000])
    cut = library.found()[0]
    assert overviews.of(cut) is None
    assert [cell.text for cell in overview_cells(cut, overviews)][-1] == "damaged"
    assert str(tmp_path) not in library.states.of(cut).sentence


def test_what_a_killed_run_left_is_named(tmp_path: Path) -> None:
    (tmp_path / "killed").mkdir()
    writer = ReportWriter.create(tmp_path / "killed")
    writer.commit("created")
    writer.abandon()
    library = Library([tmp_path])
    (entry,) = library.found()
    cells = overview_cells(entry, Overviews(library.states))
    assert [cell.text for cell in cells][-1] == "ended early"


def test_an_overview_of_a_report_without_runs_has_no_cycles(tmp_path: Path) -> None:
    generate_report(tmp_path / "a", n_tiles=8, n_steps=24, n_variables=5, n_runs=0, seed=1)
    with open_report(tmp_path / "a") as report:
        line = report_overview(report)
    assert (line.machine, line.n_ipus, line.n_runs, line.cycles) == ("gc200", 1, 0, None)
    assert line.n_tiles_over == 0
    library = Library([tmp_path])
    cells = {
        cell.name: cell for cell in overview_cells(library.found()[0], Overviews(library.states))
    }
    assert cells["cycles"].text == "–"
    assert cells["state"].text == "fits"


def test_names_of_files_are_text(tmp_path: Path) -> None:
    hostile = tmp_path / '"><img src=x onerror=alert(1)>'
    generate_report(hostile, n_tiles=8, n_steps=24, n_variables=5, seed=1)
    library = Library([tmp_path])
    text = Frame(library, []).home(**home_values(library, Overviews(library.states)))
    assert "<img" not in text
    assert "&lt;img" in text


def test_names_of_files_are_shown_without_marks_that_disguise_them(tmp_path: Path) -> None:
    generate_report(tmp_path / "a\u202egnp.exe", n_tiles=8, n_steps=24, n_variables=5, seed=1)
    library = Library([tmp_path])
    text = Frame(library, []).home(**home_values(library, Overviews(library.states)))
    assert "\u202e" not in text
    assert "\\u202e" not in text
    assert text.count("a�gnp.exe") + text.count("a\\ufffdgnp.exe") >= 2


def test_no_report_says_what_to_do(tmp_path: Path) -> None:
    library = Library([tmp_path])
    text = Frame(library, []).home(**home_values(library, Overviews(library.states)))
    assert "tilescope run MODEL.onnx" in text


def test_the_demo_report_opens_and_is_not_in_the_list(tmp_path: Path) -> None:
    library = Library([tmp_path], demo=DEMO)
    assert library.found() == []
    demo = library.demo()
    assert demo is not None
    assert demo.label == "demo"
    with library.opened(demo.report_id) as report:
        assert report_overview(report).model == "mnist-8"
    library.close()
    assert demo.report_id in Frame(library, []).home(
        **home_values(library, Overviews(library.states))
    )


def _many(root: Path, n: int) -> None:
    """Make many reports that share one file."""
    file = generate_report(root / "number-000", n_tiles=8, n_steps=24, n_variables=5, seed=1)
    for number in range(1, n):
        folder = root / f"number-{number:03}"
        folder.mkdir()
        os.link(file, folder / file.name)


def test_facts_of_another_process_are_in_the_first_page(tmp_path: Path) -> None:
    _many(tmp_path / "reports", 3)
    catalogue = Catalogue(tmp_path / "catalogue")
    first = Overviews(Library([tmp_path / "reports"]).states, catalogue)
    library = Library([tmp_path / "reports"])
    values = home_values(library, first)
    assert all(row["is_pending"] for row in values["rows"])
    cells = {entry.report_id: overview_cells(entry, first) for entry in library.found()}
    first.keep()

    library = Library([tmp_path / "reports"])
    second = Overviews(library.states, Catalogue(tmp_path / "catalogue"))
    values = home_values(library, second)
    for row in values["rows"]:
        assert not row["is_pending"]
        texts = {cell["name"]: cell["text"] for cell in row["cells"]}
        assert all(texts[cell.name] == cell.text for cell in cells[row["id"]])
    for entry in library.found():
        assert overview_cells(entry, second) == cells[entry.report_id]
        assert not library.states.is_pending(entry)  # nothing was opened


def test_damage_that_the_background_finds_is_kept(tmp_path: Path) -> None:
    _many(tmp_path / "reports", 1)
    library = Library([tmp_path / "reports"])
    (entry,) = library.found()
    overviews = Overviews(library.states, Catalogue(tmp_path / "catalogue"))
    overviews.of(entry)
    overviews.keep()
    assert library.states.on_damage is not None
    library.states.on_damage(entry.report_id, entry.path, file_stamp(entry.path))

    library = Library([tmp_path / "reports"])
    later = Overviews(library.states, Catalogue(tmp_path / "catalogue"))
    home_values(library, later)
    assert library.states.at_a_glance(entry).label == "damaged"
    assert later.known(entry) == overviews.known(entry)
    assert library.states.of(entry).label == "complete"  # what opening it says counts more


def test_a_long_list_is_cut_and_searched_on_the_server(tmp_path: Path) -> None:
    _many(tmp_path, MOST_REPORTS + 30)
    library = Library([tmp_path])
    overviews = Overviews(library.states)
    values = home_values(library, overviews)
    assert len(values["rows"]) == MOST_REPORTS
    assert values["is_cut"]
    assert values["note"] == "The first 200 of 230 reports"
    # The folder of the test may be numbered, too.
    values = home_values(library, overviews, "r-200 number-2")
    assert [row["label"].rpartition("/")[2] for row in values["rows"]] == ["number-200"]
    assert values["note"] == "1 of 230 reports"
    assert home_values(library, overviews, "number-3")["note"].startswith("No report matches")
    listed = listing(library)
    assert len(listed) == MOST_REPORTS
    missing = ({entry.report_id for entry in library.found()} - {row["id"] for row in listed}).pop()
    assert listing(library, [missing, "unknown"])[-1]["id"] == missing
    (only,) = listing(library, find="number-229")
    assert only["label"].endswith("number-229")
