"""Passes of a pool: over rows and columns at once, or over columns and then over rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import DType, Graph, TileSet, Variable
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.library.walk import TileRectangles, cut_rows
from tilescope.engine.library.window import Window, clipped, output_size
from tilescope.engine.options.catalogue import AVAILABLE_MEMORY_PROPORTION
from tilescope.engine.planner.exchange import exchange_cycles

__all__ = ["PassCost", "PoolParts", "PoolPass", "choose_passes", "forms", "predicted"]

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class PoolParts:
    """The vertices of a pass, one per piece of the result.

    Parameters
    ----------
    pieces
        Of the result, as `cut_rows` returns them.
    corner
        Four ndarrays of int64: the first image, group, row and column of the input of every piece.
    x_size, out_size
        Rows, columns and channels of the input and of the result: ndarrays of int64, or numbers.
    shifts
        Scalars of the vertices: where the first window begins, relative to the input.
    """

    pieces: TileRectangles
    corner: tuple[Counts, ...]
    x_size: list[Counts | int]
    out_size: list[Counts | int]
    shifts: Mapping[str, Counts]

    def first_of(self, strides: Sequence[int]) -> Counts:
        """Return the first element of the input of every piece: ndarray of int64."""
        return np.asarray(
            sum(
                coordinate * stride
                for coordinate, stride in zip(self.corner, strides, strict=False)
            )
        )


@dataclass(frozen=True)
class PoolPass:
    """A pool over a tensor of shape (images, groups, rows, columns, channels of a group).

    Parameters
    ----------
    shape
        Of the input.
    window
        Geometry; a pass over columns leaves rows as they are, and the other way round.
    codelet
        Of the vertices.
    name, compute_set
        Names of the result and of the compute set.
    """

    shape: tuple[int, ...]
    window: Window
    codelet: Codelet
    name: str = "out"
    compute_set: str = "pool"

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        n_images, n_groups, height, width, size = self.shape
        rows, columns = (output_size(n, d, self.window) for d, n in enumerate((height, width)))
        return (n_images, n_groups, rows, columns, size)

    @property
    def out_strides(self) -> list[int]:
        """Strides of rows, columns and channels of the result."""
        *_, columns, size = self.out_shape
        return [columns * size, size, 1]

    @property
    def scalars(self) -> dict[str, int]:
        """Scalars of all vertices, without those that depend on the piece or on the kind."""
        window = self.window
        return {
            "kernel_height": window.kernel[0],
            "kernel_width": window.kernel[1],
            "stride_y": window.stride[0],
            "stride_x": window.stride[1],
            "dilation_y": window.dilation[0],
            "dilation_x": window.dilation[1],
        }

    def parts(self, out: Variable) -> PoolParts:
        """Return the vertices that compute a mapped result."""
        _, n_groups, height, width, size = self.shape
        _, _, rows, columns, _ = self.out_shape
        row = columns * size
        rectangles = cut_rows(out, row, rows)
        n_columns = rectangles.n_columns // size
        first_column, position = rectangles.start % row // size, rectangles.start // row
        first_row, position = position % rows, position // rows
        y, n_y, shift_y = clipped(first_row, rectangles.n_rows, 0, height, self.window)
        x, n_x, shift_x = clipped(first_column, n_columns, 1, width, self.window)
        return PoolParts(
            rectangles,
            (position // n_groups, position % n_groups, y, x),
            [n_y, n_x, size],
            [rectangles.n_rows, n_columns, size],
            {"shift_y": shift_y, "shift_x": shift_x},
        )


@dataclass(frozen=True)
class PassCost:
    """Predicted cost of passes: cycles, and the most bytes that a tile takes for one."""

    cycles: int
    n_bytes: int


def choose_passes(
    tiles: TileSet, shape: tuple[int, ...], dtype: DType, window: Window, codelet: Codelet
) -> tuple[PoolPass, ...]:
    """Return the passes of a pool with the fewest predicted cycles among those that fit.

    Parameters
    ----------
    tiles
        That results are spread over.
    shape
        Images, groups, rows, columns, channels of a group.
    dtype
        Type of the elements.
    window
        Geometry.
    codelet
        Of the vertices.

    Notes
    -----
    They fit if a tile holds the input and the result of its vertices in the share of its memory
    that an operation may take by default. If none does, the passes with the least memory are
    taken. The prediction takes all inputs to come from other tiles.
    """
    candidates = forms(shape, window, codelet)
    if len(candidates) == 1:
        return candidates[0]
    most_bytes = AVAILABLE_MEMORY_PROPORTION * tiles.machine.allocatable_bytes
    costs = [predicted(tiles, form, dtype) for form in candidates]
    fitting = [i for i, cost in enumerate(costs) if cost.n_bytes <= most_bytes]
    if fitting:
        return candidates[min(fitting, key=lambda i: costs[i].cycles)]
    return candidates[min(range(len(costs)), key=lambda i: costs[i].n_bytes)]


def forms(shape: tuple[int, ...], window: Window, codelet: Codelet) -> list[tuple[PoolPass, ...]]:
    """Return the passes in which a pool may run: one, and two where both kernel sizes exceed 1."""
    single_pass = PoolPass(shape, window, codelet)
    if min(window.kernel) == 1:
        return [(single_pass,)]
    by_columns = PoolPass(shape, _along(window, 1), codelet, "columns", "poolColumns")
    by_rows = PoolPass(by_columns.out_shape, _along(window, 0), codelet, "out", "poolRows")
    return [(single_pass,), (by_columns, by_rows)]


def _along(window: Window, d: int) -> Window:
    """Return a window of one row (d = 1) or one column (d = 0)."""

    def only(pair: tuple[int, int], usual: int) -> tuple[int, int]:
        return (pair[0], usual) if d == 0 else (usual, pair[1])

    return replace(
        window,
        kernel=only(window.kernel, 1),
        stride=only(window.stride, 1),
        dilation=only(window.dilation, 1),
        padding_before=only(window.padding_before, 0),
        padding_after=only(window.padding_after, 0),
    )


def predicted(tiles: TileSet, form: Sequence[PoolPass], dtype: DType) -> PassCost:
    """Return the predicted cost of passes one after the other on a set of tiles."""
    costs = [_cost_of_pass(tiles, pool_pass, dtype) for pool_pass in form]
    return PassCost(sum(cost.cycles for cost in costs), max(cost.n_bytes for cost in costs))


def _cost_of_pass(tiles: TileSet, pool_pass: PoolPass, dtype: DType) -> PassCost:
    machine = tiles.machine
    graph = Graph(tiles.whole)
    out = graph.add_variable(dtype, pool_pass.out_shape, "out")
    graph.map_linearly(out, grain=pool_pass.shape[-1], tiles=tiles.ids)
    parts = pool_pass.parts(out.variable)
    n, tile = parts.pieces.n_pieces, parts.pieces.tile
    sizes = {"x": _table(parts.x_size, n), "out": _table(parts.out_size, n)}
    strides = np.broadcast_to(np.array(pool_pass.out_strides, np.int64), (n, 3))
    scalars = {
        name: np.full(n, value) for name, value in (pool_pass.scalars | {"divisor": 0}).items()
    }
    batch = Batch(
        n,
        sizes,
        dict.fromkeys(sizes, strides),
        dict.fromkeys(sizes, dtype.n_bytes),
        dict.fromkeys(sizes, dtype.name),
        scalars | dict(parts.shifts),
        np.zeros(n, np.int64),
    )
    cycles = np.bincount(tile, pool_pass.codelet.law(batch, machine)).max()
    received = np.bincount(tile, sizes["x"].prod(axis=1) * dtype.n_bytes)
    results = np.bincount(tile, sizes["out"].prod(axis=1) * dtype.n_bytes)
    rows = np.bincount(tile, sizes["x"][:, 0])
    exchange = exchange_cycles(
        received.max(keepdims=True).astype(np.int64),
        np.zeros(1, np.int64),
        np.array([np.count_nonzero(received)]),
        machine,
        rows.max(keepdims=True).astype(np.int64),
    )
    return PassCost(int(cycles + exchange[0]), int((received + results).max()))


def _table(sizes: Sequence[Counts | int], n: int) -> Counts:
    """Return sizes of n regions: ndarray of int64, shape (n, 3)."""
    return np.stack([np.broadcast_to(np.asarray(size, np.int64), n) for size in sizes], axis=1)
