"""Replicas: one program on several sets of IPUs, each with values of its own."""

from typing import Any

import numpy as np
import pytest

from tilescope.engine import (
    Engine,
    Field,
    Graph,
    codelet,
    compile_programs,
    load_machine,
    resolve_options,
)
from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.errors import BadGraph, RunFailed
from tilescope.engine.graph import Tensor, blocks
from tilescope.engine.machine import Machine
from tilescope.engine.program import (
    CrossReplicaCopy,
    Execute,
    If,
    Repeat,
    RepeatWhile,
    Sequence,
    StreamCopyIn,
    StreamCopyOut,
)


@codelet(
    Field("x", "inout"),
    law=lambda batch, _: 20 + batch.size["x"][:, 0],
    code_bytes=40,
    source="assumption: a test",
)
def _halve(x: Any) -> None:
    for i in range(x.size):
        x[i] *= 0.5


@codelet(
    Field("n", "inout"),
    law=lambda batch, _: np.full(batch.n_vertices, 100),
    code_bytes=40,
    source="assumption: a test",
)
def _count_down(n: Any) -> None:
    n[0] -= 1


def _machine(n_replicas: int, n_ipus: int = 1) -> Machine:
    return load_machine("gc200", n_ipus=n_ipus, n_replicas=n_replicas, tiles_per_ipu=4)


def _ring(n_replicas: int, n_ipus: int = 1) -> tuple[Executable, Tensor, Tensor, Tensor]:
    """Every replica halves eight numbers, and sends them to the next one."""
    graph = Graph(_machine(n_replicas, n_ipus))
    x = graph.add_variable("float32", (8,), "x")
    received = graph.add_variable("float32", (8,), "received")
    index = graph.add_replica_index()
    for tensor in (x, received, index):
        graph.map_linearly(tensor)
    halve = graph.add_compute_set("halve")
    places = blocks(x.variable, np.arange(4) * 2, [2], [1], 4)
    graph.add_vertices(halve, _halve, x.variable.tile_of(np.arange(4) * 2), {"x": places})
    sources = [(replica - 1) % n_replicas for replica in range(n_replicas)]
    program = Sequence("ring", [Execute(halve), CrossReplicaCopy(x, received, sources, "pass on")])
    return compile_programs(graph, [program]), x, received, index


@pytest.mark.parametrize(("n_replicas", "n_ipus"), [(2, 1), (4, 1), (3, 2)])
def test_replicas_hold_different_values_and_pass_them_on(n_replicas: int, n_ipus: int) -> None:
    executable, x, received, index = _ring(n_replicas, n_ipus)
    with Engine(executable) as engine:
        for replica in range(n_replicas):
            engine.write_tensor(x, np.arange(8) + 10 * replica, replica)
        engine.run()
        for replica in range(n_replicas):
            before = (replica - 1) % n_replicas
            assert engine.read_tensor(index, replica) == replica
            assert engine.read_tensor(x, replica).tolist() == [
                (i + 10 * replica) / 2 for i in range(8)
            ]
            assert engine.read_tensor(received, replica).tolist() == [
                (i + 10 * before) / 2 for i in range(8)
            ]


def test_a_copy_between_replicas_is_a_sync_of_all_and_an_exchange_over_links() -> None:
    executable, *_ = _ring(2)
    machine = executable.machine
    sync, exchange = executable.steps[-2:]
    assert (sync.kind, exchange.kind) == ("Sync", "GlobalExchange")
    assert sync.cost.cycles.max() == machine.replica_sync_cycles
    assert exchange.cost.link_out_bytes.tolist() == [8 * 4]
    assert exchange.cost.sent_bytes.tolist() == [8, 8, 8, 8]
    over_links = machine.link_start_cycles + -(-32 // machine.bundle_bytes_per_cycle("pair"))
    assert exchange.cost.cycles.max() == over_links


def test_links_are_shared_by_all_replicas() -> None:
    """In a ring over a ladder, the last replica's data go back along the whole rail."""
    small, large = _ring(2)[0], _ring(8)[0]
    machine = large.machine
    # From IPU 7 to IPU 0: over the rung, then three rungs down, on which IPUs send to the next too.
    n_bytes = 8 * 4
    rail = machine.bundle_bytes_per_cycle("rail")
    assert large.steps[-1].cost.cycles.max() - machine.link_start_cycles == -(-n_bytes // rail)
    assert small.steps[-1].cost.cycles.max() < large.steps[-1].cost.cycles.max()


def test_replicas_that_are_not_computed_hold_what_others_hold() -> None:
    executable, x, received, _ = _ring(4)
    with Engine(executable, n_computed_replicas=2) as engine:
        for replica in range(2):
            engine.write_tensor(x, np.full(8, 1.0 + replica), replica)
        engine.run()
        n_cycles = engine.n_cycles()
        assert engine.read_tensor(received, 0).tolist() == [1.0] * 8, "replica 3 is as replica 1"
        assert engine.read_tensor(received, 1).tolist() == [0.5] * 8
        with pytest.raises(BadGraph, match=r"Replica 3 is not computed.*ask for replica 1"):
            engine.read_tensor(x, 3)
    with Engine(executable) as engine:
        engine.run()
        assert (engine.n_cycles() == n_cycles).all()


def _counting(n_replicas: int) -> tuple[Executable, Tensor, Tensor]:
    """Every replica counts its own number down, and then sends it on; every number is a stream."""
    graph = Graph(_machine(n_replicas))
    n = graph.add_variable("int32", (1,), "n")
    received = graph.add_variable("int32", (1,), "received")
    for tensor in (n, received):
        graph.map_linearly(tensor)
    down = graph.add_compute_set("down")
    graph.add_vertices(
        down, _count_down, [0], {"n": blocks(n.variable, np.zeros(1, np.int64), [1], [1], 1)}
    )
    loop = RepeatWhile(Sequence("nothing"), n, Execute(down))
    sources = [(replica - 1) % n_replicas for replica in range(n_replicas)]
    copy = CrossReplicaCopy(n, received, sources)
    program = Sequence("main", [StreamCopyIn("n", n), loop, copy, StreamCopyOut(received, "out")])
    return compile_programs(graph, [program]), n, received


@pytest.mark.parametrize("profiled", [0, 1])
def test_a_replica_that_is_early_waits_for_the_last(profiled: int) -> None:
    executable, *_ = _counting(2)
    options = resolve_options(environ={}, code={"profiler.replicaToProfile": str(profiled)})
    passes = [3, 8]
    with Engine(executable, options) as engine:
        for replica, number in enumerate(passes):
            engine.connect_stream("n", np.array([number]), replica)
        engine.run()
        (timeline,) = engine.timelines()
        assert engine.output("out", 0).tolist() == [0]
    meeting = next(step for step in executable.steps if step.meets_replicas and step.kind == "Sync")
    place = timeline.step_id.tolist().index(meeting.step_id)
    sync = int(timeline.end[place] - timeline.start[place])
    body = sum(
        step.cost.cycles.max()
        for step in executable.steps
        if step.name in ("down", "RepeatWhile/decision", "/decision")
    )
    expected = (max(passes) - passes[profiled]) * body
    assert sync - executable.machine.replica_sync_cycles == expected
    assert timeline.n_cycles == engine_cycles(executable, max(passes))


def engine_cycles(executable: Executable, passes: int) -> int:
    """Return the cycles if all replicas count as far."""
    with Engine(executable, resolve_options(environ={})) as engine:
        engine.connect_stream("n", np.array([passes]))
        engine.run()
        return int(engine.n_cycles()[0])


def test_replicas_that_do_not_meet_end_the_run_with_a_sentence() -> None:
    graph = Graph(_machine(2))
    n = graph.add_variable("int32", (1,), "n")
    graph.map_linearly(n)
    copy = CrossReplicaCopy(n, n, [1, 0], "exchange")
    program = If(n, copy, Sequence("nothing"))
    with Engine(compile_programs(graph, [program])) as engine:
        engine.write_tensor(n, [1], replica=1)
        with pytest.raises(RunFailed, match="Replica 1 is at step 'exchange' when replica 0 is at"):
            engine.run()


def test_copies_in_loops_are_made_in_every_round() -> None:
    graph = Graph(_machine(3))
    n = graph.add_replica_index("mine")
    x = graph.add_variable("int32", (1,), "x")
    for tensor in (n, x):
        graph.map_linearly(tensor)
    copy = CrossReplicaCopy(x, x, [2, 0, 1])
    with Engine(compile_programs(graph, [Repeat(2, copy), copy])) as engine:
        for replica in range(3):
            engine.write_tensor(x, [replica], replica)
        engine.run(0)
        assert [int(engine.read_tensor(x, r)[0]) for r in range(3)] == [1, 2, 0]
        engine.run(1)
        assert [int(engine.read_tensor(x, r)[0]) for r in range(3)] == [0, 1, 2]


def test_parts_travel_in_both_directions_at_once() -> None:
    graph = Graph(_machine(3))
    x, received = (graph.add_variable("int32", (2, 2), name) for name in ("x", "received"))
    for tensor in (x, received):
        graph.map_linearly(tensor)
    copy = CrossReplicaCopy(x, received, [[2, 0, 1], [1, 2, 0]])
    executable = compile_programs(graph, [copy])
    with Engine(executable) as engine:
        for replica in range(3):
            engine.write_tensor(x, [[replica] * 2, [10 * replica] * 2], replica)
        engine.run()
        values = [engine.read_tensor(received, replica).tolist() for replica in range(3)]
    assert values == [[[2, 2], [10, 10]], [[0, 0], [20, 20]], [[1, 1], [0, 0]]]
    assert executable.steps[-1].cost.link_out_bytes.tolist() == [16]


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([1], "names 1 replicas.*the machine has 2"),
        ([1, 2], "receives from replica 2: the machine has 2"),
        ([0, -1], "that of replica 1 is -1"),
        (3, "The sources of CrossReplicaCopy"),
        ([[0, 1]] * 3, "those of 3 parts, which do not divide 8 elements"),
    ],
)
def test_wrong_sources_are_refused(sources: Any, message: str) -> None:
    graph = Graph(_machine(2))
    x = graph.add_variable("float32", (8,), "x")
    graph.map_linearly(x)
    with pytest.raises(BadGraph, match=message):
        compile_programs(graph, [CrossReplicaCopy(x, x, sources)])
