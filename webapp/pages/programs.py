"""Program Tree: the program's steps, loaded one level at a time."""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, html

from tilescope.analyser.programs import node
from tilescope.reports.schema.vocabulary import CONTROL, PHASE_LABELS
from tilescope.webapp.answer import answer
from tilescope.webapp.browser import connect, marked
from tilescope.webapp.components.controls import text_box
from tilescope.webapp.components.panels import empty_state, guarded
from tilescope.webapp.library import Library
from tilescope.webapp.pages.program_panels import program_panel
from tilescope.webapp.view import Parameter, parse_number, view_store

__all__ = ["ICON", "PATH", "TITLE", "VIEW", "layout", "register"]

PATH = "/programs"
TITLE = "Program Tree"
ICON = "programs"
VIEW = (Parameter("find", "", "programs-find"), Parameter("node", selects="program"))

_LEGEND = {CONTROL: "Control", **PHASE_LABELS}


def layout() -> html.Div:
    """Return the page without content."""
    toolbar = html.Div(
        [
            text_box("programs-find", "Search", "kind or name", width="260px", is_search=True),
            html.Button("Previous", id="programs-back", className="text-button"),
            html.Button("Next", id="programs-next", className="text-button"),
            html.Span(id="programs-note", className="grid-note", role="status"),
        ],
        className="toolbar",
    )
    legend = html.Div(
        [
            html.Span([html.Span(className=f"swatch phase-{phase}"), label])
            for phase, label in _LEGEND.items()
        ],
        className="legend",
    )
    tree = html.Div(
        id="program-tree",
        className="tree",
        role="tree",
        tabIndex="0",
    )
    marked(tree, aria_label="Programs")
    details = guarded("programs-error", html.Div(id="programs-details"))
    return html.Div(
        [
            html.Div([toolbar, tree, legend], className="card tree-card"),
            html.Div(details, className="card tree-details"),
        ],
        className="tree-page",
    )


def register(app: Dash, library: Library) -> None:
    """Connect the page."""
    connect(
        app,
        "programs.show",
        Output("programs-note", "children"),
        Input(view_store("programs"), "data"),
        prevent_initial_call=True,
    )
    connect(
        app,
        "programs.step",
        Output("programs-note", "children", allow_duplicate=True),
        Input("programs-next", "n_clicks"),
        Input("programs-back", "n_clicks"),
        prevent_initial_call=True,
    )

    @answer(
        app,
        "programs-error",
        [Output("programs-details", "children")],
        Input(view_store("programs"), "data"),
    )
    def show_details(view: dict[str, str]) -> tuple[Any]:
        number = parse_number(view, "node", noun="program", hint="select one")
        if number is None:
            which = " The tree shows the baseline." if view["with"] else ""
            return (empty_state(f"Select a program in the tree to see its details.{which}"),)
        with library.opened(view["report"]) as report:
            return (program_panel(node(report, number)),)
