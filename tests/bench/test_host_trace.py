"""What tracepoints cost, on and off, ten million of them, and reading; never fails on time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest
from tests.libpvti.traced import environment, traces

_ROUNDS = 5
_LARGE = 10_000_000
_READ = 3_000_000

#: Prints nanoseconds of processor time a call takes beyond an empty loop, by kind of tracepoint.
_COSTS = """
import json, sys, time
import libpvti as pvti
channel = pvti.createTraceChannel("c")
n_calls = int(sys.argv[1])
def plain(): pass
traced = pvti.instrument_fn(channel)(plain)
def empty():
    for _ in range(n_calls): pass
def context():
    for _ in range(n_calls):
        with pvti.Tracepoint(channel, "context"): pass
def begin_end():
    begin, end = pvti.Tracepoint.begin, pvti.Tracepoint.end
    for _ in range(n_calls):
        begin(channel, "begin")
        end(channel, "begin")
def event():
    mark = pvti.Tracepoint.event
    for _ in range(n_calls): mark(channel, "event")
def called():
    for _ in range(n_calls): plain()
def decorated():
    for _ in range(n_calls): traced()
def cost(work):
    times = []
    for _ in range(5):
        before = time.process_time_ns()
        work()
        times.append((time.process_time_ns() - before) / n_calls)
    return min(times)
loop, call = cost(empty), cost(called)
print(json.dumps({
    "context": cost(context) - loop, "begin and end": cost(begin_end) - loop,
    "event": cost(event) - loop, "decorator": cost(decorated) - call,
}))
"""

#: Prints seconds, seconds of processor time, and the growth of memory in MiB, of many events.
_MANY = """
import json, resource, sys, time
import libpvti as pvti
channel = pvti.createTraceChannel("c")
n_events = int(sys.argv[1])
labels = [f"step {number}" for number in range(100)]
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
def record(n_events):
    for number in range(n_events):
        with pvti.Tracepoint(channel, labels[number % 100]): pass
record(n_events // 10)
first, wall, cpu = peak(), time.perf_counter(), time.process_time()
record(n_events - n_events // 10)
pvti.closeTrace()
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu, first, peak() - first]))
"""

#: Prints seconds of processor time of opening, pairing, the figures by label, and the peak in MiB.
_READING = """
import json, resource, sys, time
from tilescope.analyser import host
times = [time.process_time()]
with host.open_trace(sys.argv[1]) as report:
    times.append(time.process_time())
    n_events = len(host.events(report))
    times.append(time.process_time())
    host.label_figures(report)
    times.append(time.process_time())
    host.window(report, 0, 10**12, least_ns=10**6)
    times.append(time.process_time())
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([n_events, *(b - a for a, b in zip(times, times[1:])), peak]))
"""


def _run(script: str, folder: Path, options: str | None, *arguments: object) -> str:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(
        command, env=environment(options), cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize("options", [None, "{}", '{"channels": ["other"]}'])
def test_a_tracepoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str | None
) -> None:
    rounds = []
    for number in range(_ROUNDS):
        folder = tmp_path / str(number)
        folder.mkdir()
        rounds.append(json.loads(_run(_COSTS, folder, options, 200_000)))
    how = {None: "off", "{}": "recorded"}.get(options, "of a channel that is not recorded")
    costs = ", ".join(f"{kind} {median(one[kind] for one in rounds):,.0f}" for kind in rounds[0])
    with capsys.disabled():
        print(f"\ntracepoints, {how}: {costs} ns of processor time")  # noqa: T201


def test_ten_million_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wall, cpu, first, growth = json.loads(_run(_MANY, tmp_path, "{}", _LARGE))
    (path,) = traces(tmp_path)
    n_events = _LARGE - _LARGE // 10
    with capsys.disabled():
        print(  # noqa: T201
            f"\n{_LARGE:,} events: {1e6 * wall / n_events:.2f} µs an event, of processor time"
            f" {1e6 * cpu / n_events:.2f}; {first:.0f} MiB after a tenth, {growth:.1f} more at the"
            f" end; {path.stat().st_size / 1e6:.1f} MB"
        )


def test_reading_three_million_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(_MANY, tmp_path, "{}", _READ)
    (path,) = traces(tmp_path)
    rounds = [json.loads(_run(_READING, tmp_path, None, path)) for _ in range(_ROUNDS)]
    n_events, opened, paired, figures, window, peak = (
        median(one[part] for one in rounds) for part in range(6)
    )
    with capsys.disabled():
        print(  # noqa: T201
            f"\na trace of {n_events:,} events, {path.stat().st_size / 1e6:.1f} MB: opened in"
            f" {1e3 * opened:.1f} ms, paired in {paired:.2f} s, figures by label {figures:.2f} s,"
            f" a window of a chart {window:.2f} s of processor time; {peak:.0f} MiB"
        )
