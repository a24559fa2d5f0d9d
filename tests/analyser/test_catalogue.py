"""The catalogue of reports: what it keeps, when it no longer holds, and what happens without it."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.generated_report import generate_report

from tilescope.analyser.catalogue.catalogue import Catalogue, CataloguedReport
from tilescope.analyser.catalogue.listing import ListedReport, list_reports
from tilescope.analyser.summary.overview import report_overview
from tilescope.reports import ReportWriter, State, find_reports, open_report
from tilescope.reports.stamp import file_stamp

ROOT = Path(__file__).parents[2]


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    return Catalogue(tmp_path / "catalogue")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A complete report, a damaged one, one of a killed engine, and a file that is none."""
    root = tmp_path / "reports"
    generate_report(root / "whole", n_tiles=8, n_steps=24, n_variables=5, seed=1)
    shutil.copytree(root / "whole", root / "cut")
    os.truncate(root / "cut/profile.pop", 5000)
    (root / "killed").mkdir()
    writer = ReportWriter.create(root / "killed")
    writer.commit("created")
    writer.abandon()
    (root / "text").mkdir()
    (root / "text/profile.pop").write_text("not a report", encoding="ascii")
    return root


def _listed(folder: Path, catalogue: Catalogue) -> dict[str, ListedReport]:
    reports = list_reports(find_reports([folder]), catalogue)
    return {report.file.path.parent.name: report for report in reports}


def _opened(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return a list of the files that are opened from now on."""
    opened: list[Path] = []

    def note(path: Path, name: str | None = None) -> object:
        opened.append(path)
        return open_report(path, name=name)

    monkeypatch.setattr("tilescope.analyser.catalogue.listing.open_report", note)
    return opened


def test_files_are_opened_once(
    folder: Path, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _listed(folder, catalogue)
    with open_report(folder / "whole") as report:
        assert first["whole"].overview == report_overview(report)
    states = {name: report.state for name, report in first.items()}
    assert states == {
        "whole": "complete", "cut": "damaged", "killed": "ended early", "text": "not a report",
    }  # fmt: skip
    opened = _opened(monkeypatch)
    assert _listed(folder, Catalogue(catalogue.file.parent)) == first
    assert opened == []


def test_a_file_that_changed_is_opened_again(
    folder: Path, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = _listed(folder, catalogue)["whole"]
    generate_report(tmp_path / "other", n_tiles=8, n_steps=40, n_variables=5, seed=2)
    os.replace(tmp_path / "other/profile.pop", folder / "whole/profile.pop")
    opened = _opened(monkeypatch)
    after = _listed(folder, catalogue)["whole"]
    assert opened == [folder / "whole/profile.pop"]
    assert after.overview is not None
    assert before.overview is not None
    assert after.overview.cycles != before.overview.cycles
    assert _listed(folder, catalogue)["whole"] == after


def test_a_running_engine_is_never_remembered(tmp_path: Path, catalogue: Catalogue) -> None:
    with ReportWriter.create(tmp_path / "reports") as writer:
        writer.commit("created")
        (report,) = list_reports(find_reports([tmp_path / "reports"]), catalogue)
        assert report.state == State.RUNNING
        assert catalogue.paths() == []


def test_a_file_that_is_gone_is_left_out(folder: Path, catalogue: Catalogue) -> None:
    files = find_reports([folder])
    shutil.rmtree(folder / "whole")
    names = {report.file.path.parent.name for report in list_reports(files, catalogue)}
    assert names == {"cut", "killed", "text"}


def test_paths_are_those_of_the_system(tmp_path: Path, catalogue: Catalogue) -> None:
    name = "gr\xfcn ' \" % \u202e"
    generate_report(tmp_path / name, n_tiles=8, n_steps=24, n_variables=5, seed=1)
    files = find_reports([tmp_path / name])
    list_reports(files, catalogue)
    assert catalogue.paths() == [files[0].path]
    assert set(catalogue.known({files[0].path: file_stamp(files[0].path)})) == {files[0].path}
    catalogue.forget(catalogue.paths())
    assert catalogue.paths() == []


def _entries(n: int) -> Sequence[CataloguedReport]:
    return [CataloguedReport(Path(f"/r/{i:05}"), (i, i, i), "damaged", None) for i in range(n)]


def test_thousands_are_kept_in_one_transaction(catalogue: Catalogue) -> None:
    entries = _entries(2_500)
    catalogue.record(entries)
    assert catalogue.known({entry.path: entry.stamp for entry in entries}) == {
        entry.path: entry for entry in entries
    }
    catalogue.record(entries[:3])  # again: replaced, not doubled
    assert len(catalogue.paths()) == 2_500


def test_a_damaged_database_is_made_anew(
    folder: Path, catalogue: Catalogue, caplog: pytest.LogCaptureFixture
) -> None:
    first = _listed(folder, catalogue)
    catalogue.close()
    catalogue.file.write_bytes(b"no database" * 1000)
    with caplog.at_level(logging.WARNING):
        assert _listed(folder, catalogue) == first
    assert "was damaged; it is made anew" in caplog.text
    assert _listed(folder, Catalogue(catalogue.file.parent)) == first
    assert len(catalogue.paths()) == len(first)


def test_a_folder_that_others_may_write_is_not_used(
    folder: Path, catalogue: Catalogue, caplog: pytest.LogCaptureFixture
) -> None:
    catalogue.file.parent.mkdir(mode=0o777)
    catalogue.file.parent.chmod(0o777)
    with caplog.at_level(logging.WARNING):
        assert len(_listed(folder, catalogue)) == 4
    assert "continuing without the catalogue of reports" in caplog.text
    assert not catalogue.file.exists()


def test_a_place_that_cannot_be_written_costs_one_warning(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("", encoding="ascii")
    catalogue = Catalogue(tmp_path / "file" / "catalogue")
    with caplog.at_level(logging.WARNING):
        assert len(_listed(folder, catalogue)) == 4
        assert len(_listed(folder, catalogue)) == 4
    assert caplog.text.count("continuing without the catalogue of reports") == 1
    assert "TILESCOPE_CATALOGUE_DIR" in caplog.text


def test_a_table_that_another_process_makes_meanwhile_is_used(
    catalogue: Catalogue, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = Catalogue(catalogue.file.parent), Catalogue(catalogue.file.parent)
    threads = [threading.Thread(target=c.record, args=[_entries(3)]) for c in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert caplog.text == ""
    assert len(catalogue.paths()) == 3


def test_processes_write_at_once(catalogue: Catalogue) -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tilescope.analyser.catalogue.catalogue import Catalogue, CataloguedReport\n"
        "catalogue = Catalogue(Path(sys.argv[1]))\n"
        "for i in range(40):\n"
        "    path = Path(f'/r/{sys.argv[2]}-{i}')\n"
        "    catalogue.record([CataloguedReport(path, (i, i, i), 'damaged', None)])\n"
    )
    arguments = [sys.executable, "-c", program, str(catalogue.file.parent)]
    writers = [
        subprocess.Popen([*arguments, str(number)], cwd=ROOT, stderr=subprocess.PIPE)
        for number in range(3)
    ]
    errors = [writer.communicate(timeout=120)[1] for writer in writers]
    assert errors == [b"", b"", b""]
    assert len(catalogue.paths()) == 120
