"""When each tile sends: no tile sends or receives two things at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.jit.entry import array_pass

__all__ = ["schedule_of_sends"]

Ids = NDArray[np.int64]

_NEVER = np.int64(np.iinfo(np.int64).max)
#: Sends of a tile, or tiles, that are looked at in one loop.
_AT_ONCE = 32


@jit
def _soonest(waiting, first, last, now, receives_until):  # type: ignore[no-untyped-def]
    """Return how many of some sends may be free, and when the first of the others may be."""
    n_free, soonest = 0, _NEVER
    for index in range(np.uintp(first), np.uintp(last)):
        until = receives_until[np.uintp(waiting[index])]
        n_free += until <= now
        soonest = min(soonest, until)
    return n_free, soonest


@jit
def _busy_tile(tiles, first, last, now, receives_until):  # type: ignore[no-untyped-def]
    """Return the first of a send's receivers that is busy, or -1."""
    for k in range(np.uintp(first), np.uintp(last)):
        if receives_until[np.uintp(tiles[k])] > now:
            return tiles[k]
    return -1


@jit
def _first_free(  # type: ignore[no-untyped-def]
    low, high, now, order, lane, first, receiver, sends_until, receives_until, waiting
):
    """Return the place of the first of a tile's sends that can begin, or -1 and when to look again.

    `waiting` remembers a busy receiver of each send, to look at it first. Places of sends that have
    begun wait for a tile that is never free.
    """
    soonest = _NEVER
    for begin in range(low, high, _AT_ONCE):
        end = min(begin + _AT_ONCE, high)
        n_free, minimum = _soonest(waiting, begin, end, now, receives_until)
        if n_free == 0:
            soonest = min(soonest, minimum)
            continue
        for index in range(begin, end):
            busy_until = receives_until[waiting[index]]
            send = order[index]
            if busy_until <= now and lane[send] >= 0:
                busy_until = sends_until[lane[send]]
            if busy_until <= now:
                tile = _busy_tile(receiver, first[send], first[send + 1], now, receives_until)
                if tile < 0:
                    return index, now
                waiting[index], busy_until = tile, receives_until[tile]
            soonest = min(soonest, busy_until)
    return -1, soonest


@jit
def _closed_up(low, high, order, waiting, never):  # type: ignore[no-untyped-def]
    """Move the sends that have not begun to the front, and return their end."""
    end = low
    for index in range(low, high):
        if waiting[index] != never:
            order[end], waiting[end] = order[index], waiting[index]
            end += 1
    return end


@jit
def _least(values, first, last):  # type: ignore[no-untyped-def]
    """Return the least of some values."""
    minimum = _NEVER
    for index in range(np.uintp(first), np.uintp(last)):
        minimum = min(minimum, values[index])
    return minimum


@jit
def _still_sending(tiles, looks_at, n_tiles):  # type: ignore[no-untyped-def]
    """Move the tiles that have something left to send to the front, and return how many are."""
    n_sending = 0
    for index in range(n_tiles):
        if looks_at[index] != _NEVER:
            tiles[n_sending], looks_at[n_sending] = tiles[index], looks_at[index]
            n_sending += 1
    return n_sending


@array_pass(
    "int64[:], int64[:], int64[:], int64[:], int64[:]",
    writes="int64[:], int64[:], int64[:], int64[:], int64[:], int64[:],"
    " int64[:], int64[:], int64[:], int64[:], int64[:], int64[:]",
)
def _schedule(  # type: ignore[no-untyped-def]
    cycles, lane, first, receiver, first_of_tile, order, waiting, n_left, begin,
    sends_until, receives_until, sent_at, sources, listens_to, last_of_tile, tiles, looks_at,
):  # fmt: skip
    """Write when sends begin and tiles are done, and how often tiles set what they listen to.

    These are zeros before, but for the entry after the last tile in `receives_until`, a tile that
    is never free, and for `listens_to`, which is -1. `tiles` and `looks_at` are for the tiles that
    have something left to send, and when each next looks at its sends. Many look in the same cycle,
    so that going through them costs less than a queue in the order of time.
    """
    n_tiles = first_of_tile.size - 1
    n_sending = 0
    for tile in range(n_tiles):
        if n_left[tile] > 0:
            tiles[n_sending] = tile
            n_sending += 1
    n_listed = n_sending
    now = np.int64(0)
    while n_sending > 0:
        next_look = _NEVER
        for start in range(0, n_listed, _AT_ONCE):
            stop = min(start + _AT_ONCE, n_listed)
            if _least(looks_at, start, stop) <= now:
                for i in range(start, stop):
                    if looks_at[i] > now:
                        continue
                    tile = tiles[i]
                    low, high = first_of_tile[tile], last_of_tile[tile]
                    sender, soonest = -1, sends_until[tile]
                    if soonest <= now:  # else its lane was lent to its partner
                        sender, soonest = _first_free(
                            low, high, now, order, lane, first, receiver, sends_until,
                            receives_until, waiting,
                        )  # fmt: skip
                    looks_at[i] = soonest
                    if sender < 0:
                        continue
                    send = order[sender]
                    begin[send], end = now, now + cycles[send]
                    sends_until[tile] = sent_at[tile] = looks_at[i] = end
                    if lane[send] >= 0:
                        sends_until[lane[send]] = end
                    for k in range(np.uintp(first[send]), np.uintp(first[send + 1])):
                        to = np.uintp(receiver[k])
                        receives_until[to] = end
                        sources[to] += listens_to[to] != tile
                        listens_to[to] = tile
                    waiting[sender] = n_tiles
                    n_left[tile] -= 1
                    if n_left[tile] == 0:
                        looks_at[i] = _NEVER
                        n_sending -= 1
                    elif 2 * n_left[tile] <= high - low:
                        last_of_tile[tile] = _closed_up(low, high, order, waiting, n_tiles)
            next_look = min(next_look, _least(looks_at, start, stop))
        now = next_look
        if 2 * n_sending <= n_listed:
            n_listed = _still_sending(tiles, looks_at, n_listed)


def schedule_of_sends(
    lane: Ids, cycles: Ids, first: Ids, receiver: Ids, order: Ids, first_of_tile: Ids
) -> tuple[Ids, Ids, Ids, Ids]:
    """Schedule sends.

    A tile that is free begins the first of its sends whose receivers are all free. Of tiles that
    are free in the same cycle, the lower number goes first.

    Parameters
    ----------
    lane, cycles : ndarray of int64, shape (n_sends,)
        Tile whose transmit lane a send uses beside its sender's or -1, and duration.
    first : ndarray of int64, shape (n_sends + 1,)
        Place of each send's first receiver.
    receiver : ndarray of int64
        Tiles that receive each send.
    order : ndarray of int64, shape (n_sends,)
        Sends by tile, the preferred first.
    first_of_tile : ndarray of int64, shape (n_tiles + 1,)
        Place of each tile's first send in that order.

    Returns
    -------
    begin : ndarray of int64, shape (n_sends,)
        Cycle in which each send begins.
    received_at, sent_at : ndarray of int64, shape (n_tiles,)
        Cycle in which each tile has received all and sent all; 0 for nothing.
    sources : ndarray of int64, shape (n_tiles,)
        How often each tile sets the tile that it listens to.
    """
    n_tiles = first_of_tile.size - 1
    begin = np.zeros(lane.size, np.int64)
    sends_until, sent_at, sources, looks_at, tiles = np.zeros((5, n_tiles), np.int64)
    receives_until = np.append(np.zeros(n_tiles, np.int64), _NEVER)
    _schedule(
        cycles,
        lane,
        first,
        receiver,
        first_of_tile,
        order.astype(np.int64),
        receiver[first[order]].astype(np.int64),
        np.diff(first_of_tile).astype(np.int64),
        begin,
        sends_until,
        receives_until,
        sent_at,
        sources,
        np.full(n_tiles, -1),
        first_of_tile[1:].astype(np.int64),
        tiles,
        looks_at,
    )
    return begin, receives_until[:-1], sent_at, sources
