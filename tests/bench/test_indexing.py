"""Sorts, top-k and gathers on 1,472 simulated tiles, beside numpy. Never fails on time."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

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
from tilescope.engine.library.popops.slicing.gather import gather_elements
from tilescope.engine.library.popops.slicing.multi_slice import multi_slice
from tilescope.engine.library.popops.sorting.sort import sort, top_k
from tilescope.engine.program import Sequence

N = 1_000_000

#: The library's call, numpy's, and the shapes of data and indices.
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, Any]]] = {
    "sort of 1 M": (
        lambda b, x, _: sort(b, x),
        lambda x, _: np.sort(x),
        ((N,), (1,)),
    ),
    "top 10 of 1 M": (
        lambda b, x, _: top_k(b, x, 10),
        lambda x, _: np.sort(np.partition(x, N - 10)[-10:])[::-1],
        ((N,), (1,)),
    ),
    "1,000 rows of [50,000, 128]": (
        multi_slice,
        lambda x, i: np.take(x, i, 0),
        ((50_000, 128), (1000,)),
    ),
    "elements of [1,000, 1,000]": (
        gather_elements,
        lambda x, i: np.take_along_axis(x, i, 0),
        ((1000, 1000), (1000, 1000)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_beside_numpy(name: str) -> None:
    ours, theirs, (shape, where) = CASES[name]
    graph = Graph(load_machine("gc200"))
    builder = Builder(graph, Sequence("main"))
    x, indices = graph.add_variable("float32", shape, "x"), graph.add_variable("int32", where, "i")
    graph.map_linearly(x)
    graph.map_linearly(indices)
    began = perf_counter()
    out = ours(builder, x, indices)
    executable = compile_programs(graph, [builder.sequence])
    compile_s = perf_counter() - began
    random = np.random.default_rng(0)
    values = random.standard_normal(shape).astype(np.float32)
    offset = random.integers(0, shape[0], where).astype(np.int32)
    with Engine(executable, resolve_options()) as engine:
        engine.write_tensor(x, values)
        engine.write_tensor(indices, offset)
        engine.run()
        run = median_times(engine.run)
        expected = theirs(values, offset)
        np.testing.assert_array_equal(engine.read_tensor(out), expected)
    numpy = median_times(lambda: theirs(values, offset))
    cycles = sum(int(step.cost.cycles.max()) for step in executable.steps)
    beside(f"{name}: compiled in {compile_s:.2f} s, {cycles:,} cycles", run, "numpy", numpy)
