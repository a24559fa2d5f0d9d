"""Bars of coarse resolutions that a report stores of consecutive runs, found by these runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilescope.analyser.validation import require
from tilescope.reports import schema
from tilescope.reports.bars.coarse import BIN_ENTRIES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilescope.analyser.time.execution import TrackRow
    from tilescope.reports import Report

__all__ = ["Drawing", "Drawings", "Resolution"]

_Place = tuple[int, int]


class Resolution(NamedTuple):
    """Where the bars of some runs at one resolution lie: bins, rows of bars and of shares."""

    n_bins: int
    bars: _Place
    shares: _Place


class Drawing(NamedTuple):
    """The bars of consecutive runs on one track.

    Attributes
    ----------
    places
        Entries of the runs, in order of time.
    resolutions
        The finest first.
    """

    places: tuple[_Place, ...]
    resolutions: tuple[Resolution, ...]


class Drawings:
    """The stored bars of a report.

    Parameters
    ----------
    report
        The report; one of a schema before 10 stores none.
    rows
        Tracks of all runs, as they were recorded.

    Raises
    ------
    DamagedReport
        They do not belong to its runs.
    """

    def __init__(self, report: Report, rows: Sequence[TrackRow]) -> None:
        self._of_first: dict[_Place, Drawing] = {}
        stored = report.rows(schema.trace_bar)
        if not stored:
            return
        sections: dict[tuple[int, int, int, int], dict[int, Resolution]] = {}
        for _, ipu_id, track, low, high, bin_entries, n_bins, first, n, share, n_shares in stored:
            place = Resolution(max(n_bins, 1), (first, first + n), (share, share + n_shares))
            sections.setdefault((ipu_id, track, low, high), {})[bin_entries] = place
        own: dict[tuple[int, int], list[_Place]] = {}
        known: set[_Place] = set()
        for row in rows:
            if row.n_entries and row.place not in known:
                known.add(row.place)
                own.setdefault((row.ipu_id, row.track), []).append(row.place)
        firsts = {key: np.array([place[0] for place in own[key]], np.int64) for key in own}
        for (ipu_id, track, first, stop), by_bin in sections.items():
            here = own.get((ipu_id, track), [])
            low, high = np.searchsorted(firsts.get((ipu_id, track), _NONE), [first, stop]).tolist()
            places = tuple(here[low:high])
            is_sound = bool(places) and (places[0][0], places[-1][1]) == (first, stop)
            require(report, is_sound, "stored bars do not belong to its runs")
            if len(by_bin) == len(BIN_ENTRIES):
                resolutions = tuple(by_bin[number] for number in sorted(by_bin))
                self._of_first[places[0]] = Drawing(places, resolutions)

    def following(self, rows: Sequence[TrackRow], number: int) -> tuple[Drawing, int] | None:
        """Return the bars of the runs from one on, and the run after them; None for none.

        Parameters
        ----------
        rows
            Runs on one track in order of time.
        number
            The first run.
        """
        drawing = self._of_first.get(rows[number].place)
        if drawing is None:
            return None
        shift = rows[number].shift_cycles
        for place in drawing.places:
            while number < len(rows) and not rows[number].n_entries:
                number += 1
            if number == len(rows) or rows[number].place != place:
                return None
            if rows[number].shift_cycles != shift:
                return None
            number += 1
        return drawing, number


_NONE: NDArray[np.int64] = np.zeros(0, np.int64)
