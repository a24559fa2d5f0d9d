"""The graph of operations in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

Visit = Callable[..., Page]


def _graph(page: Page) -> None:
    page.locator("#operations-graph[data-drawn]").wait_for(state="attached", timeout=30_000)


def _boxes(page: Page) -> int:
    return int(page.get_attribute("#operations-graph", "data-drawn") or 0)


def _place(page: Page, number: int) -> tuple[float, float]:
    """Return the middle of a box on the page, read from where the drawing lies."""
    position = page.evaluate(
        """number => {
            const root = document.getElementById('operations-graph');
            const {x, y} = tilescopeGraph.pointOf(root, number);
            const box = root.querySelector('canvas').getBoundingClientRect();
            return [box.left + x, box.top + y];
        }""",
        number,
    )
    return position[0], position[1]


def test_the_graph_is_loaded_when_it_is_opened(visit: Visit) -> None:
    page = visit("/operations", layer="model")
    expect(page.locator("#operations-list tbody tr").first).to_be_visible(timeout=30_000)
    assert page.evaluate("window.tilescopeGraph === undefined")
    page.locator("#operations-as").get_by_text("Graph").click()
    _graph(page)
    expect(page).to_have_url(re.compile("as=graph"))
    expect(page.locator("#operations-list")).to_be_hidden()
    expect(page.locator("#operations-graph .chart-note")).to_contain_text(
        re.compile(r"^\d+ boxes of [\d,]+ operations")
    )
    page.reload()
    _graph(page)


def test_groups_open_and_an_operation_is_selected_everywhere(visit: Visit) -> None:
    page = visit("/operations", layer="model", **{"as": "graph"})
    _graph(page)
    n_closed = _boxes(page)
    assert n_closed <= 60
    x, y = _place(page, 1)
    page.mouse.dblclick(x, y)
    expect(page).to_have_url(re.compile("open="))
    expect(page.locator("#operations-graph")).not_to_have_attribute("data-drawn", str(n_closed))
    assert _boxes(page) > n_closed
    page.go_back()
    expect(page.locator("#operations-graph")).to_have_attribute("data-drawn", str(n_closed))
    # The table has the same boxes; a group opens there too.
    page.locator("#operations-graph details summary").click()
    rows = page.locator("#operations-graph details tbody tr")
    expect(rows).to_have_count(n_closed)
    rows.nth(1).locator("button").click()
    expect(page.locator("#operations-graph")).not_to_have_attribute("data-drawn", str(n_closed))
    name = rows.nth(1).locator("button")
    key = name.inner_text().split(" / ")[-1]
    name.click()
    expect(page).to_have_url(re.compile(f"op={key}&?.*select=operation"))
    expect(page.locator("#selection-bar b")).to_have_text(key)
    expect(page.locator("#operation h2")).to_have_text(key)


def test_the_graph_is_used_by_keys_alone(visit: Visit) -> None:
    page = visit("/operations", layer="model", **{"as": "graph"})
    _graph(page)
    n_closed = _boxes(page)
    page.locator("#operations-graph .chart-box").focus()
    text = page.locator("#operations-graph .unseen")
    page.keyboard.press("ArrowDown")
    expect(text).to_contain_text(re.compile(r"^input … layer\d+, \d+ operations, closed, Cycles"))
    page.keyboard.press("ArrowDown")
    expect(text).to_contain_text(re.compile(r"^layer\d+ … layer\d+"))
    page.keyboard.press("Enter")
    expect(page.locator("#operations-graph")).not_to_have_attribute("data-drawn", str(n_closed))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("op=layer"))
    page.keyboard.press("Backspace")
    expect(page.locator("#operations-graph")).to_have_attribute("data-drawn", str(n_closed))
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("op="))
    page.keyboard.press("w")
    expect(page).to_have_url(re.compile(r"at=[\d.]+:[\d.]+:[\d.]+"))
    page.keyboard.press("0")
    expect(page).not_to_have_url(re.compile("at="))


@pytest.mark.parametrize("colour", ["code", "memory"])
def test_colours_and_a_candidate(visit: Visit, colour: str) -> None:
    page = visit("/operations", layer="model", colour=colour, **{"as": "graph"})
    _graph(page)
    legend = page.locator("#operations-graph .legend")
    expect(legend).to_contain_text(re.compile(r"up to [\d.,]+ [KM]iB"))
    page = visit("/operations", layer="model", with_="changed", colour=colour, **{"as": "graph"})
    _graph(page)
    expect(legend).to_contain_text(f"less {colour}")
    expect(legend).to_contain_text("lines of the candidate alone")


@pytest.mark.slow
def test_boxes_are_saved(visit: Visit) -> None:
    page = visit("/operations", layer="model", **{"as": "graph"})
    _graph(page)
    with page.expect_download() as download:
        page.locator("#operations-graph .chart-tools").get_by_text("CSV").click()
    lines = download.value.path().read_text(encoding="utf-8").splitlines()
    assert lines[0] == "Name,Kind,Operations,Cycles,Code,Memory,Reads from"
    assert len(lines) == _boxes(page) + 1
    assert lines[2].split(",")[-1] == lines[1].split(",")[0], "the second box reads from the first"
    with page.expect_download() as download:
        page.locator("#operations-graph .chart-tools").get_by_text("PNG").click()
    assert download.value.path().read_bytes()[:4] == b"\x89PNG"
