"""From programs to steps: liveness over loops, time over loops and IPUs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tilescope.engine import (
    Builder,
    Engine,
    Graph,
    Machine,
    Tensor,
    compile_programs,
    load_machine,
    resolve_options,
)
from tilescope.engine.codelets.popops.elementwise.copy import COPY
from tilescope.engine.compiler.executable.executable import Executable, Step
from tilescope.engine.errors import BadGraph, BadInput
from tilescope.engine.execute.timeline import timeline_of
from tilescope.engine.graph import ROOT, blocks
from tilescope.engine.library.popops.elementwise.operations import binary, copy_to, unary
from tilescope.engine.program import (
    Copy,
    Program,
    Repeat,
    Sequence,
    StreamCopyIn,
    StreamCopyOut,
    WriteUndef,
)


def new(n_tiles: int = 2, n_ipus: int = 1) -> tuple[Graph, Builder]:
    graph = Graph(load_machine("gc200", tiles_per_ipu=n_tiles, n_ipus=n_ipus))
    return graph, Builder(graph, Sequence("program"), ROOT)


def variable(graph: Graph, name: str, tile: int = 0, size: int = 8) -> Tensor:
    tensor = graph.add_variable("float32", (size,), name)
    graph.set_tile_mapping(tensor, [0], [tile])
    return tensor


def lifetime(executable: Executable, tensor: Tensor) -> tuple[int, int]:
    return executable.memory.lifetimes[tensor.variable.variable_id]


def test_a_variable_lives_from_its_writer_to_its_last_reader() -> None:
    graph, builder = new()
    x = variable(graph, "x")
    builder.sequence.add(StreamCopyIn("in", x))  # steps 0, 1, 2: begin, data, end
    a = unary(builder, "negate", x)  # step 3
    b = unary(builder, "square", a)  # step 4
    c = binary(builder, "add", a, b, (8,))  # step 5
    builder.sequence.add(StreamCopyOut(c, "out"))  # steps 6, 7, 8
    executable = compile_programs(graph, [builder.sequence])
    assert [lifetime(executable, t) for t in (x, a, b, c)] == [(1, 4), (3, 6), (4, 6), (5, 8)]
    # 32 bytes each: x, then x and a, then a and b, then a, b and c, then c.
    assert executable.memory.live.dense()[:, 0].tolist() == [0, 32, 32, 64, 64, 96, 32, 32, 0]
    offsets = executable.memory.parts.offset
    assert len(set(offsets.tolist())) == 3, "c does not fit beside a and b before x's place is free"


def loop_of(count: int) -> tuple[Graph, Builder, Tensor, Tensor, Tensor]:
    """Return a loop that adds x to a sum; both are streamed in before."""
    graph, builder = new()
    x, total = variable(graph, "x"), variable(graph, "total")
    builder.sequence.add(StreamCopyIn("x", x), StreamCopyIn("total", total))
    body = Builder(graph, Sequence("body"), ROOT)
    built = binary(body, "add", total, x, (8,))
    body.sequence.add(Copy(built, total))
    builder.sequence.add(Repeat(count, body.sequence, "loop"))
    builder.sequence.add(StreamCopyOut(total, "out"))
    return graph, builder, x, total, built


def test_what_a_loop_needs_in_every_round_lives_for_all_of_it() -> None:
    graph, builder, x, total, built = loop_of(3)
    executable = compile_programs(graph, [builder.sequence])
    # Steps 0 to 5 stream in, 6 adds, 7 copies, 8 to 10 stream out.
    assert [step.kind for step in executable.steps][6:8] == ["OnTileExecute", "OnTileExecute"]
    assert lifetime(executable, x) == (1, 8)
    assert lifetime(executable, total) == (4, 10)
    assert lifetime(executable, built) == (6, 8)


def test_a_loop_really_runs() -> None:
    graph, builder, *_ = loop_of(5)
    executable = compile_programs(graph, [builder.sequence])
    with Engine(executable, resolve_options()) as engine:
        engine.connect_stream("x", np.arange(8, dtype=np.float32))
        engine.connect_stream("total", lambda: np.ones(8, np.float32))
        engine.run()
        assert engine.output("out").tolist() == [1 + 5 * i for i in range(8)]


def test_state_between_runs_and_between_programs_stays_live() -> None:
    graph, _ = new()
    state, peer = variable(graph, "state"), variable(graph, "other")
    first: list[Program] = [StreamCopyIn("in", state), StreamCopyIn("other", peer)]
    second = StreamCopyOut(state, "out")
    executable = compile_programs(graph, [Sequence("write", first), second])
    assert always_live_bytes(executable) == state.variable.n_bytes
    assert executable.memory.is_always_live[state.variable.variable_id]
    assert lifetime(executable, peer) == (4, 5)
    read_first = compile_programs(graph, [Sequence("read", [second, *first])])
    assert always_live_bytes(read_first) == state.variable.n_bytes
    # Compiled for programs that write it first, the same variable comes and goes again.
    write_first = compile_programs(graph, [Sequence("both", [*first, second])])
    assert always_live_bytes(write_first) == 0
    assert lifetime(write_first, state) == (1, 8)  # stream copies have three steps


def always_live_bytes(executable: Executable) -> int:
    """Return the bytes of always-live variables, without code and stack."""
    memory = executable.memory
    code = sum(
        int(by_tile.sum())
        for name, by_tile in memory.categories.items()
        if name not in ("variable", "constant", "message")
    )
    return int(memory.always_live.sum()) - code


def test_a_repeat_is_kept_as_a_period_and_a_count() -> None:
    graph, builder, *_ = loop_of(4)
    executable = compile_programs(graph, [builder.sequence])
    (timeline,) = timeline_of(executable.roots[0], executable.machine)
    costs = [int(step.cost.cycles[0]) for step in executable.steps]
    period = costs[6] + costs[7]
    in_loop = np.isin(timeline.step_id, [6, 7])
    assert timeline.count.tolist() == np.where(in_loop, 4, 1).tolist()
    assert timeline.period.tolist() == np.where(in_loop, period, 0).tolist()
    assert timeline.n_cycles == sum(costs) + 3 * period
    after = timeline.start[timeline.step_id == 8]
    assert after.tolist() == [sum(costs[:6]) + 4 * period]


def test_inner_loops_are_written_out() -> None:
    graph, _ = new()
    x = variable(graph, "x")
    inner = Builder(graph, Sequence("inner"), ROOT)
    inner.sequence.add(Copy(unary(inner, "negate", x), x))
    outer = Repeat(3, Repeat(2, inner.sequence))
    executable = compile_programs(graph, [outer])
    (timeline,) = timeline_of(executable.roots[0], executable.machine)
    n_executions = int(timeline.count.sum())
    assert n_executions == 3 * 2 * len(executable.steps)
    once = sum(int(step.cost.cycles[0]) for step in executable.steps)
    assert timeline.n_cycles == 6 * once
    ends = timeline.end + (timeline.count - 1) * timeline.period
    assert int(ends.max()) == timeline.n_cycles


def test_an_external_sync_waits_for_the_slowest_ipu() -> None:
    graph, builder = new(n_ipus=2)
    near, far = variable(graph, "near", tile=0, size=600), variable(graph, "far", tile=2, size=8)
    unary(builder, "exp", near)
    unary(builder, "exp", far)
    builder.sequence.add(StreamCopyOut(near, "out"))
    executable = compile_programs(graph, [builder.sequence])
    slow, fast = timeline_of(executable.roots[0], executable.machine)
    work = [step.cost.cycles.tolist() for step in executable.steps[:2]]
    assert work[0][1] == work[1][0] == 0
    (waits,), (begins,) = (np.flatnonzero(t.step_id == 2) for t in (fast, slow))
    assert int(slow.start[begins]) == work[0][0] > work[1][1]
    assert int(fast.start[waits]) == int(fast.end[0]) == work[1][1], "it waits in the sync"
    assert int(fast.end[waits]) == int(slow.end[begins]), "and both go on together"
    assert slow.n_cycles == fast.n_cycles


def test_ipus_that_share_nothing_run_at_the_same_time() -> None:
    """An exchange within an IPU syncs that IPU only; the other one does not stop."""
    graph, builder = new(n_ipus=2)
    for first in (0, 2):
        x = graph.add_variable("float32", (64,), f"x{first}")
        graph.set_tile_mapping(x, [0], [first])
        y = graph.add_variable("float32", (64,), f"y{first}")
        graph.set_tile_mapping(y, [0, 32], [first, first + 1])
        copy_to(builder, x, y, "spread")
    executable = compile_programs(graph, [builder.sequence], is_checked=True)
    assert "DoExchange" in [step.kind for step in executable.steps]
    item, second = timeline_of(executable.roots[0], executable.machine)
    assert not set(item.step_id.tolist()) & set(second.step_id.tolist())
    assert item.n_cycles == second.n_cycles == sum(int(s.cost.cycles[0]) for s in executable.steps)


def test_overlapping_reads_cross_a_link_once() -> None:
    """Two tiles of IPU 1 read [0, 6) and [4, 8) of IPU 0: 8 elements cross, not 10."""
    graph, builder = new(n_ipus=2)
    x = variable(graph, "x", tile=0)
    out = graph.add_variable("float32", (10,), "out")
    graph.set_tile_mapping(out, [0, 6], [2, 3])
    sizes = np.array([6, 4])
    fields = {
        "x": blocks(x.variable, np.array([0, 4]), [sizes], [1], 2),
        "out": blocks(out.variable, np.array([0, 6]), [sizes], [1], 2),
    }
    builder.vertices(builder.compute_set("copy"), COPY, [2, 3], fields)
    steps = compile_programs(graph, [builder.sequence]).steps
    assert [step.kind for step in steps] == ["Sync", "GlobalExchange", "OnTileExecute"]
    assert steps[1].cost.link_out_bytes.tolist() == [32, 0]
    assert steps[1].cost.link_in_bytes.tolist() == [0, 32]
    assert steps[1].cost.sent_bytes.tolist() == [32, 0, 0, 0]
    assert steps[1].cost.received_bytes.tolist() == [0, 0, 24, 16]


SIX_TILES = load_machine("gc200", tiles_per_ipu=6)


def reads_of(readers: list[int], machine: Machine, owner: int = 0) -> tuple[Executable, Machine]:
    """Let tiles copy the same 64 floats from another tile."""
    graph = Graph(machine)
    builder = Builder(graph, Sequence("program"), ROOT)
    x = variable(graph, "x", tile=owner, size=64)
    n = len(readers)
    out = graph.add_variable("float32", (n, 64), "out")
    start = np.arange(n) * 64
    graph.set_tile_mapping(out, start, readers)
    fields = {
        "x": blocks(x.variable, np.zeros(n, np.int64), [64], [1], n),
        "out": blocks(out.variable, start, [64], [1], n),
    }
    builder.vertices(builder.compute_set("copy"), COPY, readers, fields)
    return compile_programs(graph, [builder.sequence]), machine


@pytest.mark.parametrize(
    ("readers", "words"),
    [
        ([2], 64),
        ([2, 3], 32),  # a pair takes two words a cycle
        ([3, 4], 64),  # side by side, but of two pairs
        ([2, 3, 4, 5], 32),
        ([2, 3, 4], 64),  # tile 4 takes one word a cycle, so others gain nothing by taking two
        ([1, 2, 3], 64),  # the sender's own partner is alone
    ],
)
def test_both_tiles_of_a_pair_take_the_same_at_double_rate(readers: list[int], words: int) -> None:
    executable, machine = reads_of(readers, SIX_TILES)
    exchange = executable.steps[1]
    assert exchange.kind == "DoExchange"
    assert exchange.cost.tile_cycles.max() == words
    assert exchange.cost.cycles.tolist() == [
        words + machine.exchange_start_cycles + farthest(exchange)
    ]
    used = exchange.cost.paired_bytes
    assert used.tolist() == (exchange.cost.received_bytes.tolist() if words == 32 else [0] * 6)


def farthest(exchange: Step) -> int:
    """Return the cycles to the farthest receiver: pairs of small machines stand in one column."""
    return 2 * int(exchange.cost.received_bytes.ids[-1] // 2)


def test_a_machine_without_shared_buses_takes_one_word_a_cycle() -> None:
    executable, _ = reads_of([2, 3], replace(SIX_TILES, paired_exchange_bytes_per_cycle=4))
    assert executable.steps[1].cost.tile_cycles.max() == 64


def test_a_word_alone_on_its_tile_has_none_beside_it_to_go_with() -> None:
    machine = load_machine("gc200", tiles_per_ipu=6)
    graph = Graph(machine)
    x = graph.add_variable("float32", (4,), "x")
    graph.set_tile_mapping(x, [0, 1, 2, 3], [0, 1, 4, 5])
    out = graph.add_variable("float32", (2, 4), "out")
    graph.set_tile_mapping(out, [0, 4], [2, 3])
    builder = Builder(graph, Sequence("program"), ROOT)
    fields = {
        "x": blocks(x.variable, np.zeros(2, np.int64), [4], [1], 2),
        "out": blocks(out.variable, np.array([0, 4]), [4], [1], 2),
    }
    builder.vertices(builder.compute_set("copy"), COPY, [2, 3], fields)
    exchange = compile_programs(graph, [builder.sequence]).steps[1]
    assert exchange.cost.paired_bytes.tolist() == [0] * 6
    assert exchange.cost.tile_cycles.tolist() == [1, 1, 12, 12, 1, 1]  # 4 fragments of 3 cycles


def test_exchange_code_grows_with_sources_and_sends() -> None:
    """Tile 0 sends 64 words in one instruction; tile 2 sets its source once."""
    executable, machine = reads_of([2], SIX_TILES)
    code = executable.steps[1].code_bytes
    assert code is not None
    fixed, item = machine.exchange_code_bytes_per_phase, 8
    assert code.tolist() == [fixed + item, 0, fixed + item, 0, 0, 0]


def test_an_invalid_run_is_one_sentence() -> None:
    graph, builder = new()
    x = variable(graph, "x")
    builder.sequence.add(StreamCopyIn("in", x), WriteUndef(x))
    executable = compile_programs(graph, [builder.sequence])
    with Engine(executable, resolve_options()) as engine:
        with pytest.raises(BadInput, match="'in' is not connected"):
            engine.run()
        engine.connect_stream("in", np.zeros((2, 4)))
        with pytest.raises(BadInput, match=r"shape \(8,\), not \(2, 4\)"):
            engine.run()
        with pytest.raises(BadGraph, match="Unknown program 1; this engine has 1"):
            engine.run(1)
        with pytest.raises(BadInput, match="stream 'out'"):
            engine.output("out")


def test_write_undef_ends_a_life_and_begins_none() -> None:
    graph, builder = new()
    x = graph.add_variable("float32", (8,), "x")
    graph.map_linearly(x)
    builder.sequence.add(StreamCopyIn("in", x))
    unary(builder, "relu", x)
    without = compile_programs(graph, [builder.sequence]).memory.lifetimes[0]
    builder.sequence.add(WriteUndef(x))
    executable = compile_programs(graph, [builder.sequence])
    assert executable.steps[-1].kind == "WriteUndef"
    assert executable.memory.lifetimes[0] == without
