"""How programs end, and what their reports are then: subprocesses end for real."""

from __future__ import annotations

import os
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
        ("engine.flush_report(); os._exit(7)", State.ENDED_EARLY, 7),
        ("time.sleep(1.2); os._exit(7)", State.ENDED_EARLY, 7),
    ],
)
def test_every_recorded_run_is_there(tmp_path: Path, script: str, state: State, code: int) -> None:
    done = _end(tmp_path, script)
    assert done.returncode == code, done.stderr
    assert ("Traceback" in done.stderr) is ("ValueError('" in script)
    with open_report(tmp_path) as report:
        assert report.state.state is state
        assert run_names(report) == [f"r{number}" for number in range(5)]
    assert contradictions(tmp_path) == []
    assert (tmp_path / "profile.pop").exists() is (state is State.COMPLETE)
    ReportWriter.create(tmp_path).abandon()  # no lock is left


_WAITING = "time.sleep(1.2); print('up', flush=True); time.sleep(60)"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_between_runs_ends_the_report_early(tmp_path: Path, number: int) -> None:
    done = _end(tmp_path, _WAITING, kill=number)
    assert done.returncode == -number
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
