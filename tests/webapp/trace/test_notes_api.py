"""Notes over HTTP: written beside the report, without a body, from the own origin only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tilescope.reports.notes import notes_path
from tilescope.webapp.library import Library


@pytest.fixture
def place(library: Library) -> Iterator[tuple[str, Path]]:
    """Return the id of a report with runs, and its file; notes are removed afterwards."""
    entry = next(entry for entry in library.found() if "baseline" in str(entry.path))
    yield entry.report_id, entry.path
    notes_path(entry.path).unlink(missing_ok=True)


def test_notes_are_written_listed_and_removed(client: TestClient, place: tuple[str, Path]) -> None:
    report_id, path = place
    before = path.read_bytes()
    extent = client.get(f"/api/trace/{report_id}/extent").json()
    query = {"start": extent["start_cycle"], "end": extent["end_cycle"], "text": "<b>all</b>"}
    answer = client.post(f"/api/notes/{report_id}", params=query).json()
    (note,) = answer["notes"]
    assert (note["text"], note["start_cycle"]) == ("<b>all</b>", extent["start_cycle"])
    assert client.get(f"/api/notes/{report_id}").json() == answer
    assert path.read_bytes() == before
    gone = client.delete(f"/api/notes/{report_id}/{note['note_id']}").json()
    assert (gone["notes"], gone["shared"]) == ([], "")
    shared = client.get(f"/api/notes/{report_id}", params={"shared": answer["shared"]}).json()
    assert [(one["text"], one["is_shared"]) for one in shared["notes"]] == [("<b>all</b>", True)]


def test_what_is_no_note_is_refused_in_a_sentence(
    client: TestClient, place: tuple[str, Path]
) -> None:
    report_id, path = place
    address = f"/api/notes/{report_id}"
    for answer, said in (
        (client.post(address, params={"start": 5, "end": 5, "text": "x"}), "is empty"),
        (client.post(address, params={"start": 0, "end": 9, "text": " "}), "1 to 300 characters"),
        (client.delete(f"{address}/77"), "reload the page"),
        (client.get(address, params={"shared": "x"}), "remove 'notes' from it"),
    ):
        assert answer.status_code >= 400
        assert said in answer.json()["message"]
    foreign = client.post(
        address,
        params={"start": 0, "end": 9, "text": "x"},
        headers={"Origin": "http://elsewhere.example"},
    )
    assert foreign.status_code == 403
    assert not notes_path(path).exists()
