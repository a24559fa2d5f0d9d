"""Variables, tile mapping, vertices: errors and their messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilescope.engine import Graph, Tensor, compile_programs, load_machine
from tilescope.engine.codelets.popops.elementwise.copy import COPY
from tilescope.engine.codelets.popops.elementwise.fill import FILL
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import blocks
from tilescope.engine.program import Copy, Execute, Repeat, Sequence


@pytest.fixture
def graph() -> Graph:
    return Graph(load_machine("gc200", tiles_per_ipu=4))


@pytest.fixture
def x(graph: Graph) -> Tensor:
    return graph.add_variable("float32", (10,), "x")


@pytest.mark.parametrize(
    ("starts", "tiles", "words"),
    [
        ([], [], "must begin at element 0"),
        ([1], [0], "must begin at element 0"),
        ([0, 5], [0], "give one tile per start"),
        ([0, 5, 5], [0, 1, 2], "must ascend within its 10 elements"),
        ([0, 6, 5], [0, 1, 2], "must ascend within its 10 elements"),
        ([0, 10], [0, 1], "must ascend within its 10 elements"),
        ([0, 5], [0, 4], "mapped to tile 4, but the machine has tiles 0 to 3"),
        ([0, 5], [-1, 0], "mapped to tile -1"),
    ],
)
def test_an_invalid_mapping(
    graph: Graph, x: Tensor, starts: list[int], tiles: list[int], words: str
) -> None:
    with pytest.raises(BadGraph, match=words):
        graph.set_tile_mapping(x, starts, tiles)
    assert not x.variable.is_mapped


def test_neighbouring_intervals_on_one_tile_become_one(graph: Graph, x: Tensor) -> None:
    graph.set_tile_mapping(x, [0, 2, 5, 8], [1, 1, 3, 3])
    assert x.variable.map_start.tolist() == [0, 5]
    assert x.variable.tile_of(np.arange(10)).tolist() == [1] * 5 + [3] * 5


def test_a_linear_mapping_has_a_least_number_of_elements(graph: Graph) -> None:
    x = graph.add_variable("float32", (100,), "x")
    graph.map_linearly(x, grain=2, min_elements=30)
    assert np.bincount(x.variable.map_tile).size == 3
    small = graph.add_variable("float32", (7,), "small")
    graph.map_linearly(small, min_elements=30)
    assert x.variable.map_start.tolist() == [0, 32, 66]
    assert small.variable.map_tile.tolist() == [0]
    with pytest.raises(BadGraph, match="least elements per tile of 'x' is 0: expected at least 1"):
        graph.map_linearly(x, min_elements=0)


@pytest.mark.parametrize("n", [1, 3, 4, 5, 17, 40])
@pytest.mark.parametrize("grain", [1, 4])
def test_a_linear_mapping_is_even_and_keeps_grains(graph: Graph, n: int, grain: int) -> None:
    y = graph.add_variable("float32", (n,), "y")
    graph.map_linearly(y, grain=grain, first=2)
    owners = y.variable.tile_of(np.arange(n))
    grains = [set(owners[i : i + grain].tolist()) for i in range(0, n, grain)]
    assert all(len(tiles) == 1 for tiles in grains)
    held = np.bincount(owners[::grain], minlength=4)
    assert held.max() - held.min() <= 1
    assert owners[0] == 2


@pytest.mark.parametrize(
    ("start", "size", "stride", "low", "high"),
    [(8, 3, 1, 8, 10), (-1, 2, 1, -1, 0), (1, 3, -1, -1, 1), (0, 4, 4, 0, 12)],
)
def test_a_region_outside_its_variable(
    graph: Graph, x: Tensor, start: int, size: int, stride: int, low: int, high: int
) -> None:
    regions = blocks(x.variable, start, [size], [stride], 1)
    with pytest.raises(BadGraph, match=f"vertex 0 accesses elements {low} to {high} of") as caught:
        regions.check("here")
    assert "which has 10" in str(caught.value)
    with pytest.raises(BadGraph):
        graph.add_vertices(graph.add_compute_set("c"), FILL, [0], {"out": regions}, {"value": 1.0})


def test_vertices_that_do_not_match_their_codelet(graph: Graph, x: Tensor) -> None:
    compute_set = graph.add_compute_set("c")
    good = blocks(x.variable, 0, [4], [1], 1)
    value: dict[str, Any] = {"value": 1.0}

    def refused(words: str, *arguments: Any) -> None:
        with pytest.raises(BadGraph, match=words):
            graph.add_vertices(compute_set, *arguments)

    refused("outside 0 to 3", FILL, [4], {"out": good}, value)
    refused("the fields are x, out, not out", COPY, [0], {"out": good})
    refused("the fields are out, not x", FILL, [0], {"x": good}, value)
    refused("takes 2 regions of 1 dimensions", FILL, [0, 1], {"out": good}, value)
    refused("must be contiguous", FILL, [0], {"out": blocks(x.variable, 0, [3], [2], 1)}, value)
    refused("the scalars are value, not", FILL, [0], {"out": good})
    refused("takes one number, or one per vertex", FILL, [0], {"out": good}, {"value": [1.0, 2.0]})
    stranger = Graph(graph.machine).add_variable("float32", (10,), "stranger")
    refused(
        "of another graph", FILL, [0], {"out": blocks(stranger.variable, 0, [4], [1], 1)}, value
    )
    assert compute_set.batches == []


def test_unsupported_types_and_shapes(graph: Graph) -> None:
    with pytest.raises(BadGraph, match="no type 'complex64'"):
        graph.add_variable("complex64", (3,), "c")
    with pytest.raises(BadGraph, match="at least 1"):
        graph.add_variable("float32", (3, 0), "empty")
    with pytest.raises(BadGraph, match="int32 holds -2147483648 to 2147483647"):
        graph.add_constant(np.array([2**40]), "large")
    held = graph.add_constant(np.array([2**31 - 1, -(2**31)]), "fits")
    assert held.dtype.name == "int32"


def test_invalid_programs(graph: Graph, x: Tensor) -> None:
    y = graph.add_variable("float32", (5, 2), "y")
    with pytest.raises(BadGraph, match="cannot copy"):
        Copy(x, y)
    with pytest.raises(BadGraph, match="count of Repeat '' is 0: expected at least 1"):
        Repeat(0, Sequence())
    compute_set = graph.add_compute_set("c")
    graph.add_vertices(
        compute_set, FILL, [0], {"out": blocks(x.variable, 0, [4], [1], 1)}, {"value": 1.0}
    )
    with pytest.raises(BadGraph, match="'x' has no tile mapping yet"):
        compile_programs(graph, [Execute(compute_set)])
