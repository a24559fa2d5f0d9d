"""Hostile requests to a real server of sound and damaged reports, which never fails."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.faults.request_samples import Request, samples
from tests.faults.requests import damaged_reports, report_ids, send_hostile
from tests.faults.server import Server, running_server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile") / "reports"


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    damaged_reports(folder)
    with running_server(folder, folder.parent / "log") as server:
        yield server


@pytest.mark.slow
def test_no_answer_about_any_report_tells_where_it_is(server: Server, folder: Path) -> None:
    # The leftover of a killed run is opened as a copy in the folder of temporary files.
    secrets = {str(folder), os.path.realpath(folder), f"{tempfile.gettempdir()}/tilescope-"}
    ids = report_ids(server)
    assert len(ids) >= 10
    pairs = [pair for report in ids[1:] for pair in ([report, ids[0]], [ids[0], report])]
    texts = [text for pair in pairs for text in _answers(server, pair)]
    vanished = folder / "whole" / "profile.pop"
    content = vanished.read_bytes()
    vanished.write_bytes(content[:3_000])
    texts += [text for report in ids[:2] for text in _answers(server, [report])]
    vanished.unlink()
    texts += [text for report in ids[:2] for text in _answers(server, [report])]
    vanished.write_bytes(content)
    for request, text in texts:
        assert not [secret for secret in secrets if secret in text], (request, text[:2000])
    assert any("is damaged" in text for _, text in texts)
    assert any("is empty, not a report" in text for _, text in texts)
    assert not server.complaints()


def _answers(server: Server, ids: Sequence[str]) -> list[tuple[Request, str]]:
    """Return the answers to the requests of all pages about some reports."""
    answers = []
    for request in samples(server, ids):
        if not request.query and not request.document and ids[0] not in request.path:
            continue
        reply = server.send(request.encode(server))
        assert reply.status < 500, (request, reply)
        answers.append((request, (reply.head + reply.body).decode("latin-1")))
    return answers


@pytest.mark.slow
def test_hostile_requests_are_refused_and_leave_no_traceback(server: Server, folder: Path) -> None:
    counts = send_hostile(server, 400, 7, str(folder))
    assert counts["answers_5xx"] == counts["leaks"] == counts["internal"] == 0, counts
    assert counts["answers_4xx"] > 100
    assert counts["growth_mib"] < 50
    assert not server.complaints()


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/_dash-component-suites/nothing/x.js", 404),
        ("/_dash-component-suites/os/__init__.py", 404),
        ("/_dash-component-suites/dash/../../pyproject.toml", 404),
        ("/_dash-component-suites/dash/%00", 404),
        ("/_dash-component-suites/dash/" + "a" * 30_000, 404),
        ("/docs/images/" + "b" * 300 + ".png", 404),
        ("/assets/%00.js", 404),
        ("/assets/nothing.js", 404),
        ("/assets/" + "c" * 300, 404),
        ("/" + "d" * 60_000, 404),
    ],
)
def test_unknown_files_are_not_there(server: Server, target: str, status: int) -> None:
    assert server.get(target).status == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize(
    "target", ["/", "/memory", "/assets/app.css", "/_dash-layout", "/api/help"]
)
def test_other_methods_are_refused_in_one_form(server: Server, method: str, target: str) -> None:
    reply = server.send(server.head(method, target))
    assert reply.status == 405
    assert set(json.loads(reply.body)) == {"ok", "code", "message", "detail"}


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"null", b"{}", b'{"output": 1}', b'{"output": []}', b'{"output": "x.y"}', b"{",
        b"[" * 100_000, b"\xff\xff", b'{"output": "..programs-error.children...programs-details'
        b'.children..", "inputs": [{"value": {"report": "\\ud800", "with": "", "node": ""}}]}',
    ],
)  # fmt: skip
def test_a_malformed_callback_is_refused(server: Server, body: bytes) -> None:
    head = ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    reply = server.send(server.head("POST", "/_dash-update-component", head) + body)
    assert reply.status == 400
    assert json.loads(reply.body)["code"] == "bad_callback"


def test_every_file_of_a_component_package_is_sent(server: Server) -> None:
    page = server.get("/memory").body.decode()
    files = {part.split('"')[0] for part in page.split('src="')[1:]}
    suites = [name for name in files if name.startswith("/_dash-component-suites/")]
    assert suites
    assert {server.get(name).status for name in suites} == {200}
