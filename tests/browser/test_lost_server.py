"""What a page says when its server stops, starts again, or does not know what is asked for."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.browser.conftest import running_server
from tests.generated_report import generate_report

Visit = Callable[..., Page]


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.mark.slow
def test_a_stopped_server_is_said_and_a_restarted_one_goes_on(
    chromium: Browser, tmp_path: Path
) -> None:
    generate_report(tmp_path / "small", n_tiles=16, n_steps=40, n_variables=20)
    port = free_port()
    context = chromium.new_context()
    page = context.new_page()
    with running_server(tmp_path, port) as (link, process):
        page.goto(link)
        page.goto(f"http://127.0.0.1:{port}/summary")
        expect(page.locator("#summary-body")).to_contain_text("cycles")
        process.send_signal(signal.SIGINT)
        process.wait(timeout=20)
    page.locator('.menu-link[data-path="/memory"]').click()
    notice = page.locator("#server-notice")
    expect(notice).to_contain_text("The server does not answer")
    with running_server(tmp_path, port):
        expect(notice).to_contain_text("The server answers again")
        notice.get_by_role("button", name="Reload").click()
        # The token outlives the restart.
        expect(page.locator("#page-memory")).to_contain_text("on the tile")
        expect(notice).to_have_count(0)
        # A colleague opens the address of this page.
        stranger = chromium.new_context().new_page()
        stranger.goto(page.url)
        expect(stranger.locator("body")).to_contain_text("These reports are behind a token")
        stranger.get_by_label("Token").fill(link.partition("token=")[2])
        stranger.get_by_role("button", name="Open").click()
        expect(stranger).to_have_url(re.compile(r"/memory"))
        expect(stranger.locator("#page-memory")).to_contain_text("on the tile")
        stranger.context.close()
    context.close()


def test_a_selection_that_does_not_exist_is_said(visit: Visit) -> None:
    page = visit("/memory", select="tile:999999")
    bar = page.locator("#selection-bar")
    expect(bar).to_contain_text("Selection not found")
    expect(bar).to_contain_text("The report has no tile 999,999")
    bar.get_by_label("Clear the selection").click()
    expect(bar).to_be_hidden()
    expect(page).not_to_have_url(re.compile("select="))


def test_a_step_that_does_not_exist_is_said_in_the_trace(visit: Visit) -> None:
    page = visit("/trace", at="step:99999999")
    expect(page.locator("#page-trace")).to_contain_text("step 99999999 does not exist")
