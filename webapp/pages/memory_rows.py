"""Rows of the memory grids: a tile's variables, the fullest tiles, the largest changes."""

from __future__ import annotations

from typing import Any

from tilescope.analyser.diff import tile_changes
from tilescope.analyser.lowered_variables import tile_variables
from tilescope.analyser.quantities import format_bytes, format_change_of
from tilescope.analyser.tile_memory import categories, largest_tiles
from tilescope.reports import Report

__all__ = ["change_rows", "ranking_rows", "variable_rows"]


def variable_rows(report: Report, tile: int, text: str) -> tuple[list[dict[str, Any]], str]:
    """Return a tile's parts whose variable's name contains a text, and a summary."""
    parts = tile_variables(report, tile)
    labels = {category.name: category.label for category in categories(report)}
    rows: list[dict[str, Any]] = [
        {
            "offset": int(parts.offset_bytes[place]),
            "bytes": int(parts.bytes[place]),
            "name": name,
            "dtype": parts.dtype[place],
            "category": labels.get(parts.category[place], parts.category[place]),
            "region": parts.region[place],
            "start": None if parts.is_always_live[place] else int(parts.start_step[place]),
            "end": None if parts.is_always_live[place] else int(parts.end_step[place]),
        }
        for place, name in enumerate(parts.name)
        if text in name.lower()
    ]
    total = sum(row["bytes"] for row in rows)
    which = f"{len(rows):,} of {len(parts):,} parts" if text else f"{len(parts):,} parts"
    note = (
        f"Tile {tile:,}: {which}, {format_bytes(total)} in total; variables live at different steps"
        " may share addresses"
    )
    return rows, note


def ranking_rows(report: Report) -> list[dict[str, Any]]:
    """Return the fullest tiles."""
    ranking = largest_tiles(report, 200)
    capacity = ranking.capacity_bytes
    return [
        {
            "tile": tile,
            "ipu": int(ranking.ipu_id[place]),
            "including": int(ranking.including_gaps_bytes[place]),
            "excluding": int(ranking.excluding_gaps_bytes[place]),
            "share": int(ranking.excluding_gaps_bytes[place]) / capacity if capacity else None,
        }
        for place, tile in enumerate(ranking.tile_id.tolist())
    ]


def change_rows(baseline: Report, candidate: Report) -> list[dict[str, Any]]:
    """Return the tiles with the largest changes of memory."""
    changes = tile_changes(baseline, candidate)
    return [
        {
            "tile": place,
            "baseline": int(changes.baseline_bytes[place]),
            "candidate": int(changes.candidate_bytes[place]),
            "delta": int(changes.delta_bytes[place]),
            "diff": format_change_of(
                int(changes.baseline_bytes[place]), int(changes.delta_bytes[place]), "bytes"
            ),
        }
        for place in changes.largest(200).tolist()
    ]
