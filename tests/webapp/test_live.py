"""A report that is still being written: its state, its answers, and the file that replaces it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from tilescope.reports import ReportWriter, schema
from tilescope.webapp.api import live
from tilescope.webapp.library import Library


@pytest.fixture
def ticking() -> list[float]:
    """Return a clock to be moved by tests."""
    return [0.0]


@pytest.fixture
def library(tmp_path: Path, ticking: list[float]) -> Iterator[Library]:
    """Return a library of the reports in a directory."""
    actual = Library([tmp_path], clock=lambda: ticking[0])
    yield actual
    actual.close()


@pytest.fixture
def client(library: Library) -> TestClient:
    """Return a client of the state alone; there is one app a process."""
    server = FastAPI()
    server.include_router(live.routes(library))
    return TestClient(server, raise_server_exceptions=False)


def test_a_run_is_followed_to_its_finished_report(
    tmp_path: Path, library: Library, client: TestClient, ticking: list[float]
) -> None:
    writer = ReportWriter.create(tmp_path)
    writer.commit("created")
    (entry,) = library.found()
    first = client.get(f"/reports/{entry.report_id}/state").json()
    assert (first["state"], first["is_running"], first["successor"]) == ("running", True, None)
    assert first["sentence"].startswith("The engine is still running; its last sign of life was at")
    with library.opened(entry.report_id) as report:
        assert report.n_rows(schema.step) == 0
    _add_step(writer)
    writer.commit("compiled")
    second = client.get(f"/reports/{entry.report_id}/state").json()
    assert second["stamp"] != first["stamp"]
    with library.opened(entry.report_id) as report:
        assert report.n_rows(schema.step) == 1
    assert client.get(f"/reports/{entry.report_id}/state").json() == second
    writer.finish()
    ticking[0] += 10
    last = client.get(f"/reports/{entry.report_id}/state").json()
    (finished,) = library.found()
    assert last["successor"] == finished.report_id
    actual = client.get(f"/reports/{finished.report_id}/state").json()
    assert (actual["is_complete"], actual["successor"]) == (True, None)


def test_an_unknown_report_has_no_state(client: TestClient) -> None:
    assert client.get("/reports/nothing/state").status_code == 500  # the app turns it into 404


def _add_step(writer: ReportWriter) -> None:
    writer.add(
        schema.step,
        [
            {
                "program_id": 0,
                "kind": "Sync",
                "name": "one",
                "compute_set_id": None,
                "is_data_dependent": False,
            }
        ],
    )
