"""Tile placement on an IPU: pairs that share an exchange bus, and physical rows."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

__all__ = ["partners", "tile_rows"]


@functools.cache
def tile_rows(tiles_per_ipu: int, n_rows: int) -> NDArray[np.int64]:
    """Return the physical row of every tile of an IPU: ndarray of int64, shape (tiles_per_ipu,).

    Notes
    -----
    Tiles 2k and 2k + 1 are adjacent. Pairs fill a column of rows; columns run down and up
    alternately.
    Source: osmarks/ipu-stack, ipu-target, tile numbering of the C600.
    """
    column, row = np.divmod(np.arange(tiles_per_ipu, dtype=np.int64) // 2, n_rows)
    rows = np.where(column % 2 == 1, n_rows - 1 - row, row)
    rows.flags.writeable = False
    return rows


@functools.cache
def partners(n_tiles: int, tiles_per_ipu: int) -> NDArray[np.int64]:
    """Return the other tile of every tile's pair, or -1: ndarray of int64, shape (n_tiles,).

    Notes
    -----
    Source: graphcore/poplibs sdk-release-3.4, lib/poplin/ExchangeEstimator.hpp: two tiles next to
    each other share a bus.
    """
    tile = np.arange(n_tiles, dtype=np.int64)
    partner = tile % tiles_per_ipu ^ 1
    partners_ = np.where(partner < tiles_per_ipu, tile - tile % tiles_per_ipu + partner, -1)
    partners_.flags.writeable = False
    return partners_
