"""What a page shows is in its address: orders, opened branches; saved files name the report."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

Visit = Callable[..., Page]


def test_the_order_of_a_table_is_in_the_address(visit: Visit) -> None:
    page = visit("/memory", report="pair", tab="variables")
    head = page.locator("#memory-variables th, .data-table th").filter(has_text="Type").first
    head.get_by_role("button").click()
    expect(page).to_have_url(re.compile(r"[?&]sort=variables:dtype:up"))
    expect(head).to_have_attribute("aria-sort", "ascending")
    first = page.locator(".data-table tbody tr").first.inner_text()
    page.reload()
    head = page.locator(".data-table th").filter(has_text="Type").first
    expect(head).to_have_attribute("aria-sort", "ascending")
    expect(page.locator(".data-table tbody tr").first).to_have_text(
        re.compile(re.escape(first.split()[0]))
    )


def test_opened_branches_are_in_the_address(visit: Visit) -> None:
    page = visit("/programs")
    closed = page.locator('.tree-row[aria-expanded="false"]')
    expect(closed.first).to_be_visible()
    closed.nth(1).locator(".tree-arrow").click()
    expect(page).to_have_url(re.compile(r"[?&]open=[\d,]+"))
    rows = page.locator('.tree-row[aria-expanded="true"]')
    n_open = rows.count()
    page.reload()
    expect(rows).to_have_count(n_open)
    opened = page.url
    rows.first.locator(".tree-arrow").click()
    expect(page).to_have_url(re.compile(r"[?&]open=none"))
    page.goto(opened)
    expect(rows).to_have_count(n_open)


def test_a_saved_table_names_the_report(visit: Visit) -> None:
    page = visit("/memory", report="pair", tab="variables")
    with page.expect_download() as table:
        page.get_by_text("Save CSV").first.click()
    assert table.value.suggested_filename.endswith("pair-variables.csv")


def test_the_filter_of_the_reports_is_in_the_address(visit: Visit) -> None:
    page = visit("/")
    rows = page.locator("tr[data-report]:visible")
    n_reports = rows.count()
    page.get_by_placeholder("Name, model or machine").fill("pair")
    expect(rows).to_have_count(1)
    expect(page).to_have_url(re.compile(r"[?&]find=pair"))
    page.reload()
    expect(rows).to_have_count(1)
    expect(page.locator("#reports-note")).to_have_text(f"1 of {n_reports} reports")
    page.get_by_placeholder("Name, model or machine").fill("")
    expect(rows).to_have_count(n_reports)
    expect(page).not_to_have_url(re.compile("find="))
