"""Who waits for whom: syncs across IPUs, and the IPU that arrives last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.time.execution import external_syncs
from tilescope.analyser.trace.index import Trace, trace_of
from tilescope.analyser.trace.view import checked_ipus, checked_range

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilescope.analyser.time.execution import TrackRow
    from tilescope.reports import Report
    from tilescope.reports.bars.timeline import Piece, Timeline

__all__ = ["Meetings", "Wait", "WaitList", "meetings", "waits"]

#: Most executions of syncs that are looked at.
MOST_SYNCS = 1_000_000
#: Waits that are listed unless more or fewer are asked for.
MOST_WAITS = 200


@dataclass(frozen=True)
class Wait:
    """A wait of an IPU in a sync for the one that arrives last; half-open range in its cycles.

    Attributes
    ----------
    ipu_id, step_id
        The IPU that waits, and the sync.
    start_cycle, end_cycle
        From its arrival to that of the other one.
    late_ipu_id
        The IPU that it waits for; of several that arrive last, the first.
    late_cycle
        When that one arrives, in its own cycles.
    late_step_id, late_step
        What it does before, and the name; None and empty at the begin of a run.
    """

    ipu_id: int
    step_id: int
    start_cycle: int
    end_cycle: int
    late_ipu_id: int
    late_cycle: int
    late_step_id: int | None
    late_step: str

    @property
    def cycles(self) -> int:
        """Its length."""
        return self.end_cycle - self.start_cycle


@dataclass(frozen=True)
class WaitList:
    """The longest waits that touch a range, in order of time, and what all of them are.

    ``n_waits`` and ``cycles`` are of all waits, whole, whether listed or not.
    """

    start_cycle: int
    end_cycle: int
    n_waits: int
    cycles: int
    rows: tuple[Wait, ...]


def waits(
    report: Report,
    start: int | None = None,
    end: int | None = None,
    ipus: Sequence[int] | None = None,
    *,
    limit: int = MOST_WAITS,
) -> WaitList:
    """Return the waits that touch a range, the longest of them listed.

    IPUs meet in executions of a sync that end at one cycle of their run. The last to arrive is
    waited for; an IPU arrives when its work before is done.

    Parameters
    ----------
    report
        The report.
    start, end
        Half-open range in cycles; the whole trace by default.
    ipus
        IPUs that wait, all by default.
    limit
        Most rows to list.

    Raises
    ------
    BadQuestion
        For an empty range, an unknown IPU, or a range with more than 1,000,000 executions of syncs
        across IPUs.
    """
    trace = trace_of(report)
    low, high = checked_range(trace, start, end)
    return _waits(report, low, high, tuple(checked_ipus(trace, ipus)), limit)


@cached
def _waits(report: Report, low: int, high: int, ipus: tuple[int, ...], limit: int) -> WaitList:
    """Return the waits that touch a range."""
    trace = trace_of(report)
    syncs = meetings(trace, low, high)
    if syncs is None:
        return WaitList(low, high, 0, 0, ())
    late, until = syncs.late, syncs.until
    is_wait = (syncs.arrival < until) & (syncs.arrival < high) & (until > low)
    is_wait &= np.isin(syncs.ipu, ipus)
    rows = np.flatnonzero(is_wait)
    cycles = (until - syncs.arrival)[rows]
    longest = rows[np.lexsort((syncs.ipu[rows], syncs.arrival[rows], -cycles))[:limit]]
    longest = longest[np.lexsort((syncs.ipu[longest], syncs.arrival[longest]))]
    late, names = late[longest], trace.steps.name
    columns = [
        column.tolist()
        for column in (
            syncs.ipu[longest],
            syncs.step[longest],
            syncs.arrival[longest],
            until[longest],
            syncs.ipu[late],
            syncs.arrival[late],
        )
    ]
    listed = tuple(
        Wait(*place, *(None, "") if step < 0 else (step, names[step]))
        for place, step in zip(zip(*columns, strict=True), syncs.before[late].tolist(), strict=True)
    )
    return WaitList(low, high, len(rows), int(cycles.sum()), listed)


class Meetings(NamedTuple):
    """Executions of syncs across IPUs, by what they meet in; ndarrays of shape (n,).

    Attributes
    ----------
    ipu, run, step, before : ndarray of int64
        Where and in which step; ``before`` is what the IPU did last, -1 at the begin of a run.
    arrival, until : ndarray of int64, cycles of the IPU
        When its work before is done, and when the last IPU arrives.
    late : ndarray of int64
        Index of the execution of the IPU that arrives last, the first of several.
    is_late : ndarray of bool
        Whether it is that one.
    """

    ipu: NDArray[np.int64]
    run: NDArray[np.int64]
    step: NDArray[np.int64]
    before: NDArray[np.int64]
    arrival: NDArray[np.int64]
    until: NDArray[np.int64]
    late: NDArray[np.int64]
    is_late: NDArray[np.bool_]


def meetings(trace: Trace, low: int, high: int) -> Meetings | None:
    """Return the executions of syncs across IPUs that touch a range; None where there is none.

    IPUs meet in executions of a step that end at one cycle of their run.

    Raises
    ------
    BadQuestion
        When there are more than 1,000,000.
    """
    syncs = _syncs(trace, low, high)
    if syncs is None or not len(syncs.run):
        return None
    # Every IPU counts its own cycles: those since the begin of the run compare.
    order = np.lexsort((syncs.ipu, syncs.end - syncs.begin, syncs.step, syncs.run))
    syncs = _Syncs(*(column[order] for column in syncs))
    key = np.stack([syncs.run, syncs.step, syncs.end - syncs.begin])
    first = np.flatnonzero(np.append(True, (np.diff(key) != 0).any(axis=0)))
    meeting = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(syncs.run))))
    arrival = syncs.arrival - syncs.begin
    last = np.maximum.reduceat(arrival, first)
    is_late = np.flatnonzero(arrival == last[meeting])
    late = is_late[np.searchsorted(is_late, first)][meeting]
    until = last[meeting] + syncs.begin
    return Meetings(
        syncs.ipu,
        syncs.run,
        syncs.step,
        syncs.before,
        syncs.arrival,
        until,
        late,
        late == np.arange(len(late)),
    )


class _Syncs(NamedTuple):
    """Executions of syncs across IPUs; ndarrays of int64, shape (n,), cycles of their IPU.

    ``arrival`` is when the work before is done, ``before`` its last step, -1 at the begin of a
    run; ``begin`` is when the run begins on that IPU.
    """

    ipu: NDArray[np.int64]
    run: NDArray[np.int64]
    begin: NDArray[np.int64]
    step: NDArray[np.int64]
    before: NDArray[np.int64]
    arrival: NDArray[np.int64]
    end: NDArray[np.int64]


def _syncs(trace: Trace, low: int, high: int) -> _Syncs | None:
    """Return the syncs whose waits may touch a range, with those of the IPUs that come later."""
    is_sync = external_syncs(trace.report)
    rows_of: dict[int, list[TrackRow]] = {}
    for row in trace.tracks:
        if row.track == 0:
            rows_of.setdefault(row.ipu_id, []).append(row)
    if len(rows_of) < 2 or not is_sync.any():
        return None
    tracks = [_Track(trace, ipu_id, rows) for ipu_id, rows in rows_of.items()]
    begins: dict[int, list[int]] = {}
    for track in tracks:
        for run, begin in zip(track.run.tolist(), track.begin.tolist(), strict=True):
            begins.setdefault(run, []).append(begin)
    apart = max(max(values) - min(values) for values in begins.values())
    asked = f"{low}:{high}"
    low, high = low - apart, high + apart
    for _ in range(2):  # the second time with all that end together with those of the first
        parts, n_syncs = [], 0
        for track in tracks:
            for part in track.syncs(is_sync, low, high):
                n_syncs += len(part.ipu)
                if n_syncs > MOST_SYNCS:
                    raise BadQuestion(
                        f"the range {asked} has more than {MOST_SYNCS:,} executions of syncs"
                        " across IPUs, too many to find waits in; give a shorter range"
                    )
                parts.append(part)
        last = max((int(part.end.max(initial=high)) for part in parts), default=high)
        if last <= high:
            break
        high = last + apart
    return _Syncs(*map(np.concatenate, zip(*parts, strict=True))) if parts else None


class _Track:
    """The compute track of an IPU, and when its runs begin."""

    def __init__(self, trace: Trace, ipu_id: int, rows: Sequence[TrackRow]) -> None:
        self._sections, self._ipu_id = trace.track(ipu_id, 0), ipu_id
        rows = sorted(rows, key=lambda row: row.start_cycle)
        self.run = np.array([row.run_id for row in rows], np.int64)
        self.begin = np.array([row.start_cycle for row in rows], np.int64)

    def syncs(self, is_sync: NDArray[np.bool_], low: int, high: int) -> Iterator[_Syncs]:
        """Yield the syncs that end after a cycle and whose IPU arrives before another."""
        for group in self._sections.between(low, high):
            line = group.timeline
            pieces = line.touching(low, high)
            before = _last(line, pieces.start - 1)
            hits: dict[int, NDArray[np.intp]] = {}
            # A gap before the next piece may be a wait, too.
            for number in range(pieces.start, min(pieces.stop + 1, len(line.body))):
                piece = line.bodies[int(line.body[number])].shifted(int(line.shift[number]))
                entries = slice(piece.first_entry, piece.stop_entry)
                if piece.first_entry not in hits:
                    hits[piece.first_entry] = np.flatnonzero(is_sync[line.step[entries]])
                if len(hits[piece.first_entry]):
                    yield self._of_piece(line, piece, hits[piece.first_entry], before, low, high)
                before = _last(line, number)

    def _of_piece(
        self,
        line: Timeline,
        piece: Piece,
        hits: NDArray[np.intp],
        before: tuple[int, int],
        low: int,
        high: int,
    ) -> _Syncs:
        """Return the syncs of a piece that ``before``, a step and its end, precedes."""
        rounds = _rounds(piece, low, high)
        if len(hits) * len(rounds) > MOST_SYNCS:
            rounds = range(rounds.start, rounds.start + MOST_SYNCS // len(hits) + 1)
        entries = slice(piece.first_entry, piece.stop_entry)
        start, end, step = line.start[entries], line.end[entries], line.step[entries]
        shift = piece.shift_cycles + piece.period_cycles * np.asarray(rounds, np.int64)[:, None]
        ready = np.append(end[-1] - piece.period_cycles, end[:-1])[hits] + shift
        previous = np.tile(np.append(step[-1], step[:-1])[hits], (len(rounds), 1))
        if rounds.start == 0 and rounds and hits[0] == 0:
            previous[0, 0], ready[0, 0] = before
        begins, ends = start[hits] + shift, end[hits] + shift
        place = np.searchsorted(self.begin, begins, side="right") - 1
        begin = self.begin[place]
        is_first = ready < begin
        syncs = _Syncs(
            np.full(begins.shape, self._ipu_id),
            self.run[place],
            begin,
            np.broadcast_to(step[hits], begins.shape),
            np.where(is_first, -1, previous),
            np.minimum(np.where(is_first, begin, ready), begins),
            ends,
        )
        keep = (syncs.end > low) & (syncs.arrival < high)
        return _Syncs(*(np.asarray(column[keep], np.int64) for column in syncs))


def _last(line: Timeline, number: int) -> tuple[int, int]:
    """Return the last step of a piece and its end; -1 and an early cycle for none."""
    if number < 0:
        return -1, np.iinfo(np.int64).min
    piece = line.bodies[int(line.body[number])]
    return int(line.step[piece.stop_entry - 1]), int(line.piece_ends[number])


def _rounds(piece: Piece, low: int, high: int) -> range:
    """Return the rounds of a piece that may touch a range, or follow it at once."""
    period = piece.period_cycles
    if not period:
        return range(1)
    first = max(0, (low - piece.start_cycle) // period - 1)
    return range(
        first, max(first, min(piece.n_iterations, (high - piece.start_cycle) // period + 2))
    )
