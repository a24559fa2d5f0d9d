"""The packaged table from results, and the rows that differ from the table before."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.corpus.measure import Measured
from tests.corpus.rows import Figures, Row

from tilescope.engine.fidelity import corpus

__all__ = ["KINDS", "Move", "corpus_row", "moves", "moves_text", "score_lines"]

#: Kinds of the packaged table by the headings of the published one.
KINDS = {
    "product": "products",
    "fully_connected": "fully connected layers",
    "convolution": "convolutions",
    "octave_convolution": "octave convolutions",
    "pooling": "pooling",
    "reduction": "reductions",
    "embedding": "embeddings",
    "lstm": "recurrent layers",
    "gru": "recurrent layers",
    "triangular_solve": "triangular solves",
    "cholesky": "Cholesky factorisations",
    "ctc_loss": "CTC loss",
}
#: Passes of the published programs that have more than one: gradients of data and of weights.
_PASSES = {
    "fully_connected": 3,
    "convolution": 3,
    "octave_convolution": 3,
    "pooling": 2,
    "embedding": 2,
}
#: Figures of a row that are compared with those before, with their names in messages.
_COMPARED = {"cycles": "cycles", "memory_bytes": "memory"}
_LEAST_MOVE = 0.01
_MISSING = "–"


def corpus_row(row: Row, measured: Measured) -> corpus.CorpusRow:
    """Return the row of the packaged table."""
    kind = KINDS[row.program]
    if row.program == "convolution" and row.parameters.get("groups", 1) > 1:
        kind = "depthwise convolutions"
    n_passes = 3 if row.parameters.get("trains") else _PASSES.get(row.program, 1)
    ours = None if measured.ours is None else _figures(measured.ours)
    return corpus.CorpusRow(
        row.name, kind, row.machine, n_passes, _figures(row.published), ours,
        measured.lacks, measured.refused,
    )  # fmt: skip


def _figures(figures: Figures) -> corpus.Figures:
    return corpus.Figures(figures.cycles, figures.memory, figures.fullest)


@dataclass(frozen=True)
class Move:
    """A row whose figures changed.

    Parameters
    ----------
    ratios
        By figure: simulated over published before and after, None if it was not compiled.
    """

    key: str
    kind: str
    ratios: Mapping[str, tuple[float | None, float | None]]

    @property
    def worsening(self) -> float:
        """How many times farther from the published figure it is; infinite for a lost row."""
        return max(_worsening(*pair) for pair in self.ratios.values())


def _worsening(before: float | None, after: float | None) -> float:
    if before is None or after is None:
        return math.inf if after is None else 0.0
    return max(after, 1 / after) / max(before, 1 / before)


def moves(before: Sequence[corpus.CorpusRow], after: Sequence[corpus.CorpusRow]) -> list[Move]:
    """Return the rows of both tables that moved by more than 1 %, the largest worsening first."""
    old = {row.key: row for row in before}
    moved = []
    for row in after:
        ratios = {
            name: (old[row.key].ratio(figure), row.ratio(figure))
            for figure, name in _COMPARED.items()
            if row.key in old and _has_moved(old[row.key].ratio(figure), row.ratio(figure))
        }
        if ratios:
            moved.append(Move(row.key, row.kind, ratios))
    return sorted(moved, key=lambda move: -move.worsening)


def _has_moved(before: float | None, after: float | None) -> bool:
    if before is None or after is None:
        return before is not after
    return abs(after / before - 1) > _LEAST_MOVE


def moves_text(moved: Sequence[Move], most: int | None = None) -> str:
    """Return moved rows by kind with their ratios before and after, at most some of a kind."""
    if not moved:
        return "No row moved by more than 1 %.\n"
    by_kind: dict[str, list[Move]] = {}
    for move in moved:
        by_kind.setdefault(move.kind, []).append(move)
    lines = [f"{len(moved)} rows moved by more than 1 %, simulated over published:"]
    for kind, of_kind in by_kind.items():
        lines.append(f"{kind}: {len(of_kind)}")
        lines += [f"  {move.key}: {_move_text(move)}" for move in of_kind[:most]]
        n_more = len(of_kind) - len(of_kind[:most])
        lines += [f"  … {n_more} more"] if n_more else []
    return "\n".join(lines) + "\n"


def _move_text(move: Move) -> str:
    return ", ".join(
        f"{name} {_number(before)} → {_number(after)}"
        for name, (before, after) in move.ratios.items()
    )


def _number(ratio: float | None) -> str:
    return _MISSING if ratio is None else f"{ratio:.3g}"


def score_lines(scores: Sequence[corpus.KindScore]) -> Iterator[str]:
    """Yield the table by kind as lines."""
    yield (
        f"{'kind':<24} {'':<6} {'rows':>4} {'built':>5} {'whole':>5} {'cycles':>7} {'bias':>7}"
        f" {'memory':>7} {'fullest':>7}  worst"
    )
    for score in scores:
        means = (score.cycles, score.bias, score.memory, score.fullest)
        worst = f"{score.worst} {_number(score.worst_ratio)}" if score.worst else ""
        missing = f"missing: {', '.join(score.missing)}" if score.missing else ""
        yield (
            f"{score.kind:<24} {score.machine:<6} {score.n_rows:>4} {score.n_built:>5}"
            f" {score.n_complete:>5} {' '.join(f'{_number(mean):>7}' for mean in means)}"
            f"  {'; '.join(text for text in (worst, missing) if text)}"
        )
