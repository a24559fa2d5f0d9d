"""The tile map and the memory map over time in a real browser, and the life of a variable."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import FloatRect, Page, expect

Visit = Callable[..., Page]


def _box(page: Page) -> FloatRect:
    box = page.locator(".chart-box:visible").bounding_box()
    assert box is not None
    return box


def test_a_tile_is_selected_on_the_map(visit: Visit) -> None:
    page = visit("/memory", graph="map")
    figure = page.locator("#memory-figure [data-drawn='Memory held']")
    figure.wait_for(state="attached")
    box = _box(page)
    page.mouse.move(box["x"] + 40, box["y"] + 60)
    tooltip = page.locator(".chart-tooltip:visible")
    expect(tooltip).to_contain_text(re.compile(r"Tile [\d,]+ · IPU 0, row \d+, column \d+"))
    tile = re.search(r"Tile ([\d,]+)", tooltip.inner_text())
    assert tile is not None
    page.mouse.click(box["x"] + 40, box["y"] + 60)
    number = tile.group(1).replace(",", "")
    expect(page.locator("#memory-details thead")).to_contain_text(f"Tile {number}")
    expect(page).to_have_url(re.compile(f"tiles={number}"))
    page.locator("#memory-of").click()
    page.get_by_role("option", name="Vertex code").click()
    expect(page.locator("#memory-figure .chart-note:visible")).to_contain_text(
        "Vertex code by tile"
    )
    expect(page.locator("#memory-figure .legend:visible")).to_contain_text("up to")
    page.locator(".chart-box:visible").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".chart-box:visible")).to_have_attribute(
        "aria-valuetext", re.compile(r"^Tile [\d,]+ · IPU 0, row .*Vertex code [\d.]+ KiB")
    )


def test_a_variable_is_selected_on_the_map_over_time(visit: Visit) -> None:
    page = visit("/memory", graph="lives", tiles="7")
    page.locator("#memory-figure [data-drawn]").wait_for(state="attached")
    expect(page.locator("#memory-figure .chart-note:visible")).to_contain_text("Tile 7:")
    expect(page.locator("#memory-figure .legend:visible")).to_contain_text("Code and state")
    plot = page.locator(".chart-box:visible")
    plot.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(plot).to_have_attribute(
        "aria-valuetext", re.compile(r"^Step 0, \d+ blocks: \S+, .*Address 0x")
    )
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"[?&]var=\S+"))


def test_a_tile_map_of_two_reports_shows_the_difference(visit: Visit) -> None:
    page = visit("/memory", graph="map", with_="changed")
    note = page.locator("#memory-figure .chart-note:visible")
    expect(note).to_contain_text("Memory held, candidate minus baseline")
    legend = page.locator("#memory-figure .legend:visible")
    expect(legend).to_contain_text("less")
    expect(legend).to_contain_text("no change")
    page.locator(".chart-box:visible").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".chart-box:visible")).to_have_attribute(
        "aria-valuetext", re.compile(r"Memory held [+−±]")
    )
    page.locator("#memory-shows").get_by_text("Candidate").click()
    expect(page).to_have_url(re.compile(r"[?&]shows=candidate"))
    expect(note).to_contain_text("Memory held of the candidate")


def test_memory_over_time_of_two_reports_moves_together(visit: Visit) -> None:
    page = visit("/memory", graph="lives", tiles="7", with_="changed")
    plots = page.locator("#memory-figure .chart:visible")
    expect(plots).to_have_count(2)
    expect(plots.nth(0).locator(".chart-side")).to_have_text("Baseline")
    expect(plots.nth(1).locator(".chart-side")).to_have_text("Candidate")
    expect(plots.nth(1)).to_have_attribute("data-drawn", re.compile(r"\d+"))
    expect(plots.nth(0)).to_have_attribute("data-drawn", re.compile(r"\d+"))
    plots.nth(1).get_by_role("button", name="Zoom in (W)").click()
    expect(page).to_have_url(re.compile(r"[?&]x="))
    box = plots.nth(0).locator(".chart-box")
    box.focus()
    page.keyboard.press("ArrowRight")
    expect(box).to_have_attribute(
        "aria-valuetext", re.compile(r"^Place [\d,]+ \(baseline (step|has)[^,]*, candidate ")
    )


@pytest.mark.parametrize("graph", ["tiles", "map", "lives"])
@pytest.mark.parametrize("width", [1024, 2560])
def test_a_graph_takes_the_width(visit: Visit, graph: str, width: int) -> None:
    page = visit("/memory", graph=graph)
    page.set_viewport_size({"width": width, "height": 900})
    page.locator("#memory-figure [data-drawn]").wait_for(state="attached")
    expect(page.locator(".chart-box:visible")).to_be_visible()
    assert _box(page)["width"] > width - 300


def test_the_life_of_a_variable_is_drawn_on_the_graph(visit: Visit) -> None:
    page = visit("/liveness")
    row = page.locator("#liveness-tab-step tbody tr").first
    cell = row.locator("td").first
    expect(cell).to_have_text(re.compile("/"), timeout=30_000)
    name = cell.inner_text()
    row.locator("td").last.locator("button").click()
    expect(page.locator("#liveness-figure .legend")).to_contain_text(f"Life of {name}")
    expect(page).to_have_url(re.compile("var="))
    expect(cell).to_have_text(name)
