"""``python -m tests.corpus [--again] [PATTERN ...]``: compile all published programs.

Writes build/corpus.jsonl, from which an interrupted run continues, and without patterns the
packaged table engine/fidelity/corpus.json.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from tests.corpus.measure import Measured, measure
from tests.corpus.results import ROOT, Results, sources_digest
from tests.corpus.rows import Row, all_rows
from tests.corpus.table import corpus_row, moves, moves_text, score_lines
from tests.corpus.workers import Measure, measure_all

from tilescope.engine.fidelity.corpus import CorpusRow, corpus_as_json, kind_scores, read_corpus

RESULTS = ROOT / "build/corpus.jsonl"
MOVES = ROOT / "build/corpus-moves.txt"
TABLE = ROOT / "engine/fidelity/corpus.json"
#: Rows between two lines of progress.
_STRIDE = 25
#: Moved rows of a kind that are printed; `MOVES` has all.
_MOST_MOVES = 10


def selected(patterns: Sequence[str]) -> list[Row]:
    """Return the rows whose key or heading matches a pattern; all without patterns.

    A pattern without wildcards matches what contains it.
    """
    globs = [pattern if set("*?[") & set(pattern) else f"*{pattern}*" for pattern in patterns]
    return [
        row
        for row in all_rows()
        if not globs
        or any(fnmatchcase(text, glob) for glob in globs for text in (row.key, row.program))
    ]


def compile_rows(
    rows: Sequence[Row],
    results: Results,
    *,
    again: bool = False,
    measure_row: Measure = measure,
    tells_rows: bool = False,
) -> list[CorpusRow]:
    """Return rows of the packaged table; those that have no result yet are compiled.

    Parameters
    ----------
    rows
        The published rows.
    results
        Holds the results of before, and takes new ones as they arrive.
    again
        Whether rows with a result are compiled again.
    measure_row
        A function of a module, which the workers import.
    tells_rows
        Whether every row is printed; otherwise only progress and refusals.
    """
    waiting = [row for row in rows if again or row.key not in results.by_key]
    if len(waiting) < len(rows):
        _say(f"{len(rows) - len(waiting)} of {len(rows)} rows are known from before")
    for number, (row, measured) in enumerate(
        measure_all(waiting, measure_row=measure_row), start=1
    ):
        results.add(row.key, measured)
        if tells_rows or measured.refused:
            _say(_line(row, measured))
        if number % _STRIDE == 0:
            _say(f"{number} of {len(waiting)} rows")
    return [corpus_row(row, results.by_key[row.key]) for row in rows]


def _line(row: Row, measured: Measured) -> str:
    if measured.ours is None:
        return f"{row.key}: {measured.refused or f'lacks {measured.lacks}'}"
    ratios = (
        f"{name} {getattr(measured.ours, name) / getattr(row.published, name):.3f}"
        for name in ("cycles", "memory", "fullest")
    )
    lacks = f"; lacks {measured.lacks}" if measured.lacks else ""
    return f"{row.key}: {', '.join(ratios)}{lacks}"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def write_table(rows: Sequence[CorpusRow], table: Path = TABLE, moves_path: Path = MOVES) -> None:
    """Write the packaged table, and print the rows that moved."""
    before = read_corpus(table.read_text(encoding="utf-8")).rows if table.exists() else ()
    moved = moves(before, rows)
    _say(moves_text(moved, _MOST_MOVES).rstrip())
    moves_path.parent.mkdir(parents=True, exist_ok=True)
    moves_path.write_text(moves_text(moved), encoding="utf-8")
    table.write_text(corpus_as_json(rows), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Compile the rows, print the table by kind, and write it."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpus", description=__doc__)
    parser.add_argument("--again", action="store_true", help="compile rows that have results, too")
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="of a name or a kind")
    chosen = parser.parse_args(arguments)
    published = selected(chosen.patterns)
    if not published:
        parser.error(f"no row matches {' '.join(chosen.patterns)!r}")
    results = Results(RESULTS, sources_digest())
    rows = compile_rows(published, results, again=chosen.again, tells_rows=bool(chosen.patterns))
    _say("\n".join(["", *score_lines(kind_scores(rows)), ""]))
    if not chosen.patterns:
        write_table(rows)


if __name__ == "__main__":
    main()
