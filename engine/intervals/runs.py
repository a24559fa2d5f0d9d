"""Intervals of elements per tile: expand regions into runs, join them, split them by owner."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import RunFailed
from tilescope.engine.host.jit.entry import array_pass
from tilescope.engine.host.memory import available_bytes

__all__ = [
    "check_room",
    "group_pieces",
    "join_ordered_runs",
    "join_runs",
    "order_by_tile",
    "split_by_owner",
    "union_runs",
]

#: Runs created before those of one tile are joined: about 100 MB.
_RUNS_AT_ONCE = 1 << 22
#: Memory per run while runs are sorted, joined and costed, bytes; measured: 130 to 150.
_BYTES_PER_RUN = 160
_INT64_MAX = np.iinfo(np.int64).max


@array_pass("int64[:, :], int64[:, :]", writes="int64[:], int64[:], int64[:, :], int64[:, :]")
def _normal_form(size, stride, first, length, count, spacing):  # type: ignore[no-untyped-def]
    """Find a run's start and length, and the sizes and strides of its repetitions, per region.

    A region is a set of elements, so its dimensions may be sorted and merged: in ascending order of
    stride, a dimension that continues the one below extends it. `first` holds the starts of the
    regions, lengths and counts ones, spacings zeros.
    """
    n, n_dims = size.shape
    for v in range(n):
        n_kept = 0
        for d in range(n_dims):
            step, times = stride[v, d], size[v, d]
            if step == 0 or times == 1:
                continue
            if step < 0:  # reversed: start at the other end
                first[v] += (times - 1) * step
                step = -step
            k = n_kept
            while k > 0 and spacing[v, k - 1] > step:
                spacing[v, k] = spacing[v, k - 1]
                count[v, k] = count[v, k - 1]
                k -= 1
            spacing[v, k] = step
            count[v, k] = times
            n_kept += 1
        out = 0
        for k in range(n_kept):
            step, times = spacing[v, k], count[v, k]
            if out == 0 and step <= length[v]:
                length[v] += (times - 1) * step
                continue
            if out > 0:
                below, below_times = spacing[v, out - 1], count[v, out - 1]
                if step % below == 0 and step // below <= below_times:
                    count[v, out - 1] = below_times + (times - 1) * (step // below)
                    continue
            spacing[v, out] = step
            count[v, out] = times
            out += 1
        for k in range(out, n_dims):
            spacing[v, k] = 0
            count[v, k] = 1


@array_pass(
    "int64[:], int64[:], int64[:, :], int64[:, :], int64[:], int64[:]",
    writes="int64[:], int64[:, :]",
)
def _fill_runs(  # type: ignore[no-untyped-def]
    first, length, count, spacing, tile, n_runs, index, runs
):
    """Write tile, start and length of the runs of regions; `index` is for their dimensions."""
    n_dims = count.shape[1]
    r = 0
    for v in range(first.size):
        for d in range(n_dims):
            index[d] = 0
        element = first[v]
        for _ in range(n_runs[v]):
            runs[0, r] = tile[v]
            runs[1, r] = element
            runs[2, r] = length[v]
            r += 1
            d = 0
            while d < n_dims:
                if spacing[v, d] == 0:
                    break
                index[d] += 1
                element += spacing[v, d]
                if index[d] < count[v, d]:
                    break
                element -= index[d] * spacing[v, d]
                index[d] = 0
                d += 1


def union_runs(
    start: NDArray[np.int64],
    size: NDArray[np.int64],
    stride: NDArray[np.int64],
    tile: NDArray[np.int32],
    base: int,
    where: str,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the contiguous runs that regions cover, joined per tile.

    Parameters
    ----------
    start : ndarray of int64, shape (n,)
        First element of a region in its variable.
    size, stride : ndarray of int64, shape (n, n_dims)
        Extents and strides, in elements.
    tile : ndarray of int32, shape (n,)
        Tile of a region's vertex.
    base
        Index of the variable's first element among the elements of all variables.
    where
        Name of the regions in an error message.

    Returns
    -------
    tile, start, length : ndarray of int64
        One entry per run, sorted by tile and start; starts count over all variables.

    Raises
    ------
    RunFailed
        If this computer lacks memory for the runs.
    """
    first = start.astype(np.int64) + base
    length = np.ones(start.size, np.int64)
    count, spacing = np.ones(size.shape, np.int64), np.zeros(size.shape, np.int64)
    _normal_form(size, stride, first, length, count, spacing)
    owner = tile.astype(np.int64)
    n_runs = np.prod(count, axis=1, dtype=np.int64)
    rank = np.zeros(start.size + 1, np.int64)
    np.cumsum(n_runs, out=rank[1:])
    if int(rank[-1]) == start.size:  # every region is one run
        return join_runs(owner, first, length)
    # Vertices of a tile mostly read the same elements: joining chunk by chunk bounds the memory.
    parts: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = []
    offset = n_kept = 0
    while offset < start.size:
        end = max(
            int(np.searchsorted(rank, rank[offset] + _RUNS_AT_ONCE, side="right")) - 1, offset + 1
        )
        check_room(int(rank[end] - rank[offset]) + n_kept, where)
        columns = (column[offset:end] for column in (first, length, count, spacing, owner, n_runs))
        runs = np.empty((3, int(rank[end] - rank[offset])), np.int64)
        _fill_runs(*columns, np.empty(size.shape[1], np.int64), runs)
        parts.append(join_runs(runs[0], runs[1], runs[2]))
        n_kept += parts[-1][0].size
        offset = end
    if len(parts) == 1:
        return parts[0]
    if not parts:
        empty = np.zeros(0, np.int64)
        return empty, empty, empty
    tiles, starts, lengths = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return join_runs(tiles, starts, lengths)


def check_room(n_runs: int, where: str) -> None:
    """Raise an error if this computer lacks memory for the runs or pieces of an exchange.

    Raises
    ------
    RunFailed
        With the number of runs and the memory they need.
    """
    if n_runs < _RUNS_AT_ONCE:
        return
    room_bytes = available_bytes()
    if n_runs * _BYTES_PER_RUN > room_bytes:
        raise RunFailed(
            f"{where} touch at least {n_runs:,} separate runs of elements, which take"
            f" {n_runs * _BYTES_PER_RUN / 1e9:,.1f} GB to compute, and this computer has"
            f" {room_bytes / 1e9:,.1f} GB free: make the model smaller, or lay its data out so that"
            " neighbours are used together"
        )


@array_pass("int64[:], int64[:], int64[:]", writes="int64[:, :], int64[:]")
def _join(tile, start, length, runs, n_runs):  # type: ignore[no-untyped-def]
    """Write tile, start and end of the joined runs, and their number."""
    m = 0
    for i in range(tile.size):
        end = start[i] + length[i]
        if m > 0 and runs[0, m - 1] == tile[i] and start[i] <= runs[2, m - 1]:
            runs[2, m - 1] = max(runs[2, m - 1], end)
        else:
            runs[0, m] = tile[i]
            runs[1, m] = start[i]
            runs[2, m] = end
            m += 1
    n_runs[0] = m


def order_by_tile(tile: NDArray[np.int64], start: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the order by tile and start, stable; linear where it is that already.

    Tiles and starts are not negative.
    """
    span = int(start.max(initial=0)) + 1
    largest = (int(tile.max(initial=0)) + 1) * span
    if largest > _INT64_MAX:
        return np.lexsort((start, tile))
    key = tile * span + start
    if (key[1:] >= key[:-1]).all():
        return np.arange(key.size)
    place_bits = key.size.bit_length()
    if largest > _INT64_MAX >> place_bits:
        return np.argsort(key, kind="stable")
    # Values are sorted several times faster than places: each key carries its place.
    key <<= place_bits
    key |= np.arange(key.size)
    key.sort(kind="stable")  # keys come in ascending stretches
    key &= (1 << place_bits) - 1
    return key


def join_runs(
    tile: NDArray[np.int64], start: NDArray[np.int64], length: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the union of runs per tile, sorted by tile and start: three ndarrays of int64."""
    if tile.size == 0:
        return tile, start, length
    order = order_by_tile(tile, start)
    return join_ordered_runs(tile[order], start[order], length[order])


def join_ordered_runs(
    tile: NDArray[np.int64], start: NDArray[np.int64], length: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the union per tile of runs that are sorted by tile and start: like `join_runs`."""
    runs, n_runs = np.empty((3, tile.size), np.int64), np.zeros(1, np.int64)
    _join(tile, start, length, runs, n_runs)
    tile, start, end = runs[:, : n_runs[0]]
    return tile.copy(), start.copy(), end - start


def split_by_owner(
    tile: NDArray[np.int64],
    start: NDArray[np.int64],
    length: NDArray[np.int64],
    map_start: NDArray[np.int64],
    map_tile: NDArray[np.int64],
    where: str,
) -> tuple[Any, ...]:
    """Split runs at changes of their elements' owner, and drop local runs.

    Parameters
    ----------
    tile, start, length : ndarray of int64
        Runs: consuming tile, first element, number of elements.
    map_start, map_tile : ndarray of int64
        Mapped intervals over all variables, ascending.
    where
        Name of the runs in an error message.

    Returns
    -------
    owner, tile, start, length : ndarray of int64
        Pieces owned by another tile than the consuming one.

    Raises
    ------
    RunFailed
        If this computer lacks memory for the pieces.
    """
    end = start + length
    first = np.searchsorted(map_start, start, side="right") - 1
    map_end = np.append(map_start[1:], _INT64_MAX)
    if (end <= map_end[first]).all():  # every run has one owner
        owner = map_tile[first]
        is_remote = owner != tile
        return tuple(column[is_remote] for column in (owner, tile, start, length))
    count = np.maximum(np.searchsorted(map_start, end, side="left") - first, 1)
    check_room(int(count.sum()), where)
    run = np.repeat(np.arange(count.size), count)
    interval = np.arange(run.size) - np.repeat(np.cumsum(count) - count - first, count)
    begin = np.maximum(start[run], map_start[interval])
    until = np.minimum(end[run], map_end[interval])
    fragments = map_tile[interval], tile[run], begin, until - begin
    is_remote = fragments[0] != fragments[1]
    return tuple(column[is_remote] for column in fragments)


@array_pass("int32[:], int64[:], int64[:, :]", writes="int64[:], int64[:], int64[:, :], int64[:]")
def _group(tile, key, starts, first, count, spacing, n_groups):  # type: ignore[no-untyped-def]
    """Write first piece, number of pieces and spacings of the groups, and their number."""
    n_operands, n = starts.shape
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
    n_groups[0] = m + 1


def group_pieces(
    tile: NDArray[np.int32], key: NDArray[np.int64], starts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Group a tile's pieces of equal shape that are evenly spaced for every operand.

    Parameters
    ----------
    tile : ndarray of int32, shape (n,)
        Sorted.
    key : ndarray of int64, shape (n,)
        Key of a piece's shape.
    starts : ndarray of int64, shape (n_operands, n)
        First elements, those of the output ascending within a tile.

    Returns
    -------
    first, count : ndarray of int64, shape (n_groups,)
        First piece of a group, and its number of pieces.
    spacing : ndarray of int64, shape (n_groups, n_operands)
        Distance between starts; 0 in a group of one.
    """
    n_operands, n_pieces = starts.shape
    first, count = np.empty((2, n_pieces), np.int64)
    spacing, n_groups = np.zeros((n_pieces, n_operands), np.int64), np.zeros(1, np.int64)
    _group(tile, key, starts, first, count, spacing, n_groups)
    first, count, spacing = (column[: n_groups[0]].copy() for column in (first, count, spacing))
    spacing[count == 1] = 0
    return first, count, spacing
