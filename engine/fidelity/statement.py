"""The fidelity table as text, for the command line, the web app and the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilescope.engine.fidelity.corpus import Corpus
from tilescope.engine.fidelity.corpus_text import corpus_sentence, kind_texts
from tilescope.engine.fidelity.score import FURTHER_TOLERANCE, Row, mean_ratio, score
from tilescope.engine.fidelity.trust import NOT_MODELLED, TRUST

__all__ = [
    "COLUMNS",
    "Statement",
    "as_error",
    "as_number",
    "as_tolerance",
    "as_verdict",
    "further_sentence",
    "statement",
    "summary_sentence",
]

#: Headings of the rows.
COLUMNS = ("Reference", "Figure", "Published", "Simulated", "Error", "Tolerance", "Verdict")


@dataclass(frozen=True)
class Statement:
    """The table with its interpretation.

    Parameters
    ----------
    summary
        The score in one sentence.
    counted, shown, further
        Rows of text in the order of `COLUMNS`: counted figures, others of the same list, and
        those tested after the laws were set.
    further_summary
        The score of the further figures in one sentence.
    references
        Description and source of a reference, by the id in the first column.
    corpus
        Rows of text in the order of `corpus_text.KIND_COLUMNS`: expected errors by kind.
    corpus_summary
        The size and the version of the corpus.
    trust
        Kind of figure, expected error, reason.
    not_modelled
        Effects that are not modelled, one sentence per effect.
    """

    summary: str
    counted: tuple[tuple[str, ...], ...]
    shown: tuple[tuple[str, ...], ...]
    further: tuple[tuple[str, ...], ...]
    further_summary: str
    references: dict[str, str]
    corpus: tuple[tuple[str, ...], ...]
    corpus_summary: str
    trust: tuple[tuple[str, str, str], ...]
    not_modelled: tuple[str, ...]


def statement(rows: Sequence[Row], corpus: Corpus) -> Statement:
    """Return the statement of a fidelity table and a corpus."""
    return Statement(
        summary_sentence(rows),
        tuple(_texts(row) for row in rows if row.counted),
        tuple(_texts(row) for row in rows if not row.counted and not row.is_further),
        tuple(_texts(row) for row in rows if row.is_further),
        further_sentence(rows),
        {row.id: f"{row.what}; {row.machine}. Source: {row.source}." for row in rows},
        kind_texts(corpus.scores),
        corpus_sentence(corpus),
        TRUST,
        NOT_MODELLED,
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


def as_number(value: float | None) -> str:
    """Return a figure with four significant digits, or as an integer with separators."""
    if value is None:
        return "–"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def as_error(row: Row) -> str:
    """Return the signed error, as a percentage or in the figure's unit."""
    if row.error is None:
        return "–"
    if row.tolerance_kind == "absolute":
        return f"{row.error:+.1f} points"
    return "0 %" if row.error == 0 else f"{100 * row.error:+.1f} %"


def as_tolerance(row: Row) -> str:
    """Return the tolerance, as a percentage or in the figure's unit."""
    if row.tolerance_kind == "absolute":
        return f"{row.tolerance:g} points"
    return f"{100 * row.tolerance:g} %" if row.tolerance else "exact"


def summary_sentence(rows: Sequence[Row]) -> str:
    """Return the score in one sentence."""
    scores = score(rows)
    return (
        f"Of {scores.n_counted} counted references, {scores.n_built} are built in full and"
        f" {scores.n_within} are within all their tolerances. The geometric mean of the ratio"
        " between simulated and published figures (larger over smaller) is"
        f" {scores.mean_ratio:.2f}."
    )


def further_sentence(rows: Sequence[Row]) -> str:
    """Return the score of the figures tested after the laws were set, in one sentence."""
    built = [row for row in rows if row.is_further and row.ours]
    rows_apart = [row for row in built if not row.gave_law]
    n_within = sum(row.verdict == "within" for row in rows_apart)
    mean = mean_ratio(rows_apart)
    n_gave = len(built) - len(rows_apart)
    return (
        f"Of {len(rows_apart)} figures tested after the laws were set, {n_within} are within"
        f" {FURTHER_TOLERANCE:.0%}; the geometric mean of the ratio (larger over smaller) is"
        f" {mean:.2f}. {n_gave} more contributed terms to laws and prove nothing."
    )


def as_verdict(row: Row) -> str:
    """Return the verdict as text."""
    if row.verdict == "open":
        return f"open: needs {row.needs}"
    return f"{row.verdict}, used in a law" if row.gave_law else row.verdict
