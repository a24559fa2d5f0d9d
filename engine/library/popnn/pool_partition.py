"""How the gradient of a pool is divided over tiles: channels of a group, rows and columns.

Source: graphcore/poplibs sdk-release-3.4, lib/popnn/PoolPlan.cpp: the division with the fewest
estimated cycles of computing and exchange, or one of 16 channels (8 floats) if it takes less than a
third more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import DType, Graph, Tensor, TileSet
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.library.window import Window, group_size, output_size
from tilescope.engine.tiling.input_range import part_edges

__all__ = ["Partition", "choose_partition", "scalars_of", "windows_at"]

Counts = NDArray[np.int64]

#: Channels of a group that are good for later operations, and the most vectors of a group.
#: Source: the same release, PoolPlan.hpp, getPreferredChannelGrouping, and PoolPlan.cpp, getPlan.
_PREFERRED_CHANNELS = {"float16": 16, "float32": 8}
_MOST_VECTORS = 8


@dataclass(frozen=True)
class Partition:
    """The parts of a tensor of shape (images, channels, rows, columns).

    Parameters
    ----------
    shape
        Of the tensor.
    group
        Channels of a group; a part has one group of one image.
    n_rows, n_columns
        Parts of the rows and of the columns.
    """

    shape: tuple[int, ...]
    group: int
    n_rows: int = 1
    n_columns: int = 1

    @property
    def grouped_shape(self) -> tuple[int, ...]:
        """Images, groups, rows, columns, channels of a group."""
        n_images, n_channels, height, width = self.shape
        return (n_images, n_channels // self.group, height, width, self.group)

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return prod(self.grouped_shape[:2]) * self.n_rows * self.n_columns

    def edges(self, d: int) -> Counts:
        """Return the starts of the parts of rows (d = 0) or columns, and the end."""
        return part_edges(self.shape[2 + d], (self.n_rows, self.n_columns)[d])

    def map_tiles(self, graph: Graph, out: Tensor, tiles: TileSet) -> None:
        """Map a variable of the grouped shape: a part to a tile, or several if there are more."""
        _, _, height, width, group = self.grouped_shape
        rows, columns = self.edges(0), self.edges(1)
        n_blocks = self.n_parts // (self.n_rows * self.n_columns)
        row_part = np.repeat(np.arange(self.n_rows), np.diff(rows))
        block = np.arange(n_blocks)[:, None, None]
        part = (block * self.n_rows + row_part[:, None]) * self.n_columns
        part = part + np.arange(self.n_columns)
        row = block * height + np.arange(height)[:, None]
        start = (row * width + columns[:-1]) * group
        tile = self.tiles_of(part.ravel(), tiles)
        is_first = np.append(True, tile[1:] != tile[:-1])
        graph.set_tile_mapping(out, start.ravel()[is_first], tile[is_first])

    def tiles_of(self, part: Counts, tiles: TileSet) -> NDArray[np.int32]:
        """Return the tiles of parts: ndarray of int32."""
        n = tiles.ids.size
        index = part if self.n_parts <= n else part * n // self.n_parts
        return np.asarray(tiles.ids[index], np.int32)


def windows_at(
    first: Counts, count: Counts, d: int, n_windows: int, window: Window
) -> tuple[Counts, Counts, Counts]:
    """Return the windows that reach a range of elements, and the position of the first element.

    Parameters
    ----------
    first, count : ndarray of int64, shape (n,)
        Elements along a dimension.
    d
        0 for rows, 1 for columns.
    n_windows
        Windows along the dimension.
    window
        Geometry.

    Returns
    -------
    start, length, shift : ndarray of int64, shape (n,)
        The first window, the number of windows, at least one, and the first element relative to the
        begin of that window.
    """
    stride, reach = window.stride[d], (window.kernel[d] - 1) * window.dilation[d]
    position = first + window.padding_before[d]
    start = np.clip(-((reach - position) // stride), 0, n_windows - 1)
    stop = np.clip((position + count - 1) // stride + 1, start + 1, n_windows)
    return start, stop - start, position - start * stride


def choose_partition(
    tiles: TileSet,
    shape: tuple[int, ...],
    dtype: DType,
    window: Window,
    codelet: Codelet,
    side_by_side: int,
) -> Partition:
    """Return the partition of the gradient of a pool's input.

    Parameters
    ----------
    tiles
        That it is spread over.
    shape
        Images, channels, rows, columns of the input.
    dtype
        Type of the elements.
    window
        Geometry.
    codelet
        Of the vertices.
    side_by_side
        Channels of the operands that vertices can read as a group.

    Notes
    -----
    Assumption: operands are not rearranged for larger groups, which the library weighs.
    """
    vector = tiles.machine.data_path_bytes // dtype.n_bytes
    preferred = _PREFERRED_CHANNELS[dtype.name]
    groups = [
        group
        for group in range(vector, vector * _MOST_VECTORS + 1, vector)
        if side_by_side % group == 0
    ]
    if not groups:
        groups = [group_size(shape[1], preferred)]
    best = {group: _fewest_cycles(tiles, shape, dtype, window, codelet, group) for group in groups}
    chosen = min(groups, key=lambda group: best[group][0])
    if chosen < preferred and preferred in best and best[preferred][0] < 4 / 3 * best[chosen][0]:
        chosen = preferred
    return best[chosen][1]


def _fewest_cycles(
    tiles: TileSet,
    shape: tuple[int, ...],
    dtype: DType,
    window: Window,
    codelet: Codelet,
    group: int,
) -> tuple[int, Partition]:
    """Return the quickest partition with groups of a size, and its estimated cycles."""
    n_blocks = shape[0] * shape[1] // group
    most_parts = max(tiles.ids.size // n_blocks, 1)
    splits = [
        (n_rows, n_columns)
        for n_rows in _distinct_splits(shape[2], most_parts)
        for n_columns in _distinct_splits(shape[3], most_parts // n_rows)
    ]
    cycles = _estimates(tiles, shape, dtype, window, codelet, group, np.array(splits))
    at = int(np.argmin(cycles))
    blocks_of_tile = -(-n_blocks // tiles.ids.size)
    return blocks_of_tile * int(cycles[at]), Partition(shape, group, *splits[at])


def _distinct_splits(size: int, most: int) -> Sequence[int]:
    """Return the numbers of parts, up to a limit, that differ in the size of the largest part."""
    parts = -(-size // np.arange(1, size + 1))
    counts = np.unique(-(-size // parts))
    return [int(n) for n in counts if n <= max(most, 1)]


def _estimates(
    tiles: TileSet,
    shape: tuple[int, ...],
    dtype: DType,
    window: Window,
    codelet: Codelet,
    group: int,
    splits: Counts,
) -> Counts:
    """Return the cycles of the largest part of divisions of the field: ndarray of int64."""
    n = len(splits)
    size, windows, shifts = [], [], []
    for d in (0, 1):
        length = -(-shape[2 + d] // splits[:, d])
        first = length * (splits[:, d] // 2)
        first = np.minimum(first, shape[2 + d] - length)
        n_windows = output_size(shape[2 + d], d, window)
        _, count, shift = windows_at(first, length, d, n_windows, window)
        size.append(length)
        windows.append(count)
        shifts.append(shift)
    channels = np.full(n, group)
    by_element, by_window = (np.stack([*of, channels], axis=1) for of in (size, windows))
    sizes = {f.name: by_element if f.name in ("x", "out") else by_window for f in codelet.fields}
    batch = Batch(
        n,
        sizes,
        dict.fromkeys(sizes, np.ones((n, 3), np.int64)),
        dict.fromkeys(sizes, dtype.n_bytes),
        dict.fromkeys(sizes, dtype.name),
        scalars_of(window, n) | {"shift_y": shifts[0], "shift_x": shifts[1]},
        np.zeros(n, np.int64),
    )
    n_bytes = sum(
        np.prod(sizes[field.name], axis=1) * dtype.n_bytes
        for field in codelet.fields
        if field.name != "out"
    )
    cycles = codelet.law(batch, tiles.machine)
    received = np.asarray(n_bytes / tiles.machine.exchange_bytes_per_cycle, np.int64)
    return np.asarray(cycles + received)


def scalars_of(window: Window, n: int) -> dict[str, Counts]:
    """Return the scalars of vertices that a window decides, without their shifts."""
    pairs = (("kernel", window.kernel), ("stride", window.stride), ("dilation", window.dilation))
    names = {"kernel": ("height", "width"), "stride": "yx", "dilation": "yx"}
    return {
        f"{part}_{names[part][d]}": np.full(n, pair[d], np.int64)
        for part, pair in pairs
        for d in (0, 1)
    }
