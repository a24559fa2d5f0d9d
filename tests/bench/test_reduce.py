"""Reductions on 1,472 simulated tiles, beside numpy. Never fails on time."""

from __future__ import annotations

from time import perf_counter

import numpy as np
import pytest
from tests.bench.beside import beside, median_times

from tilescope.engine import (
    Builder,
    Engine,
    Graph,
    compile_programs,
    load_machine,
    resolve_options,
)
from tilescope.engine.library.popops.reduction.reduce import reduce
from tilescope.engine.program import Sequence

CASES: list[tuple[str, tuple[int, ...], list[int]]] = [
    ("sum", (1024, 1024), [0]),
    ("sum", (1024, 1024), [1]),
    ("sum", (1024, 2944), [0]),
    ("sum", (1_000_000,), [0]),
    ("sum", (8, 8, 56, 56, 64), [2, 3]),
    ("maximum", (1024, 1024), [1]),
]


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
        run = median_times(engine.run)
        expected = theirs(values.astype(np.float64), axis=tuple(dims), keepdims=True)
        np.testing.assert_allclose(engine.read_tensor(out), expected, rtol=1e-3, atol=1e-2)
    numpy = median_times(lambda: theirs(values, axis=tuple(dims)))
    cycles = sum(int(step.cost.cycles.max()) for step in executable.steps)
    name = f"{operation} of {list(shape)} over {dims}"
    beside(f"{name}: planned in {plan_s:.2f} s, {cycles:,} cycles", run, "numpy", numpy)
