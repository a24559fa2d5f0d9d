"""The execution trace: extent, bars of a window, figures of a range, single slices and steps."""

from tilescope.analyser.trace.critical import CriticalSpan, critical_cycles, critical_spans
from tilescope.analyser.trace.details import (
    StepCost,
    StepDetails,
    TileHistogram,
    VertexRow,
    step_details,
    tile_histogram,
)
from tilescope.analyser.trace.find import (
    Match,
    NumberedMatch,
    Search,
    Slice,
    first_execution,
    match,
    search,
    slice_at,
)
from tilescope.analyser.trace.idle import (
    IdleTiles,
    format_ranges,
    idle_tiles,
    idle_tiles_of,
    number_ranges,
)
from tilescope.analyser.trace.listing import Execution, ExecutionList, executions
from tilescope.analyser.trace.matches import Matches, Occurrence
from tilescope.analyser.trace.notes import (
    PlacedNote,
    add_note,
    copy_notes,
    placed_notes,
    remove_note,
    shared_notes,
)
from tilescope.analyser.trace.region_labels import REGIONS
from tilescope.analyser.trace.regions import Region, RegionPlace, Regions, regions
from tilescope.analyser.trace.stage_slices import (
    StagePicture,
    StageSlice,
    StageWait,
    stage_picture,
)
from tilescope.analyser.trace.statistics import (
    NameStatistics,
    RangeStatistics,
    name_statistics,
)
from tilescope.analyser.trace.stretch import CauseShare, Stretch, Stretches, stretches
from tilescope.analyser.trace.summary import (
    Contributor,
    IpuSummary,
    RangeSummary,
    range_summary,
)
from tilescope.analyser.trace.tile_lane import FIRST_TILE_LEVEL, MOST_TILES
from tilescope.analyser.trace.view import (
    STEPS_LEVEL,
    VIEWS,
    Extent,
    Lane,
    Lanes,
    Names,
    RunExtent,
    TrackExtent,
    Window,
    extent,
    names,
    window,
)
from tilescope.analyser.trace.wait import Wait, WaitList, waits
from tilescope.reports.bars.kinds import KINDS
from tilescope.reports.schema.vocabulary import SliceKind

__all__ = [
    "FIRST_TILE_LEVEL",
    "KINDS",
    "MOST_TILES",
    "REGIONS",
    "STEPS_LEVEL",
    "VIEWS",
    "CauseShare",
    "Contributor",
    "CriticalSpan",
    "Execution",
    "ExecutionList",
    "Extent",
    "IdleTiles",
    "IpuSummary",
    "Lane",
    "Lanes",
    "Match",
    "Matches",
    "NameStatistics",
    "Names",
    "NumberedMatch",
    "Occurrence",
    "PlacedNote",
    "RangeStatistics",
    "RangeSummary",
    "Region",
    "RegionPlace",
    "Regions",
    "RunExtent",
    "Search",
    "Slice",
    "SliceKind",
    "StagePicture",
    "StageSlice",
    "StageWait",
    "StepCost",
    "StepDetails",
    "Stretch",
    "Stretches",
    "TileHistogram",
    "TrackExtent",
    "VertexRow",
    "Wait",
    "WaitList",
    "Window",
    "add_note",
    "copy_notes",
    "critical_cycles",
    "critical_spans",
    "executions",
    "extent",
    "first_execution",
    "format_ranges",
    "idle_tiles",
    "idle_tiles_of",
    "match",
    "name_statistics",
    "names",
    "number_ranges",
    "placed_notes",
    "range_summary",
    "regions",
    "remove_note",
    "search",
    "shared_notes",
    "slice_at",
    "stage_picture",
    "step_details",
    "stretches",
    "tile_histogram",
    "waits",
    "window",
]
