"""Tables of two reports side by side: rows of the summary, options, nested rows of memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilescope.analyser.diff.pairs import Pair, pairs

if TYPE_CHECKING:
    from tilescope.analyser.summary import OptionRow, Row
    from tilescope.analyser.tile_memory import MemoryRow, MemoryTable

__all__ = ["memory_row_pairs", "option_pairs", "row_pairs"]


def row_pairs(base: Sequence[Row], new: Sequence[Row]) -> tuple[Pair[Row], ...]:
    """Return the rows of two summaries by label."""
    ones, others = ({row.label: row for row in rows} for rows in (base, new))
    return pairs(ones, others)


def option_pairs(
    base: Sequence[OptionRow], new: Sequence[OptionRow]
) -> tuple[Pair[OptionRow], ...]:
    """Return the options of two reports by name."""
    ones, others = ({option.name: option for option in options} for options in (base, new))
    return pairs(ones, others)


def memory_row_pairs(base: MemoryTable, new: MemoryTable) -> tuple[Pair[MemoryRow], ...]:
    """Return the rows of two memory tables by key."""
    ones, others = ({row.key: row for row in table.rows} for table in (base, new))
    return pairs(ones, others)
