"""The published exchange of halos on the IPU Model: blocks of a grid on the tiles of two IPUs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from tests.fidelity.read_off import compute_cycles, steps_of, total_cycles

from tilescope.engine.codelets.define import codelet
from tilescope.engine.graph import Graph, Regions, Tensor, blocks
from tilescope.engine.graph.vertex.codelet import Codelet, Field, Scalar
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.machine import Machine, load_machine
from tilescope.engine.program import Execute, Sequence
from tilescope.engine.session.compile import compile_programs

__all__ = ["implicit_halos", "zeroed_block"]

_SIDE = 100
_ITERATIONS = 10


def _stencil_codelet() -> Codelet:
    """Return a vertex of 100 cycles, as its author declares, that reads a block and its halo.

    Lines above and below include a corner: they start `shift` columns before the block's.
    """

    def law(batch: Batch, _: Machine) -> NDArray[np.int64]:
        return np.full(batch.n_vertices, 100, np.int64)

    sides = [Field(name, "in", 2, kind="view") for name in ("above", "below", "left", "right")]

    @codelet(
        *sides,
        Field("block", "in", 2, kind="view"),
        Field("out", "out", 2, kind="view"),
        law=law,
        code_bytes=100,
        name="IncludedHalosApproach",
        scalars=(Scalar("shift"),),
    )
    def step(above, below, left, right, block, out, shift):  # type: ignore[no-untyped-def]
        height, width = block.shape
        for y in range(height):
            for x in range(width):
                out[y, x] = block[y, x]
        for x in range(width):
            out[0, x] += above[0, shift + x]
            out[height - 1, x] += below[0, shift + x]
        for y in range(height):
            out[y, 0] += left[y, 0]
            out[y, width - 1] += right[y, 0]

    return step


def _add_step(graph: Graph, source: Tensor, target: Tensor) -> Execute:
    """Add one vertex per block; at the border of the grid a side is the block's own."""
    n_tiles = graph.machine.n_tiles
    n_rows, n_columns = source.shape
    row, column = np.divmod(np.arange(n_tiles), 2)
    top, left = row * _SIDE, column * _SIDE

    def at(y: NDArray[np.int64], x: NDArray[np.int64], height: int, width: int) -> Regions:
        return blocks(source.variable, y * n_columns + x, [height, width], [n_columns, 1], n_tiles)

    line = left - column  # the corner is on the side of the other block
    fields = {
        "above": at(np.maximum(top - 1, 0), line, 1, _SIDE + 1),
        "below": at(np.minimum(top + _SIDE, n_rows - 1), line, 1, _SIDE + 1),
        "left": at(top, np.maximum(left - 1, 0), _SIDE, 1),
        "right": at(top, np.minimum(left + _SIDE, n_columns - 1), _SIDE, 1),
        "block": at(top, left, _SIDE, _SIDE),
        "out": blocks(
            target.variable, top * n_columns + left, [_SIDE, _SIDE], [n_columns, 1], n_tiles
        ),
    }
    compute_set = graph.add_compute_set("implicitCompute")
    graph.add_vertices(
        compute_set, _stencil_codelet(), np.arange(n_tiles), fields, {"shift": column}
    )
    return Execute(compute_set)


def implicit_halos() -> Mapping[str, float]:
    """Return the cycles of ten iterations there and back over two columns of blocks."""
    machine = load_machine("gc2", n_ipus=2, parameter_set="ipu_model")
    graph = Graph(machine)
    shape = (machine.n_tiles // 2 * _SIDE, 2 * _SIDE)
    now, then = (graph.add_variable("float32", shape, name) for name in ("in", "out"))
    line = np.arange(shape[0])
    start = (line[:, None] * 2 + np.arange(2)) * _SIDE
    tile = (line[:, None] // _SIDE) * 2 + np.arange(2)
    for grid in (now, then):
        graph.set_tile_mapping(grid, start.reshape(-1), tile.reshape(-1))
    program = Sequence("stencil")
    program.add(_add_step(graph, now, then))
    program.add(_add_step(graph, then, now))
    compiled = compile_programs(graph, [program])
    exchanged = sum(int(s.cost.tile_cycles.sum()) for s in steps_of(compiled, "GlobalExchange"))
    return {
        "total": _ITERATIONS * total_cycles(compiled),
        "exchange, mean of the tiles": _ITERATIONS * exchanged / machine.n_tiles,
    }


def zeroed_block() -> Mapping[str, float]:
    """Return the cycles of a context that sets its share of a block with a halo to zero."""
    machine = load_machine("gc2", parameter_set="ipu_model")
    graph = Graph(machine)
    edge = _SIDE + 2
    grid = graph.add_variable("float32", (edge, 2 * edge), "grid")
    graph.set_tile_mapping(grid, np.arange(2 * edge) * edge, np.arange(2 * edge) % 2)
    program = Sequence("main")
    fill(Builder(graph, program), grid, 0)
    cycles = compute_cycles(compile_programs(graph, [program]))
    return {"a vertex of one worker": cycles / machine.n_worker_contexts}
