"""The home page: all reports that are served, each with the facts by which it is told apart."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tilescope.analyser.catalogue.catalogue import Catalogue, CataloguedReport
from tilescope.analyser.catalogue.file_state import FileState
from tilescope.analyser.catalogue.listing import read_overview
from tilescope.analyser.quantities import MISSING, format_bytes, format_count, format_moment
from tilescope.analyser.search import search_words, words_fit
from tilescope.analyser.summary.overview import ReportOverview
from tilescope.reports import State
from tilescope.reports.discovery import FoundReport
from tilescope.reports.errors import ReportNotFound
from tilescope.reports.stamp import Stamp, file_stamp
from tilescope.webapp.library import Library
from tilescope.webapp.report_states import ReportStates

__all__ = ["HEADS", "MOST_REPORTS", "Cell", "Head", "Overviews", "home_values", "overview_cells"]

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
    """The facts of reports, read once for every stamp of a file, by any process of the user.

    Parameters
    ----------
    states : ReportStates
        Of the library.
    catalogue : Catalogue or None
        Where facts are kept from one process to the next; None keeps them in this one only.
    """

    def __init__(self, states: ReportStates, catalogue: Catalogue | None = None) -> None:
        self.states = states
        self._catalogue = catalogue
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Stamp, ReportOverview | None]] = {}
        self._unsaved: list[FoundReport] = []
        states.on_damage = self._note_damage

    def load(self, entries: Sequence[FoundReport]) -> None:
        """Take from the catalogue what it knows of reports that were not read by this process."""
        if self._catalogue is None:
            return
        with self._lock:
            unknown = [entry for entry in entries if entry.report_id not in self._known]
        stamps = {entry.path: file_stamp(entry.path) for entry in unknown}
        known = self._catalogue.known(stamps)
        for entry in unknown:
            row = known.get(entry.path)
            if row is not None:
                self.states.note_catalogued(entry, row.stamp, row.state)
                with self._lock:
                    self._known.setdefault(entry.report_id, (row.stamp, row.overview))

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
        overview = read_overview(
            entry.path,
            entry.label,
            lambda report: self.states.note(entry, stamp, report, is_next=False),
        )
        with self._lock:
            self._known[entry.report_id] = stamp, overview
            self._unsaved.append(entry)
        return overview

    def is_settled(self, entry: FoundReport) -> bool:
        """Return whether the facts of a report are known and stay while its file does."""
        is_known = self._current(entry) is not None
        state = self.states.at_a_glance(entry)
        return is_known and not (state.is_running or self.states.is_pending(entry))

    def keep(self) -> None:
        """Keep what was read for later processes, except what may change by itself."""
        with self._lock:
            entries, self._unsaved = self._unsaved, []
        rows = []
        for entry in entries:
            known = self._current(entry)
            state = self.states.at_a_glance(entry)
            if known is not None and not state.is_running:
                rows.append(CataloguedReport(entry.path, known[0], state.label, known[1]))
        if self._catalogue is not None:
            self._catalogue.record(rows)

    def _current(self, entry: FoundReport) -> tuple[Stamp, ReportOverview | None] | None:
        with self._lock:
            known = self._known.get(entry.report_id)
        return None if known is None or known[0] != file_stamp(entry.path) else known

    def _note_damage(self, report_id: str, path: Path, stamp: Stamp) -> None:
        """Keep that the background verification found a file damaged whose facts are known."""
        with self._lock:
            known = self._known.get(report_id)
        if self._catalogue is not None and known is not None and known[0] == stamp:
            self._catalogue.record([CataloguedReport(path, stamp, State.DAMAGED, known[1])])


def home_values(library: Library, overviews: Overviews, find: str = "") -> dict[str, Any]:
    """Return the values of the template ``home.html``.

    Parameters
    ----------
    library, overviews
        The reports and their facts.
    find
        Words: the rows have all of them.
    """
    entries = library.found()
    overviews.load(entries)
    is_cut = len(entries) > MOST_REPORTS
    words = search_words(find) if is_cut else ()  # the page filters a list that it has as a whole
    rows: list[dict[str, Any]] = []
    n_matching = 0
    for entry in entries:
        if len(rows) == MOST_REPORTS and not words:
            break
        cells = _cells(entry, overviews)
        if words and not words_fit(words, entry.label, *(cell.text for cell in cells)):
            continue
        n_matching += 1
        if len(rows) < MOST_REPORTS:
            rows.append(
                {
                    "id": entry.report_id,
                    "label": entry.label,
                    "is_damaged": entry.is_damaged_guess,
                    "is_pending": not overviews.is_settled(entry),
                    "cells": [
                        asdict(cell) | {"is_number": cell.name in _NUMBERS} for cell in cells
                    ],
                }
            )
    return {
        "heads": HEADS,
        "rows": rows,
        "n_reports": len(entries),
        "is_cut": is_cut,
        "note": _note(len(entries), n_matching if words else None),
        "demo": _demo(library),
    }


def _demo(library: Library) -> dict[str, str] | None:
    """Return the id of the demo report, None if there is none."""
    demo = library.demo()
    return None if demo is None else {"id": demo.report_id}


def overview_cells(entry: FoundReport, overviews: Overviews) -> list[Cell]:
    """Return the cells of a report that take opening it."""
    line = overviews.of(entry)
    try:
        state = overviews.states.listed(entry)
    except ReportNotFound:
        state = FileState("gone")
    return _facts(entry, line, state)


def _note(n_reports: int, n_matching: int | None) -> str:
    """Return how many reports there are, how many of them match, and how many are listed."""
    reports = f"{n_reports:,} report{'s' * (n_reports != 1)}"
    if n_matching is None:
        return f"The first {MOST_REPORTS:,} of {reports}" if n_reports > MOST_REPORTS else reports
    if not n_matching:
        return "No report matches; clear the filter to see all."
    cut = f"; the first {MOST_REPORTS:,} are listed" if n_matching > MOST_REPORTS else ""
    return f"{n_matching:,} of {reports}{cut}"


def _cells(entry: FoundReport, overviews: Overviews) -> list[Cell]:
    """Return all cells of a report but its name, in the order of the columns."""
    cells = {head.name: Cell(head.name, "…") for head in HEADS[1:]}
    known = [
        Cell("written", format_moment(entry.mtime)),
        Cell("size", format_bytes(entry.size_bytes)),
    ]
    line, state = overviews.known(entry), overviews.states.at_a_glance(entry)
    if line is not None:
        known += _facts(entry, line, state)
    elif not state.is_complete:
        known.append(Cell("state", state.label))
    cells |= {cell.name: cell for cell in known}
    return list(cells.values())


def _facts(entry: FoundReport, line: ReportOverview | None, state: FileState) -> list[Cell]:
    """Return the cells of what was read from a report."""
    if line is None:
        names = ("model", "machine", "runs", "cycles", "tile", "holds")
        return [*(Cell(name, MISSING) for name in names), Cell("state", state.label)]
    tile = line.fullest_tile_id
    return [
        Cell("model", line.model or MISSING),
        Cell("machine", line.machine_words),
        Cell("runs", f"{line.n_runs:,}"),
        _linked("cycles", format_count(line.cycles), "/trace", entry),
        Cell("tile", MISSING)
        if tile is None
        else _linked("tile", f"{tile:,}", "/memory", entry, tiles=f"{tile}", select=f"tile:{tile}"),
        _linked("holds", format_bytes(line.max_tile_bytes), "/memory", entry),
        _linked("state", line.state_words(state.label), "/insights", entry),
    ]


def _linked(name: str, text: str, path: str, entry: FoundReport, **parameters: str) -> Cell:
    """Return a cell that leads to a page of its report; a missing fact leads nowhere."""
    if text == MISSING:
        return Cell(name, text)
    query = urlencode({"report": entry.report_id, **parameters}, safe=":,")
    return Cell(name, text, f"{path}?{query}")
