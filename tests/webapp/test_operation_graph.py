"""The graph of operations over HTTP."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.analyser.small_report import write_small_report

from tilescope.analyser.graph.operation_graph import graph_side, operation_graph
from tilescope.webapp.library import Library


def _ask(client: TestClient, report: str, **query: Any) -> dict[str, Any]:
    actual = client.get(f"/api/operations/{report}/graph", params=query)
    assert actual.status_code == 200, actual.text
    answer: dict[str, Any] = actual.json()
    assert answer["ok"]
    return answer


def test_the_graph_is_the_analysers(
    client: TestClient, ids: dict[str, str], library: Library
) -> None:
    query = {"toggled": ["layer1/"], "chosen": "layer1/residual/Op/Add"}
    answer = _ask(
        client, ids["baseline"], layer="step", toggled=query["toggled"], op=query["chosen"]
    )
    with library.opened(ids["baseline"]) as report:
        graph = operation_graph([graph_side(report, "step")], **query)  # type: ignore[arg-type]
    assert answer["layer"] == "step"
    assert [box["key"] for box in answer["boxes"]] == [box.key for box in graph.boxes]
    assert answer["chosen"] == graph.chosen
    assert answer["boxes"][graph.chosen or 0]["key"] == "layer1/"
    assert answer["boxes"][0]["baseline"]["cycles"] == graph.boxes[0].baseline.cycles  # type: ignore[union-attr]
    assert [(edge["source"], edge["target"]) for edge in answer["edges"]] == [
        (edge.source, edge.target) for edge in graph.edges
    ]
    assert answer["edges"][0]["baseline_bytes"] > 0
    assert answer["is_recorded"] == [True]


def test_a_layer_without_operations_gives_way(client: TestClient, ids: dict[str, str]) -> None:
    assert _ask(client, ids["baseline"])["layer"] == "model"


def test_two_reports_are_one_graph(client: TestClient, ids: dict[str, str]) -> None:
    answer = _ask(
        client, ids["baseline"], **{"with": ids["candidate"], "layer": "model", "depth": 9}
    )
    assert answer["is_recorded"] == [True, True]
    both = [box for box in answer["boxes"] if box["baseline"] and box["candidate"]]
    alone = [box for box in answer["boxes"] if not box["baseline"]]
    assert both
    assert alone, "the candidate has more steps"
    assert any(edge["baseline_bytes"] is None for edge in answer["edges"])


def test_columns_are_joined_by_folds(client: TestClient, ids: dict[str, str]) -> None:
    answer = _ask(client, ids["baseline"], layer="step", depth=99)
    folds = [fold for edge in answer["edges"] for fold in edge["folds"]]
    assert folds
    for after, x, last_row, lane in folds:
        assert after >= 0
        assert 0 < x < answer["width"]
        assert 0 <= last_row < answer["n_rows"]
        assert lane >= 0


@pytest.mark.parametrize("query", [{"layer": "other"}, {"depth": -1}, {"toggled": ["x"] * 501}])
def test_bad_questions_are_refused(
    client: TestClient, ids: dict[str, str], query: dict[str, Any]
) -> None:
    actual = client.get(f"/api/operations/{ids['baseline']}/graph", params=query)
    assert actual.status_code == 422
    assert actual.json()["code"] == "bad_request"


def test_scripts_of_the_graph_are_no_part_of_the_page(
    client: TestClient, ids: dict[str, str]
) -> None:
    page = client.get("/operations", params={"report": ids["baseline"]}).text
    (address,) = re.findall(r'"(/assets/all/[^"]+\.js\?[^"]+)"', page)
    scripts = client.get(address).text
    assert client.get("/assets/operations.js").text in scripts
    graph = client.get("/assets/graph_view.js")
    assert graph.status_code == 200
    assert graph.text not in scripts
    assert "graph_view.js" not in page


def test_a_report_without_flows_says_so(tmp_path: Path) -> None:
    write_small_report(tmp_path)
    library = Library([tmp_path])
    (entry,) = library.found()
    with library.opened(entry.report_id) as report:
        assert operation_graph([graph_side(report, "library")]).is_recorded == (False,)
    library.close()
