"""Exchanges of equal structure are costed once, as if each had been costed by itself."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from tilescope.engine.codelets.popops.elementwise.copy import COPY
from tilescope.engine.compiler.addresses import Addresses
from tilescope.engine.compiler.column import Column
from tilescope.engine.compiler.exchange import exchanges
from tilescope.engine.compiler.exchange.exchange import Exchange, exchange_of
from tilescope.engine.compiler.exchange.exchanges import Exchanges
from tilescope.engine.compiler.exchange.transfer import Transfer
from tilescope.engine.graph import ComputeSet, Graph, VertexBatch, blocks
from tilescope.engine.machine import load_machine

N_VARIABLES, N_ELEMENTS, N_TILES, N_VERTICES = 6, 24, 4, 3


def alone(graph: Graph, compute_set: ComputeSet, *, is_input: bool) -> Transfer | None:
    """Return an exchange that is costed by itself, among all variables of its graph."""
    exchange = exchange_of([compute_set], Addresses(graph.variables), is_input=is_input)
    return Transfer.of(exchange, graph.machine, is_input=is_input)


def content(value: Any) -> Any:
    """Return what a transfer holds, in a form that can be compared."""
    if value is None or isinstance(value, str | tuple):
        return value
    if isinstance(value, np.ndarray | Column):
        return value.tolist()
    return [(field.name, content(getattr(value, field.name))) for field in fields(value)]


def drawn(random: np.random.Generator) -> Graph:
    """Return a graph whose compute sets copy pieces of few kinds between variables of few kinds."""
    graph = Graph(load_machine("gc200", n_ipus=2, tiles_per_ipu=N_TILES // 2))
    for i in range(N_VARIABLES):
        dtype = ("float32", "float16")[int(random.integers(0, 4)) // 3]
        tensor = graph.add_variable(dtype, (N_ELEMENTS,), f"v{i}")
        starts, tiles = (([0, 8, 16], [0, 1, 0]), ([0, 12], [1, 2]))[int(random.integers(0, 2))]
        graph.set_tile_mapping(tensor, starts, tiles)
    tile = np.array([[0, 1, 2], [3, 3, 1]], np.int32)
    starts_of = np.array([[0, 8, 16], [0, 4, 0], [16, 12, 4]])
    for i in range(12):
        compute_set = graph.add_compute_set(f"step {i}")
        for _ in range(int(random.integers(1, 3))):
            x, y = (graph.variables[int(k)] for k in random.integers(0, N_VARIABLES, 2))
            read, written = (starts_of[int(k)] for k in random.integers(0, 3, 2))
            regions = {
                "x": blocks(x, read, [8], [1], N_VERTICES),
                "out": blocks(y, written, [8], [1], N_VERTICES),
            }
            compute_set.add(VertexBatch(COPY, tile[int(random.integers(0, 2))], regions, {}))
    return graph


@pytest.mark.parametrize("seed", range(40))
def test_a_known_exchange_costs_what_it_does_alone(seed: int) -> None:
    graph = drawn(np.random.default_rng(seed))
    known = Exchanges(graph.machine)
    for compute_set in graph.compute_sets:
        around = known.around(compute_set)
        for transfer, is_input in ((around.before, True), (around.after, False)):
            expected = alone(graph, compute_set, is_input=is_input)
            assert content(transfer) == content(expected)


@pytest.mark.parametrize("seed", range(40))
def test_pairs_of_an_exchange_without_multicast_share_nothing(seed: int) -> None:
    """Whether anything is multicast is known before parts of pairs are looked for."""
    random = np.random.default_rng(seed)
    graph = drawn(random)
    for compute_set in graph.compute_sets:
        for is_input in (True, False):
            exchange = exchange_of([compute_set], Addresses(graph.variables), is_input=is_input)
            received = [
                (sender, element)
                for sender, start, length in zip(
                    exchange.sender.tolist(),
                    exchange.start.tolist(),
                    exchange.length.tolist(),
                    strict=True,
                )
                for element in range(start, start + length)
            ]
            assert exchange.is_multicast == (len(set(received)) < len(received))
            if not exchange.is_multicast:
                elements = [element for _, element in received]
                assert len(set(elements)) == len(elements) or not is_input


def test_equal_exchanges_are_costed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    n_costed = 0

    def counted(*args: Any, **options: Any) -> Exchange:
        nonlocal n_costed
        n_costed += 1
        return exchange_of(*args, **options)

    monkeypatch.setattr(exchanges, "exchange_of", counted)
    graph = Graph(load_machine("gc200", tiles_per_ipu=4))
    known = Exchanges(graph.machine)
    tiles, starts = np.arange(4, dtype=np.int32), np.arange(4) * 4
    for i in range(5):
        x, y = (graph.add_variable("float32", (16,), f"{name}{i}") for name in "xy")
        for variable, owners in ((x, [3, 2, 1, 0]), (y, [0, 1, 2, 3])):
            graph.set_tile_mapping(variable, starts, owners)
        compute_set = graph.add_compute_set(f"step {i}")
        regions = {
            name: blocks(v.variable, starts, [4], [1], 4) for name, v in (("x", x), ("out", y))
        }
        compute_set.add(VertexBatch(COPY, tiles, regions, {}))
        around = known.around(compute_set)
        assert around.before is not None
        assert around.before.variables == (x.variable.variable_id,)
        assert around.after is None
    assert n_costed == 2  # the one before, and that nothing moves after
