"""What one tile did: the part of every step in which it is busy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.time.execution import costs
from tilescope.analyser.validation import require_below
from tilescope.reports.bars.lane import SliceLane

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilescope.analyser.trace.index import Trace
    from tilescope.reports.bars.group import TrackGroup

__all__ = ["FIRST_TILE_LEVEL", "MOST_TILES", "busy_cycles", "tile_lanes"]

#: Level of the lane of tile 0; those of names are below it.
FIRST_TILE_LEVEL = 1_000_000
#: Most tiles with a lane of their own at a time.
MOST_TILES = 16


def busy_cycles(trace: Trace, tile_id: int) -> NDArray[np.int64]:
    """Return for how long a tile is busy in every step: ndarray of int64, shape (n_steps,), cycles.

    Data-dependent steps count as estimated. The result is kept with the trace.

    Raises
    ------
    BadQuestion
        If the tile does not exist or its IPU has no trace.
    """
    ipu_id, here = divmod(tile_id, trace.tiles_per_ipu)
    if tile_id < 0 or ipu_id not in trace.ipus:
        raise BadQuestion(f"tile {tile_id} has no trace in this report")
    busy: NDArray[np.int64] | None = trace.tile_cycles.get(tile_id)
    if busy is None:
        report, column = trace.report, costs(trace.report).column
        cycles = report.array("cycles.pattern").column(here).astype(np.int64)
        mine = np.flatnonzero(column["ipu_id"] == ipu_id)
        pattern = column["pattern_id"][mine]
        require_below(report, pattern, len(cycles), "pattern of cycles")
        busy = np.zeros(len(trace.steps), np.int64)
        busy[column["step_id"][mine]] = cycles[pattern]
        trace.tile_cycles[tile_id] = busy
    return busy


def tile_lanes(group: TrackGroup, tile_id: int, busy: NDArray[np.int64]) -> list[SliceLane]:
    """Return the one lane of a tile that is busy in every step for some cycles.

    A slice begins with its step and lasts as long as the tile is busy in it by the report; in
    between the tile waits.
    """
    lane = group.tiles.get(tile_id)
    if lane is None:
        line = group.timeline
        works = np.flatnonzero(busy[line.step] > 0).astype(np.int32)
        end = np.minimum(line.end, line.start + busy[line.step])
        lane = group.tiles[tile_id] = SliceLane(
            line.start, end, line.step, group.paths.leaf, group.kinds, works, works.copy()
        )
    return [lane]
