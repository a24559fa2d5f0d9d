"""Panels, headlines, notices, empty states and error panels."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from dash import html
from dash.development.base_component import Component

from tilescope.webapp.errors import Failure

__all__ = [
    "empty_state",
    "error_panel",
    "error_slot",
    "guarded",
    "headline",
    "icon",
    "notice_bar",
    "panel",
]


def icon(name: str) -> html.Span:
    """Return a decorative icon in the colour of the text."""
    url = f"url(/assets/icons/{name}.svg)"
    return html.Span(className="icon", style={"maskImage": url, "WebkitMaskImage": url})


def error_panel(failure: Failure) -> html.Div:
    """Return a failure's message; of one of our own making, its type as well."""
    return html.Div(
        [
            html.Span("!", className="error-mark"),
            html.Div(
                [
                    html.P(failure.message),
                    *([html.P(failure.detail, className="error-code")] if failure.detail else []),
                ]
            ),
        ],
        className="error-panel",
        role="alert",
    )


def error_slot(slot_id: str) -> html.Div:
    """Return the placeholder of an error panel; guarded content is hidden while it shows one."""
    return html.Div(id=slot_id, className="error-slot")


def guarded(slot_id: str, *content: Component) -> html.Div:
    """Return content that an error panel replaces."""
    return html.Div(
        [error_slot(slot_id), html.Div(list(content), className="guarded-content")],
        className="guarded",
    )


def empty_state(sentence: str) -> html.Div:
    """Return a hint for an empty area: what to do next."""
    return html.Div(sentence, className="empty-state")


def notice_bar(severity: str, message: str) -> html.Div:
    """Return one notice with its severity as a word.

    Indented lines are details: they keep their line breaks and open on a click.
    """
    body: list[Any] = []
    for is_particular, lines in groupby(message.splitlines(), lambda line: line.startswith(" ")):
        if is_particular:
            particulars = html.Div("\n".join(lines), className="as-lines")
            body.append(html.Details([html.Summary("Particulars"), particulars]))
        else:
            body += [html.P(line) for line in lines]
    return html.Div(
        [html.Strong(severity.capitalize()), html.Div(body)],
        className=f"notice notice-{severity}",
        role="status",
    )


def headline(value: str, caption: str, *, exact: str = "", side: str = "") -> html.Div:
    """Return a chart's headline number with its caption; the exact value is a tooltip.

    ``side`` is Baseline or Candidate in a comparison of two reports.
    """
    parts = [html.Span(value, className="headline-value"), html.Span(caption)]
    if side:
        parts.insert(0, html.Span(side, className=f"side-mark side-{side.lower()}"))
    return html.Div(parts, className="headline", title=exact)


def panel(title: str, *content: Any, panel_id: str = "", extra: Any = None) -> html.Section:
    """Return a titled block that collapses; the browser remembers its state."""
    body = html.Div(list(content), className="panel-body")
    summary = html.Summary([html.Span(title, className="panel-title"), extra])
    attributes: dict[str, Any] = {"open": True, "className": "panel"}
    if panel_id:
        attributes["id"] = panel_id
    return html.Section(html.Details([summary, body], **attributes))
