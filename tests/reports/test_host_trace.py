"""A report of a host's trace: its own name and lock, its own tables, constraints on its values."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import apsw
import pytest
from tests.faults.seal import reseal

from tilescope.reports import (
    DamagedReport,
    ReportNotWritable,
    ReportWriter,
    State,
    check_report,
    open_report,
)
from tilescope.reports.errors import WrongKind
from tilescope.reports.kind import KIND_KEY, Kind, report_kind
from tilescope.reports.recover import recover_report
from tilescope.reports.schema import (
    ARRAYS,
    HOST_TRACE,
    TABLES,
    host_channel,
    host_heatmap,
    host_heatmap_column,
    host_label,
    host_sample,
    host_series,
    host_thread,
    provenance,
)


def _begin(path: Path) -> ReportWriter:
    writer = ReportWriter.create_trace(path)
    writer.add(provenance, [{"key": KIND_KEY, "value": Kind.HOST_TRACE}])
    writer.add(host_channel, [{"name": "Poplar"}])
    writer.add(host_thread, [{"tid": 140157928945472, "name": "MainThread"}])
    writer.add(host_label, [{"host_channel_id": 0, "label": "Engine::run"}])
    writer.add(host_series, [{"graph": "Loss", "unit": "", "name": "training"}])
    writer.add(host_sample, [{"host_series_id": 0, "wall_ns": 5, "value": -0.5}])
    writer.add(host_heatmap, [{"name": "Gradients", "unit": "", "edges": bytes(16)}])
    writer.add(host_heatmap_column, [{"host_heatmap_id": 0, "wall_ns": 5, "counts": bytes(4)}])
    writer.append_columns(
        "host_event",
        {
            "wall_ns": [10, 20],
            "kind": [0, 1],
            "host_label_id": [0, 0],
            "host_thread_id": [0, 0],
        },
    )
    writer.commit("trace", grows=True)
    return writer


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    with _begin(tmp_path / "a.pvti") as writer:
        return writer.finish()


def test_a_trace_has_its_name_from_the_beginning(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "a.pvti"
    with _begin(path) as writer:
        with open_report(path) as report:
            assert report.state.state is State.RUNNING
            assert report_kind(report) is Kind.HOST_TRACE
            assert report.array("host_event.wall_ns").read().ravel().tolist() == [10, 20]
        assert writer.finish() == path
    assert os.listdir(path.parent) == ["a.pvti"]
    assert check_report(path) == []
    with open_report(path) as report:
        assert report.is_complete


def test_traces_and_a_report_are_written_into_one_directory_at_a_time(tmp_path: Path) -> None:
    with (
        _begin(tmp_path / "a.pvti") as first,
        _begin(tmp_path / "b.pvti") as second,
        ReportWriter.create(tmp_path) as third,
    ):
        for writer in (first, second, third):
            writer.finish()
    assert sorted(os.listdir(tmp_path)) == ["a.pvti", "b.pvti", "profile.pop"]


def test_a_trace_replaces_no_file(trace: Path) -> None:
    before = trace.read_bytes()
    with pytest.raises(FileExistsError):
        ReportWriter.create_trace(trace)
    assert trace.read_bytes() == before
    with pytest.raises(ValueError, match=r"named \*\.pvti; got profile\.pop"):
        ReportWriter.create_trace(trace.with_name("profile.pop"))
    trace.with_name("file").touch()
    with pytest.raises(ReportNotWritable, match="Cannot write a trace into"):
        ReportWriter.create_trace(trace.with_name("file") / "a.pvti")


def test_the_lock_of_a_trace_ends_with_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "a.pvti"
    writer = _begin(path)
    with path.open("rb") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    writer.abandon()
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with open_report(path) as report:
        assert report.state.state is State.ENDED_EARLY
        assert report.n_rows(host_label) == 1


def test_only_traces_have_tables_of_traces(trace: Path, small_report: Path) -> None:
    own = {name for name, table in TABLES.items() if table.kind == HOST_TRACE}
    assert len(own) == 7
    for path, names in ((trace, own), (small_report, set())):
        connection = apsw.Connection(str(path))
        stored = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
        connection.close()
        assert stored & own == names
        with open_report(path) as report:
            assert {name for name in own if report.rows(TABLES[name])} == names


def test_runs_are_not_taken_out_of_a_trace(trace: Path) -> None:
    with pytest.raises(WrongKind, match="is of the kind host trace"):
        recover_report(trace, trace.parent / "recovered")


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE host_sample",
        "UPDATE host_label SET host_channel_id = 7",
        "UPDATE host_sample SET host_series_id = -1",
        "UPDATE host_heatmap_column SET wall_ns = -1",
        "UPDATE host_thread SET tid = 1 << 60",
        "UPDATE host_label SET label = x'00'",
        "UPDATE array_chunk SET maximum = 3 WHERE array_id = 1",
        "UPDATE array_chunk SET maximum = 1 WHERE array_id = 2",
        "UPDATE array_chunk SET n_rows = 1 WHERE array_id = 3",
        "UPDATE array SET dtype = '<i8' WHERE array_id = 3",
    ],
)
def test_a_trace_that_contradicts_itself_is_refused(trace: Path, change: str) -> None:
    connection = apsw.Connection(str(trace))
    connection.execute(change)
    reseal(connection)
    connection.close()
    with pytest.raises(DamagedReport) as caught:
        _read_everything(trace)
    assert "\n" not in str(caught.value)


def _read_everything(path: Path) -> None:
    with open_report(path) as report:
        for table in TABLES.values():
            report.table(table)
        for name in ARRAYS:
            report.array(name).read()


def test_every_flipped_bit_of_a_trace_is_noticed(trace: Path) -> None:
    content = trace.read_bytes()
    with open_report(trace) as report:
        sound = [report.table(table) for table in TABLES.values()]
    for place in range(100, len(content), 997):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        trace.write_bytes(changed)
        try:
            with open_report(trace) as report:
                report.verify()
                tables = [report.table(table) for table in TABLES.values()]
        except DamagedReport:
            continue
        assert tables == sound  # unused bytes of a page
