"""Vertices and loops that the library does not build, against the naive machine."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.compared import check, run_both, seeds, small_machine, values_for
from tests.oracle.drawn_graphs import machines, mappings, new_builder, shapes, views
from tests.oracle.naive_codelets import NAIVE
from tests.oracle.naive_machine import NaiveMachine, naive_live_bytes

from tilescope.engine import (
    Builder,
)
from tilescope.engine.codelets.popops.elementwise.fill import FILL
from tilescope.engine.compiler.executable.codelet_place import codelet_modules
from tilescope.engine.graph import blocks
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.library.popops.elementwise.operations import binary
from tilescope.engine.program import Copy, Repeat
from tilescope.engine.program import Sequence as ProgramSequence


def test_every_codelet_of_the_library_has_a_plain_twin() -> None:
    actual = set()
    for module in codelet_modules():
        for value in vars(module).values():
            members = value.values() if isinstance(value, dict) else [value]
            actual |= {member.name for member in members if isinstance(member, Codelet)}
    fused = {name for name in actual if name.startswith("popops::Map")}
    assert actual - fused == set(NAIVE)
    assert fused
    assert all(callable(NAIVE[name]) for name in fused), "the twin follows from the name"


@given(st.data(), machines(), st.integers(1, 30), st.integers(1, 4))
def test_outputs_on_other_tiles_are_exchanged(
    data: st.DataObject, machine: Any, size: int, n_vertices: int
) -> None:
    """A vertex may write remote elements; no library function does so."""
    graph, builder = new_builder(machine)
    out = graph.add_variable("float32", (n_vertices, size), "out")
    data.draw(mappings(graph, out))
    positions = st.lists(
        st.integers(0, machine.n_tiles - 1), min_size=n_vertices, max_size=n_vertices
    )
    start = np.arange(n_vertices, dtype=np.int64) * size
    fields = {"out": blocks(out.variable, start, [size], [1], n_vertices)}
    compute_set = builder.compute_set("fill")
    builder.vertices(compute_set, FILL, data.draw(positions), fields, {"value": start + 1.5})
    (result,) = check(builder, [], [out])
    assert result[:, 0].tolist() == (start + 1.5).tolist()


@given(st.data(), machines(), shapes(), st.integers(1, 4), seeds)
def test_a_loop_carries_its_state(
    data: st.DataObject, machine: Any, shape: Any, count: int, seed: int
) -> None:
    graph, builder = new_builder(machine)
    state = data.draw(views(graph, shape, name="state", may_be_part=False))
    step = data.draw(views(graph, shape, name="step"))
    inside = Builder(graph, ProgramSequence("body"), builder.debug)
    built = binary(inside, "add", state, step, shape)
    inside.sequence.add(Copy(built, state))
    program = ProgramSequence("all").add(Repeat(count, inside.sequence, "loop"))
    first, added = values_for(state, seed), values_for(step, seed + 1)
    executable, (result,) = run_both(graph, program, [(state, first), (step, added)], [state])
    np.testing.assert_allclose(result, first + count * added.astype(np.float64), atol=1e-4)
    assert (executable.memory.live.dense() >= naive_live_bytes(executable)).all()


def test_the_rule_is_broken_where_two_vertices_write_one_element() -> None:
    """The naive machine detects a planted overlap."""
    graph, builder = new_builder(small_machine(2))
    out = graph.add_variable("float32", (4,), "out")
    graph.map_linearly(out)
    fields = {"out": blocks(out.variable, np.array([0, 2]), [np.array([3, 2])], [1], 2)}
    compute_set = builder.compute_set("overlap")
    builder.vertices(compute_set, FILL, [0, 1], fields, {"value": 1.0})
    naive = NaiveMachine(graph)
    naive.run(builder.sequence)
    assert naive.violations == [("overlap", (out.variable.variable_id, 2))]
