"""The corpus as text: expected errors by kind, for the command line, the pages and the docs."""

from __future__ import annotations

from collections.abc import Sequence

from tilescope.engine.fidelity.corpus import MACHINES, Corpus, CorpusRow, KindScore, distance

__all__ = [
    "CORPUS_COLUMNS",
    "CORPUS_NUMBERS",
    "KIND_COLUMNS",
    "as_passes",
    "as_ratio",
    "as_spread",
    "corpus_sentence",
    "corpus_texts",
    "far_rows",
    "kind_texts",
]

#: Headings of `corpus_texts`.
CORPUS_COLUMNS = (
    "Kind", "Machine", "Published", "Built", "Complete", "Cycles", "Bias", "Memory",
    "Fullest tile", "Worst", "Missing",
)  # fmt: skip
#: Those of numbers.
CORPUS_NUMBERS = frozenset(CORPUS_COLUMNS[2:9])
#: Headings of `kind_texts`.
KIND_COLUMNS = ("Kind", "Machine", "Programs", "Cycles", "Memory", "Fullest tile", "Missing")
#: The factor from which on an error is given as one.
_FACTOR = 2.0
_MISSING = "–"
_PASSES = {1: "", 2: "two passes", 3: "three passes"}


def as_spread(mean: float | None) -> str:
    """Return a geometric mean of max(r, 1/r) as an expected error: ±5 %, or factor 2.7."""
    if mean is None:
        return _MISSING
    return f"factor {mean:.1f}" if mean >= _FACTOR else f"±{100 * (mean - 1):.0f} %"


def as_ratio(ratio: float | None) -> str:
    """Return simulated over published with three digits."""
    if ratio is None:
        return _MISSING
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def as_passes(n_passes: int) -> str:
    """Return the passes of a program in words; empty for a single one."""
    return _PASSES[n_passes]


def corpus_texts(scores: Sequence[KindScore]) -> tuple[tuple[str, ...], ...]:
    """Return rows of text in the order of `CORPUS_COLUMNS`."""
    return tuple(_texts(score) for score in scores)


def _texts(score: KindScore) -> tuple[str, ...]:
    passes = as_passes(score.n_passes)
    worst = f"{score.worst}: {as_ratio(score.worst_ratio)}" if score.worst else _MISSING
    return (
        f"{score.kind}, {passes}" if passes else score.kind,
        MACHINES[score.machine],
        f"{score.n_rows:,}",
        f"{score.n_built:,}",
        f"{score.n_complete:,}",
        as_spread(score.cycles),
        as_ratio(score.bias),
        as_spread(score.memory),
        as_spread(score.fullest),
        worst,
        ", ".join(score.missing),
    )


def kind_texts(scores: Sequence[KindScore]) -> tuple[tuple[str, ...], ...]:
    """Return the expected errors in the order of `KIND_COLUMNS`, with the complete programs."""
    rows = []
    for score, texts in zip(scores, corpus_texts(scores), strict=True):
        row = dict(zip(CORPUS_COLUMNS, texts, strict=True))
        row["Programs"] = f"{score.n_complete:,} of {score.n_rows:,}"
        rows.append(tuple(row[column] for column in KIND_COLUMNS))
    return tuple(rows)


def far_rows(rows: Sequence[CorpusRow], factor: float = _FACTOR) -> list[CorpusRow]:
    """Return the complete rows whose cycles are beyond a factor, the farthest first."""

    def far(row: CorpusRow) -> float:
        ratio = row.ratio("cycles")
        return 1.0 if ratio is None else distance(ratio)

    complete = [row for row in rows if row.is_complete and far(row) > factor]
    return sorted(complete, key=lambda row: (-far(row), row.key))


def corpus_sentence(corpus: Corpus) -> str:
    """Return the size of the corpus and its version in one sentence."""
    n_built = sum(row.ours is not None for row in corpus.rows)
    n_complete = sum(row.is_complete for row in corpus.rows)
    return (
        f"The corpus has {len(corpus.rows)} published programs, counted by machine; {n_built} are"
        f" built, {n_complete} of them in full. Expected errors are geometric means, over those"
        f" built in full, of the ratio between simulated and published figures (larger over"
        f" smaller). Version of the table: {corpus.version}."
    )
