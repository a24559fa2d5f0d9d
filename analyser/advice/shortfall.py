"""A program that does not fit: the least number of tiles it needs, and what would have to go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.machine.target import Source, target, tile_range
from tilescope.analyser.memory.liveness import (
    LiveVariables,
    always_live_variables,
    peak_step,
    step_variables,
)
from tilescope.analyser.memory.lowered_variables import variable_columns
from tilescope.analyser.quantities import BytesStyle, format_bytes
from tilescope.analyser.time.figures import code_missing_bytes, missing_bytes, tile_rows
from tilescope.reports import figures

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "Item",
    "Shortfall",
    "TileShortfall",
    "shortfall",
    "shortfall_sentences",
    "simultaneous_bytes",
]


@dataclass(frozen=True)
class Item:
    """Something on a tile, bytes; ``category`` is a name of ``memory_category``."""

    name: str
    category: str
    bytes: int
    is_always_live: bool


@dataclass(frozen=True)
class TileShortfall:
    """A tile that does not fit, and the least number of things that would have to go.

    Attributes
    ----------
    missing_bytes
        By how much it does not fit, gaps included.
    gap_bytes
        Gaps below its highest address.
    items
        The largest of what it holds when it holds most, until they make up ``missing_bytes``.
    is_enough
        Whether they do; else gaps are to blame, too.
    """

    tile_id: int
    missing_bytes: int
    gap_bytes: int
    code_missing_bytes: int
    items: tuple[Item, ...]
    is_enough: bool


@dataclass(frozen=True)
class Shortfall:
    """By how much a program does not fit.

    Attributes
    ----------
    simultaneous_bytes
        Variables and constants that live at one step, over all tiles; message buffers, code and
        state excluded, since they depend on the mapping.
    least_tiles
        Lower bound: tiles of this capacity that hold ``simultaneous_bytes``.
    n_tiles
        Tiles of the machine.
    n_tiles_always_over
        Tiles whose always-live bytes alone exceed their capacity.
    max_always_live_bytes
        The most that always lives on a tile.
    tiles
        The tiles that lack most.
    """

    capacity_bytes: int
    simultaneous_bytes: int
    least_tiles: int
    n_tiles: int
    n_tiles_always_over: int
    max_always_live_bytes: int
    tiles: tuple[TileShortfall, ...]


def shortfall(report: Report, ipu_id: int | None = None, n_tiles: int = 3) -> Shortfall | None:
    """Return by how much a program does not fit, on all IPUs or one; None if it fits.

    Raises
    ------
    BadQuestion
        When the IPU does not exist.
    """
    machine, rows = target(report), tile_rows(report)
    tiles = tile_range(report, "all" if ipu_id is None else ("ipu", ipu_id))
    ipu_tiles = slice(tiles.start, tiles.stop)
    lacks = missing_bytes(report)[ipu_tiles]
    if not lacks.any():
        return None
    always = rows["always_live"][ipu_tiles]
    size = simultaneous_bytes(report, ipu_id)
    worst = np.lexsort((-rows["excluding_gaps"][ipu_tiles], -lacks))[:n_tiles]
    return Shortfall(
        machine.capacity_bytes,
        size,
        -(-size // machine.capacity_bytes),
        len(tiles),
        int(np.count_nonzero(figures.bytes_past(always, machine.capacity_bytes))),
        int(always.max()),
        tuple(_tile(report, tiles.start + tile) for tile in worst.tolist() if lacks[tile]),
    )


def shortfall_sentences(result: Shortfall, style: BytesStyle | None = None) -> tuple[str, ...]:
    """Return the shortfall over all tiles in sentences."""

    def amount(n_bytes: int) -> str:
        return format_bytes(n_bytes, style)

    needs = (
        f"Variables and constants that live at one step take {amount(result.simultaneous_bytes)}:"
        f" they need at least {result.least_tiles:,} tiles of {amount(result.capacity_bytes)}, and"
        f" there are {result.n_tiles:,}."
    )
    answer = [needs]
    if result.n_tiles_always_over:
        answer.append(
            f"On {result.n_tiles_always_over:,} tiles, what always lives exceeds the tile"
            f" (up to {amount(result.max_always_live_bytes)}): no other plan of a single operation"
            " makes them fit."
        )
    return tuple(answer)


def simultaneous_bytes(report: Report, ipu_id: int | None = None) -> int:
    """Return the variables and constants that live at the step with most live memory, bytes."""
    source: Source = "all" if ipu_id is None else ("ipu", ipu_id)
    always = _always_live(report, ipu_id)
    step = peak_step(report, source)
    if step is None:
        return always
    live = step_variables(report, step, source)
    is_kept = np.array([category != "message" for category in live.category], dtype=np.bool_)
    return always + int(live.bytes[is_kept].sum())


def _always_live(report: Report, ipu_id: int | None) -> int:
    """Return the bytes of variables and constants that always live."""
    if ipu_id is None:
        columns = variable_columns(report)
        rows = zip(columns["bytes"], columns["is_always_live"], columns["category"], strict=True)
        return sum(
            int(str(size)) for size, is_always, kind in rows if is_always and kind != "message"
        )
    live = always_live_variables(report, ("ipu", ipu_id))
    return int(live.bytes[live.variable_id >= 0].sum())


def _tile(report: Report, tile: int) -> TileShortfall:
    """Return what would have to go from a tile."""
    rows, missing = tile_rows(report), int(missing_bytes(report)[tile])
    items = _items(always_live_variables(report, ("tile", tile)), is_always_live=True)
    step = peak_step(report, ("tile", tile))
    if step is not None:
        items += _items(step_variables(report, step, ("tile", tile)), is_always_live=False)
    items.sort(key=lambda item: (-item.bytes, item.name))
    total, n_items = 0, 0
    while n_items < len(items) and total < missing:
        total += items[n_items].bytes
        n_items += 1
    return TileShortfall(
        tile,
        missing,
        int(rows["including_gaps"][tile] - rows["excluding_gaps"][tile]),
        int(code_missing_bytes(report)[tile]),
        tuple(items[:n_items]),
        total >= missing,
    )


def _items(live: LiveVariables, *, is_always_live: bool) -> list[Item]:
    """Return variables, code and state as items."""
    return [
        Item(name, category, int(size), is_always_live)
        for name, category, size in zip(live.name, live.category, live.bytes, strict=True)
        if size
    ]
