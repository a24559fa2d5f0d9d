"""A running server and a headless browser; skipped without Chromium."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)
from tests.generated_report import generate_report
from tests.training_report import training_report

#: A page takes four seconds to start on two busy cores.
expect.set_options(timeout=20_000)

_ROOT = Path(__file__).parents[2]
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
]


def _chromium() -> str | None:
    """Return the path of a Chromium, None if there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next((path for path in map(shutil.which, names) if path), None)


@pytest.fixture(scope="session")
def served_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory: a large report, a changed one, others of two IPUs and of a training."""
    root = tmp_path_factory.mktemp("served")
    generate_report(root / "rewritten", n_tiles=16, n_steps=40, n_variables=20)
    generate_report(root / "large", n_steps=20_000, seed=1)
    generate_report(root / "changed", n_steps=20_000, seed=2)
    generate_report(
        root / "trained", n_tiles=32, n_steps=80, n_variables=40, n_training_steps=100_000
    )
    shutil.copytree(training_report(momentum=0.9, n_rounds=2), root / "steps")
    generate_report(root / "pair", n_tiles=32, n_ipus=2, n_steps=80, n_variables=40, seed=3)
    return root


@contextmanager
def running_server(place: Path, port: int = 0) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run ``tilescope serve`` and yield the link that it printed, and its process."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "compat")]),
    }
    command = [sys.executable, "-m", "tilescope", "serve", str(place), "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    lines = []
    actual = None
    for line in process.stderr:
        lines.append(line)
        actual = re.search(r"http://\S+\?token=\S+", line)
        if actual:
            break
    assert actual, "".join(lines)
    yield actual.group(), process
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=20)
    process.stderr.close()


@pytest.fixture(scope="session")
def link(served_dir: Path) -> Iterator[str]:
    """Return the link of a server that all tests share."""
    with running_server(served_dir) as (actual, _):
        yield actual


@pytest.fixture(scope="session")
def origin(link: str) -> str:
    """Return the server's scheme, host and port."""
    return link.split("/?", maxsplit=1)[0]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Return a headless browser."""
    path = _chromium()
    if path is None:
        pytest.skip("no Chromium is installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def visitor(chromium: Browser, link: str) -> Iterator[BrowserContext]:
    """Return a browser session that has opened the link."""
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(link)
    assert "token" not in page.url
    page.close()
    yield context
    context.close()


@pytest.fixture(scope="session")
def ids(visitor: BrowserContext, origin: str) -> dict[str, str]:
    """Return the ids of the reports by directory name."""
    answer = visitor.request.get(f"{origin}/api/reports").json()
    return {entry["label"].rsplit("/", 1)[-1]: entry["id"] for entry in answer["reports"]}


@pytest.fixture
def page(visitor: BrowserContext, origin: str) -> Iterator[Page]:
    """Return a page that must log no console errors and load nothing from outside."""
    page = visitor.new_page()
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        """Note errors; an answer refused since its file changed is what a page then reports."""
        if message.type == "error" and "409 (Conflict)" not in message.text:
            complaints.append(message.text)

    page.on("console", note)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "request",
        lambda request: (
            None
            if request.url.startswith((origin + "/", "data:", "blob:"))
            else complaints.append(f"outside: {request.url}")
        ),
    )
    yield page
    page.close()
    assert complaints == []


@pytest.fixture
def visit(page: Page, origin: str, ids: dict[str, str]) -> Callable[..., Page]:
    """Return a function that opens a page by path, report name and parameters."""

    def go(path: str, report: str = "large", **parameters: str) -> Page:
        if path == "/":  # with a report, it leads to that report's summary
            page.goto(f"{origin}/")
            return page
        if "with_" in parameters:
            parameters["with"] = ids[parameters.pop("with_")]
        query = "".join(f"&{name}={value}" for name, value in parameters.items())
        page.goto(f"{origin}{path}?report={ids[report]}{query}")
        return page

    return go
