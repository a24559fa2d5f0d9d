"""Reductions on 1,472 simulated tiles, beside numpy. Never fails on time."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from time import perf_counter, process_time

import numpy as np
import pytest

from tilescope.engine import (
    Builder,
    Engine,
    Graph,
    compile_programs,
    load_machine,
    resolve_options,
)
from tilescope.engine.library.reduce import reduce
from tilescope.engine.program import Sequence

CASES: list[tuple[str, tuple[int, ...], list[int]]] = [
    ("sum", (1024, 1024), [0]),
    ("sum", (1024, 1024), [1]),
    ("sum", (1024, 2944), [0]),
    ("sum", (1_000_000,), [0]),
    ("sum", (8, 8, 56, 56, 64), [2, 3]),
    ("maximum", (1024, 1024), [1]),
]


def _median(call: Callable[[], object]) -> float:
    """Return the median processor time of some calls: other programs do not count."""
    times = []
    for _ in range(9):
        began = process_time()
        call()
        times.append(process_time() - began)
    return statistics.median(times)


@pytest.mark.parametrize(("operation", "shape", "dims"), CASES)
def test_beside_numpy(operation: str, shape: tuple[int, ...], dims: list[int]) -> None:
    graph = Graph(load_machine("gc200"))
    builder = Builder(graph, Sequence("main"))
    x = graph.add_variable("float32", shape, "x")
    graph.map_linearly(x)
    began = perf_counter()
    out = reduce(builder, operation, x, dims)
    plan_s = perf_counter() - began
    executable = compile_programs(graph, [builder.sequence], plans=builder.plans)
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    theirs = np.sum if operation == "sum" else np.max
    with Engine(executable, resolve_options()) as engine:
        engine.write_tensor(x, values)
        engine.run()
        run_s = _median(engine.run)
        expected = theirs(values.astype(np.float64), axis=tuple(dims), keepdims=True)
        np.testing.assert_allclose(engine.read_tensor(out), expected, rtol=1e-3, atol=1e-2)
    their_s = _median(lambda: theirs(values, axis=tuple(dims)))
    cycles = sum(int(step.cost.cycles.max()) for step in executable.steps)
    sys.stdout.write(
        f"\n{operation} of {list(shape)} over {dims}: planned in {plan_s:.2f} s, {cycles:,} cycles;"
        f" run {run_s * 1e3:.2f} ms, numpy {their_s * 1e3:.2f} ms: ratio {run_s / their_s:.1f}\n"
    )
