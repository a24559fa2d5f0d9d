"""Memory for its chart and maps: binary blocks of the tiles in a range, and of all tiles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Query, Response
from numpy.typing import NDArray

from tilescope.analyser.diff import align_liveness, mapped_change
from tilescope.analyser.machine.floor_plan import floor_plan, tile_order
from tilescope.analyser.machine.target import target
from tilescope.analyser.memory.charts import shown_together, tile_series
from tilescope.analyser.memory.tile_memory import TileMemory, categories, fullest_tile
from tilescope.analyser.memory.tile_timeline import TileMap, tile_map
from tilescope.analyser.memory.variables import MappedMemory, mapped_memory, shown_memory
from tilescope.reports import Report
from tilescope.webapp.api.chart_block import AskedRange, pack_block, pack_chart
from tilescope.webapp.figures.theme import series_colour
from tilescope.webapp.library import Library

__all__ = ["routes"]

_Text = Annotated[str, Query(max_length=400)]
_With = Annotated[str, Query(alias="with", max_length=40)]
_NOTHING = np.zeros(0, np.int64)


def routes(library: Library) -> APIRouter:
    """Return the routes below ``/api/memory``."""
    router = APIRouter(prefix="/memory/{report_id}")

    @router.get("/window")
    def show_window(
        report_id: str,
        shown: AskedRange,
        candidate: _With = "",
        breakdown: Annotated[str, Query(max_length=40)] = "category",
        gaps: bool = False,
        order: Annotated[str, Query(max_length=20)] = "software",
        var: _Text = "",
    ) -> Response:
        """Return the memory of a range of tiles, of one report or of two."""

        def ask(report: Report) -> tuple[TileMemory, NDArray[np.int64]]:
            memory = shown_memory(report, breakdown, gaps, var, may_lack=bool(candidate))
            return memory, tile_order(report, order)

        results = [
            side
            for side in library.ask({"report": report_id, "with": candidate}, ask)
            if side is not None
        ]
        series = shown_together(
            [partial(tile_series, memory, shown, chart_range_) for memory, chart_range_ in results]
        )
        lengths = [len(chart_range_) for _, chart_range_ in results]
        per_ipu = {memory.tiles_per_ipu for memory, _ in results}
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
    def show_lives(
        report_id: str,
        tile: int | None = None,
        candidate: _With = "",
        side: Annotated[int, Query(ge=0, le=1)] = 0,
    ) -> Response:
        """Return the memory of a tile over time; of the baseline's fullest tile by default."""
        with library.opened(report_id) as first:
            number = fullest_tile(first).tile_id if tile is None else tile
            if not candidate:
                block = _pack_lives(first, tile_map(first, number))
            else:
                with library.opened(candidate) as second:
                    sides = [tile_map(report, number) for report in (first, second)]
                    highest = max(int(drawn.heights[1].max(initial=0)) for drawn in sides)
                    positions = align_liveness(first, second).places
                    text = (first, second)[side]
                    block = _pack_lives(text, sides[side], _Axis(positions, side, highest))
        return Response(block, media_type="application/octet-stream")

    @router.get("/map")
    def show_map(report_id: str, of: _Text = "total", candidate: _With = "") -> Response:
        """Return how much of something every tile holds, or holds more, and where the tiles lie."""
        with library.opened(report_id) as first:
            if not candidate:
                block = _pack_map(first, mapped_memory(first, of), is_change=False)
            else:
                with library.opened(candidate) as second:
                    block = _pack_map(first, mapped_change(first, second, of), is_change=True)
        return Response(block, media_type="application/octet-stream")

    return router


@dataclass(frozen=True)
class _Axis:
    """Steps of two reports on one axis: places of both sides' steps, and the side that is shown.

    ``highest_bytes`` is the highest address in use on either side.
    """

    places: tuple[NDArray[np.int64], NDArray[np.int64]]
    side: int
    highest_bytes: int


def _pack_lives(report: Report, found: TileMap, axis: _Axis | None = None) -> bytes:
    """Return the blocks of a tile.

    The columns are address and size of every block (float64, bytes) and the highest address in use
    of every height (float64); then first step, the step after the last, number in ``names`` and
    number in ``categories`` of every block, and the first step of every height (all int32). Of two
    reports, the places of all own steps on the common axis follow, and those of the other side's
    (int32).
    """
    steps, top = found.heights
    own_places, other_places = (
        axis.places[:: -1 if axis.side else 1] if axis else (_NOTHING, _NOTHING)
    )
    names = {name: number for number, name in enumerate(dict.fromkeys(found.name))}
    kinds = {name: number for number, name in enumerate(dict.fromkeys(found.category))}
    labels = {category.name: category.label for category in categories(report)}
    header = {
        "tile_id": found.tile_id,
        "n_steps": found.n_steps,
        "n_blocks": len(found),
        "n_heights": len(steps),
        "n_own_places": len(own_places),
        "n_other_places": len(other_places),
        "highest_bytes": axis.highest_bytes if axis else int(top.max(initial=0)),
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
        *(column.astype("<i4") for column in (steps, own_places, other_places)),
    ]
    return pack_block(header, [column.tobytes() for column in columns])


def _pack_map(report: Report, found: MappedMemory, *, is_change: bool) -> bytes:
    """Return the bytes of every tile (float64), then row and column of an IPU's tiles (int32)."""
    plan, machine = floor_plan(report), target(report)
    header = {
        "title": found.title,
        "n_ipus": machine.n_ipus,
        "tiles_per_ipu": machine.tiles_per_ipu,
        "n_rows": plan.n_rows,
        "n_columns": plan.n_columns,
        "is_change": is_change,
        "highest_bytes": int(np.abs(found.tile_bytes).max(initial=0)),
        "capacity_bytes": machine.capacity_bytes,
    }
    columns = [
        found.tile_bytes.astype("<f8"),
        plan.row[: machine.tiles_per_ipu].astype("<i4"),
        plan.column[: machine.tiles_per_ipu].astype("<i4"),
    ]
    return pack_block(header, [column.tobytes() for column in columns])
