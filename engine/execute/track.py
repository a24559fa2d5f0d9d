"""The entries of one track while they are recorded: columns, with loops folded into them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Track"]

#: Maximum entries of a track for which nested loops are written out. Above it, executions are
#: counted and spread evenly over their loop: 2^18 take some 10 MB, more than a screen can show.
_MOST_WRITTEN_OUT = 1 << 18


@dataclass
class Track:
    """Executions of steps ordered by time; `Timeline` describes the columns.

    ``has_spread`` marks that some executions were counted without their individual start times,
    ``end_written_out`` how many entries it had, at most, with a nested loop written out.
    """

    step_id: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    period: list[int] = field(default_factory=list)
    count: list[int] = field(default_factory=list)
    patterns: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    has_spread: bool = False
    end_written_out: int = 0

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.step_id)

    def add(self, step_id: int, start: int, end: int) -> None:
        """Add one execution."""
        self.step_id.append(step_id)
        self.start.append(start)
        self.end.append(end)
        self.period.append(0)
        self.count.append(1)

    def has_room_for(self, part: Track) -> bool:
        """Return whether the nested loops of another track would be written out here, too."""
        return len(self) + part.end_written_out <= _MOST_WRITTEN_OUT

    def append(self, part: Track, shift: int) -> None:
        """Append the entries of another track, later by some cycles; it has room for them."""
        self.has_spread |= part.has_spread
        if part.end_written_out:
            end = len(self) + part.end_written_out
            self.end_written_out = max(self.end_written_out, end)
        self.step_id += part.step_id
        self.start += [start + shift for start in part.start]
        self.end += [end + shift for end in part.end]
        self.period += part.period
        self.count += part.count

    def repeat(self, first: int, period: int, rounds: int) -> None:
        """Repeat the entries from `first` on, one round of a loop, for `rounds` rounds.

        An entry has one period: where the round contains loops, either those or the round are
        written out, whichever takes fewer entries. Where both take too many, an entry keeps the
        number of its executions over all rounds, at their mean distance.
        """
        counts = self.count[first:]
        if not counts:
            return
        n_executions = sum(counts)
        n_written_out = min(n_executions, len(counts) * rounds)
        if n_executions == len(counts):
            self.period[first:] = [period] * len(counts)
            self.count[first:] = [rounds] * len(counts)
            return
        if first + n_written_out > _MOST_WRITTEN_OUT:
            self._spread(first, period, rounds)
            return
        self.end_written_out = max(self.end_written_out, first + n_written_out)
        if n_executions <= len(counts) * rounds:
            self._write_out_loops(first)
            self.period[first:] = [period] * n_executions
            self.count[first:] = [rounds] * n_executions
        else:
            self._write_out_rounds(first, period, rounds)

    def _spread(self, first: int, period: int, rounds: int) -> None:
        """Count the executions from `first` on over all rounds, from the first one to the last.

        Where a round is only the inner loop, the mean distance is exact.
        """
        count = np.asarray(self.count[first:], dtype=np.int64)
        distance = np.asarray(self.period[first:], dtype=np.int64)
        last = (count - 1) * distance + (rounds - 1) * period
        mean, rest = np.divmod(last, count * rounds - 1)
        self.period[first:] = mean.tolist()
        self.count[first:] = (count * rounds).tolist()
        self.has_spread |= bool(((count > 1) & ((rest > 0) | (mean != distance))).any())

    def _write_out_loops(self, first: int) -> None:
        """Expand the loops from `first` on into single executions."""
        columns = (self.step_id, self.start, self.end, self.period, self.count)
        step_id, start, end, period, count = (
            np.asarray(column[first:], dtype=np.int64) for column in columns
        )
        entry = np.repeat(np.arange(count.size), count)
        turn = np.arange(entry.size) - np.repeat(np.cumsum(count) - count, count)
        start, end = start[entry] + turn * period[entry], end[entry] + turn * period[entry]
        order = np.argsort(start, kind="stable")
        self.step_id[first:] = step_id[entry][order].tolist()
        self.start[first:] = start[order].tolist()
        self.end[first:] = end[order].tolist()

    def _write_out_rounds(self, first: int, period: int, rounds: int) -> None:
        """Add the remaining rounds of the one that starts at `first`."""
        n_entries = len(self) - first
        shift = np.repeat(np.arange(1, rounds, dtype=np.int64) * period, n_entries)
        for column, shifts in (
            (self.step_id, 0),
            (self.start, shift),
            (self.end, shift),
            (self.period, 0),
            (self.count, 0),
        ):
            repeated = np.tile(np.asarray(column[first:], dtype=np.int64), rounds - 1)
            column.extend((repeated + shifts).tolist())
