"""Memory for its chart and maps: binary blocks of the tiles in a range, and of all tiles."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from tilescope.analyser.charts import ChartSeries, tile_series
from tilescope.analyser.floor_plan import tile_order
from tilescope.analyser.variables import shown_memory
from tilescope.reports import Report
from tilescope.webapp.api.chart_block import AskedRange, pack_chart
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

        def ask(report: Report) -> tuple[ChartSeries, int, int]:
            memory = shown_memory(report, breakdown, gaps, var, may_lack=bool(candidate))
            n_tiles = len(memory.tile_id)
            series = tile_series(memory, shown, tile_order(report, order))
            return series, n_tiles, memory.tiles_per_ipu

        found, other = library.ask({"report": report_id, "with": candidate}, ask)
        sides = [found] if other is None else [found, other]
        series, lengths, per_ipu = zip(*sides, strict=True)
        block = pack_chart(
            shown,
            series,
            max(lengths),
            side_n_tiles=lengths,
            tiles_per_ipu=per_ipu[0] if len(set(per_ipu)) == 1 else 0,
        )
        return Response(block, media_type="application/octet-stream")

    return router
