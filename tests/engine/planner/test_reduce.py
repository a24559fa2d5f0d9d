"""Plans of reductions: no shape takes longer than in earlier versions, and predictions hold."""

from __future__ import annotations

from typing import Any

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
    ((64, 1000), [1], 1560, 1427),
    ((1024, 1024), [0], 102230, 102242),
    ((1024, 1024), [1], 4716, 2668),
    ((1024, 2944), [0], 9818, 9836),
    ((1024, 2944), [1], 12396, 6508),
    ((1_000_000,), [0], 11193, 7693),
    (IMAGES, [2, 3], 28418, 28436),
    (IMAGES, [0, 2, 3], 1243342, 1243348),
    ((1, 1000), [0], 186, 186),
    # Sums of halves had half partials: one output with 25 of them took 222 cycles in the last
    # stage, 6 * (17 + 12 + 25 // 4 + 2). With floats it would have taken 258, 25 // 2 = 12.
    ((1, 1000), [1], 1572, 1476 + 258 - 222),
    ((3, 5), [0], 1108, 1120),
    ((3, 5), [1], 617, 611),
    ((4096, 16), [0], 8164, 8080),
    ((4096, 16), [1], 680, 650),
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


@pytest.mark.parametrize(("shape", "dims", "before"), [((1, 1000), [1], 1476)])
def test_maxima_of_halves_keep_half_partials(
    shape: tuple[int, ...], dims: list[int], before: int
) -> None:
    assert cycles_of(planned(shape, dims, "float16", "maximum")[1]) <= before


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


def test_the_runner_up_takes_longer() -> None:
    for shape, dims, *_ in BEFORE[:4]:
        (plan,) = planned(shape, dims, "float32")[0].plans
        assert int(plan.runner_up["cycles"]) >= plan.predicted_cycles
        assert plan.runner_up["family"] in ("grid", "in place")


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
