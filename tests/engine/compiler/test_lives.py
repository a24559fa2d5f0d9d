"""Variables that live several times, and compute sets that run at several places."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.compiler.kernels.placement import Lifetimes, first_fit, nothing_asked
from tilescope.engine.graph import ROOT, Graph, Tensor
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.convolution import convolution
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.operations import copy_to
from tilescope.engine.library.window import Window
from tilescope.engine.machine import load_machine
from tilescope.engine.program import Execute, Sequence, StreamCopyIn, StreamCopyOut
from tilescope.engine.session.compile import compile_programs

MACHINE = load_machine("gc200", tiles_per_ipu=4)


def variable(graph: Graph, name: str, tile: int, n: int = 64) -> Tensor:
    tensor = graph.add_variable("float32", (n,), name)
    graph.set_tile_mapping(tensor, [0], [tile])
    return tensor


def twice() -> tuple[Executable, Tensor, Tensor]:
    """Run one copy between tiles twice, for two inputs; another variable lives in between."""
    graph = Graph(MACHINE)
    source, target = variable(graph, "source", 0), variable(graph, "target", 1)
    between, after = variable(graph, "between", 0), variable(graph, "after", 1)
    builder = Builder(graph, Sequence("program"), ROOT)
    program = builder.sequence
    program.add(StreamCopyIn("a", source))
    copy_to(builder, source, target, "send")
    (send,) = (child for child in program.children if isinstance(child, Execute))
    program.add(StreamCopyOut(target, "first"), StreamCopyIn("b", between))
    copy_to(builder, between, after, "other")
    program.add(StreamCopyOut(after, "other"), StreamCopyIn("c", source))
    program.add(Execute(send.compute_set), StreamCopyOut(target, "second"))
    return compile_programs(graph, [program]), source, between


def test_a_variable_that_is_written_again_lives_twice() -> None:
    executable, source, between = twice()
    memory = executable.memory
    assert len(memory.lives[source.variable.variable_id]) == 2
    ((start, end),) = memory.lives[between.variable.variable_id]
    (first_start, first_end), (second_start, _) = memory.lives[source.variable.variable_id]
    assert first_start < first_end <= start < end <= second_start
    parts = memory.parts
    offsets = {
        name: set(parts.offset[parts.variable_id == v.variable.variable_id].tolist())
        for name, v in (("source", source), ("between", between))
    }
    assert offsets["source"] == offsets["between"]  # both at the same address of tile 0
    assert memory.live.dense()[:, 0].max() == 64 * 4


def test_a_result_that_nothing_reads_is_live_where_it_is_written_only() -> None:
    graph = Graph(MACHINE)
    x, between = variable(graph, "x", 0), variable(graph, "between", 0)
    builder = Builder(graph, Sequence("program"), ROOT)
    fill(builder, x, 1.0)
    fill(builder, between, 2.0)
    fill(builder, x, 3.0)
    builder.sequence.add(StreamCopyOut(x, "x"), StreamCopyOut(between, "between"))
    memory = compile_programs(graph, [builder.sequence]).memory
    first, second = memory.lives[x.variable.variable_id]
    assert first == (0, 1)
    assert second[0] == 2
    assert memory.live.dense()[:3, 0].tolist() == [256, 256, 512]


def test_a_compute_set_has_one_exchange_wherever_it_runs() -> None:
    executable, _, _ = twice()
    exchanges = [step for step in executable.steps if step.kind == "DoExchange"]
    send = [step for step in exchanges if step.name == "send"]
    assert [step.code_bytes is None for step in send] == [False, True]
    assert send[0].cost == send[1].cost
    memory = executable.memory
    (buffer,) = (
        number for number, name in memory.message_names.items() if name.startswith("send/message")
    )
    assert [start for start, _ in memory.lives[buffer]] == [step.step_id for step in send]
    rows = memory.parts.variable_id == buffer
    assert np.unique(memory.parts.tile[rows]).size == rows.sum() > 0
    assert (memory.parts.rows().variable_id == buffer).sum() == len(send) * rows.sum()
    code = sum(step.code_bytes.sum() for step in exchanges if step.code_bytes is not None)
    assert memory.categories["internalExchangeCode"].sum() == code


@st.composite
def lives(draw: st.DrawFn) -> list[list[tuple[int, int]]]:
    """Return the lives of some variables, in order of their first step."""
    results = []
    for _ in range(draw(st.integers(1, 12))):
        edges = sorted(draw(st.sets(st.integers(0, 20), min_size=2, max_size=8)))
        results.append(list(zip(edges[::2], edges[1::2], strict=False)))
    return sorted(results)


@given(lives(), st.data())
def test_parts_that_live_together_never_overlap(
    found: list[list[tuple[int, int]]], data: st.DataObject
) -> None:
    n = len(found)
    size = 8 * np.array(data.draw(st.lists(st.integers(1, 9), min_size=n, max_size=n)), np.int64)
    steps = np.array([life for local in found for life in local], np.int64)
    first = np.cumsum([0, *map(len, found)]).astype(np.int64)
    lifetimes = Lifetimes(np.arange(n), first, *steps.T.copy())
    tile_start = np.concatenate([np.zeros(1, np.int64), np.full(MACHINE.n_tiles, n)])
    base = np.zeros(MACHINE.n_tiles, np.int64)
    offset, highest = first_fit(tile_start, size, lifetimes, base, nothing_asked(n), MACHINE)
    assert highest[0] == (offset + size).max()
    for i in range(n):
        for j in range(i):
            meets = any(a < d and c < b for a, b in found[i] for c, d in found[j])
            apart = offset[i] + size[i] <= offset[j] or offset[j] + size[j] <= offset[i]
            assert apart or not meets


def test_what_serial_parts_fill_is_not_kept_between_runs() -> None:
    """No part writes all of the result, and none of its earlier contents are needed."""
    graph = Graph(MACHINE)
    builder = Builder(graph, Sequence("program"), ROOT)
    x = graph.add_variable("float32", (1, 16, 4, 4), "x")
    graph.map_linearly(x)
    builder.sequence.add(StreamCopyIn("x", x))
    weights = np.ones((32, 16, 1, 1), np.float32)
    out = convolution(builder, x, weights, Window((1, 1)), split={"serial outputs": 2})
    builder.sequence.add(StreamCopyOut(out, "out"))
    executable = compile_programs(graph, [builder.sequence], plans=builder.plans)
    assert executable.plans[0].n_serial == 2
    for built in executable.graph.variables:
        is_kept = executable.memory.is_always_live[built.variable_id]
        assert is_kept == (built.category == "constant"), built.name
