"""The home page: all reports that are served, each with the facts by which it is told apart."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from tilescope.analyser.errors import AnalyserError
from tilescope.analyser.overview import ReportOverview, report_overview
from tilescope.analyser.quantities import MISSING, format_bytes, format_count
from tilescope.reports import open_report
from tilescope.reports.catalogue import FoundReport
from tilescope.reports.errors import ReportError
from tilescope.webapp.library import Library
from tilescope.webapp.stamps import Stamp, file_stamp

__all__ = ["HEADS", "Cell", "Head", "Overviews", "home_values", "overview_cells"]

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
    """The facts of reports, read once for every state of a file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Stamp, ReportOverview | str]] = {}

    def known(self, entry: FoundReport) -> ReportOverview | str | None:
        """Return the facts of a report if they were read from its file as it is now."""
        with self._lock:
            known = self._known.get(entry.report_id)
        if known is None or not entry.is_complete_guess or known[0] != file_stamp(entry.path):
            return None
        return known[1]

    def of(self, entry: FoundReport) -> ReportOverview | str:
        """Return the facts of a report, or why it cannot be read."""
        known = self.known(entry)
        if known is not None:
            return known
        stamp = file_stamp(entry.path)
        line = _read(entry)
        with self._lock:
            self._known[entry.report_id] = stamp, line
        return line


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
                for cell in _cells(entry, overviews.known(entry))
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
    return _facts(entry, overviews.of(entry))


def _read(entry: FoundReport) -> ReportOverview | str:
    """Return the facts of a report, or a sentence without its path."""
    try:
        with open_report(entry.path, name=entry.label) as report:
            return report_overview(report)
    except (ReportError, AnalyserError, OSError):
        return "damaged" if entry.is_damaged_guess else "cannot be read"


def _note(n_reports: int) -> str:
    reports = f"{n_reports:,} report{'s' * (n_reports != 1)}"
    return f"The first {MOST_REPORTS:,} of {reports}" if n_reports > MOST_REPORTS else reports


def _cells(entry: FoundReport, line: ReportOverview | str | None) -> list[Cell]:
    """Return all cells of a report but its name, in the order of the columns."""
    written = datetime.fromtimestamp(entry.mtime, UTC).strftime("%Y-%m-%d %H:%M:%S")
    cells = {head.name: Cell(head.name, "…") for head in HEADS[1:]}
    known = [Cell("written", written), Cell("size", format_bytes(entry.size_bytes))]
    known += [] if line is None else _facts(entry, line)
    cells |= {cell.name: cell for cell in known}
    return list(cells.values())


def _facts(entry: FoundReport, line: ReportOverview | str) -> list[Cell]:
    """Return the cells of what was read from a report."""
    if isinstance(line, str):
        names = ("model", "machine", "runs", "cycles", "tile", "holds")
        return [*(Cell(name, MISSING) for name in names), Cell("state", line)]
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
        _linked("state", _state(line), "/insights", entry),
    ]


def _linked(name: str, text: str, path: str, entry: FoundReport, **parameters: str) -> Cell:
    """Return a cell that leads to a page of its report; a missing fact leads nowhere."""
    if text == MISSING:
        return Cell(name, text)
    query = urlencode({"report": entry.report_id, **parameters}, safe=":,")
    return Cell(name, text, f"{path}?{query}")


def _state(line: ReportOverview) -> str:
    """Return whether the program fits, and whether the report is whole."""
    parts = []
    if line.n_tiles_over is not None:
        over = line.n_tiles_over
        parts.append(f"{over:,} tile{'s do' if over > 1 else ' does'} not fit" if over else "fits")
    if not line.is_complete:
        parts.append("incomplete")
    return ", ".join(parts) or MISSING
