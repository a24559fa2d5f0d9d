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


def _number(figure: Figure, ours: Mapping[str, float | None]) -> float:
    """Return the simulated value of a figure."""
    value = ours[figure.name]
    assert value is not None, f"{figure.name} was never built: run `make networks` or `make pods`"
    return float(value)


def compare(
    builders: Mapping[str, Callable[[], Mapping[str, float]]], kept: Sequence[Row] = ()
) -> list[Row]:
    """Build every reference that can be built and return a row for each figure.

    Parameters
    ----------
    builders
        By reference: a function that builds its programs and returns figures by name.
    kept
        Rows with the figures of references that have no builder here.
    """
    rows = []
    for reference in all_references().values():
        name = reference.reference_id
        before = {row.figure: row.ours for row in kept if row.id == name}
        ours = builders[name]() if name in builders else before
        for figure in reference.figures:
            value = None if figure.needs else _number(figure, ours)
            rows.append(_row(reference, figure, value))
    return rows


def rows_as_json(rows: Sequence[Row]) -> str:
    """Return the table as written to files."""
    summary = asdict(score(rows))
    return json.dumps({"score": summary, "rows": [asdict(row) for row in rows]}, indent=2) + "\n"
