"""Liveness: live memory at each step, and the variables that use it."""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, html, no_update

from tilescope.analyser.diff import LivenessPairs, align_liveness, live_variable_changes
from tilescope.analyser.liveness import (
    Curve,
    LiveVariables,
    always_live_variables,
    curve,
    peak_step,
    step_program,
    step_variables,
)
from tilescope.analyser.machine import Source, parse_source, target
from tilescope.analyser.programs import node
from tilescope.analyser.quantities import format_bytes, format_percent
from tilescope.analyser.tile_memory import categories
from tilescope.reports import Report
from tilescope.webapp.answer import answer
from tilescope.webapp.browser import connect
from tilescope.webapp.components.controls import choice, dropdown, switch, tabs, text_box
from tilescope.webapp.components.grids import (
    bytes_column,
    change_column,
    grid,
    grid_style,
    life_column,
    name_column,
    number_column,
    text_column,
)
from tilescope.webapp.components.panels import empty_state, guarded, headline
from tilescope.webapp.library import Library
from tilescope.webapp.pages.liveness_rows import changed_rows, tightest_rows, variable_rows
from tilescope.webapp.pages.program_panels import program_panel
from tilescope.webapp.view import (
    BadView,
    Parameter,
    parse_number,
    parse_numbers,
    parse_range,
    view_store,
)

__all__ = ["ICON", "NEEDS", "PANELS", "PATH", "TITLE", "VIEW", "layout", "register"]

PATH = "/liveness"
TITLE = "Liveness"
ICON = "liveness"
NEEDS = ("grid",)
VIEW = (
    Parameter("source", "all", "liveness-source"),
    Parameter("tile", "", "liveness-tile"),
    Parameter("always", "", "liveness-always", "checked"),
    Parameter("max", "", "liveness-max", "checked"),
    Parameter("steps", "", "liveness-steps"),
    Parameter("tab", "step", "liveness-tabs"),
    Parameter("sides", "merged", "liveness-sides"),
    Parameter("step", selects="moment"),
    Parameter("var", selects="variable"),
    Parameter("x"),
    Parameter("mark"),
)
#: What stands above the chart.
PANELS = {"head": ("source", "tile", "always", "x")}

_SHAPE = text_column("shape", "Shape", width=175)
_TYPE = text_column("dtype", "Type", width=85)
_VARIABLE_COLUMNS = (
    name_column("name", "Variable"),
    bytes_column("bytes", "Size", width=95),
    _SHAPE,
    _TYPE,
    life_column(),
)
_COMPARE_COLUMNS = (
    name_column("name", "Variable"),
    bytes_column("baseline", "Baseline"),
    bytes_column("candidate", "Candidate"),
    change_column("diff", "Diff", width=270),
)
_ALWAYS_COLUMNS = (
    name_column("name", "Variable, code or state"),
    text_column("category", "Category", width=200),
    bytes_column("bytes", "Size", width=95),
    _SHAPE,
    _TYPE,
)
_STEP_COLUMNS = (
    number_column("step", "Step", width=90, is_place=True),
    bytes_column("bytes", "Not always live", width=140),
    text_column("kind", "Kind", width=140),
    name_column("name", "Name"),
)


def layout() -> html.Div:
    """Return the page without content."""
    toolbar = html.Div(
        [
            dropdown("liveness-source", "Tiles", [("all", "All tiles")]),
            text_box("liveness-tile", "or one tile", "number", width="90px"),
            text_box("liveness-steps", "Filter steps", "name or kind", is_search=True),
            switch("liveness-always", "Include always live"),
            switch("liveness-max", "Show capacity"),
            html.Div(
                choice(
                    "liveness-sides",
                    "Reports",
                    [("merged", "Merged"), ("separate", "Separate")],
                ),
                id="liveness-sides-field",
            ),
        ],
        className="toolbar",
    )
    chart = guarded(
        "liveness-figure-error",
        html.Div(id="liveness-headlines", className="headlines"),
        html.Div(id="liveness-figure"),
        html.Div(id="liveness-note", className="chart-note"),
    )
    step = html.Div(
        [
            html.Div(id="liveness-step-note", className="grid-note"),
            guarded(
                "liveness-step-error",
                grid(
                    "liveness-step",
                    _VARIABLE_COLUMNS,
                    empty="Only always-live memory is live at this step.",
                    selects=True,
                ),
            ),
        ]
    )
    always = html.Div(
        [
            html.Div(id="liveness-always-note", className="grid-note"),
            guarded(
                "liveness-always-error",
                grid("liveness-always-grid", _ALWAYS_COLUMNS, empty="Nothing is always live."),
            ),
        ]
    )
    tightest = guarded(
        "liveness-tightest-error",
        grid("liveness-tightest", _STEP_COLUMNS, empty="No step matches.", selects=True),
    )
    tables = tabs(
        "liveness-tabs",
        [
            ("step", "Variables of the step", step),
            (
                "program",
                "Program of the step",
                guarded("liveness-program-error", html.Div(id="liveness-program")),
            ),
            ("always", "Always live", always),
            ("tightest", "Tightest steps", tightest),
        ],
    )
    return html.Div(
        [html.Div([toolbar, chart], className="card"), html.Div(tables, className="card")],
        className="stack",
    )


def register(app: Dash, library: Library) -> None:
    """Connect the page."""
    _register_browser(app)
    view_input = Input(view_store("liveness"), "data")

    @answer(
        app,
        "liveness-figure-error",
        [
            Output("liveness-headlines", "children"),
            Output("liveness-note", "children"),
            Output("liveness-source", "data"),
        ],
        Input(view_store("liveness", "head"), "data"),
    )
    def show_headlines(view: dict[str, str]) -> tuple[Any, ...]:
        parse_range(view, "x")
        source, wrong = _source(library, view)
        baseline, candidate = library.ask(view, lambda report: curve(report, source))
        with library.opened(view["report"]) as report:
            choices = _sources(report)
        heads = [_headline(baseline, "Baseline" if candidate else "", view)]
        if candidate:
            heads.append(_headline(candidate, "Candidate", view))
        notes: list[Any] = [html.Div(wrong, className="wrong", role="alert")] if wrong else []
        pairs = _pairs(library, view)
        if pairs is not None:
            notes.append(_alignment(pairs))
        return heads, notes, choices

    @answer(
        app,
        "liveness-step-error",
        [
            Output("liveness-step", "rowData"),
            Output("liveness-step", "columnDefs"),
            Output("liveness-step", "style"),
            Output("liveness-step-note", "children"),
        ],
        view_input,
    )
    def show_step(view: dict[str, str]) -> tuple[Any, ...]:
        if view["tab"] != "step":
            return (no_update,) * 4
        if not view["with"]:
            with library.opened(view["report"]) as report:
                source, _ = _source(library, view)
                step, note = _chosen_step(report, view, source)
                found = step_variables(report, step, source) if step is not None else None
            rows = variable_rows(found) if found else []
            return rows, list(_VARIABLE_COLUMNS), grid_style(rows), note
        steps, note = _chosen_pair(library, view)
        baseline, candidate = (
            _variables(library, view[key], step, view)
            for key, step in zip(("report", "with"), steps, strict=True)
        )
        rows = changed_rows(live_variable_changes(baseline, candidate))
        return rows, list(_COMPARE_COLUMNS), grid_style(rows), note

    @answer(
        app,
        "liveness-program-error",
        [Output("liveness-program", "children")],
        view_input,
    )
    def show_program(view: dict[str, str]) -> tuple[Any, ...]:
        if view["tab"] != "program":
            return (no_update,)
        key = "report"
        if view["with"]:
            (step, other), note = _chosen_pair(library, view)
            if step is None and other is not None:
                key, step = "with", other
        else:
            with library.opened(view["report"]) as report:
                step, note = _chosen_step(report, view, _source(library, view)[0])
        if step is None:
            return (empty_state(note),)
        with library.opened(view[key]) as report:
            details = node(report, step_program(report, step))
        return ([html.Div(note, className="grid-note"), program_panel(details)],)

    @answer(
        app,
        "liveness-always-error",
        [
            Output("liveness-always-grid", "rowData"),
            Output("liveness-always-grid", "columnDefs"),
            Output("liveness-always-grid", "style"),
            Output("liveness-always-note", "children"),
        ],
        view_input,
    )
    def show_always(view: dict[str, str]) -> tuple[Any, ...]:
        if view["tab"] != "always":
            return (no_update,) * 4
        source, _ = _source(library, view)
        baseline, candidate = library.ask(
            view, lambda report: always_live_variables(report, source)
        )
        if candidate is None:
            rows = variable_rows(baseline)
            with library.opened(view["report"]) as report:
                labels = {category.name: category.label for category in categories(report)}
            for row in rows:
                row["category"] = labels.get(row["category"], row["category"])
            note = f"{len(baseline):,} row{'s' * (len(baseline) != 1)}"
            note += f", {format_bytes(baseline.total_bytes)}"
            return rows, list(_ALWAYS_COLUMNS), grid_style(rows), note
        rows = changed_rows(live_variable_changes(baseline, candidate))
        return rows, list(_COMPARE_COLUMNS), grid_style(rows), ""

    @answer(
        app,
        "liveness-tightest-error",
        [Output("liveness-tightest", "rowData"), Output("liveness-tightest", "style")],
        view_input,
    )
    def show_tightest(view: dict[str, str]) -> tuple[Any, ...]:
        if view["tab"] != "tightest":
            return no_update, no_update
        with library.opened(view["report"]) as report:
            rows = tightest_rows(curve(report, _source(library, view)[0]), view["steps"])
        return rows, grid_style(rows)


def _register_browser(app: Dash) -> None:
    """Connect the clientside callbacks: the chart, and clicks in grids."""
    connect(app, "charts.liveness", Input(view_store("liveness"), "data"))
    connect(
        app,
        "charts.liveness_fields",
        Output("liveness-sides-field", "style"),
        Input(view_store("liveness"), "data"),
    )
    connect(
        app,
        "charts.pick_live_variable",
        Input("liveness-step", "selectedRows"),
        prevent_initial_call=True,
    )
    connect(
        app,
        "charts.pick_ranked_step",
        Input("liveness-tightest", "selectedRows"),
        prevent_initial_call=True,
    )


def _source(library: Library, view: dict[str, str]) -> tuple[Source, str]:
    """Return the tiles of the view, and what is wrong with its tile number.

    A tile that both reports have takes precedence over the menu.
    """
    if not view["tile"].strip():
        return parse_source(view["source"]), ""
    baseline, candidate = library.ask(view, lambda report: target(report).n_tiles)
    limit = baseline if candidate is None else min(baseline, candidate)
    try:
        tiles = parse_numbers(view["tile"], limit=limit, noun="tile")
    except BadView as error:
        return parse_source(view["source"]), str(error)
    if len(tiles) != 1:
        wrong = f"{view['tile'].strip()[:40]!r} is not one tile; the chart shows one, or a source."
        return parse_source(view["source"]), wrong
    return ("tile", tiles[0]), ""


def _sources(report: Report) -> list[dict[str, str]]:
    """Return the choices of the tiles menu."""
    n_ipus = target(report).n_ipus
    ipus = [{"value": f"ipu:{ipu}", "label": f"IPU {ipu}"} for ipu in range(n_ipus)]
    return [{"value": "all", "label": "All tiles"}, *(ipus if n_ipus > 1 else [])]


def _pairs(library: Library, view: dict[str, str]) -> LivenessPairs | None:
    """Return which steps of the two reports are the same, None for one report."""
    if not view["with"]:
        return None
    with library.opened(view["report"]) as one, library.opened(view["with"]) as other:
        return align_liveness(one, other)


def _alignment(pairs: LivenessPairs) -> str:
    """Return how two reports are aligned."""
    alone = [f"{len(side) - pairs.n_pairs:,}" for side in pairs.partners]
    return (
        f"{pairs.n_pairs:,} steps are in both reports, {alone[0]} only in the baseline,"
        f" {alone[1]} only in the candidate; the same step is at the same place"
    )


def _step_number(view: dict[str, str]) -> int | None:
    """Return the selected step of the report, None if there is none."""
    if _is_of_candidate(view):
        return None
    return parse_number(view, "step", noun="step", hint="click a step")


def _is_of_candidate(view: dict[str, str]) -> bool:
    """Whether the address selects a step of the candidate: ``c12``."""
    return str(view["step"] or "").startswith("c")


def _selected_pair(pairs: LivenessPairs, view: dict[str, str]) -> tuple[int | None, int | None]:
    """Return the selected step on both sides; None where there is none."""
    side, text = (1, str(view["step"])[1:]) if _is_of_candidate(view) else (0, view["step"])
    step = parse_number({"step": text}, "step", noun="step", hint="click a step")
    if step is None:
        return None, None
    return _with_partner(pairs, side, step)


def _with_partner(pairs: LivenessPairs, side: int, step: int) -> tuple[int | None, int | None]:
    """Return a step of one side on both; a side that lacks it has None."""
    partners = pairs.partners[side]
    partner = int(partners[step]) if step < len(partners) else -1
    other = partner if partner >= 0 else None
    return (other, step) if side else (step, other)


def _chosen_pair(
    library: Library, view: dict[str, str]
) -> tuple[tuple[int | None, int | None], str]:
    """Return the selected step on both sides, else the baseline's peak, and its description."""
    source, _ = _source(library, view)
    with library.opened(view["report"]) as one, library.opened(view["with"]) as other:
        pairs = align_liveness(one, other)
        chosen = _selected_pair(pairs, view)
        if chosen == (None, None):
            peak, note = _chosen_step(one, view | {"step": ""}, source)
            if peak is None:
                return chosen, note
            chosen = _with_partner(pairs, 0, peak)
        notes = [
            f"{side}: {_chosen_step(report, view | {'step': str(step)}, source)[1]}"
            if step is not None
            else f"{side}: does not have this step"
            for side, report, step in zip(
                ("Baseline", "Candidate"), (one, other), chosen, strict=True
            )
        ]
    return chosen, " · ".join(notes)


def _variables(
    library: Library, report_id: str, step: int | None, view: dict[str, str]
) -> LiveVariables | None:
    """Return the variables of a report at a step, None without the step."""
    if step is None:
        return None
    with library.opened(report_id) as report:
        return step_variables(report, step, _source(library, view)[0])


def _chosen_step(report: Report, view: dict[str, str], source: Source) -> tuple[int | None, str]:
    """Return the selected step, else the peak, and its description."""
    step = _step_number(view)
    is_peak = step is None
    if step is None:
        step = peak_step(report, source)
    if step is None:
        return None, "This report has no liveness data: the run ended before compilation."
    live = curve(report, source)
    if step >= len(live):
        return step, ""
    size = format_bytes(int(live.not_always_live_bytes[step]))
    what = "Peak, step" if is_peak else "Step"
    hint = " · click another step in the chart" if is_peak else ""
    return step, f"{what} {step:,}: {live.kind[step]} {live.name[step]} · {size}{hint}"


def _headline(live: Curve, side: str, view: dict[str, str]) -> html.Div:
    """Return the peak with its step and its percentage of the capacity."""
    if not len(live):
        return headline("–", "no liveness data in this report")
    step = int(live.not_always_live_bytes.argmax())
    size = int(live.not_always_live_bytes[step])
    with_always = view["always"] == "1"
    total = size + (live.always_live_bytes if with_always else 0)
    capacity = live.capacity_bytes
    share = format_percent(100 * total / capacity) if capacity else "–"
    what = "live" if with_always else "live but not always"
    caption = (
        f"{what} at the peak, step {step:,}: {share} of {format_bytes(capacity)};"
        f" always live {format_bytes(live.always_live_bytes)}"
    )
    return headline(format_bytes(total), caption, exact=f"{total:,} B", side=side)
