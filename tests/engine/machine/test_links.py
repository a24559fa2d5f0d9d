"""Routes over ladder and torus, link loads, and cycles of a global exchange."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest

from tilescope.engine import Graph, load_machine
from tilescope.engine.compiler.addresses import Addresses
from tilescope.engine.compiler.exchange.exchange import Exchange
from tilescope.engine.machine import TOPOLOGIES, Link, link_loads, route


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("n_ipus", [1, 2, 3, 4, 5, 8, 13, 64])
def test_a_route_leads_there_without_meeting_an_ipu_twice(n_ipus: int, topology: str) -> None:
    for source in range(n_ipus):
        for target in range(n_ipus):
            links = route(source, target, n_ipus, topology)
            assert len(links) <= n_ipus // 2 + 1
            visited = [source]
            for link in links:
                assert link.source_ipu == visited[-1]
                assert 0 <= link.target_ipu < n_ipus
                visited.append(link.target_ipu)
            assert visited[-1] == target
            assert len(set(visited)) == len(visited)


def test_routes_of_the_published_model() -> None:
    assert route(0, 1, 8) == [Link("pair", 0, 1)]
    assert route(0, 5, 8) == [Link("cross", 0, 1), Link("rail", 1, 3), Link("rail", 3, 5)]
    assert route(6, 2, 8) == [Link("rail", 6, 4), Link("rail", 4, 2)]


def test_a_torus_goes_the_shorter_way_round() -> None:
    assert len(route(0, 14, 16, "ladder")) == 7
    assert route(0, 14, 16, "torus") == [Link("rail", 0, 14)]
    assert len(route(0, 8, 16, "torus")) == 4


def test_the_last_rung_of_an_odd_number_has_one_end() -> None:
    assert route(4, 1, 5) == [Link("rail", 4, 2), Link("rail", 2, 0), Link("cross", 0, 1)]


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_links_carry_all_bytes_over_all_hops(topology: str) -> None:
    n_ipus = 8
    traffic = np.random.default_rng(1).integers(0, 1000, (n_ipus, n_ipus))
    loads = link_loads(traffic, topology)
    hops = [
        int(traffic[s, t]) * len(route(s, t, n_ipus, topology))
        for s in range(n_ipus)
        for t in range(n_ipus)
    ]
    assert sum(loads.values()) == sum(hops)


def test_an_idle_system_loads_no_link() -> None:
    assert link_loads(np.diag([5, 5, 5, 5]), "ladder") == {}


def cycles_of(pairs: list[tuple[int, int]], n_ipus: int, topology: str = "ladder") -> int:
    """Return the cycles of 64 KiB between IPUs over links, 1 KiB per tile."""
    machine = load_machine("gc200", n_ipus=n_ipus, tiles_per_ipu=64, link_topology=topology)
    graph = Graph(machine)
    n = 256
    tensor = graph.add_variable("float32", (n * 64 * len(pairs),), "x")
    graph.map_linearly(tensor)
    start = np.arange(64 * len(pairs), dtype=np.int64) * n
    length = np.full(start.size, n, np.int64)
    ipus = np.repeat(np.array(pairs, np.int64), 64, axis=0)
    sender, receiver = ipus.T * 64 + np.tile(np.arange(64), len(pairs))
    exchange = Exchange(sender, receiver, start, length, 4 * length, Addresses(graph.variables))
    return (
        int(exchange.cost(machine, exchange.schedule(machine)).cycles.max())
        - machine.link_start_cycles
    )


def test_a_global_exchange_waits_for_its_busiest_link() -> None:
    machine = load_machine("gc200")
    assert machine.link_start_cycles == 1694  # 1.274 µs at 1.33 GHz
    item, three = (ceil(n * 65536 / machine.bundle_bytes_per_cycle("rail")) for n in (1, 3))
    assert cycles_of([(0, 2), (1, 3)], 8) == item  # separate rails
    assert cycles_of([(0, 4), (2, 6), (0, 6)], 8) == three  # all use the rail from 2 to 4
    assert cycles_of([(0, 1)], 2) == ceil(65536 / machine.bundle_bytes_per_cycle("pair"))
    to_last = [(source, 14) for source in range(0, 14, 2)]
    ladder, torus = (cycles_of(to_last, 16, topology) for topology in TOPOLOGIES)
    assert ladder == ceil(7 * 65536 / machine.bundle_bytes_per_cycle("rail"))
    assert torus == ceil(4 * 65536 / machine.bundle_bytes_per_cycle("rail"))
