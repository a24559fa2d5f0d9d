"""Commands that a page offers to copy."""

from __future__ import annotations

from dash import html

from tilescope.webapp.browser import marked

__all__ = ["copied_command"]


def copied_command(command: str) -> html.Div:
    """Return a command with a button that copies it."""
    button = html.Button("Copy", className="copy-button")
    copies = marked(button, data_copy=command, aria_label="Copy the command")
    return html.Div([html.Code(command), copies], className="command")
