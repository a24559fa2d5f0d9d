"""Random programs with two sides: their interleaving does not affect results."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.naive_machine import NaiveMachine
from tests.properties.test_invariants import check_memory

from tilescope.engine import Builder, Engine, Graph, Tensor, compile_programs, load_machine
from tilescope.engine.compiler.executable.executable import Node, Step
from tilescope.engine.graph import ROOT
from tilescope.engine.library.popops.elementwise.operations import binary, copy_to
from tilescope.engine.options import resolve
from tilescope.engine.program import Copy, Overlap, Program, Repeat, Sequence, StreamCopyIn

N = 6


@dataclass
class Drawn:
    """A graph with some variables on each kind of tile, and a program over them."""

    graph: Graph
    io: list[Tensor]
    compute: list[Tensor]
    program: Sequence


@st.composite
def programs(draw: st.DrawFn, *, may_repeat: bool) -> Drawn:
    """Return copies before and after an Overlap of I/O copies and additions."""
    machine = load_machine("gc200", n_ipus=draw(st.integers(1, 2)), tiles_per_ipu=4)
    graph = Graph(machine, n_io_tiles=2)

    def variables(name: str, tiles: list[int]) -> list[Tensor]:
        results = []
        for i in range(3):
            results.append(graph.add_variable("float32", (N,), f"{name} {i}"))
            pool = draw(st.lists(st.sampled_from(tiles), min_size=1, max_size=3, unique=True))
            graph.map_linearly(results[-1], tiles=pool)
        return results

    io = variables("io", graph.io_tiles.tolist())
    compute = variables("compute", graph.compute_tiles.tolist())

    def pair(sources: list[Tensor], targets: list[Tensor]) -> tuple[Tensor, Tensor]:
        return draw(st.sampled_from(sources)), draw(st.sampled_from(targets))

    def hand_overs() -> list[Program]:
        methods = draw(st.lists(st.sampled_from([(io, compute), (compute, io)]), max_size=2))
        return [Copy(*pair(*method)) for method in methods]

    copies: list[Program] = []
    for _ in range(draw(st.integers(0, 3))):
        source, target = pair(io, io)
        if source is not target:
            copies.append(Copy(source, target))
    builder = Builder(graph, Sequence("work"), ROOT)
    for _ in range(draw(st.integers(0, 2))):
        a, b = pair(compute, compute)
        copy_to(builder, binary(builder, "add", a, b, (N,)), draw(st.sampled_from(compute)), "keep")
    beside = Overlap(Sequence("copies", copies), builder.sequence, "beside")
    body = Sequence("body", [*hand_overs(), beside, *hand_overs()])
    count = draw(st.integers(1, 3)) if may_repeat else 1
    return Drawn(graph, io, compute, Sequence("main", [Repeat(count, body)]))


@given(programs(may_repeat=True))
def test_values_are_those_of_a_machine_that_runs_compute_first(drawn: Drawn) -> None:
    executable = compile_programs(drawn.graph, [drawn.program], is_checked=True)
    check_memory(executable)
    naive = NaiveMachine(drawn.graph)
    selected = [*drawn.io, *drawn.compute]
    with Engine(executable, resolve()) as engine:
        for i, tensor in enumerate(selected):
            engine.write_tensor(tensor, np.arange(N) + 10 * i)
            naive.write(tensor, np.arange(N) + 10 * i)
        engine.run()
        naive.run(drawn.program)
        for tensor in selected:
            assert engine.read_tensor(tensor).tolist() == naive.read(tensor).tolist()


def in_order(node: Node, random: Random) -> list[Step]:
    """Return the steps of a program without loops, with the sides of an Overlap interleaved."""
    if node.step is not None:
        return [node.step]
    parts = [in_order(child, random) for child in node.children]
    if node.kind != "Overlap":
        return [step for part in parts for step in part]
    merged: list[Step] = []
    while any(parts):
        merged.append(random.choice([part for part in parts if part]).pop(0))
    return merged


def live_sets(steps: list[Step]) -> tuple[list[set[int]], list[set[int]]]:
    """Return the variables live at every step, and those needed before it.

    The second list has one more set, for the end.
    """
    offset: list[set[int]] = []
    needed: list[set[int]] = [set()]
    for step in reversed(steps):
        after = needed[-1]
        offset.append(after | {*step.reads, *step.writes})
        needed.append((after - set(step.overwrites)) | set(step.reads))
    return offset[::-1], needed[::-1]


@given(programs(may_repeat=False), st.randoms(use_true_random=False))
def test_what_any_order_needs_lives(drawn: Drawn, random: Random) -> None:
    """Only temporaries of compute are not live at the steps of the other side."""
    always = compile_programs(drawn.graph, [drawn.program]).memory.is_always_live
    # Variables read before they are written are state; written first, they are temporary.
    both = (*drawn.io, *drawn.compute)
    state = [tensor for tensor in both if always[tensor.variable.variable_id]]
    fill = [StreamCopyIn(tensor.variable.name, tensor) for tensor in state]
    program = Sequence("filled", [*fill, drawn.program])
    executable = compile_programs(drawn.graph, [program], is_checked=True)
    overlap = next(node for node in executable.nodes if node.kind == "Overlap")
    io, compute = ({step.step_id for step in in_order(side, random)} for side in overlap.children)
    for _ in range(5):
        steps = in_order(executable.roots[0], random)
        inside = [i for i, step in enumerate(steps) if step.step_id in io | compute]
        offset, needed = live_sets(steps)
        outside = needed[inside[0]] | needed[inside[-1] + 1]
        io_touches = {
            v for step in steps if step.step_id in io for v in (*step.reads, *step.writes)
        }
        for step, live in zip(steps, offset, strict=True):
            for variable_id in live:
                if step.step_id in io and variable_id not in outside | io_touches:
                    continue
                assert not executable.memory.is_always_live[variable_id]
                first, stop = executable.memory.lifetimes[variable_id]
                name = executable.graph.variables[variable_id].name
                assert first <= step.step_id < stop, (name, step.step_id)
