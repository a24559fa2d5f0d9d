"""When each tile sends: no tile sends or receives two things at a time."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.jit._jit import cached_jit, jit

__all__ = ["schedule_of_sends"]

Ids = NDArray[np.int64]

_NEVER = np.int64(np.iinfo(np.int64).max)


@jit
def _lists(order, first_of_tile, n_sends):  # type: ignore[no-untyped-def]
    """Return the first send of every tile, and the send after each, or -1."""
    head = np.full(first_of_tile.size - 1, -1, np.int64)
    following = np.full(n_sends, -1, np.int64)
    for tile in range(head.size):
        low, high = first_of_tile[tile], first_of_tile[tile + 1]
        if low < high:
            head[tile] = order[low]
        for place in range(low, high - 1):
            following[order[place]] = order[place + 1]
    return head, following


@jit
def _busy_until(send, now, sends, until, waits_for):  # type: ignore[no-untyped-def]
    """Return when a busy tile of a send is free, or `now` where none is busy.

    `waits_for` remembers a busy receiver of each send, to look at it first.
    """
    lane, first, receiver = sends
    sends_until, receives_until = until
    if lane[send] >= 0 and sends_until[lane[send]] > now:
        return sends_until[lane[send]]
    witness = waits_for[send]
    if witness >= 0 and receives_until[witness] > now:
        return receives_until[witness]
    for place in range(first[send], first[send + 1]):
        if receives_until[receiver[place]] > now:
            waits_for[send] = receiver[place]
            return receives_until[receiver[place]]
    return now


@cached_jit
def _schedule(cycles, sends, order, first_of_tile):  # type: ignore[no-untyped-def]
    lane, first, receiver = sends
    n_tiles, n_sends = first_of_tile.size - 1, lane.size
    begin = np.zeros(n_sends, np.int64)
    until = np.zeros(n_tiles, np.int64), np.zeros(n_tiles, np.int64)
    sends_until, receives_until = until
    sent_at, sources = np.zeros(n_tiles, np.int64), np.zeros(n_tiles, np.int64)
    listens_to = np.full(n_tiles, -1, np.int64)
    head, following = _lists(order, first_of_tile, n_sends)
    waits_for = np.full(n_sends, -1, np.int64)
    # Tiles by the cycle in which they are free: cycle times tiles, plus tile.
    free = [np.int64(tile) for tile in range(n_tiles) if head[tile] >= 0]
    heapq.heapify(free)
    while len(free) > 0:
        now, tile = free[0] // n_tiles, free[0] % n_tiles
        send, before, soonest = np.int64(-1), np.int64(-1), sends_until[tile]
        if soonest <= now:  # else its lane was lent to its partner
            send, soonest = head[tile], _NEVER
        while send >= 0:
            busy_until = _busy_until(send, now, sends, until, waits_for)
            if busy_until <= now:
                break
            soonest = min(soonest, busy_until)
            before, send = send, following[send]
        if send < 0:
            heapq.heapreplace(free, soonest * n_tiles + tile)
            continue
        begin[send], end = now, now + cycles[send]
        sends_until[tile] = sent_at[tile] = end
        if lane[send] >= 0:
            sends_until[lane[send]] = end
        for place in range(first[send], first[send + 1]):
            to = receiver[place]
            receives_until[to] = end
            sources[to] += listens_to[to] != tile
            listens_to[to] = tile
        if before < 0:
            head[tile] = following[send]
        else:
            following[before] = following[send]
        if head[tile] >= 0:
            heapq.heapreplace(free, end * n_tiles + tile)
        else:
            heapq.heappop(free)
    return begin, receives_until, sent_at, sources


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
    made: tuple[Ids, Ids, Ids, Ids] = _schedule(
        cycles, (lane, first, receiver), order, first_of_tile
    )
    return made
