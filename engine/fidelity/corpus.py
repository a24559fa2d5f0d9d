"""The corpus: published programs by kind, and how far the simulated figures are from theirs."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import Any

__all__ = [
    "FIGURES",
    "MACHINES",
    "Corpus",
    "CorpusRow",
    "Figures",
    "KindScore",
    "corpus_as_json",
    "corpus_version",
    "kind_scores",
    "packaged_corpus",
    "packaged_version",
    "read_corpus",
]

#: The packaged table; `make corpus` of the checkout writes it.
TABLE = "corpus.json"
#: Names of the figures of a row.
FIGURES = ("cycles", "memory_bytes", "fullest_bytes")
#: Presets of the published figures, all of the IPU Model, with their titles.
MACHINES = {"gc2": "IPU Model of GC2", "gc200": "IPU Model of GC200"}


@dataclass(frozen=True)
class Figures:
    """What a program takes.

    Parameters
    ----------
    cycles
        Of one run.
    memory_bytes
        What is always live, plus by tile the peak of what comes and goes, over all tiles.
    fullest_bytes
        Of the fullest tile, with gaps.
    """

    cycles: int
    memory_bytes: int
    fullest_bytes: int


@dataclass(frozen=True)
class CorpusRow:
    """A published program on a machine.

    Parameters
    ----------
    kind
        What it is a program of, such as ``products``.
    machine
        One of `MACHINES`.
    n_passes
        Passes that it consists of: three for a step of training, built from the calls for the
        result and for the gradients of data and weights.
    ours
        None if it was not compiled.
    lacks
        What the library lacks for the program, or for the rest of it.
    refused
        The message of the error that ended it.
    """

    name: str
    kind: str
    machine: str
    n_passes: int
    published: Figures
    ours: Figures | None
    lacks: str
    refused: str

    @property
    def key(self) -> str:
        """The row's name in messages."""
        return f"{self.name}@{self.machine}"

    @property
    def is_complete(self) -> bool:
        """Whether the whole program was compiled."""
        return self.ours is not None and not self.lacks

    def ratio(self, figure: str) -> float | None:
        """Return a simulated over the published figure, by its name in `FIGURES`."""
        if self.ours is None:
            return None
        return float(getattr(self.ours, figure) / getattr(self.published, figure))


@dataclass(frozen=True)
class KindScore:
    """The rows of a kind on a machine.

    Parameters
    ----------
    n_passes
        The least passes of its programs.
    n_rows, n_built, n_complete
        Published programs, those that were compiled, and those of them that lack nothing.
    cycles, memory, fullest
        Geometric means of max(r, 1/r) over complete rows, r is simulated over published; None
        without complete rows.
    bias
        Geometric mean of r of cycles over complete rows.
    worst, worst_ratio
        The complete row with the largest max(r, 1/r) of cycles, and its r.
    missing
        What rows lack, and how many were refused.
    """

    kind: str
    machine: str
    n_passes: int
    n_rows: int
    n_built: int
    n_complete: int
    cycles: float | None
    memory: float | None
    fullest: float | None
    bias: float | None
    worst: str
    worst_ratio: float | None
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Corpus:
    """A table of rows.

    Parameters
    ----------
    version
        The digest of its rows, eight hexadecimal digits.
    """

    version: str
    rows: tuple[CorpusRow, ...]

    @property
    def scores(self) -> tuple[KindScore, ...]:
        """The scores by kind and machine, in the order of the rows."""
        return kind_scores(self.rows)


def distance(ratio: float) -> float:
    """Return max(r, 1/r)."""
    return max(ratio, 1 / ratio)


def _mean(logs: Sequence[float]) -> float | None:
    """Return the geometric mean of ratios with these logarithms, to four decimals."""
    return round(math.exp(math.fsum(logs) / len(logs)), 4) if logs else None


def _score(kind: str, machine: str, rows: Sequence[CorpusRow]) -> KindScore:
    complete = [row for row in rows if row.is_complete]
    logs = {
        figure: [math.log(ratio) for row in complete if (ratio := row.ratio(figure))]
        for figure in FIGURES
    }
    cycles, memory, fullest = (_mean([abs(log) for log in logs[figure]]) for figure in FIGURES)
    worst = max(complete, key=lambda row: distance(row.ratio("cycles") or 1.0), default=None)
    ratio = None if worst is None else worst.ratio("cycles")
    n_refused = sum(bool(row.refused) for row in rows)
    refused = (f"{n_refused} refused",) if n_refused else ()
    return KindScore(
        kind,
        machine,
        min(row.n_passes for row in rows),
        len(rows),
        sum(row.ours is not None for row in rows),
        len(complete),
        cycles,
        memory,
        fullest,
        _mean(logs["cycles"]),
        "" if worst is None else worst.name,
        None if ratio is None else round(ratio, 4),
        (*dict.fromkeys(row.lacks for row in rows if row.lacks), *refused),
    )


def kind_scores(rows: Iterable[CorpusRow]) -> tuple[KindScore, ...]:
    """Return the scores of rows by kind and machine, in the order of the rows."""
    groups: dict[str, dict[str, list[CorpusRow]]] = {}
    for row in rows:
        groups.setdefault(row.kind, {}).setdefault(row.machine, []).append(row)
    return tuple(
        _score(kind, machine, by_machine[machine])
        for kind, by_machine in groups.items()
        for machine in MACHINES
        if machine in by_machine
    )


def corpus_version(rows: Iterable[CorpusRow]) -> str:
    """Return the digest of rows, whatever their order: eight hexadecimal digits of a SHA-256."""
    lines = sorted(json.dumps(asdict(row), sort_keys=True) for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]


def corpus_as_json(rows: Sequence[CorpusRow]) -> str:
    """Return the table as written to its file: version, scores by kind, a line per row."""
    scores = ",\n".join(f"    {json.dumps(asdict(score))}" for score in kind_scores(rows))
    lines = ",\n".join(f"    {json.dumps(asdict(row))}" for row in rows)
    return (
        f'{{\n  "version": "{corpus_version(rows)}",\n  "kinds": [\n{scores}\n  ],\n'
        f'  "rows": [\n{lines}\n  ]\n}}\n'
    )


def read_corpus(text: str) -> Corpus:
    """Return a table from the text of its file."""
    table = json.loads(text)
    return Corpus(str(table["version"]), tuple(_row(row) for row in table["rows"]))


def _row(entry: dict[str, Any]) -> CorpusRow:
    published, ours = entry.pop("published"), entry.pop("ours")
    return CorpusRow(published=Figures(**published), ours=ours and Figures(**ours), **entry)


@cache
def packaged_corpus() -> Corpus:
    """Return the table packaged with this version."""
    path = resources.files("tilescope.engine.fidelity") / TABLE
    return read_corpus(path.read_text(encoding="utf-8"))


def packaged_version() -> str:
    """Return the version of the table packaged with this version."""
    return packaged_corpus().version
