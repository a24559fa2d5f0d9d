"""Sparse columns of counts by tile or by IPU: only non-zero values take memory."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.compact import compact, stored_bytes
from tilescope.engine.graph.deferred import Deferred

__all__ = ["Column"]

#: Values that are read at once: a column of more is one by tile.
_FEW = 64


@dataclass(frozen=True, eq=False)
class Column(Deferred):
    """A sparse, immutable column of integers, one per tile or IPU.

    Parameters
    ----------
    size
        Number of tiles or IPUs.
    ids : ndarray of integers, shape (n,)
        Indices of the non-zero values, ascending, as `compact` stores them.
    narrow_values : ndarray of integers, shape (n,)
        The values at these indices, stored likewise.
    """

    deferred: ClassVar = ("ids", "narrow_values")

    size: int
    ids: NDArray[Any]
    narrow_values: NDArray[Any]

    @classmethod
    def of(cls, values: NDArray[Any]) -> Column:
        """Return the column for an array of integers, shape (size,)."""
        indices = np.flatnonzero(values)
        if not indices.size:
            return cls.zeros(values.size)
        return cls.at(values.size, indices, values[indices])

    @classmethod
    def at(cls, size: int, ids: NDArray[Any], values: NDArray[Any]) -> Column:
        """Return the column with `values` at `ids`, ascending, and 0 elsewhere."""
        return cls(size, compact(ids), compact(values))

    @staticmethod
    @functools.cache
    def zeros(size: int) -> Column:
        """Return the column of zeros, a shared instance."""
        nothing = compact(np.zeros(0, np.int64))
        return Column(size, nothing, nothing)

    @property
    def is_worth_deferring(self) -> bool:
        """Whether it has more values than there are IPUs, of which a run reads the cycles."""
        return self.ids.size > _FEW

    @property
    def values(self) -> NDArray[np.int64]:
        """The non-zero values: ndarray of int64, shape (n,)."""
        return self.narrow_values.astype(np.int64)

    @property
    def n_bytes(self) -> int:
        """Host memory of the arrays, bytes."""
        return stored_bytes(self.ids) + stored_bytes(self.narrow_values)

    def dense(self) -> NDArray[np.int64]:
        """Return all values: a new ndarray of int64, shape (size,)."""
        values = np.zeros(self.size, np.int64)
        values[self.ids] = self.narrow_values
        return values

    def tolist(self) -> list[int]:
        """Return all values."""
        values: list[int] = self.dense().tolist()
        return values

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Any) -> Any:
        return self.dense()[index]

    def any(self) -> bool:
        """Whether any value is not 0."""
        return self.ids.size > 0

    def sum(self) -> int:
        """Return the sum of all values."""
        return int(self.narrow_values.sum(dtype=np.int64))

    def max(self) -> int:
        """Return the largest value; values are counts, so it is at least 0."""
        return int(self.narrow_values.max(initial=0))

    def group_counts(self, n_groups: int) -> NDArray[np.int64]:
        """Return the number of non-zero values per group, of equal groups: shape (n_groups,)."""
        return np.array([self.ids.size]) if n_groups == 1 else np.diff(self._edges(n_groups))

    def group_sums(self, n_groups: int) -> NDArray[np.int64]:
        """Return the sum per group, of equal groups such as IPUs: shape (n_groups,)."""
        if n_groups == 1:
            return np.array([self.sum()])
        total = np.zeros(self.ids.size + 1, np.int64)
        np.cumsum(self.narrow_values, out=total[1:])
        return np.diff(total[self._edges(n_groups)])

    def group_maxima(self, n_groups: int) -> NDArray[np.int64]:
        """Return the largest value per group, of equal groups: ndarray of int64, (n_groups,)."""
        if n_groups == 1:
            return np.array([self.max()])
        largest = np.zeros(n_groups, np.int64)
        edges = self._edges(n_groups)
        busy = np.flatnonzero(np.diff(edges))
        if busy.size:
            largest[busy] = np.maximum.reduceat(self.narrow_values, edges[busy])
        return np.maximum(largest, 0)

    def group(self, number: int, n_groups: int) -> NDArray[np.int64]:
        """Return the values of one of equal groups: ndarray of int64, shape (size // n_groups,)."""
        if n_groups == 1:
            return self.dense()
        width = self.size // n_groups
        low, high = np.searchsorted(self.ids, [number * width, (number + 1) * width])
        values = np.zeros(width, np.int64)
        values[self.ids[low:high] - number * width] = self.narrow_values[low:high]
        return values

    def _edges(self, n_groups: int) -> NDArray[np.int64]:
        """Return the index into the ids at which each group begins, and the end of the last."""
        if n_groups == 1:
            return np.array([0, self.ids.size])
        return np.searchsorted(self.ids, np.arange(n_groups + 1) * (self.size // n_groups))
