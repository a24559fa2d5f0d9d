"""The words that both tiles of a pair receive."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.host.jit.entry import array_pass

__all__ = ["split_by_pair"]


@array_pass(
    "int64[:], int64[:], int64[:], int64[:], bool[:]", writes="int64[:, :], bool[:], int64[:]"
)
def _split(  # type: ignore[no-untyped-def]
    first, start, length, partner, may_share, parts, is_shared, n_parts
):
    """Write piece, start and length of the parts, which of them are shared, and their number."""
    n = 0
    for tile in range(partner.size):
        partner_tile = partner[tile]
        if 0 <= partner_tile < tile:
            continue
        i, i_stop = first[tile], first[tile + 1]
        j, j_stop = (first[partner_tile], first[partner_tile + 1]) if partner_tile >= 0 else (0, 0)
        at_i = start[i] if i < i_stop else 0
        at_j = start[j] if j < j_stop else 0
        while i < i_stop or j < j_stop:
            end_i = start[i] + length[i] if i < i_stop else 0
            end_j = start[j] + length[j] if j < j_stop else 0
            if j == j_stop or (i < i_stop and at_i < at_j):
                stop = end_i if j == j_stop else min(end_i, at_j)
                parts[0, n], parts[1, n], parts[2, n] = i, at_i, stop - at_i
                n += 1
                at_i = stop
            elif i == i_stop or at_j < at_i:
                stop = end_j if i == i_stop else min(end_j, at_i)
                parts[0, n], parts[1, n], parts[2, n] = j, at_j, stop - at_j
                n += 1
                at_j = stop
            else:
                stop = min(end_i, end_j)
                shares = may_share[i] and may_share[j]
                parts[0, n], parts[1, n], parts[2, n] = i, at_i, stop - at_i
                is_shared[n] = shares
                n += 1
                if not shares:
                    parts[0, n], parts[1, n], parts[2, n] = j, at_i, stop - at_i
                    n += 1
                at_i = at_j = stop
            if i < i_stop and at_i == end_i:
                i += 1
                at_i = start[i] if i < i_stop else 0
            if j < j_stop and at_j == end_j:
                j += 1
                at_j = start[j] if j < j_stop else 0
    n_parts[0] = n


def split_by_pair(
    receiver: NDArray[np.int64],
    start: NDArray[np.int64],
    length: NDArray[np.int64],
    partner: NDArray[np.int64],
    may_share: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Cut fragments into parts that one tile receives alone and parts that its partner shares.

    Parameters
    ----------
    receiver, start, length : ndarray of int64, shape (n,)
        Fragments, sorted by receiver and start; those of one receiver do not overlap.
    partner : ndarray of int64, shape (n_tiles,)
        The other tile of the pair, by tile, or -1.
    may_share : ndarray of bool, shape (n,)
        Whether the fragment may be received together with the partner.

    Returns
    -------
    piece, start, length : ndarray of int64
        The fragment each part belongs to, and its elements; a shared part is listed once.
    is_shared : ndarray of bool
        Whether both tiles of the pair receive it.
    """
    first = np.zeros(partner.size + 1, np.int64)
    np.cumsum(np.bincount(receiver, minlength=partner.size), out=first[1:])
    # A fragment is cut at most where fragments of the partner begin and end.
    room = 4 * receiver.size
    parts, is_shared = np.empty((3, room), np.int64), np.zeros(room, np.bool_)
    n_parts = np.zeros(1, np.int64)
    _split(first, start, length, partner, may_share, parts, is_shared, n_parts)
    n = n_parts[0]
    fragment, part_start, part_length = (column[:n].copy() for column in parts)
    return fragment, part_start, part_length, is_shared[:n].copy()
