"""Pages follow a report that is still being written, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tilescope.reports import ReportWriter


def test_a_page_follows_a_run_to_its_finished_report(
    page: Page, visitor: BrowserContext, origin: str, served_dir: Path
) -> None:
    writer = ReportWriter.create(served_dir / "running")
    writer.commit("created")
    try:
        running = _id_of(visitor, origin, page)
        page.goto(f"{origin}/trace?report={running}")
        expect(page.locator("#live-notice")).to_contain_text("still being written")
    finally:
        writer.finish()
    expect(page.locator("#live-notice")).to_have_count(0)
    assert f"report={running}" not in page.url


def _id_of(visitor: BrowserContext, origin: str, page: Page) -> str:
    """Return the id of the incomplete report once the server has found it."""
    for _ in range(100):
        listed = visitor.request.get(f"{origin}/api/reports").json()["reports"]
        found = [entry["id"] for entry in listed if not entry["is_complete"]]
        if found:
            return str(found[0])
        page.wait_for_timeout(100)
    pytest.fail("the server did not list the running report")
