"""The selection and the palette over HTTP: every link leads to a page that takes it."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tilescope.webapp.pages import modules

PARAMETERS = {
    page.PATH: {parameter.name for parameter in getattr(page, "VIEW", ())} for page in modules()
}


@pytest.mark.parametrize("what", ["step:20", "moment:20", "program:5", "tile:7"])
def test_a_selection_has_places_that_pages_know(
    client: TestClient, ids: dict[str, str], what: str
) -> None:
    answer = client.get(f"/api/selection/{ids['baseline']}", params={"what": what}).json()
    assert answer["title"]
    assert answer["places"]
    for path, parameters in answer["places"].items():
        assert set(parameters) <= PARAMETERS[path], path


def test_a_step_leads_to_four_pages(client: TestClient, ids: dict[str, str]) -> None:
    answer = client.get(f"/api/selection/{ids['baseline']}", params={"what": "step:20"}).json()
    assert {"/trace", "/liveness", "/programs"} <= set(answer["places"])
    assert answer["places"]["/trace"] == {"at": "step:20"}


@pytest.mark.parametrize("what", ["step:99999", "colour:1", "variable:<img>", "moment:c7"])
def test_what_the_report_lacks_has_no_place_and_a_reason(
    client: TestClient, ids: dict[str, str], what: str
) -> None:
    answer = client.get(f"/api/selection/{ids['baseline']}", params={"what": what})
    assert answer.status_code == 200
    actual = answer.json()
    assert (actual["ok"], actual["title"], actual["places"]) == (True, "", {})
    assert actual["detail"].endswith((".", ":"))


def test_the_palette_finds_things_of_all_kinds(client: TestClient, ids: dict[str, str]) -> None:
    answer = client.get(f"/api/find/{ids['baseline']}", params={"text": "layer"}).json()
    kinds = [match["kind"] for match in answer["matches"]]
    assert {"Operation", "Variable", "Step"} <= set(kinds)
    assert "At most 8" in answer["note"]
    for match in answer["matches"]:
        assert match["parameters"], match
        assert set(match["parameters"]) <= PARAMETERS[match["path"]]
    none = client.get(f"/api/find/{ids['baseline']}", params={"text": "no such thing"}).json()
    assert none["matches"] == []
