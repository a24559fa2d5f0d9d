"""Part counts that are useful for a size, and their combinations over the tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.tiling import KERNEL, Dimension, PerDimension

__all__ = ["all_parts", "part_options", "useful_parts", "widest_parts"]


def useful_parts(size: int, limit: int) -> list[int]:
    """Return the part counts that change the largest part of a size, ascending.

    Parameters
    ----------
    size
        Units to divide.
    limit
        Largest part count.
    """
    parts: list[int] = []
    part = 1
    while part <= min(size, limit):
        parts.append(part)
        largest = -(-size // part)
        if largest == 1:
            break
        part = -(-size // (largest - 1))
    return parts


def part_options(
    sizes: PerDimension[int],
    n_tiles: int,
    stated: Mapping[str, int],
    undivided: Sequence[Dimension] = KERNEL,
) -> tuple[tuple[int, ...], ...]:
    """Return the part counts to try by dimension.

    Parameters
    ----------
    sizes
        Units by dimension.
    n_tiles
        Largest part count.
    stated
        Given part counts.
    undivided
        Dimensions that are not split unless a count is given.
    """
    options_ = []
    for d, size in zip(Dimension, sizes, strict=True):
        stated_count = stated.get(d.label)
        if stated_count is None:
            options_.append((1,) if d in undivided else tuple(useful_parts(size, n_tiles)))
        else:
            options_.append((stated_count,) if 1 <= stated_count <= size else ())
    return tuple(options_)


@lru_cache(maxsize=8)  # families and groupings of a shape share few sizes
def all_parts(options: tuple[tuple[int, ...], ...], n_tiles: int) -> NDArray[np.int64]:
    """Return all splits over the tiles: ndarray of int64, shape (n, 8).

    Parameters
    ----------
    options
        Part counts to try by dimension, ascending.
    n_tiles
        Tiles available.
    """
    parts = _combined(options, n_tiles)
    parts.setflags(write=False)
    return parts.T


def _combined(options: tuple[tuple[int, ...], ...], n_tiles: int) -> NDArray[np.int64]:
    """Return all splits over the tiles: ndarray of int64, shape (8, n)."""
    columns: list[NDArray[np.int64]] = []
    used = np.ones(1, np.int64)
    for option in options:
        counts = np.array(option, np.int64)
        n_fitting = np.searchsorted(counts, n_tiles // used, side="right")
        row = np.repeat(np.arange(used.size), n_fitting)
        position_in_row = np.arange(row.size) - np.repeat(
            np.cumsum(n_fitting) - n_fitting, n_fitting
        )
        columns = [column[row] for column in columns] + [counts[position_in_row]]
        used = used[row] * columns[-1]
    return np.stack(columns)


@lru_cache(maxsize=64)  # serial parts of a shape, too
def widest_parts(options: tuple[tuple[int, ...], ...], n_tiles: int) -> NDArray[np.int64]:
    """Return the splits of which no dimension could have more parts: ndarray of int64.

    Parameters
    ----------
    options, n_tiles
        As for `all_parts`.
    """
    parts = _combined(options, n_tiles)
    used, is_widest = parts.prod(axis=0), np.ones(parts.shape[1], dtype=bool)
    for part_count, option in zip(parts, options, strict=True):
        if len(option) > 1:
            counts = np.array((*option, np.iinfo(np.int32).max), np.int64)
            next_count = counts[np.searchsorted(counts, part_count) + 1]
            is_widest &= used // part_count * next_count > n_tiles
    widest = parts[:, is_widest]
    widest.setflags(write=False)
    return widest.T
