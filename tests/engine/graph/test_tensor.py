"""Views of tensors, with numpy's own views as the oracle."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilescope.engine import Graph, Tensor, load_machine
from tilescope.engine.errors import BadGraph

MACHINE = load_machine("gc200", tiles_per_ipu=4)


def fresh(shape: tuple[int, ...]) -> tuple[Tensor, np.ndarray]:
    """Return a tensor, and the array of its elements' indices in the variable."""
    tensor = Graph(MACHINE).add_variable("float32", shape, "x")
    return tensor, np.arange(math.prod(shape)).reshape(shape)


def elements(tensor: Tensor) -> np.ndarray:
    """Return the index of every element of a view, by loops over its atoms."""
    numbers = np.array(tensor.offset)
    for dim in tensor.dims:
        column = np.zeros(1, np.int64)
        for size, stride in dim:
            column = (column[:, None] + np.arange(size) * stride).reshape(-1)
        numbers = numbers[..., None] + column
    return numbers


def slice_or_none(tensor: Tensor, dim: int, start: int, stop: int) -> Tensor | None:
    """Return a slice, or None if it is not a view."""
    try:
        return tensor.slice(dim, start, stop)
    except BadGraph as error:
        if "copy it first" in str(error):
            return None
        raise


@st.composite
def factorised(draw: st.DrawFn, n: int) -> tuple[int, ...]:
    """Return a shape of n elements."""
    sizes = []
    while n > 1:
        size = draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0]))
        sizes.append(size)
        n //= size
        if size == 1 and len(sizes) > 4:
            sizes.append(n)
            break
    return tuple(sizes) or (1,)


@given(st.data(), st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_any_chain_of_views_is_numpys(data: st.DataObject, shape: list[int]) -> None:
    """Refused views are those that numpy would copy, or that cut atoms unevenly."""
    tensor, array = fresh(tuple(shape))
    for _ in range(data.draw(st.integers(1, 5))):
        kinds = ["reshape", "shuffle", "slice", "reverse", "broadcast", "flatten"]
        kind = data.draw(st.sampled_from(kinds))
        if kind == "reshape":
            expected = data.draw(factorised(array.size))
            if not tensor.can_reshape(*expected):
                with pytest.raises(BadGraph, match="copy it first"):
                    tensor.reshape(*expected)
                continue
            tensor, array = tensor.reshape(*expected), array.reshape(expected)
        elif kind == "shuffle":
            order = data.draw(st.permutations(range(array.ndim)))
            tensor, array = tensor.dim_shuffle(*order), array.transpose(order)
        elif kind == "slice":
            dim = data.draw(st.integers(0, array.ndim - 1))
            start = data.draw(st.integers(0, array.shape[dim] - 1))
            stop = data.draw(st.integers(start + 1, array.shape[dim]))
            cut = slice_or_none(tensor, dim, start, stop)
            if cut is None:
                assert len(tensor.dims[dim]) > 1
                continue
            tensor = cut
            array = np.take(array, range(start, stop), axis=dim)
        elif kind == "reverse":
            dim = data.draw(st.integers(0, array.ndim - 1))
            tensor, array = tensor.reverse(dim), np.flip(array, dim)
        elif kind == "broadcast" and array.size < 2000:
            wide = tuple(3 if size == 1 else size for size in array.shape)
            expected = (*((2,) if data.draw(st.booleans()) else ()), *wide)
            tensor, array = tensor.broadcast_to(expected), np.broadcast_to(array, expected)
        else:
            tensor, array = tensor.flatten(), array.reshape(-1)
        assert tensor.shape == array.shape
        assert tensor.n_elements == array.size
        assert elements(tensor).tolist() == array.tolist()
        assert tensor.is_contiguous == (
            (np.diff(array.reshape(-1)) == 1).all() if array.size > 1 else True
        )


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_what_numpy_reshapes_as_a_view_is_a_view(shape: list[int], data: st.DataObject) -> None:
    tensor, array = fresh(tuple(shape))
    order = data.draw(st.permutations(range(len(shape))))
    expected = data.draw(factorised(array.size))
    shuffled = array.transpose(order)
    if np.shares_memory(shuffled.reshape(expected), array):
        assert tensor.dim_shuffle(*order).can_reshape(*expected)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=3), st.data())
def test_refine_cuts_dimensions_into_factors(shape: list[int], data: st.DataObject) -> None:
    tensor, _ = fresh(tuple(shape))
    order = data.draw(st.permutations(range(len(shape))))
    tensor = tensor.dim_shuffle(*order)
    factors = [data.draw(factorised(size)) for size in tensor.shape]
    refined = tensor.refine(factors)
    assert refined is not None
    flat = [atom for dim in refined for atom in dim]
    assert [size for size, _ in flat] == [size for sizes in factors for size in sizes]
    numbers = np.array(0)
    for size, stride in flat:
        numbers = numbers[..., None] + np.arange(size) * stride
    assert numbers.reshape(-1).tolist() == elements(tensor).reshape(-1).tolist()


def test_minus_one_infers_the_size() -> None:
    tensor, array = fresh((4, 6))
    assert tensor.reshape(3, -1).shape == array.reshape(3, -1).shape


def test_invalid_views_are_refused() -> None:
    tensor, _ = fresh((4, 6))
    with pytest.raises(BadGraph, match=r"Cannot reshape .* to \(5, 5\)"):
        tensor.reshape(5, 5)
    with pytest.raises(BadGraph, match="out of range for dimension 1 of size 6"):
        tensor.slice(1, 2, 7)
    with pytest.raises(BadGraph, match="out of range"):
        tensor.slice(0, 2, 2)
    with pytest.raises(BadGraph, match="is not a permutation"):
        tensor.dim_shuffle(0, 0)
    with pytest.raises(BadGraph, match="does not broadcast"):
        tensor.broadcast_to((4, 7))
    with pytest.raises(BadGraph, match="does not broadcast"):
        tensor.broadcast_to((6,))
    assert tensor.dim_shuffle(1, 0).refine([[4], [6]]) is None


@given(st.data(), st.lists(st.integers(1, 6), min_size=1, max_size=3))
def test_the_mapping_of_a_view_locates_every_element(data: st.DataObject, shape: list[int]) -> None:
    graph = Graph(MACHINE)
    tensor = graph.add_variable("float32", shape, "x")
    n = tensor.n_elements
    cuts = data.draw(st.lists(st.integers(1, n - 1), unique=True, max_size=5)) if n > 1 else []
    tiles = [data.draw(st.integers(0, 3)) for _ in range(len(cuts) + 1)]
    graph.set_tile_mapping(tensor, [0, *sorted(cuts)], tiles)
    view = tensor
    if data.draw(st.booleans()):
        view = view.slice(0, shape[0] // 2, shape[0])
    if data.draw(st.booleans()):
        view = view.reverse(data.draw(st.integers(0, len(shape) - 1)))
    view = view.dim_shuffle(*data.draw(st.permutations(range(len(shape)))))
    if data.draw(st.booleans()):
        view = view.broadcast_to((2, *view.shape))
    expected = tensor.variable.tile_of(elements(view).reshape(-1))
    mapping = graph.tile_mapping(view)
    actual = np.full(view.n_elements, -1)
    for tile in range(MACHINE.n_tiles):
        intervals = mapping.intervals(tile)
        assert all(first[1] < second[0] for first, second in itertools.pairwise(intervals)), (
            "joined"
        )
        for start, end in intervals:
            assert (actual[start:end] == -1).all()
            actual[start:end] = tile
    assert actual.tolist() == expected.tolist()
    assert mapping.elements_by_tile(4).tolist() == np.bincount(expected, minlength=4).tolist()


def test_a_mapping_that_is_missing_or_of_another_graph_is_refused() -> None:
    tensor, _ = fresh((4,))
    graph = Graph(MACHINE)
    graph.add_variable("float32", (4,), "y")
    with pytest.raises(BadGraph, match="'x' is a variable of another graph"):
        graph.tile_mapping(tensor)
    with pytest.raises(BadGraph, match="'y' has no tile mapping yet"):
        graph.tile_mapping(graph.add_variable("int32", (2,), "y"))
    with pytest.raises(BadGraph, match="no dimension 1"):
        tensor.reverse(1)


def test_a_slice_inside_one_row_of_any_atom_is_a_view() -> None:
    """A dimension of three atoms, of which the outer ones move the start of the inner ones."""
    tensor, array = fresh((4, 3, 2))
    tensor, array = tensor.dim_shuffle(2, 1, 0).reshape(24), array.transpose(2, 1, 0).reshape(24)
    assert len(tensor.dims[0]) == 3
    for start, stop in itertools.combinations(range(25), 2):
        is_one_row = start // 4 == (stop - 1) // 4
        is_whole_rows = start % 4 == 0 == stop % 4 and start // 12 == (stop - 1) // 12
        view = slice_or_none(tensor, 0, start, stop)
        assert (view is not None) == (is_one_row or is_whole_rows or (start, stop) == (0, 24))
        if view is not None:
            np.testing.assert_array_equal(elements(view), array[start:stop])
