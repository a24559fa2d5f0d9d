"""A page never mixes two states of a report's file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.generated_report import generate_report

from tilescope.webapp.errors import ReportChanged
from tilescope.webapp.library import Library
from tilescope.webapp.stamps import HEADER, stamps_of_request


def _replace(place: Path, spare: Path) -> None:
    """Put the report of another run in the place of one."""
    generate_report(spare, n_tiles=16, n_steps=24, n_variables=10)
    shutil.move(spare / "profile.pop", place / "profile.pop")


def test_a_page_of_an_older_file_is_refused(tmp_path: Path) -> None:
    generate_report(tmp_path / "run", n_tiles=8, n_steps=24, n_variables=10)
    library = Library([tmp_path])
    (entry,) = library.found()
    with stamps_of_request("") as read, library.opened(entry.report_id):
        known = f"{entry.report_id}={read[entry.report_id]}"
    with stamps_of_request(known), library.opened(entry.report_id) as report:
        assert report.array("memory.tile").shape[1] == 8
    _replace(tmp_path / "run", tmp_path.parent / f"{tmp_path.name}-spare")
    with (
        stamps_of_request(known) as read,
        pytest.raises(ReportChanged, match="The report file changed; reload"),
        library.opened(entry.report_id),
    ):
        pass
    assert f"{entry.report_id}={read[entry.report_id]}" != known
    with stamps_of_request(""), library.opened(entry.report_id) as report:
        assert report.array("memory.tile").shape[1] == 16
    library.close()


def test_a_report_that_is_being_written_may_grow(library: Library, ids: dict[str, str]) -> None:
    """Its page goes on: every commit of the engine changes the file."""
    with stamps_of_request(f"{ids['killed']}=0") as read, library.opened(ids["killed"]):
        assert not read


def test_every_answer_names_its_stamp(client: TestClient, ids: dict[str, str]) -> None:
    address = f"/api/trace/{ids['baseline']}/extent"
    first = client.get(address)
    assert first.headers[HEADER].startswith(ids["baseline"] + "=")
    assert client.get(address, headers={HEADER: first.headers[HEADER]}).status_code == 200
    refused = client.get(address, headers={HEADER: f"{ids['baseline']}=0"})
    assert (refused.status_code, refused.json()["code"]) == (409, "report_changed")
    assert refused.headers[HEADER] == first.headers[HEADER]
