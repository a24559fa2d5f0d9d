"""Tensors that join several variables, with numpy's concatenate and views as the oracle."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilescope.engine import (
    Engine,
    Graph,
    Tensor,
    compile_programs,
    concat,
    load_machine,
    resolve_options,
)
from tilescope.engine.errors import BadGraph, BadInput
from tilescope.engine.graph import Joined, View, aligned, blocks, section
from tilescope.engine.program import (
    Copy,
    ErrorProgram,
    PrintTensor,
    Program,
    RemoteCopyIn,
    RemoteCopyOut,
    Sequence,
    StreamCopyIn,
    StreamCopyOut,
    WriteUndef,
)

NO_REPORT = resolve_options(environ={})
PER_VARIABLE = 1000  # Elements are numbered in steps of this, per variable.


def new() -> Graph:
    return Graph(load_machine("gc200", tiles_per_ipu=4))


def variable(graph: Graph, shape: tuple[int, ...], name: str = "x") -> Tensor:
    tensor = graph.add_variable("float32", shape, name)
    graph.map_linearly(tensor)
    return tensor


def numbered(tensor: Tensor) -> np.ndarray:
    """Return the elements of a whole variable as numbers that encode variable and index."""
    first = tensor.variable.variable_id * PER_VARIABLE
    return np.arange(first, first + tensor.n_elements).reshape(tensor.shape)


def elements(view: View) -> np.ndarray:
    """Return the numbers of any view's elements, by loops over parts and atoms."""
    if isinstance(view, Joined):
        return np.concatenate([elements(part) for part in view.parts], view.dim)
    numbers = np.array(view.offset + view.variable.variable_id * PER_VARIABLE)
    for dim in view.dims:
        column = np.zeros(1, np.int64)
        for size, stride in dim:
            column = (column[:, None] + np.arange(size) * stride).reshape(-1)
        numbers = numbers[..., None] + column
    return numbers


@st.composite
def joined(draw: st.DrawFn, graph: Graph, depth: int = 2) -> tuple[View, np.ndarray]:
    """Return a nested concatenation, and its elements."""
    rank = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, 5)) for _ in range(rank))
    return draw(joined_of(graph, shape, depth))


@st.composite
def joined_of(
    draw: st.DrawFn, graph: Graph, shape: tuple[int, ...], depth: int
) -> tuple[View, np.ndarray]:
    if depth == 0:
        order = draw(st.permutations(range(len(shape))))
        built = variable(graph, tuple(shape[d] for d in order), f"v{len(graph.variables)}")
        back = np.argsort(order).tolist()
        return built.dim_shuffle(*back), numbered(built).transpose(back)
    dim = draw(st.integers(0, len(shape) - 1))
    cuts = sorted(draw(st.sets(st.integers(1, shape[dim] - 1))) if shape[dim] > 1 else ())
    parts, arrays = [], []
    for start, end in itertools.pairwise([0, *cuts, shape[dim]]):
        sizes = tuple(end - start if d == dim else n for d, n in enumerate(shape))
        part, array = draw(joined_of(graph, sizes, draw(st.integers(0, depth - 1))))
        parts.append(part)
        arrays.append(array)
    return concat(parts, dim), np.concatenate(arrays, dim)


def factorised(n: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Return shapes of n elements, of up to three dimensions."""
    divisors = [d for d in range(1, n + 1) if n % d == 0]
    results = [(a, b, n // a // b) for a in divisors for b in divisors if n // a % b == 0]
    return st.sampled_from([*results, *((a, n // a) for a in divisors), (n,)])


@given(st.data())
def test_any_chain_of_views_is_numpys(data: st.DataObject) -> None:
    graph = new()
    view, array = data.draw(joined(graph))
    for _ in range(data.draw(st.integers(1, 5))):
        kind = data.draw(
            st.sampled_from(["slice", "shuffle", "reverse", "broadcast", "reshape", "flatten"])
        )
        if kind == "slice":
            dim = data.draw(st.integers(0, array.ndim - 1))
            start = data.draw(st.integers(0, array.shape[dim] - 1))
            stop = data.draw(st.integers(start + 1, array.shape[dim]))
            try:
                view = view.slice(dim, start, stop)
            except BadGraph as error:
                assert "copy it first" in str(error)  # noqa: PT017 - numpy has no such limit
                continue
            array = np.take(array, range(start, stop), axis=dim)
        elif kind == "shuffle":
            order = data.draw(st.permutations(range(array.ndim)))
            view, array = view.dim_shuffle(*order), array.transpose(order)
        elif kind == "reverse":
            dim = data.draw(st.integers(0, array.ndim - 1))
            view, array = view.reverse(dim), np.flip(array, dim)
        elif kind == "broadcast" and array.size < 500:
            wide = tuple(2 if size == 1 else size for size in array.shape)
            expected = (*((2,) if data.draw(st.booleans()) else ()), *wide)
            view, array = view.broadcast_to(expected), np.broadcast_to(array, expected)
        elif kind == "reshape":
            expected = data.draw(factorised(array.size))
            if not view.can_reshape(*expected):
                continue
            view, array = view.reshape(*expected), array.reshape(expected)
        elif view.can_reshape(-1):
            view, array = view.flatten(), array.reshape(-1)
        assert view.shape == array.shape
        assert view.n_elements == array.size
        assert elements(view).tolist() == array.tolist()


@given(st.data())
def test_a_section_of_any_layout_is_numpys(data: st.DataObject) -> None:
    """A dimension of blocks may be cut within a block, which no single tensor has as a slice."""
    graph = new()
    view, array = data.draw(joined(graph))
    shape = data.draw(factorised(array.size))
    if view.can_reshape(*shape):
        view, array = view.reshape(*shape), array.reshape(shape)
    dim = data.draw(st.integers(0, array.ndim - 1))
    start = data.draw(st.integers(0, array.shape[dim] - 1))
    stop = data.draw(st.integers(start + 1, array.shape[dim]))
    part = section(view, dim, start, stop)
    expected = np.take(array, range(start, stop), axis=dim)
    assert part.shape == expected.shape
    assert elements(part).tolist() == expected.tolist()


def test_a_section_is_in_few_parts() -> None:
    """It has at most two parts for every level of blocks, and one more."""
    blocked = variable(new(), (4, 3, 5)).dim_shuffle(1, 0, 2).reshape(60)
    part = section(blocked, 0, 3, 57)
    assert isinstance(part, Joined)
    assert [piece.n_elements for piece in part.pieces] == [2, 15, 20, 15, 2]
    assert isinstance(section(blocked, 0, 20, 40), Tensor)
    with pytest.raises(BadGraph, match="out of range"):
        section(blocked, 0, 50, 61)


@given(st.data())
def test_parts_in_row_major_order_can_have_any_shape(data: st.DataObject) -> None:
    """Any reshape works if no part is permuted, for any cut of the rows."""
    graph = new()
    sizes = data.draw(st.lists(st.integers(1, 7), min_size=2, max_size=4))
    parts = [variable(graph, (2, size)) for size in sizes]
    view, array = concat(parts, 1), np.concatenate([numbered(part) for part in parts], 1)
    expected = data.draw(factorised(array.size))
    assert elements(view.reshape(*expected)).tolist() == array.reshape(expected).tolist()


@given(st.data())
def test_the_mapping_locates_every_element(data: st.DataObject) -> None:
    graph = new()
    view, array = data.draw(joined(graph))
    for variable in graph.variables:
        cuts = [c for c in (2, 3, 5) if c < variable.n_elements and data.draw(st.booleans())]
        tiles = [data.draw(st.integers(0, 3)) for _ in range(len(cuts) + 1)]
        graph.set_tile_mapping(
            Tensor(variable, 0, (((variable.n_elements, 1),),)), [0, *cuts], tiles
        )
    expected = [
        int(graph.variables[number // PER_VARIABLE].tile_of(np.array([number % PER_VARIABLE]))[0])
        for number in array.reshape(-1).tolist()
    ]
    mapping = graph.tile_mapping(view)
    actual = np.full(view.n_elements, -1)
    for tile in range(4):
        intervals = mapping.intervals(tile)
        assert all(first[1] < second[0] for first, second in itertools.pairwise(intervals)), (
            "joined"
        )
        for start, end in intervals:
            assert (actual[start:end] == -1).all()
            actual[start:end] = tile
    assert actual.tolist() == expected


@given(st.data())
def test_views_are_split_alike_at_variable_boundaries(data: st.DataObject) -> None:
    graph = new()
    shape = (data.draw(st.integers(1, 4)), data.draw(st.integers(2, 4)))
    drawn = [data.draw(cut_of(graph, shape)) for _ in range(3)]
    parts = aligned([view for view, _ in drawn])
    visited: list[tuple[int, ...]] = []
    for part in parts:
        assert all(isinstance(item, Tensor) for item in part)
        assert len({item.shape for item in part}) == 1
        visited += zip(*(elements(item).reshape(-1).tolist() for item in part), strict=True)
    expected = zip(*(array.reshape(-1).tolist() for _, array in drawn), strict=True)
    assert sorted(visited) == sorted(expected)


@st.composite
def cut_of(draw: st.DrawFn, graph: Graph, shape: tuple[int, ...]) -> tuple[View, np.ndarray]:
    """Return a view of a shape that joins two tensors, and its elements."""
    dim = draw(st.sampled_from([d for d, n in enumerate(shape) if n > 1]))
    first = draw(st.integers(1, shape[dim] - 1))
    sizes = [
        tuple(n if d == dim else s for d, s in enumerate(shape))
        for n in (first, shape[dim] - first)
    ]
    parts = [variable(graph, size) for size in sizes]
    return concat(parts, dim), np.concatenate([numbered(part) for part in parts], dim)


def test_neighbours_are_one_tensor_again() -> None:
    graph = new()
    x, y = variable(graph, (6, 4)), variable(graph, (6, 4))
    assert concat([x]) is x
    assert concat([x.slice(0, 0, 2), x.slice(0, 2, 5), x.slice(0, 5, 6)]) == x
    rows = [x.slice(0, i, i + 1) for i in range(6)]
    assert elements(concat(rows)).tolist() == numbered(x).tolist()
    assert isinstance(concat(rows), Tensor)
    assert concat(rows[::-1]) == x.reverse(0)
    assert isinstance(concat([x.slice(0, 0, 2), x.slice(0, 3, 5)]), Joined)
    both = concat([x, y], 1)
    assert both.slice(1, 0, 4) == x
    assert both.slice(1, 4, 8) == y
    assert concat([concat([x, y], 1), x], 1) == concat([x, y, x], 1)
    twice = concat([x.slice(0, 1, 2), x.slice(0, 1, 2)])
    assert elements(twice).tolist() == [[4, 5, 6, 7]] * 2


def test_invalid_concatenations_and_views() -> None:
    graph = new()
    x = graph.add_variable("float32", (2, 3), "x")
    wide = graph.add_variable("float32", (2, 4), "y")
    tensor = graph.add_variable("int32", (2, 3), "z")
    for peer in (wide, tensor, x.flatten()):
        with pytest.raises(BadGraph, match=r"Cannot join .* to float32 \(2, 3\)"):
            concat([x, peer])
    with pytest.raises(BadGraph, match="no dimension 2"):
        concat([x], 2)
    with pytest.raises(BadGraph, match="No tensors to concatenate"):
        concat([])
    with pytest.raises(BadGraph, match="Expected a tensor to concatenate, got a ndarray"):
        concat([x, np.zeros((2, 3))])  # type: ignore[list-item]
    both = concat([x, wide], 1)
    assert (both.shape, both.dtype.name, both.name) == ((2, 7), "float32", "x and y")
    with pytest.raises(BadGraph, match=r"Slice 3:8 is out of range for dimension 1 of size 7"):
        both.slice(1, 3, 8)
    with pytest.raises(BadGraph, match="no dimension 2 to slice"):
        both.slice(2, 0, 1)
    with pytest.raises(BadGraph, match=r"\(2, 7\) does not broadcast to \(2, 8\)"):
        both.broadcast_to((2, 8))
    with pytest.raises(BadGraph, match=r"\(2, 7\) does not broadcast to \(7,\)"):
        both.broadcast_to((7,))
    with pytest.raises(BadGraph, match=r"Cannot reshape a tensor of shape \(2, 7\) to \(3, 5\)"):
        both.reshape(3, 5)
    with pytest.raises(BadGraph, match=r"Cannot reshape .* to \(-2, -7\)"):
        both.reshape(-2, -7)
    with pytest.raises(BadGraph, match="is not a permutation"):
        both.dim_shuffle(0, 0)
    with pytest.raises(BadGraph, match="Expected a view on one variable to map, got a tensor"):
        graph.map_linearly(both)  # type: ignore[arg-type]
    with pytest.raises(BadGraph, match="'x' has no tile mapping yet"):
        graph.tile_mapping(both)
    with pytest.raises(BadGraph, match="joins x and y: copy it to a new variable"):
        blocks(both, 0, [2], [1], 1)  # type: ignore[arg-type]
    tall = concat([graph.add_variable("float32", (70_000, 1), name) for name in "ab"], 1)
    with pytest.raises(BadGraph, match="would split into 140,000 fragments: copy it first"):
        tall.flatten()
    stranger = concat([x, new().add_variable("float32", (2, 3), "stranger")])
    with pytest.raises(BadGraph, match="'stranger' is a variable of another graph"):
        graph.tile_mapping(stranger)


def run(graph: Graph, *programs: Program) -> Engine:
    return Engine(compile_programs(graph, [Sequence("main", list(programs))]), NO_REPORT)


def test_streams_and_remote_buffers_reach_several_variables() -> None:
    graph = new()
    x, y, z = (variable(graph, (2, n), name) for n, name in ((3, "x"), (5, "y"), (8, "z")))
    both = concat([x.reverse(1), y], 1)
    buffer = graph.add_remote_buffer("store", "float32", 16, 3)
    lines: list[str] = []
    programs = [
        StreamCopyIn("in", both),
        RemoteCopyOut(both, buffer, 1),
        RemoteCopyIn(buffer, concat([z.slice(1, 4, 8), z.slice(1, 0, 4)], 1), 1),
        PrintTensor(concat([x, z], 1), "seen"),
        StreamCopyOut(concat([z, both]), "out"),
    ]
    values = np.arange(16, dtype=np.float32).reshape(2, 8)
    with run(graph, *programs) as device:
        device.print_line = lines.append
        device.connect_stream("in", values)
        device.run()
        assert device.read_tensor(x).tolist() == values[:, :3][:, ::-1].tolist()
        assert device.read_tensor(y).tolist() == values[:, 3:].tolist()
        moved = np.roll(values, 4, axis=1)
        assert device.output("out").tolist() == np.concatenate([moved, values]).tolist()
        assert lines[0].startswith("seen: [[ 2.  1.  0.  4.")
        device.write_tensor(both, values + 1)
        assert device.read_tensor(y).tolist() == (values[:, 3:] + 1).tolist()
        with pytest.raises(BadInput, match=r"takes an array of shape \(2, 8\), not \(8, 2\)"):
            device.write_tensor(both, values.T)
    steps = [step for step in device.executable.steps if step.kind == "StreamCopyMid"]
    ids = [tensor.variable.variable_id for tensor in (x, y, z)]
    assert [step.writes for step in steps] == [tuple(ids[:2]), (), (ids[2],), ()]
    assert steps[0].overwrites == tuple(ids[:2])
    assert steps[2].overwrites == (ids[2],), "both halves of it"
    assert steps[3].reads == tuple(ids)


def test_a_variable_is_overwritten_once_all_its_parts_are() -> None:
    graph = new()
    x, y = variable(graph, (8,), "x"), variable(graph, (4,), "y")
    executable = compile_programs(
        graph,
        [
            Sequence(
                "main",
                [StreamCopyIn("in", concat([x.slice(0, 0, 6), y])), WriteUndef(x.slice(0, 0, 4))],
            )
        ],
    )
    middle, undefined = (
        next(step for step in executable.steps if step.kind == kind)
        for kind in ("StreamCopyMid", "WriteUndef")
    )
    assert middle.overwrites == (y.variable.variable_id,)
    assert undefined.overwrites == ()


@pytest.mark.parametrize("kind", ["stream", "remote", "copy"])
def test_a_target_with_aliased_elements_is_refused(kind: str) -> None:
    graph = new()
    x, y = variable(graph, (8,), "x"), variable(graph, (10,), "y")
    buffer = graph.add_remote_buffer("store", "float32", 10)
    programs = {
        "stream": lambda to: StreamCopyIn("in", to),
        "remote": lambda to: RemoteCopyIn(buffer, to),
        "copy": lambda to: Copy(y, to),
    }
    for twice in (
        concat([x, x.slice(0, 3, 5)]),
        concat([x.slice(0, 0, 5), x.slice(0, 0, 5).reverse(0)]),
        x.slice(0, 0, 1).broadcast_to((10,)),
    ):
        with pytest.raises(BadGraph, match="aliases elements of 'x'"):
            compile_programs(graph, [programs[kind](twice)])
    evens_and_odds = [x.reshape(4, 2).slice(1, i, i + 1).reshape(4) for i in (0, 1)]
    woven = concat([*evens_and_odds, y.slice(0, 0, 2)])
    if kind != "copy":
        compile_programs(graph, [programs[kind](woven)])


def test_an_error_shows_a_joined_tensor() -> None:
    graph = new()
    x, y = variable(graph, (2,), "x"), variable(graph, (1,), "y")
    with run(graph, ErrorProgram("Stop", concat([x, y]))) as device:
        device.write_tensor(concat([y, x]), np.array([1.0, 2.0, 3.0]))
        with pytest.raises(Exception, match=r"Stop: \[2. 3. 1.\]"):
            device.run()


def test_one_stride_costs_one_compute_set() -> None:
    """A copy of joined tensors is one exchange and one compute set, not one per part."""
    graph = new()
    parts = [variable(graph, (2, 3), f"part{i}") for i in range(5)]
    target = variable(graph, (2, 15), "target")
    executable = compile_programs(graph, [Copy(concat(parts, 1), target)])
    assert sum(step.kind == "OnTileExecute" for step in executable.steps) == 1
    assert len(graph.variables) == 6
    assert math.prod(target.shape) == sum(part.n_elements for part in parts)
