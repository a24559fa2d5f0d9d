"""Sums of executions by step: the writer stores them, and `check` compares them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Totals"]

#: Rows that wait to be summed.
_WAITING = 1 << 18


class Totals:
    """Executions by IPU, track, step and pattern."""

    def __init__(self) -> None:
        self._rows = np.zeros((6, 0), np.int64)
        self._waiting: list[NDArray[np.int64]] = []
        self._n_waiting = 0
        #: Entries that were added since the last `take`.
        self.n_entries = 0

    def add(
        self, place: tuple[int, int], columns: dict[str, NDArray[np.int64]], n_times: int
    ) -> None:
        """Add entries.

        Parameters
        ----------
        place
            IPU and track.
        columns
            Columns of the trace by name.
        n_times
            How often they are executed.
        """
        n_executions = columns["count"] * n_times
        cycles = (columns["end_cycle"] - columns["start_cycle"]) * n_executions
        ipu_id, track = (np.full(len(cycles), number) for number in place)
        key = ipu_id, track, columns["step_id"], columns["pattern_id"]
        self._waiting.append(np.stack([*key, n_executions, cycles]))
        self._n_waiting += len(cycles)
        self.n_entries += len(cycles)
        if self._n_waiting > _WAITING:
            self._sum()

    def take(self) -> NDArray[np.int64]:
        """Return what was added, and begin anew.

        Returns
        -------
        ndarray of int64, shape (6, n_rows)
            IPU, track, step, pattern, executions and cycles, in that order.
        """
        self._sum()
        rows, self._rows, self.n_entries = self._rows, np.zeros((6, 0), np.int64), 0
        return rows

    def _sum(self) -> None:
        rows = np.concatenate([self._rows, *self._waiting], axis=1)
        self._waiting, self._n_waiting = [], 0
        order = np.lexsort(rows[3::-1])
        rows = rows[:, order]
        is_first = np.ones(rows.shape[1], np.bool_)
        is_first[1:] = (rows[:4, 1:] != rows[:4, :-1]).any(axis=0)
        first = np.flatnonzero(is_first)
        if len(first):
            rows = np.concatenate([rows[:4, first], np.add.reduceat(rows[4:], first, axis=1)])
        self._rows = rows
