"""How far to trust the numbers, as texts: what the command and the pages show alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilescope.engine.fidelity.analysis import TRUST, UNKNOWN
from tilescope.engine.fidelity.page import (
    as_error,
    as_number,
    as_tolerance,
    as_verdict,
    further_sentence,
    summary_sentence,
)
from tilescope.engine.fidelity.score import Row

__all__ = ["COLUMNS", "Statement", "statement"]

#: Of the rows' texts.
COLUMNS = ("Target", "Figure", "Published", "Ours", "Error", "Tolerance", "Verdict")


@dataclass(frozen=True)
class Statement:
    """The table and what it means.

    Parameters
    ----------
    summary
        The score in a sentence.
    counted, shown, further
        Rows of texts in the order of `COLUMNS`: figures that count, others of the same list, and
        those tried after the laws were set.
    further_summary
        The score of the last in a sentence.
    targets
        What a target is, a sentence with its source, by the id in the first column.
    trust
        Kind of number, how far to trust it, why.
    not_modelled
        What the model does not know, a sentence each.
    """

    summary: str
    counted: tuple[tuple[str, ...], ...]
    shown: tuple[tuple[str, ...], ...]
    further: tuple[tuple[str, ...], ...]
    further_summary: str
    targets: dict[str, str]
    trust: tuple[tuple[str, str, str], ...]
    not_modelled: tuple[str, ...]


def statement(rows: Sequence[Row]) -> Statement:
    """Return what a table of figures says."""
    return Statement(
        summary_sentence(rows),
        tuple(_texts(row) for row in rows if row.counted),
        tuple(_texts(row) for row in rows if not row.counted and not row.is_further),
        tuple(_texts(row) for row in rows if row.is_further),
        further_sentence(rows),
        {row.id: f"{row.what}; {row.machine}. Source: {row.source}." for row in rows},
        TRUST,
        UNKNOWN,
    )


def _texts(row: Row) -> tuple[str, ...]:
    return (
        row.id,
        row.figure,
        f"{as_number(row.published)} {row.unit}",
        as_number(row.ours),
        as_error(row),
        as_tolerance(row),
        as_verdict(row),
    )
