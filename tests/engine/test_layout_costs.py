"""What elementwise work costs depends on where elements lie, not on how views name dimensions."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import pytest

from tilescope import engine
from tilescope.engine import Builder, Graph, Tensor, load_machine
from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.library.poplin.allocators import (
    create_matmul_input_lhs,
    create_matmul_input_rhs,
)
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.in_place import binary_in_place
from tilescope.engine.library.popops.elementwise.operations import binary, cast, copy_to, unary
from tilescope.engine.library.popops.elementwise.scaled_add import scaled_add
from tilescope.engine.library.popops.slicing.multi_slice import multi_slice
from tilescope.engine.library.popops.slicing.multi_update import _BaseRectangles, multi_update_add
from tilescope.engine.library.popops.slicing.sliceable import (
    create_indices_tensor,
    create_sliceable_tensor,
)
from tilescope.engine.program import Sequence

_N_TILES = 64
_SHAPES = ((1, 40, 64), (1, 64, 1_200))
_SIZE = (1, 40, 1_200)

#: Calls on a target and an operand of one layout.
CALLS: dict[str, Callable[[Builder, Tensor, Tensor], object]] = {
    "scaled_add": lambda build, a, b: scaled_add(build, a, b, 1.0),
    "binary": lambda build, a, b: binary(build, "add", a, b),
    "binary_in_place": lambda build, a, b: binary_in_place(build, "add", a, b),
    "copy": lambda build, a, b: copy_to(build, b, a, "copy"),
    "unary": lambda build, _, b: unary(build, "relu", b),
    "cast": lambda build, _, b: cast(build, b, "float32"),
    "fill": lambda build, a, _: fill(build, a, 0),
}


def _graph() -> Graph:
    return Graph(load_machine("gc200", tiles_per_ipu=_N_TILES))


def _product(graph: Graph) -> Tensor:
    """Return the result of a product in half, which lies in blocks of rows."""
    build = Builder(graph, Sequence("before"))
    left, right = _SHAPES
    x = create_matmul_input_lhs(build, left, right, dtype="float16", name="x")
    y = create_matmul_input_rhs(build, right, left, dtype="float16", name="y")
    out = matmul(build, x, y, name="out")
    assert isinstance(out, Tensor)
    assert max(map(len, out.dims)) > 1, "the result is blocked"
    return out


def _flat(graph: Graph) -> Tensor:
    out = graph.add_variable("float16", (prod(_SIZE),), "flat")
    graph.map_linearly(out, grain=8)
    return out


def _cycles(graph: Graph, call: Callable[[Builder], object]) -> int:
    """Return the compute cycles of a call."""
    program = Sequence("main")
    call(Builder(graph, program))
    executable = engine.compile_programs(graph, [program])
    steps = [step for step in executable.steps if step.kind == "OnTileExecute"]
    return sum(int(step.cost.cycles.max()) for step in steps)


@pytest.mark.parametrize("name", CALLS)
def test_operands_that_lie_alike_cost_what_flat_ones_do(name: str) -> None:
    graph = _graph()
    out = _product(graph)
    clone = graph.clone(out, "clone")
    blocked = _cycles(graph, lambda build: CALLS[name](build, clone, out))
    graph = _graph()
    flat, other = _flat(graph), _flat(graph)
    plain = _cycles(graph, lambda build: CALLS[name](build, flat, other))
    # A tile of the product holds up to a tenth more than one of the flat variable.
    assert blocked <= 1.5 * plain


@pytest.mark.parametrize("name", ["scaled_add", "binary", "copy"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)])
def test_a_permutation_of_the_dimensions_costs_nothing(name: str, order: tuple[int, ...]) -> None:
    def cycles(order: tuple[int, ...]) -> int:
        graph = _graph()
        out = _product(graph)
        clone = graph.clone(out, "clone")
        a, b = clone.dim_shuffle(*order), out.dim_shuffle(*order)
        return _cycles(graph, lambda build: CALLS[name](build, a, b))

    assert cycles(order) == cycles((0, 1, 2))


def test_a_clone_lies_as_its_view() -> None:
    """Element for element, on the tiles and in the order of the original."""
    graph = _graph()
    for view in (out := _product(graph), out.dim_shuffle(2, 1, 0), out.slice(1, 8, 24)):
        clone = graph.clone(view, "clone")
        assert tuple(clone.shape) == tuple(view.shape)
        places, own = _places(view), _places(clone)
        order = np.argsort(places.ravel(), kind="stable")
        assert (np.diff(own.ravel()[order]) == 1).all(), "the same order, without gaps"
        tiles, own_tiles = (_tiles(tensor) for tensor in (view, clone))
        assert (tiles == own_tiles).all()


def _places(tensor: Tensor) -> np.ndarray:
    """Return the element of the variable that every element of a view is, in logical order."""
    places = np.full(1, tensor.offset, np.int64)
    for dim in tensor.dims:
        for size, stride in dim:
            places = (places[:, None] + np.arange(size) * stride).ravel()
    return places


def _tiles(tensor: Tensor) -> np.ndarray:
    """Return the tile of every element in logical order."""
    return np.asarray(tensor.variable.tile_of(_places(tensor)))


@pytest.mark.parametrize(("shape", "n_lookups"), [((600, 40), 90), ((1_200, 80), 150)])
def test_an_update_of_an_allocated_table_is_no_dearer_than_of_any_other(
    shape: tuple[int, int], n_lookups: int
) -> None:
    def cost(*, is_allocated: bool) -> tuple[int, int]:
        graph, program = _graph(), Sequence("main")
        build = Builder(graph, program)
        if is_allocated:
            table = create_sliceable_tensor(build, "float16", shape)
        else:
            table = graph.add_variable("float16", shape, "table")
            graph.map_linearly(table, grain=shape[1])
        updates = graph.add_variable("float16", (n_lookups, shape[1]), "updates")
        graph.map_linearly(updates, grain=shape[1])
        multi_update_add(build, table, create_indices_tensor(build, (n_lookups,)), updates, 1.0)
        executable = engine.compile_programs(graph, [program])
        cycles = sum(int(step.cost.cycles.max()) for step in executable.steps)
        return cycles, sum(use.n_vertices for use in executable.vertex_uses)

    (cycles, n_vertices), (other, _) = cost(is_allocated=True), cost(is_allocated=False)
    assert cycles <= other
    assert n_vertices <= _N_TILES, "a tile has one vertex for all rows of its columns"


def test_a_slice_of_a_large_allocated_table_moves_no_rows() -> None:
    def executable(*, is_allocated: bool) -> Executable:
        graph, program = _graph(), Sequence("main")
        build = Builder(graph, program)
        if is_allocated:
            table = create_sliceable_tensor(build, "float16", (20_000, 128))
        else:
            table = graph.add_variable("float16", (20_000, 128), "table")
            graph.map_linearly(table, grain=128)
        multi_slice(build, table, create_indices_tensor(build, (100,)))
        return engine.compile_programs(graph, [program])

    allocated, other = (executable(is_allocated=kind) for kind in (True, False))
    cycles, others = (
        sum(int(step.cost.cycles.max()) for step in each.steps) for each in (allocated, other)
    )
    assert cycles <= others
    received = sum(
        int(step.cost.received_bytes.dense().sum())
        for step in allocated.steps
        if step.kind == "DoExchange"
    )
    assert received <= _N_TILES * 100 * 4, "offsets, and no part of the table"


@pytest.mark.parametrize("n_columns", [6, 8])
def test_rectangles_of_any_mapping_cover_every_element_once(n_columns: int) -> None:
    random = np.random.default_rng(n_columns)
    n_groups, n_rows = 3, 10
    for _ in range(20):
        graph = _graph()
        size = n_groups * n_rows * n_columns
        base = graph.add_variable("float32", (n_groups, n_rows, n_columns), "base")
        starts = np.unique(np.append(0, random.integers(0, size, random.integers(1, 30))))
        graph.set_tile_mapping(base, starts, random.integers(0, 4, starts.size))
        rectangles = _BaseRectangles.of(base)
        seen = np.zeros((n_groups, n_rows, n_columns), np.int64)
        tiles = np.zeros_like(seen)
        for k in range(rectangles.tile.size):
            groups = rectangles.group[k] + rectangles.spacing[k] * np.arange(rectangles.n_groups[k])
            rows = slice(rectangles.row[k], rectangles.row[k] + rectangles.n_rows[k])
            columns = slice(rectangles.column[k], rectangles.column[k] + rectangles.n_columns[k])
            for group in groups:
                seen[group, rows, columns] += 1
                tiles[group, rows, columns] = rectangles.tile[k]
        assert (seen == 1).all()
        assert (tiles.ravel() == base.variable.tile_of(np.arange(size))).all()
