"""What recording costs beside running, and a summary of many runs; never fails on time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

_ROOT = Path(__file__).parents[2]
_ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{_ROOT / 'compat'}:{_ROOT}"}
_ROUNDS = 5
_N_RUNS = 5_000

#: Prints processor and wall time of a run in milliseconds, recording with its end included.
_RUNS = """
import json, sys, time
from pathlib import Path
from tilescope.engine.frontend.onnx.onnx_file import OnnxFile
from tilescope.engine.frontend.source_model import Setup
from tilescope.engine.session.model_run import load_model
from tilescope.engine import Engine, load_machine, resolve_options
from tilescope.engine.session.compilation import compile_model
model, directory, n_runs = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
compiled = compile_model(load_model(OnnxFile(model), Setup(), 0), load_machine("gc200"))
given = {
    "autoReport.all": "true",
    "autoReport.directory": directory,
    "autoReport.executionProfileProgramRunCount": "1000000",
} if directory else {}
options = resolve_options(environ={"POPLAR_ENGINE_OPTIONS": json.dumps(given)})
engine = Engine(compiled.executable, options)
values = compiled.random_inputs(0)
compiled.run(engine, values)
wall, cpu = time.perf_counter(), time.process_time()
for _ in range(n_runs):
    compiled.run(engine, values)
engine.close()
print(json.dumps([(time.process_time() - cpu) * 1e3 / n_runs,
                  (time.perf_counter() - wall) * 1e3 / n_runs]))
"""


def _measured(model: Path, directory: str, n_runs: int) -> list[float]:
    command = [sys.executable, "-c", _RUNS, str(model), directory, str(n_runs)]
    process = subprocess.run(
        command, env=_ENVIRONMENT, capture_output=True, text=True, check=True, cwd=_ROOT
    )
    times: list[float] = json.loads(process.stdout)
    return times


def test_recorded_beside_unrecorded_runs(
    catalogue_model: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = catalogue_model("mnist-8")
    rounds = [
        (_measured(model, "", _N_RUNS), _measured(model, str(tmp_path / f"{number}"), _N_RUNS))
        for number in range(_ROUNDS)
    ]
    plain, recorded = (
        [median(times[part][kind] for times in rounds) for kind in (0, 1)] for part in (0, 1)
    )
    with capsys.disabled():
        print(  # noqa: T201
            f"\nmnist-8, {_N_RUNS:,} runs: recorded {recorded[0]:.3f}, unrecorded {plain[0]:.3f} ms"
            f" of processor time a run, ratio {recorded[0] / plain[0]:.2f};"
            f" by the clock {recorded[1]:.3f}, {plain[1]:.3f} ms, {recorded[1] / plain[1]:.2f}"
        )


def test_summary_of_many_runs(
    catalogue_model: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = catalogue_model("mnist-8")
    for n_runs in (10, 1_000, 10_000):
        directory = tmp_path / f"{n_runs}"
        _measured(model, str(directory), n_runs - 1)
        times = [_summary_s(directory) for _ in range(_ROUNDS)]
        with capsys.disabled():
            print(  # noqa: T201
                f"\nsummary of {n_runs:,} runs: {median(times):.3f} s of processor time"
            )


def _summary_s(directory: Path) -> float:
    """Return the processor time of ``tilescope summary``."""
    before = os.times()
    command = [sys.executable, "-m", "tilescope", "summary", str(directory)]
    subprocess.run(command, env=_ENVIRONMENT, capture_output=True, check=True, cwd=_ROOT)
    after = os.times()
    used = after.children_user - before.children_user
    return used + after.children_system - before.children_system
