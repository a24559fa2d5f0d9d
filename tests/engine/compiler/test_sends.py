"""Schedules of exchanges: on a few tiles, counted out, and their rules on random ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilescope.engine.compiler.addresses import Addresses
from tilescope.engine.compiler.exchange.exchange import Exchange
from tilescope.engine.compiler.exchange.sends import Parts, Schedule, Sends
from tilescope.engine.compiler.kernels.send_schedule import schedule_of_sends
from tilescope.engine.graph import Graph
from tilescope.engine.machine import Machine, load_machine

#: 4 bytes a cycle to a tile, 8 to both tiles of a pair.
MACHINE = load_machine("gc200")
Fragment = tuple[int, int, int, int]  # sender, receiver, first float, floats


def parts_of(fragments: list[Fragment]) -> Parts:
    sender, receiver, start, length = np.array(fragments, np.int64).T
    return Parts.of(sender, receiver, start, length, 4 * length)


def schedule_of(fragments: list[Fragment], n_tiles: int = 8) -> Schedule:
    """Schedule fragments of floats at one float a cycle."""
    return Schedule.of(Sends.of(parts_of(fragments), MACHINE), n_tiles)


def begins(schedule: Schedule) -> dict[tuple[int, tuple[int, ...]], int]:
    """Return when each send begins, by sender and receivers."""
    sends = schedule.sends
    sets = np.split(sends.receiver, sends.first[1:-1])
    keys = [(int(t), tuple(map(int, r))) for t, r in zip(sends.sender, sets, strict=True)]
    return dict(zip(keys, schedule.begin.tolist(), strict=True))


def test_a_receiver_takes_one_sender_at_a_time() -> None:
    schedule = schedule_of([(0, 2, 0, 5), (1, 2, 10, 3)])
    assert begins(schedule) == {(0, (2,)): 0, (1, (2,)): 5}
    received, sent = schedule.received_at, schedule.sent_at
    assert (received[2], sent[0], sent[1]) == (8, 5, 8)
    assert schedule.sources.tolist() == [0, 0, 2, 0, 0, 0, 0, 0]


def test_a_tile_sends_one_thing_at_a_time_while_it_receives() -> None:
    """Tiles 0 and 1 send to each other first: each has 12 floats in all, tile 2 only 8."""
    schedule = schedule_of([(0, 1, 0, 4), (0, 2, 4, 4), (1, 0, 10, 4), (1, 2, 14, 4)])
    assert begins(schedule) == {(0, (1,)): 0, (1, (0,)): 0, (0, (2,)): 4, (1, (2,)): 8}


def test_what_several_tiles_need_is_sent_once() -> None:
    """Tile 0 sends floats 0 to 3 to tile 1, 4 to 7 to both, 8 to 11 to tile 2."""
    schedule = schedule_of([(0, 1, 0, 8), (0, 2, 4, 8)])
    assert schedule.sends.cycles.tolist() == [4, 4, 4]
    assert begins(schedule)[0, (1, 2)] == 0
    received, sent = schedule.received_at, schedule.sent_at
    assert sent[0] == 12
    assert sorted(received[1:3].tolist()) == [8, 12]
    assert schedule.sources[1:3].tolist() == [1, 1]  # it listens to the same tile all the time


def test_an_exchange_of_all_with_all_is_longer_than_its_busiest_tile() -> None:
    """Three tiles send one word to each of three others; with the lowest free tile first the
    schedule is the table of exclusive ors, whose rows of three use four numbers.

    ======  =  =  =
    sender  3  4  5
    ======  =  =  =
    0       0  1  2
    1       1  0  3
    2       2  3  0
    ======  =  =  =
    """
    fragments = [(s, r, 3 * s + r - 3, 1) for s in range(3) for r in range(3, 6)]
    expected = {(s, (r,)): s ^ (r - 3) for s in range(3) for r in range(3, 6)}
    assert begins(schedule_of(fragments)) == expected


def test_a_send_to_pairs_takes_the_partners_lane() -> None:
    """Tile 0 sends eight floats to the pair 2, 3 over its lane and tile 1's, which then sends."""
    partner = np.array([1, 0, 3, 2, 5, 4])
    wide = Sends.of(parts_of([(0, 2, 0, 8)]), MACHINE, partner)
    narrow = Sends.of(parts_of([(1, 4, 8, 3)]), MACHINE)
    schedule = Schedule.of(narrow.and_then(wide), 6)
    assert begins(schedule) == {(0, (2, 3)): 0, (1, (4,)): 4}


def cycles_of(fragments: list[Fragment], machine: Machine) -> int:
    sender, receiver, start, length = np.array(fragments, np.int64).T
    graph = Graph(machine)
    graph.add_variable("float32", (100,), "x")
    exchange = Exchange(sender, receiver, start, length, 4 * length, Addresses(graph.variables))
    return int(exchange.cost(machine, exchange.schedule(machine)).cycles.max())


@pytest.mark.parametrize(("parameter_set", "cycles"), [("hardware", 4), ("ipu_model", 3)])
def test_the_ipu_model_counts_the_busiest_tile(parameter_set: str, cycles: int) -> None:
    machine = load_machine("gc2", tiles_per_ipu=8, parameter_set=parameter_set)
    machine = replace(machine, exchange_fragment_cycles=0, exchange_row_cycles=0)
    fragments = [(s, r, 3 * s + r - 3, 1) for s in range(3) for r in range(3, 6)]
    assert cycles_of(fragments, machine) == machine.exchange_start_cycles + cycles


@st.composite
def exchanges(draw: st.DrawFn) -> list[Fragment]:
    """Return fragments in which a tile receives an element at most once."""
    n_tiles = draw(st.integers(2, 7))
    fragments: list[Fragment] = []
    for receiver in range(n_tiles):
        offset = 0
        for _ in range(draw(st.integers(0, 4))):
            offset += draw(st.integers(0, 3))
            length = draw(st.integers(1, 6))
            # Owners hold 5 floats in turn.
            owner = offset // 5 % n_tiles
            length = min(length, 5 - offset % 5)
            if owner != receiver:
                fragments.append((owner, receiver, offset, length))
            offset += length
    return fragments


@given(exchanges().filter(bool))
def test_rules_of_a_schedule(fragments: list[Fragment]) -> None:
    schedule = schedule_of(fragments)
    sends, begin, end = schedule.sends, schedule.begin, schedule.begin + schedule.sends.cycles
    busy: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for i, tile in enumerate(sends.sender.tolist()):
        times = int(begin[i]), int(end[i])
        busy.setdefault(("send", tile), []).append(times)
        for receiver in sends.receiver[sends.first[i] : sends.first[i + 1]].tolist():
            busy.setdefault(("receive", receiver), []).append(times)
    for times_of_tile in busy.values():
        times_of_tile.sort()
        for (_, before), (after, _) in pairwise(times_of_tile):
            assert before <= after
    # Nothing waits without a reason: one of its tiles is busy in the cycle before.
    for i, tile in enumerate(sends.sender.tolist()):
        receivers = sends.receiver[sends.first[i] : sends.first[i + 1]].tolist()
        methods = [("send", tile), *(("receive", receiver) for receiver in receivers)]
        rest = [times for method in methods for times in busy[method]]
        assert begin[i] == 0 or any(a < begin[i] <= b for a, b in rest)
    # Every float arrives where it is needed, and leaves once.
    received = {(r, x) for _, r, start, length in fragments for x in range(start, start + length)}
    sent = {(s, x) for s, _, start, length in fragments for x in range(start, start + length)}
    assert sum((end - begin) * np.diff(sends.first)) == len(received)
    assert sum(end - begin) == len(sent)


def _begins_by_the_rule(sends: Sends, order: list[int], n_tiles: int) -> list[int]:
    """Apply the rule cycle by cycle: a free tile begins the first send whose tiles are all free."""
    begin = [-1] * len(order)
    sends_until, receives_until = [0] * n_tiles, [0] * n_tiles
    now = 0
    while min(begin) < 0:
        for tile in range(n_tiles):
            for i in order:
                methods = [(sends_until, tile)]
                methods += [(sends_until, int(k)) for k in sends.lane[i : i + 1] if k >= 0]
                receivers = sends.receiver[sends.first[i] : sends.first[i + 1]].tolist()
                methods += [(receives_until, receiver) for receiver in receivers]
                if (
                    begin[i] < 0
                    and sends.sender[i] == tile
                    and all(t[k] <= now for t, k in methods)
                ):
                    begin[i] = now
                    for until, k in methods:
                        until[k] = now + int(sends.cycles[i])
                    break
        now += 1
    return begin


@pytest.mark.parametrize("seed", range(6))
def test_many_sends_of_a_tile_begin_by_the_rule(seed: int) -> None:
    """Dozens of sends a tile: they are looked at in several goes, and closed up in between."""
    random = np.random.default_rng(seed)
    n_tiles, n = 4, 240
    sizes = np.where(random.random(n) < 0.6, 1, random.integers(1, 4, n))
    sender = random.integers(0, n_tiles, n)
    lane = np.where(random.random(n) < 0.2, (sender + 1) % n_tiles, -1)
    receiver = np.concatenate([random.choice(n_tiles, size, replace=False) for size in sizes])
    first = np.concatenate([[0], np.cumsum(sizes)])
    sends = Sends(sender, lane, random.integers(1, 4, n), first, receiver)
    order = random.permutation(n)
    order = order[np.argsort(sender[order], kind="stable")]
    first_of_tile = np.searchsorted(sender[order], np.arange(n_tiles + 1))
    columns = sends.lane, sends.cycles, sends.first, sends.receiver, order, first_of_tile
    begin, received_at, sent_at, _ = schedule_of_sends(*columns)
    assert begin.tolist() == _begins_by_the_rule(sends, order.tolist(), n_tiles)
    end = begin + sends.cycles
    assert received_at.max() == sent_at.max() == end.max()
