"""Tables of the tabs of Liveness: live variables of one step or several, the tightest steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from tilescope.analyser.diff import Pair, always_live_pairs, live_column_pairs
from tilescope.analyser.machine.target import Source
from tilescope.analyser.memory.live_columns import (
    AlwaysLiveRow,
    LiveRow,
    always_live_rows,
    live_columns,
)
from tilescope.analyser.memory.liveness import Curve
from tilescope.analyser.memory.longest_lives import LongestLives
from tilescope.analyser.memory.tile_memory import categories
from tilescope.analyser.quantities import format_bytes, format_lives
from tilescope.reports import Report
from tilescope.webapp.components.data_table import (
    Highlight,
    change_columns,
    column,
    compared,
    data_table,
    template,
)
from tilescope.webapp.components.links import Reports, reports_of
from tilescope.webapp.library import Library
from tilescope.webapp.pages.liveness_steps import ChosenSteps

__all__ = ["always_live", "compared_live", "live_at", "longest_lives_table", "tightest_steps"]

_N_TIGHTEST = 200
_N_LONGEST = 1_000
_NOTHING = "Only always-live memory is live at this step, or no row matches the filter."


def live_at(report: Report, chosen: ChosenSteps, source: Source, view: dict[str, str]) -> Any:
    """Return the variables that are live but not always, with a column for every step."""
    rows = live_columns(report, [step for step, _ in chosen.pairs], source)
    rows = tuple(row for row in rows if _matches(row.name, view))
    is_one = len(chosen.pairs) == 1
    columns = [
        _name(view),
        *(
            column(f"bytes{index}", "Size" if is_one else title, "bytes")
            for index, title in enumerate(chosen.titles)
        ),
        column("shape", "Shape"),
        column("dtype", "Type"),
        column("start", "Live steps", "life", end="end", changes={"var": "{name}"},
               hint="A click shows the lifetime in the chart"),
    ]  # fmt: skip
    data: dict[str, list[Any]] = {
        "name": [row.name for row in rows],
        "shape": [_shape(row) for row in rows],
        "dtype": [row.dtype for row in rows],
        "start": [row.start_step for row in rows],
        "end": [row.end_step for row in rows],
    }
    for index in range(len(chosen.pairs)):
        data[f"bytes{index}"] = [row.bytes[index] for row in rows]
    return data_table(
        columns, data, label="Variables that are not always live", empty=_NOTHING, file="live"
    )


def compared_live(
    baseline: Report,
    candidate: Report,
    chosen: ChosenSteps,
    source: Source,
    view: dict[str, str],
) -> Any:
    """Return the variables of two reports that are live but not always at the same steps."""
    tables = [
        pair
        for pair in live_column_pairs(baseline, candidate, chosen.pairs, source)
        if _matches(_names(pair), view)
    ]
    columns, data = [_name(view)], {"name": [_names(pair) for pair in tables]}
    for index, title in enumerate(chosen.titles):
        columns += _of_step(index, "" if len(chosen.titles) == 1 else f"{title}: ")
        fields = compared(
            [_bytes(pair.baseline, index) for pair in tables],
            [_bytes(pair.candidate, index) for pair in tables],
        )
        data |= {f"{name}{index}": values for name, values in fields.items()}
    return data_table(
        columns, data, label="Variables that are not always live, of both reports",
        empty=_NOTHING, file="live",
    )  # fmt: skip


def always_live(library: Library, view: dict[str, str], source: Source) -> Any:
    """Return what is always live, of one report or of two."""
    with library.opened(view["report"]) as report:
        if view["with"]:
            with library.opened(view["with"]) as candidate:
                return _compared_always(always_live_pairs(report, candidate, source), view)
        rows = always_live_rows(report, source)
        labels = {category.name: category.label for category in categories(report)}
    return _always(rows, labels, view)


def tightest_steps(live: Curve, view: dict[str, str]) -> Any:
    """Return the steps with most live memory among those that match the filter of steps."""
    steps = [int(step) for step in live.fullest(_N_TIGHTEST, view["steps"])]
    columns = [
        column("step", "Step", "place", changes={"step": "{step}"}),
        column("bytes", "Not always live", "bytes"),
        column("kind", "Kind"),
        column("name", "Name", "name"),
    ]
    data: dict[str, list[Any]] = {
        "step": steps,
        "bytes": [int(live.not_always_live_bytes[step]) for step in steps],
        "kind": [live.kind[step] for step in steps],
        "name": [live.name[step] for step in steps],
    }
    table = data_table(
        columns, data, label="Tightest steps", empty="No step matches; clear the filter of steps.",
        file="tightest-steps", highlight=Highlight("step", str(view["step"] or "").split(",")),
    )  # fmt: skip
    which = " of the baseline" if view["with"] else ""
    note = f"The {len(steps):,} steps{which} with most memory that is not always live."
    return html.Div([html.Div(note, className="grid-note"), table])


def longest_lives_table(found: LongestLives, view: dict[str, str]) -> Any:
    """Return the variables that live longest; a click on a life shows it in the chart."""
    rows = [row for row in found.rows if _matches(row.variable.name, view)]
    listed = rows[:_N_LONGEST]
    columns = [
        _name(view),
        column("steps", "Steps", "count"),
        column("share", "% of steps", "share"),
        column("cycles", "Cycles a run", "count"),
        column("bytes", "Size", "bytes"),
        column("lives", "Live steps", changes={"step": "{first}"}),
        column("made_by", "Made by"),
    ]
    data: dict[str, list[Any]] = {
        "name": [row.variable.name for row in listed],
        "steps": [row.variable.n_steps for row in listed],
        "share": [row.share for row in listed],
        "cycles": [row.cycles for row in listed],
        "bytes": [row.variable.bytes for row in listed],
        "lives": [format_lives(row.variable.lives) for row in listed],
        "first": [row.variable.start_step for row in listed],
        "made_by": [row.variable.made_by for row in listed],
    }
    table = data_table(
        columns, data, label="Longest lives", empty="No variable matches; clear the filter.",
        file="longest-lives",
    )  # fmt: skip
    which = " of the baseline" if view["with"] else ""
    note = (
        f"{len(rows):,} variables{which} live at some of {found.n_steps:,} steps, but not always;"
        f" the first {len(listed):,} by their number of steps."
    )
    return html.Div([html.Div(note, className="grid-note"), table])


def _name(view: dict[str, str]) -> dict[str, Any]:
    """Return the names of variables, which lead to where they lie on the tiles."""
    reports: Reports = reports_of(view)
    href = template("/memory", reports, breakdown="variables", var="{name}", tab="variables")
    return column("name", "Variable", "name", href=href)


def _of_step(position: int, prefix: str) -> list[dict[str, Any]]:
    """Return the columns Baseline, Candidate and Diff of one step."""
    columns = []
    for change_column in change_columns():
        sort = {"sort": f"{change_column['sort']}{position}"} if "sort" in change_column else {}
        columns.append(
            {
                **change_column,
                **sort,
                "field": f"{change_column['field']}{position}",
                "title": prefix + change_column["title"],
            }
        )
    return columns


def _always(rows: Sequence[AlwaysLiveRow], labels: dict[str, str], view: dict[str, str]) -> Any:
    """Return what is always live in one report; code and state lead nowhere."""
    matches = [row for row in rows if _matches(row.name, view)]
    name = {**_name(view), "title": "Variable, code or state"}
    name["href"] = name["href"].replace("{name}", "{variable}")
    columns = [
        name,
        column("category", "Category"),
        column("bytes", "Size", "bytes"),
        column("shape", "Shape"),
        column("dtype", "Type"),
    ]
    data: dict[str, list[Any]] = {
        "name": [row.name for row in matches],
        "variable": [row.name if row.number >= 0 else None for row in matches],
        "category": [labels.get(row.category, row.category) for row in matches],
        "bytes": [row.bytes for row in matches],
        "shape": [_shape(row) for row in matches],
        "dtype": [row.dtype for row in matches],
    }
    total = format_bytes(sum(row.bytes for row in matches))
    note = f"{len(matches):,} row{'s' * (len(matches) != 1)}, {total} in total"
    table = data_table(
        columns, data, label="Always live", empty="Nothing is always live, or no row matches.",
        file="always-live",
    )  # fmt: skip
    return html.Div([html.Div(note, className="grid-note"), table])


def _compared_always(pairs: Sequence[Pair[AlwaysLiveRow]], view: dict[str, str]) -> Any:
    """Return what is always live in two reports."""
    matches = [pair for pair in pairs if _matches(_names(pair), view)]
    data: dict[str, list[Any]] = {
        "name": [_names(pair) for pair in matches],
        **compared(
            [pair.baseline.bytes if pair.baseline else None for pair in matches],
            [pair.candidate.bytes if pair.candidate else None for pair in matches],
        ),
    }
    columns = [column("name", "Variable, code or state", "name"), *change_columns()]
    return data_table(
        columns, data, label="Always live in both reports",
        empty="Nothing is always live, or no row matches.", file="always-live",
    )  # fmt: skip


def _matches(name: str, view: dict[str, str]) -> bool:
    """Return whether a name passes the filter of rows."""
    return view["name"].strip().lower() in name.lower()


def _names(pair: Pair[Any]) -> str:
    """Return the name of a variable, both names where they differ."""
    if pair.baseline and pair.candidate and pair.baseline.name != pair.candidate.name:
        return f"{pair.baseline.name} → {pair.candidate.name}"
    return pair.key


def _bytes(row: LiveRow | None, position: int) -> int | None:
    """Return the size of a variable at a step, None where it is not live."""
    return row.bytes[position] if row else None


def _shape(row: LiveRow | AlwaysLiveRow) -> str:
    """Return a shape for people."""
    return " × ".join(map(str, row.shape))
