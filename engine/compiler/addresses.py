"""Element numbers across several variables, and where elements lie."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import Variable

__all__ = ["Addresses"]


class Addresses:
    """Element numbers across variables, and the tile that owns each element.

    Parameters
    ----------
    variables
        The variables, by ascending id. Between two that are not neighbours a number is left out, so
        that runs cross from one to the next only where all variables of a graph would let them.

    Attributes
    ----------
    base : ndarray of int64, shape (n_variables + 1,)
        Number of element 0 of each variable.
    map_start, map_tile : ndarray of int64
        Mapped intervals in that numbering.
    """

    def __init__(self, variables: Sequence[Variable]) -> None:
        ids = np.array([v.variable_id for v in variables], dtype=np.int64)
        sizes = np.array([v.n_elements for v in variables], dtype=np.int64)
        sizes[:-1] += np.diff(ids) > 1
        self._numbers = {variable: number for number, variable in enumerate(variables)}
        self.base = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        self.item_bytes = np.array([v.dtype.n_bytes for v in variables], dtype=np.int64)
        self.map_start = np.concatenate(
            [v.map_start + b for v, b in zip(variables, self.base, strict=False)]
            or [np.zeros(0, np.int64)]
        )
        self.map_tile = np.concatenate(
            [v.map_tile for v in variables] or [np.zeros(0, np.int32)]
        ).astype(np.int64)

        self._first_byte = np.concatenate(
            [np.zeros(1, np.int64), np.cumsum(sizes * self.item_bytes)]
        )

    def base_of(self, variable: Variable) -> int:
        """Return the number of a variable's element 0."""
        return int(self.base[self._numbers[variable]])

    def bytes_of(self, start: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bytes of runs, which may span several variables: ndarray of int64."""
        if (self.item_bytes == self.item_bytes[0]).all():
            return length * int(self.item_bytes[0])
        return self._bytes_before(start + length) - self._bytes_before(start)

    def _bytes_before(self, element: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the total bytes of all elements before each given one: ndarray of int64."""
        variable = np.minimum(self.variable_of(element), self.item_bytes.size - 1)
        inside = (element - self.base[variable]) * self.item_bytes[variable]
        before: NDArray[np.int64] = self._first_byte[variable] + inside
        return before

    def variable_of(self, element: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of each element's variable: ndarray of int64."""
        if self.base.size == 2:  # one variable
            return np.zeros(element.size, np.int64)
        return np.searchsorted(self.base, element, side="right") - 1

    def places_of(self, tile: NDArray[np.int64], element: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where elements lie in the memory of tiles, in elements: ndarray of int64.

        Two elements of a variable on one tile are as far apart as their places. What a tile does
        not own is in a buffer, in the order of the elements.
        """
        interval = np.searchsorted(self.map_start, element, side="right") - 1
        is_own = self.map_tile[interval] == tile
        position = self._interval_place[interval] + element - self.map_start[interval]
        return np.where(is_own, position, int(self.base[-1]) + self.base.size + element)

    @cached_property
    def _interval_place(self) -> NDArray[np.int64]:
        """Place of each mapped interval: after the earlier ones of its variable on its tile."""
        length = np.diff(np.append(self.map_start, self.base[-1]))
        variable = self.variable_of(self.map_start)
        order = np.argsort(self.map_tile, kind="stable")
        before = np.cumsum(length[order]) - length[order]
        address = np.empty_like(before)
        address[order] = before
        # A gap between variables: they need not be neighbours in memory.
        return address + variable
