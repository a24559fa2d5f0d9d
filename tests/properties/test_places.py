"""Codelets with memory constraints, on random graphs."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.memory_rules import check_memory, check_places

from tilescope.engine import (
    Executable,
    Field,
    Graph,
    Machine,
    codelet,
    compile_programs,
    load_machine,
)
from tilescope.engine.graph import blocks
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.program import Execute, Sequence


def _law(batch: Batch, _: Machine) -> np.ndarray:
    return np.where(batch.is_fast, 10, 20)


def _codelet(
    interleaved: tuple[str, ...], apart: tuple[tuple[str, ...], ...], has_slow_path: bool
) -> Codelet:
    def add(a, b, out):
        out[:] = a + b

    fields = [
        Field(name, "out" if name == "out" else "in", interleaved=name in interleaved)
        for name in ("a", "b", "out")
    ]
    has_slow_path &= bool(interleaved or apart)
    built = codelet(
        *fields, law=_law, code_bytes=40, apart=apart, has_slow_path=has_slow_path, name="add"
    )
    return built(add)


_NAMES = ("a", "b", "out")
_WIDE = [names for n in range(4) for names in combinations(_NAMES, n)]
_APART: list[tuple[tuple[str, ...], ...]] = [
    (),
    (_NAMES,),
    (("a", "out"), ("b", "out")),
    *((pair,) for pair in combinations(_NAMES, 2)),
]
_CODELETS = [
    _codelet(wide, apart, slow) for wide in _WIDE for apart in _APART for slow in (False, True)
]


@st.composite
def programs(draw: st.DrawFn) -> tuple[Graph, Sequence]:
    """Return additions of rows on a machine with small regions and elements."""
    plain, rest = draw(st.sampled_from([(6_000, 2_000), (8_192, 8_192), (7_000, 40_000)]))
    machine = replace(
        load_machine("gc200", tiles_per_ipu=draw(st.integers(1, 3)), parameter_set="ipu_model"),
        non_interleaved_bytes=plain,
        interleaved_bytes=rest,
        memory_element_bytes=draw(st.sampled_from([128, 512, 1_000])),
        interleave_factor=draw(st.integers(1, 3)),
    )
    graph = Graph(machine)
    program = Sequence("main")
    known = [graph.add_variable("float32", (4 * 200,), name) for name in ("x", "y")]
    for x in known:
        graph.map_linearly(x, grain=draw(st.integers(1, 300)))
    for i in range(draw(st.integers(1, 5))):
        n, row = draw(st.integers(1, 4)), draw(st.integers(1, 200))
        out = graph.add_variable("float32", (n * row,), f"out{i}")
        graph.map_linearly(out, grain=row)
        tiles = st.integers(0, machine.n_tiles - 1)
        tile = draw(st.lists(tiles, min_size=n, max_size=n))
        start = np.arange(n, dtype=np.int64) * row
        large = st.sampled_from([x for x in known if x.n_elements >= n * row])
        a, b = draw(st.lists(large, min_size=2, max_size=2, unique=True))
        fields = {
            name: blocks(x.variable, start, [row], [1], n)
            for name, x in (("a", a), ("b", b), ("out", out))
        }
        compute_set = graph.add_compute_set(f"add{i}")
        graph.add_vertices(compute_set, draw(st.sampled_from(_CODELETS)), tile, fields)
        program.add(Execute(compute_set))
        known.append(out)
    return graph, program


def worst_case_fits(executable: Executable) -> bool:
    """Return whether every part could have its own group of elements in the interleaved region."""
    machine, parts = executable.machine, executable.memory.parts
    wide = machine.memory_element_bytes * machine.interleave_factor
    sizes = -(-(parts.n_bytes + wide) // wide) * wide
    ends = np.add.reduceat(sizes, parts.tile_start[:-1][np.diff(parts.tile_start) > 0])
    return bool((ends <= machine.interleaved_bytes).all())


@given(programs())
def test_fields_lie_where_their_codelets_ask(drawn: tuple[Graph, Sequence]) -> None:
    graph, program = drawn
    executable = compile_programs(graph, [program])
    check_memory(executable)
    check_places(executable)
    for step in executable.steps:
        if step.compute_set is None:
            continue
        (batch,) = step.compute_set.batches
        cycles = np.full(graph.machine.n_tiles, 10)
        cycles[executable.memory.slow_tiles.get((step.step_id, 0), [])] = 20
        per_tile = np.bincount(batch.tile, minlength=graph.machine.n_tiles)
        # A worker vertex issues one instruction every six cycles.
        assert step.cost.tile_cycles.tolist() == (6 * cycles * (per_tile > 0)).tolist()


@given(programs())
def test_a_slow_path_is_taken_only_where_there_is_no_room(drawn: tuple[Graph, Sequence]) -> None:
    graph, program = drawn
    graph.machine = replace(graph.machine, interleaved_bytes=1 << 20)
    executable = compile_programs(graph, [program])
    assert worst_case_fits(executable)
    assert executable.memory.slow_tiles == {}
