"""The frame of every page: menu, header with the loaded reports, help, and the not-found page."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import dash_mantine_components as dmc
from dash import ALL, Dash, Input, Output, State, dcc, html

from tilescope.webapp.api.reports import listing
from tilescope.webapp.browser import connect, marked
from tilescope.webapp.components.panels import empty_state, icon
from tilescope.webapp.help import Fidelity, help_panel
from tilescope.webapp.library import Library
from tilescope.webapp.view import view_stores

__all__ = ["index_page", "layout", "register_shell"]

_INDEX = """<!DOCTYPE html>
<html lang="en">
<head>
{%metas%}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{%title%}</title>
<link rel="icon" type="image/svg+xml" href="/assets/icons/tilescope.svg">
<script src="/assets/theme.js"></script>
{%css%}
</head>
<body>
{%app_entry%}
<footer>{%config%}{%scripts%}{%renderer%}</footer>
</body>
</html>"""


def index_page() -> str:
    """Return the HTML around the app; it sets the colour scheme before the first paint."""
    return _INDEX


def layout(
    library: Library, pages: Sequence[ModuleType], fidelity: Fidelity | None = None
) -> dmc.MantineProvider:
    """Return the whole layout; the list of reports is reread on every page load."""
    reports = listing(library)
    choices = [{"value": entry["id"], "label": _choice(entry)} for entry in reports]
    stores: list[Any] = [
        dcc.Location(id="url", refresh=False),
        dcc.Store(id="listing", data=reports),
        dcc.Store(id="paths", data=[page.PATH for page in pages]),
    ]
    for page in pages:
        stores += view_stores(page.PATH.strip("/"), page.PATH, getattr(page, "VIEW", ()))
    return dmc.MantineProvider(
        [
            *stores,
            html.A("Skip to content", href="#content", className="skip-link"),
            html.Div(
                [_header(choices), _menu(pages), _main(pages)],
                className="frame",
            ),
            help_panel(fidelity),
        ],
        theme={
            "fontFamily": "var(--font)",
            "fontFamilyMonospace": "var(--mono)",
            "primaryColor": "blue",
            "defaultRadius": "sm",
        },
        defaultColorScheme="auto",
    )


def register_shell(app: Dash, pages: Sequence[ModuleType], library: Library) -> None:
    """Connect the frame; routing and the report menus run entirely in the browser."""
    del pages, library
    connect(
        app,
        "shell.route",
        Output({"type": "page", "path": ALL}, "style"),
        Output("unknown-page", "style"),
        Output({"type": "menu-link", "path": ALL}, "href"),
        Output({"type": "menu-link", "path": ALL}, "className"),
        Input("url", "pathname"),
        Input("url", "search"),
        State("paths", "data"),
    )
    connect(
        app,
        "shell.reports",
        Output("report-baseline", "value"),
        Output("report-candidate", "value"),
        Input("url", "search"),
        State("listing", "data"),
    )
    connect(
        app,
        "shell.choose",
        Input("report-baseline", "value"),
        Input("report-candidate", "value"),
        State("listing", "data"),
        prevent_initial_call=True,
    )
    for button, function in (
        ("swap-button", "swap"),
        ("scheme-button", "scheme"),
        ("menu-button", "menu"),
    ):
        connect(
            app,
            f"shell.{function}",
            Input(button, "n_clicks"),
            State("listing", "data"),
            prevent_initial_call=True,
        )
    connect(
        app,
        "shell.copy",
        Output("copy-note", "children"),
        Input("copy-button", "n_clicks"),
        prevent_initial_call=True,
    )
    connect(
        app,
        "shell.help",
        Output("help", "opened"),
        Input("help-button", "n_clicks"),
        State("help", "opened"),
        prevent_initial_call=True,
    )


def _choice(entry: dict[str, Any]) -> str:
    """Return the label of a report in the menus."""
    if entry["is_damaged"]:
        return f"{entry['label']} (damaged file)"
    return str(entry["label"]) + ("" if entry["is_complete"] else " (incomplete run)")


def _header(choices: list[dict[str, str]]) -> html.Header:
    """Return the header with the loaded reports."""
    return html.Header(
        [
            html.Span([icon("tilescope"), html.B("TileScope")], className="brand"),
            html.Div(
                [
                    _report_menu("report-baseline", "Baseline", choices, clearable=False),
                    _button("swap-button", "swap", "Swap baseline and candidate"),
                    _report_menu("report-candidate", "Candidate", choices, clearable=True),
                ],
                className="report-menus",
            ),
            html.Div(
                [
                    html.Span(id="copy-note", className="copy-note", role="status"),
                    _button("copy-button", "link", "Copy a link to this view"),
                    _button("scheme-button", "contrast", "Light or dark colour scheme"),
                    _button("help-button", "help", "Help (?)"),
                ],
                className="header-buttons",
            ),
        ],
        className="header",
    )


def _report_menu(
    component_id: str, label: str, choices: list[dict[str, str]], *, clearable: bool
) -> html.Label:
    """Return a labelled menu of reports."""
    return html.Label(
        [
            html.Span(label, className=f"report-label report-label-{label.lower()}"),
            dmc.Select(
                id=component_id,
                data=choices,
                clearable=clearable,
                searchable=True,
                allowDeselect=False,
                size="xs",
                placeholder="Compare with …" if clearable else "No report",
                nothingFoundMessage="No matching report",
                comboboxProps={"width": "max-content", "position": "bottom-start"},
                className="report-select",
                **{"aria-label": f"{label} report"},
            ),
        ],
        className="report-menu",
    )


def _button(component_id: str, picture: str, label: str) -> html.Button:
    """Return an icon button with a tooltip and an accessible name."""
    button = html.Button(
        icon(picture), id=component_id, className="icon-button", title=label, n_clicks=0
    )
    return marked(button, aria_label=label)


def _menu(pages: Sequence[ModuleType]) -> html.Nav:
    """Return the side menu."""
    links = [
        dcc.Link(
            [icon(page.ICON), html.Span(page.TITLE, className="menu-text")],
            id={"type": "menu-link", "path": page.PATH},
            href=page.PATH,
            className="menu-link",
            title=page.TITLE,
        )
        for page in pages
    ]
    menu = html.Nav(
        [*links, html.Div(className="menu-space"), _button("menu-button", "collapse", "Menu")],
        className="menu",
    )
    return marked(menu, aria_label="Pages")


def _main(pages: Sequence[ModuleType]) -> html.Main:
    """Return all pages; routing shows one and hides the others."""
    shown = [
        html.Div(
            [html.H1(page.TITLE, className="unseen"), page.layout()],
            id={"type": "page", "path": page.PATH},
            className="page",
            style={"display": "none"},
        )
        for page in pages
    ]
    unknown = html.Div(
        empty_state("Page not found. Choose one in the menu on the left."),
        id="unknown-page",
        className="page",
        style={"display": "none"},
    )
    return html.Main([*shown, unknown], id="content", className="content")
