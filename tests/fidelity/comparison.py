"""Computes the fidelity table: builds every published program and reads its figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from tests.fidelity.reference import Figure, Reference, all_references

from tilescope.engine.fidelity import Row, score

__all__ = ["compare", "rows_as_json"]


def _row(reference: Reference, figure: Figure, ours: float | None) -> Row:
    error = None
    verdict = "open"
    if ours is not None:
        difference = ours - figure.published
        error = difference if figure.kind == "absolute" else difference / figure.published
        verdict = "within" if abs(error) <= figure.tolerance else "miss"
    return Row(
        id=reference.reference_id,
        figure=figure.name,
        what=reference.what,
        published=figure.published,
        ours=ours,
        unit=figure.unit,
        error=error,
        tolerance=figure.tolerance,
        tolerance_kind=figure.kind,
        verdict=verdict,
        counted=figure.counted,
        is_further=reference.is_further,
        gave_law=figure.gave_law,
        machine=reference.machine,
        source=reference.source,
        needs=figure.needs,
    )


def compare(builders: Mapping[str, Callable[[], Mapping[str, float]]]) -> list[Row]:
    """Build every reference that can be built and return a row for each figure.

    Parameters
    ----------
    builders
        By reference: a function that builds its programs and returns figures by name.
    """
    rows = []
    for reference in all_references().values():
        ours = builders[reference.reference_id]() if reference.reference_id in builders else {}
        for figure in reference.figures:
            value = None if figure.needs else float(ours[figure.name])
            rows.append(_row(reference, figure, value))
    return rows


def rows_as_json(rows: Sequence[Row]) -> str:
    """Return the table as written to files."""
    summary = asdict(score(rows))
    return json.dumps({"score": summary, "rows": [asdict(row) for row in rows]}, indent=2) + "\n"
