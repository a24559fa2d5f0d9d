import hashlib
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import apsw
import numpy as np
import pytest

from tilescope.reports import (
    DamagedReport,
    NotAReport,
    QueryTooLong,
    ReportError,
    ReportNotFound,
    ReportWriter,
    UnsupportedSchema,
    find_reports,
    open_report,
)
from tilescope.reports.integrity import guard
from tilescope.reports.schema import (
    APPLICATION_ID,
    ARRAYS,
    OLDEST_VERSION,
    SCHEMA_VERSION,
    TABLES,
    provenance,
    step,
)


def _state(directory):
    return {
        file.name: (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns)
        for file in directory.iterdir()
    }


def _read_everything(path):
    with open_report(path) as report:
        tables = [report.table(table) for table in TABLES.values()]
        return tables, [report.array(name).read() for name in ARRAYS]


def test_reading_changes_nothing(small_report):
    before = _state(small_report.parent)
    _read_everything(small_report)
    assert _state(small_report.parent) == before


def test_reading_what_a_run_left_changes_nothing(tmp_path):
    with ReportWriter.create(tmp_path / "live") as writer:
        writer.add(provenance, [{"key": "seed", "value": "1"}])
        writer.commit("compiled")
        before = _state(writer.path.parent)
        with open_report(writer.path.parent) as report:
            assert report.is_copy
            assert not report.is_complete
            assert report.path == writer.path
            copy = report._connection.path
            assert copy.parent.stat().st_mode & 0o777 == 0o700
            assert report.table(provenance)["key"] == ["seed"]
        assert not copy.parent.exists()
        assert _state(writer.path.parent) == before


def test_a_directory_prefers_the_finished_report_then_the_newest_leftover(tmp_path, small_bytes):
    for age, name in ((20, "profile_aa.pop"), (10, "profile_bb.pop"), (30, "profile_cc.pop")):
        (tmp_path / name).write_bytes(small_bytes)
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    with open_report(tmp_path) as report:
        assert report.path.name == "profile_bb.pop"
    (tmp_path / "profile.pop").write_bytes(small_bytes)
    with open_report(tmp_path) as report:
        assert report.path.name == "profile.pop"


def _other_sqlite(path):
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE t (a)")
    connection.close()


def _of_version(version):
    def write(path):
        connection = apsw.Connection(str(path))
        connection.execute("CREATE TABLE t (a)")
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={version}")
        connection.close()

    return write


_NO_REPORTS = (
    *("absent", "empty", "text", "cut-magic", "other-sqlite"),
    *("newer", "older", "directory", "pipe", "loop"),
)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda _: None, ReportNotFound, "does not exist"),
        (lambda path: path.write_bytes(b""), NotAReport, "is empty"),
        (lambda path: path.write_text("hello\n" * 99), NotAReport, "not a report"),
        (lambda path: path.write_bytes(b"SQLite format 3\0"), NotAReport, "not a report"),
        (_other_sqlite, NotAReport, "another program's"),
        (
            _of_version(SCHEMA_VERSION + 1),
            UnsupportedSchema,
            f"{SCHEMA_VERSION + 1}; .*supports {OLDEST_VERSION} to {SCHEMA_VERSION}. Update",
        ),
        (_of_version(0), UnsupportedSchema, "Run the program again"),
        (lambda path: path.mkdir(), ReportNotFound, "No report in"),
        (os.mkfifo, NotAReport, "not a regular file"),
        (lambda path: path.symlink_to(path), ReportNotFound, "does not exist"),
    ],
    ids=_NO_REPORTS,
)
def test_a_file_that_is_not_a_report_is_one_sentence(tmp_path, make, error, words):
    path = tmp_path / "profile.pop"
    make(path)
    with pytest.raises(error, match=words) as caught:
        open_report(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_name_that_cannot_exist_is_not_found():
    with pytest.raises(ReportNotFound):
        open_report("a\0b")


def test_a_truncated_report_says_so(small_report, small_bytes):
    small_report.write_bytes(small_bytes[: len(small_bytes) // 2])
    with pytest.raises(DamagedReport, match="bytes where its header declares"):
        open_report(small_report)


def test_a_report_whose_wal_was_deleted_opens_with_what_is_left(tmp_path):
    with ReportWriter.create(tmp_path) as writer:
        writer.add(provenance, [{"key": "seed", "value": "1"}])
        writer.commit("compiled")
        alone = tmp_path / "elsewhere" / writer.path.name
        alone.parent.mkdir()
        shutil.copyfile(writer.path, alone)
    with open_report(alone) as report:
        assert not report.is_complete
        assert report.milestones == ["created"]
        assert report.table(provenance)["key"] == []


def test_a_leftover_of_before_the_first_commit_is_refused_in_one_sentence(tmp_path):
    leftover = tmp_path / "profile_ab.pop"
    leftover.write_bytes(b"")
    (tmp_path / "profile_ab.pop-wal").write_bytes(b"")
    with pytest.raises(ReportError) as caught:
        open_report(tmp_path)
    assert str(leftover) in str(caught.value)


def test_threads_may_ask_at_the_same_time(small_report):
    expected = _read_everything(small_report)[1]
    with open_report(small_report) as report, ThreadPoolExecutor(8) as pool:

        def ask(number):
            values = [report.array(name).read() for name in ARRAYS]
            names = report.column(step, "name")
            return (
                len(names) == 30
                and bool(names[number % 30])
                and all(map(np.array_equal, values, expected))
            )

        assert all(pool.map(ask, range(200)))


def test_a_closed_report_says_so(small_report):
    report = open_report(small_report)
    report.close()
    report.close()
    with pytest.raises(ValueError, match="closed"):
        report.table(step)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT name FROM sqlite_schema",
        "SELECT load_extension('x')",
        "PRAGMA writable_schema=1",
        "ATTACH 'x' AS y",
        "DELETE FROM step",
    ],
    ids=["schema", "extension", "pragma", "attach", "delete"],
)
def test_only_tables_of_a_report_can_be_read(small_report, statement):
    with (
        open_report(small_report) as report,
        pytest.raises(ValueError, match="unsupported statement"),
    ):
        report._connection.rows(statement)


@pytest.mark.parametrize("names", [("no_such",), ("name", "data")])
def test_a_column_that_no_digest_covers_is_not_read(small_report, names):
    with open_report(small_report) as report, pytest.raises(ValueError, match="has no column"):
        report.rows(step, *names)


def test_a_statement_that_takes_too_long_is_stopped(small_report, monkeypatch):
    monkeypatch.setattr(guard, "STATEMENT_SECONDS", 0.05)
    many = ", ".join(f"step AS step_{number}" for number in range(6))
    with open_report(small_report) as report, pytest.raises(QueryTooLong, match="smaller part"):
        report._connection.rows(f"SELECT count(*) FROM {many}")


def test_reports_are_found_below_directories_once(tmp_path, small_bytes):
    for position in ("a/profile.pop", "b/c/profile.pop", "b/profile_0f.pop", "b/other.pop"):
        (tmp_path / position).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / position).write_bytes(small_bytes)
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "profile.pop").write_bytes(small_bytes)
    actual = find_reports([tmp_path, tmp_path / "a", tmp_path / "b" / "other.pop", tmp_path / "no"])
    names = [str(entry.path.relative_to(tmp_path)) for entry in actual]
    assert names == ["a/profile.pop", "b/profile_0f.pop", "b/c/profile.pop", "b/other.pop"]
    assert [entry.is_complete_guess for entry in actual] == [True, False, True, True]
    assert len({entry.report_id for entry in actual}) == 4
    assert actual == find_reports([tmp_path, tmp_path / "b" / "other.pop"])
    assert actual[0].label == f"{tmp_path.name}/a"
    assert all(entry.size_bytes == len(small_bytes) for entry in actual)
