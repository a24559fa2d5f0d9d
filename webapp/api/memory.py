"""Memory for its chart and maps: binary blocks of the tiles in a range, and of all tiles."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Query, Response
from numpy.typing import NDArray

from tilescope.analyser.charts import shown_together, tile_series
from tilescope.analyser.floor_plan import tile_order
from tilescope.analyser.tile_memory import TileMemory
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

    return router
