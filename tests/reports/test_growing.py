"""Many small commits leave what a large one leaves; an interrupted call ends the report."""

import os
import time

import apsw
import numpy as np
import pytest

from tilescope.reports import (
    ReportNotWritable,
    ReportWriter,
    State,
    check_report,
    open_report,
    report_state,
)
from tilescope.reports.integrity.digests import ROWS_PER_BLOCK
from tilescope.reports.schema import notice, provenance, target

N_TILES = 70
N_NOTICES = 3 * ROWS_PER_BLOCK + 5


def _write(directory, n_commits):
    """Write the same data with a number of growing commits."""
    random = np.random.default_rng(1)
    starts = random.integers(0, 2**40, 150_000)
    patterns = random.integers(0, 9, (300, N_TILES))
    with ReportWriter.create(directory) as writer:
        writer.add(target, [_target()])
        writer.append("trace.start_cycle", starts[:10])
        writer.commit("compiled")
        for part in range(n_commits):
            rows = range(part * N_NOTICES // n_commits, (part + 1) * N_NOTICES // n_commits)
            writer.add(
                notice, [{"severity": "info", "code": "x", "message": f"{row}"} for row in rows]
            )
            writer.append("trace.start_cycle", np.array_split(starts[10:], n_commits)[part])
            for row in np.array_split(patterns, n_commits)[part]:
                writer.pattern("cycles.pattern", row)
            writer.commit("run", grows=True)
            with open_report(writer.path) as report:
                report.verify()
                assert report.milestones == ["created", "compiled", "run"]
                assert report.n_rows(notice) == rows[-1] + 1
        writer.finish()


def _target():
    numbers = {
        column.name: 1 for column in target.columns if column.kind in ("integer", "real", "boolean")
    }
    texts = {column.name: "x" for column in target.columns if column.kind == "text"}
    return {**texts, **numbers, "tiles_per_ipu": N_TILES}


def _content(path):
    """Return rows, chunks and number of blocks of a report."""
    with open_report(path) as report:
        assert report.milestones == ["created", "compiled", "run", "finished"]
        report.verify()
        return (
            report.rows(notice),
            report.array("trace.start_cycle").chunk_digests(),
            report.array("cycles.pattern").chunk_digests(),
        )


def test_many_commits_leave_the_chunks_of_one(tmp_path):
    _write(tmp_path / "one", 1)
    _write(tmp_path / "many", 40)
    item, many = _content(tmp_path / "one"), _content(tmp_path / "many")
    assert item[0] == many[0]
    assert item[1:] == many[1:]
    sizes = [
        apsw.Connection(str(tmp_path / name / "profile.pop"))
        .execute("SELECT (SELECT count(*) FROM row_block), (SELECT count(*) FROM chunk)")
        .fetchall()
        for name in ("one", "many")
    ]
    assert sizes[0] == sizes[1]
    assert {problem.code for problem in check_report(tmp_path / "many")} <= {"disagreement"}


def test_only_commits_of_the_same_name_follow_one_that_grows(tmp_path):
    with ReportWriter.create(tmp_path) as writer:
        writer.commit("run", grows=True)
        with pytest.raises(ValueError, match="'run' is still growing"):
            writer.commit("compiled")


def test_a_killed_report_that_grew_holds_its_last_commit(tmp_path):
    with ReportWriter.create(tmp_path) as writer:
        writer.commit("compiled")
        for number in range(3):
            writer.add(provenance, [{"key": f"{number}", "value": ""}])
            writer.commit("run", grows=True)
        writer.add(provenance, [{"key": "lost", "value": ""}])
        writer.append("trace.start_cycle", np.arange(200_000))  # opens a transaction
        writer.abandon()
    with open_report(tmp_path) as report:
        assert report.column(provenance, "key") == ("0", "1", "2")
        report.verify()


def test_an_interrupted_call_ends_the_report_at_its_last_commit(tmp_path, monkeypatch):
    with ReportWriter.create(tmp_path) as writer:
        writer.add(provenance, [{"key": "seed", "value": "1"}])
        writer.commit("compiled")
        with monkeypatch.context() as patch:
            patch.setattr("tilescope.reports.writing.store.pack", _interrupt)
            with pytest.raises(KeyboardInterrupt):
                writer.append("trace.start_cycle", np.arange(70_000))
        with pytest.raises(ReportNotWritable, match="was interrupted"):
            writer.add(provenance, [{"key": "more", "value": "2"}])
        assert writer.has_failed
        writer.commit("run")
        with pytest.raises(ReportNotWritable, match="was interrupted"):
            writer.finish()
    assert not (tmp_path / "profile.pop").exists()
    with open_report(tmp_path) as report:
        assert report.milestones == ["created", "compiled"]
        report.verify()


def _interrupt(*_):
    raise KeyboardInterrupt


def test_a_report_that_does_not_read_as_written_replaces_nothing(tmp_path, monkeypatch):
    with ReportWriter.create(tmp_path) as writer:
        writer.add(provenance, [{"key": "seed", "value": "first"}])
        writer.finish()
    with ReportWriter.create(tmp_path) as writer, monkeypatch.context() as patch:
        writer.add(provenance, [{"key": "seed", "value": "second"}])
        patch.setattr("tilescope.reports.writing.store.digest_columns", lambda *_: bytes(16))
        with pytest.raises(ReportNotWritable, match="does not read as it was written"):
            writer.finish()
    with open_report(tmp_path) as report:
        assert report.column(provenance, "value") == ("first",)
        assert report.newer_run is not None
        assert report.newer_run.state.state == "damaged"


def _killed(directory, value, created):
    """Leave the unfinished report of a killed run."""
    with ReportWriter.create(directory) as writer:
        facts = {"seed": value, "wall_created": created}
        writer.add(provenance, [{"key": key, "value": facts[key]} for key in facts])
        writer.commit("compiled")
        writer.abandon()
        return writer.path


def _finished(directory, created):
    with ReportWriter.create(directory) as writer:
        writer.add(provenance, [{"key": "wall_created", "value": created}])
        return writer.finish()


def test_a_newer_run_is_known_by_what_it_says_of_itself(tmp_path):
    """Copies and `touch` change the dates of files."""
    old = _killed(tmp_path, "old", "2026-01-01T00:00:00.000001Z")
    path = _finished(tmp_path, "2026-01-01T00:00:00.000002Z")
    os.utime(old, (path.stat().st_mtime + 5,) * 2)
    with open_report(tmp_path) as report:
        assert report.newer_run is None
    new = _killed(tmp_path, "new", "2026-01-01T00:00:00.000003Z")
    os.utime(path, (new.stat().st_mtime + 9,) * 2)
    with open_report(tmp_path) as report:
        assert report.newer_run is not None
        assert report.newer_run.path == new


def test_empty_files_hide_no_run(tmp_path):
    _finished(tmp_path, "2026-01-01T00:00:00.000002Z")
    new = _killed(tmp_path, "new", "2026-01-01T00:00:00.000003Z")
    for number in range(40):
        (tmp_path / f"profile_{number:08x}.pop").touch()
    with open_report(tmp_path) as report:
        assert report.newer_run is not None
        assert report.newer_run.path == new
    (tmp_path / "profile.pop").unlink()
    with open_report(tmp_path) as report:
        assert report.path == new


def test_a_date_in_the_future_is_no_life(tmp_path):
    dead = _killed(tmp_path, "dead", "2026-01-01T00:00:00.000003Z")
    os.utime(dead, (time.time() + 3600,) * 2)
    with ReportWriter.create(tmp_path) as writer:
        writer.commit("compiled")
        states = [report_state(file) for file in (writer.path, dead)]
        assert [state and state.state for state in states] == [State.RUNNING, State.ENDED_EARLY]
        with open_report(tmp_path) as report:
            assert report.path == writer.path


def test_a_link_leads_to_a_running_report(tmp_path):
    with ReportWriter.create(tmp_path / "r") as writer:
        writer.add(provenance, [{"key": "seed", "value": "1"}])
        writer.commit("compiled")
        link = tmp_path / "latest.pop"
        link.symlink_to(writer.path)
        with open_report(link) as report:
            assert report.state.state is State.RUNNING
            assert report.column(provenance, "key") == ("seed",)


def test_a_report_that_ends_while_it_is_read_was_running(tmp_path):
    with ReportWriter.create(tmp_path) as writer:
        writer.commit("compiled")
        with open_report(writer.path) as report:
            writer.finish()
            assert report.state.state is State.RUNNING
            assert report.state.sign_of_life is not None
