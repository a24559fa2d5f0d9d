"""Further solvers by the heat equation's author: three dimensions, more IPUs, a heart model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import permutations

import numpy as np
from numpy.typing import NDArray
from tests.fidelity.read_off import total_cycles
from tests.fidelity.stencils import (
    ROW_TURN,
    VERTEX,
    Blocks,
    arrange,
    heat_step,
    in_one_piece,
)

from tilescope.engine.codelets.define import codelet
from tilescope.engine.codelets.popops.elementwise.copy import COPY_BLOCK
from tilescope.engine.graph import Graph, Tensor, blocks
from tilescope.engine.graph.vertex.codelet import Codelet, Field
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.machine import Machine, load_machine
from tilescope.engine.program import Execute, Sequence
from tilescope.engine.session.compile import compile_programs

__all__ = [
    "heart",
    "heart_codelet",
    "heat_in_three",
    "heat_in_three_codelet",
    "heat_on_several",
    "split_in_three",
    "split_in_two",
]

_STEPS = 1_000


def _edges(n_parts: int, size: int) -> NDArray[np.int64]:
    return np.arange(n_parts + 1) * size // n_parts


def heart_codelet() -> Codelet:
    """Return a step of the Aliev-Panfilov model, whose listing the author has published.

    A cell takes 38 instructions, of which a division takes 3 cycles; a row 33 around its cells;
    43 are before and after the rows.
    Source: simehaa/IPU, AlievPanfilovModel/codelets.S; of the division graphcore/poplibs
    sdk-release-3.4, lib/popops/popopsCycleEstimators.cpp.
    """

    def law(batch: Batch, _: Machine) -> NDArray[np.int64]:
        height, width = batch.size["out"].T
        return np.asarray(43 + height * (33 + width * (38 + 2)))

    @codelet(
        Field("e_in", "in", 2, kind="view"),
        Field("out", "out", 2, kind="view"),
        Field("r", "inout", 2, kind="view"),
        law=law,
        code_bytes=420,
        name="AlievPanfilov",
    )
    def step(e_in, out, r):  # type: ignore[no-untyped-def]
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                e = e_in[i + 1, j + 1]
                around = e_in[i, j + 1] + e_in[i + 2, j + 1] + e_in[i + 1, j] + e_in[i + 1, j + 2]
                excited = np.float32(8) * e * (e - np.float32(0.1)) * (e - np.float32(1))
                spread = np.float32(0.5) * (around - np.float32(4) * e)
                out[i, j] = e + np.float32(0.01) * (spread - excited - e * r[i, j])
                rate = -np.float32(0.01) - np.float32(0.07) * r[i, j] / (np.float32(0.3) + e)
                back = r[i, j] + np.float32(8) * e * (e - np.float32(1.1))
                r[i, j] += np.float32(0.01) * rate * back

    return step


def heart() -> Mapping[str, float]:
    """Return the seconds of 1,000 steps of the model over 7,000 x 7,000 cells."""
    edge = 7_000
    machine = load_machine("gc200")
    graph = Graph(machine)
    rows, columns = _edges(46, edge), _edges(32, edge)
    tiles = Blocks.of_grid(rows, columns)
    now, then, r = (graph.add_variable("float32", (edge, edge), name) for name in ("e", "f", "r"))
    for grid in (now, then, r):
        tiles.map(graph, grid)
    lines = (tiles.height + 2) * (tiles.width + 2)
    part, offset = in_one_piece(graph, "rows", now, tiles.tile, lines)
    before = arrange(graph, "before", now, part, offset, 1, tiles)
    n_contexts = machine.n_worker_contexts
    parts = tiles.by_rows(n_contexts)
    line = parts.width + 2
    begin = np.repeat(offset, n_contexts) + (parts.top - np.repeat(tiles.top, n_contexts)) * line
    position, n = parts.top * edge + parts.left, parts.tile.size
    local = ([parts.height, parts.width], [edge, 1], n)
    compute_set = graph.add_compute_set("heart")
    fields = {
        "e_in": blocks(part.variable, begin, [parts.height + 2, line], [line, 1], n),
        "out": blocks(then.variable, position, *local),
        "r": blocks(r.variable, position, *local),
    }
    graph.add_vertices(compute_set, heart_codelet(), parts.tile, fields)
    compiled = compile_programs(graph, [Sequence("step", [before, Execute(compute_set)])])
    return {"1,000 steps": _STEPS * total_cycles(compiled) / machine.clock_hz}


def heat_on_several() -> Mapping[str, float]:
    """Return the seconds of 1,000 steps of the heat equation on 2 and 4 IPUs."""
    seconds = {}
    for n_ipus, edge in ((2, 10_000), (4, 14_000)):
        machine = load_machine("gc200", n_ipus=n_ipus)
        built = heat_step(machine, edge, split_in_two(edge - 2, (edge - 2) // n_ipus))
        cycles = total_cycles(built)
        seconds[f"{edge:,} x {edge:,}, {n_ipus} IPUs"] = _STEPS * cycles / machine.clock_hz
    return seconds


def split_in_two(height: int, width: int) -> tuple[int, int]:
    """Return the author's rows and columns of 1,472 tiles: the last with the least halo."""
    n = 1_472
    results = [(i, n // i) for i in range(1, n + 1) if n % i == 0]
    return min(reversed(results), key=lambda split: height // split[0] + width // split[1])


def split_in_three(edge: int, n_tiles: int) -> tuple[int, int, int]:
    """Return the author's splits of a cube: the last with the least surface."""
    best, splits = math.inf, (1, 1, n_tiles)
    for i in (i for i in range(1, n_tiles + 1) if n_tiles % i == 0):
        for j in (j for j in range(1, n_tiles // i + 1) if n_tiles // i % j == 0):
            sides = [edge / part for part in (i, j, n_tiles // i // j)]
            for a, b, c in permutations(sides):
                if a * b + c * b + c * a <= best:
                    best, splits = a * b + c * b + c * a, (i, j, n_tiles // i // j)
    return splits


def heat_in_three_codelet() -> Codelet:
    """Return a step of the seven-point stencil over contiguous lines.

    For two cells: loads of three pairs of the line and one of all four neighbouring lines, two
    sums of neighbours, seven operations on pairs, and two stores. The first cell of a line, and the
    last of an even one, go alone before: seven loads, eight operations, a store. Both loops over
    lines load the pointers of five lines and of the output.
    Source: simehaa/IPU, HeatEquation3D/codelets.cpp, HeatEquationOptimized.
    """
    pair, alone, pointers = 7 + 2 + 7 + 2 + ROW_TURN, 7 + 8 + 1, 6

    def law(batch: Batch, _: Machine) -> NDArray[np.int64]:
        height, width, depth = batch.size["out"].T
        ends = alone * (2 - depth % 2)
        pairs = pair * ((depth + 1) // 2 - 1)
        line = ends + pairs + 2 * (pointers + ROW_TURN)
        return np.asarray(VERTEX + height * (width * line + 2 * ROW_TURN))

    @codelet(
        Field("grid", "in", 3, kind="view"),
        Field("out", "out", 3, kind="view"),
        law=law,
        code_bytes=480,
        name="HeatEquation3D",
    )
    def step(grid, out):  # type: ignore[no-untyped-def]
        for x in range(out.shape[0]):
            for y in range(out.shape[1]):
                for z in range(out.shape[2]):
                    around = grid[x, y + 1, z + 1] + grid[x + 2, y + 1, z + 1]
                    around += grid[x + 1, y, z + 1] + grid[x + 1, y + 2, z + 1]
                    around += grid[x + 1, y + 1, z] + grid[x + 1, y + 1, z + 2]
                    local = grid[x + 1, y + 1, z + 1]
                    out[x, y, z] = np.float32(0.4) * local + np.float32(0.1) * around

    return step


def _map_cube(graph: Graph, grid: Tensor, edges: list[NDArray[np.int64]]) -> None:
    """Map a cube to tiles by the edges of their blocks in each dimension."""
    height, width, _ = grid.shape
    part_of = [np.repeat(np.arange(e.size - 1), np.diff(e)) for e in edges[:2]]
    n_wide, n_deep = (e.size - 1 for e in edges[1:])
    column = (part_of[0][:, None] * n_wide + part_of[1][None, :]) * n_deep
    tile = column[:, :, None] + np.arange(n_deep)
    line = np.arange(height * width).reshape(height, width) * grid.shape[2]
    start = line[:, :, None] + edges[2][:-1]
    graph.set_tile_mapping(grid, start.reshape(-1), tile.reshape(-1))


def _shared_out(begin: NDArray[np.int64], size: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return first positions and lengths of `n` parts per range, shape (2, ranges, n)."""
    edges = np.arange(n + 1) * size[:, None] // n
    return np.array([begin[:, None] + edges[:, :-1], np.diff(edges, axis=1)])


def heat_in_three() -> Mapping[str, float]:
    """Return the seconds of 1,000 steps of the heat equation over 360 x 360 x 360 cells."""
    edge = 360
    machine = load_machine("gc200")
    graph = Graph(machine)
    splits = split_in_three(edge - 2, machine.n_tiles)
    inner = [_edges(n, edge - 2) + 1 for n in splits]
    full = [np.concatenate([[0], e[1:-1], [edge]]) for e in inner]
    now, then = (graph.add_variable("float32", (edge,) * 3, name) for name in ("now", "then"))
    for grid in (now, then):
        _map_cube(graph, grid, full)
    x, y, z = (i.reshape(-1) for i in np.indices(splits))
    first = [e[i] for e, i in zip(inner, (x, y, z), strict=True)]
    size = [np.diff(e)[i] for e, i in zip(inner, (x, y, z), strict=True)]
    tile = np.arange(x.size)
    padded = [length + 2 for length in size]
    part, offset = in_one_piece(graph, "lines", now, tile, padded[0] * padded[1] * padded[2])
    strides = [padded[1] * padded[2], padded[2], 1]
    corner = ((first[0] - 1) * edge + first[1] - 1) * edge + first[2] - 1
    gather = graph.add_compute_set("before")
    fields = {
        "x": blocks(now.variable, corner, padded, [edge * edge, edge, 1], x.size),
        "out": blocks(part.variable, offset, padded, strides, x.size),
    }
    graph.add_vertices(gather, COPY_BLOCK, tile, fields)
    # The vertices of a tile split its height in two and its width in three parts.
    (top, height), (left, width) = (
        _shared_out(f, s, n) for f, s, n in zip(first[:2], size[:2], (2, 3), strict=True)
    )
    top, height = (np.repeat(side, 3, axis=1).reshape(-1) for side in (top, height))
    left, width = (np.tile(side, (1, 2)).reshape(-1) for side in (left, width))
    of = np.repeat(tile, 6)
    below, beside = top - first[0][of], left - first[1][of]
    begin = offset[of] + below * strides[0][of] + beside * strides[1][of]
    inside = [height + 2, width + 2, padded[2][of]]
    position = (top * edge + left) * edge + first[2][of]
    compute_set = graph.add_compute_set("heat")
    regions = {
        "grid": blocks(part.variable, begin, inside, [strides[0][of], strides[1][of], 1], of.size),
        "out": blocks(
            then.variable, position, [height, width, size[2][of]], [edge * edge, edge, 1], of.size
        ),
    }
    graph.add_vertices(compute_set, heat_in_three_codelet(), of, regions)
    compiled = compile_programs(graph, [Sequence("step", [Execute(gather), Execute(compute_set)])])
    return {"1,000 steps": _STEPS * total_cycles(compiled) / machine.clock_hz}
