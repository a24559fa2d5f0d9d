"""How the result of a pass is divided over tiles: channels of a group, rows and columns.

Source: graphcore/poplibs sdk-release-3.4, lib/popnn/PoolPlan.cpp: the division with the fewest
estimated cycles of computing and exchange, or one of 16 channels (8 floats) if it takes less than a
third more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import DType, Graph, Tensor, TileSet, View
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popnn.pool_pass import PassCost
from tilescope.engine.library.popops.elementwise.operations import in_one, row_major_copy
from tilescope.engine.library.window import Window, clipped, group_size
from tilescope.engine.planner.exchange import exchange_cycles
from tilescope.engine.tiling.input_range import part_edges

__all__ = [
    "Partition",
    "PartitionedPass",
    "Reach",
    "WindowElements",
    "channels_side_by_side",
    "choose_partition",
    "in_groups",
    "lies_in_groups",
]

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


class Reach(Protocol):
    """What elements of a vertex's result read of its other operands, along a dimension."""

    def __call__(self, first: Counts, count: Counts, d: int, /) -> tuple[Counts, Counts, Counts]:
        """Return the start and the length of ranges, and the shift of their windows."""


@dataclass(frozen=True)
class WindowElements:
    """The elements of a pool's input that windows hold.

    Parameters
    ----------
    window
        Geometry.
    field
        Rows and columns of the input.
    """

    window: Window
    field: tuple[int, ...]

    def __call__(self, first: Counts, count: Counts, d: int, /) -> tuple[Counts, Counts, Counts]:
        """Return the elements that windows along a dimension hold: see `clipped`."""
        return clipped(first, count, d, self.field[d], self.window)


@dataclass(frozen=True)
class PartitionedPass:
    """A pass of a pool, forward or backward, whose result is divided in parts.

    Parameters
    ----------
    shape
        Of the result: images, channels, rows, columns.
    window
        Geometry.
    codelet
        Of the vertices.
    reach
        What parts of the result read.
    scalars
        Of the vertices, besides those of the window.
    """

    shape: tuple[int, ...]
    window: Window
    codelet: Codelet
    reach: Reach
    scalars: Mapping[str, int] = field(default_factory=dict)

    def is_by_element(self, name: str) -> bool:
        """Return whether a field of the vertices has an element per element of the result."""
        return name == "out" or self.codelet.field(name).size_of == "out"

    def vertex_scalars(self, n: int) -> dict[str, Counts]:
        """Return the scalars of n vertices, without their shifts."""
        window = self.window
        pairs = (
            ("kernel", window.kernel),
            ("stride", window.stride),
            ("dilation", window.dilation),
        )
        names = {"kernel": ("height", "width"), "stride": "yx", "dilation": "yx"}
        scalars = {f"{part}_{names[part][d]}": pair[d] for part, pair in pairs for d in (0, 1)}
        return {
            name: np.full(n, value, np.int64) for name, value in {**scalars, **self.scalars}.items()
        }

    def add_to(
        self, builder: Builder, partition: Partition, operands: Mapping[str, Tensor], name: str
    ) -> Tensor:
        """Add a compute set with a vertex per part; return the result, of the grouped shape.

        Parameters
        ----------
        builder
            Target of the program.
        partition
            Of the result.
        operands
            By field, of shape (images, groups, rows, columns, channels of a group); rows, columns
            and channels have one stride each.
        name
            Name of the compute set.
        """
        dtype = next(iter(operands.values())).dtype
        out = builder.graph.add_variable(dtype, partition.grouped_shape, "out", builder.debug)
        partition.map_tiles(builder.graph, out, builder.tiles)
        counts = (*partition.grouped_shape[:2], partition.n_rows, partition.n_columns)
        part = np.arange(partition.n_parts)
        image, block, row, column = np.unravel_index(part, counts)
        rows, columns = partition.edges(0), partition.edges(1)
        first = (rows[row], columns[column])
        size = (np.diff(rows)[row], np.diff(columns)[column])
        reached = [self.reach(first[d], size[d], d) for d in (0, 1)]
        starts = {True: first, False: (reached[0][0], reached[1][0])}
        extents = {True: size, False: (reached[0][1], reached[1][1])}
        fields = {}
        for field_name, tensor in {**operands, "out": out}.items():
            by_element = self.is_by_element(field_name)
            begin = _first_elements((image, block, *starts[by_element]), tensor)
            extent: list[Counts | int] = [*extents[by_element], partition.group]
            strides = [dim[0][1] for dim in tensor.dims[2:]]
            fields[field_name] = blocks(tensor.variable, begin, extent, strides, part.size)
        scalars = self.vertex_scalars(part.size)
        scalars |= {"shift_y": reached[0][2], "shift_x": reached[1][2]}
        tile = partition.tiles_of(part, builder.tiles)
        builder.vertices(builder.compute_set(name), self.codelet, tile, fields, scalars)
        return out


def in_groups(builder: Builder, x: View, group: int) -> Tensor:
    """Return a tensor as (images, groups, rows, columns, channels of a group).

    It is copied unless rows, columns and channels have one stride each.

    Raises
    ------
    BadGraph
        If its strides are incompatible with row-major order.
    """
    x = in_one(builder, x)
    if not lies_in_groups(x, group):
        x = row_major_copy(builder, x, "rearrange")
    return x.reshape(*_grouped(x, group)).dim_shuffle(0, 1, 3, 4, 2)


def lies_in_groups(x: Tensor, group: int) -> bool:
    """Return whether rows, columns and the channels of a group have one stride each."""
    shape = _grouped(x, group)
    return x.can_reshape(*shape) and all(len(d) <= 1 for d in x.reshape(*shape).dims[2:])


def _grouped(x: Tensor, group: int) -> tuple[int, ...]:
    return (x.shape[0], x.shape[1] // group, group, *x.shape[2:])


def channels_side_by_side(x: View) -> int:
    """Return how many channels of a tensor are apart by one stride."""
    return x.dims[1][-1][0] if isinstance(x, Tensor) and x.dims[1] else x.shape[1]


def _first_elements(corner: Sequence[Counts], x: Tensor) -> Counts:
    """Return the elements of a tensor's variable at corners: ndarray of int64."""
    element = np.full(corner[0].shape, x.offset, np.int64)
    for coordinate, dim in zip(corner, x.dims, strict=False):
        rest = coordinate
        for size, stride in reversed(dim):
            element += rest % size * stride
            rest = rest // size
    return element


def choose_partition(
    tiles: TileSet, pool_pass: PartitionedPass, dtype: DType, side_by_side: int
) -> tuple[PassCost, Partition]:
    """Return the partition of a pass with the fewest cycles, and what it is estimated to cost.

    Parameters
    ----------
    tiles
        That it is spread over.
    pool_pass
        The pass.
    dtype
        Type of the elements.
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
        groups = [group_size(pool_pass.shape[1], preferred)]
    best = {group: _fewest_cycles(tiles, pool_pass, dtype, group) for group in groups}
    cycles = {group: cost.cycles for group, (cost, _) in best.items()}
    chosen = min(groups, key=lambda group: cycles[group])
    if chosen < preferred and preferred in best and cycles[preferred] < 4 / 3 * cycles[chosen]:
        chosen = preferred
    return best[chosen]


def _fewest_cycles(
    tiles: TileSet, pool_pass: PartitionedPass, dtype: DType, group: int
) -> tuple[PassCost, Partition]:
    """Return the quickest partition with groups of a size, and what it is estimated to cost."""
    shape = pool_pass.shape
    n_blocks = shape[0] * shape[1] // group
    most_parts = max(tiles.ids.size // n_blocks, 1)
    splits = [
        (n_rows, n_columns)
        for n_rows in _distinct_splits(shape[2], most_parts)
        for n_columns in _distinct_splits(shape[3], most_parts // n_rows)
    ]
    cycles, n_bytes = _estimates(tiles, pool_pass, dtype, group, np.array(splits))
    at = int(np.argmin(cycles))
    blocks_of_tile = -(-n_blocks // tiles.ids.size)
    cost = PassCost(blocks_of_tile * int(cycles[at]), blocks_of_tile * int(n_bytes[at]))
    return cost, Partition(shape, group, *splits[at])


def _distinct_splits(size: int, most: int) -> Sequence[int]:
    """Return the numbers of parts, up to a limit, that differ in the size of the largest part."""
    parts = -(-size // np.arange(1, size + 1))
    counts = np.unique(-(-size // parts))
    return [int(n) for n in counts if n <= max(most, 1)]


def _estimates(
    tiles: TileSet, pool_pass: PartitionedPass, dtype: DType, group: int, splits: Counts
) -> tuple[Counts, Counts]:
    """Return cycles and bytes of the largest part of divisions: ndarrays of int64."""
    n, machine = len(splits), tiles.machine
    size, reached = [], []
    for d in (0, 1):
        length = -(-pool_pass.shape[2 + d] // splits[:, d])
        first = np.minimum(length * (splits[:, d] // 2), pool_pass.shape[2 + d] - length)
        size.append(length)
        reached.append(pool_pass.reach(first, length, d))
    channels = np.full(n, group)
    by_element = np.stack([*size, channels], axis=1)
    by_reach = np.stack([reached[0][1], reached[1][1], channels], axis=1)
    names = [f.name for f in pool_pass.codelet.fields]
    sizes = {name: by_element if pool_pass.is_by_element(name) else by_reach for name in names}
    batch = Batch(
        n,
        sizes,
        dict.fromkeys(sizes, np.ones((n, 3), np.int64)),
        dict.fromkeys(sizes, dtype.n_bytes),
        dict.fromkeys(sizes, dtype.name),
        pool_pass.vertex_scalars(n) | {"shift_y": reached[0][2], "shift_x": reached[1][2]},
        np.zeros(n, np.int64),
    )
    n_bytes, n_fragments = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for name in names:
        if name != "out":
            n_bytes += np.prod(sizes[name], axis=1) * dtype.n_bytes
            n_fragments += sizes[name][:, 0]
    n_parts = pool_pass.shape[0] * pool_pass.shape[1] // group * splits.prod(axis=1)
    used = np.minimum(n_parts, tiles.ids.size)
    exchange = exchange_cycles(n_bytes, np.zeros_like(n_bytes), used, machine, n_fragments)
    cycles = pool_pass.codelet.law(batch, machine) + exchange
    return np.asarray(cycles), n_bytes + np.prod(by_element, axis=1) * dtype.n_bytes
