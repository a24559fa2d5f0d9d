"""Program Tree: the program's steps, loaded one level at a time."""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, html

from tilescope.analyser.diff import pair_path
from tilescope.analyser.memory.program_code import program_code
from tilescope.analyser.program.programs import node
from tilescope.reports import Report
from tilescope.reports.schema.vocabulary import CONTROL, PHASE_LABELS
from tilescope.webapp.answer import answer
from tilescope.webapp.browser import connect, marked
from tilescope.webapp.components.controls import choice, tabs, text_box
from tilescope.webapp.components.links import reports_of
from tilescope.webapp.components.panels import empty_state, guarded
from tilescope.webapp.library import Library
from tilescope.webapp.pages.program_panels import PROGRAM_TABS, program_tab
from tilescope.webapp.view import Parameter, parse_number, view_store

__all__ = ["ICON", "PANELS", "PATH", "TITLE", "VIEW", "layout", "register"]

PATH = "/programs"
TITLE = "Program Tree"
ICON = "programs"
VIEW = (
    Parameter("find", "", "programs-find"),
    Parameter("layer", "none", "programs-layer"),
    Parameter("tab", "cost", "programs-tabs"),
    Parameter("node", selects="program"),
    Parameter("open"),
)
PANELS = {"details": ("tab", "node")}

#: Layers of debug contexts whose other programs are highlighted.
_LAYER_LABELS = {
    "none": "None",
    "model": "Node of the model",
    "library": "Library call",
    "poplar": "Poplar",
}
_LEGEND = {CONTROL: "Control", **PHASE_LABELS}


def layout() -> html.Div:
    """Return the page without content."""
    toolbar = html.Div(
        [
            text_box("programs-find", "Search", "kind or name", width="260px", is_search=True),
            html.Button("Previous", id="programs-back", className="text-button"),
            html.Button("Next", id="programs-next", className="text-button"),
            html.Span(id="programs-note", className="grid-note", role="status"),
            choice("programs-layer", "Highlight the steps of its", list(_LAYER_LABELS.items())),
            html.Span(id="programs-associated", className="grid-note", role="status"),
        ],
        className="toolbar",
    )
    legend = html.Div(
        [
            html.Span([html.Span(className=f"swatch phase-{phase}"), label])
            for phase, label in _LEGEND.items()
        ]
        + [html.Span(id="programs-cycles")],
        className="legend",
    )
    tree = html.Div(
        id="program-tree",
        className="tree",
        role="tree",
        tabIndex="0",
    )
    marked(tree, aria_label="Programs")
    menu = marked(html.Nav(id="program-roots", className="program-roots"), aria_label="Programs")
    details = [
        tabs("programs-tabs", [(tab, title, html.Div()) for tab, title in PROGRAM_TABS]),
        guarded("programs-error", html.Div(id="programs-details")),
    ]
    return html.Div(
        [
            html.Div(
                [toolbar, html.Div([menu, tree], className="tree-and-roots"), legend],
                className="card tree-card",
            ),
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
        Input(view_store("programs", "details"), "data"),
    )
    def show_details(view: dict[str, str]) -> tuple[Any]:
        side, text = (1, view["node"][1:]) if view["node"].startswith("c") else (0, view["node"])
        number = parse_number({"node": text}, "node", noun="program", hint="select one")
        if number is None:
            return (empty_state("Select a program in the tree to see its details."),)
        return (_details(library, view, side, number),)


def _details(library: Library, view: dict[str, str], side: int, number: int) -> Any:
    """Return the chosen tab of a program, of two reports beside each other."""
    if not view["with"]:
        with library.opened(view["report"]) as report:
            return _tab(report, number, view, "")
    with library.opened(view["report"]) as first, library.opened(view["with"]) as second:
        path = pair_path(first, second, side, number)
        program_id = path[-1][0] if path else None
        nodes = (program_id.baseline, program_id.candidate) if program_id else (None, None)
        blocks = [
            _tab(report, node.program_id, view, name)
            if node is not None
            else html.Div(
                [
                    html.Span(name, className=f"side-mark side-{name.lower()}"),
                    empty_state(f"The {name.lower()} does not have this program."),
                ]
            )
            for name, report, node in zip(
                ("Baseline", "Candidate"), (first, second), nodes, strict=True
            )
        ]
    return html.Div(blocks, className="program-sides")


def _tab(report: Report, number: int, view: dict[str, str], side: str) -> html.Div:
    """Return the chosen tab of a program of one report; links of the candidate stand alone."""
    reports = {"report": view["with"]} if side == "Candidate" else reports_of(view)
    code = program_code(report, number)
    return program_tab(node(report, number), code, view["tab"], reports, side)
