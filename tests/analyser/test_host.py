"""Events of a host's trace, beside a slow pairing; figures by label and thread; windows."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden.recipe import GOLDEN
from tests.libpvti.written import Record, write_trace

from tilescope.analyser import host
from tilescope.analyser.errors import BadQuestion
from tilescope.reports import ReportWriter
from tilescope.reports.errors import WrongKind
from tilescope.reports.kind import KIND_KEY, Kind
from tilescope.reports.schema import host_channel, host_label, host_thread, provenance

_NESTED: list[Record] = [
    (0, "begin", "app", "epoch", 0),
    (10, "begin", "Poplar", "run", 0),
    (12, "mark", "app", "note", 0),
    (30, "end", "Poplar", "run", 0),
    (5, "begin", "app", "load", 1),
    (40, "begin", "Poplar", "run", 0),
    (80, "end", "Poplar", "run", 0),
    (100, "end", "app", "epoch", 0),
    (25, "end", "app", "load", 1),
    (150, "begin", "app", "epoch", 0),
    (200, "mark", "app", "note", 1),
]


@pytest.fixture
def nested(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "nested.pvti", _NESTED)


def test_begins_and_ends_are_paired(nested: Path) -> None:
    with host.open_trace(nested) as report:
        events, trace = host.events(report), host.host_trace(report)
        rows = [
            (trace.threads[t].tid, trace.labels[label], start, end, depth, parent, is_mark, is_open)
            for t, label, start, end, depth, parent, is_mark, is_open in zip(
                events.thread_id, events.label_id, events.start_ns, events.end_ns,
                events.depth, events.parent, events.is_mark, events.is_open, strict=True,
            )
        ]  # fmt: skip
    assert rows == [
        (100, "epoch", 0, 100, 0, -1, False, False),
        (100, "run", 10, 30, 1, 0, False, False),
        (100, "note", 12, 12, 2, 1, True, False),
        (100, "run", 40, 80, 1, 0, False, False),
        (100, "epoch", 150, 200, 0, -1, False, True),
        (101, "load", 5, 25, 0, -1, False, False),
        (101, "note", 200, 200, 0, -1, True, False),
    ]
    assert (trace.pid, trace.program, trace.origin_ns) == (7, "program.py", 10**18)


def test_figures_of_labels_and_threads(nested: Path) -> None:
    with host.open_trace(nested) as report:
        by_label = {figures.label: figures for figures in host.label_figures(report)}
        first, second = host.thread_figures(report)
    assert list(by_label) == ["epoch", "run", "load", "note"]
    assert by_label["epoch"] == host.LabelFigures(
        "app", "epoch", 2, 0, 150, 90, 75.0, 50, 100, 50, 100
    )
    assert by_label["run"] == host.LabelFigures("Poplar", "run", 2, 0, 60, 60, 30.0, 20, 40, 20, 40)
    assert by_label["note"] == host.LabelFigures("app", "note", 0, 2, 0, 0, 0.0, 0, 0, 0, 0)
    assert (first.busy_ns, first.utilisation, first.n_events) == (150, 0.75, 5)
    assert (second.busy_ns, second.utilisation, second.n_events) == (20, 0.1, 2)


def test_a_window_has_what_touches_it_at_its_detail(nested: Path) -> None:
    with host.open_trace(nested) as report:
        assert host.window(report, 0, 201).tolist() == list(range(7))
        assert host.window(report, 26, 41).tolist() == [0, 1, 3]
        assert host.window(report, 110, 140).tolist() == []
        # Of the two runs, one is drawn in a pixel of 100 ns.
        assert host.window(report, 0, 200, least_ns=100).tolist() == [0, 1, 2, 4, 5]
        with pytest.raises(BadQuestion, match="give an end after its start"):
            host.window(report, 5, 4)


def test_only_traces_are_opened() -> None:
    with pytest.raises(WrongKind, match="this takes the kind host trace"):
        host.open_trace(GOLDEN)


def test_an_empty_trace_has_no_events(tmp_path: Path) -> None:
    with host.open_trace(write_trace(tmp_path / "empty.pvti", [])) as report:
        assert len(host.events(report)) == 0
        assert host.label_figures(report) == ()
        assert host.thread_figures(report) == ()
        assert host.series(report) == ()
        assert host.heatmaps(report) == ()
        assert host.window(report, 0, 1).tolist() == []


def _slow_events(records: list[Record]) -> list[tuple[int, str, int, int, int, int]]:
    """Return (thread, label, start, end, depth, parent): record by record, with lists."""
    last = max((moment for moment, *_ in records), default=0)
    events: list[list[int | str]] = []
    offsets = {}
    for thread in sorted({thread for *_, thread in records}):
        offsets[thread] = len(events)
        open_events: list[tuple[str, str, int]] = []
        for moment, kind, channel, label, _ in (r for r in records if r[4] == thread):
            if kind == "end":
                for place in reversed(range(len(open_events))):
                    if open_events[place][:2] == (channel, label):
                        events[open_events.pop(place)[2]][3] = moment
                        break
                continue
            parent = open_events[-1][2] if open_events else -1
            depth = int(events[parent][4]) + 1 if open_events else 0
            end = moment if kind == "mark" else last
            if kind == "begin":
                open_events.append((channel, label, len(events)))
            events.append([thread, label, moment, end, depth, parent])
    return [tuple(event) for event in events]  # type: ignore[misc]


_RECORDS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(["begin", "begin", "end", "end", "mark"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from(["x", "y", "z"]),
        st.integers(0, 2),
    ),
    max_size=60,
)


@settings(max_examples=30)
@given(steps=_RECORDS)
def test_events_are_those_of_a_slow_pairing(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Record]
) -> None:
    moment, records = 0, []
    for step, kind, channel, label, thread in steps:
        moment += step
        records.append((moment, kind, channel, label, thread))
    names = list(dict.fromkeys(thread for *_, thread in records))
    records = [(*record[:4], names.index(record[4])) for record in records]
    path = write_trace(tmp_path_factory.mktemp("trace") / "a.pvti", records)
    with host.open_trace(path) as report:
        events, trace = host.events(report), host.host_trace(report)
        rows = [
            (int(t), trace.labels[label], int(start), int(end), int(depth), int(parent))
            for t, label, start, end, depth, parent in zip(
                events.thread_id, events.label_id, events.start_ns, events.end_ns,
                events.depth, events.parent, strict=True,
            )
        ]  # fmt: skip
        figures = host.label_figures(report)
    expected = _slow_events(records)
    assert rows == expected
    spans = [row for row, is_mark in zip(expected, events.is_mark, strict=True) if not is_mark]
    assert sum(f.total_ns for f in figures) == sum(end - start for _, _, start, end, *_ in spans)
    for one in figures:
        lengths = sorted(
            int(end - start)
            for start, end, label, is_mark in zip(
                events.start_ns, events.end_ns, events.label_id, events.is_mark, strict=True
            )
            if not is_mark
            and (trace.channels[trace.label_channel[label]], trace.labels[label])
            == (one.channel, one.label)
        )
        if lengths:
            assert (one.least_ns, one.most_ns) == (lengths[0], lengths[-1])
            assert one.mean_ns == pytest.approx(mean(lengths))
            expected_99 = np.percentile(lengths, 99, method="inverted_cdf")
            assert one.p99_ns == expected_99
            assert one.p50_ns == np.percentile(lengths, 50, method="inverted_cdf")


def test_a_deep_thread_whose_events_cross_takes_no_square_time(tmp_path: Path) -> None:
    n_events = 20_000
    path = tmp_path / "deep.pvti"
    _write_many(path, n_events)
    with host.open_trace(path) as report:
        events = host.events(report)
    assert events.depth.tolist() == list(range(n_events))
    assert (events.duration_ns == n_events).all()


def _write_many(path: Path, n_events: int) -> None:
    """Write a trace whose events begin one after the other, and end in the same order."""
    numbers = np.arange(n_events)
    with ReportWriter.create_trace(path) as writer:
        writer.add(provenance, [{"key": KIND_KEY, "value": Kind.HOST_TRACE}])
        writer.add(host_channel, [{"name": "a"}])
        writer.add(host_thread, [{"tid": 1, "name": "main"}])
        labels = [{"host_channel_id": 0, "label": str(number)} for number in numbers]
        writer.add(host_label, labels)
        columns = {
            "wall_ns": np.arange(2 * n_events),
            "kind": np.repeat([0, 1], n_events),
            "host_label_id": np.tile(numbers, 2),
            "host_thread_id": np.zeros(2 * n_events, np.int64),
        }
        writer.append_columns("host_event", columns)
        writer.finish()
