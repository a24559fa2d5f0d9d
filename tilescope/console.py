"""Output of commands: tables for people, JSON for programs, progress on a terminal.

Output to a pipe has no colours, and nothing in it is shortened. Control characters are removed from
names of a report before they reach a terminal.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakSet

from tilescope.analyser.shown_text import shown_text

if TYPE_CHECKING:
    from pathlib import Path

    from tilescope.reports import Report

__all__ = [
    "Column",
    "comparing",
    "fit_streams",
    "print_json",
    "print_line",
    "print_name",
    "print_table",
    "print_text",
    "progress",
    "reading",
    "report_json",
    "shorten",
    "telling_state",
]

#: Spaces between columns.
_GAP = 2
#: Minimum widths of the first column, which names the row, and of other texts.
_NARROWEST_NAME = 24
_NARROWEST_TEXT = 12
#: Work that is quicker shows no progress, seconds.
_QUICK_S = 1.0


@dataclass(frozen=True)
class Column:
    """A column of a table; numbers are right-aligned."""

    title: str
    is_number: bool = False


def fit_streams() -> None:
    """Make standard streams replace characters that their encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


class _Progress:
    """The spinner of work that takes long, on a terminal only; any output ends it."""

    def __init__(self) -> None:
        self._timer: Any = None
        self._status: Any = None
        self._text = ""

    def start(self, text: str, after_s: float) -> None:
        """Show a text after some seconds, unless the work is over by then."""
        self.stop()
        self._text = shown_text(text)
        if sys.stderr.isatty():
            from threading import Timer

            self._timer = Timer(after_s, self._show)
            self._timer.daemon = True
            self._timer.start()

    def tell(self, text: str) -> None:
        """Replace the text."""
        self._text = shown_text(text)
        if self._status is not None:
            self._status.update(self._text)

    def stop(self) -> None:
        """Take the spinner away."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            timer.join()
        status, self._status = self._status, None
        if status is not None:
            status.stop()

    def _show(self) -> None:
        from rich.console import Console

        console = Console(stderr=True, markup=False, emoji=False)
        self._status = console.status(self._text)
        self._status.start()


_progress = _Progress()
#: Reports whose state is part of JSON output.
_in_json: WeakSet[Report] = WeakSet()


@contextmanager
def progress(text: str, after_s: float = _QUICK_S) -> Iterator[Callable[[str], None]]:
    """Show a text on a terminal while work takes long; yield a function that replaces it."""
    _progress.start(text, after_s)
    try:
        yield _progress.tell
    finally:
        _progress.stop()


@contextmanager
def telling_state(report: Report) -> Iterator[None]:
    """Verify a small report, and say after a command if it is not complete or not the newest run.

    The standard error stream is used, unless the state is part of JSON output. A command that meets
    damage ends with that error alone.
    """
    from tilescope.reports.errors import DamagedReport, ReportIncomplete

    report.verify_if_small()
    try:
        yield
    except (DamagedReport, ReportIncomplete):
        raise  # says it
    except Exception:
        _tell_state(report)
        raise
    _tell_state(report)


def _tell_state(report: Report) -> None:
    """Print what is to be known of a report, a line each, unless JSON output has it."""
    newer = report.newer_run
    sentences = [report.state.sentence, "" if newer is None else newer.sentence]
    if report in _in_json:
        return
    _progress.stop()
    for sentence in filter(None, sentences):
        print(shown_text(f"tilescope: {report.path}: {sentence}"), file=sys.stderr)  # noqa: T201


@contextmanager
def reading(path: Path, opening: Callable[[Path], Report] | None = None) -> Iterator[Report]:
    """Open a report for a command, and show that it is read if that takes long.

    An unexpected error of an inconsistent report becomes a sentence about the report. It is a
    profile unless another function opens it.
    """
    from tilescope import analyser
    from tilescope.collection import without_collection
    from tilescope.reports import explain_damage

    with (
        progress(f"Reading {path}"),
        without_collection(),
        (opening or analyser.open)(path) as report,
        telling_state(report),
        explain_damage(report),
    ):
        yield report


@contextmanager
def comparing(
    baseline: Path, candidate: Path, *, is_decisive: bool = False
) -> Iterator[tuple[Report, Report]]:
    """Open two reports for a command, and show that they are compared if that takes long.

    With ``is_decisive``, both are verified in full and must be complete.
    """
    from tilescope import analyser
    from tilescope.reports import explain_damage, require_complete

    with (
        progress(f"Comparing {baseline} with {candidate}"),
        analyser.open(baseline) as baseline_report,
        analyser.open(candidate) as candidate_report,
        telling_state(baseline_report),
        telling_state(candidate_report),
        explain_damage(baseline_report, candidate_report),
    ):
        if is_decisive:
            require_complete(baseline_report)
            require_complete(candidate_report)
        yield baseline_report, candidate_report


def print_line(text: str = "", *, is_whole: bool = False) -> None:
    """Print a line, cleaned; on a terminal it wraps between words, and wider words are shortened.

    With ``is_whole`` it is printed as it is, for paths and commands that someone copies.
    """
    _progress.stop()
    text = shown_text(text)
    if sys.stdout.isatty() and not is_whole and len(text) > (width := _terminal_width()):
        import textwrap

        indent = " " * (len(text) - len(text.lstrip()))
        text = textwrap.fill(
            indent + _fitted(text.lstrip(), width - len(indent)),
            width,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    print(text)  # noqa: T201


def print_name(before: str, name: str, after: str = "") -> None:
    """Print a line with a name; on a terminal the name is shortened so that the line fits."""
    _progress.stop()
    before, name, after = shown_text(before), shown_text(name), shown_text(after)
    if sys.stdout.isatty():
        space = _terminal_width() - len(before) - len(after)
        name = shorten(name, max(space, _NARROWEST_NAME))
    print(f"{before}{name}{after}")  # noqa: T201


def print_text(text: str) -> None:
    """Print a text that its writer has already escaped, such as XML."""
    sys.stdout.write(text)


def print_json(answer: object) -> None:
    """Print an object as JSON: raw numbers, units in keys, ASCII only."""
    _progress.stop()
    json.dump(answer, sys.stdout, indent=2, allow_nan=False)
    print()  # noqa: T201


def report_json(report: Report) -> dict[str, object]:
    """Return the report's fields common to all JSON output."""
    _in_json.add(report)
    state, newer = report.state, report.newer_run
    return {
        "path": str(report.path),
        "is_complete": state.is_complete,
        "is_verified": report.is_verified,
        "state": state.as_json(),
        "newer_run": None if newer is None else newer.as_json(),
    }


def print_table(
    columns: Sequence[Column], rows: Iterable[Sequence[str]], title: str | None = None
) -> None:
    """Print a table that fits the width of a terminal; in a pipe nothing is shortened or wrapped.

    On a terminal, texts wrap between words, and a word that is wider than its column, such as the
    name of a variable, is shortened in the middle. Numbers stay whole. Columns that do not fit
    follow in a table below, next to the first column again.
    """
    _progress.stop()
    cells = [[shown_text(cell) for cell in row] for row in rows]
    if title is not None:
        print_line(title)
    if not sys.stdout.isatty():
        _print_plain(columns, cells)
        return
    width = _terminal_width()
    for number, block in enumerate(_blocks(columns, cells, width)):
        if number:
            print_line()
        _print_block(
            [columns[index] for index in block], [[row[p] for p in block] for row in cells]
        )


def shorten(text: str, width: int) -> str:
    """Return a name that fits a width in terminal cells, its middle replaced by an ellipsis."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    tail_width = max((width - 1) // 2, 0)
    head = set_cell_size(text, max(width - 1 - tail_width, 0)).rstrip()
    tail = text
    while cell_len(tail) > tail_width:
        tail = tail[1 + max(len(tail) - 2 * width, 0) :]
    return f"{head}…{tail}"


def _terminal_width() -> int:
    """Return the width of the terminal behind standard output, cells."""
    from rich.console import Console

    return Console(file=sys.stdout).width


def _print_plain(columns: Sequence[Column], cells: list[list[str]]) -> None:
    """Print a table in columns, without lines or colours."""
    from rich.cells import cell_len

    titles = [shown_text(column.title) for column in columns]
    widths = [
        max(cell_len(row[index]) for row in (titles, *cells)) for index in range(len(columns))
    ]
    for row in (titles, *cells):
        parts = []
        for text, width, column in zip(row, widths, columns, strict=True):
            space = " " * (width - cell_len(text))
            parts.append(space + text if column.is_number else text + space)
        print((" " * _GAP).join(parts).rstrip())  # noqa: T201


def _print_block(columns: Sequence[Column], cells: list[list[str]]) -> None:
    """Print the columns of a table that fit a terminal side by side."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
    widths = _widths(columns, cells, console.width)
    console.width = max(console.width, sum(widths) + _GAP * len(widths))
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column, width in zip(columns, widths, strict=True):
        justify: Literal["left", "right"] = "right" if column.is_number else "left"
        table.add_column(Text(column.title), justify=justify, width=width)
    for row in cells:
        table.add_row(
            *(Text(_fitted(cell, width)) for cell, width in zip(row, widths, strict=True))
        )
    console.print(table)


def _fitted(text: str, width: int) -> str:
    """Return a text whose words fit a width."""
    if len(text) <= width and text.isascii():
        return text
    return " ".join(shorten(word, width) for word in text.split(" "))


def _blocks(columns: Sequence[Column], cells: list[list[str]], width: int) -> list[list[int]]:
    """Return which columns stand side by side; the first one in every block."""
    minimum = _least_widths(columns, cells)
    blocks, used = [[0]], minimum[0] + _GAP
    for index in range(1, len(columns)):
        if used + minimum[index] + _GAP > width and len(blocks[-1]) > 1:
            blocks.append([0])
            used = minimum[0] + _GAP
        blocks[-1].append(index)
        used += minimum[index] + _GAP
    return blocks


def _least_widths(columns: Sequence[Column], cells: list[list[str]]) -> list[int]:
    """Return how narrow the columns may become: titles wrap between words."""
    from rich.cells import cell_len

    answer = []
    for index, column in enumerate(columns):
        natural = max((cell_len(row[index]) for row in cells), default=0)
        words = max((cell_len(word) for word in column.title.split()), default=0)
        if column.is_number:
            answer.append(max(natural, words))
        else:
            narrowest = _NARROWEST_NAME if index == 0 else _NARROWEST_TEXT
            answer.append(max(min(natural, narrowest), words))
    return answer


def _widths(columns: Sequence[Column], cells: list[list[str]], width: int) -> list[int]:
    """Return column widths: the widest column shrinks, texts first, until the table fits."""
    from rich.cells import cell_len

    minimum = _least_widths(columns, cells)
    widths = [
        max([cell_len(column.title), *(cell_len(row[index]) for row in cells)])
        for index, column in enumerate(columns)
    ]
    excess = sum(widths) + _GAP * len(widths) - width
    for is_number in (False, True):
        indices = [index for index, column in enumerate(columns) if column.is_number == is_number]
        while excess > 0:
            spare = [index for index in indices if widths[index] > minimum[index]]
            if not spare:
                break
            widths[max(spare, key=lambda index: widths[index])] -= 1
            excess -= 1
    return widths
