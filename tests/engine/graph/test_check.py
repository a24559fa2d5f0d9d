"""The compute set rule: planted violations are reported, and nothing else."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilescope.engine import Graph, Tensor, compile_programs, load_machine
from tilescope.engine.codelets.popops.elementwise.copy import COPY, COPY_BLOCK
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import ComputeSet, Regions, blocks
from tilescope.engine.graph.vertex.check import check_compute_set
from tilescope.engine.program import Execute


def new(*names: str) -> tuple[Graph, ComputeSet, list[Tensor]]:
    graph = Graph(load_machine("gc200", tiles_per_ipu=8))
    tensors = [graph.add_variable("float32", (100,), name) for name in names]
    for tensor in tensors:
        graph.map_linearly(tensor)
    return graph, graph.add_compute_set("step"), tensors


def intervals(tensor: Tensor, *pairs: tuple[int, int]) -> Regions:
    start = np.array([start for start, _ in pairs])
    size = np.array([end - start for start, end in pairs])
    return blocks(tensor.variable, start, [size], [1], len(pairs))


def test_two_writers_of_an_element_are_named() -> None:
    graph, compute_set, (x, y) = new("x", "y")
    inputs, outputs = intervals(x, (0, 10), (0, 10)), intervals(y, (0, 10), (7, 17))
    graph.add_vertices(compute_set, COPY, [2, 5], {"x": inputs, "out": outputs})
    with pytest.raises(BadGraph) as caught:
        compile_programs(graph, [Execute(compute_set)], is_checked=True)
    assert str(caught.value).startswith(
        "Compute set 'step': vertex 0 of poplar::Memcpy on tile 2 and vertex 1 of poplar::Memcpy"
        " on tile 5 both write elements 7 to 9 of variable 'y'"
    )
    compile_programs(graph, [Execute(compute_set)])


def test_a_reader_of_another_batch_s_writes_is_named() -> None:
    graph, compute_set, (x, y) = new("x", "y")
    graph.add_vertices(
        compute_set, COPY, [1], {"x": intervals(x, (0, 20)), "out": intervals(y, (0, 20))}
    )
    columns = blocks(y.variable, 60, [1, 2, 5], [0, -30, 3], 1)  # 60, 63 … and 30, 33 …
    target = blocks(x.variable, 40, [1, 2, 5], [0, 5, 1], 1)
    graph.add_vertices(compute_set, COPY_BLOCK, [6], {"x": columns, "out": target})
    check_compute_set(compute_set)
    late = blocks(y.variable, 45, [1, 2, 5], [0, -30, 3], 1)  # 15 and 18 are written
    peer = graph.add_compute_set("other")
    peer.add(compute_set.batches[0])
    graph.add_vertices(peer, COPY_BLOCK, [6], {"x": late, "out": target})
    with pytest.raises(BadGraph) as caught:
        check_compute_set(peer)
    assert str(caught.value).startswith(
        "Compute set 'other': vertex 0 of poplar::StridedCopy on tile 6 reads elements 15 to 15 of"
        " variable 'y', which vertex 0 of poplar::Memcpy on tile 1 writes"
    )


def test_a_vertex_may_read_what_it_writes_itself() -> None:
    graph, compute_set, (x,) = new("x")
    both = intervals(x, (0, 10), (10, 20))
    graph.add_vertices(compute_set, COPY, [0, 1], {"x": both, "out": both})
    check_compute_set(compute_set)


@st.composite
def drawn(draw: st.DrawFn) -> ComputeSet:
    graph, compute_set, tensors = new("x", "y")
    for _ in range(draw(st.integers(1, 3))):
        n = draw(st.integers(1, 4))
        fields = {}
        size = [np.array(draw(st.lists(st.integers(1, 3), min_size=n, max_size=n))) for _ in "pqr"]
        for name in ("x", "out"):
            start = np.array(draw(st.lists(st.integers(0, 70), min_size=n, max_size=n)))
            strides = [draw(st.sampled_from(choice)) for choice in ((0, 7), (0, 2, 3), (1, 2))]
            variable = draw(st.sampled_from(tensors)).variable
            fields[name] = blocks(variable, start, size, strides, n)
        graph.add_vertices(compute_set, COPY_BLOCK, np.zeros(n, int), fields)
    return compute_set


def touched(regions: Regions, vertex: int) -> set[tuple[str, int]]:
    sizes, strides = regions.size[vertex], regions.stride[vertex]
    return {
        (regions.variable.name, int(regions.start[vertex] + (np.array(index) * strides).sum()))
        for index in product(*(range(int(size)) for size in sizes))
    }


@given(drawn())
def test_it_agrees_with_a_check_element_by_element(compute_set: ComputeSet) -> None:
    reads, writes = [], []
    for batch in compute_set.batches:
        for vertex in range(batch.n_vertices):
            reads.append(touched(batch.fields["x"], vertex))
            writes.append(touched(batch.fields["out"], vertex))
    n = len(reads)
    broken = {
        element
        for a in range(n)
        for b in range(n)
        if a != b
        for element in writes[a] & (reads[b] | writes[b])
    }
    if not broken:
        check_compute_set(compute_set)
        return
    with pytest.raises(BadGraph) as caught:
        check_compute_set(compute_set)
    match = re.search(r"elements (\d+) to (\d+) of variable '(\w+)'", str(caught.value))
    assert match is not None
    low, high, name = int(match[1]), int(match[2]), match[3]
    assert {(name, element) for element in range(low, high + 1)} <= broken
