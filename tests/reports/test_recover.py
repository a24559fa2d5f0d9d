"""Recovery: sound runs are taken out of reports that do not open, or not to their end."""

import hashlib
import os
import shutil

import apsw
import numpy as np
import pytest
from tests.faults.program import contradictions, engine_options, run_names, start
from tests.generated_report import generate_report

from tilescope.engine import Engine, Graph, compile_programs, load_machine
from tilescope.engine.program import Sequence
from tilescope.reports import DamagedReport, NotAReport, ReportNotFound, State, open_report
from tilescope.reports.recover import recover_report
from tilescope.reports.schema import notice, wall_clock

N_RUNS = 6
N_MANY = 3_000


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return a complete report on two IPUs, each run in a commit and chunks of its own."""
    directory = tmp_path_factory.mktemp("whole")
    with start(directory, 2) as engine:
        for number in range(N_RUNS):
            engine.run(name=f"r{number}")
        recording = engine.recorder
    return recording.path


@pytest.fixture
def file(whole, tmp_path):
    copy = tmp_path / "profile.pop"
    shutil.copyfile(whole, copy)
    return copy


def _change(file, statement, *parameters):
    connection = apsw.Connection(str(file))
    connection.execute(statement, parameters)
    connection.close()


def _recovered(file, tmp_path):
    before = hashlib.sha256(file.read_bytes()).digest()
    finished = recover_report(file, tmp_path / "out")
    assert hashlib.sha256(file.read_bytes()).digest() == before
    assert contradictions(finished.path) == []
    with open_report(tmp_path / "out") as report:
        report.verify()
        assert report.state.state is State.ENDED_EARLY
        names = run_names(report)
        assert len(names) == finished.n_runs
        ids = [run_id for run_id in report.column(wall_clock, "run_id") if run_id is not None]
        assert ids == list(range(len(names)))
        assert "recovered" in report.column(notice, "code")
    return names, finished.lost


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE milestone SET digest = zeroblob(16) WHERE name = 'run'",
        "DELETE FROM milestone WHERE name = 'finished'",
        "UPDATE row_block SET n_rows = 1 WHERE table_name = 'provenance' AND row_block_id < 0",
        "INSERT INTO run VALUES (6, 'x', 0, 0, 1, 0)",
        "INSERT INTO run_trace VALUES (99, 6, 0, 0, 0, 1, 0, 1, NULL)",
    ],
)
def test_all_runs_are_sound(file, tmp_path, statement):
    _change(file, statement)
    names, _ = _recovered(file, tmp_path)
    assert names == [f"r{number}" for number in range(N_RUNS)]


def test_rows_that_do_not_match_their_digest_are_left_out(file, tmp_path):
    _change(file, "UPDATE run SET end_cycle = end_cycle + 1 WHERE run_id = 2")
    with open_report(file) as report, pytest.raises(DamagedReport):
        run_names(report)
    names, lost = _recovered(file, tmp_path)
    # All six share a block, and therefore a digest.
    assert names == []
    assert lost == tuple(f"r{number}" for number in range(N_RUNS))


def test_a_damaged_compilation_is_named(file, tmp_path):
    _change(file, "UPDATE variable SET name = 'other' WHERE variable_id = 0")
    with pytest.raises(DamagedReport, match="table variable of its compilation is damaged"):
        recover_report(file, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_file_is_refused(tmp_path):
    (tmp_path / "text.pop").write_text("no report")
    with pytest.raises(NotAReport):
        recover_report(tmp_path / "text.pop", tmp_path / "out")


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.pop")
    with pytest.raises(NotAReport, match="not a regular file"):
        recover_report(tmp_path / "pipe.pop", tmp_path / "out")
    for name in ("missing.pop", "x" * 300):
        with pytest.raises(ReportNotFound):
            recover_report(tmp_path / name, tmp_path / "out")


def test_what_a_killed_run_left_becomes_one_file(tmp_path):
    engine = start(tmp_path / "r")
    for number in range(3):
        engine.run(name=f"r{number}")
    engine.flush_report()
    (left,) = (tmp_path / "r").glob("profile_*.pop")
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "r", copy)
    engine.close()
    names, lost = _recovered(copy / left.name, tmp_path)
    assert names == ["r0", "r1", "r2"]
    assert lost == ()
    assert len(list((tmp_path / "out").iterdir())) == 1


def test_runs_without_entries_are_sound(tmp_path):
    graph = Graph(load_machine("gc200", tiles_per_ipu=2))
    executable = compile_programs(graph, [Sequence("nothing")])
    with Engine(executable, engine_options(tmp_path / "r")) as engine:
        for number in range(3):
            engine.run(name=f"r{number}")
    finished = recover_report(tmp_path / "r" / "profile.pop", tmp_path / "out")
    assert (finished.n_runs, finished.lost) == (3, ())


@pytest.mark.slow
def test_runs_around_a_damaged_chunk_are_sound(tmp_path):
    """A byte changes in one of several chunks of runs that do not repeat each other."""
    file = generate_report(
        tmp_path / "r",
        n_tiles=4,
        n_steps=64,
        n_variables=8,
        n_runs=N_MANY,
        distinct_patterns=4,
        has_distinct_runs=True,
    )
    connection = apsw.Connection(str(file))
    ((number, data),) = connection.execute(
        "SELECT chunk_id, data FROM chunk WHERE digest = (SELECT digest FROM array_chunk JOIN array"
        " USING (array_id) WHERE name = 'trace.start_cycle' AND row_start = 65536)"
    )
    broken = bytearray(data)
    broken[len(broken) // 2] ^= 1
    connection.execute("UPDATE chunk SET data = ? WHERE chunk_id = ?", (bytes(broken), number))
    connection.close()
    finished = recover_report(file, tmp_path / "out")
    with open_report(finished.path) as report:
        numbers = np.array([int(name.partition("#")[2]) for name in run_names(report)])
    assert 0 in numbers
    assert len(numbers) + len(finished.lost) == N_MANY
    assert (np.diff(numbers) > 1).sum() <= 1
    assert len(finished.lost) > 1000
