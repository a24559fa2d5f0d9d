"""Live memory over the steps of the program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from tilescope.analyser.diff import LivenessPairs
from tilescope.analyser.liveness import Curve
from tilescope.analyser.quantities import format_bytes
from tilescope.webapp.figures.decimate import LINE_SHAPE, Kept, visible_points
from tilescope.webapp.figures.theme import (
    BASELINE_COLOUR,
    CANDIDATE_COLOUR,
    chart,
    faded,
    highlight_line,
    outline,
)

__all__ = ["StepChart", "compare_steps", "draw_steps"]

_ALWAYS_COLOUR = "#7d8fa9"
_NAME_LETTERS = 90


@dataclass(frozen=True)
class StepChart:
    """A figure with a note about decimation."""

    figure: go.Figure
    kept: Kept


def draw_steps(
    curve: Curve,
    *,
    window: tuple[float, float] | None = None,
    include_always_live: bool = False,
    text: str = "",
    selected: int | None = None,
    show_capacity: bool = False,
) -> StepChart:
    """Return a chart of live memory by step, optionally stacked on always-live memory.

    Parameters
    ----------
    curve : Curve
        One value per step.
    window : tuple or None
        Visible steps; None for all.
    include_always_live : bool
        Whether to stack live memory on always-live memory.
    text : str
        Filter: steps that contain it are drawn as points, the others are faded.
    selected : int or None
        Step to mark.
    show_capacity : bool
        Whether to show the capacity even if it is far above the data.
    """
    figure = go.Figure()
    base = curve.always_live_bytes if include_always_live else 0
    values = curve.not_always_live_bytes
    kept = visible_points(values, window)
    places, positions = kept.steps(len(values))
    if include_always_live:
        _add_always_live(figure, curve, places)
    figure.add_scatter(
        x=places,
        y=values[positions] + base,
        name="Not always live",
        fill="tonexty" if include_always_live else "tozeroy",
        fillcolor=faded(BASELINE_COLOUR, 0.12 if text.strip() else 0.3),
        line={
            "width": 1.2,
            "color": faded(BASELINE_COLOUR, 0.35 if text.strip() else 1),
            "shape": LINE_SHAPE,
        },
        customdata=_labels(curve, positions),
        hovertemplate="%{customdata}",
    )  # fmt: skip
    if text.strip():
        _add_matches(figure, curve, text, base, window)
    marks = [] if selected is None else [selected]
    return StepChart(
        _finish(figure, [curve], base, window, marks, show_capacity),
        kept,
    )


def compare_steps(
    baseline: Curve,
    candidate: Curve,
    pairs: LivenessPairs,
    *,
    window: tuple[float, float] | None = None,
    include_always_live: bool = False,
    selected: Sequence[int] = (),
    show_capacity: bool = False,
) -> StepChart:
    """Return the live memory of two reports as two outlines over aligned steps.

    Points carry their text and their step: ``12`` of the baseline, ``c12`` of the candidate.
    Parameters are those of `draw_steps`, with ``window`` and ``selected`` as places of ``pairs``.
    """
    figure = go.Figure()
    kept = []
    for curve, places, name, colour, mark in (
        (baseline, pairs.places[0], "Baseline", BASELINE_COLOUR, ""),
        (candidate, pairs.places[1], "Candidate", CANDIDATE_COLOUR, "c"),
    ):
        visible = None if window is None else _positions(places, window)
        kept.append(visible_points(curve.not_always_live_bytes, visible))
        drawn, positions = kept[-1].steps(len(curve))
        base = curve.always_live_bytes if include_always_live else 0
        steps = [f"{mark}{position}" for position in positions.tolist()]
        texts = [
            f"{text}<br>step {position:,}"
            for text, position in zip(_labels(curve, positions), positions.tolist(), strict=True)
        ]
        figure.add_scatter(
            x=places[positions] + (drawn - positions),
            y=curve.not_always_live_bytes[positions] + base,
            name=f"{name}: {'all that is live' if include_always_live else 'not always live'}",
            fill="tozeroy",
            fillcolor=faded(colour, 0.1),
            line=outline(name, LINE_SHAPE),
            customdata=list(zip(texts, steps, strict=True)),
            hovertemplate="%{customdata[0]}",
        )
    base = (
        max(baseline.always_live_bytes, candidate.always_live_bytes) if include_always_live else 0
    )
    finished = _finish(
        figure, [baseline, candidate], base, window, selected, show_capacity, pairs.n_places
    )
    return StepChart(finished, max(kept, key=lambda part: part.n_window))


def _positions(places: NDArray[np.int64], window: tuple[float, float]) -> tuple[float, float]:
    """Return the range of a side's steps that lie in a range of places."""
    low, high = np.searchsorted(places, [window[0], window[1]])
    return float(max(low - 1, 0)), float(high)


def _add_always_live(figure: go.Figure, curve: Curve, places: NDArray[np.float64]) -> None:
    """Draw the constant always-live memory at the bottom."""
    ends = places[[0, -1]] if len(places) else places
    figure.add_scatter(
        x=ends,
        y=np.full(len(ends), curve.always_live_bytes),
        name="Always live",
        mode="lines",
        fill="tozeroy",
        fillcolor=faded(_ALWAYS_COLOUR, 0.5),
        line={"width": 1, "color": _ALWAYS_COLOUR},
        hovertemplate=format_bytes(curve.always_live_bytes),
    )


def _add_matches(
    figure: go.Figure, curve: Curve, text: str, base: int, window: tuple[float, float] | None
) -> None:
    """Draw the matching steps as points on the curve."""
    found = curve.matching(text)
    low, high = window or (0, len(curve))
    found = found[(found >= low) & (found <= high)]
    drawn = found[visible_points(curve.not_always_live_bytes[found], None).positions]
    figure.add_scatter(
        x=drawn,
        y=curve.not_always_live_bytes[drawn] + base,
        name=f"Matches ({len(found):,})",
        mode="markers",
        marker={"size": 5, "color": CANDIDATE_COLOUR},
        customdata=_labels(curve, drawn),
        hovertemplate="%{customdata}",
    )


def _finish(
    figure: go.Figure,
    curves: Sequence[Curve],
    base: int,
    window: tuple[float, float] | None,
    selected: Sequence[int],
    show_capacity: bool,
    n_places: int | None = None,
) -> go.Figure:
    """Add axes, capacity line and marks to the figure; two reports have ``n_places``."""
    n_steps = len(curves[0]) if n_places is None else n_places
    highest = base + max(int(curve.not_always_live_bytes.max(initial=0)) for curve in curves)
    capacity = curves[0].capacity_bytes
    for step in selected:
        highlight_line(figure, step)
    return chart(
        figure,
        x_title="Step",
        highest_bytes=highest,
        x_range=window,
        full_range=(-0.5, max(n_steps, 1) - 0.5),
        capacity_bytes=capacity if show_capacity or 2 * highest >= capacity else None,
        capacity_label=f"capacity {format_bytes(capacity)}",
        revision=f"{n_steps}",
    )


def _labels(curve: Curve, positions: NDArray[np.int64]) -> list[str]:
    """Return the hover texts of some steps: size, kind and name."""
    sizes = curve.not_always_live_bytes
    return [
        f"{format_bytes(int(sizes[position]))} · {curve.kind[position]}"
        f"<br>{_plain(curve.name[position])}"
        for position in positions.tolist()
    ]


def _plain(name: str) -> str:
    """Return a name escaped for Plotly and shortened at its front."""
    text = name if len(name) <= _NAME_LETTERS else "…" + name[-_NAME_LETTERS:]
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
