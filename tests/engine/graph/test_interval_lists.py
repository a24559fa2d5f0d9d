"""Fields that are lists of intervals: each with its own place and length on one variable."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.compared import check
from tests.oracle.drawn_graphs import machines, mappings, new_builder
from tests.oracle.naive_codelets import NAIVE

from tilescope.engine import Engine, Executable, Field, Graph, Tensor, codelet, compile_programs
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import blocks, interval_lists
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.machine import load_machine
from tilescope.engine.program import Execute


def sums_law(batch: Any, _: Any) -> Any:
    """10 instructions, 5 for every interval and 2 for every element."""
    return 10 + batch.by_vertex("x", 5 + 2 * batch.size["x"][:, 0])


@codelet(Field("x", "in", kind="list"), Field("out", "out"), law=sums_law, code_bytes=80)
def interval_sums(x: Any, out: Any) -> None:
    """Write the sum of every interval times its number from 1."""
    for i in range(len(x)):
        total = 0.0
        for value in x[i]:
            total += value
        out[i] = (i + 1) * total


@codelet(
    Field("x", "inout", kind="list"), law=lambda batch, _: batch.n_elements("x"), code_bytes=40
)
def negate_intervals(x: Any) -> None:
    for interval in x:
        for j in range(interval.size):
            interval[j] = -interval[j]


def _naive_sums(inputs: Any, _: Any, __: Any) -> np.ndarray:
    return np.array([(i + 1) * part.sum() for i, part in enumerate(inputs["x"])])


def _naive_negation(inputs: Any, _: Any, __: Any) -> np.ndarray:
    return -np.concatenate(inputs["x"])


@pytest.fixture(scope="module", autouse=True)
def _plain_twins() -> Iterator[None]:
    """Let the naive machine run the codelets of this file."""
    twins = {"interval_sums": _naive_sums, "negate_intervals": _naive_negation}
    NAIVE.update(twins)
    yield
    for name in twins:
        del NAIVE[name]


def _variables(graph: Graph, n: int, n_out: int, dtype: str = "float32") -> tuple[Tensor, Tensor]:
    x = graph.add_variable(dtype, (n,), "x")
    out = graph.add_variable("float32", (n_out,), "out")
    for tensor in (x, out):
        graph.map_linearly(tensor)
    return x, out


LISTS = [[(0, 3), (10, 11)], [(4, 9), (4, 6), (19, 20)], [(12, 18)]]
"""Begin and end of the intervals of three vertices."""


def _slices(x: Tensor, lists: Any) -> list[list[Tensor]]:
    return [[x.slice(0, begin, end) for begin, end in local] for local in lists]


def _sums(
    lists: Any = LISTS, codelet: Codelet = interval_sums
) -> tuple[Executable, Tensor, Tensor]:
    graph = Graph(load_machine("gc200", tiles_per_ipu=4))
    x, out = _variables(graph, 20, 6)
    compute_set = graph.add_compute_set("sum")
    edges = np.cumsum([0, *map(len, lists)]).tolist()
    fields: dict[str, Any] = {
        "x": _slices(x, lists),
        "out": [out.slice(0, a, b) for a, b in pairwise(edges)],
    }
    graph.add_vertices(compute_set, codelet, [0, 1, 2], fields)
    return compile_programs(graph, [Execute(compute_set)], is_checked=True), x, out


def test_a_vertex_reads_its_intervals() -> None:
    executable, x, out = _sums()
    values = np.arange(20.0)
    with Engine(executable) as device:
        device.write_tensor(x, values)
        device.run()
        result = device.read_tensor(out)
    expected = [(i + 1) * values[a:b].sum() for local in LISTS for i, (a, b) in enumerate(local)]
    np.testing.assert_array_equal(result, expected)


def test_cycles_edges_and_state_count_the_intervals() -> None:
    executable, _, _ = _sums()
    (step,) = (step for step in executable.steps if step.compute_set)
    by_vertex = [sum(5 + 2 * (b - a) for a, b in local) for local in LISTS]
    assert step.cost.tile_cycles.tolist() == [*(6 * (10 + n) for n in by_vertex), 0]
    (use,) = executable.vertex_uses
    n_intervals = sum(map(len, LISTS))
    assert use.n_edges == n_intervals + 3  # and the results
    assert use.state_bytes == 3 * (8 + 8) + 8 * n_intervals
    state = executable.memory.categories["vertexInstanceState"].sum(axis=0)
    assert state.tolist() == [16 + 8 * 2, 16 + 8 * 3, 16 + 8 * 1, 0]


@given(machines(4), st.data(), st.sampled_from(["float32", "float16"]))
def test_against_the_naive_machine(machine: Any, data: st.DataObject, dtype: str) -> None:
    graph, builder = new_builder(machine)
    n = data.draw(st.integers(4, 30))
    cuts = sorted(data.draw(st.sets(st.integers(1, n - 1), min_size=1, max_size=8)))
    parts = data.draw(st.permutations(list(zip([0, *cuts], [*cuts, n], strict=True))))
    n_vertices = data.draw(st.integers(1, len(parts)))
    lists = [parts[i::n_vertices] for i in range(n_vertices)]
    tiles = data.draw(
        st.lists(st.integers(0, machine.n_tiles - 1), min_size=n_vertices, max_size=n_vertices)
    )
    x = graph.add_variable(dtype, (n,), "x")
    out = graph.add_variable("float32", (len(parts),), "out")
    for tensor in (x, out):
        data.draw(mappings(graph, tensor))
    first = np.cumsum([0, *map(len, lists)])
    start = np.array([a for local in lists for a, _ in local])
    size = np.array([b - a for local in lists for a, b in local])
    regions = interval_lists(x.variable, first, start, size)
    builder.vertices(builder.compute_set("negate"), negate_intervals, tiles, {"x": regions})
    rows = [
        out.slice(0, a, b) for a, b in zip(first[:-1].tolist(), first[1:].tolist(), strict=True)
    ]
    fields: dict[str, Any] = {"x": _slices(x, lists), "out": rows}
    builder.vertices(builder.compute_set("sum"), interval_sums, tiles, fields)
    values = np.random.default_rng(n).integers(-8, 8, n)
    negated, sums = check(builder, [(x, values)], [x, out])
    np.testing.assert_array_equal(negated, -values)
    expected = [-(i + 1) * values[a:b].sum() for local in lists for i, (a, b) in enumerate(local)]
    np.testing.assert_array_equal(sums, expected)


def test_an_executable_with_lists_is_serialised() -> None:
    executable, x, out = _sums()
    copy = Executable.from_bytes(executable.to_bytes())
    results = []
    for item in (executable, copy):
        with Engine(item) as device:
            variables = {v.name: v for v in item.graph.variables}
            device.write_tensor(Tensor(variables["x"], 0, x.dims), np.arange(20.0))
            device.run()
            results.append(device.read_tensor(Tensor(variables["out"], 0, out.dims)).tolist())
    assert results[0] == results[1]


def test_two_writers_of_an_interval_are_named() -> None:
    graph = Graph(load_machine("gc200", tiles_per_ipu=4))
    x, _ = _variables(graph, 20, 6)
    compute_set = graph.add_compute_set("negate")
    lists = [[(0, 2), (5, 9)], [(10, 12), (8, 10)]]
    graph.add_vertices(compute_set, negate_intervals, [0, 1], {"x": _slices(x, lists)})
    with pytest.raises(
        BadGraph, match=r"vertex 0 of .* and vertex 1 of .* both write elements 8 to 8"
    ):
        compile_programs(graph, [Execute(compute_set)], is_checked=True)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        (lambda x: [x.slice(0, 0, 3)] * 3, "field 'x' takes a list of slices per vertex"),
        (lambda x: _slices(x, LISTS[:2]), "field 'x' has 2 lists for 3 vertices"),
        (lambda x: [*_slices(x, LISTS[:2]), []], "vertex 2 has no intervals"),
        (
            lambda x: [*_slices(x, LISTS[:2]), [x.reshape(4, 5).slice(1, 0, 1)]],
            "is not contiguous: give its contiguous parts",
        ),
        (
            lambda x: interval_lists(x.variable, [0, 1, 2, 3], [0, 5, 18], [1, 1, 3]),
            "vertex 2 accesses elements 18 to 20 of variable 'x', which has 20",
        ),
        (
            lambda x: interval_lists(x.variable, [0, 2, 1, 3], [0, 5, 18], 1),
            "must ascend from 0 to",
        ),
    ],
)
def test_invalid_lists(given_: Any, message: str) -> None:
    graph = Graph(load_machine("gc200", tiles_per_ipu=4))
    x, out = _variables(graph, 20, 6)
    compute_set = graph.add_compute_set("sum")
    with pytest.raises(BadGraph, match=message):
        graph.add_vertices(compute_set, interval_sums, [0, 1, 2], {"x": given_(x), "out": out})


def test_a_list_has_no_size_to_compare() -> None:
    fields = [Field("x", "in", kind="list"), Field("out", "out", size_of="x")]
    with pytest.raises(BadGraph, match="'out' of copies: size_of is for fields of one region"):

        @codelet(*fields, law=sums_law, code_bytes=1)
        def copies(x: Any, out: Any) -> None:
            out[0] = x[0][0]


def test_regions_of_the_wrong_kind_are_named() -> None:
    graph = Graph(load_machine("gc200", tiles_per_ipu=4))
    x, out = _variables(graph, 20, 6)
    compute_set = graph.add_compute_set("sum")
    item, lists = blocks(x.variable, 0, [2], [1], 1), interval_lists(out.variable, [0, 1], [0], 2)
    with pytest.raises(BadGraph, match="field 'x' is a list of intervals: give such regions"):
        graph.add_vertices(compute_set, interval_sums, [0], {"x": item, "out": out})
    with pytest.raises(BadGraph, match="field 'out' is a vector: give such regions"):
        graph.add_vertices(compute_set, interval_sums, [0], {"x": [[x]], "out": lists})


def test_a_list_has_one_dimension() -> None:
    with pytest.raises(BadGraph, match="is a list of intervals and must have one dimension"):
        Field("x", "in", 2, "list")
