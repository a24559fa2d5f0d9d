"""Liveness: live memory at each step, and the variables that use it."""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, html

from tilescope.analyser.diff import LivenessPairs, align_liveness
from tilescope.analyser.machine.target import Source, target
from tilescope.analyser.memory.liveness import Curve, curve
from tilescope.analyser.memory.purposes import (
    backward_start,
    has_purposes,
    stored_activation_bytes,
)
from tilescope.analyser.quantities import format_bytes, format_percent
from tilescope.reports import Report
from tilescope.webapp.answer import answer
from tilescope.webapp.browser import connect
from tilescope.webapp.components.controls import choice, dropdown, switch, text_box
from tilescope.webapp.components.panels import guarded, headline
from tilescope.webapp.library import Library
from tilescope.webapp.pages.liveness_steps import tiles_of
from tilescope.webapp.pages.liveness_tabs import (
    TAB_PANEL,
    TAB_PARAMETERS,
    liveness_tabs,
    register_tabs,
)
from tilescope.webapp.view import Parameter, parse_range, view_store

__all__ = ["ICON", "PANELS", "PATH", "TITLE", "VIEW", "layout", "register"]

PATH = "/liveness"
TITLE = "Liveness"
ICON = "liveness"
VIEW = (
    Parameter("source", "all", "liveness-source"),
    Parameter("tile", "", "liveness-tile"),
    Parameter("always", "", "liveness-always", "checked"),
    Parameter("max", "", "liveness-max", "checked"),
    Parameter("purpose", "", "liveness-purpose", "checked"),
    Parameter("steps", "", "liveness-steps"),
    *TAB_PARAMETERS,
    Parameter("sides", "merged", "liveness-sides"),
    Parameter("step", selects="moment"),
    Parameter("var", selects="variable"),
    Parameter("x"),
    Parameter("mark"),
)
#: What stands above the chart, and below.
PANELS = {"head": ("source", "tile", "always", "purpose", "x"), **TAB_PANEL}


def layout() -> html.Div:
    """Return the page without content."""
    toolbar = html.Div(
        [
            dropdown("liveness-source", "Tiles", [("all", "All tiles")]),
            text_box("liveness-tile", "or one tile", "number", width="90px"),
            text_box("liveness-steps", "Filter steps", "name or kind", is_search=True),
            switch("liveness-always", "Include always live"),
            switch("liveness-max", "Show capacity"),
            switch("liveness-purpose", "By purpose"),
            html.Div(
                choice(
                    "liveness-sides",
                    "Reports",
                    [("merged", "Merged"), ("separate", "Separate")],
                ),
                id="liveness-sides-field",
            ),
        ],
        className="toolbar",
    )
    chart = guarded(
        "liveness-figure-error",
        html.Div(id="liveness-headlines", className="headlines"),
        html.Div(id="liveness-figure"),
        html.Div(id="liveness-note", className="chart-note"),
    )
    return html.Div(
        [html.Div([toolbar, chart], className="card"), html.Div(liveness_tabs(), className="card")],
        className="stack",
    )


def register(app: Dash, library: Library) -> None:
    """Connect the page."""
    _register_browser(app)
    register_tabs(app, library)

    @answer(
        app,
        "liveness-figure-error",
        [
            Output("liveness-headlines", "children"),
            Output("liveness-note", "children"),
            Output("liveness-source", "data"),
        ],
        Input(view_store("liveness", "head"), "data"),
    )
    def show_headlines(view: dict[str, str]) -> tuple[Any, ...]:
        parse_range(view, "x")
        source, problem = tiles_of(library, view)
        baseline, candidate = library.ask(view, lambda report: curve(report, source))
        with library.opened(view["report"]) as report:
            choices = _sources(report)
        heads = [_headline(baseline, "Baseline" if candidate else "", view)]
        if candidate:
            heads.append(_headline(candidate, "Candidate", view))
        stored = library.ask(view, lambda report: _stored(report, source))
        sides = ("Baseline", "Candidate") if candidate else ("", "")
        heads += [
            headline(format_bytes(n_bytes), caption, exact=f"{n_bytes:,} B", side=side)
            for found, side in zip(stored, sides, strict=True)
            if found is not None
            for n_bytes, caption in [found]
        ]
        notes: list[Any] = [html.Div(problem, className="wrong", role="alert")] if problem else []
        if view["purpose"] == "1":
            notes += _unstated(library, view)
        pairs = _pairs(library, view)
        if pairs is not None:
            notes.append(_alignment(pairs))
        return heads, notes, choices


def _register_browser(app: Dash) -> None:
    """Connect the clientside callbacks: the chart and its controls."""
    connect(app, "charts.liveness", Input(view_store("liveness"), "data"))
    connect(
        app,
        "charts.liveness_fields",
        Output("liveness-sides-field", "style"),
        Input(view_store("liveness"), "data"),
    )


def _sources(report: Report) -> list[dict[str, str]]:
    """Return the choices of the tiles menu."""
    n_ipus = target(report).n_ipus
    ipus = [{"value": f"ipu:{ipu}", "label": f"IPU {ipu}"} for ipu in range(n_ipus)]
    return [{"value": "all", "label": "All tiles"}, *(ipus if n_ipus > 1 else [])]


def _pairs(library: Library, view: dict[str, str]) -> LivenessPairs | None:
    """Return which steps of the two reports are the same, None for one report."""
    if not view["with"]:
        return None
    with library.opened(view["report"]) as first, library.opened(view["with"]) as second:
        return align_liveness(first, second)


def _stored(report: Report, source: Source) -> tuple[int, str] | None:
    """Return the activations when the backward pass begins, and what they are; None for others."""
    n_bytes, step = stored_activation_bytes(report, source), backward_start(report)
    if n_bytes is None or step is None:
        return None
    return n_bytes, f"of activations when the backward pass begins, step {step:,}"


def _unstated(library: Library, view: dict[str, str]) -> list[html.Div]:
    """Return which reports do not say what memory is needed for."""
    stated = library.ask(view, has_purposes)
    names = ("The baseline", "The candidate") if view["with"] else ("This report",)
    return [
        html.Div(f"{name} does not say what memory is needed for: record it again.")
        for name, is_stated in zip(names, stated, strict=False)
        if is_stated is False
    ]


def _alignment(pairs: LivenessPairs) -> str:
    """Return how two reports are aligned."""
    alone = [f"{len(side) - pairs.n_pairs:,}" for side in pairs.partners]
    return (
        f"{pairs.n_pairs:,} steps are in both reports, {alone[0]} only in the baseline,"
        f" {alone[1]} only in the candidate; the same step is at the same place"
    )


def _headline(live: Curve, side: str, view: dict[str, str]) -> html.Div:
    """Return the peak with its step and its percentage of the capacity."""
    if not len(live):
        return headline("–", "no liveness data in this report")
    step = int(live.not_always_live_bytes.argmax())
    size = int(live.not_always_live_bytes[step])
    with_always = view["always"] == "1"
    always, capacity = live.always_live_bytes, live.capacity_bytes
    total = size + (always if with_always else 0)
    share = format_percent(100 * (size + always) / capacity) if capacity else "–"
    words = "live" if with_always else "not always live,"
    caption = (
        f"{words} at the peak, step {step:,}; with {format_bytes(always)} always live it is {share}"
        f" of {format_bytes(capacity)}"
    )
    return headline(format_bytes(total), caption, exact=f"{total:,} B", side=side)
