"""Rows of the table and their score."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources

from tilescope.engine.fidelity.target import Figure, Target, all_targets

__all__ = ["Row", "Score", "compare", "mean_ratio", "packaged_rows", "rows_as_json", "score"]

#: Where the packaged table lies; `python -m tilescope.engine.fidelity` writes it.
TABLE = "table.json"


@dataclass(frozen=True)
class Row:
    """One figure, as published and as the simulator has it.

    Parameters
    ----------
    ours
        None while the target is open.
    error
        Signed: a share of the published figure, or for an absolute tolerance in its unit.
    verdict
        ``within``, ``miss`` or ``open``.
    is_further
        Whether it is one of the figures that were tried after the laws were set.
    gave_law
        Whether a term of a law was read off it.
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
    """Counted targets: how many there are, are built, and keep within all their tolerances.

    Parameters
    ----------
    mean_ratio
        Geometric mean of max(r, 1/r) over the counted figures with a share as tolerance that are
        built; r is ours by published.
    """

    n_counted: int
    n_built: int
    n_within: int
    mean_ratio: float


def _row(target: Target, figure: Figure, ours: float | None) -> Row:
    error = None
    verdict = "open"
    if ours is not None:
        difference = ours - figure.published
        error = difference if figure.kind == "absolute" else difference / figure.published
        verdict = "within" if abs(error) <= figure.tolerance else "miss"
    return Row(
        id=target.target_id,
        figure=figure.name,
        what=target.what,
        published=figure.published,
        ours=ours,
        unit=figure.unit,
        error=error,
        tolerance=figure.tolerance,
        tolerance_kind=figure.kind,
        verdict=verdict,
        counted=figure.counted,
        is_further=target.is_further,
        gave_law=figure.gave_law,
        machine=target.machine,
        source=target.source,
        needs=figure.needs,
    )


def compare(builders: Mapping[str, Callable[[], Mapping[str, float]]]) -> list[Row]:
    """Build every target that can be built and return a row for each figure.

    Parameters
    ----------
    builders
        By target: builds and compiles its programs, returns its figures by name.
    """
    rows = []
    for target in all_targets().values():
        ours = builders[target.target_id]() if target.target_id in builders else {}
        for figure in target.figures:
            value = None if figure.needs else float(ours[figure.name])
            rows.append(_row(target, figure, value))
    return rows


def mean_ratio(rows: Iterable[Row]) -> float:
    """Return the geometric mean of max(r, 1/r), r ours by published; NaN when none is built."""
    logs = [
        abs(math.log(row.ours / row.published))
        for row in rows
        if row.ours and row.tolerance_kind == "relative"
    ]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def score(rows: Iterable[Row]) -> Score:
    """Return the score: each target counts once, and is within when all its figures are.

    An open figure leaves its target open.
    """
    verdicts: dict[str, list[str]] = {}
    counted = [row for row in rows if row.counted]
    for row in counted:
        verdicts.setdefault(row.id, []).append(row.verdict)
    return Score(
        n_counted=len(verdicts),
        n_built=sum("open" not in found for found in verdicts.values()),
        n_within=sum(set(found) == {"within"} for found in verdicts.values()),
        mean_ratio=mean_ratio(counted),
    )


def rows_as_json(rows: Sequence[Row]) -> str:
    """Return the table as it is written to files."""
    summary = asdict(score(rows))
    return json.dumps({"score": summary, "rows": [asdict(row) for row in rows]}, indent=2) + "\n"


def packaged_rows() -> list[Row]:
    """Return the table that came with this version."""
    path = resources.files("tilescope.engine.fidelity") / TABLE
    return [Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))["rows"]]
