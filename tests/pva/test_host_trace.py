"""A host's trace by libpva's names, as the public walk-through of `.pvti` files reads it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.libpvti.traced import run, traces
from tests.libpvti.written import write_trace

import pva

_PROGRAM = """
import threading, time, libpvti as pvti
channel = pvti.createTraceChannel("MNIST Application")
for epoch in range(3):
    with pvti.Tracepoint(channel, f"Epoch:{epoch}"):
        with pvti.Tracepoint(pvti.tracePoplar, "run"):
            time.sleep(0.01 * (epoch + 1))
        pvti.Tracepoint.event(channel, "done")
"""


def test_the_longest_epoch_is_found_as_in_the_walk_through(tmp_path: Path) -> None:
    run(_PROGRAM, tmp_path)
    (path,) = traces(tmp_path)
    with pva.openTrace(str(path)) as trace:
        (process,) = trace.processes
        assert path.name.endswith(f"_{process.pid}.pvti")
        assert trace.process(process.pid) is process
        (thread,) = process.threads
        assert process.thread(thread.tid) is thread
        assert [event.label for event in thread.events] == ["Epoch:0", "Epoch:1", "Epoch:2"]
        longest = max(thread.events, key=lambda event: event.duration)
        assert longest.label == "Epoch:2"
        assert isinstance(longest, pva.Event)
        assert isinstance(longest.duration, int)
        assert 30_000 <= longest.duration < 1_000_000
        ran, done = longest.children()
        assert (ran.label, ran.channel, len(ran.children())) == ("run", "Poplar", 0)
        assert (done.label, done.channel, done.duration) == ("done", "MNIST Application", 0)
        assert longest.timestamp <= ran.timestamp <= done.timestamp
        written = path.stat().st_mtime * 1e6
        assert written - 60e6 < longest.timestamp < written
        with pytest.raises(KeyError, match="has no process -1; it has"):
            trace.process(-1)
        with pytest.raises(KeyError, match=re.escape(f"has no thread 0; it has {thread.tid}")):
            process.thread(0)


def test_threads_have_their_own_events(tmp_path: Path) -> None:
    records = [
        (0, "begin", "a", "x", 0),
        (1, "begin", "a", "y", 1),
        (9_000, "end", "a", "y", 1),
        (10_000, "end", "a", "x", 0),
    ]
    with pva.openTrace(write_trace(tmp_path / "a.pvti", records)) as trace:
        (process,) = trace.processes
        assert [(thread.tid, len(thread.events)) for thread in process.threads] == [
            (100, 1),
            (101, 1),
        ]
        (event,) = process.threads[1].events
        assert (event.label, event.start, event.duration) == ("y", 0, 8)


def test_an_unfinished_trace_is_warned_of(tmp_path: Path) -> None:
    run(_PROGRAM + "\nimport os, time\ntime.sleep(0.7)\nos._exit(0)", tmp_path)
    (path,) = traces(tmp_path)
    with pytest.warns(pva.ReportStateWarning, match="ended early") as warned:
        trace = pva.openTrace(path)
    assert warned[0].filename == __file__
    with trace:
        (process,) = trace.processes
        assert len(process.threads[0].events) == 3
