"""A difference as one HTML page without scripts and without references to other files."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from tilescope.analyser.export.plain_text import one_line

if TYPE_CHECKING:
    from tilescope.analyser.export.diff_document import DiffDocument, DocumentTable

__all__ = ["html_page"]

_STYLE = """\
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1.5rem 0 .5rem; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #8885;
  vertical-align: top; overflow-wrap: anywhere; }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.failed, .missing { color: #c92a2a; }
.warned, .acknowledged { color: #b35c00; }
.passed { color: #2b8a3e; }
@media (prefers-color-scheme: dark) {
  .failed, .missing { color: #ff8787; }
  .warned, .acknowledged { color: #ffa94d; }
  .passed { color: #69db7c; }
}"""


def html_page(document: DiffDocument) -> str:
    """Return a difference as an HTML page; names cannot add markup."""
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>TileScope diff</title>\n<style>\n{_STYLE}\n</style>\n</head>\n<body>",
        "<h1>TileScope diff</h1>",
        f"<p>Baseline <code>{_text(document.baseline)}</code>,"
        f" candidate <code>{_text(document.candidate)}</code>.</p>",
    ]
    if document.gates:
        parts.append("<h2>Gates</h2>\n<table>\n<tr><th>Status</th><th>Outcome</th></tr>")
        parts += [
            f'<tr><td class="{status}">{status}</td><td>{_text(text)}</td></tr>'
            for status, text in document.gates
        ]
        parts.append("</table>")
    parts += [f'<p class="warned">{_text(note)}</p>' for note in document.notes]
    parts.append("<h2>What changed</h2>\n<ul>")
    parts += [f"<li>{_text(sentence)}</li>" for sentence in document.sentences]
    parts.append("</ul>")
    parts += [_table(table) for table in document.tables]
    page = "\n".join(parts) + "\n</body>\n</html>\n"
    # ASCII survives every terminal and pipe; other characters are references.
    return page.encode("ascii", "xmlcharrefreplace").decode()


def _table(table: DocumentTable) -> str:
    """Return a table."""
    kinds = [' class="number"' if column.is_number else "" for column in table.columns]
    heads = "".join(
        f"<th{kind}>{_text(column.title)}</th>"
        for kind, column in zip(kinds, table.columns, strict=True)
    )
    rows = "\n".join(
        "<tr>"
        + "".join(f"<td{kind}>{_text(cell)}</td>" for kind, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for row in table.rows
    )
    omitted = f"\n<p>… {table.n_omitted:,} more.</p>" if table.n_omitted else ""
    return f"<table>\n<tr>{heads}</tr>\n{rows}\n</table>{omitted}"


def _text(text: str) -> str:
    """Return a text, escaped."""
    return escape(one_line(text))
