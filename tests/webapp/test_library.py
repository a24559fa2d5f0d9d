"""Discovery, lending and closing of reports."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.generated_report import generate_report

from tilescope.reports.errors import ReportError
from tilescope.webapp.errors import UnknownReport
from tilescope.webapp.library import Library


@pytest.fixture
def places(tmp_path: Path) -> Path:
    for seed in range(3):
        generate_report(tmp_path / f"run{seed}", n_tiles=8, n_steps=24, n_variables=10, seed=seed)
    return tmp_path


def _id(library: Library, name: str) -> str:
    return next(entry.report_id for entry in library.found() if entry.path.parent.name == name)


def test_a_report_stays_open_while_it_is_lent_even_when_others_push_it_out(places: Path) -> None:
    library = Library([places], capacity=1)
    with library.opened(_id(library, "run0")) as first:
        with library.opened(_id(library, "run1")), library.opened(_id(library, "run2")):
            assert len(first.milestones) > 0
        assert first.array("memory.tile").read().size
    library.close()


def test_the_same_report_is_opened_once(places: Path) -> None:
    library = Library([places])
    with library.opened(_id(library, "run0")) as item, library.opened(_id(library, "run0")) as two:
        assert item is two
    library.close()


def test_a_replaced_file_is_noticed(places: Path) -> None:
    library = Library([places])
    report_id = _id(library, "run0")
    with library.opened(report_id) as before:
        n_before = before.array("memory.tile").shape[1]
    generate_report(places / "spare", n_tiles=16, n_steps=24, n_variables=10)
    shutil.move(places / "spare" / "profile.pop", places / "run0" / "profile.pop")
    with library.opened(report_id) as after:
        assert (n_before, after.array("memory.tile").shape[1]) == (8, 16)
    library.close()


def test_a_new_report_is_found_and_a_removed_one_forgotten(places: Path) -> None:
    now = [0.0]
    library = Library([places], clock=lambda: now[0])
    assert len(library.found()) == 3
    generate_report(places / "later", n_tiles=8, n_steps=24, n_variables=10)
    assert len(library.found()) == 3
    now[0] += 10
    assert len(library.found()) == 4
    report_id = _id(library, "later")
    shutil.rmtree(places / "later")
    now[0] += 10
    with pytest.raises(UnknownReport), library.opened(report_id):
        pass
    library.close()


@pytest.mark.parametrize("kept", [0, 10, 5000])
def test_a_damaged_report_is_last_and_errors_do_not_tell_its_path(places: Path, kept: int) -> None:
    newest = places / "newest" / "profile.pop"
    newest.parent.mkdir()
    newest.write_bytes((places / "run0" / "profile.pop").read_bytes()[:kept])
    library = Library([places])
    *rest, last = library.found()
    assert [entry.is_damaged_guess for entry in rest] == [False] * 3
    assert (last.path.parent.name, last.is_damaged_guess) == ("newest", True)
    with pytest.raises(ReportError) as caught, library.opened(last.report_id):
        pass
    assert last.label in str(caught.value)
    assert str(places) not in str(caught.value)
    library.close()


def test_a_query_runs_on_both_reports_of_a_view(places: Path) -> None:
    library = Library([places])
    first, second = _id(library, "run0"), _id(library, "run1")
    names = library.ask({"report": first, "with": second}, lambda report: report.path.parent.name)
    assert names == ("run0", "run1")
    assert library.ask({"report": first, "with": ""}, lambda report: report.path.parent.name) == (
        "run0",
        None,
    )
    with pytest.raises(UnknownReport):
        library.ask({"report": first, "with": "0123456789ab"}, lambda report: report.path)
    library.close()
