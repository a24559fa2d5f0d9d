"""Compile and run times of the engine compared with onnxruntime. Never fails on time.

Every peer runs in its own process, because pinned threads of one slow down the other.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest

from tilescope.engine.compiler.addresses import Addresses
from tilescope.engine.compiler.exchange.exchange import exchange_of
from tilescope.engine.compiler.kernels.placement import Lifetimes, first_fit, nothing_asked
from tilescope.engine.graph import ROOT, Graph, blocks
from tilescope.engine.machine import load_machine

_ROOT = Path(__file__).parents[2]

_OURS = """
import json, sys
from statistics import median
from time import perf_counter
from tilescope.engine import Engine, compile_model, load_machine, load_onnx, resolve_options

model = load_onnx(sys.argv[1])
compile_model(model, load_machine("gc200"))
began = perf_counter()
compiled = compile_model(model, load_machine("gc200"))
compile_s = perf_counter() - began
options = resolve_options(code={
    "autoReport.all": True, "autoReport.directory": sys.argv[2],
    "autoReport.executionProfileProgramRunCount": 1000,
})
with Engine(compiled.executable, options) as engine:
    engine.load()
    inputs = compiled.random_inputs(0)
    compiled.run(engine, inputs)
    times = []
    for _ in range(200):
        began = perf_counter()
        compiled.run(engine, inputs)
        times.append(perf_counter() - began)
print(json.dumps({"compile_s": compile_s, "run_s": median(times)}))
"""

_THEIRS = """
import json, sys
from statistics import median
from time import perf_counter
import numpy as np
import onnxruntime

began = perf_counter()
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
load_s = perf_counter() - began
random = np.random.default_rng(0)
inputs = {
    i.name: random.standard_normal([d if isinstance(d, int) else 1 for d in i.shape]).astype("f4")
    for i in session.get_inputs()
}
session.run(None, inputs)
times = []
for _ in range(200):
    began = perf_counter()
    session.run(None, inputs)
    times.append(perf_counter() - began)
print(json.dumps({"load_s": load_s, "run_s": median(times)}))
"""


def measure(code: str, *arguments: object) -> dict[str, float]:
    """Run a peer in its own process and return its measurements."""
    environment = {**os.environ, "PYTHONPATH": f"{_ROOT}{os.pathsep}{_ROOT / 'compat'}"}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    results: dict[str, float] = json.loads(process.stdout)
    return results


@pytest.mark.parametrize("name", ["mnist-8", "pulsevad-2k", "oww-alexa"])
def test_models_beside_onnxruntime(
    name: str, tmp_path: Path, catalogue_model: Callable[[str], Path]
) -> None:
    path = catalogue_model(name)
    ours, theirs = [], []
    for turn in range(3):
        ours.append(measure(_OURS, path, tmp_path / str(turn)))
        theirs.append(measure(_THEIRS, path))
    compile_s = statistics.median(times["compile_s"] for times in ours)
    run_s = statistics.median(times["run_s"] for times in ours)
    their_s = statistics.median(times["run_s"] for times in theirs)
    sys.stdout.write(
        f"\n{name}: compiled for 1,472 tiles in {compile_s:.2f} s (goal 3 s);"
        f" run with everything recorded {run_s * 1e3:.2f} ms (goal 10 ms),"
        f" onnxruntime {their_s * 1e3:.2f} ms: ratio {run_s / their_s:.1f}\n"
    )
    assert run_s > 0


def seconds(call: Callable[[], object]) -> float:
    """Return the median of three calls after one that compiles kernels."""
    call()
    times = []
    for _ in range(3):
        began = perf_counter()
        call()
        times.append(perf_counter() - began)
    return statistics.median(times)


@pytest.mark.parametrize("n", [10_000, 100_000, 1_000_000])
def test_exchange_inference(n: int) -> None:
    """Vertices that read two short fragments from random places."""
    from tilescope.engine.codelets.popops.elementwise.copy import COPY

    graph = Graph(load_machine("gc200"))
    x = graph.add_variable("float32", (n * 4,), "x")
    out = graph.add_variable("float32", (n * 8,), "out")
    graph.map_linearly(x, grain=4)
    graph.map_linearly(out, grain=8)
    random = np.random.default_rng(0)
    fields = {
        "x": blocks(x.variable, random.integers(0, n * 4 - 8, n), [8], [1], n),
        "out": blocks(out.variable, np.arange(n) * 8, [8], [1], n),
    }
    compute_set = graph.add_compute_set("copy", ROOT)
    graph.add_vertices(compute_set, COPY, out.variable.tile_of(np.arange(n) * 8), fields)
    addresses = Addresses(graph.variables)
    used = seconds(lambda: exchange_of([compute_set], addresses, is_input=True))
    moved = exchange_of([compute_set], addresses, is_input=True)
    sys.stdout.write(
        f"\nexchange of {n:,} vertices: {used * 1e3:.1f} ms, {n / used / 1e6:.1f} M vertices/s,"
        f" {moved.sender.size:,} fragments\n"
    )
    assert not moved.is_empty


@pytest.mark.parametrize("is_asked", [False, True])
@pytest.mark.parametrize("n", [10_000, 100_000, 1_000_000])
def test_allocation(n: int, is_asked: bool) -> None:
    """Parts of variables on 1,472 tiles, live for at most a tenth of 200 steps.

    Constraints, if any, are those of a product: every fourth part is interleaved and apart from
    the previous one.
    """
    random = np.random.default_rng(0)
    tile = np.sort(random.integers(0, 1472, n))
    start = random.integers(0, 200, n)
    order = np.lexsort((start, tile))
    tile, start = tile[order], start[order]
    end = start + random.integers(1, 20, n)
    size = random.integers(1, 64, n) * 8
    first = np.searchsorted(tile, np.arange(1473))
    base = np.full(1472, 4096)
    requested = nothing_asked(n)
    if is_asked:
        second = np.arange(3, n, 4)
        second = second[tile[second] == tile[second - 1]]
        requested.region[second] = 1
        pairs = np.concatenate([np.stack([second, second - 1]), np.stack([second - 1, second])], 1)
        pairs = pairs[:, np.argsort(pairs[0], kind="stable")]
        requested = requested._replace(
            first=np.searchsorted(pairs[0], np.arange(n + 1)),
            neighbour=pairs[1],
            is_soft=np.zeros(pairs[1].size, np.bool_),
        )
    machine = load_machine("gc200")
    lives = Lifetimes(np.arange(n), np.arange(n + 1), start, end)
    removed = seconds(lambda: first_fit(first, size, lives, base, requested, machine))
    _, highest = first_fit(first, size, lives, base, requested, machine)
    live = np.zeros((220, 1472), np.int64)
    np.add.at(live, (start, tile), size)
    np.add.at(live, (np.minimum(end, 219), tile), -size)
    minimum = np.cumsum(live, axis=0).max(axis=0)
    used = (highest - base).sum() / minimum.sum()
    sys.stdout.write(
        f"\nallocation of {n:,} parts{', some with constraints' * is_asked}:"
        f" {removed * 1e3:.1f} ms, {n / removed / 1e6:.1f} M parts/s,"
        f" {used:.3f} of the lower bound\n"
    )
    assert used >= 1
