"""All routes over HTTP: access control, content security policy, and the format of errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from tilescope.webapp.security import MAX_BODY_BYTES, host_name

PAGES = ["/", "/summary", "/memory", "/liveness", "/programs", "/no-such-page"]
DASH = ["/_dash-layout", "/_dash-dependencies", "/assets/app.css", "/assets/theme.js", "/api/help"]
API = ["/api/reports", "/api/no-such-question"]
BAD_HOSTS = [
    "evil.com", "localhost.evil.com", "a/?x=", "localhost@evil.com", "", "localhost.", "0.0.0.0",
    "0x7f000001", "127.1", "127.0.0.1.nip.io", "testserver:99999999", "[::1", "test server",
]  # fmt: skip


def _is_failure(answer: Any, code: str) -> bool:
    body = answer.json()
    return set(body) == {"ok", "code", "message", "detail"} and body["code"] == code


@pytest.mark.parametrize("path", [*PAGES, *DASH, *API])
def test_nothing_is_answered_without_the_token(stranger: TestClient, path: str) -> None:
    answer = stranger.get(path)
    assert answer.status_code == 401
    assert _is_failure(answer, "token_missing")


@pytest.mark.parametrize("path", [*PAGES, *DASH, *API])
def test_a_wrong_token_or_cookie_is_none(stranger: TestClient, app: FastAPI, path: str) -> None:
    assert stranger.get(path, params={"token": "wrong"}).status_code == 401
    name = _cookie_name(app)
    assert stranger.get(path, headers={"cookie": f"{name}=wrong"}).status_code == 401


def _cookie_name(app: FastAPI) -> str:
    with_cookie = TestClient(app, follow_redirects=False)
    with_cookie.get("/", params={"token": "token-of-these-tests-0123456789abcdef"})
    return str(next(iter(with_cookie.cookies)))


def test_the_link_with_the_token_sets_a_cookie_and_takes_the_token_out(
    stranger: TestClient,
) -> None:
    token = "token-of-these-tests-0123456789abcdef"
    answer = stranger.get("/memory", params={"report": "a b", "token": token})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/memory?report=a+b"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert stranger.get("/memory").status_code == 200


def test_the_redirect_cannot_leave_this_server(stranger: TestClient) -> None:
    token = "token-of-these-tests-0123456789abcdef"
    answer = stranger.get(f"http://testserver//evil.com/x?token={token}")
    assert answer.headers["location"] == "/evil.com/x"


def test_a_browser_without_the_token_reads_what_to_do(stranger: TestClient) -> None:
    """As from a colleague's link, which has no token; its parameters stay."""
    query = {"report": 'a"b', "token": "wrong"}
    for value, is_wrong in (({"report": 'a"b'}, False), (query, True)):
        answer = stranger.get("/memory", params=value, headers={"accept": "text/html"})
        assert answer.status_code == 401
        assert "tilescope serve" in answer.text
        assert "http://testserver/?token=" in answer.text
        assert ("not the token of this server" in answer.text) == is_wrong
        assert 'name="report" value="a&quot;b"' in answer.text
        assert "wrong" not in answer.text


@pytest.mark.parametrize("host", BAD_HOSTS)
@pytest.mark.parametrize("path", ["/memory", "/assets/app.css", "/_dash-layout", "/api/reports"])
def test_other_host_names_are_refused(client: TestClient, host: str, path: str) -> None:
    answer = client.get(path, headers={"host": host})
    assert answer.status_code == 400
    assert _is_failure(answer, "unknown_host")


@pytest.mark.parametrize("host", ["testserver", "TESTSERVER:8050", "[::1]:80", "localhost:1"])
def test_known_host_names_pass(client: TestClient, host: str) -> None:
    assert client.get("/api/reports", headers={"host": host}).status_code in {200, 401}


def test_addresses_are_compared_in_one_form() -> None:
    assert host_name("[0:0::1]:8050") == "::1"
    assert host_name("LocalHost:1") == "localhost"
    assert host_name("[::1]:x") is None


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://evil.com"},
        {"origin": "null"},
        {"origin": "http://testserver:81"},
    ],
)
def test_other_sites_may_not_ask(client: TestClient, headers: dict[str, str]) -> None:
    answer = client.post("/_dash-update-component", json={}, headers=headers)
    assert answer.status_code == 403
    assert _is_failure(answer, "foreign_origin")


def test_a_large_body_is_refused_whatever_it_declares(client: TestClient) -> None:
    declared = client.post("/_dash-update-component", content=b"x" * (MAX_BODY_BYTES + 1))
    assert declared.status_code == 413

    def pieces() -> Any:
        for _ in range(40):
            yield b"x" * (MAX_BODY_BYTES // 32)

    chunked = client.post(
        "/_dash-update-component", content=pieces(), headers={"content-type": "application/json"}
    )
    assert chunked.status_code == 413
    assert _is_failure(chunked, "body_too_large")


@pytest.mark.parametrize("path", [*PAGES, *DASH, *API])
def test_every_answer_carries_the_protective_headers(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "script-src 'self' 'sha256-" in policy
    assert "'unsafe-inline'" not in policy.split("style-src")[0]
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", PAGES)
def test_pages_load_nothing_from_elsewhere(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    assert "TileScope" in answer.text
    assert "http://" not in answer.text
    assert "https://" not in answer.text


def test_the_layout_holds_no_path(client: TestClient, reports_dir: Any) -> None:
    layout = client.get("/_dash-layout").text
    assert str(reports_dir) not in layout
    assert str(reports_dir) not in client.get("/api/reports").text


def test_the_api_lists_reports_complete_ones_first(client: TestClient) -> None:
    reports = client.get("/api/reports").json()["reports"]
    assert [entry["is_complete"] for entry in reports] == [True, True, True, True, False]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/nothing", 404, "not_found"),
        ("/api/programs/nothing/roots", 404, "unknown_report"),
        ("/api/programs/..%2f..%2fetc%2fpasswd/roots", 404, None),
        ("/api/programs/{baseline}/children", 422, "bad_request"),
        ("/api/programs/{baseline}/children?program=-1", 422, "bad_request"),
        ("/api/programs/{baseline}/children?program=999999", 422, "bad_question"),
        ("/api/programs/{baseline}/search?text=", 422, "bad_request"),
        ("/api/programs/{baseline}/associated?program=0&layer=html", 422, "bad_question"),
        ("/api/programs/{baseline}/compare/roots", 422, "bad_request"),
        ("/api/programs/{baseline}/compare/roots?with=nothing", 404, "unknown_report"),
        ("/api/programs/{baseline}/compare/path?with={baseline}&key=x1", 422, "bad_question"),
    ],
)
def test_errors_of_the_api_have_one_shape(
    client: TestClient, ids: dict[str, str], path: str, status: int, code: str | None
) -> None:
    answer = client.get(path.format(**ids))
    assert answer.status_code == status
    body = answer.json()
    assert set(body) == {"ok", "code", "message", "detail"}
    assert body["ok"] is False
    assert code is None or body["code"] == code
    assert "Traceback" not in answer.text


def test_unsupported_methods_are_rejected(client: TestClient) -> None:
    answer = client.post("/api/reports")
    assert answer.status_code == 405
    assert _is_failure(answer, "method_not_allowed")


def test_web_sockets_are_closed(client: TestClient) -> None:
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/_dash-ws-callback"):
        pass


def test_the_program_tree_is_walked_level_by_level(client: TestClient, ids: dict[str, str]) -> None:
    base = f"/api/programs/{ids['baseline']}"
    roots = client.get(f"{base}/roots").json()["nodes"]
    assert roots
    parent = next(node for node in roots if node["n_children"])
    level = client.get(f"{base}/children", params={"program": parent["id"]}).json()
    assert level["n_children"] == parent["n_children"] == len(level["nodes"])
    second = client.get(
        f"{base}/children", params={"program": parent["id"], "offset": 1, "limit": 1}
    ).json()
    assert second["nodes"] == level["nodes"][1:2]
    path = client.get(f"{base}/path", params={"program": level["nodes"][1]["id"]}).json()["path"]
    assert [position["id"] for position in path] == [parent["id"], level["nodes"][1]["id"]]
    assert path[-1]["position"] == 1


def test_search_finds_programs_by_kind(client: TestClient, ids: dict[str, str]) -> None:
    answer = client.get(
        f"/api/programs/{ids['baseline']}/search", params={"text": "onTILEexecute", "limit": 3}
    ).json()
    assert answer["n_matches"] > 3
    assert len(answer["matches"]) == 3
    assert all(match["label"].startswith("OnTileExecute") for match in answer["matches"])


def test_answers_are_json_numbers_that_browsers_hold(client: TestClient) -> None:
    json.loads(client.get("/api/reports").text, parse_constant=pytest.fail)


def test_scripts_with_a_modification_time_are_cached(client: TestClient) -> None:
    notes = client.get("/assets/charts.js?m=1").headers["cache-control"]
    assert "immutable" in notes
    assert "private" in notes
    assert client.get("/assets/charts.js").headers["cache-control"] == "no-cache"
    assert client.get("/api/reports").headers["cache-control"] == "no-cache"


def test_the_programs_of_two_reports_are_one_tree(client: TestClient, ids: dict[str, str]) -> None:
    offset = f"/api/programs/{ids['baseline']}/compare"
    pair = {"with": ids["candidate"]}
    (root,) = client.get(f"{offset}/roots", params=pair).json()["nodes"]
    assert root["mark"] == "changed"
    sides = {"one": root["one"]["id"], "other": root["other"]["id"]}
    answer = client.get(f"{offset}/children", params={**pair, **sides, "limit": 5}).json()
    assert len(answer["nodes"]) == 5
    assert answer["n_children"] >= root["n_children"]
    assert [node["position"] for node in answer["nodes"]] == list(range(5))
    key = answer["nodes"][3]["id"]
    path = client.get(f"{offset}/path", params={**pair, "key": key}).json()["path"]
    assert path == [{"id": root["id"], "position": 0}, {"id": key, "position": 3}]
    actual = client.get(f"{offset}/search", params={**pair, "text": "OnTile", "limit": 5}).json()
    assert len(actual["matches"]) == 5 < actual["n_matches"]


def test_associated_programs_share_a_context(client: TestClient, ids: dict[str, str]) -> None:
    offset = f"/api/programs/{ids['baseline']}/associated"
    answer = client.get(offset, params={"program": 3, "layer": "library"}).json()
    assert answer["ok"]
    assert 3 in answer["programs"] or answer["programs"] == []
