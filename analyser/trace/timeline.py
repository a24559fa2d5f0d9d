"""The executions of one track of one IPU in order of time, with long loops kept as loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

__all__ = ["Piece", "Timeline", "build_timeline"]

#: Loops of up to this many executions are written out.
_SHORT_LOOP = 4_096
#: No more executions than this are written out in one timeline.
_WRITTEN_OUT = 4_000_000


@dataclass(frozen=True)
class Piece:
    """Consecutive entries: a plain stretch, or the body of a loop.

    Attributes
    ----------
    first_entry, stop_entry
        Half-open range of entries; of a loop, those of its first iteration.
    start_cycle, end_cycle
        Half-open range, with all iterations.
    period_cycles
        Distance of iterations; 0 for a plain stretch.
    n_iterations
        1 for a plain stretch.
    """

    first_entry: int
    stop_entry: int
    start_cycle: int
    end_cycle: int
    period_cycles: int = 0
    n_iterations: int = 1


@dataclass(frozen=True)
class Timeline:
    """Entries that do not overlap, sorted by time, in pieces.

    Attributes
    ----------
    start, end : ndarray of int64, shape (n_entries,), cycles
        Half-open range of each entry.
    step : ndarray of int32, shape (n_entries,)
        Row of the step of each entry.
    run_starts : ndarray of int64, shape (n_breaks,)
        Entries at which a run or a piece begins, ascending, from 0.
    pieces : tuple of Piece
        In order of time; together they hold all entries.
    """

    start: np.ndarray
    end: np.ndarray
    step: np.ndarray
    run_starts: np.ndarray
    pieces: tuple[Piece, ...]

    @property
    def n_executions(self) -> int:
        """Number of executions with all iterations of all loops."""
        return sum((p.stop_entry - p.first_entry) * p.n_iterations for p in self.pieces)

    def piece_at(self, cycle: int) -> Piece | None:
        """Return the piece whose range holds a cycle, or None."""
        for part in self.pieces:
            if part.start_cycle <= cycle < part.end_cycle:
                return part
        return None

    @property
    def n_bytes(self) -> int:
        """Memory of the arrays, bytes."""
        return int(self.start.nbytes + self.end.nbytes + self.step.nbytes)


def build_timeline(
    start: np.ndarray,
    end: np.ndarray,
    step: np.ndarray,
    run_starts: np.ndarray,
    period: np.ndarray | None = None,
    count: np.ndarray | None = None,
) -> Timeline:
    """Return the timeline of entries of one track.

    Short loops, and loops that something else interrupts, are written out; a long loop stays the
    body of its first iteration and is only expanded where it is looked at.

    Parameters
    ----------
    start, end : ndarray of int64, shape (n_entries,), cycles
        First execution of each entry, sorted by start within a run.
    step : ndarray of int32, shape (n_entries,)
        Row of the step of each entry.
    run_starts : ndarray of int64, shape (n_runs,)
        First entry of each run, ascending.
    period, count : ndarray, shape (n_entries,), or None
        Distance of repetitions in cycles, and their number; None when nothing repeats.

    Returns
    -------
    Timeline
        With all executions.
    """
    if count is None or period is None or len(start) == 0 or int(count.max()) <= 1:
        return _plain(start, end, step, run_starts)
    blocks = _loop_blocks(start, run_starts, period, count)
    broken = {block for block in blocks if _is_interrupted(*block, start, end, period, count)}
    keep, spent = [], 0
    for low, high in blocks:
        n = (high - low) * int(count[low])
        if (low, high) not in broken and (n > _SHORT_LOOP or spent + n > _WRITTEN_OUT):
            keep.append((low, high))
        else:
            spent += n
    entries = _Entries(start, end, step, run_starts, period, count)
    if broken:
        return _write_out(entries, keep)
    return _lay_out(entries, blocks, frozenset(keep))


class _Entries(NamedTuple):
    """Executions in order, those of a loop once: range in cycles, step, and rounds."""

    start: np.ndarray
    end: np.ndarray
    step: np.ndarray
    #: First entries of runs.
    run_starts: np.ndarray
    period: np.ndarray
    n_rounds: np.ndarray


def _plain(
    start: np.ndarray, end: np.ndarray, step: np.ndarray, run_starts: np.ndarray
) -> Timeline:
    """Return a timeline of one plain piece."""
    parts: tuple[Piece, ...] = ()
    if len(start):
        parts = (Piece(0, len(start), int(start[0]), int(end[-1])),)
    return Timeline(start, end, step, run_starts, parts)


def _loop_blocks(
    start: np.ndarray,
    run_starts: np.ndarray,
    period: np.ndarray,
    count: np.ndarray,
) -> list[tuple[int, int]]:
    """Return ranges of neighbouring entries that repeat together: the bodies of loops."""
    is_break = np.ones(len(start), bool)
    is_break[1:] = (period[1:] != period[:-1]) | (count[1:] != count[:-1])
    is_break[run_starts[run_starts < len(start)]] = True
    firsts = np.flatnonzero(is_break)
    stops = np.append(firsts[1:], len(start))
    blocks: list[tuple[int, int]] = []
    for first, stop in zip(firsts.tolist(), stops.tolist(), strict=True):
        if count[first] <= 1:
            continue
        low = first
        while low < stop:  # a body lies within one period of its first start
            limit = int(start[low]) + int(period[low])
            high = low + int(np.searchsorted(start[low:stop], limit, side="left"))
            high = max(high, low + 1)
            blocks.append((low, high))
            low = high
    return blocks


def _is_interrupted(
    low: int,
    high: int,
    start: np.ndarray,
    end: np.ndarray,
    period: np.ndarray,
    count: np.ndarray,
) -> bool:
    """Return whether another entry begins inside the loop, or iterations overlap."""
    span = int(start[low]) + int(period[low]) * (int(count[low]) - 1)
    body_end = int(end[high - 1])
    overlaps = body_end - int(start[low]) > int(period[low])
    follows = high < len(start) and int(start[high]) < span + (body_end - int(start[low]))
    return overlaps or follows


def _lay_out(
    entries: _Entries,
    blocks: list[tuple[int, int]],
    keep: frozenset[tuple[int, int]],
) -> Timeline:
    """Return the timeline with loops expanded where they stand; nothing interrupts any of them."""
    start, end, step, run_starts, period, count = entries
    starts, ends, steps = [], [], []
    parts: list[Piece] = []
    added = [0]  # executions added up to the end of each block
    cursor = plain_from = 0
    for low, high in blocks:
        n, distance = int(count[low]), int(period[low])
        n_here = 1 if (low, high) in keep else n
        shift = distance * np.arange(n_here, dtype=np.int64)[:, None]
        starts += [start[cursor:low], (start[low:high] + shift).ravel()]
        ends += [end[cursor:low], (end[low:high] + shift).ravel()]
        steps += [step[cursor:low], np.tile(step[low:high], n_here)]
        first = low + added[-1]
        if (low, high) in keep:
            if first > plain_from:
                parts.append(Piece(plain_from, first, 0, 0))
            last_end = int(end[high - 1]) + distance * (n - 1)
            plain_from = first + high - low
            parts.append(Piece(first, plain_from, int(start[low]), last_end, distance, n))
        added.append(added[-1] + (n_here - 1) * (high - low))
        cursor = high
    new_start = np.concatenate([*starts, start[cursor:]])
    new_end = np.concatenate([*ends, end[cursor:]])
    new_step = np.concatenate([*steps, step[cursor:]])
    if len(new_start) > plain_from:
        parts.append(Piece(plain_from, len(new_start), 0, 0))
    parts = [_measured(part, new_start, new_end) for part in parts]
    block_ends = np.asarray([high for _, high in blocks])
    before = np.asarray(added)[np.searchsorted(block_ends, run_starts, side="right")]
    breaks = np.union1d(run_starts + before, [part.first_entry for part in parts])
    return Timeline(new_start, new_end, new_step, breaks.astype(np.int64), tuple(parts))


def _measured(part: Piece, start: np.ndarray, end: np.ndarray) -> Piece:
    """Return a piece with its range, if it is a plain stretch."""
    if part.period_cycles:
        return part
    first, stop = part.first_entry, part.stop_entry
    return Piece(first, stop, int(start[first]), int(end[stop - 1]))


def _write_out(
    entries: _Entries,
    keep: list[tuple[int, int]],
) -> Timeline:
    """Return the timeline with every loop expanded but those in ``keep``."""
    start, end, step, run_starts, period, count = entries
    times = count.astype(np.int64)
    for low, high in keep:
        times[low:high] = 1
    source = np.repeat(np.arange(len(start)), times)
    first_copy = np.cumsum(times) - times
    iteration = np.arange(len(source)) - first_copy[source]
    run = np.searchsorted(run_starts, source, side="right")
    new_start = start[source] + iteration * period[source]
    order = np.lexsort((new_start, run))
    source, iteration, new_start, run = (
        source[order],
        iteration[order],
        new_start[order],
        run[order],
    )
    new_end = end[source] + iteration * period[source]
    new_runs = np.flatnonzero(np.diff(run, prepend=-1))
    position = np.zeros(len(start), np.int64)
    position[source[::-1]] = np.arange(len(source))[::-1]
    parts: list[Piece] = []
    cursor = 0
    for low, high in keep:
        first, stop = int(position[low]), int(position[high - 1]) + 1
        if first > cursor:
            parts.append(Piece(cursor, first, int(new_start[cursor]), int(new_end[first - 1])))
        n, distance = int(count[low]), int(period[low])
        body_start, body_end = int(new_start[first]), int(new_end[stop - 1])
        parts.append(Piece(first, stop, body_start, body_end + distance * (n - 1), distance, n))
        cursor = stop
    if cursor < len(source):
        parts.append(Piece(cursor, len(source), int(new_start[cursor]), int(new_end[-1])))
    breaks = np.unique(np.concatenate([new_runs, [p.first_entry for p in parts]]))
    return Timeline(new_start, new_end, step[source], breaks.astype(np.int64), tuple(parts))
