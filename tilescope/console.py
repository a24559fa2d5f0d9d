"""What commands print: tables for people, JSON for programs.

In a pipe there are no colours and no cut columns; names from a report are cleaned of control
characters before they reach a terminal.
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
    "report_json",
]

#: Unicode categories that move the cursor, reverse the writing direction or are invisible.
_HOSTILE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
#: A pipe has no width; no name of a report is longer than its limits allow.
_PIPE_WIDTH = 100_000
#: Space between columns.
_GAP = 2
#: A column of text is not folded below this.
_NARROWEST_TEXT = 16


@dataclass(frozen=True)
class Column:
    """A column of a table; numbers stand on the right."""

    title: str
    is_number: bool = False


def clean(text: str) -> str:
    """Return a text without control characters and the like; each becomes a replacement mark."""
    if text.isascii() and text.isprintable():
        return text
    return "".join("�" if unicodedata.category(each) in _HOSTILE else each for each in text)


def fit_streams() -> None:
    """Let standard streams replace what their encoding does not have, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def print_line(text: str = "") -> None:
    """Print a line, cleaned."""
    print(clean(text))  # noqa: T201


def print_json(answer: object) -> None:
    """Print an answer as JSON: raw numbers, units in the keys, ASCII only."""
    json.dump(answer, sys.stdout, indent=2, allow_nan=False)
    print()  # noqa: T201


def report_json(report: Report) -> dict[str, object]:
    """Return what every JSON answer says of its report."""
    return {"path": str(report.path), "is_complete": report.is_complete}


def print_table(
    columns: Sequence[Column], rows: Iterable[Sequence[str]], title: str | None = None
) -> None:
    """Print a table; on a terminal it fits the width, in a pipe nothing is cut or folded.

    Where a terminal is narrow, texts are folded and numbers stay whole.
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
    """Return the width of every column: texts give way in turn until the table fits."""
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
