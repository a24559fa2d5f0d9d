"""A report that cannot be written costs no results: they are printed, then one sentence, exit 4."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from tests.faults.program import contradictions, run_names
from tests.tilescope.test_run import save_model

from tilescope.reports import ReportWriter, State, open_report

ROOT = Path(__file__).parents[2]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a product on rows of 8."""
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    weights = np.arange(32, dtype=np.float32).reshape(8, 4) / 32
    return save_model(tmp_path / "small.onnx", [node], ["rows", 8], {"w": weights})


def _failing(number: int) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


def _run(tilescope: Any, model: Path, directory: Path) -> tuple[Any, Path]:
    """Run the model with a report that is lost; return the outcome and the outputs."""
    outputs = directory.parent / "y.npz"
    finished = tilescope(
        "run", model, "--tiles", 8, "--report", directory / "r", "--outputs", outputs
    )
    assert finished.code == 4
    assert "Output y: float32" in finished.out
    assert "Report:" not in finished.out
    assert np.load(outputs)["y"].shape[1] == 4
    assert finished.err.startswith("tilescope: Cannot write")
    assert finished.err.count("\n") == 1
    return finished, directory / "r"


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL])
def test_a_file_system_without_locks(
    tilescope: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(fcntl, "flock", _failing(number))
    finished, directory = _run(tilescope, model, tmp_path / "below")
    assert "its file system does not support locks" in finished.err
    assert not directory.exists()


def test_a_name_that_is_too_long(tilescope: Any, model: Path, tmp_path: Path) -> None:
    directory = tmp_path / ("r" * 300)
    finished = tilescope("run", model, "--tiles", 8, "--report", directory)
    assert finished.code == 4
    assert "Output y: float32" in finished.out
    assert "File name too long" in finished.err


def test_a_directory_with_too_many_engines(
    tilescope: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilescope.engine.recorder.place._MOST_ENGINES", 1)
    with ReportWriter.create(tmp_path / "r"):
        finished = tilescope("run", model, "--tiles", 8, "--report", tmp_path / "r")
    assert finished.code == 4
    assert "Output y: float32" in finished.out
    assert "Another engine is writing" in finished.err


@pytest.mark.parametrize("limit_bytes", [0, 20_000, 60_000, 100_000])
def test_a_full_disk(tilescope: Any, model: Path, tmp_path: Path, limit_bytes: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    inputs = tmp_path / "x.npz"
    np.savez(inputs, x=np.zeros((1, 8), np.float32))
    tilescope("run", model, "--tiles", 8, "--no-report")  # its kernels are compiled
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))
    try:
        finished = tilescope("run", model, "--tiles", 8, "--report", tmp_path / "r")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert finished.code == 4
    assert "Output y: float32" in finished.out
    assert "the disk is full" in finished.err or "disk I/O error" in finished.err
    assert finished.err.count("\n") == 1
    assert contradictions(tmp_path / "r") == [] if (tmp_path / "r").exists() else True


@pytest.mark.parametrize("name", ["replace", "fsync"])
def test_an_error_at_the_end(
    tilescope: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    real = getattr(os, name)

    def fail(*arguments: Any, **options: Any) -> Any:
        is_report = name == "fsync" or str(arguments[1]).endswith("profile.pop")
        return (_failing(errno.EIO) if is_report else real)(*arguments, **options)

    monkeypatch.setattr(os, name, fail)
    finished = tilescope("run", model, "--tiles", 8, "--report", tmp_path / "r", "--json")
    assert finished.code == 4
    assert finished.json()["report_path"] is None
    assert "Input/output error" in finished.json()["report_lost"]
    assert finished.err.count("\n") == 1
    monkeypatch.undo()
    if name == "replace":  # the file is whole but for its name
        with open_report(tmp_path / "r") as report:
            assert len(run_names(report)) == 1


def test_an_interrupt_tells_where_the_report_is(model: Path, tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "tilescope", "run", str(model), "--tiles", "8", "--report",
        str(tmp_path), "--iterations", "100000000", "--quiet",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'compat'}"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("profile_*.pop-wal")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.startswith("tilescope: Interrupted. The report ended early: ")
    path = Path(err.strip().rpartition(": ")[2])
    with open_report(path) as report:
        assert report.state.state is State.ENDED_EARLY
        assert run_names(report)
