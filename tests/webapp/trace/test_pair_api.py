"""Two traces on one axis over HTTP, and the page that shows them."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tilescope.analyser import trace
from tilescope.analyser.diff import TracePair, difference_flame
from tilescope.webapp.library import Library

from .test_api import unpack


@pytest.fixture
def base(ids: dict[str, str]) -> str:
    """Return the URL of the two reports."""
    return f"/api/trace-pair/{ids['baseline']}/{ids['candidate']}"


@pytest.mark.parametrize("align", ["step", "cycle", "time"])
def test_sides_answer_on_the_common_axis(
    client: TestClient, base: str, ids: dict[str, str], library: Library, align: str
) -> None:
    with (
        library.opened(ids["baseline"]) as baseline,
        library.opened(ids["candidate"]) as candidate,
    ):
        pair = TracePair(baseline, candidate, align)
        axis, expected = pair.axis, pair.window(1, pair.axis.start, pair.axis.end, 300)
    for side in (0, 1):
        extent = client.get(f"{base}/{align}/{side}/extent").json()
        assert (extent["start_cycle"], extent["end_cycle"]) == (axis.start, axis.end)
        assert extent["n_paired"] == axis.n_paired
        with library.opened(ids[("baseline", "candidate")[side]]) as report:
            local = trace.extent(report).runs
        assert [run["own_cycles"] for run in extent["runs"]] == [
            run.end_cycle - run.start_cycle for run in local
        ]
    query = {"start": axis.start, "end": axis.end, "width": 300}
    header, columns = unpack(client.get(f"{base}/{align}/1/window", params=query).content)
    assert header["n_slices"] == expected.n_slices
    assert (columns["start"] + axis.start).tolist() == expected.bars.start_cycle.tolist()


def test_slices_have_places_and_own_cycles(client: TestClient, base: str) -> None:
    first = client.get(f"{base}/step/1/step/100/first").json()["occurrence"]
    query = {"ipu": 0, "track": 0, "level": 0, "cycle": first["start_cycle"], "view": "flat"}
    actual = client.get(f"{base}/step/1/slice", params=query).json()["slice"]
    assert actual["step_id"] == 100
    assert actual["start_cycle"] == first["start_cycle"]
    assert actual["own_start_cycle"] == first["own_start_cycle"]
    here = {"text": first["name"], "cycle": first["start_cycle"] - 1}
    near = client.get(f"{base}/step/match", params=here).json()
    assert near["occurrence"]["start_cycle"] == first["start_cycle"]
    sides = set()
    for number in (near["number"], near["number"] + 1):
        query = {"text": first["name"], "number": number}
        answer = client.get(f"{base}/step/match", params=query).json()
        assert (answer["number"], answer["n_matches"]) == (number, near["n_matches"])
        sides.add(answer["occurrence"]["side"])
    assert sides == {0, 1}


def test_the_flame_is_the_analysers(
    client: TestClient, base: str, ids: dict[str, str], library: Library
) -> None:
    with (
        library.opened(ids["baseline"]) as baseline,
        library.opened(ids["candidate"]) as candidate,
    ):
        flame = difference_flame(baseline, candidate)
        rows = flame.rows(smallest=0.5 / 20_000)
        wide = max(flame.below[0], key=lambda row: flame.width[row])
        name = flame.name(wide)
    actual = client.get(f"{base}/flame", params={"width": 20_000}).json()
    assert [row["name"] for row in actual["rows"]] == [row.name for row in rows]
    assert (
        sum(row["delta_cycles"] for row in actual["rows"] if row["depth"] == 1)
        == (actual["rows"][0]["delta_cycles"])
    )
    below = client.get(f"{base}/flame", params={"node": name}).json()
    assert [row["name"] for row in below["above"]] == [""]
    assert below["rows"][0]["name"] == name


def test_bad_questions_have_one_form(client: TestClient, base: str) -> None:
    for path in ("name/0/extent", "step/2/extent", "flame?node=nothing"):
        answer = client.get(f"{base}/{path}")
        assert answer.status_code in {400, 422}
        assert answer.json()["ok"] is False
    assert client.get("/api/trace-pair/x/y/flame").status_code == 404
