"""Tile mappings of slices and other views, and clones of views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilescope.engine import Graph, concat, load_machine
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import View


@pytest.fixture
def graph() -> Graph:
    return Graph(load_machine("gc200", tiles_per_ipu=4))


def tiles_of(graph: Graph, view: View) -> Any:
    """Return the tile of every element: ndarray of the view's shape."""
    tiles = np.full(view.n_elements, -1)
    mapping = graph.tile_mapping(view)
    for tile, start, end in zip(mapping.tile, mapping.start, mapping.end, strict=True):
        tiles[start:end] = tile
    return tiles.reshape(view.shape)


def test_slices_map_their_elements(graph: Graph) -> None:
    x = graph.add_variable("float32", (4, 6), "x")
    graph.set_tile_mapping(x.slice(1, 2, 6), [0], [3])
    with pytest.raises(BadGraph, match="'x' is mapped in part, element 0 has no tile"):
        graph.tile_mapping(x)
    graph.set_tile_mapping(x.slice(1, 0, 2), [0, 4], [1, 2])
    expected = np.full((4, 6), 3)
    expected[:2, :2], expected[2:, :2] = 1, 2
    np.testing.assert_array_equal(tiles_of(graph, x), expected)
    graph.set_tile_mapping(x.slice(0, 1, 2), [0], [0])
    expected[1] = 0
    np.testing.assert_array_equal(tiles_of(graph, x), expected)


def test_intervals_are_in_logical_order_of_the_view(graph: Graph) -> None:
    x = graph.add_variable("float32", (4, 6), "x")
    graph.map_linearly(x.dim_shuffle(1, 0), grain=4)
    np.testing.assert_array_equal(tiles_of(graph, x), np.tile([0, 1, 1, 2, 3, 3], (4, 1)))
    graph.set_tile_mapping(x.slice(0, 0, 1).reverse(1), [0, 2], [2, 0])
    np.testing.assert_array_equal(tiles_of(graph, x)[0], [0, 0, 0, 0, 2, 2])
    np.testing.assert_array_equal(tiles_of(graph, x)[1], [0, 1, 1, 2, 3, 3])


def test_a_view_that_shows_elements_twice_is_refused(graph: Graph) -> None:
    x = graph.add_variable("float32", (1, 6), "x")
    with pytest.raises(BadGraph, match="The view of 'x' to map shows an element twice"):
        graph.map_linearly(x.broadcast_to((3, 6)))
    with pytest.raises(BadGraph, match="The starts of 'x' must ascend within its 2 elements"):
        graph.set_tile_mapping(x.slice(1, 0, 2), [0, 2], [0, 1])


def test_a_clone_lies_as_the_view(graph: Graph) -> None:
    x = graph.add_variable("float32", (4, 6), "x")
    graph.map_linearly(x, grain=6)
    for view in (x, x.dim_shuffle(1, 0), x.slice(1, 1, 3), x.slice(0, 1, 3).reverse(0)):
        built = graph.clone(view, "copy")
        assert (built.shape, built.dtype) == (view.shape, view.dtype)
        np.testing.assert_array_equal(tiles_of(graph, built), tiles_of(graph, view))
    # The order in memory is kept: the rows of the copy are contiguous.
    assert graph.clone(x.dim_shuffle(1, 0), "turned").dims == ((((6, 1),)), (((4, 6),)))


def test_a_clone_of_joined_and_broadcast_views_is_row_major(graph: Graph) -> None:
    x = graph.add_variable("float32", (2, 6), "x")
    graph.map_linearly(x, grain=6)
    for view in (concat([x, x.slice(0, 0, 1)]), x.slice(0, 1, 2).broadcast_to((3, 6))):
        built = graph.clone(view, "copy", "float16")
        assert built.is_contiguous
        assert built.dtype.name == "float16"
        np.testing.assert_array_equal(tiles_of(graph, built), tiles_of(graph, view))


def test_a_clone_needs_a_mapping(graph: Graph) -> None:
    x = graph.add_variable("float32", (4, 6), "x")
    with pytest.raises(BadGraph, match="'x' has no tile mapping yet"):
        graph.clone(x, "copy")
