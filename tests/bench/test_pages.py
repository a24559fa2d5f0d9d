"""Time until pages of a large report show their content in a browser. Never fails on time.

A page is loaded with a cold cache, in turns with a static page of the same server (the index of the
documentation), which tells what the browser and the machine take at that time.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Request, sync_playwright
from tests.generated_report import generate_report

_ROOT = Path(__file__).parents[2]
STATIC = "/docs/"
CONTENT = {
    "/": "tr[data-report]",
    "/summary": "#summary-body .facts td",
    "/insights": "#insights-body .stacked-bar",
    "/memory": "#memory-figure canvas",
    "/liveness": "#liveness-figure canvas",
    "/programs": ".tree-row .tree-kind",
    "/operations": "#page-operations .data-table tbody tr",
    "/trace": "#trace-viewer canvas",
}
N_LOADS = 5
#: Loads of a page whose effect on the server's memory is told.
N_VIEWS = int(os.environ.get("TILESCOPE_BENCH_VIEWS", "100"))
#: When an element matches, in milliseconds after the navigation began; and when it was painted.
_WATCH = """selector => new Promise((resolve) => {
    const look = () => {
        const found = document.querySelector(selector);
        if (!found || found.offsetParent === null) requestAnimationFrame(look);
        else requestAnimationFrame(() => resolve(performance.now()));
    };
    look();
})"""


@dataclass(frozen=True)
class Server:
    """A running server."""

    link: str
    process_id: int

    @property
    def origin(self) -> str:
        return self.link.split("/?", maxsplit=1)[0]

    @property
    def resident_megabytes(self) -> float:
        """Return the memory that the server holds."""
        status = Path(f"/proc/{self.process_id}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(match[1]) / 1024 if match else float("nan")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server with a report of 1,472 tiles and 20,000 steps, or with a stated one."""
    stated = os.environ.get("TILESCOPE_BENCH_REPORT")
    path = Path(stated or generate_report(tmp_path_factory.mktemp("pages"), n_steps=20_000))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "compat")])}
    command = [sys.executable, "-m", "tilescope", "serve", str(path), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    actual = next(filter(None, (re.search(r"http://\S+", line) for line in lines)))
    yield Server(actual.group(), process.pid)
    process.send_signal(signal.SIGINT)
    process.wait(timeout=20)
    process.stderr.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return a headless browser."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium is installed")
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield browser
        browser.close()


def _tell(text: str) -> None:
    sys.stdout.write(text + "\n")


def _loaded(browser: Browser, server: Server, path: str, selector: str) -> tuple[float, float]:
    """Return seconds until a page shows content, and of the server's slowest answer, cache cold."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(f"{server.origin}/api/reports?{server.link.partition('?')[2]}")
    answers: list[float] = []
    page.on("requestfinished", lambda request: answers.append(_waited(request)))
    page.goto(server.origin + path, wait_until="commit")
    seconds = page.evaluate(_WATCH, selector) / 1e3
    context.close()
    return seconds, max(answers, default=0.0)


def _waited(request: Request) -> float:
    """Return the seconds between a request and the first byte of its answer."""
    timing = request.timing
    return max(timing["responseStart"] - timing["requestStart"], 0.0) / 1e3


def test_pages_beside_a_static_page(browser: Browser, server: Server) -> None:
    for path, selector in CONTENT.items():  # the server has seen every page once
        _loaded(browser, server, path, selector)
    _tell(f"\n{'page':12} {'content':>9} {'static':>9} {'ratio':>6} {'slowest answer':>15}")
    for path, selector in CONTENT.items():
        ours, static, answers = [], [], []
        for _ in range(N_LOADS):
            seconds, answer = _loaded(browser, server, path, selector)
            ours.append(seconds)
            answers.append(answer)
            static.append(_loaded(browser, server, STATIC, ".document h1")[0])
        used, base = statistics.median(ours), statistics.median(static)
        answer = statistics.median(answers)
        _tell(f"{path:12} {used:7.2f} s {base:7.2f} s {used / base:6.1f} {1e3 * answer:12.0f} ms")


def test_from_the_menu(browser: Browser, server: Server) -> None:
    page = _opened(browser, server)
    _tell(f"\n{'from the menu':14} {'first visit':>12} {'again':>9}")
    for path, selector in list(CONTENT.items())[2:]:
        used = []
        for _ in range(2):
            page.click('.menu-link[data-path="/summary"]')
            page.wait_for_selector(CONTENT["/summary"])
            began = page.evaluate("performance.now()")
            page.click(f'.menu-link[data-path="{path}"]')
            used.append((page.evaluate(_WATCH, selector) - began) / 1e3)
        _tell(f"{path:14} {used[0]:10.2f} s {used[1]:7.2f} s")
    page.context.close()


def test_memory_of_the_server(browser: Browser, server: Server) -> None:
    page = _opened(browser, server)
    held = [server.resident_megabytes]
    paths = [path for path in CONTENT if path != "/"]
    for part in range(4):
        for view in range(N_VIEWS // 4):
            path = paths[(part + view) % len(paths)]
            page.goto(server.origin + path, wait_until="commit")
            page.evaluate(_WATCH, CONTENT[path])
        held.append(server.resident_megabytes)
    page.context.close()
    notes = ", ".join(f"{megabytes:.0f}" for megabytes in held)
    _tell(f"\nmemory of the server over {N_VIEWS} views of pages, in quarters: {notes} MB")


def _opened(browser: Browser, server: Server) -> Page:
    """Return a page that has opened the report."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.goto(server.link)
    page.goto(server.origin + "/summary")
    page.wait_for_selector(CONTENT["/summary"])
    return page
