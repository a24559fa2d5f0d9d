"""The panel of stages below the trace: micro-batches of every stage over time, and waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from dash import html

from tilescope.analyser.quantities import format_percent
from tilescope.analyser.summary.stage_figures import StageFigures
from tilescope.analyser.trace import StagePicture, StageSlice, StageWait
from tilescope.webapp.browser import marked
from tilescope.webapp.components.panels import empty_state, headline
from tilescope.webapp.components.tables import plain_table

__all__ = ["stages_panel"]

#: Bars narrower than this share of the range are left out, and those below the other have no text.
_LEAST, _LABELLED = 0.0005, 0.016
#: Most bars of an IPU.
_MOST = 300


def stages_panel(
    picture: StagePicture, figures: StageFigures, start: int | None, end: int | None
) -> html.Div:
    """Return the stages of a run in a range of cycles, one row per IPU.

    Parameters
    ----------
    picture
        Of the run.
    figures
        Of the same run.
    start, end
        The range; None for the ends of the run.
    """
    low = max(picture.start_cycle, picture.start_cycle if start is None else start)
    high = min(picture.end_cycle, picture.end_cycle if end is None else end)
    if high <= low:
        return empty_state("No stage works in this range; zoom out or press 0.")
    ipus = [ipu.ipu_id for ipu in figures.ipus]
    rows = [
        html.Div(
            [
                html.Span(f"IPU {ipu_id}", className="stage-name"),
                html.Div(_bars(picture, ipu_id, low, high), className="stage-track"),
            ],
            className="stage-row",
        )
        for ipu_id in ipus
    ]
    legend = html.Div(
        [
            html.Span([html.Span(className=f"trace-swatch stage-{name}"), words])
            for name, words in (
                ("forward", "Forward, with the number of the micro-batch"),
                ("backward", "Backward"),
                ("wait", "Waits for another IPU"),
            )
        ],
        className="stage-legend",
    )
    heads = html.Div(
        [
            headline(
                format_percent(100 * figures.bubble_share),
                "bubble: waits, as a share of waits and work",
            ),
            headline(format_percent(100 * figures.idle_share), "of the run, IPUs wait"),
            headline(figures.slowest.stage.name, "is the slowest stage"),
        ],
        className="trace-heads",
    )
    note = f"Run {picture.run_id}, {low:,} to {high:,} cycles. Figures and waits are of the run."
    return html.Div(
        [
            heads,
            html.Div(rows, className="stage-picture"),
            legend,
            html.H3("Who waits for whom"),
            _waits_table(picture.waits),
            html.Div(note, className="grid-note"),
        ]
    )


def _bars(picture: StagePicture, ipu_id: int, low: int, high: int) -> list[html.Span]:
    """Return the slices and waits of an IPU as bars."""
    every: list[StageSlice | StageWait] = [*picture.waits, *picture.slices]
    mine = [
        item
        for item in every
        if item.ipu_id == ipu_id and item.end_cycle > low and item.start_cycle < high
    ]
    least = _LEAST * (high - low)
    bars = [_bar(item, low, high) for item in mine if item.end_cycle - item.start_cycle >= least]
    return bars[:_MOST]


def _bar(item: StageSlice | StageWait, low: int, high: int) -> html.Span:
    """Return a slice or a wait as a bar that says what it is."""
    start, end = max(item.start_cycle, low), min(item.end_cycle, high)
    width = (end - start) / (high - low)
    style = {"left": f"{100 * (start - low) / (high - low):.3f}%", "width": f"{100 * width:.3f}%"}
    n_cycles = f"{item.end_cycle - item.start_cycle:,} cycles from {item.start_cycle:,}"
    kind: str
    if isinstance(item, StageSlice):
        kind, text = item.stage.direction, item.label if width >= _LABELLED else ""
        words = f"{item.stage.name.capitalize()}, micro-batch {item.micro_batch}: {n_cycles}"
    else:
        kind, text = "wait", ""
        words = f"IPU {item.ipu_id} waits for {_late(item)}: {n_cycles}"
    bar = html.Span(text, className=f"stage-bar stage-{kind}", style=style, title=words)
    return marked(bar, role="img", aria_label=words)


def _late(wait: StageWait) -> str:
    """Return whom a wait is for."""
    if wait.stage is None:
        return f"IPU {wait.late_ipu_id}, outside stages"
    return f"{wait.stage.name} on IPU {wait.late_ipu_id}"


def _waits_table(waits: Sequence[StageWait]) -> Any:
    """Return the waits of a run by who waits and for what, the longest first."""
    cycles: Counter[tuple[int, str]] = Counter()
    counts: Counter[tuple[int, str]] = Counter()
    for wait in waits:
        key = wait.ipu_id, _late(wait)
        cycles[key] += wait.end_cycle - wait.start_cycle
        counts[key] += 1
    if not cycles:
        return empty_state("No IPU waits for another one.")
    rows = [
        (f"IPU {ipu_id}", late[:1].upper() + late[1:], f"{counts[ipu_id, late]:,}", f"{n:,}")
        for (ipu_id, late), n in cycles.most_common()
    ]
    return plain_table(("Waits", "For", "Times", "Cycles"), rows, numbers=(2, 3))
