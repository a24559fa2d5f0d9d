"""Two reports in the trace and the difference flame, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

VIEWER = "document.getElementById('trace-viewer').viewer"


def wait_until(page: Page, expression: str) -> None:
    """Wait for an expression; the page forbids ``eval``, which Playwright's own wait needs."""
    for _ in range(600):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(30)
    pytest.fail(f"{expression} stayed false")


def test_rows_of_two_reports_share_axis_zoom_and_address(visit: Callable[..., Page]) -> None:
    page = visit("/trace", with_="changed")
    expect(page.locator(".trace-side")).to_have_text(["baseline", "candidate"])
    wait_until(page, f"{VIEWER}.firstPaint && {VIEWER}.data.size >= 2")
    full = page.evaluate(f"{VIEWER}.extent.end")
    page.locator(".trace-page").get_by_text("Cycle", exact=True).click()
    wait_until(page, f"{VIEWER}.pair.endsWith(' cycle') && {VIEWER}.extent")
    assert page.evaluate(f"{VIEWER}.extent.end") < full
    assert "align=cycle" in page.url
    page.keyboard.press("w")
    wait_until(page, "location.search.includes('range=')")
    expect(page.locator("#trace-summary")).to_contain_text("IPU 0, candidate")


def test_the_difference_is_zoomed_by_a_click_and_restored(visit: Callable[..., Page]) -> None:
    page = visit("/trace", with_="changed", view="difference")
    expect(page.locator(".flame-note")).to_contain_text("All steps · baseline")
    box = page.locator(".flame-box")
    box.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    wait_until(page, "location.search.includes('node=')")
    expect(page.locator(".flame-trail .flame-level")).to_have_text("All steps")
    name = page.locator(".flame-trail strong").inner_text()
    page.reload()
    expect(page.locator(".flame-trail strong")).to_have_text(name)
    page.locator(".flame-trail .flame-level").click()
    expect(page.locator(".flame-note")).to_contain_text(re.compile("^All steps"))


def test_one_report_has_no_difference_to_choose(visit: Callable[..., Page]) -> None:
    page = visit("/trace", view="difference")
    expect(page.locator(".trace-note").first).to_contain_text("cycles from")
    expect(page.locator("#trace-view input[value=flame] + label")).to_be_visible()
    expect(page.locator("#trace-view input[value=difference] + label")).to_be_hidden()
