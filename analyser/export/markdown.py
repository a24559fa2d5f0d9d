"""A difference as Markdown, for step summaries and comments on pull requests."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from tilescope.analyser.export.plain_text import one_line, shortened

if TYPE_CHECKING:
    from tilescope.analyser.export.diff_document import DiffDocument, DocumentTable

__all__ = ["markdown"]

#: What starts markup; an underscore does so at the edge of a word only.
_SPECIAL = re.compile(r"([\\`*\[\]|~$]|(?<!\w)_|_(?!\w))")
_STATUS = {
    "passed": "✅ passed",
    "failed": "❌ failed",
    "missing": "❌ missing",
    "warned": "⚠️ warned",
    "acknowledged": "☑️ acknowledged",
}


def markdown(document: DiffDocument) -> str:
    """Return a difference as GitHub-flavoured Markdown; names cannot add markup."""
    lines = ["## TileScope diff", ""]
    lines += [f"Baseline {_code(document.baseline)}, candidate {_code(document.candidate)}.", ""]
    if document.gates:
        lines += ["| Gate | Outcome |", "| --- | --- |"]
        lines += [f"| {_STATUS[status]} | {_text(text)} |" for status, text in document.gates]
        lines += [""]
    lines += [line for note in document.notes for line in (f"⚠️ {_text(note)}", "")]
    lines += [f"- {_text(sentence)}" for sentence in document.sentences]
    for table in document.tables:
        lines += ["", *_table(table)]
    return "\n".join(lines) + "\n"


def _table(table: DocumentTable) -> list[str]:
    """Return a table."""
    lines = [
        _row([column.title or " " for column in table.columns]),
        "| " + " | ".join("---:" if item.is_number else "---" for item in table.columns) + " |",
        *(_row(row) for row in table.rows),
    ]
    if table.n_omitted:
        lines += ["", f"… {table.n_omitted:,} more."]
    return lines


def _row(cells: tuple[str, ...] | list[str]) -> str:
    """Return a row."""
    return "| " + " | ".join(_text(cell) for cell in cells) + " |"


def _text(text: str) -> str:
    """Return a text on one line, without markup, HTML, mentions or overlong names."""
    return _SPECIAL.sub(r"\\\1", html.escape(shortened(one_line(text)), quote=False))


def _code(text: str) -> str:
    """Return a text as code."""
    return f"`{shortened(one_line(text)).replace('`', chr(39))}`"
