"""Memory by purpose in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

Visit = Callable[..., Page]


def test_memory_is_stacked_by_what_it_is_needed_for(visit: Visit) -> None:
    page = visit("/liveness", "steps")
    figure = page.locator("#liveness-figure")
    expect(figure.locator(".legend:visible")).not_to_contain_text("Optimiser state")
    expect(page.locator("#liveness-headlines")).to_contain_text(
        re.compile(r"of activations when the backward pass begins, step \d+")
    )
    page.get_by_role("switch", name="By purpose").click()
    expect(page).to_have_url(re.compile("purpose=1"))
    for label in ("Gradients", "Activations", "Working memory"):
        expect(figure.locator(".legend:visible")).to_contain_text(label)
    page.get_by_role("switch", name="Include always live").click()
    for label in ("Weights", "Optimiser state", "Code"):
        expect(figure.locator(".legend:visible")).to_contain_text(label)
    figure.locator(".chart-box:visible").focus()
    page.keyboard.press("ArrowRight")
    expect(figure.locator(".chart-box:visible")).to_have_attribute(
        "aria-valuetext", re.compile(r"Weights 640 B")
    )


def test_a_report_without_purposes_says_so(visit: Visit) -> None:
    page = visit("/liveness", "pair", purpose="1")
    expect(page.locator("#liveness-note")).to_contain_text("does not say what memory is needed for")
