"""The critical path of a run over several IPUs: the IPU that the others waited for, span by span.

IPUs meet in steps that sync externally. All of them go on when the last one arrives, so the time
between two meetings is what that IPU did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["CriticalPath", "Track", "critical_path"]


@dataclass(frozen=True)
class Track:
    """What ran on one IPU in one run, in program order.

    Attributes
    ----------
    step_id : ndarray of int64, shape (n_entries,)
    start, end : ndarray of int64, shape (n_entries,), cycles
        First round, half-open, from the begin of the run.
    period, count : ndarray of int64, shape (n_entries,)
        Distance of the rounds in cycles, and their number.
    n_cycles
        Length of the run on this IPU, cycles.
    """

    step_id: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    period: NDArray[np.int64]
    count: NDArray[np.int64]
    n_cycles: int


@dataclass(frozen=True)
class CriticalPath:
    """Where the time of a run went, by IPU and step.

    Attributes
    ----------
    cycles : ndarray of int64, shape (n_ipus, n_steps), cycles
        Time on the critical path.
    waiting : ndarray of int64, shape (n_ipus, n_steps), cycles
        Time in which the IPU waits in the step for a later IPU.
    caused : ndarray of int64, shape (n_ipus, n_steps), cycles
        Time that the other IPUs together wait in the step for this IPU.
    own : ndarray of int64, shape (n_ipus, n_steps), cycles
        Time of the IPU in the step, its waits for later IPUs excluded.
    """

    cycles: NDArray[np.int64]
    waiting: NDArray[np.int64]
    caused: NDArray[np.int64]
    own: NDArray[np.int64]


def critical_path(tracks: Sequence[Track], is_meeting: NDArray[np.bool_]) -> CriticalPath:
    """Return the critical path of one run.

    Parameters
    ----------
    tracks
        One per IPU.
    is_meeting : ndarray of bool, shape (n_steps,)
        Which steps sync externally.
    """
    shape = (len(tracks), len(is_meeting))
    answer = CriticalPath(*(np.zeros(shape, dtype=np.int64) for _ in range(4)))
    last = int(np.argmax([track.n_cycles for track in tracks]))
    meetings = _Meetings(tracks, is_meeting)
    for ipu, track in enumerate(tracks):
        rows = meetings.rows[ipu]
        is_late = np.append(meetings.late == ipu, ipu == last)
        took = track.end - track.start
        released = meetings.release[meetings.number[ipu]]
        took[rows] = track.end[rows] - released  # the wait is not what the step itself takes
        np.add.at(answer.own[ipu], track.step_id, took * track.count)
        waited = released - meetings.arrival[ipu, meetings.number[ipu]]
        rounds = _rounds_before(track, rows, np.append(meetings.number[ipu], len(meetings.late)))
        for meeting, count in rounds:
            np.add.at(answer.cycles[ipu], track.step_id, took * count * is_late[meeting])
        step_id, count = track.step_id[rows], track.count[rows]
        np.add.at(answer.waiting[ipu], step_id, waited * count)
        np.add.at(answer.caused, (meetings.late[meetings.number[ipu]], step_id), waited * count)
    return answer


class _Meetings:
    """The meetings of all IPUs in a run: the nth entry of a step on one IPU is the nth on all.

    ``rows`` are the meetings' entries by IPU and ``number`` which meeting each of them is;
    ``arrival`` is when an IPU is ready, ``release`` when all go on, ``late`` which IPU was last.
    """

    def __init__(self, tracks: Sequence[Track], is_meeting: NDArray[np.bool_]) -> None:
        self.rows = [np.flatnonzero(is_meeting[track.step_id]) for track in tracks]
        keys = [_nth(track.step_id[rows]) for track, rows in zip(tracks, self.rows, strict=True)]
        _, where = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
        where = where.reshape(-1)
        n_meetings = int(where.max(initial=-1)) + 1
        self.number = np.split(where, np.cumsum([len(key) for key in keys])[:-1])
        self.arrival = np.full((len(tracks), n_meetings), -1, dtype=np.int64)
        self.release = np.full(n_meetings, -1, dtype=np.int64)
        for ipu, (track, rows, number) in enumerate(
            zip(tracks, self.rows, self.number, strict=True)
        ):
            self.arrival[ipu, number] = _ends_before(track, rows)
            np.maximum.at(self.release, number, track.start[rows])
        self.late = self.arrival.argmax(axis=0)


def _ends_before(track: Track, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return when the work before some entries is done, cycles; 0 at the begin of the run.

    An entry's trace may begin then and include the wait, or only when the wait is over.
    """
    before = np.maximum(rows - 1, 0)
    period, count = track.period[before], track.count[before]
    is_same_loop = (period == track.period[rows]) & (count == track.count[rows])
    ends = track.end[before] + np.where(is_same_loop, 0, (count - 1) * period)
    return np.asarray(np.where(rows > 0, np.minimum(ends, track.start[rows]), 0))


def _nth(step_id: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return step and how often it came before, int64 of shape (n, 2)."""
    order = np.argsort(step_id, kind="stable")
    ordered = step_id[order]
    first = np.searchsorted(ordered, ordered)
    nth = np.empty(len(step_id), dtype=np.int64)
    nth[order] = np.arange(len(step_id)) - first
    return np.stack([step_id, nth], axis=1)


def _rounds_before(
    track: Track, rows: NDArray[np.intp], number: NDArray[np.intp]
) -> list[tuple[NDArray[np.intp], NDArray[np.int64]]]:
    """Return the next meeting of every entry's rounds, with how many rounds it is the next of.

    The last round of an entry is followed by the next meeting in program order. In a loop that
    the IPUs meet in, the other rounds are followed by a meeting of the next round.

    Parameters
    ----------
    rows : ndarray of intp, shape (n_meetings,)
        Entries of the track that are meetings.
    number : ndarray of intp, shape (n_meetings + 1,)
        Which meeting they are; at the end, what stands for the end of the run.
    """
    following = np.searchsorted(rows, np.arange(len(track.start)), side="right")
    if not len(rows):
        return [(number[following], track.count)]
    looped = np.searchsorted(track.start[rows], track.start - track.period, side="right")

    def is_same_loop(position: NDArray[np.intp]) -> NDArray[np.bool_]:
        row = rows[np.minimum(position, len(rows) - 1)]
        answer: NDArray[np.bool_] = position < len(rows)
        answer &= (track.period[row] == track.period) & (track.count[row] == track.count)
        answer &= np.abs(track.start[row] - track.start) <= track.period
        return answer

    wraps = (track.count > 1) & (looped < following)
    wraps &= is_same_loop(looped) & ~is_same_loop(following)
    early = np.where(wraps, track.count - 1, 0)
    return [
        (number[following], track.count - early),
        (number[np.where(wraps, looped, following)], early),
    ]
