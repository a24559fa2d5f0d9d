"""A process that runs a model when told to: ``python -m tests.speed.worker PEER MODEL``.

PEER is ``ours``, ``recorded`` or ``theirs``. The process prints its times of preparation, and then,
for every number it reads, those of as many runs.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from tests.speed.subjects import SUBJECTS, Subject

__all__ = ["main"]

#: Threads of both peers; the caller sets ours in the environment.
N_THREADS = 1
#: Compilations and sessions of which the median counts.
N_TIMES = 5
_MANY = 1_000_000


def _times(call: Callable[[], object]) -> dict[str, float]:
    """Return the seconds of a call, by the clock and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    call()
    return {"clock_s": time.perf_counter() - clock, "cpu_s": time.process_time() - processor}


def _answer(prepared: dict[str, dict[str, float]], run: Callable[[], object]) -> None:
    """Print what preparation took, and then the runs that are asked for."""
    gc.freeze()
    _say(prepared)
    for line in sys.stdin:
        _say([_times(run) for _ in range(int(line))])


def _say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def _median_of(call: Callable[[], object]) -> dict[str, float]:
    """Return the median seconds of several calls, after one that loads what they need."""
    call()
    times = [_times(call) for _ in range(N_TIMES)]
    return {key: median(row[key] for row in times) for key in times[0]}


def _ours(subject: Subject, folder: Path, options_of_report: Mapping[str, object]) -> None:
    """Compile a model, take its stored program, and run it with a report."""
    from tilescope.engine import OnnxFile, compile_source, load_machine, resolve_options
    from tilescope.engine.session.engine import Engine

    path, machine = subject.path(folder), load_machine("gc200")
    setup, given = subject.setup(path), subject.inputs()
    source = OnnxFile(path)
    anew = resolve_options(environ={}, code={"enableEngineCaching": False})
    stored = resolve_options(
        environ={}, code={"enableEngineCaching": True, "cachePath": str(folder / "kept")}
    )
    prepared = {
        "anew": _median_of(lambda: compile_source(source, machine, setup=setup, options=anew)),
        "stored": _median_of(lambda: compile_source(source, machine, setup=setup, options=stored)),
    }
    compiled = compile_source(source, machine, setup=setup, options=stored).compiled
    used = {value.name: given[value.name] for value in compiled.model.inputs}
    report = {"autoReport.all": True, "autoReport.directory": str(folder / "report")}
    options = resolve_options(environ={}, code={**report, **options_of_report})
    with Engine(compiled.executable, options) as engine:
        compiled.run(engine, used)
        cycles = max(timeline.n_cycles for timeline in engine.timelines(0))
        prepared["chip"] = {"clock_s": cycles / machine.clock_hz, "cpu_s": 0.0}
        _answer(prepared, lambda: compiled.run(engine, used))


def _theirs(subject: Subject, folder: Path) -> None:
    """Make a session of onnxruntime and run it."""
    import onnxruntime

    path = subject.path(folder)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = N_THREADS
    options.log_severity_level = 3  # errors
    results: dict[str, Any] = {}

    def load() -> None:
        results["session"] = onnxruntime.InferenceSession(
            str(path), options, ["CPUExecutionProvider"]
        )

    prepared = {"session": _median_of(load)}
    session = results["session"]
    inputs = {key: np.asarray(array) for key, array in subject.inputs().items()}
    session.run(None, inputs)
    _answer(prepared, lambda: session.run(None, inputs))


def main() -> None:
    """Prepare one peer and answer."""
    peer, name = sys.argv[1:]
    subject = SUBJECTS[name]
    with TemporaryDirectory() as folder:
        match peer:
            case "ours":
                _ours(subject, Path(folder), {})
            case "recorded":
                _ours(subject, Path(folder), {"autoReport.executionProfileProgramRunCount": _MANY})
            case "theirs":
                _theirs(subject, Path(folder))


if __name__ == "__main__":
    main()
