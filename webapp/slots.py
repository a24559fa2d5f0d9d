"""The places of the pages in the document: a page is mounted on its first visit, then kept.

``assets/router.js`` shows one place and hides the others. It asks for a page by writing the store
``mount-<name>``, and tells a mounted page about its address in the store ``address-<name>``.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, html

from tilescope.webapp.browser import Store, connect
from tilescope.webapp.view import view_stores

__all__ = ["layout", "register_slots"]


def layout(pages: Sequence[ModuleType]) -> dmc.MantineProvider:
    """Return the empty places of all pages."""
    names = [page.PATH.strip("/") for page in pages]
    return dmc.MantineProvider(
        [
            Store(id="start", data=True),
            *(Store(id=f"mount-{name}") for name in names),
            *(html.Div(id=f"page-{name}", className="page", hidden=True) for name in names),
        ],
        theme={
            "fontFamily": "var(--font)",
            "fontFamilyMonospace": "var(--mono)",
            "primaryColor": "blue",
            "defaultRadius": "sm",
        },
        defaultColorScheme="auto",
    )


def register_slots(app: Dash, pages: Sequence[ModuleType]) -> None:
    """Connect the places: the router starts with Dash, and pages are mounted when it asks."""
    connect(app, "router.start", Input("start", "data"))
    for page in pages:
        _register_slot(app, page)


def _register_slot(app: Dash, page: ModuleType) -> None:
    name = page.PATH.strip("/")

    @app.callback(
        Output(f"page-{name}", "children"),
        Input(f"mount-{name}", "data"),
        prevent_initial_call=True,
    )
    def mount(_requested: Any) -> list[Any]:
        """Return the page without content."""
        stores = view_stores(name, page)
        return [*stores, html.H1(page.TITLE, className="unseen"), page.layout()]
