"""A difference as a document: sentences, tables of texts and outcomes of gates.

Text, Markdown and HTML render the same document and therefore say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tilescope.analyser.breakdown import ChangeRow, ChangeTable
from tilescope.analyser.quantities import (
    MISSING,
    BytesStyle,
    format_change,
    format_percent,
    format_value,
)

if TYPE_CHECKING:
    from tilescope.analyser.diff import Difference
    from tilescope.analyser.gates import GateResult

__all__ = ["DiffDocument", "DocumentColumn", "DocumentTable", "Rows", "diff_document", "gate_lines"]

#: Units that a heading or a metric's name states.
_STATED = frozenset({"cycles", "flops", "tiles"})


@dataclass(frozen=True)
class DocumentColumn:
    """A column; numbers are right-aligned."""

    title: str
    is_number: bool = False


@dataclass(frozen=True)
class DocumentTable:
    """A table of texts; ``n_omitted`` more rows exist."""

    columns: tuple[DocumentColumn, ...]
    rows: tuple[tuple[str, ...], ...]
    n_omitted: int


@dataclass(frozen=True)
class DiffDocument:
    """What changed from a baseline to a candidate, for people.

    ``gates`` are the outcomes to list: status and sentence. ``notes`` are remarks on the gates,
    such as acknowledgements that have expired.
    """

    baseline: str
    candidate: str
    sentences: tuple[str, ...]
    tables: tuple[DocumentTable, ...]
    gates: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


class Rows(NamedTuple):
    """Units of memory, and the number of rows shown of a table; metrics are shown in full."""

    style: BytesStyle | None = None
    top: int = 10


def diff_document(
    difference: Difference,
    sentences: Sequence[str],
    tables: Sequence[ChangeTable],
    results: Sequence[GateResult],
    notes: Sequence[str] = (),
    rows: Rows = Rows(),  # noqa: B008 # it is immutable
) -> DiffDocument:
    """Return a difference as a document.

    Parameters
    ----------
    difference
        The difference; it names the two reports.
    sentences
        Its explanation, most important first.
    tables
        Tables of what changed; empty ones are left out.
    results
        Outcomes of gates.
    notes
        Remarks on the gates.
    rows
        How tables are shown.
    """
    return DiffDocument(
        difference.baseline.path,
        difference.candidate.path,
        tuple(sentences),
        tuple(_table(table, rows.style, rows.top) for table in tables if table.rows),
        gate_lines(results),
        tuple(notes),
    )


def gate_lines(results: Sequence[GateResult]) -> tuple[tuple[str, str], ...]:
    """Return the outcomes to list: what a gate with a wildcard passed is one line."""
    n_passed: dict[str, int] = {}
    for result in results:
        if result.status == "passed" and result.gate.has_wildcard:
            n_passed[result.gate.text] = n_passed.get(result.gate.text, 0) + 1
    lines, written = [], set()
    for result in results:
        count = n_passed.get(result.gate.text, 0)
        if result.status != "passed" or count < 2:
            lines.append((result.status, result.text))
        elif result.gate.text not in written:
            written.add(result.gate.text)
            lines.append((result.status, f"{result.gate.text}: {count:,} figures are within it."))
    return tuple(lines)


def _table(table: ChangeTable, style: BytesStyle | None, top: int) -> DocumentTable:
    """Return a table of changes as texts."""
    is_about_metrics = table.by in {"metric", "ipu"}
    text = table.rows if table.by == "metric" else table.rows[:top]
    numbers = ["Baseline", "Candidate", "Change", *(["% of baseline"] if is_about_metrics else [])]
    columns = (
        DocumentColumn(table.title),
        *([DocumentColumn(table.detail)] if table.detail else []),
        *(DocumentColumn(title, is_number=True) for title in numbers),
        DocumentColumn(""),
    )
    rows = tuple(_cells(row, table, style) for row in text)
    return DocumentTable(columns, rows, len(table.rows) - len(text))


def _cells(row: ChangeRow, table: ChangeTable, style: BytesStyle | None) -> tuple[str, ...]:
    """Return a row as texts."""
    unit = "" if row.unit in _STATED else row.unit
    percent = [format_percent(row.percent_of_baseline, is_signed=True)]
    is_unknown = table.by == "metric" and row.verdict in {"new", "missing"}
    return (
        row.name,
        *([row.detail] if table.detail else []),
        format_value(row.baseline, unit, style),
        format_value(row.candidate, unit, style),
        MISSING if is_unknown else format_change(row.delta, unit, style),
        *(percent if table.by in {"metric", "ipu"} else []),
        row.verdict,
    )
