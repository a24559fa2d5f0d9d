"""The executions of one track of one IPU in order of time, with long loops kept as loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

__all__ = ["Piece", "Repeats", "Timeline", "build_timeline"]

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
    shift_cycles
        Cycles to add to the start and end of its entries.
    """

    first_entry: int
    stop_entry: int
    start_cycle: int
    end_cycle: int
    period_cycles: int = 0
    n_iterations: int = 1
    shift_cycles: int = 0

    @property
    def n_executions(self) -> int:
        """Number of executions with all iterations."""
        return (self.stop_entry - self.first_entry) * self.n_iterations

    def shifted(self, cycles: int) -> Piece:
        """Return the same entries, some cycles later."""
        return replace(
            self,
            start_cycle=self.start_cycle + cycles,
            end_cycle=self.end_cycle + cycles,
            shift_cycles=self.shift_cycles + cycles,
        )


@dataclass(frozen=True)
class Timeline:
    """Entries that do not overlap, in pieces; runs that repeat each other share their entries.

    Attributes
    ----------
    start, end : ndarray of int64, shape (n_entries,), cycles
        Half-open range of each entry.
    step : ndarray of int32, shape (n_entries,)
        Row of the step of each entry.
    run_starts : ndarray of int64, shape (n_breaks,)
        Entries at which a run or a piece begins, ascending, from 0.
    bodies : tuple of Piece
        Different pieces; together they hold all entries.
    body : ndarray of int64, shape (n_pieces,)
        Which of ``bodies`` a piece is, in order of time.
    shift : ndarray of int64, shape (n_pieces,), cycles
        How much later it is than that.
    """

    start: np.ndarray
    end: np.ndarray
    step: np.ndarray
    run_starts: np.ndarray
    bodies: tuple[Piece, ...]
    body: np.ndarray
    shift: np.ndarray

    @property
    def pieces(self) -> Iterator[Piece]:
        """All pieces in order of time."""
        return self._pieces(0, len(self.body))

    @property
    def n_executions(self) -> int:
        """Number of executions with all iterations of all loops."""
        return int(self.of_pieces([piece.n_executions for piece in self.bodies]).sum())

    @property
    def n_pieces(self) -> np.ndarray:
        """How many pieces each of ``bodies`` is; int64, shape (n_bodies,)."""
        return np.asarray(np.bincount(self.body, minlength=len(self.bodies)))

    @cached_property
    def piece_ends(self) -> np.ndarray:
        """First cycle after each piece, int64, shape (n_pieces,)."""
        return np.asarray(self.of_pieces([p.end_cycle for p in self.bodies]) + self.shift)

    @cached_property
    def _piece_starts(self) -> np.ndarray:
        return np.asarray(self.of_pieces([p.start_cycle for p in self.bodies]) + self.shift)

    def of_pieces(self, of_bodies: Sequence[int]) -> np.ndarray:
        """Return a number of each of ``bodies`` for every piece, int64, shape (n_pieces,)."""
        numbers: np.ndarray = np.asarray(of_bodies, np.int64)[self.body]
        return numbers

    def touching(self, low: int, high: int) -> range:
        """Return which pieces have cycles in a half-open range."""
        first = int(np.searchsorted(self.piece_ends, low, side="right"))
        return range(first, max(first, int(np.searchsorted(self._piece_starts, high, side="left"))))

    def between(self, low: int, high: int) -> Iterator[Piece]:
        """Return the pieces that have cycles in a half-open range, in order of time."""
        pieces = self.touching(low, high)
        return self._pieces(pieces.start, pieces.stop)

    def after(self, cycle: int) -> Iterator[Piece]:
        """Return the pieces that end at or after a cycle, in order of time."""
        first = int(np.searchsorted(self.piece_ends, cycle, side="left"))
        return self._pieces(first, len(self.body))

    def piece_at(self, cycle: int) -> Piece | None:
        """Return the piece whose range holds a cycle, or None."""
        return next(self.between(cycle, cycle + 1), None)

    def _pieces(self, first: int, stop: int) -> Iterator[Piece]:
        for body, shift in zip(
            self.body[first:stop].tolist(), self.shift[first:stop].tolist(), strict=True
        ):
            yield self.bodies[body].shifted(shift)


class Repeats(NamedTuple):
    """Runs in order of time, some of which repeat each other.

    Attributes
    ----------
    stored : ndarray of int64, shape (n_runs,)
        Which of the stored runs it is.
    shift : ndarray of int64, shape (n_runs,), cycles
        How much later than the stored one it is.
    """

    stored: np.ndarray
    shift: np.ndarray


def build_timeline(
    start: np.ndarray,
    end: np.ndarray,
    step: np.ndarray,
    run_starts: np.ndarray,
    period: np.ndarray | None = None,
    count: np.ndarray | None = None,
    repeats: Repeats | None = None,
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
    run_starts : ndarray of int64, shape (n_stored,)
        First entry of each stored run, ascending.
    period, count : ndarray, shape (n_entries,), or None
        Distance of repetitions in cycles, and their number; None when no entry repeats.
    repeats : Repeats, optional
        The runs; by default those that are stored, as they are.

    Returns
    -------
    Timeline
        With all executions.
    """
    if repeats is None:
        n_stored = len(run_starts)
        repeats = Repeats(np.arange(n_stored), np.zeros(n_stored, np.int64))
    return _repeated(_stored(start, end, step, run_starts, period, count), repeats)


class _Stored(NamedTuple):
    """Executions of the stored runs with their pieces, which may go on from one to the next."""

    start: np.ndarray
    end: np.ndarray
    step: np.ndarray
    #: First entries of runs.
    run_starts: np.ndarray
    pieces: Sequence[Piece]


def _stored(
    start: np.ndarray,
    end: np.ndarray,
    step: np.ndarray,
    run_starts: np.ndarray,
    period: np.ndarray | None,
    count: np.ndarray | None,
) -> _Stored:
    """Return the executions of the stored runs, loops expanded as `build_timeline` says."""
    if count is None or period is None or len(start) == 0 or int(count.max()) <= 1:
        pieces = [Piece(0, len(start), 0, 0)] if len(start) else []
        return _Stored(start, end, step, run_starts, pieces)
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


def _repeated(stored: _Stored, repeats: Repeats) -> Timeline:
    """Return the timeline of all runs.

    Plain stretches go on from one run to the next where these follow each other in the file, too.
    """
    start, end, step, run_starts, _ = stored
    which, shift = repeats
    n_uses = np.bincount(which, minlength=len(run_starts))
    goes_on = np.zeros(len(which), np.bool_)
    goes_on[1:] = (which[1:] == which[:-1] + 1) & (shift[1:] == shift[:-1])
    goes_on[1:] &= (n_uses[which[1:]] == 1) & (n_uses[which[:-1]] == 1)
    begins = np.zeros(len(run_starts), np.bool_)
    begins[which[~goes_on]] = True
    bodies = _cut(stored, run_starts[begins])
    starts = [piece.first_entry for piece in bodies]
    # Stretches of stored runs, and the bodies of each.
    firsts = np.searchsorted(starts, run_starts[begins], side="left")
    n_bodies = np.diff(np.append(firsts, len(bodies)))
    stretch = (np.cumsum(begins) - 1)[which[~goes_on]]
    sizes = n_bodies[stretch]
    nth = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    body = np.repeat(firsts[stretch], sizes) + nth
    breaks = np.union1d(run_starts, np.asarray(starts, np.int64)).astype(np.int64)
    breaks = breaks[breaks < max(len(start), 1)]
    return Timeline(
        start, end, step, breaks, tuple(bodies), body, np.repeat(shift[~goes_on], sizes)
    )


def _cut(stored: _Stored, firsts: np.ndarray) -> list[Piece]:
    """Return the pieces, plain ones cut at some entries and measured."""
    cut: list[Piece] = []
    for piece in stored.pieces:
        if piece.period_cycles:
            cut.append(piece)
            continue
        low, high = np.searchsorted(firsts, [piece.first_entry + 1, piece.stop_entry]).tolist()
        bounds = [piece.first_entry, *firsts[low:high].tolist(), piece.stop_entry]
        cut += [
            Piece(first, stop, int(stored.start[first]), int(stored.end[stop - 1]))
            for first, stop in pairwise(bounds)
            if stop > first
        ]
    return cut


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
) -> _Stored:
    """Return executions with loops expanded where they stand; nothing interrupts any of them."""
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
    block_ends = np.asarray([high for _, high in blocks])
    before = np.asarray(added)[np.searchsorted(block_ends, run_starts, side="right")]
    return _Stored(new_start, new_end, new_step, run_starts + before, parts)


def _write_out(
    entries: _Entries,
    keep: list[tuple[int, int]],
) -> _Stored:
    """Return executions with every loop expanded but those in ``keep``."""
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
    new_runs = np.searchsorted(run, np.arange(1, len(run_starts) + 1), side="left")
    position = np.zeros(len(start), np.int64)
    position[source[::-1]] = np.arange(len(source))[::-1]
    parts: list[Piece] = []
    cursor = 0
    for low, high in keep:
        first, stop = int(position[low]), int(position[high - 1]) + 1
        if first > cursor:
            parts.append(Piece(cursor, first, 0, 0))
        n, distance = int(count[low]), int(period[low])
        body_start, body_end = int(new_start[first]), int(new_end[stop - 1])
        parts.append(Piece(first, stop, body_start, body_end + distance * (n - 1), distance, n))
        cursor = stop
    if cursor < len(source):
        parts.append(Piece(cursor, len(source), 0, 0))
    return _Stored(new_start, new_end, step[source], new_runs, parts)
