"""Plans of reductions: the stages of the library's thresholds, and predictions that hold."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from tests.engine.planner.busiest import planners_total

from tilescope.engine import Builder, Graph, compile_programs, load_machine
from tilescope.engine.graph import Stage, Tensor
from tilescope.engine.library.popops.reduction.reduce import reduce
from tilescope.engine.program import Sequence

IMAGES = (8, 8, 56, 56, 64)

#: Shape, reduced dimensions, and the cycles of a sum of floats and of halves, spread evenly over a
#: GC200, before reductions were planned.
BEFORE: list[tuple[tuple[int, ...], list[int], int, int]] = [
    ((64, 1000), [0], 7190, 7202),
    # Results lie in runs of 8, as the library's do: 1,560 and 1,427 cycles before.
    ((64, 1000), [1], 1674, 1608),
    ((1024, 1024), [0], 102230, 102242),
    ((1024, 1024), [1], 4716, 2668),
    ((1024, 2944), [0], 9818, 9836),
    ((1024, 2944), [1], 12396, 6508),
    ((1_000_000,), [0], 11193, 7693),
    (IMAGES, [2, 3], 28418, 28436),
    (IMAGES, [0, 2, 3], 1243342, 1243348),
    ((1, 1000), [0], 186, 186),
    # A vertex has 64 elements or more, so that 15 of 1,472 tiles work: 1,572 and 1,512 before.
    ((1, 1000), [1], 1700, 1598),
    ((3, 5), [0], 1108, 1120),
    # One tile has all results: 617 and 611 before.
    ((3, 5), [1], 642, 636),
    ((4096, 16), [0], 8164, 8080),
    # Some rows lie on two tiles, so that all results take a further stage: 680 and 650 before.
    ((4096, 16), [1], 902, 878),
]
CASES = [
    (shape, dims, dtype, before)
    for shape, dims, *both in BEFORE
    for dtype, before in zip(("float32", "float16"), both, strict=True)
]


def planned(
    shape: tuple[int, ...], dims: list[int], dtype: str, operation: str = "sum", grain: int = 1
) -> tuple[Builder, Any]:
    graph = Graph(load_machine("gc200"))
    builder = Builder(graph, Sequence("main"))
    x = graph.add_variable(dtype, shape, "x")
    graph.map_linearly(x, grain=grain)
    reduce(builder, operation, x, dims)
    return builder, compile_programs(graph, [builder.sequence], plans=builder.plans)


def cycles_of(executable: Any) -> int:
    return sum(int(step.cost.cycles.max()) for step in executable.steps)


@pytest.mark.parametrize(("shape", "dims", "dtype", "before"), CASES)
def test_no_shape_takes_longer_than_before(
    shape: tuple[int, ...], dims: list[int], dtype: str, before: int
) -> None:
    builder, executable = planned(shape, dims, dtype)
    (plan,) = builder.plans
    assert cycles_of(executable) <= before
    # On one IPU the exchange is known tile by tile.
    assert plan.predicted_cycles == planners_total(executable)


@pytest.mark.parametrize(("operation", "dtype"), [("maximum", "float16"), ("sum", "float32")])
def test_partial_results_of_halves(operation: str, dtype: str) -> None:
    """Maxima of halves are exact in half."""
    builder, _ = planned((1, 1000), [1], "float16", operation)
    partials = [v for v in builder.graph.variables if "reduceStage" in v.name]
    assert [v.dtype.name for v in partials] == [dtype]


def test_the_choices_at_hand_are_taken() -> None:
    """Rows on their tiles are reduced there; one long row goes over stages between tiles."""
    rows = planned((1024, 1024), [1], "float32", grain=1024)[0].plans[0]
    assert rows.family == "in place"
    assert [stage.exchange_cycles for stage in rows.stages] == [None, None]
    assert rows.split["workers"] == 6
    row = planned((1_000_000,), [0], "float32")[0].plans[0]
    kinds = [(stage.stage, stage.exchange_cycles is not None) for stage in row.stages]
    assert kinds == [
        (Stage.REDUCE_STAGE, False),  # six workers of every tile
        (Stage.REDUCE_STAGE, False),  # their second pass
        (Stage.REDUCE_STAGE, True),
        (Stage.REDUCE, True),
    ]


def test_parts_are_whole_vectors() -> None:
    builder, _ = planned((1024, 1024), [0], "float16")
    graph: Graph = builder.graph
    first = graph.compute_sets[0].batches[0].fields["x"]
    assert not (first.start % 4).any()


@pytest.mark.parametrize(
    ("shape", "dims", "operation", "n_tiles", "stages"),
    [
        # 32 rows of a tile give 8 outputs; 4 partial results of each go to tiles of 16 outputs.
        ((16, 4, 16, 32, 8), [1, 3], "maximum", 1024, [(4, 16)]),
        # The same with floats between tiles: 8 outputs a tile.
        ((16, 4, 16, 32, 8), [1, 3], "sum", 1024, [(4, 8)]),
        # 64 partial results on average are few: 128 outputs, 8 a tile.
        ((16, 256, 8, 4), [1, 3], "sum", 1024, [(64, 8)]),
    ],
)
def test_stages_are_those_of_the_library(
    shape: tuple[int, ...],
    dims: list[int],
    operation: str,
    n_tiles: int,
    stages: list[tuple[int, int]],
) -> None:
    """Of published programs (graphcore/poplibs sdk-release-2.0, tests)."""
    graph = Graph(load_machine("gc200", tiles_per_ipu=n_tiles, parameter_set="ipu_model"))
    builder = Builder(graph, Sequence("main"))
    x = graph.add_variable("float16", shape, "x")
    graph.map_linearly(x)
    reduce(builder, operation, x, dims)
    (plan,) = builder.plans
    assert plan.family == "in place"
    n = sum(name.startswith("partials") for name in plan.split)
    assert [(plan.split[f"partials {i}"], plan.split[f"columns {i}"]) for i in range(n)] == stages


def test_rows_that_cross_the_edge_of_a_tile_do_not_move_the_others() -> None:
    """Rows of 8 halves on tiles of 84 elements: all but the rows at the edges stay in place."""
    graph = Graph(load_machine("gc200", parameter_set="ipu_model"))
    builder = Builder(graph, Sequence("main"))
    x = graph.add_variable("float16", (4, 3136, 8), "x")
    graph.map_linearly(x, grain=4)
    reduce(builder, "sum", x, [1])
    (plan,) = builder.plans
    assert plan.family == "in place"
    executable = compile_programs(graph, [builder.sequence], plans=builder.plans)
    first = next(step for step in executable.steps if step.kind == "DoExchange")
    assert int(first.cost.received_bytes.dense().max()) <= 2 * 8


def _in_column_blocks(shape: tuple[int, ...], width: int, n_columns: int, dim: int) -> Any:
    """Plan a maximum of rows that lie on tiles in blocks of columns, as results of products do."""
    graph = Graph(load_machine("gc200"))
    builder = Builder(graph, Sequence("main"))
    x = graph.add_variable("float16", shape, "x")
    n_blocks = shape[-1] // width
    block = np.arange(prod(shape) // width)
    graph.set_tile_mapping(x, block * width, block % n_blocks)
    reduce(builder, "maximum", x.slice(len(shape) - 1, 0, n_columns), [dim])
    (plan,) = builder.plans
    return plan


def test_rows_of_several_tiles_are_not_moved_to_the_one_in_their_middle() -> None:
    """All rows of the one piece cross the edges of tiles, not its first and its last alone."""
    assert _in_column_blocks((64, 64), 16, 64, dim=0).family == "grid"


def test_many_rows_on_few_tiles_are_reduced_in_place() -> None:
    """8.5 million steps along rows change the tile in half a million places."""
    assert _in_column_blocks((16, 729, 736), 16, 729, dim=2).family == "in place"


def test_the_workers_of_a_tile_share_rows_where_that_pays() -> None:
    """Of 32 rows of 8 halves, a sum in float takes 64 cycles by the library's estimate: more than
    twice its overhead of 30, so all six workers take part. A maximum in half takes 32 for each of
    two workers.
    """
    workers = {}
    for operation in ("sum", "maximum"):
        graph = Graph(load_machine("gc200", tiles_per_ipu=1, parameter_set="ipu_model"))
        builder = Builder(graph, Sequence("main"))
        x = graph.add_variable("float16", (32, 8), "x")
        graph.map_linearly(x)
        reduce(builder, operation, x, [0])
        workers[operation] = builder.plans[0].split["workers"]
    assert workers == {"sum": 6, "maximum": 1}


def test_vertices_of_several_shapes_share_the_workers() -> None:
    """A tile with outputs of one and of two partial results deals both kinds to its workers."""
    executable = planned((4096, 16), [1], "float32")[1]
    last = [step for step in executable.steps if step.kind == "OnTileExecute"][-1]
    # A worker has an output or two: 6 x (17 + 2 x (12 + 1)), not 6 x 29 a vertex.
    assert int(last.cost.cycles.max()) <= 6 * 43


def test_temporary_data_fit_their_share() -> None:
    """All lies on one tile, whose neighbours are empty: the plan must not fill any other."""
    graph = Graph(load_machine("gc200", tiles_per_ipu=4))
    builder = Builder(graph, Sequence("main"))
    x: Tensor = graph.add_variable("float32", (300_000,), "x")
    graph.map_linearly(x)
    reduce(builder, "sum", x, [0])
    (plan,) = builder.plans
    assert plan.temporary_bytes <= 0.6 * graph.machine.allocatable_bytes
    compile_programs(graph, [builder.sequence], plans=builder.plans)
