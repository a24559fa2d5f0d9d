"""Memory by tile: stacked by region, category or liveness, or two reports as outlines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from tilescope.analyser.quantities import format_bytes
from tilescope.analyser.tile_memory import TileMemory
from tilescope.webapp.figures.decimate import LINE_SHAPE, Kept, visible_points
from tilescope.webapp.figures.theme import (
    BASELINE_COLOUR,
    CANDIDATE_COLOUR,
    HOVER_ONLY,
    border_line,
    chart,
    faded,
    highlight_line,
    outline,
    series_colour,
)

__all__ = ["TileChart", "compare_tiles", "draw_tiles"]

_MAX_MARKED_TILES = 16
_MAX_MARKED_IPUS = 16


@dataclass(frozen=True)
class TileChart:
    """A figure with a note about decimation."""

    figure: go.Figure
    kept: Kept


def draw_tiles(
    memory: TileMemory,
    *,
    window: tuple[float, float] | None = None,
    selected: Sequence[int] = (),
    show_capacity: bool = False,
) -> TileChart:
    """Return a chart of memory by tile as stacked steps.

    Parameters
    ----------
    memory : TileMemory
        The series to stack.
    window : tuple or None
        Visible tiles; None for all.
    selected : Sequence[int]
        Tiles to mark.
    show_capacity : bool
        Whether to show the capacity even if it is far above the data.
    """
    height = memory.stacked_bytes
    kept = visible_points(height, window)
    figure = go.Figure()
    many = len(memory.series) > 1
    places, positions = kept.steps(len(height))
    for position, (label, values) in enumerate(memory.series.items()):
        if many and not values.any():
            continue
        colour = series_colour(label, position)
        figure.add_scatter(
            x=places,
            y=values[positions],
            name=label,
            stackgroup="memory",
            line={"width": 0 if many else 1, "color": colour, "shape": LINE_SHAPE},
            fillcolor=faded(colour, 0.85 if many else 0.35),
            hovertemplate="%{y:,d} B",
        )
    if many:
        figure.add_scatter(
            x=places,
            y=memory.total_bytes[positions],
            name="Total",
            mode="lines",
            line={"width": 0, "color": "rgba(0,0,0,0)", "shape": LINE_SHAPE},
            hovertemplate="%{y:,d} B",
            meta=HOVER_ONLY,
        )
    return TileChart(
        _finish(figure, [memory], int(height.max(initial=0)), window, selected, show_capacity),
        kept,
    )


def compare_tiles(
    baseline: TileMemory,
    candidate: TileMemory,
    *,
    window: tuple[float, float] | None = None,
    selected: Sequence[int] = (),
    show_capacity: bool = False,
) -> TileChart:
    """Return the total memory of two reports as outlines; parameters as in `draw_tiles`."""
    figure = go.Figure()
    heights = [memory.stacked_bytes for memory in (baseline, candidate)]
    kept = []
    for height, name, colour in (
        (heights[0], "Baseline", BASELINE_COLOUR),
        (heights[1], "Candidate", CANDIDATE_COLOUR),
    ):
        kept.append(visible_points(height, window))
        places, positions = kept[-1].steps(len(height))
        figure.add_scatter(
            x=places,
            y=height[positions],
            name=name,
            fill="tozeroy",
            fillcolor=faded(colour, 0.12),
            line=outline(name, LINE_SHAPE),
            hovertemplate="%{y:,d} B",
        )
    highest = max(int(height.max(initial=0)) for height in heights)
    finished = _finish(figure, [baseline, candidate], highest, window, selected, show_capacity)
    return TileChart(finished, max(kept, key=lambda part: part.n_window))


def _finish(
    figure: go.Figure,
    memories: Sequence[TileMemory],
    highest: int,
    window: tuple[float, float] | None,
    selected: Sequence[int],
    show_capacity: bool,
) -> go.Figure:
    """Add axes, capacity line and marks to the figure."""
    n_tiles = max(len(memory.tile_id) for memory in memories)
    capacity = memories[0].capacity_bytes
    is_near = show_capacity or 2 * highest >= capacity
    _mark_ipus(figure, memories, n_tiles)
    for tile in selected[:_MAX_MARKED_TILES]:
        highlight_line(figure, tile)
    return chart(
        figure,
        x_title="Tile",
        highest_bytes=highest,
        x_range=window,
        full_range=(-0.5, n_tiles - 0.5),
        capacity_bytes=capacity if is_near else None,
        capacity_label=f"{format_bytes(capacity)} per tile",
        revision=f"{n_tiles}",
    )


def _mark_ipus(figure: go.Figure, memories: Sequence[TileMemory], n_tiles: int) -> None:
    """Mark where IPUs begin, unless two reports differ in that or they are too many to tell."""
    (per_ipu, *others) = {memory.tiles_per_ipu for memory in memories}
    if others or not per_ipu or not 1 < n_tiles // per_ipu <= _MAX_MARKED_IPUS:
        return
    for ipu in range(n_tiles // per_ipu):
        border_line(figure, ipu * per_ipu - 0.5, f"IPU {ipu}")
