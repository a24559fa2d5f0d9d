"""What a panned frame of the trace takes of the browser's main thread.

``python -m tests.bench.trace_frames [REPORT …]`` opens reports in a headless Chromium without a
GPU, 1,440 by 900 pixels, and moves the visible range 90 times, a frame each: at full range, at 1/8
and at 1/200 of it. Without reports it generates one of ten million slices below ``build/peers``.
The main thread's time is that of its tasks, as the browser counts them: scripts, layout, painting.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright
from tests.faults.server import running_server
from tests.generated_report import generate_report

_REPORTS = Path(__file__).parents[2] / "build" / "peers" / "reports"
_ARGUMENTS = ["--no-sandbox", "--disable-gpu"]
_FRAMES = 90
_ROUNDS = 3
_PARTS = (1, 8, 200)
_VIEWER = "document.getElementById('trace-viewer').viewer"
_SHOW = """part => {
  const viewer = VIEWER;
  const {start, end} = viewer.extent;
  const span = (end - start) / part;
  const low = part === 1 ? start : start + 0.45 * (end - start);
  viewer.moveTo(low, low + span);
}""".replace("VIEWER", _VIEWER)
_PAN = """async frames => {
  const viewer = VIEWER;
  const {start, end} = viewer.range;
  viewer.frames.length = 0;
  for (let i = 0; i < frames; i += 1) {
    const by = (end - start) * 0.0005 * (i % 2 ? 1 : -1) * i;
    viewer.range = {start: start + by, end: end + by};
    viewer.draw();
    await new Promise((done) => requestAnimationFrame(done));
  }
  viewer.range = {start, end};
  return [...viewer.frames].sort((a, b) => a - b);
}""".replace("VIEWER", _VIEWER)


def main() -> int:
    """Measure and print; never fails on time."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.stderr.write("No Chromium found; on Debian: apt-get install chromium\n")
        return 2
    reports = [Path(argument) for argument in sys.argv[1:]] or [_generated()]
    for report in reports:
        directory = report.parent if report.suffix else report
        with (
            tempfile.TemporaryDirectory() as folder,
            running_server(directory, Path(folder) / "log") as server,
            sync_playwright() as playwright,
        ):
            browser = playwright.chromium.launch(executable_path=chromium, args=_ARGUMENTS)
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            origin = f"http://127.0.0.1:{server.port}"
            page.goto(f"{origin}/?token={server.token}")
            listed = page.request.get(f"{origin}/api/reports").json()["reports"]
            own = next(entry for entry in listed if "demo" not in entry["label"].lower())
            page.goto(f"{origin}/trace?report={own['id']}")
            page.wait_for_selector("#trace-viewer canvas", timeout=60_000)
            page.wait_for_timeout(4_000)
            for part in _PARTS:
                task, script = _of_part(page, part)
                sys.stdout.write(
                    f"{directory.name}, 1/{part} of the range: main thread"
                    f" {task:.1f} ms a frame, of it the trace's script {script:.1f} ms\n"
                )
            browser.close()
    return 0


def _of_part(page: Page, part: int) -> tuple[float, float]:
    """Return the main thread's time a frame and the script's part of it, medians, in ms."""
    page.evaluate(_SHOW, part)
    page.wait_for_timeout(2_500)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    tasks, scripts = [], []
    for _ in range(_ROUNDS):
        before = _task_s(session.send("Performance.getMetrics"))
        frames = page.evaluate(_PAN, _FRAMES)
        after = _task_s(session.send("Performance.getMetrics"))
        tasks.append(1000 * (after - before) / _FRAMES)
        scripts.append(statistics.median(frames))
        page.wait_for_timeout(500)
    return statistics.median(tasks), statistics.median(scripts)


def _task_s(answer: dict[str, Any]) -> float:
    """Return how long the main thread has worked, in seconds."""
    return next(float(one["value"]) for one in answer["metrics"] if one["name"] == "TaskDuration")


def _generated() -> Path:
    """Return the directory of a generated report of ten million slices, made once."""
    directory = _REPORTS / "frames_10000000" / "report"
    if not (directory / "profile.pop").exists():
        generate_report(directory, n_runs=500, has_distinct_runs=True)
    return directory


if __name__ == "__main__":
    sys.exit(main())
