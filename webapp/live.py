"""Pages follow a report that is still being written, see ``assets/live.js``."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from dash import Dash, Input, State

from tilescope.webapp.browser import connect
from tilescope.webapp.view import view_store

__all__ = ["register_live"]


def register_live(app: Dash, pages: Sequence[ModuleType]) -> None:
    """Connect the views of all pages with the script that looks at their reports."""
    for page in pages:
        name = page.PATH.strip("/")
        connect(
            app,
            "live.note",
            Input(view_store(name), "data"),
            State(f"spec-{name}", "data"),
        )
