"""The home page: all reports that are served, each with the facts by which it is told apart."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from tilescope.analyser.errors import AnalyserError
from tilescope.analyser.quantities import MISSING, format_bytes, format_count
from tilescope.analyser.summary.overview import ReportOverview, report_overview
from tilescope.reports import open_report
from tilescope.reports.catalogue import FoundReport
from tilescope.reports.errors import ReportError, ReportNotFound
from tilescope.webapp.library import Library
from tilescope.webapp.report_states import ReportStates, ServedState
from tilescope.webapp.stamps import Stamp, file_stamp

__all__ = ["HEADS", "Cell", "Head", "Overviews", "home_values", "is_settled", "overview_cells"]

#: Reports that are listed.
MOST_REPORTS = 200


@dataclass(frozen=True)
class Head:
    """The heading of a column."""

    name: str
    label: str
    is_number: bool = False


@dataclass(frozen=True)
class Cell:
    """A cell of a report's row; ``href`` leads to the page that shows more."""

    name: str
    text: str
    href: str = ""


HEADS = (
    Head("report", "Report"),
    Head("model", "Model"),
    Head("machine", "Machine"),
    Head("written", "Written (UTC)"),
    Head("size", "Size", is_number=True),
    Head("runs", "Runs", is_number=True),
    Head("cycles", "Cycles", is_number=True),
    Head("tile", "Fullest tile", is_number=True),
    Head("holds", "Holds", is_number=True),
    Head("state", "State"),
)
_NUMBERS = {head.name for head in HEADS if head.is_number}


class Overviews:
    """The facts of reports, read once for every stamp of a file.

    Parameters
    ----------
    states : ReportStates
        Of the library.
    """

    def __init__(self, states: ReportStates) -> None:
        self.states = states
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Stamp, ReportOverview | None]] = {}

    def known(self, entry: FoundReport) -> ReportOverview | None:
        """Return the facts of a report if they were read from its file as it is now."""
        known = self._current(entry)
        return None if known is None else known[1]

    def of(self, entry: FoundReport) -> ReportOverview | None:
        """Return the facts of a report, nothing if it cannot be read."""
        known = self._current(entry)
        if known is not None:
            return known[1]
        stamp = file_stamp(entry.path)
        line = _read(entry, stamp, self.states)
        with self._lock:
            self._known[entry.report_id] = stamp, line
        return line

    def _current(self, entry: FoundReport) -> tuple[Stamp, ReportOverview | None] | None:
        with self._lock:
            known = self._known.get(entry.report_id)
        return None if known is None or known[0] != file_stamp(entry.path) else known


def home_values(library: Library, overviews: Overviews) -> dict[str, Any]:
    """Return the values of the template ``home.html``."""
    entries = library.found()
    rows = [
        {
            "id": entry.report_id,
            "label": entry.label,
            "is_damaged": entry.is_damaged_guess,
            "cells": [
                asdict(cell) | {"is_number": cell.name in _NUMBERS}
                for cell in _cells(entry, overviews)
            ],
        }
        for entry in entries[:MOST_REPORTS]
    ]
    return {"heads": HEADS, "rows": rows, "note": _note(len(entries)), "demo": _demo(library)}


def _demo(library: Library) -> dict[str, str] | None:
    """Return the id of the demo report, None if there is none."""
    found = library.demo()
    return None if found is None else {"id": found.report_id}


def overview_cells(entry: FoundReport, overviews: Overviews) -> list[Cell]:
    """Return the cells of a report that take opening it."""
    line = overviews.of(entry)
    try:
        state = overviews.states.of(entry)
    except ReportNotFound:
        state = ServedState("gone")
    return _facts(entry, line, state)


def is_settled(entry: FoundReport, overviews: Overviews) -> bool:
    """Return whether the cells of a report stay as they are while its file does."""
    states = overviews.states
    return not (states.at_a_glance(entry).is_running or states.is_pending(entry))


def _read(entry: FoundReport, stamp: Stamp, states: ReportStates) -> ReportOverview | None:
    """Return the facts of a report, None if it has none; its state is verified or will be."""
    try:
        with open_report(entry.path, name=entry.label) as report:
            report.verify_if_small()
            try:
                return report_overview(report)
            finally:
                states.note(entry, stamp, report, is_next=False)
    except (ReportError, AnalyserError, OSError):
        return None


def _note(n_reports: int) -> str:
    reports = f"{n_reports:,} report{'s' * (n_reports != 1)}"
    return f"The first {MOST_REPORTS:,} of {reports}" if n_reports > MOST_REPORTS else reports


def _cells(entry: FoundReport, overviews: Overviews) -> list[Cell]:
    """Return all cells of a report but its name, in the order of the columns."""
    written = datetime.fromtimestamp(entry.mtime, UTC).strftime("%Y-%m-%d %H:%M:%S")
    cells = {head.name: Cell(head.name, "…") for head in HEADS[1:]}
    known = [Cell("written", written), Cell("size", format_bytes(entry.size_bytes))]
    line, state = overviews.known(entry), overviews.states.at_a_glance(entry)
    if line is not None:
        known += _facts(entry, line, state)
    elif not state.is_complete:
        known.append(Cell("state", state.label))
    cells |= {cell.name: cell for cell in known}
    return list(cells.values())


def _facts(entry: FoundReport, line: ReportOverview | None, state: ServedState) -> list[Cell]:
    """Return the cells of what was read from a report."""
    if line is None:
        names = ("model", "machine", "runs", "cycles", "tile", "holds")
        return [*(Cell(name, MISSING) for name in names), Cell("state", state.label)]
    ipus = f" × {line.n_ipus:,}" if line.n_ipus > 1 else ""
    tile = line.fullest_tile_id
    return [
        Cell("model", line.model or MISSING),
        Cell("machine", f"{line.machine}{ipus}"),
        Cell("runs", f"{line.n_runs:,}"),
        _linked("cycles", format_count(line.cycles), "/trace", entry),
        Cell("tile", MISSING)
        if tile is None
        else _linked("tile", f"{tile:,}", "/memory", entry, tiles=f"{tile}", select=f"tile:{tile}"),
        _linked("holds", format_bytes(line.max_tile_bytes), "/memory", entry),
        _linked("state", _state(line, state), "/insights", entry),
    ]


def _linked(name: str, text: str, path: str, entry: FoundReport, **parameters: str) -> Cell:
    """Return a cell that leads to a page of its report; a missing fact leads nowhere."""
    if text == MISSING:
        return Cell(name, text)
    query = urlencode({"report": entry.report_id, **parameters}, safe=":,")
    return Cell(name, text, f"{path}?{query}")


def _state(line: ReportOverview, state: ServedState) -> str:
    """Return the state of the report unless it is complete, and whether the program fits."""
    parts = [] if state.is_complete else [state.label]
    if line.n_tiles_over is not None:
        over = line.n_tiles_over
        parts.append(f"{over:,} tile{'s do' if over > 1 else ' does'} not fit" if over else "fits")
    return ", ".join(parts) or state.label
