"""Time until pages of a large report show their content in a browser. Never fails on time."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import pytest
from playwright.sync_api import Page, sync_playwright
from tests.generated_report import generate_report

_ROOT = Path(__file__).parents[2]
CONTENT = {
    "/summary": "#summary-body .facts td",
    "/memory": "#memory-figure [data-drawn]",
    "/liveness": "#liveness-figure [data-drawn]",
    "/programs": ".tree-row .tree-kind",
    "/trace": "canvas",
}


@pytest.fixture(scope="module")
def link(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the link of a server with a report of 1,472 tiles and 20,000 steps."""
    path = generate_report(tmp_path_factory.mktemp("pages"), n_steps=20_000)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "compat")])}
    command = [sys.executable, "-m", "tilescope", "serve", str(path), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    found = next(filter(None, (re.search(r"http://\S+", line) for line in lines)))
    yield found.group()
    process.send_signal(signal.SIGINT)
    process.wait(timeout=20)
    process.stderr.close()


@pytest.fixture(scope="module")
def page(link: str) -> Iterator[Page]:
    """Return a browser page that has opened the link."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium is installed")
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(link)
        page.wait_for_selector(CONTENT["/summary"], state="attached")
        yield page
        browser.close()


def _told(what: str, path: str, seconds: float) -> None:
    print(f"\n{what:24} {path:10} {seconds:6.2f} s")  # noqa: T201 - a bench is there for its lines


def test_from_the_menu(page: Page) -> None:
    page.wait_for_timeout(1500)
    for what in ("first visit from the menu", "again"):
        for path in ("/memory", "/liveness", "/programs", "/trace", "/summary"):
            start = perf_counter()
            page.click(f'.menu-link[href^="{path}"]')
            page.wait_for_selector(CONTENT[path], state="visible")
            _told(what, path, perf_counter() - start)


def test_loaded_anew(page: Page, link: str) -> None:
    origin = link.split("/?", maxsplit=1)[0]
    for path, content in CONTENT.items():
        start = perf_counter()
        page.goto(origin + path, wait_until="commit")
        page.wait_for_selector(content, state="attached")
        _told("page loaded anew", path, perf_counter() - start)
