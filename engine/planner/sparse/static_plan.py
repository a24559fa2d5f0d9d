"""Plans of static sparse products: bands of columns, their tiles, and parts of the dense columns.

The columns of the sparse matrix are split into bands with equally many blocks, and the blocks of a
band, row by row, over tiles. Every part of the columns of the dense operand has tiles of its own
with all blocks. A tile is brought the rows of the dense operand that its blocks need; the sums of
a row of blocks that is on several tiles are reduced.
Source: graphcore/poplibs sdk-release-3.4, lib/popsparse/StaticMatMulPartitioner.cpp, getPartition.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.reduction.reduce_law import (
    ReduceKind,
    ReduceSizes,
    reduce_work,
)
from tilescope.engine.codelets.popsparse.static_product import static_product_cycles
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Stage
from tilescope.engine.machine import Machine
from tilescope.engine.planner.exchange import exchange_cycles
from tilescope.engine.planner.plan import PlannedStage
from tilescope.engine.planner.sparse.pattern import BlockPattern

__all__ = ["StaticPlan", "StaticShape", "plan_static"]

Counts = NDArray[np.int64]

#: Most parts of the columns of the dense operand, and most bands. Source: getPartition.
_MOST_PARTS, _MOST_BANDS = 32, 128
#: Bytes of the place of a block.
_PLACE_BYTES = 2
#: Tiles that share a bus. Source: getPartition, exchangeRhsDenseRowsCycles and exchangeBias: the
#: exchange of dense rows is taken to last as long as that of all columns of the band in pairs.
_PAIR = 2


@dataclass(frozen=True)
class StaticShape:
    """A static sparse product: what its plan depends on.

    Parameters
    ----------
    pattern
        Of the sparse matrix.
    n
        Columns of the dense operand.
    dtype
        float16 or float32.
    """

    pattern: BlockPattern
    n: int
    dtype: str

    @property
    def item_bytes(self) -> int:
        """Bytes of an element."""
        return 2 if self.dtype == "float16" else 4


@dataclass(frozen=True)
class StaticPlan:
    """How a static sparse product is split over tiles.

    Parameters
    ----------
    shape
        What it is for.
    parts
        Parts of the columns of the dense operand, all of the same width.
    bands
        Bands of columns of the sparse matrix.
    tiles_per_part
        Tiles of a part.
    stages
        Exchange and compute cycles predicted of the products and of the reduction.
    temporary_bytes
        Most that a tile holds of operands and parts of sums, bytes, as predicted.
    bound
        Why no faster split was taken: a code of `tilescope.reports.schema.vocabulary.BOUNDS`.
    """

    shape: StaticShape
    parts: int
    bands: int
    tiles_per_part: int
    stages: tuple[PlannedStage, ...]
    temporary_bytes: int
    bound: str

    @property
    def width(self) -> int:
        """Columns of the dense operand of a part."""
        return self.shape.n // self.parts

    @cached_property
    def band_edges(self) -> Counts:
        """First column of blocks of every band, and the end: ndarray of int64, (bands + 1,)."""
        return _band_edges(_column_counts(self.shape.pattern), self.bands)

    @cached_property
    def band_of_block(self) -> Counts:
        """Band of every block of the pattern: ndarray of int64, shape (n_blocks,)."""
        return np.searchsorted(self.band_edges, self.shape.pattern.columns, side="right") - 1

    @cached_property
    def order(self) -> Counts:
        """The blocks of the pattern band by band, row by row: ndarray of int64, (n_blocks,)."""
        return np.argsort(self.band_of_block, kind="stable")

    @cached_property
    def tile_of_block(self) -> Counts:
        """Tile, within a part, of every block in that order: ndarray of int64, (n_blocks,)."""
        in_band = np.bincount(self.band_of_block, minlength=self.band_edges.size - 1)
        tiles = _tiles_of_bands(in_band, self.tiles_per_part)
        share = -(-in_band // tiles)
        band = self.band_of_block[self.order]
        place = np.arange(band.size) - np.concatenate([[0], np.cumsum(in_band)])[band]
        return np.asarray(np.concatenate([[0], np.cumsum(tiles)])[band] + place // share[band])


def _column_counts(pattern: BlockPattern) -> Counts:
    return np.bincount(pattern.columns, minlength=pattern.n_columns // pattern.block_size)


def _band_edges(column_counts: Counts, bands: int) -> Counts:
    """Return edges between bands of about equally many blocks, none without any."""
    ends = np.cumsum(column_counts)
    wanted = ends[-1] * np.arange(1, bands) / bands
    inner = np.searchsorted(ends, wanted, side="left") + 1
    edges = np.unique(np.concatenate([[0], inner, [column_counts.size]]))
    filled = np.diff(np.concatenate([[0], ends])[edges]) > 0
    filled[-1] = True
    return np.concatenate([[0], edges[1:][filled]]).astype(np.int64)


def _tiles_of_bands(blocks: Counts, n_tiles: int) -> Counts:
    """Return the tiles of every band by its blocks, one at least."""
    share = np.maximum(blocks * n_tiles // max(int(blocks.sum()), 1), 1)
    rest = n_tiles - int(share.sum())
    if rest > 0:
        fullest = np.argsort(-(blocks / share), kind="stable")[:rest]
        share[fullest] += 1
    while share.sum() > n_tiles:
        share[np.argmax(share)] -= 1
    return np.minimum(share, np.maximum(blocks, 1))


def _few(most: int) -> list[int]:
    """Return counts to consider: all up to 16, then ones that grow by an eighth."""
    counts = [1]
    while counts[-1] < most:
        counts.append(max(counts[-1] + 1, counts[-1] * 9 // 8))
    return sorted({min(count, most) for count in counts})


@lru_cache(maxsize=256)
def plan_static(
    name: str, shape: StaticShape, n_tiles: int, machine: Machine, share: float
) -> StaticPlan:
    """Return the split with the fewest predicted cycles whose temporary data fit a share of a tile.

    Parameters
    ----------
    name
        Of the product, for messages.
    shape
        The product.
    n_tiles
        Tiles that it may use.
    machine
        Source of the rates.
    share
        Largest share of a tile's memory for temporary data, 0 to 1.

    Raises
    ------
    BadGraph
        If no split fits.

    Notes
    -----
    As there, blocks are assumed to lie independently of each other: the rows and columns of blocks
    on a tile are their expected number and one standard deviation.
    """
    pattern = shape.pattern
    counts = _column_counts(pattern)
    most_parts = min(_MOST_PARTS, n_tiles)
    part_counts = [p for p in range(1, most_parts + 1) if shape.n % p == 0]
    band_counts = _few(min(_MOST_BANDS, counts.size, max(pattern.n_blocks, 1)))
    limit = share * machine.allocatable_bytes
    plans = [
        _costed(shape, parts, bands, counts, n_tiles // parts, machine)
        for parts in part_counts
        for bands in band_counts
        if parts * bands <= n_tiles
    ]
    fitting = [plan for plan in plans if plan.temporary_bytes <= limit]
    if not fitting:
        least = min(plan.temporary_bytes for plan in plans)
        raise BadGraph(
            f"{name}: the sparse product of ({pattern.n_rows}, {pattern.n_columns}) with"
            f" {pattern.n_values} values by {shape.n} columns takes {least} bytes of temporary"
            f" memory on a tile, and {int(limit)} are available: raise"
            " available_memory_proportion, use more tiles, or multiply fewer columns at a time"
        )
    best, fastest = (min(some, key=_predicted) for some in (fitting, plans))
    bound = "cycles" if _predicted(fastest) == _predicted(best) else "temporary_memory"
    return StaticPlan(
        shape, best.parts, best.bands, best.tiles_per_part, best.stages, best.temporary_bytes, bound
    )


def _predicted(plan: StaticPlan) -> int:
    return sum(stage.predicted_cycles for stage in plan.stages)


def _expected(probability: float, n: int) -> int:
    """Return the mean of a binomial distribution and one standard deviation, rounded up."""
    deviation = ceil(sqrt(max(probability * (1 - probability) * n, 0.0)))
    return min(n, ceil(probability * n) + deviation)


def _costed(
    shape: StaticShape,
    parts: int,
    bands: int,
    column_counts: Counts,
    n_tiles: int,
    machine: Machine,
) -> StaticPlan:
    """Return a split with its predicted cycles and memory."""
    pattern, item = shape.pattern, shape.item_bytes
    size, width = pattern.block_size, shape.n // parts
    n_rows = pattern.n_rows // size
    edges = _band_edges(column_counts, bands)
    in_band = np.add.reduceat(column_counts, edges[:-1])
    tiles = _tiles_of_bands(in_band, n_tiles)
    fullest = int(np.argmax(in_band / tiles))
    in_fullest, band_tiles = int(in_band[fullest]), int(tiles[fullest])
    band_columns = int(edges[fullest + 1] - edges[fullest])
    blocks = -(-in_fullest // band_tiles)
    density = min(in_fullest / (n_rows * band_columns), 1.0)
    all_rows = -(-n_rows // band_tiles)
    # A tile with a part of one row has only some columns of the band.
    reach = min(ceil(blocks / density), band_columns) if all_rows == 1 and blocks else band_columns
    rows = max(_expected(1 - (1 - density) ** reach, all_rows), 1)
    columns = max(_expected(1 - (1 - density) ** all_rows, reach), 1)
    dense_bytes = width * columns * size * item
    value_bytes = blocks * size * size * item
    place_bytes = (blocks + rows) * _PLACE_BYTES
    # Rows that few of many tiles need are sent to sets of tiles that are seldom free together.
    scatter = max(1.0, reach / columns / _PAIR)
    own = np.array([ceil(dense_bytes * scatter) + (value_bytes if parts > 1 else 0)])
    used = np.array([n_tiles * parts])
    into = int(exchange_cycles(own, 0 * own, used, machine)[0])
    of_product = static_product_cycles(
        np.array([rows]), np.array([blocks]), np.array([width]), size, item, machine
    )
    sums_bytes = rows * width * size * item
    terms = max(1, ceil(min(len(edges) - 1, n_rows) * (1 - (1 - density) ** reach)))
    terms = max(terms, ceil(n_tiles * blocks / max(blocks * n_rows / rows, 1)))
    outputs = -(-pattern.n_rows * width // n_tiles)
    received = np.array([terms * outputs * item])
    gathered = int(exchange_cycles(received, 0 * received, used, machine)[0])
    one = np.ones(1, np.int64)
    kind = ReduceKind("sum", shape.dtype, shape.dtype, item)
    per_tile = ReduceSizes(one, one * outputs, one * terms, one, one, one, one * outputs, one)
    reduced = machine.n_worker_contexts * int(reduce_work(kind, per_tile, machine).longest[0])
    stages = (
        PlannedStage(Stage.COMPUTE, 0, into, int(of_product[0])),
        PlannedStage(Stage.REDUCE, 0, gathered, reduced),
    )
    held = max(
        dense_bytes + value_bytes * (parts > 1) + sums_bytes + place_bytes,
        sums_bytes + int(received[0]),
    )
    return StaticPlan(shape, parts, len(edges) - 1, n_tiles, stages, held, "cycles")
