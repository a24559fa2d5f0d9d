"""What a data-dependent run notes, so that its timeline can be computed afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_DECISIONS", "RunNotes"]

#: Decisions that are kept of a run that is not recorded; more take too much memory.
MOST_DECISIONS = 1 << 19
#: Decisions that are few, so that another run may have the same.
_FEW_DECISIONS = 1 << 10
#: Bytes of measured cycles that are kept of such a run.
_MOST_BYTES = 1 << 24


class RunNotes:
    """The decisions of a run, and the cycles that it measured.

    Parameters
    ----------
    is_recorded
        Whether the run is recorded: all is kept, else no more than a few megabytes.

    Attributes
    ----------
    is_whole
        Whether nothing was dropped.
    """

    def __init__(self, *, is_recorded: bool) -> None:
        self._is_recorded = is_recorded
        self._decisions: list[NDArray[np.int64]] = []
        self._measured: list[NDArray[np.int64]] = []
        self._waits: list[int] = []
        self._n_bytes = 0
        self.is_whole = True

    def add_decisions(self, decisions: NDArray[np.int64], *, is_last: bool) -> None:
        """Add decisions in order, shape (n,); a run that is not recorded has one list of them."""
        if not is_last and not self._is_recorded:
            self.drop()
        elif self.is_whole:
            self._decisions.append(decisions.copy())

    def add_measured(self, tile_cycles: NDArray[np.int64]) -> None:
        """Add the busy cycles of every tile in a step, shape (n_tiles,)."""
        self._n_bytes += tile_cycles.nbytes
        if self._n_bytes > _MOST_BYTES and not self._is_recorded:
            self.drop()
        elif self.is_whole:
            self._measured.append(tile_cycles)

    def add_wait(self, n_cycles: int) -> None:
        """Add the cycles that the replica waits for others before they begin a step at once."""
        if self.is_whole:
            self._waits.append(n_cycles)
            if len(self._waits) > MOST_DECISIONS and not self._is_recorded:
                self.drop()

    def drop(self) -> None:
        """Forget what was noted: it is too much."""
        self._decisions, self._measured, self._waits, self.is_whole = [], [], [], False

    @property
    def decided(self) -> bytes:
        """The decisions, if they say all of the timeline and are few; else empty."""
        is_short = len(self._decisions) == 1 and self._decisions[0].size <= _FEW_DECISIONS
        is_all = is_short and not self._measured and not any(self._waits)
        return self._decisions[0].tobytes() if is_all else b""

    def decisions(self) -> Iterator[int]:
        """Return the decisions, in order: branches from 0 on, passes, whether a loop goes on."""
        for part in self._decisions:
            yield from part.tolist()

    def waits(self) -> Iterator[int]:
        """Return the cycles that the replica waited for others, in order."""
        return iter(self._waits)

    def measured(self) -> Iterator[NDArray[np.int64]]:
        """Return the measured cycles, in order."""
        return iter(self._measured)
