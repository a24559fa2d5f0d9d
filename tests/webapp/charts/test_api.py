"""The chart API over HTTP: binary blocks, JSON, and the format of errors."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from tilescope.analyser.diff import align_liveness
from tilescope.analyser.machine.floor_plan import floor_plan
from tilescope.analyser.memory.charts import ChartRange, step_series, tile_series
from tilescope.analyser.memory.liveness import curve, named_lifetimes, step_facts, step_variables
from tilescope.analyser.memory.lowered_variables import tile_variables
from tilescope.analyser.memory.tile_memory import fullest_tile, tile_memory
from tilescope.analyser.memory.tile_timeline import tile_map
from tilescope.analyser.memory.variables import mapped_memory, named_variables
from tilescope.webapp.library import Library


def unpack(block: bytes) -> tuple[dict[str, Any], list[dict[str, np.ndarray]]]:
    """Return header and the columns of every side, decoded as documented."""
    (length,) = struct.unpack_from("<I", block)
    header = json.loads(block[4 : 4 + length])
    offset = 4 + length
    assert offset % 8 == 0

    def take(dtype: str, n_values: int) -> np.ndarray:
        nonlocal offset
        frombuffer = np.frombuffer(block, dtype, n_values, offset)
        offset += frombuffer.nbytes
        return frombuffer

    sides = []
    for side in header["sides"]:
        n_shown, n_matches = side["n_shown"], side["n_matches"]
        columns = {f"={series['label']}": take("<f8", n_shown) for series in side["series"]}
        columns |= {"total": take("<f8", n_shown)}
        columns |= {name: take("<i4", n_shown) for name in ("place", "item")}
        columns |= {"match_bytes": take("<f8", n_matches)}
        columns |= {f"match_{name}": take("<i4", n_matches) for name in ("place", "item")}
        sides.append(columns)
    assert offset == len(block)
    return header, sides


def _ask(client: TestClient, url: str, **query: Any) -> tuple[dict[str, Any], Any]:
    answer = client.get(url, params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/octet-stream"
    return unpack(answer.content)


def test_tiles_arrive_as_the_analyser_gives_them(
    client: TestClient, ids: dict[str, str], library: Library
) -> None:
    url = f"/api/memory/{ids['pair']}/window"
    header, (side,) = _ask(
        client, url, start=3, end=25, width=500, breakdown="region", gaps=True, order="hardware"
    )
    with library.opened(ids["pair"]) as report:
        memory = tile_memory(report, "region", True)
        expected = tile_series(memory, ChartRange(3, 25, 500), floor_plan(report).hardware_order)
    assert (header["n_places"], header["tiles_per_ipu"]) == (32, 16)
    (head,) = header["sides"]
    assert [series["label"] for series in head["series"]] == list(expected.series)
    assert head["highest_bytes"] == memory.stacked_bytes.max()
    assert head["capacity_bytes"] == memory.capacity_bytes
    for label, values in expected.series.items():
        assert side[f"={label}"].tolist() == values.tolist()
    assert side["item"].tolist() == expected.item.tolist()
    assert side["total"].tolist() == expected.total_bytes.tolist()


def test_variables_are_a_series_by_their_name(
    client: TestClient, ids: dict[str, str], library: Library
) -> None:
    with library.opened(ids["baseline"]) as report:
        name = tile_variables(report, 3).name[0]
        actual = named_variables(report, name)
    url = f"/api/memory/{ids['baseline']}/window"
    query = {"start": 0, "end": 64, "width": 500, "breakdown": "variables", "var": name}
    header, (side,) = _ask(client, url, **query)
    assert [series["label"] for series in header["sides"][0]["series"]] == [name]
    assert side["total"].tolist() == actual.tile_bytes.tolist()
    # One of two reports may lack them.
    _, sides = _ask(client, url, **query | {"with": ids["pair"]})
    assert [len(side["place"]) for side in sides] == [64, 32]
    _, (none,) = _ask(client, url, **query | {"var": ""})
    assert not none["total"].any()


def test_the_order_of_tiles_is_a_list(
    client: TestClient, ids: dict[str, str], library: Library
) -> None:
    answer = client.get(f"/api/memory/{ids['pair']}/order/hardware")
    with library.opened(ids["pair"]) as report:
        expected = floor_plan(report).hardware_order
    assert np.frombuffer(answer.content, "<i4").tolist() == expected.tolist()


def test_two_reports_share_an_axis_of_tiles(client: TestClient, ids: dict[str, str]) -> None:
    url = f"/api/memory/{ids['baseline']}/window"
    query = {"start": 0, "end": 64, "width": 500, "with": ids["pair"]}
    header, sides = _ask(client, url, **query)
    assert [side["name"] for side in header["sides"]] == ["Baseline", "Candidate"]
    assert [len(side["place"]) for side in sides] == [64, 32]
    assert (header["n_places"], header["tiles_per_ipu"]) == (64, 0)
    _, coarse = _ask(client, url, **query | {"width": 10})
    positions = [set(side["place"].tolist()) for side in coarse]
    assert len(positions[0]) < 64
    assert positions[1] == {position for position in positions[0] if position < 32}


def test_the_lives_on_a_tile_arrive_as_the_analyser_gives_them(
    client: TestClient, ids: dict[str, str], library: Library
) -> None:
    answer = client.get(f"/api/memory/{ids['baseline']}/lives", params={"tile": 3})
    with library.opened(ids["baseline"]) as report:
        expected = tile_map(report, 3)
        fullest = fullest_tile(report).tile_id
    (length,) = struct.unpack_from("<I", answer.content)
    header = json.loads(answer.content[4 : 4 + length])
    n_blocks, n_heights, offset = header["n_blocks"], header["n_heights"], 4 + length
    floats = np.frombuffer(answer.content, "<f8", 2 * n_blocks + n_heights, offset)
    numbers = np.frombuffer(answer.content, "<i4", -1, offset + floats.nbytes)
    assert floats[:n_blocks].tolist() == expected.offset_bytes.tolist()
    assert floats[n_blocks : 2 * n_blocks].tolist() == expected.bytes.tolist()
    assert floats[2 * n_blocks :].tolist() == expected.heights[1].tolist()
    start, end, name, category = numbers[: 4 * n_blocks].reshape(4, n_blocks)
    assert start.tolist() == expected.start_step.tolist()
    assert end.tolist() == expected.end_step.tolist()
    assert tuple(header["names"][number] for number in name) == expected.name
    assert header["categories"][category[0]]["label"] == "Code and state"
    assert numbers[4 * n_blocks :].tolist() == expected.heights[0].tolist()
    default = client.get(f"/api/memory/{ids['baseline']}/lives").content
    (length,) = struct.unpack_from("<I", default)
    assert json.loads(default[4 : 4 + length])["tile_id"] == fullest


def test_a_map_has_the_bytes_and_the_places_of_all_tiles(
    client: TestClient, ids: dict[str, str], library: Library
) -> None:
    answer = client.get(f"/api/memory/{ids['pair']}/map", params={"of": "controlCode"})
    with library.opened(ids["pair"]) as report:
        expected, plan = mapped_memory(report, "controlCode"), floor_plan(report)
    (length,) = struct.unpack_from("<I", answer.content)
    header = json.loads(answer.content[4 : 4 + length])
    values = np.frombuffer(answer.content, "<f8", 32, 4 + length)
    positions = np.frombuffer(answer.content, "<i4", -1, 4 + length + values.nbytes)
    assert (header["title"], header["n_ipus"]) == (expected.title, 2)
    assert header["highest_bytes"] == values.max()
    assert values.tolist() == expected.tile_bytes.tolist()
    assert positions.tolist() == [*plan.row[:16].tolist(), *plan.column[:16].tolist()]


def test_the_lives_of_two_reports_share_an_axis_of_matched_steps(
    client: TestClient, ids: dict[str, str], library: Library
) -> None:
    with (
        library.opened(ids["baseline"]) as first,
        library.opened(ids["candidate"]) as second,
    ):
        positions = align_liveness(first, second).places
        maps = [tile_map(report, 3) for report in (first, second)]
    highest = max(int(actual.heights[1].max()) for actual in maps)
    url = f"/api/memory/{ids['baseline']}/lives"
    for side, actual in enumerate(maps):
        query = {"tile": 3, "with": ids["candidate"], "side": side}
        content = client.get(url, params=query).content
        (length,) = struct.unpack_from("<I", content)
        header = json.loads(content[4 : 4 + length])
        assert (header["n_blocks"], header["highest_bytes"]) == (len(actual), highest)
        local, second_items = header["n_own_places"], header["n_other_places"]
        numbers = np.frombuffer(content, "<i4", -1, 4 + length)[-local - second_items :]
        assert numbers[:local].tolist() == positions[side].tolist()
        assert numbers[local:].tolist() == positions[1 - side].tolist()


def test_a_map_of_two_reports_has_their_difference(
    client: TestClient, ids: dict[str, str], library: Library
) -> None:
    url = f"/api/memory/{ids['baseline']}/map"
    query = {"of": "total", "with": ids["candidate"]}
    content = client.get(url, params=query).content
    (length,) = struct.unpack_from("<I", content)
    header = json.loads(content[4 : 4 + length])
    values = np.frombuffer(content, "<f8", 64, 4 + length)
    with (
        library.opened(ids["baseline"]) as first,
        library.opened(ids["candidate"]) as second,
    ):
        expected = tile_memory(second).total_bytes - tile_memory(first).total_bytes
    assert header["is_change"]
    assert header["highest_bytes"] == np.abs(expected).max() > 0
    assert values.tolist() == expected.tolist()
    answer = client.get(url, params={"of": "total", "with": ids["pair"]})
    assert answer.status_code == 422
    assert "the machines differ (1 x 64 tiles and 2 x 16 tiles)" in answer.json()["message"]


def test_steps_arrive_with_matches_and_lifetimes(
    client: TestClient, ids: dict[str, str], library: Library
) -> None:
    with library.opened(ids["baseline"]) as report:
        live = curve(report, ("tile", 3))
        expected = step_series(
            live, ChartRange(0, 120, 300), includes_always_live=True, text="doexchange"
        )
        name = step_variables(report, 60).name[0]
        lives = named_lifetimes(report, name)
    header, (side,) = _ask(
        client,
        f"/api/liveness/{ids['baseline']}/window",
        start=0, end=120, width=300, source="tile:3", always=True, steps="doexchange", var=name,
    )  # fmt: skip
    (head,) = header["sides"]
    assert [series["label"] for series in head["series"]] == ["Always live", "Not always live"]
    assert side["=Not always live"].tolist() == live.not_always_live_bytes.tolist()
    assert expected.matches is not None
    assert head["n_found"] == expected.matches.n_found > 0
    assert side["match_item"].tolist() == expected.matches.item.tolist()
    assert side["match_bytes"].tolist() == expected.matches.bytes.tolist()
    assert [tuple(life) for life in head["lives"]] == list(lives)
    assert any(start <= 60 < end for start, end in lives)


def test_steps_of_two_reports_are_aligned(
    client: TestClient, ids: dict[str, str], library: Library
) -> None:
    query = {"start": 0, "end": 500, "width": 1000, "with": ids["candidate"]}
    header, sides = _ask(client, f"/api/liveness/{ids['baseline']}/window", **query)
    with (
        library.opened(ids["baseline"]) as first,
        library.opened(ids["candidate"]) as second,
    ):
        pairs = align_liveness(first, second)
    assert header["n_places"] == pairs.n_places
    for side, place in zip(sides, pairs.places, strict=True):
        assert side["place"].tolist() == place.tolist()
        assert side["item"].tolist() == list(range(len(place)))
    # The last four steps are the same in both; twenty before them are only in the candidate.
    assert [side["place"][-4:].tolist() for side in sides] == [[136, 137, 138, 139]] * 2


def test_a_step_has_kind_and_name(
    client: TestClient, ids: dict[str, str], library: Library
) -> None:
    actual = client.get(f"/api/liveness/{ids['baseline']}/step/7").json()
    with library.opened(ids["baseline"]) as report:
        assert (actual["kind"], actual["name"]) == step_facts(report, 7)


@pytest.mark.parametrize(
    ("question", "status", "code"),
    [
        ("memory/{}/window?start=5&end=5&width=10", 422, "bad_question"),
        ("memory/{}/window?start=0&end=5", 422, "bad_request"),
        ("memory/{}/window?start=0&end=5&width=99999", 422, "bad_request"),
        ("memory/{}/window?start=0&end=5&width=10&breakdown=colour", 422, "bad_question"),
        ("memory/{}/window?start=0&end=5&width=10&order=up", 422, "bad_question"),
        ("memory/{}/window?start=0&end=5&width=9&breakdown=variables&var=nowhere", 422,
         "bad_question"),
        ("memory/{}/lives?tile=64", 422, "bad_question"),
        ("memory/{}/map?of=dust", 422, "bad_question"),
        ("liveness/{}/window?start=0&end=99999999999&width=10", 422, "bad_request"),
        ("liveness/{}/window?start=0&end=9&width=10&source=moon", 422, "bad_question"),
        ("liveness/{}/window?start=0&end=9&width=10&with=0123456789ab", 404, "unknown_report"),
        ("liveness/{}/step/99999", 422, "bad_question"),
        ("liveness/{}/nothing", 404, "not_found"),
    ],
)  # fmt: skip
def test_errors_are_one_sentence_in_one_shape(
    client: TestClient, ids: dict[str, str], question: str, status: int, code: str
) -> None:
    answer = client.get("/api/" + question.format(ids["baseline"]))
    assert answer.status_code == status
    failure = answer.json()
    assert set(failure) == {"ok", "code", "message", "detail"}
    assert (failure["ok"], failure["code"]) == (False, code)
    assert "Traceback" not in failure["message"]
