"""What is sent at a time: parts of fragments that go to the same set of tiles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.jit.entry import array_pass

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
def _number_sets(sender, bits, n_parts, keys, numbers, owner, number):  # type: ignore[no-untyped-def]
    """Write the number of every part's set of tiles, by the order in which sets first occur.

    A set belongs to one sender, so the table of known ones, `keys`, `numbers` and `owner`, is that
    of the sender being looked at: a place of another sender, or of -1, is free.
    """
    mask = np.uint64(owner.size - 1)
    n_known = 0
    for i in range(n_parts):
        key, tile = bits[i], sender[i]
        slot = key & mask
        while owner[slot] == tile and keys[slot] != key:
            slot = (slot + np.uint64(1)) & mask
        if owner[slot] != tile:
            owner[slot], keys[slot], numbers[slot] = tile, key, n_known
            n_known += 1
        number[i] = numbers[slot]


@array_pass(
    "int64[:], int64[:], int64[:], int64[:], int64[:]",
    writes="uint64[:], int64[:], uint64[:], int64[:, :],"
    " int64[:, :], uint64[:], int64[:], int64[:], int64[:]",
)
def _parts(  # type: ignore[no-untyped-def]
    sender, start, length, n_bytes, receiver, mixed, active, keys,
    table, parts, bits, first, receivers, counts,
):  # fmt: skip
    """Write parts, sends and receivers, and the numbers of parts and receivers.

    Receivers for which there is no room are counted only. `mixed` is for bits of every tile,
    `active` for fragments, `keys` and the rows of `table`, number and owner, for sets of tiles.
    """
    n = sender.size
    part_sender, part_start, part_bytes, send = parts[0], parts[1], parts[2], parts[3]
    for tile in range(mixed.size):
        mixed[tile] = _mixed(tile)
    n_parts, n_receivers = 0, 0
    first[0] = 0
    i = 0
    while i < n:
        # Fragments of one sender that overlap, directly or through others.
        tile = sender[i]
        n_active, position, next_in = 0, start[i], i
        while True:
            while next_in < n and sender[next_in] == tile and start[next_in] == position:
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
            item_bytes = n_bytes[active[0]] // length[active[0]]
            of_set = np.uint64(0)
            n_kept = 0
            for k in range(n_active):
                f = active[k]
                if n_receivers < receivers.size:
                    receivers[n_receivers] = receiver[f]
                n_receivers += 1
                of_set += mixed[receiver[f]]
                if start[f] + length[f] > stop:
                    active[n_kept] = f
                    n_kept += 1
            part_sender[n_parts], part_start[n_parts], bits[n_parts] = tile, position, of_set
            part_bytes[n_parts] = (stop - position) * item_bytes
            n_parts += 1
            first[n_parts] = n_receivers
            n_active, position = n_kept, stop
        i = next_in
    _number_sets(part_sender, bits, n_parts, keys, table[0], table[1], send)
    counts[0], counts[1] = n_parts, n_receivers


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
    n = sender.size
    mixed = np.empty(int(receiver.max(initial=-1)) + 1, np.uint64)
    # A part begins where a fragment begins or ends.
    parts, bits = np.empty((4, 2 * n), np.int64), np.empty(2 * n, np.uint64)
    first, counts = np.zeros(2 * n + 1, np.int64), np.zeros(2, np.int64)
    most_parts = 2 * int(np.bincount(sender).max(initial=0))
    n_places = 1 << (2 * most_parts).bit_length()
    n_receivers = 2 * n
    while True:
        receivers = np.empty(n_receivers, np.int64)
        known, table = np.empty(n_places, np.uint64), np.full((2, n_places), -1)
        work = mixed, np.empty(n, np.int64), known, table
        with np.errstate(over="ignore"):  # bits are mixed modulo 2 ** 64, as plain Python too
            _parts(
                sender, start, length, n_bytes, receiver, *work,
                parts, bits, first, receivers, counts,
            )  # fmt: skip
        n_parts, n_receivers = map(int, counts)
        if n_receivers <= receivers.size:
            break
    columns = *parts, first, receivers
    lengths = n_parts, n_parts, n_parts, n_parts, n_parts + 1, n_receivers
    columns = tuple(column[:n] for column, n in zip(columns, lengths, strict=True))
    if 2 * n_parts < n:  # few of what there was room for: the rest is not kept
        columns = tuple(column.copy() for column in columns)
    return columns
