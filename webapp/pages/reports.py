"""Reports: all that are served, each with the facts by which it is told apart."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from dash import Dash, Input, Output, html

from tilescope.analyser.errors import AnalyserError
from tilescope.analyser.overview import ReportOverview, report_overview
from tilescope.analyser.quantities import MISSING, format_bytes, format_count
from tilescope.reports import open_report
from tilescope.reports.catalogue import FoundReport
from tilescope.reports.errors import ReportError
from tilescope.webapp.answer import answer
from tilescope.webapp.browser import marked
from tilescope.webapp.components.controls import text_box
from tilescope.webapp.components.links import page_link, tile_link
from tilescope.webapp.components.panels import empty_state, guarded
from tilescope.webapp.components.tables import plain_table
from tilescope.webapp.library import Library
from tilescope.webapp.stamps import Stamp, file_stamp
from tilescope.webapp.view import Parameter, view_store

__all__ = ["ICON", "PATH", "TITLE", "VIEW", "Overviews", "layout", "register"]

PATH = "/reports"
TITLE = "Reports"
ICON = "reports"
VIEW = (Parameter("find", "", "reports-find"),)

#: Reports that are listed; each of them is opened once.
_MOST_REPORTS = 200
_HEADS = (
    "Compare",
    "Report",
    "Model",
    "Machine",
    "Written (UTC)",
    "Size",
    "Runs",
    "Cycles",
    "Fullest tile",
    "Holds",
    "State",
)


class Overviews:
    """The lines of reports, read once for every state of a file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Stamp, ReportOverview | str]] = {}

    def of(self, entry: FoundReport) -> ReportOverview | str:
        """Return the line of a report, or why it cannot be read."""
        stamp = file_stamp(entry.path)
        with self._lock:
            known = self._known.get(entry.report_id)
        if known is not None and known[0] == stamp and entry.is_complete_guess:
            return known[1]
        line = _read(entry)
        with self._lock:
            self._known[entry.report_id] = stamp, line
        return line


def _read(entry: FoundReport) -> ReportOverview | str:
    """Return the line of a report, or a sentence without its path."""
    try:
        with open_report(entry.path) as report:
            return report_overview(report)
    except (ReportError, AnalyserError, OSError):
        return "damaged" if entry.is_damaged_guess else "cannot be read"


def layout() -> html.Div:
    """Return the page without content."""
    toolbar = html.Div(
        [
            text_box("reports-find", "Find reports", "name, model or machine", is_search=True),
            html.Div("Tick two to compare them.", className="grid-note"),
        ],
        className="toolbar",
    )
    body = guarded("reports-error", html.Div(id="reports-body"))
    return html.Div(html.Div([toolbar, body], className="card"), className="stack")


def register(app: Dash, library: Library) -> None:
    """Connect the page."""
    overviews = Overviews()

    @answer(
        app,
        "reports-error",
        [Output("reports-body", "children")],
        Input(view_store("reports"), "data"),
    )
    def show_reports(view: dict[str, str]) -> tuple[Any]:
        entries = library.found()
        if not entries:
            return (empty_state("No report is below the folders that are served."),)
        lines = [(entry, overviews.of(entry)) for entry in entries[:_MOST_REPORTS]]
        wanted = view["find"].strip().lower()
        found = [(entry, line) for entry, line in lines if wanted in _words(entry, line)]
        if not found:
            return (empty_state("No report matches; clear the filter to see all."),)
        table = plain_table(_HEADS, [_row(*one) for one in found], numbers=(5, 6, 7, 8, 9))
        return ([table, html.Div(_note(len(found), len(entries)), className="grid-note")],)


def _words(entry: FoundReport, line: ReportOverview | str) -> str:
    """Return what a filter looks through."""
    known = [line] if isinstance(line, str) else [line.model, line.machine]
    return " ".join([entry.label, *known]).lower()


def _note(n_listed: int, n_all: int) -> str:
    reports = f"{n_all:,} report{'s' * (n_all != 1)}"
    if n_all > _MOST_REPORTS:
        return f"{n_listed:,} listed of {reports}: the first {_MOST_REPORTS:,} are read."
    return f"{n_listed:,} of {reports}" if n_listed < n_all else reports


def _row(entry: FoundReport, line: ReportOverview | str) -> Sequence[Any]:
    """Return the cells of a report."""
    written = _word(datetime.fromtimestamp(entry.mtime, UTC).strftime("%Y-%m-%d %H:%M:%S"))
    size = format_bytes(entry.size_bytes)
    reports = {"report": entry.report_id}
    label = html.Span(entry.label, className="report-name")
    name = page_link(label, "/summary", reports)
    if isinstance(line, str):
        return ["", name, MISSING, MISSING, written, size, *[MISSING] * 4, _word(line)]
    ipus = f" × {line.n_ipus:,}" if line.n_ipus > 1 else ""
    tile = line.fullest_tile_id
    return [
        _tick(entry),
        name,
        _word(line.model or MISSING),
        _word(f"{line.machine}{ipus}"),
        written,
        size,
        f"{line.n_runs:,}",
        format_count(line.cycles),
        MISSING if tile is None else tile_link(f"{tile:,}", reports, tile),
        format_bytes(line.max_tile_bytes),
        _word(_state(line)),
    ]


def _word(text: str) -> html.Span:
    """Return a short text, kept on one line."""
    return html.Span(text, className="no-break")


def _tick(entry: FoundReport) -> html.Button:
    """Return the box that marks a report; two marked ones are compared (assets/shell.js)."""
    box = html.Button("", className="report-tick", type="button")
    return marked(
        box,
        data_report=entry.report_id,
        aria_pressed="false",
        aria_label=f"Compare {entry.label}",
    )


def _state(line: ReportOverview) -> str:
    """Return whether the program fits, and whether the report is whole."""
    parts = []
    if line.n_tiles_over is not None:
        over = line.n_tiles_over
        parts.append(f"{over:,} tile{'s do' if over > 1 else ' does'} not fit" if over else "fits")
    if not line.is_complete:
        parts.append("incomplete")
    return ", ".join(parts) or MISSING
