"""The frame: home page, mounting, palette, selection on all pages, small scripts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from tests.browser.conftest import running_server
from tests.generated_report import generate_report

Visit = Callable[..., Page]


def test_the_home_page_lists_the_reports_with_their_figures(
    page: Page, origin: str, ids: dict[str, str]
) -> None:
    page.goto(origin + "/")
    lines = page.locator("tr[data-report]")
    expect(lines).to_have_count(len([name for name in ids if name != "demo"]))
    pair = lines.filter(has_text="pair")
    expect(pair).to_contain_text("gc200 × 2")
    pair.locator('[data-cell="tile"] a').click()
    expect(page).to_have_url(
        re.compile(rf"/memory\?report={ids['pair']}&tiles=\d+&select=tile:\d+")
    )
    expect(page.locator("#selection-bar")).to_contain_text("holds")


def test_two_ticked_reports_are_compared(page: Page, origin: str, ids: dict[str, str]) -> None:
    page.goto(origin + "/")
    page.fill("#reports-find", "changed")
    lines = page.locator("tr[data-report]:visible")
    expect(lines).to_have_count(1)
    lines.first.locator("input").check()
    expect(page.locator("#compare-note")).to_contain_text("is the baseline")
    page.fill("#reports-find", "large")
    expect(lines).to_have_count(1)
    lines.first.locator("input").click()
    expect(page).to_have_url(re.compile(rf"/summary\?report={ids['changed']}&with={ids['large']}"))
    expect(page.locator("#summary-changes")).to_contain_text("What changed")
    page.goto(origin + "/")
    expect(page.locator("#recent-list")).to_contain_text("→")


def test_the_demo_report_opens_from_the_home_page(page: Page, origin: str) -> None:
    page.goto(origin + "/")
    page.get_by_text("Open the demo report").click()
    expect(page.locator("#summary-body")).to_contain_text("mnist-8")


def test_a_page_is_mounted_on_its_first_visit_and_kept(visit: Visit) -> None:
    page = visit("/summary")
    expect(page.locator("#summary-body .facts td").first).to_be_visible()
    assert page.locator("#page-operations").inner_html() == ""
    page.locator('.menu-link[data-path="/programs"]').click()
    expect(page.locator(".tree-row").first).to_be_visible()
    page.evaluate("document.getElementById('program-tree').dataset.kept = '1'")
    page.locator('.menu-link[data-path="/summary"]').click()
    expect(page.locator("#program-tree")).to_be_hidden()
    page.locator('.menu-link[data-path="/programs"]').click()
    expect(page.locator('#program-tree[data-kept="1"]')).to_be_visible()


def test_the_palette_goes_to_a_step_and_selects_it_everywhere(visit: Visit) -> None:
    page = visit("/summary")
    expect(page.locator("#summary-body .facts td").first).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("step 12")
    expect(page.locator('.palette-row[aria-selected="true"]')).to_contain_text("Step 12")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/trace\?.*select=step:12"))
    bar = page.locator("#selection-bar")
    expect(bar.locator("b")).to_have_text("Step 12")
    bar.get_by_role("link", name="Program Tree").click()
    expect(page).to_have_url(re.compile(r"/programs\?.*node=\d+"))
    expect(page.locator("#programs-details h2")).to_be_visible()
    expect(bar.locator("b")).to_have_text("Step 12")
    page.locator('.menu-link[data-path="/liveness"]').click()
    expect(page).to_have_url(re.compile(r"/liveness\?.*step=12"))
    expect(bar.locator("b")).to_have_text("Step 12")
    bar.get_by_role("button").click()
    expect(bar).to_be_hidden()
    expect(page).not_to_have_url(re.compile("select="))


def test_the_palette_lists_pages_and_closes(visit: Visit) -> None:
    page = visit("/summary")
    expect(page.locator("#summary-body .facts td").first).to_be_visible()
    page.keyboard.press("Control+k")
    rows = page.locator(".palette-row")
    expect(rows.first).to_contain_text("Summary")
    page.keyboard.type("no such thing at all")
    expect(page.locator("#palette-note")).to_have_text("No match.")
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()


def test_the_palette_of_the_home_page_says_that_tiles_are_those_of_a_report(
    page: Page, origin: str
) -> None:
    page.goto(origin + "/")
    page.keyboard.press("Control+k")
    page.keyboard.type("tile 3")
    expect(page.locator("#palette-note")).to_contain_text("open one first")


def test_a_narrow_list_of_reports_keeps_what_tells_whether_they_fit(
    page: Page, origin: str
) -> None:
    page.goto(origin + "/")
    page.set_viewport_size({"width": 1024, "height": 768})
    expect(page.locator("html[data-filled]")).to_be_attached()
    expect(page.locator('[data-cell="state"]').last).to_be_in_viewport(ratio=1)
    expect(page.locator('[data-cell="written"]').last).to_be_hidden()


@pytest.mark.parametrize(
    ("path", "most_kilobytes"), [("/", 300), ("/summary", 600), ("/operations", 600)]
)
def test_scripts_are_small(
    visitor: BrowserContext, origin: str, path: str, most_kilobytes: int
) -> None:
    page = visitor.new_page()
    session = visitor.new_cdp_session(page)
    session.send("Network.enable")
    session.send("Network.setCacheDisabled", {"cacheDisabled": True})
    scripts: set[str] = set()
    received: dict[str, int] = {}

    def note(event: dict[str, object]) -> None:
        if event["type"] == "Script":
            scripts.add(str(event["requestId"]))

    session.on("Network.responseReceived", note)
    session.on(
        "Network.loadingFinished",
        lambda event: received.__setitem__(event["requestId"], event["encodedDataLength"]),
    )
    page.goto(origin + path)
    page.wait_for_load_state("networkidle")
    if path == "/operations":
        expect(page.locator(".data-table tbody tr").first).to_be_visible()
    page.close()
    assert (
        sum(received[script] for script in scripts if script in received) < 1_000 * most_kilobytes
    )


def test_of_very_many_reports_every_one_is_found(chromium: Browser, tmp_path: Path) -> None:
    file = generate_report(tmp_path / "run-000", n_tiles=8, n_steps=24, n_variables=5, seed=1)
    for number in range(1, 230):
        (tmp_path / f"run-{number:03}").mkdir()
        os.link(file, tmp_path / f"run-{number:03}" / file.name)
    with running_server(tmp_path) as (link, _):
        page = chromium.new_page()
        page.goto(link)
        lines = page.locator("tr[data-report]")
        expect(lines).to_have_count(200)
        expect(page.locator("#reports-note")).to_have_text("The first 200 of 230 reports")
        page.fill("#reports-find", "run-22")
        expect(page.locator("#reports-note")).to_have_text("10 of 230 reports")
        expect(lines).to_have_count(10)
        expect(page).to_have_url(re.compile(r"find=run-22"))
        expect(lines.first.locator('[data-cell="cycles"] a')).to_be_visible()
        lines.filter(has_text="run-229").locator("input").check()
        page.fill("#reports-find", "run-111")
        expect(lines).to_have_count(1)
        lines.locator("input").click()
        expect(page).to_have_url(re.compile(r"/summary\?report=\w+&with=\w+"))
        expect(page.locator("#summary-changes")).to_contain_text("What changed")
        assert "run-229" in page.locator("#report-baseline option:checked").inner_text()
        page.keyboard.press("Control+k")
        page.keyboard.type("run-228")
        expect(page.locator('.palette-row[aria-selected="true"]')).to_contain_text("run-228")
        page.keyboard.press("Enter")
        expect(page.locator("#report-baseline option:checked")).to_contain_text("run-228")
        page.goto(link.split("/?")[0])
        expect(page.locator("#recent-list")).to_contain_text("run-229")
        page.close()
