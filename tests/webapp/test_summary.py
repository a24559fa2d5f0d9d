"""The top of the Summary: links, cycles by phase, the costliest operations."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from dash import html
from starlette.testclient import TestClient
from tests.analyser.small_report import Shape, write_small_report
from tests.webapp.test_callbacks import Browser

from tilescope import analyser
from tilescope.analyser.memory.tile_memory import fullest_tile
from tilescope.analyser.program.operations import operations
from tilescope.analyser.time.execution import execution
from tilescope.webapp.components.markup import as_html
from tilescope.webapp.library import Library
from tilescope.webapp.pages.summary import _costliest, _headlines


@pytest.fixture
def text(client: TestClient, ids: dict[str, str]) -> str:
    answer = Browser(client).ask("summary", report=ids["pair"])
    parts = [answer[f"summary-{part}.children"] for part in ("head", "body")]
    return json.dumps(parts, ensure_ascii=False)


def test_the_bar_of_phases_is_whole(text: str) -> None:
    widths = [float(width) for width in re.findall(r'"width": "([\d.]+)%"', text)]
    assert len(widths) > 2
    assert sum(widths) == pytest.approx(100, abs=0.01)


def test_the_costliest_operations_lead_to_their_details(
    text: str, library: Library, ids: dict[str, str]
) -> None:
    with library.opened(ids["pair"]) as report:
        listed = operations(report, "model")
        first = next(iter(listed.by_key))
    assert f"op={first}&select=operation:{first}" in text
    assert f'"{listed.by_key[first].cycles:,}"' in text
    assert '", in 1 recorded run"' in text
    # Nothing of this report is in no operation.
    assert listed.cycles == listed.total_cycles
    assert "In no operation" not in text


def test_cycles_in_no_operation_are_told(tmp_path: Path) -> None:
    with analyser.open(write_small_report(tmp_path, Shape())) as report:
        text = as_html(html.Div(_costliest(report, {"report": "a"})))
        ran = execution(report)
        listed = operations(report, "library")
    outside = sum(ran.phase_cycles.values()) - sum(
        operation.cycles for operation in listed.operations
    )
    assert outside > 0
    assert "In no operation" in text
    assert f">{outside:,}<" in text


def test_headlines_lead_to_what_explains_them(
    text: str, library: Library, ids: dict[str, str]
) -> None:
    with library.opened(ids["pair"]) as report:
        tile = fullest_tile(report).tile_id
    assert f"/memory?report={ids['pair']}&tiles={tile}" in text
    assert f"/trace?report={ids['pair']}" in text
    assert "not fit" not in text


def test_a_program_that_does_not_fit_leads_to_what_makes_it_fit(tmp_path: Path) -> None:
    with analyser.open(write_small_report(tmp_path, Shape(bytes_per_tile=250))) as report:
        text = as_html(html.Div(_headlines(report, {"report": "a"})))
    assert "5 tiles do not fit" in text
    assert "/insights?report=a" in text
