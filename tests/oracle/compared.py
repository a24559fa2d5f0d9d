"""Runs library functions on the compiled and the naive machine, and compares them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tests.oracle.memory_rules import check_memory, check_places
from tests.oracle.naive_machine import NaiveMachine, check_traffic, naive_live_bytes

from tilescope.engine import (
    Builder,
    Engine,
    Executable,
    Graph,
    compile_programs,
    load_machine,
    resolve_options,
)
from tilescope.engine.graph import View
from tilescope.engine.program import Program


def values_for(tensor: View, seed: int, *, low: float = -2, high: float = 2) -> np.ndarray:
    random = np.random.default_rng(seed)
    if tensor.dtype.is_float:
        return random.uniform(low, high, tensor.shape).astype(np.float32)
    return random.integers(max(int(low), -9), int(high) + 9, tensor.shape).astype(np.int32)


def run_both(
    graph: Graph,
    program: Program,
    inputs: Sequence[tuple[View, np.ndarray]],
    outputs: Sequence[View],
) -> tuple[Executable, list[np.ndarray]]:
    """Run both machines; compare values, exchanges, liveness and the compute set rule."""
    executable = compile_programs(graph, [program], is_checked=True)
    check_memory(executable)
    check_places(executable)
    naive = NaiveMachine(graph)
    with Engine(executable, resolve_options()) as engine:
        for tensor, values in inputs:
            engine.write_tensor(tensor, values)
            naive.write(tensor, values)
        engine.run()
        naive.run(program)
        results = [engine.read_tensor(tensor) for tensor in outputs]
    assert naive.violations == []
    for tensor, result in zip(outputs, results, strict=True):
        near = 4e-3 if tensor.dtype.name == "float16" else 2e-5
        np.testing.assert_allclose(result, naive.read(tensor), rtol=near, atol=near)
    return executable, results


def check(
    builder: Builder,
    inputs: Sequence[tuple[View, np.ndarray]],
    outputs: Sequence[View],
) -> list[np.ndarray]:
    graph = builder.graph
    executable, results = run_both(graph, builder.sequence, inputs, outputs)
    naive = NaiveMachine(graph)
    for tensor, values in inputs:
        naive.write(tensor, values)
    naive.run(builder.sequence)
    check_traffic(naive, executable)
    assert executable.memory.live.dense().tolist() == naive_live_bytes(executable).tolist()
    return results


def held(graph: Any, tensor: View, values: np.ndarray) -> np.ndarray:
    """Return values rounded to a tensor's type by the naive machine."""
    naive = NaiveMachine(graph)
    naive.write(tensor, values)
    return naive.read(tensor).astype(np.float64)


def near(result: np.ndarray, expected: np.ndarray, n_terms: int, dtype: str) -> None:
    """Compare sums of `n_terms` products of numbers near 1, rounded to their type."""
    step = 1e-5 if dtype == "float32" else 2.0**-10
    np.testing.assert_allclose(result, expected, rtol=8 * step, atol=4 * n_terms * step)


seeds = st.integers(0, 1000)


def small_machine(n_tiles: int, n_ipus: int = 1) -> Any:
    return load_machine("gc200", tiles_per_ipu=n_tiles, n_ipus=n_ipus)
