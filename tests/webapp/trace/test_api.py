"""The trace API over HTTP: the binary block, JSON, and the format of errors."""

from __future__ import annotations

import json
import struct
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from tilescope.analyser import trace
from tilescope.webapp.library import Library

COLUMNS = (
    ("start", "<f8"), ("duration", "<f8"), ("name", "<i4"), ("count", "<i4"), ("lane", "<u2"),
    ("kind", "u1"),
)  # fmt: skip


def unpack(block: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return header and columns, decoded as documented."""
    (length,) = struct.unpack_from("<I", block)
    header = json.loads(block[4 : 4 + length])
    offset = 4 + length
    assert offset % 8 == 0
    columns = {}
    for name, dtype in COLUMNS:
        columns[name] = np.frombuffer(block, dtype, header["n_bars"], offset)
        offset += columns[name].nbytes
    n_mixed = int((columns["count"] > 1).sum())
    columns["share"] = np.frombuffer(block, "u1", n_mixed * header["n_kinds"], offset)
    columns["share"] = columns["share"].reshape(n_mixed, header["n_kinds"])
    offset += columns["share"].nbytes
    assert header["has_longest"]
    assert set(block[offset : offset + -offset % 4]) <= {0}
    offset += -offset % 4
    for name, dtype in (("longest_name", "<i4"), ("longest_cycles", "<f4")):
        columns[name] = np.frombuffer(block, dtype, n_mixed, offset)
        offset += columns[name].nbytes
    assert offset == len(block)
    return header, columns


@pytest.fixture
def base(ids: dict[str, str]) -> str:
    """Return the URL of the trace of the report with two IPUs."""
    return f"/api/trace/{ids['pair']}"


def test_a_window_arrives_as_the_analyser_gives_it(
    client: TestClient, base: str, ids: dict[str, str], library: Library
) -> None:
    with library.opened(ids["pair"]) as report:
        full = trace.extent(report)
        middle = full.end_cycle // 2
        expected = trace.window(report, middle, full.end_cycle, 40, trace.Lanes([1]))
    answer = client.get(
        f"{base}/window", params={"start": middle, "end": full.end_cycle, "width": 40, "ipus": 1}
    )
    assert answer.headers["content-type"] == "application/octet-stream"
    header, columns = unpack(answer.content)
    assert header["start_cycle"] == middle
    assert header["n_slices"] == expected.n_slices
    assert header["lanes"] == [[lane.ipu_id, lane.track, lane.level] for lane in expected.lanes]
    starts = columns["start"].astype(np.int64) + middle
    assert starts.tolist() == expected.bars.start_cycle.tolist()
    ends = starts + columns["duration"].astype(np.int64)
    assert ends.tolist() == expected.bars.end_cycle.tolist()
    assert columns["name"].tolist() == expected.bars.name.tolist()
    assert columns["count"].tolist() == expected.bars.count.tolist()
    assert columns["kind"].tolist() == expected.bars.kind.tolist()
    several = expected.bars.count > 1
    assert several.any()
    assert columns["share"].tolist() == expected.bars.share[several].tolist()
    assert columns["longest_name"].tolist() == expected.bars.longest_name[several].tolist()
    cycles = expected.bars.longest_cycles[several]
    assert columns["longest_cycles"].tolist() == cycles.astype(np.float32).tolist()
    assert columns["lane"].tolist() == expected.lane.tolist()


def test_names_and_extent_name_everything_in_a_window(client: TestClient, base: str) -> None:
    extent = client.get(f"{base}/extent").json()
    names = client.get(f"{base}/names").json()
    _, columns = unpack(
        client.get(
            f"{base}/window",
            params={"start": 0, "end": extent["end_cycle"], "width": 500, "collapsed": "1"},
        ).content
    )
    assert columns["name"].max() < len(names["labels"]) == len(names["parents"])
    assert columns["kind"].max() < len(extent["kinds"])
    assert [track["ipu_id"] for track in extent["tracks"]] == [0, 1]
    assert all(parent < index for index, parent in enumerate(names["parents"]))
    run = names["labels"][columns["name"][0]]
    assert run == extent["runs"][0]["name"]


def test_summary_search_occurrence_slice_and_step_fit_together(
    client: TestClient, base: str
) -> None:
    summary = client.get(f"{base}/summary", params={"top": 3}).json()
    assert len(summary["contributors"]) == 3
    top = summary["contributors"][0]
    actual = client.get(f"{base}/search", params={"text": top["name"]}).json()
    assert actual["names"][0]["name"] == top["name"]
    near = client.get(f"{base}/match", params={"text": top["name"], "cycle": -1}).json()
    assert (near["number"], near["n_matches"]) == (1, actual["n_occurrences"])
    first = near["occurrence"]
    assert first == actual["occurrences"][0]
    last = client.get(f"{base}/match", params={"text": top["name"], "number": near["n_matches"]})
    assert last.json()["number"] == near["n_matches"]
    level = first["name"].count("/")
    item = client.get(
        f"{base}/slice",
        params={
            "ipu": first["ipu_id"], "track": first["track"], "level": level,
            "cycle": first["start_cycle"],
        },
    ).json()["slice"]  # fmt: skip
    assert (item["name"], item["step_id"]) == (first["name"], first["step_id"])
    step = client.get(f"{base}/step/{item['step_id']}").json()
    assert step["name"] == top["name"]
    cost = step["costs"][0]
    assert sum(cost["histogram"]["n_tiles"]) == cost["n_active_tiles"]


def test_executions_as_csv_honour_ipus_and_hidden_kinds(client: TestClient, base: str) -> None:
    def rows(**question: str) -> list[list[str]]:
        lines = client.get(f"{base}/executions.csv", params=question).text.splitlines()
        assert lines[0].startswith("ipu,track,step,kind,")
        return [line.split(",") for line in lines[1:]]

    every = rows()
    assert {row[0] for row in every} == {"0", "1"}
    assert {"compute", "exchange"} <= {row[3] for row in every}
    expected = [row for row in every if row[0] == "1" and row[3] not in {"exchange", "sync"}]
    assert rows(ipus="1", hide="exchange,sync") == expected
    answer = client.get(f"{base}/executions.csv", params={"ipus": "7"})
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_question")


@pytest.mark.parametrize(
    ("question", "status", "code"),
    [
        ("window?start=5&end=5&width=10", 422, "bad_question"),
        ("window?start=0&end=5", 422, "bad_request"),
        ("window?start=0&end=5&width=999999", 422, "bad_request"),
        ("window?start=0&end=5&width=10&view=sideways", 422, "bad_question"),
        ("window?start=0&end=5&width=10&ipus=one", 422, "bad_question"),
        ("window?start=0&end=99999999999999999999999&width=10", 422, "bad_request"),
        ("slice?ipu=0&track=7&level=0&cycle=1", 422, "bad_question"),
        ("search?text=%20", 422, "bad_question"),
        ("match?text=a&cycle=0&direction=up", 422, "bad_question"),
        ("match?text=a&number=999999999", 422, "bad_question"),
        ("step/999999", 422, "bad_question"),
        ("step/-1", 422, "bad_question"),
        ("summary?start=9&end=3", 422, "bad_question"),
        ("nothing", 404, "not_found"),
    ],
)
def test_errors_are_one_sentence_in_one_shape(
    client: TestClient, base: str, question: str, status: int, code: str
) -> None:
    answer = client.get(f"{base}/{question}")
    assert answer.status_code == status
    failure = answer.json()
    assert set(failure) == {"ok", "code", "message", "detail"}
    assert (failure["ok"], failure["code"]) == (False, code)
    assert "Traceback" not in failure["message"]


def test_an_unknown_report_is_not_found(client: TestClient) -> None:
    answer = client.get("/api/trace/000000000000/extent")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_report")


def test_waits_arrive_as_the_analyser_gives_them(
    client: TestClient, base: str, ids: dict[str, str], library: Library
) -> None:
    with library.opened(ids["pair"]) as report:
        end = trace.extent(report).end_cycle
        expected = trace.waits(report, end // 2, end, [1])
    assert expected.rows
    answer = client.get(f"{base}/waits", params={"start": end // 2, "end": end, "ipus": 1}).json()
    assert answer == {"ok": True, **json.loads(json.dumps(asdict(expected)))}
    assert client.get(f"{base}/waits", params={"ipus": 9}).json()["ok"] is False
