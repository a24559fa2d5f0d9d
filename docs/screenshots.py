"""``python -m docs.screenshots``: take the pictures of all views for the documentation.

Runs a model, again in half, and as a pipeline over two IPUs, serves the reports, and opens every
view in a headless Chromium.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

_IMAGES = Path(__file__).parent / "images"
_MODEL = "opennsfw"
_WIDTH, _HEIGHT = 1440, 900


@dataclass(frozen=True)
class _View:
    """A picture: what is opened, what must be there, and what is clicked then."""

    name: str
    path: str
    content: str
    parameters: str = ""
    is_comparison: bool = False
    clicks: tuple[str, ...] = ()
    height: int = _HEIGHT
    width: int = _WIDTH
    is_dark: bool = False
    report: str = _MODEL


#: What the model is run with beside its own report.
_RUNS = {
    _MODEL: [],
    "opennsfw-half": ["--precision", "half"],
    "opennsfw-pipeline": ["--ipus", "2", "--pipeline", "2", "--iterations", "6"],
}

_VIEWS = (
    _View("home", "/", "tr[data-report]"),
    _View("summary", "/summary", "#summary-body .facts td"),
    _View("compare", "/summary", "#summary-changes .sentences", is_comparison=True),
    _View("insights", "/insights", "#insights-body .stacked-bar"),
    _View("memory", "/memory", "#memory-figure canvas"),
    _View("memory-compared", "/memory", "#memory-figure canvas", is_comparison=True),
    _View("memory-map", "/memory", "#memory-figure canvas", clicks=("text='Tile map'",)),
    _View("memory-over-time", "/memory", "#memory-figure canvas", clicks=("text='Map over time'",)),
    _View("liveness", "/liveness", "#liveness-figure canvas"),
    _View("liveness-compared", "/liveness", "#liveness-figure canvas", is_comparison=True),
    _View("programs", "/programs", ".tree-row .tree-kind", "find=convolve"),
    _View("operations", "/operations", ".data-table tbody tr"),
    _View(
        "operation",
        "/operations",
        ".data-table tbody tr",
        clicks=("#page-operations .data-table tbody :is(a, button) >> nth=0",),
        height=1300,
    ),
    _View(
        "operations-graph",
        "/operations",
        "#operations-graph[data-drawn] .legend .swatch",
        "layer=model&as=graph&levels=99",
    ),
    _View("trace", "/trace", "#trace-viewer canvas"),
    _View(
        "trace-eighth",
        "/trace",
        "#trace-viewer canvas",
        "range=180000:246000",
        width=2560,
        height=1300,
        is_dark=True,
    ),
    _View(
        "trace-pipeline", "/trace", "#trace-viewer canvas", report="opennsfw-pipeline", is_dark=True
    ),
    _View(
        "trace-narrow",
        "/trace",
        "#trace-viewer canvas",
        "tab=regions&range=180000:246000",
        width=1024,
        height=768,
    ),
    _View("trace-compared", "/trace", "#trace-viewer canvas", is_comparison=True),
    _View(
        "trace-difference",
        "/trace",
        "#trace-viewer canvas",
        is_comparison=True,
        clicks=("text='Difference'",),
    ),
)
#: What is still fetched and drawn once the content stands, in milliseconds.
_SETTLE_MS = 1_500


def main(folder: Path) -> int:
    """Take all pictures; reports are written below a folder, or reused."""
    for name, options in _RUNS.items():
        if not (folder / name / "profile.pop").exists():
            _run(folder / name, options)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.stderr.write("No Chromium found; on Debian: apt-get install chromium\n")
        return 2
    with _served(folder) as link, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        size = {"width": _WIDTH, "height": _HEIGHT}
        page = browser.new_context(viewport=size, color_scheme="light").new_page()  # type: ignore[arg-type]
        page.goto(link)
        _take(page, link.partition("/?")[0])
        browser.close()
    return 0


def _run(place: Path, options: list[str]) -> None:
    """Run the model and write its report."""
    command = [sys.executable, "-m", "tilescope"]
    model = subprocess.run(
        [*command, "models", "fetch", _MODEL], capture_output=True, text=True, check=True
    ).stdout.strip()
    subprocess.run([*command, "run", model, "--report", str(place), *options], check=True)


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """Serve the reports; yields the link."""
    command = [sys.executable, "-m", "tilescope", "serve", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    found = next(filter(None, (re.search(r"http://\S+", line) for line in lines)))
    try:
        yield found.group()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=20)


def _take(page: Page, origin: str) -> None:
    """Take the pictures of all views."""
    listed = page.request.get(f"{origin}/api/reports").json()["reports"]
    ids = {entry["label"].rsplit("/", 1)[-1]: entry["id"] for entry in listed}
    for view in _VIEWS:
        query = f"report={ids[view.report]}&{view.parameters}" if view.path != "/" else ""
        query += f"&with={ids['opennsfw-half']}" if view.is_comparison else ""
        page.set_viewport_size({"width": view.width, "height": view.height})
        page.emulate_media(color_scheme="dark" if view.is_dark else "light")
        page.goto(f"{origin}{view.path}?{query}" if query else origin + view.path)
        page.wait_for_selector(view.content, timeout=60_000)
        page.wait_for_timeout(_SETTLE_MS)
        for place in view.clicks:
            page.click(place)
            page.wait_for_timeout(_SETTLE_MS)
        page.screenshot(path=_IMAGES / f"{view.name}.png")
        sys.stdout.write(f"images/{view.name}.png\n")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/screenshots")))
