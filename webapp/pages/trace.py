"""Execution trace: slices over cycles on a canvas, with the figures of the range below."""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, html, no_update

from tilescope.analyser import trace
from tilescope.webapp.answer import answer
from tilescope.webapp.browser import connect, marked
from tilescope.webapp.components.controls import choice, tabs, text_box
from tilescope.webapp.components.links import reports_of
from tilescope.webapp.components.panels import empty_state, guarded
from tilescope.webapp.library import Library
from tilescope.webapp.pages.trace_panels import contributor_table, slice_panel, summary_panel
from tilescope.webapp.view import BadView, Parameter, parse_numbers, view_store

__all__ = ["ICON", "PATH", "TITLE", "VIEW", "layout", "register"]

PATH = "/trace"
TITLE = "Execution Trace"
ICON = "trace"
VIEW = (
    Parameter("view", "flame", "trace-view"),
    Parameter("ipus", "", "trace-ipus"),
    Parameter("find", "", "trace-find"),
    Parameter("tab", "summary", "trace-tabs"),
    Parameter("range"),
    Parameter("mark"),
    Parameter("closed"),
    Parameter("at"),
)

_TOP = 100
_BUTTONS = (
    ("trace-previous", "‹", "Previous match (Shift-N, or Shift-Enter in the search)"),
    ("trace-next", "›", "Next match (N, or Enter in the search)"),
    ("trace-out", "−", "Zoom out (S)"),
    ("trace-in", "+", "Zoom in (W)"),
    ("trace-focus", "Focus", "Focus: fit the selection (F)"),
    ("trace-all", "All", "All: show the whole trace (0)"),
)


def layout() -> html.Div:
    """Return the page without content."""
    buttons = [
        marked(html.Button(text, id=name, className="trace-tool", title=hint), aria_label=hint)
        for name, text, hint in _BUTTONS
    ]
    toolbar = html.Div(
        [
            choice("trace-view", "View", [("flame", "Flame"), ("flat", "Flat")]),
            text_box("trace-ipus", "IPUs", "all, or 0, 2-5", width="110px"),
            text_box("trace-find", "Find steps", "part of a name", is_search=True),
            html.Div(buttons[:2], className="trace-tools"),
            html.Div(className="toolbar-space"),
            html.Div(buttons[2:], className="trace-tools"),
        ],
        className="toolbar",
    )
    panels = tabs(
        "trace-tabs",
        [
            ("summary", "Summary of the range", _panel("trace-summary")),
            ("top", "Top contributors", _panel("trace-top")),
            ("details", "Details of the selection", _panel("trace-details")),
        ],
    )
    return html.Div(
        [
            html.Div(
                [
                    toolbar,
                    _panel("trace-whose"),
                    html.Div(id="trace-viewer"),
                ],
                className="card",
            ),
            html.Div(panels, className="card"),
        ],
        className="stack",
    )


def register(app: Dash, library: Library) -> None:
    """Connect the page: scripts update the canvas from the URL, callbacks fill the panels."""
    view_input = Input(view_store("trace"), "data")
    connect(app, "trace.show", view_input)
    connect(
        app,
        "trace.act",
        *(Input(name, "n_clicks") for name, _, _ in _BUTTONS),
        prevent_initial_call=True,
    )

    @answer(
        app,
        "trace-whose-error",
        [Output("trace-whose", "children")],
        view_input,
    )
    def show_whose(view: dict[str, str]) -> tuple[Any, ...]:
        if not view["report"] or not view["with"]:
            return (None,)
        sentence = "The trace shows the baseline; swap to see the candidate."
        return (html.P(sentence),)

    @answer(
        app,
        "trace-summary-error",
        [Output("trace-summary", "children")],
        view_input,
    )
    def show_summary(view: dict[str, str]) -> tuple[Any, ...]:
        if view["tab"] != "summary":
            return (no_update,)
        found = _range_summary(library, view, top=0)
        return (summary_panel(found, is_marked=bool(view["mark"])) if found else _nothing(),)

    @answer(
        app,
        "trace-top-error",
        [Output("trace-top", "children")],
        view_input,
    )
    def show_contributors(view: dict[str, str]) -> tuple[Any, ...]:
        if view["tab"] != "top":
            return (no_update,)
        found = _range_summary(library, view, top=_TOP)
        return (contributor_table(found, reports_of(view)) if found else _nothing(),)

    @answer(
        app,
        "trace-details-error",
        [Output("trace-details", "children")],
        view_input,
    )
    def show_details(view: dict[str, str]) -> tuple[Any, ...]:
        if view["tab"] != "details":
            return (no_update,)
        if not view["report"] or not view["at"]:
            return (empty_state("Click a slice of the trace to see its details."),)
        if view["at"].startswith("step:"):
            return (no_update,)  # the trace finds the step and writes its place
        ipu_id, track, level, cycle = _place(view["at"])
        with library.opened(view["report"]) as report:
            closed = view["closed"].split(",")
            how = "flat" if str(ipu_id) in closed else _flame_or_flat(view["view"])
            found = trace.slice_at(report, ipu_id, track, level, cycle, how)
            if found is None:
                return (empty_state("No slice here; click another one."),)
            inside = trace.range_summary(
                report, found.start_cycle, found.end_cycle, [found.ipu_id], top=20
            )
            step = None
            if found.step_id is not None:
                step = trace.step_details(report, found.step_id)
        return (slice_panel(found, inside, step, reports_of(view)),)


def _panel(name: str) -> html.Div:
    """Return a panel body that an error panel can replace."""
    return guarded(f"{name}-error", html.Div(id=name))


def _nothing() -> html.Div:
    """Return the placeholder of the panels without a trace."""
    return empty_state("No execution recorded.")


def _range_summary(
    library: Library, view: dict[str, str], *, top: int
) -> trace.RangeSummary | None:
    """Return the figures of the selected range, else of the visible range; None without a trace."""
    if not view["report"]:
        return None
    with library.opened(view["report"]) as report:
        extent = trace.extent(report)
        if not extent.tracks:
            return None
        known = {track.ipu_id for track in extent.tracks}
        ipus = None
        if view["ipus"].strip():
            ipus = parse_numbers(view["ipus"], limit=max(known) + 1, noun="number of an IPU")
        start, end = _cycles(view["mark"] or view["range"])
        return trace.range_summary(report, start, end, ipus, top=top)


def _cycles(text: str) -> tuple[int | None, int | None]:
    """Return the range ``a:b`` in whole cycles; a missing bound is open."""
    if not text:
        return None, None
    try:
        start, end = (int(part) for part in text.split(":"))
    except ValueError:
        start, end = 0, 0
    if not start < end:
        raise BadView(
            f"Expected a range such as 100:200 in the address, got {text[:40]!r}; press 0 to reset."
        )
    return start, end


def _place(text: str) -> tuple[int, int, int, int]:
    """Return IPU, track, level and cycle of the selection."""
    try:
        ipu_id, track, level, cycle = (int(part) for part in text.split("."))
    except ValueError:
        raise BadView(
            f"The selection {text[:40]!r} in the address is invalid; click a slice."
        ) from None
    return ipu_id, track, level, cycle


def _flame_or_flat(text: str) -> str:
    """Return the view, "flat" or by default "flame"."""
    return "flat" if text == "flat" else "flame"
