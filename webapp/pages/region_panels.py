"""Panels of the trace's regions: one report's by name, or those of two beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from tilescope.analyser import trace
from tilescope.analyser.diff import RegionChange
from tilescope.analyser.quantities import format_percent
from tilescope.webapp.components.data_table import change_columns, column, compared, data_table
from tilescope.webapp.pages.stretch_panels import around

__all__ = ["REGION_CHOICES", "region_changes_panel", "regions_panel"]

#: Rows of the table.
_MOST = 500
#: Regions of the choice, and their labels.
REGION_CHOICES = [(by, by.capitalize()) for by in trace.REGIONS]
_KINDS = {kind.name: kind.label for kind in trace.KINDS} | {"idle": "Idle"}


def regions_panel(found: trace.Regions) -> html.Div:
    """Return the regions of a range by name; a row shows the first one, or the longest."""
    rows = found.rows[:_MOST]
    note = (
        f"{len(found.rows):,} names in {found.start_cycle:,} to {found.end_cycle:,} cycles;"
        f" {found.between_cycles:,} cycles lie between regions. A name shows its first region."
    )
    if len(rows) < len(found.rows):
        note += f" The first {len(rows):,} are listed."
    columns = [
        column("name", found.by.capitalize(), "name", changes=_shown("first")),
        column("count", "Count", "count", hint="Over runs and IPUs"),
        column("cycles", "Cycles", "count", hint="Over runs and IPUs"),
        column("share", "% of range", "share"),
        column("mean", "Mean", "count", hint="Cycles of one region"),
        column("min", "Least", "count"),
        column("max", "Most", "count"),
        column("longest", "Longest at", "place", changes=_shown("longest")),
        column("kinds", "Cycles go to"),
        column("ipus", "IPUs"),
    ]
    data: dict[str, list[Any]] = {
        "name": [row.name for row in rows],
        "count": [row.count for row in rows],
        "cycles": [row.cycles for row in rows],
        "share": [row.share for row in rows],
        "mean": [round(row.mean_cycles) for row in rows],
        "min": [row.min_cycles for row in rows],
        "max": [row.max_cycles for row in rows],
        "longest": [row.longest.start_cycle for row in rows],
        "kinds": [_largest_kinds(row) for row in rows],
        "ipus": [trace.format_ranges(trace.number_ranges(row.ipus)) for row in rows],
    }
    for name in ("first", "longest"):
        places: list[trace.RegionPlace] = [getattr(row, name) for row in rows]
        data[f"{name}_mark"] = [f"{at.start_cycle}:{at.end_cycle}" for at in places]
        data[f"{name}_range"] = [around(at.start_cycle, at.end_cycle) for at in places]
    table = data_table(
        columns, data, label=f"Regions by {found.by}", empty="Nothing ran.", file="regions"
    )
    return html.Div([html.Div(note, className="grid-note"), table])


def region_changes_panel(changes: Sequence[RegionChange], by: str) -> html.Div:
    """Return the regions of two reports by name, the largest change first.

    A row selects the first step of its first region in the baseline: places on the common axis
    differ from the cycles of a report.
    """
    rows = changes[:_MOST]
    basis = "cycles" if by == "run" else "cycles per run"
    note = f"{len(changes):,} names by change, {basis}, over IPUs."
    if len(rows) < len(changes):
        note += f" The first {len(rows):,} are listed."
    columns = [
        column("name", by.capitalize(), "name", changes={"at": "step:{step}"}),
        *change_columns("count"),
        column("count", "Count", "count", hint="Of the baseline, over runs and IPUs"),
        column("candidate_count", "Of the candidate", "count"),
        column("mean", "Mean", "count", hint="Cycles of one region of the baseline"),
        column("candidate_mean", "Of the candidate", "count"),
    ]
    sides = [[row.baseline for row in rows], [row.candidate for row in rows]]
    cycles = (
        [_rounded(row.baseline_cycles) for row in rows],
        [_rounded(row.candidate_cycles) for row in rows],
    )
    data: dict[str, list[Any]] = {
        "name": [row.name for row in rows],
        "step": [side and side.first.step_id for side in sides[0]],
        "count": [side and side.count for side in sides[0]],
        "candidate_count": [side and side.count for side in sides[1]],
        "mean": [side and round(side.mean_cycles) for side in sides[0]],
        "candidate_mean": [side and round(side.mean_cycles) for side in sides[1]],
    }
    data |= compared(*cycles, "cycles")
    table = data_table(
        columns, data, label=f"Changes of regions by {by}", empty="Nothing ran.", file="regions"
    )
    return html.Div([html.Div(note, className="grid-note"), table])


def _rounded(cycles: float | None) -> int | None:
    """Return whole cycles."""
    return None if cycles is None else round(cycles)


def _shown(name: str) -> dict[str, str]:
    """Return what a click on a place changes in the address."""
    return {"range": f"{{{name}_range}}", "mark": f"{{{name}_mark}}"}


def _largest_kinds(row: trace.Region) -> str:
    """Return the kinds that take most of a row's cycles, with their shares."""
    kinds = sorted(row.cycles_by_kind.items(), key=lambda item: -item[1])[:3]
    return ", ".join(
        f"{_KINDS[name]} {format_percent(100 * cycles / row.cycles)}" for name, cycles in kinds
    )
