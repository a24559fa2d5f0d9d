"""Where the time of a compile, a run and a start goes: ``python -m tests.speed.parts WHAT``."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from types import FrameType

__all__ = ["compile_parts", "run_parts", "start_parts"]

_ROOT = Path(__file__).parents[2]
#: Processor time between two samples of a compile, seconds.
_INTERVAL_S = 0.001
_N_TIMES = 7
#: Models that are run on a machine without compiled kernels.
_RUN = ("mnist-8", "opennsfw")


def sampled(call: Callable[[], object]) -> dict[str, float]:
    """Return the processor seconds of a call by module of the engine, from samples of its stack.

    A sample counts for the innermost frame within the engine, so that what numpy does for a module
    is that module's.
    """
    used: Counter[str] = Counter()

    def sample(_number: int, frame: FrameType | None) -> None:
        while frame is not None:
            name = frame.f_globals.get("__name__", "")
            if name.startswith("tilescope.engine."):
                used[name.removeprefix("tilescope.engine.")] += 1
                return
            frame = frame.f_back
        used["other"] += 1

    before = signal.signal(signal.SIGPROF, sample)
    began = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, _INTERVAL_S, _INTERVAL_S)
    try:
        call()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    seconds = time.process_time() - began
    return {name: seconds * n / used.total() for name, n in used.most_common()}


def _largest_first(parts: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(parts.items(), key=lambda part: -part[1]))


def compile_parts(name: str) -> dict[str, float]:
    """Return the processor seconds of importing and compiling a model, by package of the engine."""
    from tilescope.engine import compile_model, load_machine, load_onnx
    from tilescope.engine.models import fetch

    path, machine = fetch(name), load_machine("gc200")

    def once() -> None:
        compile_model(load_onnx(path), machine)

    once()  # loads the compiler's own kernels
    by_package: defaultdict[str, float] = defaultdict(float)
    for module, seconds in sampled(once).items():
        by_package[module.partition(".")[0]] += seconds
    return _largest_first(by_package)


def run_parts(name: str) -> dict[str, float]:
    """Return the seconds by the clock of a run on one thread, by codelet, and of what is no kernel.

    Kernels are called one by one, so that what they share in a cache is lost.
    """
    from tilescope.engine import Engine, compile_model, load_machine, load_onnx
    from tilescope.engine.models import fetch

    compiled = compile_model(load_onnx(fetch(name)), load_machine("gc200"))
    by_codelet: defaultdict[str, float] = defaultdict(float)
    with Engine(compiled.executable) as engine:
        value = compiled.random_inputs(0)
        compiled.run(engine, value)
        full = median(_seconds(lambda: compiled.run(engine, value)) for _ in range(_N_TIMES))
        for launches in engine._replicas[0].plan.by_step.values():
            for launch in launches:
                seconds = median(_seconds(launch.run) for _ in range(_N_TIMES))
                by_codelet[re.sub("<.*", "", launch.codelet_name)] += seconds
    kernels = sum(by_codelet.values())
    return {**_largest_first(by_codelet), "kernels": kernels, "run": full}


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def start_parts() -> dict[str, float]:
    """Return the processor seconds of starting commands, beside those of their imports.

    And of whole runs of models, as the first on a machine and with all that it kept.
    """
    from tilescope.engine.models import fetch

    # As the command itself: given no arguments, it takes those of the process.
    code = (
        "import sys; sys.argv = ['tilescope', *{}];"
        " from tilescope.main import main; raise SystemExit(main())"
    )
    report = _ROOT / "tests/golden/v4/small.pop"
    commands = {
        "import typer": "import typer",
        "tilescope --help": code.format(["--help"]),
        "import numpy, apsw, typer": "import numpy, apsw, typer",
        "tilescope summary, a small report": code.format(["summary", str(report)]),
        "import numba": "import numba",
    }
    results = {
        subject: median(_process(c) for _ in range(_N_TIMES)) for subject, c in commands.items()
    }
    for name in _RUN:
        with TemporaryDirectory() as folder:
            code_of_run = code.format(["run", str(fetch(name)), "--quiet", f"--report={folder}/r"])
            kernels = f"{folder}/kernels"
            results[f"tilescope run {name}, first on a machine"] = _process(code_of_run, kernels)
            again = median(_process(code_of_run, kernels) for _ in range(_N_TIMES))
            results[f"tilescope run {name}, second"] = again
    return results


def _process(code: str, kernels: str = "") -> float:
    """Return the processor seconds of a Python process, with a folder of compiled kernels."""
    environ = os.environ | {"PYTHONPATH": f"{_ROOT / 'compat'}:{_ROOT}"}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installation has bytecode
    if kernels:
        environ["NUMBA_CACHE_DIR"] = kernels
    before = os.times()
    subprocess.run(
        [sys.executable, "-c", code], env=environ, check=True, stdout=subprocess.DEVNULL, cwd="/"
    )
    after = os.times()
    return (
        after.children_user - before.children_user + after.children_system - before.children_system
    )


def main() -> None:
    """Print one table as JSON."""
    kinds: Mapping[str, Callable[..., dict[str, float]]] = {
        "compile": compile_parts,
        "run": run_parts,
        "start": start_parts,
    }
    subject, *names = sys.argv[1:]
    sys.stdout.write(json.dumps(kinds[subject](*names)) + "\n")


if __name__ == "__main__":
    main()
