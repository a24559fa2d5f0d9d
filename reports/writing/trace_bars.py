"""Writes bars of coarse resolutions of long traces, beside their entries."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilescope.reports.bars.coarse import (
    BIN_ENTRIES,
    LONG_TRACE_ENTRIES,
    MOST_ENTRIES,
    SECTION_ENTRIES,
    BarColumns,
    Entries,
    StepLooks,
    coarse_bars,
    columns_of_bars,
)
from tilescope.reports.errors import ReportError
from tilescope.reports.reading.open import open_report
from tilescope.reports.reading.step_looks import step_looks
from tilescope.reports.schema import BAR_COLUMNS, BAR_SHARE_COLUMNS, trace_bar
from tilescope.reports.writing.writer import ReportWriter

__all__ = ["BarWriter"]

#: Entries that wait until they are drawn, over all tracks.
_WAITING_ENTRIES = 1 << 19
#: Bars of the coarsest resolution that are written together.
_BARS_AT_A_TIME = 1 << 16

_Key = tuple[int, int]


@dataclass
class _Section:
    """Consecutive runs on one track whose entries are stored: place of the first and the last."""

    first_entry: int
    stop_entry: int = 0
    n_entries: int = 0
    runs: list[Entries] = field(default_factory=list)


class BarWriter:
    """Writes the bars of tracks as their entries are stored, once there are many entries.

    Parameters
    ----------
    writer
        Writer of the report, whose steps are committed when there are many entries.
    """

    def __init__(self, writer: ReportWriter) -> None:
        self._open_writer = weakref.ref(writer)
        self._n_entries = self._n_bars = self._n_shares = 0
        self._open: dict[_Key, _Section] = {}
        self._keys: set[_Key] = set()
        #: Complete sections, until there are many entries.
        self._complete: list[tuple[_Key, _Section]] = []
        #: Rows of trace_bar and bars of the coarsest resolution, which are written together.
        self._coarse: list[tuple[dict[str, int], BarColumns]] = []
        self._looks: StepLooks | None = None
        self._is_without_steps = False

    def add(
        self, key: _Key, columns: Mapping[str, NDArray[np.int64]], place: tuple[int, int]
    ) -> None:
        """Add a run whose entries are stored.

        Parameters
        ----------
        key
            IPU and track.
        columns
            Columns of the trace by name, from cycle 0.
        place
            Its first entry, and its start in cycles.
        """
        first, start = place
        n_entries = len(columns["step_id"])
        self._n_entries += n_entries
        self._keys.add(key)
        if not n_entries or self._is_without_steps:
            return
        if n_entries > MOST_ENTRIES:
            self.end(key)
            return
        section = self._open.setdefault(key, _Section(first))
        section.runs.append(
            Entries(
                columns["step_id"].astype(np.int32),
                columns["start_cycle"] + start,
                columns["end_cycle"] + start,
                columns["period"].astype(np.int64),
                columns["count"].astype(np.int32),
            )
        )
        section.stop_entry = first + n_entries
        section.n_entries += n_entries
        if section.n_entries >= min(SECTION_ENTRIES, _WAITING_ENTRIES // len(self._keys)):
            self.end(key)

    def end(self, key: _Key) -> None:
        """End the section of a track: its next run is not stored, or has no bars."""
        section = self._open.pop(key, None)
        if section is not None:
            self._complete.append((key, section))
        if self._n_entries > LONG_TRACE_ENTRIES:
            self._write_complete()

    @property
    def is_waiting(self) -> bool:
        """Whether some section is not complete."""
        return bool(self._open)

    def finish(self) -> None:
        """Write what waits."""
        for key in sorted(self._open):
            self.end(key)
        self._write_coarse()

    def _write_complete(self) -> None:
        """Write the bars of complete sections."""
        for key, section in self._complete:
            looks = self._step_looks()
            if looks is not None:
                self._write(key, section, looks)
        self._complete.clear()

    def _step_looks(self) -> StepLooks | None:
        """Return name and kind of the steps; None if they are not committed."""
        if self._looks is None and not self._is_without_steps:
            try:
                with open_report(self._writer().path) as report:
                    self._looks = step_looks(report)
            except ReportError:
                self._is_without_steps = True
        return self._looks

    def _write(self, key: _Key, section: _Section, looks: StepLooks) -> None:
        """Write the bars of a section; those of the coarsest resolution wait."""
        resolutions = coarse_bars(section.runs, looks)
        for bin_entries, (n_bins, levels) in zip(BIN_ENTRIES, resolutions, strict=True):
            row = {
                "ipu_id": key[0],
                "track": key[1],
                "first_entry": section.first_entry,
                "stop_entry": section.stop_entry,
                "bin_entries": bin_entries,
                "n_bins": n_bins,
            }
            columns = columns_of_bars(levels)
            if bin_entries == BIN_ENTRIES[-1]:
                self._coarse.append((row, columns))
            else:
                self._append([(row, columns)])
        if sum(len(columns.bar["level"]) for _, columns in self._coarse) >= _BARS_AT_A_TIME:
            self._write_coarse()

    def _write_coarse(self) -> None:
        """Write the bars of the coarsest resolution."""
        self._append(self._coarse)
        self._coarse = []

    def _append(self, parts: list[tuple[dict[str, int], BarColumns]]) -> None:
        """Append bars to the report."""
        if not parts:
            return
        writer, rows = self._writer(), []
        for row, columns in parts:
            n_bars, n_shares = len(columns.bar["level"]), len(columns.share["kind"])
            place = {
                "first_row": self._n_bars,
                "n_rows": n_bars,
                "first_share": self._n_shares,
                "n_shares": n_shares,
            }
            rows.append(row | place)
            self._n_bars += n_bars
            self._n_shares += n_shares
        for group, names, part in (("bar", BAR_COLUMNS, 0), ("bar_share", BAR_SHARE_COLUMNS, 1)):
            writer.append_columns(
                group,
                {name: np.concatenate([both[part][name] for _, both in parts]) for name in names},
            )
        writer.add(trace_bar, rows)

    def _writer(self) -> ReportWriter:
        writer = self._open_writer()
        assert writer is not None, "who adds runs keeps the writer"
        return writer
