"""Predicted and compiled cycles of an operation's parts as pairs of bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilescope.analyser.program.plan_text import PartRow

__all__ = ["PartBars", "part_bars"]


@dataclass(frozen=True)
class PartBars:
    """Lengths of a part's two bars as fractions of the longest bar; None for a missing bar."""

    predicted: float | None
    compiled: float | None
    is_exchange: bool


def part_bars(rows: Sequence[PartRow]) -> tuple[PartBars | None, ...]:
    """Return the bars of the rows; None for a sum, which would dwarf its parts."""
    longest = max(
        (
            cycles
            for row in rows
            if not row.is_sum
            for cycles in (row.predicted_cycles, row.compiled_cycles)
            if cycles is not None
        ),
        default=0,
    )

    def length(cycles: int | None) -> float | None:
        return None if cycles is None else cycles / longest if longest else 0.0

    return tuple(
        None
        if row.is_sum
        else PartBars(
            length(row.predicted_cycles),
            length(row.compiled_cycles),
            row.is_exchange,
        )
        for row in rows
    )
