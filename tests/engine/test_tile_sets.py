"""Operations are placed on the tiles of their builder, and on no others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tilescope.engine import Engine, Graph, Tensor, compile_programs, load_machine
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import TileSet
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.convolution import convolution, matmul
from tilescope.engine.library.poplin.transposed import transposed_convolution
from tilescope.engine.library.popnn.pool import pool
from tilescope.engine.library.popops.elementwise.operations import binary, cast, unary
from tilescope.engine.library.popops.elementwise.scaled_add import scaled_add
from tilescope.engine.library.popops.reduction.reduce import reduce
from tilescope.engine.library.popops.slicing.scalar_in_rows import select_scalar_from_rows
from tilescope.engine.library.window import Window
from tilescope.engine.options import resolve as resolve_options
from tilescope.engine.program import Sequence

MACHINE = load_machine("gc200", n_ipus=2, tiles_per_ipu=16)
#: Some tiles of both IPUs, and pairs of the second one.
SUBSETS = ([2, 3, 8, 9, 18, 19, 30, 31], [20, 21, 24, 25, 26, 27])
IMAGES = np.random.default_rng(1).integers(-2, 3, (2, 4, 6, 6)).astype(np.float32)
KERNEL = np.random.default_rng(2).integers(-2, 3, (8, 4, 1, 1)).astype(np.float32)
CONVOLVED = np.einsum("oi,nihw->nohw", KERNEL[:, :, 0, 0], IMAGES)


def _matmul(build: Builder, x: Tensor) -> Tensor:
    left = x.reshape(1, 8, 36)
    return matmul(build, left, np.ones((1, 36, 5), np.float32), split={"inputs": 4})


def _in_series(build: Builder, x: Tensor) -> Tensor:
    return convolution(build, x, KERNEL, Window((1, 1)), split={"serial outputs": 2})


def _scaled(build: Builder, x: Tensor) -> Tensor:
    total = unary(build, "absolute", x)
    scaled_add(build, total, x, 3.0)
    return total


LABELS = np.arange(48, dtype=np.int32) % 6


def _labels(build: Builder) -> Tensor:
    return build.constant(LABELS, "labels")


CASES: dict[str, tuple[Callable[[Builder, Tensor], Tensor], np.ndarray]] = {
    "unary": (lambda b, x: unary(b, "absolute", x), np.abs(IMAGES)),
    "binary": (
        lambda b, x: binary(b, "add", x, x.dim_shuffle(0, 1, 3, 2)),
        IMAGES + IMAGES.swapaxes(2, 3),
    ),
    "cast": (lambda b, x: cast(b, x, "int32"), IMAGES),
    "reduce": (lambda b, x: reduce(b, "sum", x, [0, 2, 3]), IMAGES.sum((0, 2, 3), keepdims=True)),
    "pool": (
        lambda b, x: pool(b, x, Window((2, 2), (2, 2))),
        IMAGES.reshape(2, 4, 3, 2, 3, 2).max((3, 5)),
    ),
    "elements by row": (
        lambda b, x: select_scalar_from_rows(b, x.reshape(48, 6), _labels(b)),
        IMAGES.reshape(48, 6)[np.arange(48), LABELS],
    ),
    "matmul": (_matmul, IMAGES.reshape(1, 8, 36) @ np.ones((1, 36, 5))),
    "convolution": (lambda b, x: convolution(b, x, KERNEL, Window((1, 1))), CONVOLVED),
    "serial convolution": (_in_series, CONVOLVED),
    "transposed convolution": (
        lambda b, x: transposed_convolution(
            b, x, KERNEL.swapaxes(0, 1), Window((1, 1), (2, 2)), (12, 12)
        ),
        np.kron(CONVOLVED, [[1, 0], [0, 0]]),
    ),
    "scaled add": (_scaled, np.abs(IMAGES) + 3 * IMAGES),
}


@pytest.mark.parametrize("tiles", SUBSETS, ids=["two IPUs", "one IPU"])
@pytest.mark.parametrize(("operation", "expected"), CASES.values(), ids=[*CASES])
def test_an_operation_on_some_tiles_has_no_vertex_elsewhere(
    operation: Callable[[Builder, Tensor], Tensor], expected: np.ndarray, tiles: list[int]
) -> None:
    graph, program = Graph(MACHINE), Sequence("main")
    builder = Builder(graph, program).on_tiles(tiles)
    x = graph.add_variable("float32", IMAGES.shape, "x")
    graph.map_linearly(x)  # all over the machine
    out = operation(builder, x)
    executable = compile_programs(graph, [program], plans=builder.plans, is_checked=True)
    used = {int(t) for c in graph.compute_sets for batch in c.batches for t in batch.tile}
    assert used
    assert used <= set(tiles)
    assert {int(t) for v in graph.variables if v is not x.variable for t in v.map_tile} <= set(
        tiles
    )
    assert all(plan.n_tiles <= len(tiles) for plan in builder.plans)
    with Engine(executable, resolve_options(environ={})) as engine:
        engine.write_tensor(x, IMAGES)
        engine.run()
        np.testing.assert_array_equal(engine.read_tensor(out), expected)


def test_a_plan_is_made_for_the_machine_that_the_tiles_make_up() -> None:
    tiles = TileSet.of(MACHINE, SUBSETS[0])
    assert (tiles.n_tiles, tiles.machine.n_ipus, tiles.machine.tiles_per_ipu) == (8, 2, 4)
    assert TileSet.of(MACHINE, SUBSETS[1]).machine.n_tiles == 6
    assert TileSet.of(MACHINE, range(32)).machine == MACHINE


def test_constants_begin_one_behind_the_other() -> None:
    tiles = TileSet.of(MACHINE, SUBSETS[0])
    assert [tiles.take(n) for n in (3, 4, 5, 1)] == [0, 3, 7, 4]


@pytest.mark.parametrize(
    ("tiles", "message"),
    [
        ([], "at least one"),
        ([3, 2], "must ascend"),
        ([3, 3], "must ascend"),
        ([31, 32], "tiles 31 to 32, but the machine has tiles 0 to 31"),
        ([-1, 2], "tiles -1 to 2"),
        ([0, 1, 16], "1 tiles on one IPU and 2 on another"),
    ],
)
def test_a_tile_set_is_checked(tiles: list[int], message: str) -> None:
    with pytest.raises(BadGraph, match=message):
        TileSet.of(MACHINE, tiles)
