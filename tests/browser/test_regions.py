"""The tab of regions: its choice is in the address, and a row leads to its place."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

Visit = Callable[..., Page]


def test_regions_are_chosen_and_shown_in_the_trace(visit: Visit) -> None:
    page = visit("/trace", report="steps", tab="regions")
    rows = page.locator("#trace-regions tbody tr")
    expect(rows.filter(has_text="fc1").first).to_be_visible()
    page.locator("#trace-by").get_by_text("Batch", exact=True).click()
    expect(page).to_have_url(re.compile(r"[?&]by=batch"))
    row = rows.filter(has_text="batch 1").first
    row.get_by_role("button").first.click()
    expect(page).to_have_url(re.compile(r"[?&]mark=\d+(:|%3A)\d+"))
    expect(page).to_have_url(re.compile(r"[?&]range=\d+(:|%3A)\d+"))
    page.reload()
    expect(rows.filter(has_text="batch 1").first).to_be_visible()
    page.get_by_role("tab", name="Stretches").click()
    expect(page.locator("#trace-by")).to_be_hidden()
