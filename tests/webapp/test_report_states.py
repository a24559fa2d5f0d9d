"""States of served reports: verified in the background, once for every stamp of a file."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.analyser.small_report import Shape, write_small_report
from tests.generated_report import generate_report

from tilescope.reports import Report, ReportWriter, open_report
from tilescope.reports.discovery import FoundReport
from tilescope.webapp.home import Overviews, home_values, overview_cells
from tilescope.webapp.library import Library

_ZSTD = b"\x28\xb5\x2f\xfd"


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    library = Library([tmp_path], clock=iter(range(0, 100_000, 10)).__next__)
    yield library
    library.close()


def damage_last_chunk(file: Path) -> None:
    """Change a byte inside the last packed chunk of a report; its size stays the same."""
    data = bytearray(file.read_bytes())
    data[data.rindex(_ZSTD) + 6] ^= 255
    file.write_bytes(data)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the state did not change"
        time.sleep(0.02)


def _verifiers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "verifier"}


def _state_cell(entry: FoundReport, overviews: Overviews) -> str:
    return overview_cells(entry, overviews)[-1].text


def test_a_page_verifies_its_report_in_the_background(tmp_path: Path, library: Library) -> None:
    before = _verifiers()
    # Too large to be verified with the row of the home page.
    generate_report(tmp_path / "a", n_tiles=256, n_steps=4000, n_variables=2000, seed=1)
    (entry,) = library.found()
    damage_last_chunk(entry.path)
    assert library.states.at_a_glance(entry).label == "complete"
    with library.opened(entry.report_id) as report:
        assert report.is_complete, "opening does not wait for the verification"
    _until(lambda: not library.states.is_pending(entry))
    state = library.states.of(entry)
    assert (state.label, state.is_verified) == ("damaged", True)
    assert state.sentence.startswith("The report is damaged: ")
    assert str(tmp_path) not in state.sentence
    overviews = Overviews(library.states)
    assert _state_cell(entry, overviews).startswith("damaged")
    assert len(_verifiers() - before) == 1
    library.close()
    assert _verifiers() == before


def test_a_small_report_is_verified_with_its_row(tmp_path: Path, library: Library) -> None:
    write_small_report(tmp_path / "damaged")
    write_small_report(tmp_path / "whole")
    damage_last_chunk(tmp_path / "damaged" / "profile.pop")
    overviews = Overviews(library.states)
    cells = {entry.path.parent.name: _state_cell(entry, overviews) for entry in library.found()}
    assert cells == {"damaged": "damaged", "whole": "fits"}
    assert [entry.path.parent.name for entry in library.found()] == ["whole", "damaged"]
    rows = home_values(library, overviews)["rows"]
    assert [row["cells"][-1]["text"] for row in rows] == ["fits", "damaged"]
    assert all(overviews.is_settled(entry) for entry in library.found())


def test_a_replaced_file_is_verified_anew(tmp_path: Path, library: Library) -> None:
    file = write_small_report(tmp_path / "a")
    sound = tmp_path / "sound"
    shutil.copy(file, sound)
    damage_last_chunk(file)
    (entry,) = library.found()
    with library.opened(entry.report_id):
        pass
    _until(lambda: library.states.of(entry).label == "damaged")
    shutil.copy(sound, file)
    (entry,) = library.found()
    assert library.states.of(entry).label == "complete"
    with library.opened(entry.report_id):
        pass
    _until(lambda: library.states.of(entry).is_verified)
    assert library.states.of(entry).label == "complete"


def test_a_report_is_verified_once(
    tmp_path: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    verification = Report.verification

    def counted(report: Report) -> Iterator[None]:
        counts.append(report.path)
        return verification(report)

    write_small_report(tmp_path / "a")
    (entry,) = library.found()
    monkeypatch.setattr(Report, "verification", counted)
    for _ in range(3):
        with library.opened(entry.report_id):
            pass
        _until(lambda: library.states.of(entry).is_verified)
        library.close()
    assert len(counts) == 1


def test_menus_name_states_without_opening_files(tmp_path: Path, library: Library) -> None:
    write_small_report(tmp_path / "early", Shape(is_finished=False))
    write_small_report(tmp_path / "whole")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "profile.pop").write_text("no report")
    writer = ReportWriter.create(tmp_path / "running")
    writer.commit("created")
    try:
        glances = {
            entry.path.parent.name: library.states.at_a_glance(entry).label
            for entry in library.found()
        }
        assert glances == {
            "early": "ended early",
            "whole": "complete",
            "foreign": "damaged",
            "running": "running",
        }
        foreign = next(e for e in library.found() if e.path.parent.name == "foreign")
        assert library.states.of(foreign).label == "not a report"
        assert library.states.at_a_glance(foreign).label == "not a report"
    finally:
        writer.abandon()


def test_a_newer_run_is_said_of_the_report_beside_it(tmp_path: Path, library: Library) -> None:
    write_small_report(tmp_path / "a")
    write_small_report(tmp_path / "a", Shape(is_finished=False))
    complete, early = library.found()
    assert library.states.newer_run(complete).startswith(
        f"A newer run is in {early.path.name}. The"
    )
    assert library.states.newer_run(early) == ""
    early.path.unlink()
    assert library.states.newer_run(complete) == ""


def test_verification_pauses_between_parts(tmp_path: Path) -> None:
    with open_report(write_small_report(tmp_path)) as report:
        assert len(list(report.verification())) > 5
        assert report.is_verified
        assert list(report.verification()) == []
