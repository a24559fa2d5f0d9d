"""Rows of the packaged fidelity table and their score."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources

__all__ = ["FURTHER_TOLERANCE", "Row", "Score", "mean_ratio", "packaged_rows", "score"]

#: The packaged table; `make fidelity` of the checkout writes it.
TABLE = "table.json"
#: Largest relative error of a further figure that is not a miss.
FURTHER_TOLERANCE = 0.20


@dataclass(frozen=True)
class Row:
    """One figure, published and simulated.

    Parameters
    ----------
    ours
        None while the reference is open.
    error
        Signed: a share of the published figure, or for an absolute tolerance in its unit.
    verdict
        ``within``, ``miss`` or ``open``.
    is_further
        Whether the figure was tested after the laws were set.
    gave_law
        Whether a term of a law was derived from it.
    """

    id: str
    figure: str
    what: str
    published: float
    ours: float | None
    unit: str
    error: float | None
    tolerance: float
    tolerance_kind: str
    verdict: str
    counted: bool
    is_further: bool
    gave_law: bool
    machine: str
    source: str
    needs: str


@dataclass(frozen=True)
class Score:
    """Number of counted references: all, built, and within all their tolerances.

    Parameters
    ----------
    mean_ratio
        Geometric mean of max(r, 1/r) over the counted, built figures with a relative tolerance;
        r is simulated over published.
    """

    n_counted: int
    n_built: int
    n_within: int
    mean_ratio: float


def mean_ratio(rows: Iterable[Row]) -> float:
    """Return the geometric mean of max(r, 1/r), r = simulated / published; NaN if none is built."""
    logs = [
        abs(math.log(row.ours / row.published))
        for row in rows
        if row.ours and row.tolerance_kind == "relative"
    ]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def score(rows: Iterable[Row]) -> Score:
    """Return the score; a reference is within its tolerances if all its figures are.

    An open figure leaves its reference open.
    """
    verdicts: dict[str, list[str]] = {}
    counted = [row for row in rows if row.counted]
    for row in counted:
        verdicts.setdefault(row.id, []).append(row.verdict)
    return Score(
        n_counted=len(verdicts),
        n_built=sum("open" not in verdict for verdict in verdicts.values()),
        n_within=sum(set(verdict) == {"within"} for verdict in verdicts.values()),
        mean_ratio=mean_ratio(counted),
    )


def packaged_rows() -> list[Row]:
    """Return the table packaged with this version."""
    path = resources.files("tilescope.engine.fidelity") / TABLE
    return [Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))["rows"]]
