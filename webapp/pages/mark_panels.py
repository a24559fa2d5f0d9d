"""Marks of the trace that are kept: their figures beside each other."""

from __future__ import annotations

from collections.abc import Sequence

from dash import html

from tilescope.analyser import trace
from tilescope.analyser.quantities import format_percent
from tilescope.webapp.components.tables import plain_table

__all__ = ["marks_table"]

_SIDES = ("baseline", "candidate")
_LABELS = {kind.name: kind.label for kind in trace.KINDS}


def marks_table(
    marks: Sequence[tuple[int | None, int | None]],
    figures: Sequence[Sequence[trace.RangeSummary | None]],
) -> html.Div:
    """Return what kept marks cost, each against the first.

    Parameters
    ----------
    marks
        Half-open ranges, as they are numbered in the picture.
    figures
        For every mark, its figures in one report or in two; None where nothing ran.
    """
    sides = [[None if row is None else _by_kind(row) for row in of_mark] for of_mark in figures]
    kinds = [name for name in _LABELS if any(row and row.get(name) for one in sides for row in one)]
    rows = []
    for number, (start, of_mark) in enumerate(
        zip((start for start, _ in marks), figures, strict=True)
    ):
        for side, row in enumerate(of_mark):
            label = f"{number + 1}" + (f", {_SIDES[side]}" if len(of_mark) > 1 else "")
            if row is None:
                rows.append([label, _cycle(start), "nothing ran", *[""] * (len(kinds) + 3)])
                continue
            first = figures[0][side]
            shares = sides[number][side] or {}
            rows.append(
                [
                    label,
                    _cycle(start),
                    f"{row.cycles:,}",
                    "" if number == 0 or first is None else f"{row.cycles - first.cycles:+,}",
                    *(format_percent(100 * shares.get(name, 0.0)) for name in kinds),
                    _ratio(row.parallel_efficiency),
                    _ratio(row.tile_balance),
                ]
            )
    heads = ["Mark", "From", "Cycles", "Against 1", *(_LABELS[name] for name in kinds)]
    heads += ["Parallel efficiency", "Tile balance"]
    table = plain_table(heads, rows, numbers=tuple(range(1, len(heads))), class_name="trace-table")
    note = "Mark (M) lets a kept mark go when its range is the marked one."
    return html.Div([html.H3("Kept marks"), table, html.Div(note, className="grid-note")])


def _by_kind(row: trace.RangeSummary) -> dict[str, float]:
    """Return the share of every kind in the cycles of all IPUs."""
    whole = sum(ipu.cycles for ipu in row.ipus)
    names = {name for ipu in row.ipus for name in ipu.cycles_by_kind}
    return {
        name: sum(ipu.cycles_by_kind.get(name, 0) for ipu in row.ipus) / whole
        for name in names
        if whole
    }


def _ratio(value: float | None) -> str:
    """Return a ratio as a percentage, or a dash."""
    return "–" if value is None else format_percent(100 * value)


def _cycle(cycle: int | None) -> str:
    """Return a cycle, or a dash."""
    return "–" if cycle is None else f"{cycle:,}"
