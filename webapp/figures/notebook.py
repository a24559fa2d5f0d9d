"""Figures of a report for notebooks and standalone files, drawn by Plotly.

The pages draw on canvases of their own; these figures are for readers without a server. They take
the same answers of the analyser and the same colours. Every figure takes a report, which is the
baseline where a candidate to compare with follows.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from tilescope.analyser.diff import align_liveness
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.target import Source
from tilescope.analyser.memory.liveness import curve
from tilescope.analyser.memory.tile_memory import (
    BREAKDOWNS,
    Breakdown,
    memory_distribution,
    tile_memory,
)
from tilescope.analyser.program.operations import operations
from tilescope.analyser.time.execution import execution
from tilescope.reports.schema.vocabulary import PHASE_LABELS
from tilescope.webapp.figures.theme import BASELINE_COLOUR, CANDIDATE_COLOUR, series_colour

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "FIGURES",
    "cycles_by_phase",
    "liveness",
    "memory_by_tile",
    "memory_histogram",
    "operations_pareto",
]

_SIDES = (("Baseline", BASELINE_COLOUR), ("Candidate", CANDIDATE_COLOUR))
_STEP = "hvh"


def memory_by_tile(
    report: Report, candidate: Report | None = None, *, breakdown: Breakdown = "category"
) -> go.Figure:
    """Return the contents of every tile, bytes; of two reports the totals.

    Parameters
    ----------
    breakdown : Breakdown
        What is stacked: category, region, liveness or none.

    Raises
    ------
    BadQuestion
        When the breakdown is unknown or a report holds no memory.
    """
    if breakdown not in BREAKDOWNS:
        raise BadQuestion(
            f"Unknown breakdown {breakdown!r}; expected one of {', '.join(BREAKDOWNS)}."
        )
    figure = go.Figure()
    if candidate is None:
        memory = tile_memory(report, breakdown)
        for index, (label, values) in enumerate(memory.series.items()):
            if values.any():
                figure.add_scatter(
                    x=memory.tile_id, y=values, name=label, stackgroup="memory",
                    line={"width": 0, "shape": _STEP, "color": series_colour(label, index)},
                )  # fmt: skip
    else:
        for (name, colour), side in zip(_SIDES, (report, candidate), strict=True):
            memory = tile_memory(side, "none")
            figure.add_scatter(
                x=memory.tile_id, y=memory.total_bytes, name=name,
                line={"color": colour, "shape": _STEP, "width": 1.2},
            )  # fmt: skip
    capacity = tile_memory(report, "none").capacity_bytes
    figure.add_hline(y=capacity, line={"dash": "dash", "width": 1}, annotation_text="capacity")
    return _titled(figure, "Memory by tile", "Tile", "Bytes")


def liveness(
    report: Report, candidate: Report | None = None, *, source: Source = "all"
) -> go.Figure:
    """Return live memory at every step, bytes; two reports over aligned steps.

    Parameters
    ----------
    source : Source
        ``"all"``, ``("ipu", 0)`` or ``("tile", 7)``.

    Raises
    ------
    BadQuestion
        When a report has no such IPU or tile, or holds no liveness.
    """
    figure = go.Figure()
    if candidate is None:
        curve_ = curve(report, source)
        x = np.arange(len(curve_))
        always = np.full(len(curve_), curve_.always_live_bytes)
        for label, values in (
            ("Always live", always), ("Not always live", curve_.not_always_live_bytes),
        ):  # fmt: skip
            figure.add_scatter(
                x=x, y=values, name=label, stackgroup="live",
                line={"width": 0, "shape": _STEP, "color": series_colour(label, 0)},
            )  # fmt: skip
    else:
        positions = align_liveness(report, candidate).places
        for (name, colour), side, x in zip(_SIDES, (report, candidate), positions, strict=True):
            curve_ = curve(side, source)
            figure.add_scatter(
                x=x, y=curve_.not_always_live_bytes + curve_.always_live_bytes, name=name,
                line={"color": colour, "shape": _STEP, "width": 1.2},
            )  # fmt: skip
    return _titled(figure, "Live memory by step", "Step", "Bytes")


def cycles_by_phase(report: Report, candidate: Report | None = None) -> go.Figure:
    """Return the cycles of the recorded runs by phase, a bar per report."""
    figure = go.Figure()
    sides = (report,) if candidate is None else (report, candidate)
    for (name, colour), side in zip(_SIDES, sides, strict=False):
        spent = execution(side).phase_cycles
        figure.add_bar(
            x=[PHASE_LABELS[phase] for phase in spent], y=list(spent.values()),
            name=name if candidate is not None else "Cycles", marker_color=colour,
        )  # fmt: skip
    return _titled(figure, "Cycles by phase", "", "Cycles")


def operations_pareto(
    report: Report, candidate: Report | None = None, *, max_operations: int = 25
) -> go.Figure:
    """Return the operations that take most cycles, and their cumulative share of all cycles.

    Parameters
    ----------
    max_operations : int
        Operations that are drawn.
    """
    listed = operations(report)
    listed = listed if listed.operations else operations(report, "model")
    listed_operations = list(listed.by_key.items())[: max(max_operations, 1)]
    keys = [key for key, _ in listed_operations]
    cycles = np.array([operation.cycles for _, operation in listed_operations], np.int64)
    figure = go.Figure()
    figure.add_bar(x=keys, y=cycles, name="Baseline" if candidate else "Cycles",
                   marker_color=BASELINE_COLOUR)  # fmt: skip
    if candidate is not None:
        theirs = operations(candidate, listed.layer).by_key
        figure.add_bar(
            x=keys, y=[theirs[key].cycles if key in theirs else None for key in keys],
            name="Candidate", marker_color=CANDIDATE_COLOUR,
        )  # fmt: skip
    if listed.total_cycles:
        figure.add_scatter(
            x=keys, y=100 * np.cumsum(cycles) / listed.total_cycles, name="Cumulative share",
            yaxis="y2", mode="lines+markers", line={"color": "#7d8fa9"},
        )  # fmt: skip
    figure.update_layout(
        yaxis2={"overlaying": "y", "side": "right", "range": [0, 100], "ticksuffix": " %",
                "showgrid": False},
    )  # fmt: skip
    return _titled(figure, "Operations by cycles", "", "Cycles")


def memory_histogram(report: Report, candidate: Report | None = None) -> go.Figure:
    """Return how many tiles hold how many bytes, gaps excluded."""
    figure = go.Figure()
    sides = (report,) if candidate is None else (report, candidate)
    for (name, colour), side in zip(_SIDES, sides, strict=False):
        edges, n_tiles = (column.tolist() for column in memory_distribution(side))
        figure.add_bar(
            x=[(low + high) / 2 for low, high in pairwise(edges)],
            y=n_tiles, width=[high - low for low, high in pairwise(edges)],
            name=name if candidate is not None else "Tiles", marker_color=colour,
            opacity=0.6 if candidate is not None else 1.0,
        )  # fmt: skip
    figure.update_layout(barmode="overlay", bargap=0)
    return _titled(figure, "Distribution of memory over tiles", "Bytes", "Tiles")


#: Figures by the name that the command line takes.
FIGURES: dict[str, Callable[[Report, Report | None], go.Figure]] = {
    "memory": memory_by_tile,
    "liveness": liveness,
    "phases": cycles_by_phase,
    "operations": operations_pareto,
    "histogram": memory_histogram,
}


def _titled(figure: go.Figure, title: str, x_title: str, y_title: str) -> go.Figure:
    """Return the figure with its titles."""
    return figure.update_layout(
        title=title, xaxis_title=x_title, yaxis_title=y_title, template="plotly_white",
        hovermode="x unified", legend={"orientation": "h", "y": -0.2},
    )  # fmt: skip
