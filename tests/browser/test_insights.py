"""Insights and the reasons on Operations in a browser."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from tests.analyser.small_report import Shape, write_small_report

Visit = Callable[..., Page]

OPERATIONS = '.data-table[aria-label="Operations"]'


@pytest.fixture(scope="module")
def too_large(served_dir: Path, visitor: BrowserContext, origin: str) -> str:
    """Return the id of a served report that does not fit."""
    write_small_report(served_dir / "too_large", Shape(bytes_per_tile=250))
    for _ in range(20):  # the listing is looked at again every two seconds
        for entry in visitor.request.get(f"{origin}/api/reports").json()["reports"]:
            if entry["label"].endswith("too_large"):
                return str(entry["id"])
        time.sleep(0.5)
    raise AssertionError("the report is not listed")


def test_a_cause_of_the_ledger_leads_to_its_operation(visit: Visit) -> None:
    page = visit("/insights", "demo")  # written by the engine: its steps belong to library calls
    ledger = page.locator("#insights-ledger .ledger")
    expect(ledger.locator("tbody tr").last).to_contain_text("Total")
    expect(ledger.locator(".ledger-bar").first).to_be_visible()
    cause = ledger.locator('.page-link[href*="op="]').first
    name = cause.inner_text()
    cause.click()
    expect(page).to_have_url(re.compile(r"/operations\?"))
    expect(page.locator("#operation .verdict")).to_contain_text(name)


def test_an_insight_leads_to_the_trace(visit: Visit) -> None:
    page = visit("/insights", "pair")
    page.locator("#insights-ranking .page-link", has_text="Trace").first.click()
    expect(page).to_have_url(re.compile(r"/trace\?.*at=step:\d+"))


def test_two_reports_are_compared(visit: Visit) -> None:
    page = visit("/insights", "large", with_="changed")
    expect(page.locator("#insights-ledger .ledger-pair").first).to_be_visible()
    expect(page.locator("#insights-body .fullest-tiles")).to_have_count(2)
    expect(page.locator("#insights-body")).to_contain_text("Difference")
    expect(page.locator("#insights-remedies summary")).to_have_count(2)


def test_remedies_of_a_report_that_does_not_fit(
    page: Page, origin: str, too_large: str, visitor: BrowserContext
) -> None:
    visitor.grant_permissions(["clipboard-read", "clipboard-write"], origin=origin)
    page.goto(f"{origin}/insights?report={too_large}")
    card = page.locator("#insights-remedies .fit-card")
    expect(card).to_have_attribute("open", "")
    expect(card).to_contain_text("5 of 8 tiles lack memory")
    expect(card.locator(".remedy-mark")).to_have_count(2)
    card.locator(".page-link", has_text="tile 0").first.click()
    expect(page.locator("#memory-tiles")).to_have_value("0")


def test_why_an_operation_takes_its_time(visit: Visit) -> None:
    page = visit("/operations", "pair")
    page.locator(f"{OPERATIONS} .row-button").first.click()
    expect(page.locator("#operation .verdict")).to_contain_text("cycles")
    expect(page.locator("#operation .why-table tbody tr").last).to_contain_text("Sum")
    tile = page.locator("#operation .why .page-link[href*='tiles=']").first
    tile.click()
    expect(page).to_have_url(re.compile(r"/memory\?.*tiles=\d+"))


def test_tabs_stay_with_another_operation(visit: Visit) -> None:
    page = visit("/operations", "demo")
    rows = page.locator(f"{OPERATIONS} .row-button")
    rows.nth(0).click()
    page.get_by_role("tab", name="Cycles").click()
    expect(page.locator("#operation-cycles .by-step tbody tr").first).to_be_visible()
    first = page.locator("#operation-cycles h2").inner_text()
    rows.nth(1).click()
    expect(page.locator("#operation-cycles h2")).not_to_have_text(first)
    expect(page).to_have_url(re.compile("tab=cycles"))


def test_columns_are_chosen_in_the_address(visit: Visit) -> None:
    page = visit("/operations", "demo", columns="cycles,steps")
    heads = page.locator(f"{OPERATIONS} th")
    expect(heads).to_have_text(["Operation", "Cycles", "Steps"])
    page.locator("#operations-columns-field .mantine-Pill-remove").first.click()
    expect(heads).to_have_text(["Operation", "Steps"])
    expect(page).to_have_url(re.compile(r"columns=steps(&|$)"))
