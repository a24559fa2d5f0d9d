"""How programs end, and what their reports are then: subprocesses end for real."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.faults.program import contradictions, run_names, start

from tilescope.reports import ReportWriter, State, open_report
from tilescope.reports.schema import notice

ROOT = Path(__file__).parents[2]
_BEGIN = """
import gc, os, signal, sys, time
from pathlib import Path
from tests.faults.program import start
engine = start(Path(sys.argv[1]))
for number in range(5):
    engine.run(name=f"r{number}")
"""


def _end(directory: Path, script: str, *, kill: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a script after five recorded runs."""
    command = [sys.executable, "-c", _BEGIN + script, str(directory)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'compat'}"}
    if not kill:
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(kill)
        out, err = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@pytest.mark.parametrize(
    ("script", "state", "code"),
    [
        ("", State.COMPLETE, 0),
        ("engine.close()", State.COMPLETE, 0),
        ("del engine; gc.collect()", State.COMPLETE, 0),
        ("sys.exit(3)", State.COMPLETE, 3),
        ("raise ValueError('a bug in the program')", State.ENDED_EARLY, 1),
        ("engine.loop = engine; del engine", State.COMPLETE, 0),
        ("with engine: raise ValueError('within')", State.ENDED_EARLY, 1),
        ("try:\n    with engine: raise ValueError\nexcept ValueError: pass", State.ENDED_EARLY, 0),
        ("child = os.fork()\nif child == 0: sys.exit(5)\nos.wait()", State.COMPLETE, 0),
        ("with engine: sys.exit(0)", State.COMPLETE, 0),
        (
            "from tilescope.engine.errors import OutOfTileMemory\ntry:\n    with engine:"
            " raise OutOfTileMemory('of another program')\nexcept OutOfTileMemory: pass",
            State.ENDED_EARLY,
            0,
        ),
        ("try:\n    with engine: {}['missing']\nexcept KeyError: pass", State.ENDED_EARLY, 0),
        ("with engine: sys.exit(143)", State.ENDED_EARLY, 143),
        ("try: raise ValueError('before')\nfinally: engine.close()", State.ENDED_EARLY, 1),
        ("try: raise KeyboardInterrupt\nexcept: engine.close()", State.ENDED_EARLY, 0),
        ("try: next(iter([]))\nexcept StopIteration: engine.close()", State.COMPLETE, 0),
        (
            "import contextlib\nwith contextlib.closing(engine): raise ValueError('in it')",
            State.ENDED_EARLY,
            1,
        ),
        (
            "def results():\n    with engine: yield from range(3)\nfor _ in results(): break",
            State.COMPLETE,
            0,
        ),
        ("engine.flush_report(); os._exit(7)", State.ENDED_EARLY, 7),
        ("time.sleep(1.2); os._exit(7)", State.ENDED_EARLY, 7),
    ],
)
def test_every_recorded_run_is_there(tmp_path: Path, script: str, state: State, code: int) -> None:
    finished = _end(tmp_path, script)
    assert finished.returncode == code, finished.stderr
    assert ("Traceback" in finished.stderr) is ("ValueError('" in script)
    with open_report(tmp_path) as report:
        assert report.state.state is state
        assert run_names(report) == [f"r{number}" for number in range(5)]
    assert contradictions(tmp_path) == []
    assert (tmp_path / "profile.pop").exists() is (state is State.COMPLETE)
    ReportWriter.create(tmp_path).abandon()  # no lock is left


_WORKER = """
import multiprocessing, sys
from pathlib import Path
from tests.faults.program import start
def work(directory):
    global engine
    engine = start(Path(directory))
    for number in range(5):
        engine.run(name=f"r{number}")
multiprocessing.set_start_method(sys.argv[2])
process = multiprocessing.Process(target=work, args=(sys.argv[1],))
process.start()
process.join()
"""


def test_an_engine_of_a_worker_process_ends_with_it(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'compat'}"}
    command = [sys.executable, "-c", _WORKER, str(tmp_path), "fork"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    with open_report(tmp_path) as report:
        assert report.state.state is State.COMPLETE
        assert len(run_names(report)) == 5


def test_an_interrupted_start_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start(tmp_path) as engine:
        engine.run(name="before")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("tilescope.engine.execute.replica.RemoteMemory", interrupt)
        with pytest.raises(KeyboardInterrupt):
            start(tmp_path)
    gc.collect()
    with open_report(tmp_path) as report:
        assert run_names(report) == ["before"]
    ReportWriter.create(tmp_path).abandon()  # no lock is left


def test_a_caller_waits_rather_than_be_far_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilescope.engine.recorder.recording._LATEST_S", -1.0)
    with start(tmp_path) as engine:
        for number in range(5):
            engine.run(name=f"r{number}")
            with open_report(tmp_path) as report:
                assert len(run_names(report)) == number + 1


def test_many_entries_are_committed_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilescope.engine.recorder.recording._COMMIT_S", -1.0)
    monkeypatch.setattr("tilescope.engine.recorder.runs._RUNS_AT_A_TIME", 7)
    with start(tmp_path) as engine:
        for number in range(20):
            engine.run(name=f"r{number}")
    assert contradictions(tmp_path) == []
    with open_report(tmp_path) as report:
        assert run_names(report) == [f"r{number}" for number in range(20)]


def test_a_removed_directory_is_not_acknowledged(tmp_path: Path) -> None:
    with start(tmp_path / "r") as engine:
        engine.run()
        shutil.rmtree(tmp_path / "r")
        engine.run()
        engine.flush_report()
        assert "was removed, renamed or replaced while it was written" in engine.recorder.lost


def test_a_name_of_any_length_costs_no_run(tmp_path: Path) -> None:
    with start(tmp_path) as engine:
        for name in ("ok", "x" * 9_000_000, "ok2"):
            engine.run(name=name)
    with open_report(tmp_path) as report:
        assert [len(name) for name in run_names(report)] == [2, 1_000, 3]


_WAITING = "time.sleep(1.2); print('up', flush=True); time.sleep(60)"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_between_runs_ends_the_report_early(tmp_path: Path, number: int) -> None:
    finished = _end(tmp_path, _WAITING, kill=number)
    assert finished.returncode == -number
    with open_report(tmp_path) as report:
        assert report.state.state is State.ENDED_EARLY
        assert len(run_names(report)) == 5
    assert contradictions(tmp_path) == []


def test_an_interrupted_last_run_ends_the_report_early_and_keeps_the_one_before(
    tmp_path: Path,
) -> None:
    with start(tmp_path) as engine:
        engine.run(name="before")
    engine = start(tmp_path)
    engine.run(name="whole")
    engine.recorder._recording.unfinished = "A run"  # type: ignore[union-attr]  # as an interrupt leaves it
    engine.close()
    assert engine.recorder.path is not None
    assert engine.recorder.path.name != "profile.pop"
    with open_report(tmp_path) as report:
        assert run_names(report) == ["before"]
        assert report.newer_run is not None
        assert report.newer_run.path == engine.recorder.path
        assert report.newer_run.state.state is State.ENDED_EARLY
        assert "A newer run is in" in report.newer_run.sentence
    with open_report(engine.recorder.path) as report:
        assert run_names(report) == ["whole"]


def test_a_running_engine_gives_signs_of_life(tmp_path: Path) -> None:
    with start(tmp_path) as engine:
        engine.flush_report()
        with open_report(tmp_path) as report:
            state = report.state
        assert state.state is State.RUNNING
        assert state.sign_of_life is not None
        deadline = time.monotonic() + 10
        while True:
            with open_report(tmp_path) as report:
                life = report.state.sign_of_life
            if life is not None and life > state.sign_of_life:
                break
            assert time.monotonic() < deadline, "no further sign of life"
            time.sleep(0.1)
    with open_report(tmp_path) as report:
        assert report.state.state is State.COMPLETE
        assert report.state.sign_of_life is None


def test_runs_are_durable_without_a_request(tmp_path: Path) -> None:
    with start(tmp_path) as engine:
        engine.run(name="only")
        deadline = time.monotonic() + 10
        while True:
            with open_report(tmp_path) as report:
                if run_names(report) == ["only"]:
                    break
            assert time.monotonic() < deadline, "the run was not committed"
            time.sleep(0.1)


def test_an_interrupted_run_is_noted_once_and_later_runs_count(tmp_path: Path) -> None:
    engine = start(tmp_path)
    engine.run(name="first")
    for error in (KeyboardInterrupt, MemoryError):
        with pytest.raises(error), engine.recorder.noting_failure("A run"):
            raise error
    engine.run(name="second")
    engine.close()
    with open_report(tmp_path) as report:
        assert report.state.state is State.COMPLETE
        assert run_names(report) == ["first", "second"]
        assert report.column(notice, "code") == ("interrupted", "internal")
