"""Tables of two reports side by side: rows of the summary, options, nested rows of memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilescope.analyser.diff.alignment.pairs import Pair, pairs

if TYPE_CHECKING:
    from tilescope.analyser.memory.tile_memory import MemoryRow, MemoryTable
    from tilescope.analyser.summary.summarise import OptionRow, Row

__all__ = ["memory_row_pairs", "option_pairs", "row_pairs"]


def row_pairs(baseline: Sequence[Row], candidate: Sequence[Row]) -> tuple[Pair[Row], ...]:
    """Return the rows of two summaries by label."""
    baseline_by_key, candidate_by_key = (
        {row.label: row for row in rows} for rows in (baseline, candidate)
    )
    return pairs(baseline_by_key, candidate_by_key)


def option_pairs(
    baseline: Sequence[OptionRow], candidate: Sequence[OptionRow]
) -> tuple[Pair[OptionRow], ...]:
    """Return the options of two reports by name."""
    baseline_by_key, candidate_by_key = (
        {option.name: option for option in options} for options in (baseline, candidate)
    )
    return pairs(baseline_by_key, candidate_by_key)


def memory_row_pairs(baseline: MemoryTable, candidate: MemoryTable) -> tuple[Pair[MemoryRow], ...]:
    """Return the rows of two memory tables by key."""
    baseline_by_key, candidate_by_key = (
        {row.key: row for row in table.rows} for table in (baseline, candidate)
    )
    return pairs(baseline_by_key, candidate_by_key)
