"""Lists of what programs put on tiles, for ``tilescope memory --list``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from tilescope.console import Column, print_json, print_line, print_table, report_json

if TYPE_CHECKING:
    from tilescope.parameters import Units
    from tilescope.reports import Report

__all__ = ["Shown", "TileList", "show_list"]


class TileList(StrEnum):
    """What can be listed."""

    COMPUTE_SETS = "compute-sets"
    VERTICES = "vertices"
    EXCHANGES = "exchanges"
    ADDRESSES = "addresses"


class Shown(NamedTuple):
    """How a list is printed: as JSON with all rows, or the first rows with a unit of memory."""

    as_json: bool
    units: Units
    top: int


def show_list(
    report: Report,
    listed: TileList,
    tiles: Sequence[int],
    text: str,
    shown: Shown,
) -> None:
    """Print a list of what is on some tiles, or on all of them if none is given.

    Parameters
    ----------
    report
        The report.
    listed
        The list.
    tiles
        The tiles; addresses are those of exactly one.
    text
        Part of the names that are listed.
    shown
        How.

    Raises
    ------
    BadQuestion
        When a tile does not exist.
    """
    rows = _rows(report, listed, tiles, text)
    if shown.as_json:
        print_json(report_json(report) | {"list": listed.value, "tiles": list(tiles), "rows": rows})
        return
    columns = _COLUMNS[listed]
    print_table(
        [Column(title, is_number=kind != "text") for _, title, kind in columns],
        [
            [_cell(row[field], kind, shown.units) for field, _, kind in columns]
            for row in rows[: shown.top]
        ],
    )
    if len(rows) > shown.top:
        print_line(f"… {len(rows) - shown.top:,} more; --top lists them")


def _rows(
    report: Report, listed: TileList, tiles: Sequence[int], text: str
) -> list[dict[str, Any]]:
    """Return the rows of a list."""
    from tilescope.analyser.memory.address_map import address_map
    from tilescope.analyser.memory.placement import (
        codelet_placements,
        compute_set_placements,
        exchange_placements,
    )

    if listed == TileList.ADDRESSES:
        if len(tiles) != 1:
            raise typer.BadParameter("--list addresses requires exactly one --tile N.")
        search = text.strip().lower()
        return [
            asdict(block) | {"what": ", ".join(block.names)}
            for block in address_map(report, tiles[0]).blocks
            if any(search in name.lower() for name in (*block.names, block.use))
        ]
    lists: dict[TileList, Callable[..., Sequence[Any]]] = {
        TileList.COMPUTE_SETS: compute_set_placements,
        TileList.VERTICES: codelet_placements,
        TileList.EXCHANGES: exchange_placements,
    }
    return [asdict(row) for row in lists[listed](report, tiles, text)]


#: Field, heading and unit of every column.
_COLUMNS: dict[TileList, tuple[tuple[str, str, str], ...]] = {
    TileList.COMPUTE_SETS: (
        ("name", "Compute set", "text"),
        ("state_bytes", "State", "bytes"),
        ("code_bytes", "Code", "bytes"),
        ("n_vertices", "Vertices", "count"),
        ("n_tiles", "Tiles", "count"),
        ("n_instances", "Instances", "count"),
        ("step_id", "Step", "count"),
    ),
    TileList.VERTICES: (
        ("vertex_type", "Codelet", "text"),
        ("kind", "Kind", "text"),
        ("n_vertices", "Vertices", "count"),
        ("state_bytes", "State", "bytes"),
        ("code_bytes", "Code", "bytes"),
        ("n_tiles", "Tiles", "count"),
        ("n_compute_sets", "Compute sets", "count"),
    ),
    TileList.EXCHANGES: (
        ("name", "Exchange", "text"),
        ("kind", "Kind", "text"),
        ("code_bytes", "Code", "bytes"),
        ("n_fragments", "Fragments", "count"),
        ("sent_bytes", "Sent", "bytes"),
        ("received_bytes", "Received", "bytes"),
        ("max_tile_cycles", "Busy cycles", "count"),
        ("step_id", "Step", "count"),
    ),
    TileList.ADDRESSES: (
        ("offset_bytes", "Address", "count"),
        ("bytes", "Size", "bytes"),
        ("use", "Use", "text"),
        ("what", "Variables", "text"),
    ),
}


def _cell(value: Any, kind: str, units: Units) -> str:
    """Return a value as text."""
    from tilescope.analyser.quantities import MISSING, format_bytes

    if value is None:
        return MISSING
    if kind == "bytes":
        return format_bytes(value, units.value)
    return f"{value:,}" if kind == "count" else str(value)
