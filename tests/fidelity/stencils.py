"""Two published stencils as their authors wrote them: a Gaussian blur and the heat equation.

Their compiled code is not published, so the laws count the source: every load, store and arithmetic
operation takes one instruction, and every loop iteration two more, to count and to branch. This is
too high where the compiler pairs arithmetic with loads, and too low where it recomputes addresses
and reloads values that may have changed.
Source of the two per iteration: simehaa/IPU, AlievPanfilovModel/codelets.S, the listing of another
codelet of the same author; it ends its loop by an addition and a branch, and has 17 of 24
arithmetic operations beside loads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from tests.fidelity.read_off import compute_cycles, kind_cycles, total_cycles

from tilescope.engine.codelets.define import codelet
from tilescope.engine.codelets.popops.elementwise.copy import COPY_BLOCK
from tilescope.engine.compiler.executable.executable import Executable
from tilescope.engine.graph import Graph, Tensor, blocks
from tilescope.engine.graph.vertex.codelet import Codelet, Field, Scalar
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.machine import Machine, load_machine
from tilescope.engine.program import Execute, Sequence
from tilescope.engine.session.compile import compile_programs

__all__ = [
    "ROW_TURN",
    "VERTEX",
    "Blocks",
    "arrange",
    "blur",
    "blur_codelet",
    "blur_step",
    "heat",
    "heat_codelet",
    "heat_step",
    "in_one_piece",
]

#: Loop overhead in instructions per iteration: see above.
ROW_TURN = 2
#: Assumption: instructions to load a vertex's state and to exit.
VERTEX = 20


def blur_codelet(dtype: str) -> Codelet:
    """Return the blur of a contiguous block of pixels with its halo.

    Nine loads, eleven operations and a store: for the four halves of a pixel at once, for two of
    its four floats, unrolled twice, or for every float in a loop.
    Source: thorbenlouw/lbm-graphcore, GaussianBlurCodeletHalf4, GaussianBlurCodeletFloat2 and
    GaussianBlurCodelet<float>.

    Parameters
    ----------
    dtype
        ``half`` or ``pairs`` for the vectorised codelets, ``float`` for the scalar one.
    """
    stencil = 9 + 11 + 1
    pixel = {"half": stencil, "pairs": 2 * stencil, "float": 4 * (stencil + ROW_TURN)}[dtype]

    def law(batch: Batch, _: Machine) -> NDArray[np.int64]:
        row = batch.scalars["width"] * (pixel + ROW_TURN) + ROW_TURN
        return np.asarray(VERTEX + batch.scalars["height"] * row)

    @codelet(
        Field("image", "in"),
        Field("out", "out"),
        law=law,
        code_bytes=280,
        name=f"GaussianBlur<{dtype}>",
        scalars=(Scalar("height"), Scalar("width")),
    )
    def blur(image, out, height, width):  # type: ignore[no-untyped-def]
        line = 4 * (width + 2)
        for y in range(height):
            for x in range(width):
                for c in range(4):
                    offset = y * line + 4 * x + c
                    corners = image[offset] + image[offset + 8]
                    corners += image[offset + 2 * line] + image[offset + 2 * line + 8]
                    sides = image[offset + 4] + image[offset + line]
                    sides += image[offset + line + 8] + image[offset + 2 * line + 4]
                    total = corners + 2 * sides + 4 * image[offset + line + 4]
                    out[4 * (y * width + x) + c] = np.float32(0.0625) * total

    return blur


def heat_codelet() -> Codelet:
    """Return a step of the five-point stencil over contiguous rows.

    For two cells: loads of three pairs of the row and one of the row above and below, two sums of
    neighbours, five operations on pairs, and two stores. The first cell of a row, and the last of
    an even one, go alone before: five loads, six operations, a store. Both loops over rows load
    the three rows' and the output's pointers.
    Source: simehaa/IPU, HeatEquation2D/codelets.cpp, HeatEquationOptimized.
    """
    pair, alone, pointers = 5 + 2 + 5 + 2 + ROW_TURN, 5 + 6 + 1, 4

    def law(batch: Batch, _: Machine) -> NDArray[np.int64]:
        height, width = batch.size["out"].T
        ends = alone * (2 - width % 2)
        pairs = pair * ((width + 1) // 2 - 1)
        return np.asarray(VERTEX + height * (ends + pairs + 2 * (pointers + ROW_TURN)))

    @codelet(
        Field("grid", "in", 2, kind="view"),
        Field("out", "out", 2, kind="view"),
        law=law,
        code_bytes=400,
        name="HeatEquationOptimized",
    )
    def step(grid, out):  # type: ignore[no-untyped-def]
        for y in range(out.shape[0]):
            for x in range(out.shape[1]):
                around = grid[y, x + 1] + grid[y + 2, x + 1] + grid[y + 1, x] + grid[y + 1, x + 2]
                out[y, x] = np.float32(0.6) * grid[y + 1, x + 1] + np.float32(0.1) * around

    return step


@dataclass(frozen=True)
class Blocks:
    """Rectangles of a grid with their tiles.

    Parameters
    ----------
    tile, top, left, height, width : ndarray of int64, shape (n,)
        Tile, position and size of the rectangles.
    """

    tile: NDArray[np.int64]
    top: NDArray[np.int64]
    left: NDArray[np.int64]
    height: NDArray[np.int64]
    width: NDArray[np.int64]

    @classmethod
    def of_grid(cls, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Blocks:
        """Return the blocks between edges of rows and of columns, row by row of tiles."""
        tile = np.arange((rows.size - 1) * (columns.size - 1))
        i, j = np.divmod(tile, columns.size - 1)
        return cls(tile, rows[i], columns[j], np.diff(rows)[i], np.diff(columns)[j])

    def only(self, which: NDArray[np.generic]) -> Blocks:
        """Return some of the blocks, by a mask or by indices."""
        columns = (self.tile, self.top, self.left, self.height, self.width)
        return Blocks(*(column[which] for column in columns))

    def in_rows(self, n: int) -> Blocks:
        """Split every block into up to `n` parts by rows; the first ones take the remainder."""
        n_parts = np.minimum(self.height, n)
        full = self.only(np.repeat(np.arange(self.tile.size), n_parts))
        part = np.arange(full.tile.size) - np.repeat(np.cumsum(n_parts) - n_parts, n_parts)
        minimum, extra = np.divmod(full.height, np.repeat(n_parts, n_parts))
        top = full.top + part * minimum + np.minimum(part, extra)
        return Blocks(full.tile, top, full.left, minimum + (part < extra), full.width)

    def in_columns(self, n: int) -> Blocks:
        """Split every block into up to `n` parts by columns."""
        turned = Blocks(self.tile, self.left, self.top, self.width, self.height).in_rows(n)
        return Blocks(turned.tile, turned.left, turned.top, turned.width, turned.height)

    def by_rows(self, n: int) -> Blocks:
        """Split every block into `n` parts by rows, as evenly as possible."""
        part = np.tile(np.arange(n), self.tile.size)
        tile, top, left, height, width = (
            np.repeat(column, n)
            for column in (self.tile, self.top, self.left, self.height, self.width)
        )
        begin, end = part * height // n, (part + 1) * height // n
        return Blocks(tile, top + begin, left, end - begin, width)

    def by_columns(self, n: int) -> Blocks:
        """Split every block into `n` parts by columns, as evenly as possible."""
        turned = Blocks(self.tile, self.left, self.top, self.width, self.height).by_rows(n)
        return Blocks(turned.tile, turned.left, turned.top, turned.width, turned.height)

    def map(self, graph: Graph, grid: Tensor) -> None:
        """Map a grid of cells, or of pixels with channels, to the blocks' tiles."""
        n_rows, n_columns = grid.shape[:2]
        per_cell = grid.n_elements // (n_rows * n_columns)
        row = np.concatenate([t + np.arange(h) for t, h in zip(self.top, self.height, strict=True)])
        start = (row * n_columns + np.repeat(self.left, self.height)) * per_cell
        order = np.argsort(start)
        graph.set_tile_mapping(grid, start[order], np.repeat(self.tile, self.height)[order])


def _edges(n_parts: int, size: int) -> NDArray[np.int64]:
    return np.arange(n_parts + 1) * size // n_parts


def in_one_piece(
    graph: Graph, name: str, like: Tensor, tile: NDArray[np.int64], size: NDArray[np.int64]
) -> tuple[Tensor, NDArray[np.int64]]:
    """Return a variable with `size` elements per vertex on its tile, and their positions."""
    start = np.cumsum(size) - size
    tensor = graph.add_variable(like.dtype, (int(size.sum()),), name)
    graph.set_tile_mapping(tensor, start, tile)
    return tensor, start


def arrange(
    graph: Graph,
    name: str,
    grid: Tensor,
    piece: Tensor,
    at: NDArray[np.int64],
    halo: int,
    b: Blocks,
) -> Execute:
    """Copy blocks with their halos into contiguous buffers, or back without halos.

    Elements outside the grid stay zero.
    """
    n_rows, n_columns = grid.shape[:2]
    per_cell = grid.n_elements // (n_rows * n_columns)
    y0, x0 = np.maximum(b.top - halo, 0), np.maximum(b.left - halo, 0)
    y1 = np.minimum(b.top + b.height + halo, n_rows)
    x1 = np.minimum(b.left + b.width + halo, n_columns)
    line = (b.width + 2 * halo) * per_cell
    inside = (y0 - b.top + halo) * line + (x0 - b.left + halo) * per_cell
    sizes = [1, y1 - y0, (x1 - x0) * per_cell]
    n = b.tile.size
    there = blocks(
        grid.variable, (y0 * n_columns + x0) * per_cell, sizes, [0, n_columns * per_cell, 1], n
    )
    here = blocks(piece.variable, at + inside, sizes, [0, line, 1], n)
    compute_set = graph.add_compute_set(name)
    x, out = (there, here) if halo else (here, there)
    graph.add_vertices(compute_set, COPY_BLOCK, b.tile, {"x": x, "out": out})
    return Execute(compute_set)


def blur_step(
    dtype: str, machine: Machine, tiles: Blocks, parts: Blocks, size: tuple[int, int]
) -> Executable:
    """Compile a step of the blur.

    Parameters
    ----------
    dtype
        As for `blur_codelet`.
    machine
        Where.
    tiles, parts
        Blocks of the picture by tile, and their parts by vertex.
    size
        Height and width of the picture.
    """
    graph = Graph(machine)
    height, width = size
    now, then = (
        graph.add_variable("float16" if dtype == "half" else "float32", (height, width, 4), name)
        for name in ("now", "then")
    )
    for picture in (now, then):
        tiles.map(graph, picture)
    with_halo = 4 * (parts.height + 2) * (parts.width + 2)
    image, image_at = in_one_piece(graph, "image", now, parts.tile, with_halo)
    local = 4 * parts.height * parts.width
    blurred, blurred_at = in_one_piece(graph, "blurred", now, parts.tile, local)
    before = arrange(graph, "before", now, image, image_at, 1, parts)
    after = arrange(graph, "after", then, blurred, blurred_at, 0, parts)
    compute_set = graph.add_compute_set("blur")
    codelet = blur_codelet(dtype)
    scalars = {"height": parts.height, "width": parts.width}
    graph.add_vertices(
        compute_set,
        codelet,
        parts.tile,
        {
            "image": blocks(image.variable, image_at, [with_halo], [1], parts.tile.size),
            "out": blocks(blurred.variable, blurred_at, [local], [1], parts.tile.size),
        },
        scalars,
    )
    return compile_programs(graph, [Sequence("step", [before, Execute(compute_set), after])])


def _phases(dtype: str) -> Mapping[str, float]:
    """Return the cycles of a step of the blur by phase."""
    machine = load_machine("gc2")
    height, width = 1_122, 2_200
    # 24 x 49 tiles with six vertices side by side: columns divide more evenly than rows.
    tiles = Blocks.of_grid(_edges(24, height), _edges(49, width))
    parts = tiles.by_columns(machine.n_worker_contexts)
    built = blur_step(dtype, machine, tiles, parts, (height, width))
    return {
        f"{dtype}, compute": compute_cycles(built, "blur"),
        f"{dtype}, halo exchange": kind_cycles(built, "DoExchange"),
        f"{dtype}, arranged before": compute_cycles(built, "before"),
        f"{dtype}, arranged after": compute_cycles(built, "after"),
        f"{dtype}, sync": kind_cycles(built, "Sync"),
    }


def blur() -> Mapping[str, float]:
    """Return the cycles of a step of the blur of 2,200 x 1,122 pixels, in half and in float."""
    return {**_phases("half"), **_phases("float")}


def _of_several(rows: NDArray[np.int64], columns: NDArray[np.int64], n_ipus: int) -> Blocks:
    """Return blocks between edges; IPUs split the columns, and their tiles are row by row."""
    actual = Blocks.of_grid(rows, columns)
    across, tiles_per_ipu = (columns.size - 1) // n_ipus, actual.tile.size // n_ipus
    row, column = np.divmod(actual.tile, columns.size - 1)
    ipu, inside = np.divmod(column, across)
    tile = ipu * tiles_per_ipu + row * across + inside
    return replace(actual, tile=tile)


def heat_step(machine: Machine, edge: int, split: tuple[int, int]) -> Executable:
    """Compile a step of the heat equation over a square.

    Parameters
    ----------
    machine
        Where; its IPUs share the columns.
    edge
        Cells of a side, the border included.
    split
        Rows and columns of tiles per IPU.
    """
    graph = Graph(machine)
    n_ipus = machine.n_ipus
    rows = _edges(split[0], edge - 2) + 1
    of_ipus = _edges(n_ipus, edge - 2) + 1
    inside = [_edges(split[1], int(n)) for n in np.diff(of_ipus)]
    starts = [offset + part[:-1] for offset, part in zip(of_ipus[:-1], inside, strict=True)]
    columns = np.append(np.concatenate(starts), edge - 1)
    tiles = _of_several(rows, columns, n_ipus)
    now, then = (graph.add_variable("float32", (edge, edge), name) for name in ("now", "then"))
    for edges in (rows, columns):  # the border belongs to the tiles beside it
        edges[0], edges[-1] = 0, edge
    for grid in (now, then):
        _of_several(rows, columns, n_ipus).map(graph, grid)
    # The rows of a tile, with their halo, are copied once for all its vertices.
    lines = (tiles.height + 2) * (tiles.width + 2)
    region, offset = in_one_piece(graph, "rows", now, tiles.tile, lines)
    before = arrange(graph, "before", now, region, offset, 1, tiles)
    n_contexts = machine.n_worker_contexts
    parts = tiles.by_rows(n_contexts)
    line = parts.width + 2
    begin = np.repeat(offset, n_contexts) + (parts.top - np.repeat(tiles.top, n_contexts)) * line
    n = parts.tile.size
    compute_set = graph.add_compute_set("heat")
    graph.add_vertices(
        compute_set,
        heat_codelet(),
        parts.tile,
        {
            "grid": blocks(region.variable, begin, [parts.height + 2, line], [line, 1], n),
            "out": blocks(
                then.variable,
                parts.top * edge + parts.left,
                [parts.height, parts.width],
                [edge, 1],
                n,
            ),
        },
    )
    return compile_programs(graph, [Sequence("step", [before, Execute(compute_set)])])


def heat() -> Mapping[str, float]:
    """Return the seconds of 1,000 steps over 8,000 x 8,000 cells in 46 x 32 blocks."""
    machine = load_machine("gc200")
    cycles = total_cycles(heat_step(machine, 8_000, (46, 32)))
    return {"1,000 steps": 1_000 * cycles / machine.clock_hz}
