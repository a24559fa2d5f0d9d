"""The top of the Summary: links, cycles by phase, the costliest operations."""

from __future__ import annotations

import json
import re

import pytest
from starlette.testclient import TestClient
from tests.webapp.test_callbacks import Browser

from tilescope.analyser.operations import operations
from tilescope.analyser.tile_memory import fullest_tile
from tilescope.webapp.library import Library


@pytest.fixture
def text(client: TestClient, ids: dict[str, str]) -> str:
    answer = Browser(client).ask("summary", report=ids["pair"])
    return json.dumps(answer["summary-body.children"], ensure_ascii=False)


def test_the_bar_of_phases_is_whole(text: str) -> None:
    widths = [float(width) for width in re.findall(r'"width": "([\d.]+)%"', text)]
    assert len(widths) > 2
    assert sum(widths) == pytest.approx(100, abs=0.01)


def test_the_costliest_operations_lead_to_their_details(
    text: str, library: Library, ids: dict[str, str]
) -> None:
    with library.opened(ids["pair"]) as report:
        listed = operations(report, "onnx")
        first = next(iter(listed.by_key))
    assert f"op={first}&select=operation:{first}" in text
    assert f'"{listed.by_key[first].cycles:,}"' in text


def test_headlines_lead_to_what_explains_them(
    text: str, library: Library, ids: dict[str, str]
) -> None:
    with library.opened(ids["pair"]) as report:
        tile = fullest_tile(report).tile_id
    assert f"/memory?report={ids['pair']}&tiles={tile}" in text
    assert f"/trace?report={ids['pair']}" in text
