"""Colours, axes and overview strip shared by all charts.

Series use mid-tones that are legible on white and on black. The style sheet sets text, grid and
background, so a chart follows the colour scheme without being redrawn.
"""

from __future__ import annotations

import math
from typing import Any

import plotly.graph_objects as go

from tilescope.analyser.quantities import format_bytes

__all__ = [
    "BASELINE_COLOUR",
    "CANDIDATE_COLOUR",
    "HOVER_ONLY",
    "border_line",
    "byte_ticks",
    "chart",
    "faded",
    "highlight_line",
    "outline",
    "series_colour",
]

#: ``meta`` of an invisible series that only provides hover texts.
HOVER_ONLY = "hover only"
BASELINE_COLOUR = "#2f74e0"
CANDIDATE_COLOUR = "#d0741a"
_CAPACITY_COLOUR = "#d0433b"

#: Colour by series name, so that a category has the same colour in every report.
_SERIES_COLOURS = {
    "Total": BASELINE_COLOUR,
    "Always live": "#7d8fa9",
    "Not always live": BASELINE_COLOUR,
    "Non-interleaved": "#2f74e0",
    "Interleaved": "#3a9d8f",
    "Overflowed": "#d0433b",
    "Gaps": "#a7aeb8",
    "Variables": "#2f74e0",
    "Constants": "#3a9d8f",
    "Exchange messages": "#8a63c9",
    "Stack": "#84789e",
    "Vertex code": "#d0605e",
    "Vertex instance state": "#cc6fa0",
    "Vertex field data": "#b25a9c",
    "Copy descriptors": "#a0703c",
    "Control code": "#5d9f47",
    "Control identifiers": "#7f8c3a",
    "Control tables": "#b0a03a",
    "Global exchange packet headers": "#55a88a",
    "Vector list descriptors": "#6d8fd6",
    "Internal exchange code": "#4fb0d8",
    "Global exchange code": "#6f9384",
    "Host exchange code": "#c9872b",
    "Host exchange packet headers": "#c77a55",
    "Instrumentation results": "#5f7fb5",
}
#: Same as ``--font`` in the style sheet; Plotly measures text with it.
_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif'
#: Round tick spacings, in KiB and above.
_ROUND = (1, 2, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64, 100, 128, 200, 250, 256, 400, 500, 512, 1024)
_CYCLE = (
    "#2f74e0", "#3a9d8f", "#8a63c9", "#c9872b", "#d0605e", "#5d9f47", "#4fb0d8", "#b25a9c",
    "#7f8c3a", "#a0703c", "#5f7fb5", "#cc6fa0", "#6f9384", "#b0a03a", "#84789e", "#55a88a",
    "#c77a55", "#6d8fd6",
)  # fmt: skip


def series_colour(label: str, position: int) -> str:
    """Return the colour of a series: fixed for known names, else by its index."""
    return _SERIES_COLOURS.get(label, _CYCLE[position % len(_CYCLE)])


def faded(colour: str, opacity: float) -> str:
    """Return ``#rrggbb`` as an rgba() colour with an opacity."""
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def outline(side: str, shape: str) -> dict[str, Any]:
    """Return the line style of Baseline or Candidate; overlapping lines both stay visible."""
    if side == "Baseline":
        return {"width": 1.5, "color": BASELINE_COLOUR, "shape": shape}
    return {"width": 1.5, "color": CANDIDATE_COLOUR, "shape": shape, "dash": "5px,3px"}


def byte_ticks(highest_bytes: int, n_ticks: int = 5) -> tuple[list[int], list[str]]:
    """Return round tick positions from 0 to a number of bytes, and their labels."""
    if highest_bytes <= 0:
        return [0], ["0"]
    rough = highest_bytes / n_ticks
    unit = 1024 ** int(math.log(max(rough, 1), 1024))
    steps = _ROUND if unit > 1 else tuple(1 << power for power in range(11))
    size = next((step for step in steps if step * unit >= rough), 1024) * unit
    positions = list(range(0, int(highest_bytes) + size, size))
    labels = ["0", *(format_bytes(position).replace(".0 ", " ") for position in positions[1:])]
    return positions, labels


def chart(
    figure: go.Figure,
    *,
    x_title: str,
    highest_bytes: int,
    x_range: tuple[float, float] | None,
    full_range: tuple[float, float],
    capacity_bytes: int | None = None,
    capacity_label: str = "",
    revision: str = "",
) -> go.Figure:
    """Add axes, overview strip and capacity line to a figure of bytes over an integer axis.

    Parameters
    ----------
    figure : go.Figure
        The figure with its series; modified in place and returned.
    x_title : str
        Title of the horizontal axis.
    highest_bytes : int
        Top of the series, bytes.
    x_range : tuple or None
        Visible range; None for the full range.
    full_range : tuple
        Range of the data.
    capacity_bytes : int or None
        Height of the dashed line; None draws no line.
    capacity_label : str
        Label of the dashed line.
    revision : str
        Plotly keeps zoom and hidden series while this value is unchanged.
    """
    top = max(highest_bytes, capacity_bytes or 0, 1)
    positions, labels = byte_ticks(top)
    if capacity_bytes is not None:
        _capacity_line(figure, capacity_bytes, capacity_label)
    figure.add_annotation(
        xref="paper",
        x=0,
        xanchor="right",
        xshift=-36,
        yref="paper",
        y=0,
        yanchor="top",
        yshift=-3,
        text=x_title,
        showarrow=False,
        font={"size": 12},
    )
    figure.update_layout(
        margin={"l": 72, "r": 12, "t": 8, "b": 8},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"size": 12, "color": "#5a6675", "family": _FONT},
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": "#7b8694", "activecolor": BASELINE_COLOUR},
        hovermode="x unified",
        hoverlabel={"namelength": -1, "font": {"size": 12}},
        dragmode="zoom",
        uirevision=revision or "chart",
        showlegend=False,
        xaxis={
            "range": list(x_range or full_range),
            "uirevision": f"{x_range}",
            "showgrid": False,
            "zeroline": False,
            "tickformat": ",d",
            "hoverformat": ",d",
            "unifiedhovertitle": {"text": f"{x_title} %{{x:,d}}"},
            "rangeslider": {
                "visible": True, "thickness": 0.12, "range": list(full_range),
                "yaxis": {"rangemode": "fixed", "range": [0, top * 1.05]},
            },
        },
        yaxis={
            "range": [0, top * 1.05],
            "tickvals": positions,
            "ticktext": labels,
            "fixedrange": True,
            "gridcolor": "#e4e8ed",
            "zeroline": False,
        },
    )  # fmt: skip
    return figure


def _capacity_line(figure: go.Figure, capacity_bytes: int, label: str) -> None:
    """Draw the dashed line at the capacity."""
    figure.add_shape(
        type="line", xref="paper", x0=0, x1=1, y0=capacity_bytes, y1=capacity_bytes,
        line={"color": _CAPACITY_COLOUR, "width": 1.4, "dash": "dash"},
    )  # fmt: skip
    figure.add_annotation(
        xref="paper", x=1, y=capacity_bytes, text=label, showarrow=False,
        xanchor="right", yanchor="bottom", font={"size": 11}, bgcolor="#ffffff",
    )  # fmt: skip


def border_line(figure: go.Figure, position: float, label: str) -> None:
    """Mark where a part of the horizontal axis begins, with the part's name at the top."""
    figure.add_shape(
        type="line", yref="paper", y0=0, y1=1, x0=position, x1=position,
        line={"color": "#8a93a0", "width": 1}, layer="below",
    )  # fmt: skip
    figure.add_annotation(
        x=position, y=1, yref="paper", xanchor="left", yanchor="top", text=label,
        showarrow=False, font={"size": 11, "color": "#5a6675"}, bgcolor="rgba(255,255,255,0.6)",
    )  # fmt: skip


def highlight_line(figure: go.Figure, position: float) -> Any:
    """Mark a position on the horizontal axis."""
    return figure.add_shape(
        type="line", yref="paper", y0=0, y1=1, x0=position, x1=position,
        line={"color": "#8a93a0", "width": 1.5, "dash": "dot"},
    )  # fmt: skip
