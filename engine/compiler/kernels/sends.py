"""What is sent at a time: parts of fragments that go to the same set of tiles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.jit._jit import allocating_jit, cached_jit, jit

__all__ = ["parts_of_fragments"]

Ids = NDArray[np.int64]


@jit
def _mixed(x):  # type: ignore[no-untyped-def]
    """Return well-spread bits of a tile's number (SplitMix64)."""
    z = np.uint64(x) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@allocating_jit
def _number_sets(sender, bits, n_parts):  # type: ignore[no-untyped-def]
    """Return the number of every part's set of tiles, by the order in which sets first occur.

    A set belongs to one sender, so the table of known ones is that of the sender being looked at.
    """
    number = np.empty(n_parts, np.int64)
    most, first = 0, 0
    for i in range(1, n_parts + 1):
        if i == n_parts or sender[i] != sender[first]:
            most, first = max(most, i - first), i
    n_places = 4
    while n_places < 2 * most:
        n_places *= 2
    mask = np.uint64(n_places - 1)
    keys, numbers = np.empty(n_places, np.uint64), np.empty(n_places, np.int64)
    owner = np.empty(n_places, np.int64)
    for k in range(n_places):
        owner[k] = -1  # a place of another sender is free
    n_known = 0
    for i in range(n_parts):
        key, tile = bits[i], sender[i]
        place = key & mask
        while owner[place] == tile and keys[place] != key:
            place = (place + np.uint64(1)) & mask
        if owner[place] != tile:
            owner[place], keys[place], numbers[place] = tile, key, n_known
            n_known += 1
        number[i] = numbers[place]
    return number


@cached_jit
def _parts(sender, start, length, n_bytes, receiver):  # type: ignore[no-untyped-def]
    n = sender.size
    # A part begins where a fragment begins or ends.
    part_sender, part_start = np.empty(2 * n, np.int64), np.empty(2 * n, np.int64)
    part_bytes = np.empty(2 * n, np.int64)
    bits = np.empty(2 * n, np.uint64)
    first = np.empty(2 * n + 1, np.int64)
    receivers = np.empty(n, np.int64)
    n_tiles = 0
    for tile in receiver:
        n_tiles = max(n_tiles, tile + 1)
    mixed = np.empty(n_tiles, np.uint64)
    for tile in range(n_tiles):
        mixed[tile] = _mixed(tile)
    active = np.empty(n, np.int64)
    n_parts, n_receivers = 0, 0
    first[0] = 0
    i = 0
    while i < n:
        # Fragments of one sender that overlap, directly or through others.
        tile = sender[i]
        n_active, at, next_in = 0, start[i], i
        while True:
            while next_in < n and sender[next_in] == tile and start[next_in] == at:
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
            if n_receivers + n_active > receivers.size:
                more = np.empty(2 * receivers.size + n_active, np.int64)
                for k in range(n_receivers):
                    more[k] = receivers[k]
                receivers = more
            item_bytes = n_bytes[active[0]] // length[active[0]]
            of_set = np.uint64(0)
            kept = 0
            for k in range(n_active):
                f = active[k]
                receivers[n_receivers] = receiver[f]
                n_receivers += 1
                of_set += mixed[receiver[f]]
                if start[f] + length[f] > stop:
                    active[kept] = f
                    kept += 1
            part_sender[n_parts], part_start[n_parts], bits[n_parts] = tile, at, of_set
            part_bytes[n_parts] = (stop - at) * item_bytes
            n_parts += 1
            first[n_parts] = n_receivers
            n_active, at = kept, stop
        i = next_in
    send = _number_sets(part_sender, bits, n_parts)
    return n_parts, n_receivers, (part_sender, part_start, part_bytes, send, first, receivers)


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
        n_parts, n_receivers, parts = _parts(sender, start, length, n_bytes, receiver)
    part_sender, part_start, part_bytes, send, first, receivers = parts
    return (
        part_sender[:n_parts].copy(),
        part_start[:n_parts].copy(),
        part_bytes[:n_parts].copy(),
        send,
        first[: n_parts + 1].copy(),
        receivers[:n_receivers].copy(),
    )
