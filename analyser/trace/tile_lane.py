"""What one tile did: the part of every step in which it is busy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.time.execution import costs
from tilescope.analyser.trace.lane import SliceLane
from tilescope.analyser.validation import require_below

if TYPE_CHECKING:
    from tilescope.analyser.trace.index import Trace

__all__ = ["FIRST_TILE_LEVEL", "MOST_TILES", "tile_lane"]

#: Level of the lane of tile 0; those of names are below it.
FIRST_TILE_LEVEL = 1_000_000
#: Most tiles with a lane of their own at a time.
MOST_TILES = 16


def tile_lane(trace: Trace, tile_id: int) -> SliceLane:
    """Return the lane of a tile, kept with the trace.

    A slice begins with its step and lasts as long as the tile is busy in it by the report; in
    between the tile waits. Data-dependent steps count as estimated.

    Raises
    ------
    BadQuestion
        If the tile does not exist or its IPU has no trace.
    """
    ipu_id, here = divmod(tile_id, trace.tiles_per_ipu)
    if tile_id < 0 or ipu_id not in trace.ipus:
        raise BadQuestion(f"tile {tile_id} has no trace in this report")
    lane = trace.tile_lanes.get(tile_id)
    if lane is None:
        lane = trace.tile_lanes[tile_id] = _build(trace, ipu_id, here)
    return lane


def _build(trace: Trace, ipu_id: int, here: int) -> SliceLane:
    """Return the lane of a tile of an IPU."""
    report, column = trace.report, costs(trace.report).column
    cycles = report.array("cycles.pattern").column(here).astype(np.int64)
    mine = np.flatnonzero(column["ipu_id"] == ipu_id)
    pattern = column["pattern_id"][mine]
    require_below(report, pattern, len(cycles), "pattern of cycles")
    busy = np.zeros(len(trace.steps), np.int64)
    busy[column["step_id"][mine]] = cycles[pattern]
    group = trace.group(ipu_id, min(track for ipu, track in trace.keys if ipu == ipu_id))
    line = group.timeline
    works = np.flatnonzero(busy[line.step] > 0).astype(np.int32)
    end = np.minimum(line.end, line.start + busy[line.step])
    return SliceLane(line.start, end, line.step, group.paths.leaf, group.kinds, works, works.copy())
