"""Compute phases of equal structure are costed once, as if each had been costed by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tilescope.engine.codelets.popops.elementwise.copy import COPY
from tilescope.engine.compiler import phase_costs
from tilescope.engine.compiler.cycles.cycles import compute_cost
from tilescope.engine.compiler.phase_costs import PhaseCosts
from tilescope.engine.graph import ComputeSet, Graph, VertexBatch, blocks
from tilescope.engine.machine import load_machine


def copies(graph: Graph, tile: list[int], size: list[int], dtype: str = "float32") -> ComputeSet:
    """Return a compute set with a copy of some elements on every tile."""
    n = len(tile)
    x, y = (graph.add_variable(dtype, (16 * n,), name) for name in "xy")
    compute_set = graph.add_compute_set("copies")
    start = np.arange(n) * 16
    regions = {name: blocks(v.variable, start, [np.array(size)], [1], n)
               for name, v in (("x", x), ("out", y))}  # fmt: skip
    compute_set.add(VertexBatch(COPY, np.array(tile, np.int32), regions, {}))
    return compute_set


def test_equal_compute_sets_are_costed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    n_costed = 0

    def counted(*args: Any) -> Any:
        nonlocal n_costed
        n_costed += 1
        return compute_cost(*args)

    monkeypatch.setattr(phase_costs, "compute_cost", counted)
    graph = Graph(load_machine("gc200", tiles_per_ipu=4))
    costs = PhaseCosts(graph.machine)
    different = [
        ([0, 1], [8, 8], "float32"),
        ([0, 2], [8, 8], "float32"),
        ([0, 1], [8, 9], "float32"),
        ([0, 1], [8, 8], "float16"),
    ]
    for tile, size, dtype in (*different, *different):
        compute_set = copies(graph, tile, size, dtype)
        cost, uses = costs.compute(compute_set)
        expected, expected_uses = compute_cost(compute_set, graph.machine)
        assert cost.tile_cycles.tolist() == expected.tile_cycles.tolist()
        assert uses == expected_uses
    assert n_costed == len(different)


def test_a_scalar_that_the_law_reads_counts() -> None:
    graph = Graph(load_machine("gc200", tiles_per_ipu=4))
    costs = PhaseCosts(graph.machine)
    codelet = replace(COPY, pieces=None, law=lambda batch, _: batch.scalars["n"])
    cycles = []
    for n in (5, 7):
        compute_set = copies(graph, [0], [8])
        (batch,) = compute_set.batches
        scalars = {"n": np.array([n])}
        compute_set.batches = [replace(batch, codelet=codelet, scalars=scalars)]
        cycles.append(costs.compute(compute_set)[1][0].max_cycles)
    assert cycles == [5, 7]
