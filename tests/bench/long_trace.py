"""Windows, search and memory of traces of 10 and of 100 million slices that differ.

``python -m tests.bench.long_trace`` generates reports below ``build/peers/reports``, with stored
bars and without, as reports before schema 10 are. Times are those of the analyser in fresh
processes, in turn; the memory is that of a server that has answered the same questions.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest.mock import patch

from tests.faults.server import Server, running_server
from tests.generated_report import generate_report

from tilescope import analyser
from tilescope.analyser import trace
from tilescope.reports.bars.coarse import LONG_TRACE_ENTRIES
from tilescope.reports.writing import trace_bars

_REPORTS = Path(__file__).parents[2] / "build" / "peers" / "reports"
_WIDTH = 1440
_TEXT = "softmax"
_SLICES_OF_RUN = 20_000
#: Parts of the trace that windows show, and how many of each are asked for, panned a little.
_PARTS = (1, 8, 200)
_PANS = 12


def main() -> int:
    """Measure and print; never fails on time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", type=int, nargs="*", default=[10_000_000, 100_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        _tell(json.dumps(_times(chosen.child)))
        return 0
    for n_slices in chosen.slices:
        reports = {
            name: _report(n_slices, has_bars=name == "stored bars")
            for name in ("entries only", "stored bars")
        }
        times: dict[str, list[dict[str, float]]] = {name: [] for name in reports}
        for _ in range(chosen.rounds):
            for name, directory in reports.items():
                command = [sys.executable, "-m", "tests.bench.long_trace", "--child"]
                answer = subprocess.run(
                    [*command, directory], check=True, capture_output=True, text=True
                )
                times[name].append(json.loads(answer.stdout))
        for name, directory in reports.items():
            size = (directory / "profile.pop").stat().st_size
            _tell(f"{n_slices:,} slices, {name}: {size / n_slices:.2f} bytes of file a slice")
            for question in times[name][0]:
                middle = statistics.median(one[question] for one in times[name])
                _tell(f"  {question:24} {middle:9.1f} ms")
            _tell(f"  {'server, at most':24} {_server_bytes(directory) / 1e6:9.0f} MB")
    return 0


def _report(n_slices: int, *, has_bars: bool) -> Path:
    """Return the directory of a generated report, made once."""
    directory = _REPORTS / f"{'bars' if has_bars else 'entries'}_{n_slices}" / "report"
    if not (directory / "profile.pop").exists():
        limit = LONG_TRACE_ENTRIES if has_bars else 1 << 62
        with patch.object(trace_bars, "LONG_TRACE_ENTRIES", limit):
            n_runs = max(1, n_slices // _SLICES_OF_RUN)
            generate_report(directory, n_runs=n_runs, has_distinct_runs=True)
    return directory


def _windows(part: int, end: int) -> list[tuple[int, int]]:
    """Return ranges of a part of a trace, every one panned a little from the one before."""
    length = end // part
    first = 0 if part == 1 else end // 3
    return [(first + k * length // 50, first + k * length // 50 + length) for k in range(_PANS)]


def _times(directory: Path) -> dict[str, float]:
    """Return the milliseconds of questions in a process that has answered none."""
    times: dict[str, float] = {}

    def timed(name: str, ask: Callable[[], Any]) -> Any:
        start = perf_counter()
        answer = ask()
        times[name] = 1000 * (perf_counter() - start)
        return answer

    with timed("open", lambda: analyser.open(directory)) as report:
        end = timed("extent", lambda: trace.extent(report)).end_cycle
        timed("names", lambda: trace.names(report))
        timed("first window", lambda: trace.window(report, 0, end, _WIDTH))
        for part in _PARTS:
            spent = []
            for place in _windows(part, end):
                start = perf_counter()
                trace.window(report, *place, _WIDTH)
                spent.append(1000 * (perf_counter() - start))
            name = "full" if part == 1 else f"1/{part}"
            times[f"pan at {name}"] = statistics.median(spent[1:])
            times[f"slowest at {name}"] = max(spent)
        timed("search", lambda: trace.search(report, _TEXT))
        timed("first match", lambda: trace.match(report, _TEXT, cycle=end // 2))
        timed("next match", lambda: trace.match(report, _TEXT, cycle=end // 2 + 10_000_000))
    return times


def _server_bytes(directory: Path) -> int:
    """Return the most resident memory of a server that shows a report, as the page asks for it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server(directory.parent, Path(folder) / "log") as server,
    ):
        entries = _json(server, "/api/reports")["reports"]
        entry = next(entry for entry in entries if entry["label"].endswith("/report"))
        base = f"/api/trace/{entry['id']}"
        end = _json(server, f"{base}/extent")["end_cycle"]
        server.get(f"{base}/names")
        for part in _PARTS:
            for low, high in _windows(part, end):
                server.get(f"{base}/window?start={low}&end={high}&width={_WIDTH}")
        server.get(f"{base}/search?text={_TEXT}")
        server.get(f"{base}/match?text={_TEXT}&cycle={end // 2}")
        server.get(f"{base}/summary")
        return server.peak_memory_bytes()


def _json(server: Server, target: str) -> dict[str, Any]:
    """Return an answer of the server."""
    answer: dict[str, Any] = json.loads(server.get(target).body)
    return answer


def _tell(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
