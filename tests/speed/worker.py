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
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["main"]

#: Threads of both peers; the caller sets ours in the environment.
N_THREADS = 2

Arrays = Mapping[str, NDArray[Any]]


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


def _ours(name: str, given: Arrays, options_of_report: Mapping[str, object]) -> None:
    """Compile a model and run it with a report."""
    from tests.models.measure import fixed_of

    from tilescope.engine import Engine, compile_model, load_machine, load_onnx, resolve_options
    from tilescope.engine.models import fetch

    path, machine = fetch(name), load_machine("gc200")
    shapes, fixed = fixed_of(path, given)
    results: dict[str, Any] = {}

    def load() -> None:
        results["model"] = load_onnx(path, shapes, values=fixed)

    def compile_it() -> None:
        results["compiled"] = compile_model(results["model"], machine)

    load()
    compile_it()  # loads the compiler's own kernels
    prepared = {"load": _times(load), "compile": _times(compile_it)}
    compiled = results["compiled"]
    used = {value.name: given[value.name] for value in results["model"].inputs}
    with TemporaryDirectory() as folder:
        options = resolve_options(
            environ={},
            code={
                "autoReport.all": True,
                "autoReport.directory": folder,
                **options_of_report,
            },
        )
        with Engine(compiled.executable, options) as engine:
            compiled.run(engine, used)
            _answer(prepared, lambda: compiled.run(engine, used))


def _theirs(name: str, given: Arrays) -> None:
    """Make a session of onnxruntime and run it."""
    import onnxruntime

    from tilescope.engine.models import fetch

    path = fetch(name)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = N_THREADS
    options.log_severity_level = 3  # errors
    results: dict[str, Any] = {}

    def load() -> None:
        results["session"] = onnxruntime.InferenceSession(
            str(path), options, ["CPUExecutionProvider"]
        )

    load()
    prepared = {"compile": _times(load)}
    session = results["session"]
    inputs = {key: np.asarray(array) for key, array in given.items()}
    session.run(None, inputs)
    _answer(prepared, lambda: session.run(None, inputs))


def main() -> None:
    """Prepare one peer and answer."""
    from tests.models.measure import inputs_of

    from tilescope.engine.models import all_models

    peer, name = sys.argv[1:]
    value = inputs_of(all_models()[name])
    match peer:
        case "ours":
            _ours(name, value, {})
        case "recorded":
            _ours(name, value, {"autoReport.executionProfileProgramRunCount": 1_000_000})
        case "theirs":
            _theirs(name, value)


if __name__ == "__main__":
    main()
