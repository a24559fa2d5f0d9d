"""Memory per tile: by region, category and liveness, and the variables of a tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.absence import absence
from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.target import Source, target, tile_range
from tilescope.analyser.time.figures import has_memory, missing_bytes, tile_rows
from tilescope.analyser.validation import require
from tilescope.reports import schema
from tilescope.reports.schema.vocabulary import MEMORY_CATEGORY, REGIONS

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "BREAKDOWNS",
    "Breakdown",
    "Category",
    "FullestTile",
    "MemoryRow",
    "MemoryTable",
    "TileMemory",
    "TileRanking",
    "categories",
    "category_bytes",
    "fullest_of",
    "fullest_tile",
    "largest_tiles",
    "memory_distribution",
    "memory_table",
    "region_memory",
    "tile_memory",
]

Breakdown: TypeAlias = Literal["none", "region", "category", "liveness"]
BREAKDOWNS: tuple[Breakdown, ...] = get_args(Breakdown)

_N_BINS = 24
_REGIONS = {region.label: region.array for region in REGIONS}


@dataclass(frozen=True)
class Category:
    """A kind of memory use; ``name`` is the field's exact name, ``label`` is for people."""

    name: str
    label: str
    is_overlapped: bool
    total_bytes: int
    max_tile_bytes: int


@dataclass(frozen=True)
class TileMemory:
    """Memory of every tile.

    Attributes
    ----------
    tile_id : ndarray of int64, shape (n_tiles,)
    series
        Label to ndarray of int64, shape (n_tiles,), bytes; several are meant to be stacked.
    total_bytes : ndarray of int64, shape (n_tiles,), bytes
        Memory of each tile, gaps as asked. Overlapped categories share addresses, so a stack by
        category may stand above it.
    capacity_bytes
        What programs may use of a tile's memory.
    n_tiles_over
        Tiles that do not fit, whatever is shown.
    tiles_per_ipu
        Tiles of an IPU; 0 where it is not known.
    """

    breakdown: Breakdown
    include_gaps: bool
    tile_id: NDArray[np.int64]
    series: dict[str, NDArray[np.int64]]
    total_bytes: NDArray[np.int64]
    capacity_bytes: int
    n_tiles_over: int = 0
    tiles_per_ipu: int = 0

    @property
    def fullest_tile(self) -> FullestTile:
        """The tile with most of what is shown."""
        return fullest_of(self.total_bytes)

    @property
    def n_tiles_used(self) -> int:
        """Tiles that hold anything of what is shown."""
        return int(np.count_nonzero(self.total_bytes))

    @property
    def stacked_bytes(self) -> NDArray[np.int64]:
        """Height of each tile's stack of series, int64 of shape (n_tiles,), bytes."""
        height = np.zeros(len(self.tile_id), dtype=np.int64)
        for values in self.series.values():
            height += values
        return height


@dataclass(frozen=True)
class MemoryRow:
    """A row of the memory table; ``depth`` nests it below the row before with a smaller one.

    ``key`` is stable and names the path, such as ``excluding_gaps/by_region/interleaved``.
    """

    key: str
    label: str
    depth: int
    bytes: tuple[int, ...]


@dataclass(frozen=True)
class MemoryTable:
    """Memory in nested rows; one column for all tiles, or one for each tile or IPU asked for."""

    columns: tuple[str, ...]
    rows: tuple[MemoryRow, ...]
    tiles: tuple[int, ...]
    capacity_bytes: int


@dataclass(frozen=True)
class FullestTile:
    """The tile that holds most: the lowest number of ``n_tiles`` that hold as much."""

    tile_id: int
    bytes: int
    n_tiles: int

    def __str__(self) -> str:
        """Return the tile, and of how many it is one."""
        tied = f", one of {self.n_tiles:,} tiles that hold as much" if self.n_tiles > 1 else ""
        return f"tile {self.tile_id:,}{tied}"


@dataclass(frozen=True)
class TileRanking:
    """The fullest tiles: those that do not fit first, then those that hold most.

    Sizes are int64 arrays of shape (n,), bytes.
    """

    tile_id: NDArray[np.int64]
    ipu_id: NDArray[np.int64]
    including_gaps_bytes: NDArray[np.int64]
    excluding_gaps_bytes: NDArray[np.int64]
    capacity_bytes: int


@cached
def categories(report: Report) -> tuple[Category, ...]:
    """Return the categories of a report in the order of the memory arrays."""
    rows = report.rows(schema.memory_category, *Category.__dataclass_fields__)
    for name, *_ in rows:
        require(report, name in MEMORY_CATEGORY, f"{name[:40]!r} is not a category of memory")
    return tuple(Category(*row) for row in rows)


def _rows(report: Report, name: str) -> NDArray[np.int64]:
    """Return a region's array as a whole, shape (n_categories, n_tiles), bytes."""
    n_tiles = target(report).n_tiles
    packed = report.array(name)
    values = np.zeros((len(categories(report)), n_tiles), dtype=np.int64)
    if packed.summary().maximum.any():  # mostly, nothing overflows
        values[: packed.shape[0]] = packed.read()
    values.flags.writeable = False
    return values


def region_memory(report: Report) -> dict[str, NDArray[np.int64]]:
    """Return memory by region, then category and tile.

    Keys are ``non_interleaved``, ``interleaved`` and ``overflowed``; values are int64 of shape
    (n_categories, n_tiles), bytes, with categories as ``categories`` gives them.
    """
    return {name.rpartition(".")[2]: _rows(report, name) for name in _REGIONS.values()}


@cached
def category_bytes(report: Report) -> NDArray[np.int64]:
    """Return bytes by category over all regions, shape (n_categories, n_tiles)."""
    total = np.zeros((len(categories(report)), target(report).n_tiles), dtype=np.int64)
    for name in _REGIONS.values():
        total += _rows(report, name)
    total.flags.writeable = False
    return total


def _require_memory(report: Report) -> None:
    """Refuse a report without memory, instead of answering 0 for all of it."""
    if not has_memory(report):
        raise BadQuestion(absence(report, "memory"))


def tile_memory(
    report: Report, breakdown: Breakdown = "none", include_gaps: bool = False
) -> TileMemory:
    """Return the memory of every tile, as one series or broken down.

    ``none`` gives ``Total``; ``region`` gives ``Non-interleaved``, ``Interleaved`` and
    ``Overflowed``; ``category`` a series per category that is used, by label; ``liveness`` gives
    ``Always live`` and ``Not always live`` (the tile's own worst step). With gaps, a series
    ``Gaps`` is added to all but ``liveness``.

    Raises
    ------
    BadQuestion
        When the breakdown is unknown, or the report holds no memory.
    """
    if breakdown not in BREAKDOWNS:
        raise BadQuestion(
            f"breakdown {breakdown!r} is not known; allowed are {', '.join(BREAKDOWNS)}"
        )
    _require_memory(report)
    machine, tile = target(report), tile_rows(report)
    total = tile["including_gaps" if include_gaps else "excluding_gaps"]
    gaps = tile["including_gaps"] - tile["excluding_gaps"]
    if breakdown == "none":
        series = {"Total": total}
    elif breakdown == "region":
        series = {label: _rows(report, name).sum(axis=0) for label, name in _REGIONS.items()}
    elif breakdown == "category":
        by_category = category_bytes(report)
        series = {
            category.label: by_category[row]
            for row, category in enumerate(categories(report))
            if category.total_bytes
        }
    else:
        series = {
            "Always live": tile["always_live"],
            "Not always live": tile["not_always_live_peak"],
        }
    if include_gaps and breakdown in {"region", "category"}:
        series["Gaps"] = gaps
    return TileMemory(
        breakdown,
        include_gaps,
        np.arange(machine.n_tiles, dtype=np.int64),
        series,
        total,
        machine.capacity_bytes,
        int(np.count_nonzero(missing_bytes(report))),
        machine.tiles_per_ipu,
    )


def memory_table(
    report: Report, tiles: Sequence[int] | None = None, ipus: Sequence[int] | None = None
) -> MemoryTable:
    """Return memory in PopVision's nested rows, for all tiles or for each of some tiles and IPUs.

    Raises
    ------
    BadQuestion
        When the machine has no such tile or IPU, or the report holds no memory.
    """
    _require_memory(report)
    machine = target(report)
    sources: list[Source] = [("ipu", ipu) for ipu in ipus or ()]
    sources += [("tile", tile) for tile in tiles or ()]
    ranges = [tile_range(report, source) for source in sources or ["all"]]
    rows: list[MemoryRow] = []

    def add(key: str, label: str, values: NDArray[np.int64]) -> None:
        picked = tuple(
            int(values[tiles_of_ipu.start : tiles_of_ipu.stop].sum()) for tiles_of_ipu in ranges
        )
        rows.append(MemoryRow(key, label, key.count("/"), picked))

    tile = tile_rows(report)
    regions = {label: _rows(report, name) for label, name in _REGIONS.items()}
    by_category = category_bytes(report)
    add("including_gaps", "Memory including gaps", tile["including_gaps"])
    add("excluding_gaps", "Memory excluding gaps", tile["excluding_gaps"])
    root = "excluding_gaps/by_region"
    add(root, "By memory region", tile["excluding_gaps"])
    for label, values in regions.items():
        add(f"{root}/{label.lower().replace('-', '_')}", label, values.sum(axis=0))
    root = "excluding_gaps/by_category"
    add(root, "By data type", by_category.sum(axis=0))
    known = categories(report)
    for is_overlapped, name, label in (
        (False, "not_overlapped", "Not overlapped"),
        (True, "overlapped", "Overlapped"),
    ):
        ids = [row for row, category in enumerate(known) if category.is_overlapped == is_overlapped]
        add(f"{root}/{name}", label, by_category[ids].sum(axis=0))
        for row in ids:
            if known[row].total_bytes:
                add(f"{root}/{name}/{known[row].name}", known[row].label, by_category[row])
    root = "excluding_gaps/by_liveness"
    add(root, "By liveness", tile["always_live"] + tile["not_always_live_peak"])
    add(f"{root}/always_live", "Always live", tile["always_live"])
    add(
        f"{root}/not_always_live",
        "Not always live, at each tile's worst step",
        tile["not_always_live_peak"],
    )
    columns = tuple(f"IPU {ipu_id}" for ipu_id in ipus or ())
    columns += tuple(f"Tile {tile_id}" for tile_id in tiles or ())
    columns = columns or ("All tiles",)
    return MemoryTable(columns, tuple(rows), tuple(tiles or ()), machine.capacity_bytes)


def fullest_tile(report: Report, ipu_id: int | None = None) -> FullestTile:
    """Return the tile that holds most at its worst moment, gaps excluded, of all or of one IPU.

    Raises
    ------
    BadQuestion
        When the report holds no memory, or the machine has no such IPU.
    """
    _require_memory(report)
    tiles = tile_range(report, "all" if ipu_id is None else ("ipu", ipu_id))
    return fullest_of(tile_rows(report)["excluding_gaps"][tiles.start : tiles.stop], tiles.start)


def fullest_of(held: NDArray[np.int64], first_tile: int = 0) -> FullestTile:
    """Return the tile with most of some bytes, int64 of shape (n_tiles,); see `FullestTile`."""
    largest = int(held.max(initial=0))
    if not len(held):
        return FullestTile(first_tile, 0, 0)
    return FullestTile(
        first_tile + int(np.argmax(held)), largest, int(np.count_nonzero(held == largest))
    )


def largest_tiles(report: Report, n: int = 5, ipus: Sequence[int] | None = None) -> TileRanking:
    """Return the ``n`` tiles that hold most, gaps excluded, as `fullest_tile` does.

    Equal ones come by number.

    Raises
    ------
    BadQuestion
        When the report holds no memory, or the machine has no such IPU.
    """
    _require_memory(report)
    machine, tile = target(report), tile_rows(report)
    chosen = np.zeros(machine.n_tiles, dtype=np.bool_)
    sources: list[Source] = [("ipu", ipu) for ipu in ipus or ()]
    for source in sources or ["all"]:
        tiles = tile_range(report, source)
        chosen[tiles.start : tiles.stop] = True
    order = np.argsort(-tile["excluding_gaps"], kind="stable")
    order = order[chosen[order]][: max(n, 0)]
    return TileRanking(
        order.astype(np.int64),
        order.astype(np.int64) // machine.tiles_per_ipu,
        tile["including_gaps"][order],
        tile["excluding_gaps"][order],
        machine.capacity_bytes,
    )


def memory_distribution(
    report: Report, ipu_id: int | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many tiles need how much, gaps excluded, over all IPUs or of one.

    Returns
    -------
    edges : ndarray of int64, shape (n_bins + 1,), bytes
        Bounds of bins of equal width, from 0 to what the fullest tile needs.
    n_tiles : ndarray of int64, shape (n_bins,)
        Tiles in every bin; one at a bound is in the bin above, in the last one at its end.

    Raises
    ------
    BadQuestion
        When the report holds no memory, or the machine has no such IPU.
    """
    tiles = tile_range(report, "all" if ipu_id is None else ("ipu", ipu_id))
    held = tile_memory(report, "none", include_gaps=False).total_bytes[tiles.start : tiles.stop]
    highest = max(int(held.max(initial=0)), 1)
    n_bins = min(_N_BINS, highest)
    edges = highest * np.arange(n_bins + 1, dtype=np.int64) // n_bins
    bin_ = np.clip(np.searchsorted(edges, held, side="right") - 1, 0, n_bins - 1)
    return edges, np.bincount(bin_, minlength=n_bins).astype(np.int64)
