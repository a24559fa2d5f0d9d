"""Toolbar controls with a label above."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dash_mantine_components as dmc
from dash import html

from tilescope.webapp.browser import marked

__all__ = ["choice", "dropdown", "field", "switch", "tabs", "text_box"]


def field(label: str, control: Any) -> html.Label:
    """Return a control under its label."""
    return html.Label([html.Span(label), control], className="toolbar-field")


def choice(component_id: str, label: str, options: Sequence[tuple[str, str]]) -> html.Div:
    """Return a segmented control; options are pairs of value and label."""
    control = dmc.SegmentedControl(
        id=component_id,
        data=[{"value": value, "label": text} for value, text in options],
        value=options[0][0],
        size="xs",
    )
    group = html.Div([html.Span(label), control], className="toolbar-field", role="group")
    return marked(group, aria_label=label)


def switch(component_id: str, label: str) -> dmc.Switch:
    """Return a switch with its label beside it."""
    return dmc.Switch(
        id=component_id, label=label, size="xs", checked=False, className="toolbar-switch"
    )


def text_box(
    component_id: str,
    label: str,
    placeholder: str,
    *,
    width: str = "220px",
    is_search: bool = False,
) -> html.Label:
    """Return a text box that reports its text half a second after the last key press."""
    box = dmc.TextInput(
        id=component_id,
        placeholder=placeholder,
        debounce=400,
        size="xs",
        w=width,
        value="",
    )
    name = "toolbar-field search-box" if is_search else "toolbar-field"
    return html.Label([html.Span(label), box], className=name)


def tabs(component_id: str, entries: Sequence[tuple[str, str, Any]]) -> dmc.Tabs:
    """Return tabs; entries are value, label and content.

    Only the visible tab is mounted, which speeds up page load; Dash keeps the state of the others.
    """
    return dmc.Tabs(
        [
            dmc.TabsList([dmc.TabsTab(label, value=value) for value, label, _ in entries]),
            *(
                dmc.TabsPanel(content, value=value, className="tab-panel")
                for value, _, content in entries
            ),
        ],
        id=component_id,
        value=entries[0][0],
        keepMounted=False,
        variant="default",
    )


def dropdown(
    component_id: str, label: str, options: Sequence[tuple[str, str]], *, width: str = "130px"
) -> html.Label:
    """Return a drop-down menu; options are pairs of value and label."""
    menu = dmc.Select(
        id=component_id,
        data=[{"value": value, "label": text} for value, text in options],
        value=options[0][0],
        allowDeselect=False,
        size="xs",
        w=width,
    )
    return field(label, menu)
