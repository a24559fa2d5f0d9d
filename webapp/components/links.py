"""Links from a figure to the page that shows its cause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from dash import html

from tilescope.webapp.components.markup import PAGE_LINK

__all__ = [
    "Reports",
    "operation_link",
    "page_link",
    "program_link",
    "reports_of",
    "swapped",
    "tile_link",
    "trace_link",
    "variable_link",
]

#: The reports of a page, as parameters of an address.
Reports = Mapping[str, str]


def reports_of(view: Mapping[str, str]) -> dict[str, str]:
    """Return the reports in the state of a page."""
    return {name: view[name] for name in ("report", "with") if view.get(name)}


def page_link(content: Any, path: str, reports: Reports, **parameters: str) -> html.A:
    """Return a link to a page that shows the same reports, with parameters of that page."""
    query = urlencode({**reports, **parameters}, safe=":,/")
    return html.A(content, href=f"{path}?{query}", className=PAGE_LINK)


def trace_link(content: Any, reports: Reports, step_id: int, find: str = "") -> html.A:
    """Return a link to the first execution of a step in the trace; it highlights a name."""
    marks = {"find": find} if find else {}
    return page_link(content, "/trace", reports, **marks, at=f"step:{step_id}")


def tile_link(content: Any, reports: Reports, tile_id: int) -> html.A:
    """Return a link to what is in the memory of a tile."""
    return page_link(content, "/memory", reports, tiles=str(tile_id))


def variable_link(content: Any, reports: Reports, name: str) -> html.A:
    """Return a link to where a variable lies."""
    return page_link(content, "/memory", reports, breakdown="variables", var=name)


def operation_link(content: Any, reports: Reports, key: str) -> html.A:
    """Return a link to the details of a library call, by its key in `Operations.by_key`."""
    return page_link(content, "/operations", reports, op=key)


def program_link(content: Any, reports: Reports, program_id: int) -> html.A:
    """Return a link to a program in the tree."""
    return page_link(content, "/programs", reports, node=str(program_id))


def swapped(reports: Reports) -> dict[str, str]:
    """Return the reports with the candidate first: links to what only it has."""
    names = {"with": "report", "report": "with"}
    return {other_name: reports[name] for name, other_name in names.items() if name in reports}
