"""What is sent at a time: parts of fragments that go to the same set of tiles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.jit._jit import cached_jit, jit

__all__ = ["parts_of_fragments"]

Ids = NDArray[np.int64]


@jit
def _mixed(x):  # type: ignore[no-untyped-def]
    """Return well-spread bits of a tile's number (SplitMix64)."""
    z = np.uint64(x) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@jit
def _grown(values, n):  # type: ignore[no-untyped-def]
    """Return values in an array of at least n places."""
    if n <= values.size:
        return values
    more = np.empty(max(n, 2 * values.size), values.dtype)
    for k in range(values.size):  # numba compiles a message for an assignment of a slice
        more[k] = values[k]
    return more


@jit
def _place(key, keys):  # type: ignore[no-untyped-def]
    """Return the place of a key in a table with free places, or that where it belongs."""
    place = np.int64(key & np.uint64(keys.size - 1))
    while keys[place] != 0 and keys[place] != key:
        place = (place + 1) % keys.size
    return place


@jit
def _number(bits, n_known, table):  # type: ignore[no-untyped-def]
    """Return the number of a set of tiles, how many are known, and the table of known ones."""
    key = bits | np.uint64(1)  # 0 is a free place
    keys, numbers = table
    if 2 * n_known >= keys.size:
        more = np.zeros(2 * keys.size, np.uint64), np.zeros(2 * keys.size, np.int64)
        for old in range(keys.size):
            if keys[old] != 0:
                place = _place(keys[old], more[0])
                more[0][place], more[1][place] = keys[old], numbers[old]
        keys, numbers = more
    place = _place(key, keys)
    if keys[place] == 0:
        keys[place], numbers[place] = key, n_known
        n_known += 1
    return numbers[place], n_known, (keys, numbers)


@cached_jit
def _parts(sender, start, length, n_bytes, receiver):  # type: ignore[no-untyped-def]
    n = sender.size
    part_sender = np.empty(n + 1, np.int64)
    part_start = np.empty(n + 1, np.int64)
    part_bytes = np.empty(n + 1, np.int64)
    send = np.empty(n + 1, np.int64)
    first = np.empty(n + 2, np.int64)
    receivers = np.empty(n + 1, np.int64)
    active = np.empty(16, np.int64)
    n_parts, n_receivers, n_sends = 0, 0, 0
    table = np.zeros(64, np.uint64), np.zeros(64, np.int64)
    first[0] = 0
    i = 0
    while i < n:
        # Fragments of one sender that overlap, directly or through others.
        tile = sender[i]
        n_active, at, next_in = 0, start[i], i
        while True:
            while next_in < n and sender[next_in] == tile and start[next_in] == at:
                active = _grown(active, n_active + 1)
                active[n_active] = next_in
                n_active += 1
                next_in += 1
            if n_active == 0:
                break
            stop = start[active[0]] + length[active[0]]
            for k in range(1, n_active):
                stop = min(stop, start[active[k]] + length[active[k]])
            if next_in < n and sender[next_in] == tile:
                stop = min(stop, start[next_in])
            part_sender = _grown(part_sender, n_parts + 1)
            part_start = _grown(part_start, n_parts + 1)
            part_bytes = _grown(part_bytes, n_parts + 1)
            send, first = _grown(send, n_parts + 1), _grown(first, n_parts + 2)
            receivers = _grown(receivers, n_receivers + n_active)
            bits = _mixed(-1 - tile)
            item_bytes = n_bytes[active[0]] // length[active[0]]
            kept = 0
            for k in range(n_active):
                f = active[k]
                receivers[n_receivers] = receiver[f]
                n_receivers += 1
                bits += _mixed(receiver[f])
                if start[f] + length[f] > stop:
                    active[kept] = f
                    kept += 1
            part_sender[n_parts], part_start[n_parts] = tile, at
            part_bytes[n_parts] = (stop - at) * item_bytes
            send[n_parts], n_sends, table = _number(bits, n_sends, table)
            n_parts += 1
            first[n_parts] = n_receivers
            n_active, at = kept, stop
        i = next_in
    return (
        part_sender[:n_parts].copy(),
        part_start[:n_parts].copy(),
        part_bytes[:n_parts].copy(),
        send[:n_parts].copy(),
        first[: n_parts + 1].copy(),
        receivers[:n_receivers].copy(),
    )


def parts_of_fragments(
    sender: Ids, start: Ids, length: Ids, n_bytes: Ids, receiver: Ids
) -> tuple[Ids, Ids, Ids, Ids, Ids, Ids]:
    """Cut fragments where the set of receivers changes.

    Parameters
    ----------
    sender, start, length, n_bytes, receiver : ndarray of int64, shape (n,)
        Fragments, sorted by sender and start.

    Returns
    -------
    sender, start, n_bytes : ndarray of int64, shape (n_parts,)
        Tile, first element and size of each part, sorted by tile and element.
    send : ndarray of int64, shape (n_parts,)
        Number of the sender with this set of receivers, in the order of the first parts.
    first : ndarray of int64, shape (n_parts + 1,)
        Place of each part's first receiver.
    receivers : ndarray of int64
        Tiles that receive each part.
    """
    with np.errstate(over="ignore"):  # bits are mixed modulo 2 ** 64, as plain Python too
        parts: tuple[Ids, Ids, Ids, Ids, Ids, Ids] = _parts(
            sender, start, length, n_bytes, receiver
        )
    return parts
