"""Message buffers: what vertices use but their tile does not hold, one for each variable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tilescope.engine.compiler.exchange import Exchange

__all__ = ["Messages", "messages_of"]


@dataclass(frozen=True)
class Messages:
    """The message buffers of one exchange, sorted by tile.

    Parameters
    ----------
    variable_id, tile, n_bytes : ndarray of int64, shape (n_buffers,)
        Whose elements a buffer holds, on which tile, and its size.
    """

    variable_id: NDArray[np.int64]
    tile: NDArray[np.int64]
    n_bytes: NDArray[np.int64]

    def by_tile(self, n_tiles: int) -> NDArray[np.int64]:
        """Bytes of each tile's buffers: ndarray of int64, shape (n_tiles,)."""
        return np.bincount(self.tile, self.n_bytes, n_tiles).astype(np.int64)


def messages_of(exchange: Exchange, tile: NDArray[np.int64]) -> Messages:
    """Return the buffers that pieces of an exchange need on the tiles whose vertices use them.

    Parameters
    ----------
    exchange
        The pieces.
    tile : ndarray of int64, shape (n_pieces,)
        Where each piece is used: its receiver, or its sender when vertices made it.
    """
    variable = exchange.addresses.variable_of(exchange.start)
    n_variables = exchange.addresses.item_bytes.size
    key = tile * n_variables + variable
    n_bytes = exchange.n_bytes
    if (key[1:] < key[:-1]).any():
        order = np.argsort(key, kind="stable")
        key, n_bytes = key[order], n_bytes[order]
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    total = np.add.reduceat(n_bytes, first)
    return Messages(key[first] % n_variables, key[first] // n_variables, total)
