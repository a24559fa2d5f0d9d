"""Memory for its chart and maps: binary blocks of the tiles in a range, and of all tiles."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Query, Response
from numpy.typing import NDArray

from tilescope.analyser.charts import shown_together, tile_series
from tilescope.analyser.floor_plan import floor_plan, tile_order
from tilescope.analyser.machine import target
from tilescope.analyser.tile_map import TileMap, tile_map
from tilescope.analyser.tile_memory import TileMemory, categories, fullest_tile
from tilescope.analyser.variables import MappedMemory, mapped_memory, shown_memory
from tilescope.reports import Report
from tilescope.webapp.api.chart_block import AskedRange, pack_block, pack_chart
from tilescope.webapp.figures.theme import series_colour
from tilescope.webapp.library import Library

__all__ = ["routes"]

_Text = Annotated[str, Query(max_length=400)]


def routes(library: Library) -> APIRouter:
    """Return the routes below ``/api/memory``."""
    router = APIRouter(prefix="/memory/{report_id}")

    @router.get("/window")
    def show_window(
        report_id: str,
        shown: AskedRange,
        candidate: Annotated[str, Query(alias="with", max_length=40)] = "",
        breakdown: Annotated[str, Query(max_length=40)] = "category",
        gaps: bool = False,
        order: Annotated[str, Query(max_length=20)] = "software",
        var: _Text = "",
    ) -> Response:
        """Return the memory of a range of tiles, of one report or of two."""

        def ask(report: Report) -> tuple[TileMemory, NDArray[np.int64]]:
            memory = shown_memory(report, breakdown, gaps, var, may_lack=bool(candidate))
            return memory, tile_order(report, order)

        found = [
            side
            for side in library.ask({"report": report_id, "with": candidate}, ask)
            if side is not None
        ]
        series = shown_together([partial(tile_series, memory, shown, own) for memory, own in found])
        lengths = [len(own) for _, own in found]
        per_ipu = {memory.tiles_per_ipu for memory, _ in found}
        block = pack_chart(
            shown,
            series,
            max(lengths),
            side_n_tiles=lengths,
            tiles_per_ipu=per_ipu.pop() if len(per_ipu) == 1 else 0,
        )
        return Response(block, media_type="application/octet-stream")

    @router.get("/order/{order}")
    def list_tiles(report_id: str, order: str) -> Response:
        """Return the tiles in an order, little-endian int32."""
        with library.opened(report_id) as report:
            tiles = tile_order(report, order)
        return Response(tiles.astype("<i4").tobytes(), media_type="application/octet-stream")

    @router.get("/lives")
    def show_lives(report_id: str, tile: int | None = None) -> Response:
        """Return the memory of a tile over time; of the fullest tile by default."""
        with library.opened(report_id) as report:
            number = fullest_tile(report).tile_id if tile is None else tile
            block = _pack_lives(report, tile_map(report, number))
        return Response(block, media_type="application/octet-stream")

    @router.get("/map")
    def show_map(report_id: str, of: _Text = "total") -> Response:
        """Return how much of something every tile holds, and where the tiles lie."""
        with library.opened(report_id) as report:
            block = _pack_map(report, mapped_memory(report, of))
        return Response(block, media_type="application/octet-stream")

    return router


def _pack_lives(report: Report, found: TileMap) -> bytes:
    """Return the blocks of a tile.

    The columns are address and size of every block (float64, bytes) and the highest address in use
    of every height (float64); then first step, the step after the last, number in ``names`` and
    number in ``categories`` of every block, and the first step of every height (all int32).
    """
    steps, top = found.heights
    names = {name: number for number, name in enumerate(dict.fromkeys(found.name))}
    kinds = {name: number for number, name in enumerate(dict.fromkeys(found.category))}
    labels = {category.name: category.label for category in categories(report)}
    header = {
        "tile_id": found.tile_id,
        "n_steps": found.n_steps,
        "n_blocks": len(found),
        "n_heights": len(steps),
        "capacity_bytes": found.capacity_bytes,
        "non_interleaved_bytes": found.non_interleaved_bytes,
        "unplaced_bytes": found.unplaced_bytes,
        "names": list(names),
        "categories": [
            {"label": labels.get(name, name), "colour": series_colour(labels.get(name, name), row)}
            for name, row in kinds.items()
        ],
    }
    columns = [
        found.offset_bytes.astype("<f8"),
        found.bytes.astype("<f8"),
        top.astype("<f8"),
        found.start_step.astype("<i4"),
        found.end_step.astype("<i4"),
        np.array([names[name] for name in found.name], dtype="<i4"),
        np.array([kinds[name] for name in found.category], dtype="<i4"),
        steps.astype("<i4"),
    ]
    return pack_block(header, [column.tobytes() for column in columns])


def _pack_map(report: Report, found: MappedMemory) -> bytes:
    """Return the bytes of every tile (float64), then row and column of an IPU's tiles (int32)."""
    plan, machine = floor_plan(report), target(report)
    header = {
        "title": found.title,
        "n_ipus": machine.n_ipus,
        "tiles_per_ipu": machine.tiles_per_ipu,
        "n_rows": plan.n_rows,
        "n_columns": plan.n_columns,
        "highest_bytes": int(found.tile_bytes.max(initial=0)),
        "capacity_bytes": machine.capacity_bytes,
    }
    columns = [
        found.tile_bytes.astype("<f8"),
        plan.row[: machine.tiles_per_ipu].astype("<i4"),
        plan.column[: machine.tiles_per_ipu].astype("<i4"),
    ]
    return pack_block(header, [column.tobytes() for column in columns])
