"""Output of commands: tables for people, JSON for programs.

Output to a pipe has no colours and no truncated columns. Control characters are removed from names
of a report before they reach a terminal.
"""

from __future__ import annotations

import io
import json
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "Column",
    "clean",
    "fit_streams",
    "print_json",
    "print_line",
    "print_table",
    "print_text",
    "report_json",
]

#: Unicode categories that move the cursor, reverse the writing direction or are invisible.
_HOSTILE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
#: A pipe has no width; names in a report are limited in length.
_PIPE_WIDTH = 100_000
#: Spaces between columns.
_GAP = 2
#: Minimum width of a folded text column.
_NARROWEST_TEXT = 16


@dataclass(frozen=True)
class Column:
    """A column of a table; numbers are right-aligned."""

    title: str
    is_number: bool = False


def clean(text: str) -> str:
    """Return a text with control and invisible characters replaced by a replacement mark."""
    if text.isascii() and text.isprintable():
        return text
    return "".join("�" if unicodedata.category(char) in _HOSTILE else char for char in text)


def fit_streams() -> None:
    """Make standard streams replace characters that their encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def print_line(text: str = "") -> None:
    """Print a line, cleaned."""
    print(clean(text))  # noqa: T201


def print_text(text: str) -> None:
    """Print a text that its writer has already escaped, such as XML."""
    sys.stdout.write(text)


def print_json(answer: object) -> None:
    """Print an object as JSON: raw numbers, units in keys, ASCII only."""
    json.dump(answer, sys.stdout, indent=2, allow_nan=False)
    print()  # noqa: T201


def report_json(report: Report) -> dict[str, object]:
    """Return the report's fields common to all JSON output."""
    return {"path": str(report.path), "is_complete": report.is_complete}


def print_table(
    columns: Sequence[Column], rows: Iterable[Sequence[str]], title: str | None = None
) -> None:
    """Print a table that fits the width of a terminal; in a pipe nothing is truncated or folded.

    On a narrow terminal, texts are folded and numbers stay whole.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    is_terminal = sys.stdout.isatty()
    cells = [[clean(cell) for cell in row] for row in rows]
    console = Console(
        file=sys.stdout if is_terminal else io.StringIO(),
        markup=False,
        highlight=False,
        emoji=False,
        color_system="auto" if is_terminal else None,
    )
    widths = _widths(columns, cells, console.width if is_terminal else _PIPE_WIDTH)
    console.width = max(console.width, sum(widths) + _GAP * len(widths))
    table = Table(
        box=box.SIMPLE_HEAD if is_terminal else None,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0) if is_terminal else (0, 1),
    )
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            Text(column.title),
            justify="right" if column.is_number else "left",
            overflow="fold",
            width=width,
        )
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    if title is not None:
        console.print(Text(clean(title), style="bold"))
    console.print(table)
    if not is_terminal:
        assert isinstance(console.file, io.StringIO)
        for line in console.file.getvalue().splitlines():
            print(line.rstrip())  # noqa: T201


def _widths(columns: Sequence[Column], cells: list[list[str]], width: int) -> list[int]:
    """Return column widths: the widest text column shrinks until the table fits."""
    from rich.cells import cell_len

    widths = [
        max([cell_len(column.title), *(cell_len(row[place]) for row in cells)])
        for place, column in enumerate(columns)
    ]
    texts = [place for place, column in enumerate(columns) if not column.is_number]
    while texts and sum(widths) + _GAP * len(widths) > width:
        widest = max(texts, key=lambda place: widths[place])
        if widths[widest] <= _NARROWEST_TEXT:
            break
        widths[widest] -= 1
    return widths
