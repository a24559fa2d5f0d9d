"""What the pages show of a training: passes, links between operations, the loss."""

from __future__ import annotations

import json

import pytest
from starlette.testclient import TestClient
from tests.training_report import N_STEPS
from tests.webapp.test_callbacks import Browser

from tilescope.analyser.program.operations import operations, steps_of
from tilescope.analyser.summary.loss import loss_curve
from tilescope.webapp.library import Library


@pytest.fixture(scope="module")
def browser(client: TestClient) -> Browser:
    return Browser(client)


def test_operations_have_a_column_and_a_menu_of_passes(
    browser: Browser, ids: dict[str, str]
) -> None:
    everything = browser.ask("operations", report=ids["training"], layer="model")
    assert everything["operations-pass-field.style"] == {}
    assert "pass" in [column["field"] for column in everything["operations-table.columns"]]
    data = everything["operations-table.data"]
    pass_of = dict(zip(data["name"], data["pass"], strict=True))
    assert pass_of["fc1:GemmWeightsGrad"] == "Weight gradient"
    view = {"report": ids["training"], "layer": "model", "pass": "weight_update"}
    updates = browser.ask("operations", **view)["operations-table.data"]
    assert set(updates["pass"]) == {"Weight update"}
    assert len(updates["name"]) == 4
    wrong = browser.ask("operations", **view | {"pass": "sideways"})
    assert "Unknown pass" in json.dumps(wrong["operations-error.children"])


def test_inference_has_neither_passes_nor_a_loss(
    browser: Browser, client: TestClient, ids: dict[str, str]
) -> None:
    answer = browser.ask("operations", report=ids["baseline"], **{"pass": "forward"})
    assert answer["operations-pass-field.style"] == {"display": "none"}
    assert "pass" not in [column["field"] for column in answer["operations-table.columns"]]
    assert answer["operations-table.data"]["name"]
    body = json.dumps(browser.ask("summary", report=ids["baseline"])["summary-body.children"])
    assert "panel-training" not in body
    loss = client.get(f"/api/training/{ids['baseline']}/loss").json()
    assert [side and side["n_steps"] for side in loss["sides"]] == [0, None]


def test_an_operation_leads_to_those_that_it_belongs_to(
    browser: Browser, ids: dict[str, str]
) -> None:
    view = {"report": ids["training"], "layer": "model"}
    forward = json.dumps(browser.ask("operations", **view, op="fc1")["operation.children"])
    assert "op=fc1:GemmWeightsGrad" in forward
    gradient = json.dumps(
        browser.ask("operations", **view, op="fc1:GemmWeightsGrad")["operation.children"]
    )
    assert "weight gradient of fc1" in gradient
    assert "op=fc1&" in gradient


def test_totals_by_pass_stand_above_those_by_kind(browser: Browser, ids: dict[str, str]) -> None:
    one = browser.ask("operations", report=ids["training"], layer="model", tab="kinds")
    assert "By pass" in json.dumps(one["operation-kinds.children"])
    view = {"report": ids["training"], "with": ids["training"]}
    two = browser.ask("operations", layer="model", tab="kinds", **view)
    assert "Baseline, cycles" in json.dumps(two["operation-kinds.children"])


def test_steps_and_programs_show_their_pass(
    browser: Browser, client: TestClient, library: Library, ids: dict[str, str]
) -> None:
    with library.opened(ids["training"]) as report:
        gradient = operations(report, "model").by_key["relu:ReluDataGrad"]
        step_id = steps_of(report, gradient.debug_context_id)[0]
    details = client.get(f"/api/trace/{ids['training']}/step/{step_id}").json()
    assert details["training"]["label"] == "Data gradient"
    assert details["training"]["origin"]["key"] == "relu"
    page = browser.ask("liveness", report=ids["training"], step=str(step_id), tab="program")
    assert "Data gradient" in json.dumps(page)


def test_boxes_of_the_graph_have_their_pass(client: TestClient, ids: dict[str, str]) -> None:
    graph = client.get(
        f"/api/operations/{ids['training']}/graph", params={"layer": "model", "depth": 99}
    ).json()
    passes = {box["key"]: box["training_pass"] for box in graph["boxes"]}
    assert passes["fc1"] == "forward"
    assert passes["fc1:GemmWeightsGrad"] == "weight_gradient"
    closed = client.get(f"/api/operations/{ids['baseline']}/graph").json()
    assert {box["training_pass"] for box in closed["boxes"]} == {""}


def test_the_summary_has_passes_and_losses(browser: Browser, ids: dict[str, str]) -> None:
    one = json.dumps(browser.ask("summary", report=ids["training"])["summary-body.children"])
    assert "panel-training" in one
    assert "Least loss" in one
    view = {"report": ids["training"], "with": ids["training"]}
    assert "Least loss" in json.dumps(browser.ask("summary", **view)["summary-body.children"])


def test_the_loss_is_thinned_to_what_a_chart_can_show(
    client: TestClient, library: Library, ids: dict[str, str]
) -> None:
    with library.opened(ids["training"]) as report:
        curve = loss_curve(report)
    path = f"/api/training/{ids['training']}/loss"
    (side, other) = client.get(path).json()["sides"]
    assert other is None
    assert side["loss"] == curve.loss.tolist()
    assert side["epochs"] == [[0, 0], [3, 1], [6, 2]]
    assert side["extent"] == [0, N_STEPS - 1]
    assert "last " in side["words"]
    few = client.get(path, params={"columns": 1, "with": ids["training"]}).json()["sides"]
    assert [len(side["loss"]) for side in few] == [2, 2]
    part = client.get(path, params={"start": 4, "end": 5}).json()["sides"][0]
    assert part["place"] == [3, 4, 5, 6]
    assert client.get(path, params={"columns": 0}).status_code == 422
