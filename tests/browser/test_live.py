"""Pages follow a report that is still being written, in a real browser."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from tests.tilescope.endings import finish, kill, running_program, write_ending


def test_a_page_follows_a_run_to_its_finished_report(
    page: Page, visitor: BrowserContext, origin: str, served_dir: Path
) -> None:
    with running_program(served_dir / "running") as process:
        running = _id_of(visitor, origin, page, "running")
        page.goto(f"{origin}/trace?report={running}")
        expect(page.locator("#live-notice")).to_contain_text("The engine is still running")
        expect(page.locator("#live-notice")).to_contain_text("last sign of life was at")
        expect(page.locator("#report-baseline option:checked")).to_contain_text("– running")
        finish(process, served_dir / "running")
    expect(page.locator("#live-notice")).to_have_count(0)
    assert f"report={running}" not in page.url


def test_a_page_says_that_a_followed_run_has_died_and_stops_following(
    page: Page, visitor: BrowserContext, origin: str, served_dir: Path
) -> None:
    with running_program(served_dir / "dying") as process:
        dying = _id_of(visitor, origin, page, "running")
        page.goto(f"{origin}/summary?report={dying}")
        expect(page.locator("#live-notice")).to_contain_text("The engine is still running")
        kill(process)
        killed_at = time.monotonic()
    expect(page.locator("#live-notice")).to_contain_text("The run ended early")
    assert time.monotonic() - killed_at < 20
    expect(page.locator("#report-baseline option:checked")).to_contain_text("– ended early")
    # It is verified now; after that nothing asks for its state any more.
    polls: list[str] = []
    page.wait_for_timeout(2_500)
    page.on("request", lambda request: polls.append(request.url))
    page.wait_for_timeout(5_000)
    assert [url for url in polls if "/state" in url] == []
    page.goto(f"{origin}/")
    expect(page.locator("html[data-filled]")).to_have_count(1)
    row = page.locator(f"tr[data-report='{dying}']")
    expect(row.locator("td[data-cell='state']")).to_have_text("ended early, fits")


def test_damage_that_the_background_finds_is_shown_on_every_page(
    page: Page, visitor: BrowserContext, origin: str, served_dir: Path
) -> None:
    path = write_ending(served_dir / "flipped", "damaged")
    flipped = _id_of(visitor, origin, page, "complete", "flipped")
    for name in ("summary", "memory", "insights"):
        page.goto(f"{origin}/{name}?report={flipped}")
        notice = page.locator("#live-notice")
        expect(notice).to_contain_text("The report is damaged: A chunk of array")
        assert str(path.parent.parent) not in notice.inner_text()
    expect(page.locator("#report-baseline option:checked")).to_contain_text("– damaged")
    page.goto(f"{origin}/")
    row = page.locator(f"tr[data-report='{flipped}']")
    expect(row.locator("td[data-cell='state']")).to_have_text("damaged, fits")


def _id_of(visitor: BrowserContext, origin: str, page: Page, state: str, label: str = "") -> str:
    """Return the id of the report in a state once the server has found it."""
    for _ in range(100):
        listed = visitor.request.get(f"{origin}/api/reports").json()["reports"]
        ids = [e["id"] for e in listed if e["state"] == state and label in e["label"]]
        if ids:
            return str(ids[0])
        page.wait_for_timeout(100)
    pytest.fail(f"the server did not list a report that is {state}")
