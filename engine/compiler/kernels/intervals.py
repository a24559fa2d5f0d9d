"""Intervals of elements per tile: expand regions into runs, join them, split them by owner."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.codelets._jit import cached_jit

__all__ = ["expand_runs", "group_pieces", "join_runs", "split_by_owner"]


@cached_jit
def _count_runs(size, stride):  # type: ignore[no-untyped-def]
    """Return, per region, the dimension from which it is contiguous, and its number of runs."""
    n, n_dims = size.shape
    first = np.empty(n, np.int64)
    count = np.empty(n, np.int64)
    for v in range(n):
        length = 1
        d = n_dims
        while d > 0 and (size[v, d - 1] == 1 or stride[v, d - 1] == length):
            length *= size[v, d - 1]
            d -= 1
        runs = 1
        for k in range(d):
            if stride[v, k] != 0:
                runs *= size[v, k]
        first[v] = d
        count[v] = runs
    return first, count


@cached_jit
def _fill_runs(start, size, stride, tile, base, first, place, total):  # type: ignore[no-untyped-def]
    n, n_dims = size.shape
    run_tile = np.empty(total, np.int64)
    run_start = np.empty(total, np.int64)
    run_length = np.empty(total, np.int64)
    index = np.zeros(8, np.int64)
    for v in range(n):
        length = 1
        for d in range(first[v], n_dims):
            length *= size[v, d]
        index[:] = 0
        element = start[v] + base
        for r in range(place[v], place[v + 1]):
            run_tile[r] = tile[v]
            run_start[r] = element
            run_length[r] = length
            d = first[v] - 1
            while d >= 0:
                if stride[v, d] == 0:
                    d -= 1
                    continue
                index[d] += 1
                element += stride[v, d]
                if index[d] < size[v, d]:
                    break
                element -= index[d] * stride[v, d]
                index[d] = 0
                d -= 1
    return run_tile, run_start, run_length


def expand_runs(
    start: NDArray[np.int64],
    size: NDArray[np.int64],
    stride: NDArray[np.int64],
    tile: NDArray[np.int32],
    base: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the contiguous runs of regions.

    Parameters
    ----------
    start : ndarray of int64, shape (n,)
        First element of each region in its variable.
    size, stride : ndarray of int64, shape (n, n_dims)
        Extents and strides, elements.
    tile : ndarray of int32, shape (n,)
        Tile of each region's vertex.
    base
        Number of the variable's element 0 among all variables' elements.

    Returns
    -------
    tile, start, length : ndarray of int64
        One entry per run; starts count over all variables.
    """
    first, count = _count_runs(size, stride)
    place = np.zeros(count.size + 1, np.int64)
    np.cumsum(count, out=place[1:])
    runs: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] = _fill_runs(
        start, size, stride, tile, base, first, place, int(place[-1])
    )
    return runs


@cached_jit
def _join(tile, start, length):  # type: ignore[no-untyped-def]
    n = tile.size
    out_tile = np.empty(n, np.int64)
    out_start = np.empty(n, np.int64)
    out_end = np.empty(n, np.int64)
    m = 0
    for i in range(n):
        end = start[i] + length[i]
        if m > 0 and out_tile[m - 1] == tile[i] and start[i] <= out_end[m - 1]:
            out_end[m - 1] = max(out_end[m - 1], end)
        else:
            out_tile[m] = tile[i]
            out_start[m] = start[i]
            out_end[m] = end
            m += 1
    return out_tile[:m].copy(), out_start[:m].copy(), (out_end[:m] - out_start[:m]).copy()


def join_runs(
    tile: NDArray[np.int64], start: NDArray[np.int64], length: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the union of runs per tile, sorted by tile and start: three ndarrays of int64."""
    if tile.size == 0:
        return tile, start, length
    order = np.argsort(tile * (int(start.max()) + 1) + start, kind="stable")
    joined: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] = _join(
        tile[order], start[order], length[order]
    )
    return joined


@cached_jit
def _count_owners(start, length, map_start):  # type: ignore[no-untyped-def]
    n = start.size
    first = np.searchsorted(map_start, start, side="right") - 1
    count = np.empty(n, np.int64)
    for i in range(n):
        k = first[i]
        end = start[i] + length[i]
        c = 1
        while k + c < map_start.size and map_start[k + c] < end:
            c += 1
        count[i] = c
    return first, count


@cached_jit
def _fill_owners(tile, start, length, map_start, map_tile, first, place, total):  # type: ignore[no-untyped-def]
    owner = np.empty(total, np.int64)
    reader = np.empty(total, np.int64)
    piece_start = np.empty(total, np.int64)
    piece_length = np.empty(total, np.int64)
    for i in range(tile.size):
        at = start[i]
        end = start[i] + length[i]
        for j in range(place[i], place[i + 1]):
            k = first[i] + j - place[i]
            stop = end
            if k + 1 < map_start.size and map_start[k + 1] < end:
                stop = map_start[k + 1]
            owner[j] = map_tile[k]
            reader[j] = tile[i]
            piece_start[j] = at
            piece_length[j] = stop - at
            at = stop
    return owner, reader, piece_start, piece_length


def split_by_owner(
    tile: NDArray[np.int64],
    start: NDArray[np.int64],
    length: NDArray[np.int64],
    map_start: NDArray[np.int64],
    map_tile: NDArray[np.int64],
) -> tuple[Any, ...]:
    """Split runs where their elements' owner changes, and drop those that are local.

    Parameters
    ----------
    tile, start, length : ndarray of int64
        Runs: the tile that uses them, first element, number of elements.
    map_start, map_tile : ndarray of int64
        Mapped intervals over all variables, ascending.

    Returns
    -------
    owner, tile, start, length : ndarray of int64
        Pieces whose owner is another tile than the one that uses them.
    """
    first, count = _count_owners(start, length, map_start)
    place = np.zeros(count.size + 1, np.int64)
    np.cumsum(count, out=place[1:])
    pieces = _fill_owners(tile, start, length, map_start, map_tile, first, place, int(place[-1]))
    is_remote = pieces[0] != pieces[1]
    return tuple(column[is_remote] for column in pieces)


@cached_jit
def _group(tile, key, starts):  # type: ignore[no-untyped-def]
    n_operands, n = starts.shape
    first = np.empty(n, np.int64)
    count = np.empty(n, np.int64)
    spacing = np.zeros((n, n_operands), np.int64)
    m = -1
    for i in range(n):
        if m >= 0 and tile[i] == tile[i - 1] and key[i] == key[i - 1]:
            fits = True
            for k in range(n_operands):
                distance = starts[k, i] - starts[k, i - 1]
                if count[m] == 1:
                    spacing[m, k] = distance
                elif distance != spacing[m, k]:
                    fits = False
            if fits:
                count[m] += 1
                continue
        m += 1
        first[m] = i
        count[m] = 1
    return first[: m + 1].copy(), count[: m + 1].copy(), spacing[: m + 1].copy()


def group_pieces(
    tile: NDArray[np.int32], key: NDArray[np.int64], starts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Gather pieces of one tile that have one shape and lie at one distance, for every operand.

    Parameters
    ----------
    tile : ndarray of int32, shape (n,)
        Sorted.
    key : ndarray of int64, shape (n,)
        Stands for the shape of each piece.
    starts : ndarray of int64, shape (n_operands, n)
        First elements, those of the output ascending within a tile.

    Returns
    -------
    first, count : ndarray of int64, shape (n_groups,)
        First piece of each group, and its number of pieces.
    spacing : ndarray of int64, shape (n_groups, n_operands)
        Distance of the starts; 0 in a group of one.
    """
    grouped: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] = _group(
        tile, key, starts
    )
    first, count, spacing = grouped
    spacing[count == 1] = 0
    return first, count, spacing
