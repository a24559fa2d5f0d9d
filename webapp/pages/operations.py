"""Operations: the cost of a program's library calls or model nodes, and their plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, html, no_update

from tilescope.analyser.advice.operation_tiles import operation_tiles
from tilescope.analyser.advice.trust import ReportTrust, report_trust
from tilescope.analyser.diff import MEASURES, operation_pairs
from tilescope.analyser.program.operations import Layer, Operation, Operations, operations
from tilescope.analyser.program.plans import plans
from tilescope.analyser.program.training import pass_totals
from tilescope.analyser.quantities import format_percent, format_runs
from tilescope.analyser.summary.stage_figures import stage_figures
from tilescope.reports.schema.vocabulary import TRAINING_PASSES
from tilescope.webapp.answer import answer
from tilescope.webapp.browser import asset_url, connect, marked
from tilescope.webapp.components.controls import choice, dropdown, field, tabs, text_box
from tilescope.webapp.components.data_table import Highlight, by_field, column, data_table
from tilescope.webapp.components.links import reports_of, swapped
from tilescope.webapp.components.panels import empty_state, guarded, headline
from tilescope.webapp.library import Library
from tilescope.webapp.pages.operation_panels import (
    OperationDetails,
    debug_panel,
    details_panel,
    operation_details,
    operation_links,
)
from tilescope.webapp.pages.operation_rows import (
    LAYERS,
    compared_rows,
    kinds_table,
    matching,
    operation_rows,
    operations_of_view,
    passes_table,
    plan_rows,
    stages_table,
)
from tilescope.webapp.pages.operation_tabs import FIGURE_TABS, tab_column, totals
from tilescope.webapp.view import BadView, Parameter, view_store

__all__ = ["ICON", "PANELS", "PATH", "TITLE", "VIEW", "layout", "register"]

PATH = "/operations"
TITLE = "Operations"
ICON = "operations"
VIEW = (
    Parameter("layer", "library", "operations-layer"),
    Parameter("as", "table", "operations-as"),
    Parameter("colour", "cycles", "operations-colour"),
    Parameter("levels", "0", "operations-levels"),
    Parameter("open"),
    Parameter("at"),
    Parameter("find", "", "operations-find"),
    Parameter("pass", "all", "operations-pass"),
    Parameter("metric", "cycles", "operations-metric"),
    Parameter("columns", "call,pass,ipu,stage,cycles,share,error,flops,busy,always,temporary,code"),
    Parameter("tab", "details", "operations-tabs"),
    Parameter("op", selects="operation"),
)
PANELS = {
    "list": ("layer", "find", "pass", "metric", "columns"),
    "graph": ("layer", "find", "as", "colour", "levels", "open", "at", "op"),
    "operation": ("layer", "tab", "op"),
    "kinds": ("layer", "tab"),
    "plans": ("find", "tab"),
}

_MAX_ROWS = 20_000
_NOTE = "grid-note"
_MISSING = "The operation is not in this report; select another."
_NAME = column("name", "Operation", "name", changes={"op": "{key}"})
_COLUMNS = (
    column("call", "Call"),
    column("pass", "Pass", hint="Pass of the training step"),
    column("ipu", "IPU", "count", hint="The IPU that its steps run on"),
    column("stage", "Stage", hint="Stage of the pipeline"),
    column("cycles", "Cycles", "count"),
    column("share", "% of total", "share"),
    column("error", "Error", "error", hint="Expected error of the cycles"),
    column("compute", "Compute cycles", "count"),
    column("flops", "FLOPs", "count"),
    column("busy", "Tiles busy", "share"),
    column("always", "Always live", "bytes"),
    column("temporary", "Temporary", "bytes"),
    column("code", "Code", "bytes"),
    column("steps", "Steps", "count"),
)
#: Scripts of the graph, in the order in which they are loaded when it is opened.
_GRAPH_SCRIPTS = ("graph_paint.js", "graph_view.js")
_COLOURS = {"cycles": "Cycles", "code": "Code", "memory": "Memory", "pass": "Pass"}
#: Passes of a training step to which the list can be limited.
_PASSES = {"all": "All"} | {item.key: item.label for item in TRAINING_PASSES.values()}
_HIDDEN = {"display": "none"}
_LEVELS = {"0": "Automatic", "1": "1", "2": "2", "3": "3", "99": "All"}
#: Those that can be shown or hidden, with their titles.
_CHOICE = [(one["field"], one["title"]) for one in _COLUMNS]
_PLAN_COLUMNS = (
    # Plans belong to library calls, whichever layer is listed.
    column("name", "Operation", "name", changes={"op": "{key}", "layer": ""}),
    column("call", "Kind"),
    column("family", "Family"),
    column("split", "Split"),
    column("tiles", "Tiles", "count"),
    column("balance", "Balance", "share"),
    column("cycles", "Predicted", "count"),
    column("temporary", "Temporary", "bytes"),
    column("bound", "Bound"),
)


def layout() -> html.Div:
    """Return the page without content."""
    toolbar = html.Div(
        [
            choice("operations-layer", "Show", list(LAYERS.items())),
            text_box("operations-find", "Filter operations", "name or call", is_search=True),
            html.Div(
                dropdown("operations-pass", "Pass", list(_PASSES.items())),
                id="operations-pass-field",
                style=_HIDDEN,
            ),
            choice("operations-as", "As", [("table", "Table"), ("graph", "Graph")]),
            html.Div(
                [
                    html.Div(
                        dropdown(
                            "operations-metric",
                            "Compare",
                            [(name, measure.label) for name, measure in MEASURES.items()],
                        ),
                        id="operations-metric-field",
                    ),
                    html.Div(_columns_menu(), id="operations-columns-field"),
                ],
                id="operations-table-fields",
            ),
            html.Div(
                [
                    choice("operations-colour", "Colour by", list(_COLOURS.items())),
                    choice("operations-levels", "Open levels", list(_LEVELS.items())),
                ],
                id="operations-graph-fields",
                className="toolbar-group",
            ),
        ],
        className="toolbar",
    )
    listing = guarded(
        "operations-error",
        html.Div(id="operations-headlines", className="headlines"),
        html.Div(
            [
                html.Div(id="operations-note", className=_NOTE),
                html.Div(id="operations-trust", className=_NOTE),
                data_table(
                    [],
                    {},
                    label="Operations",
                    empty="No operation matches.",
                    file="operations",
                    highlight=Highlight("key", ()),
                    table_id="operations-table",
                ),
            ],
            id="operations-list",
        ),
        marked(
            html.Div(id="operations-graph"),
            data_scripts=" ".join(asset_url(name) for name in _GRAPH_SCRIPTS),
        ),
    )
    panels = tabs(
        "operations-tabs",
        [
            (
                "details",
                "Summary",
                guarded(
                    "operation-error",
                    html.Div(id="operation-links", className="links"),
                    html.Div(id="operation"),
                ),
            ),
            *(
                (name, label, guarded(f"operation-{name}-error", html.Div(id=f"operation-{name}")))
                for name, label in (FIGURE_TABS | {"debug": "Debug"}).items()
            ),
            ("kinds", "By kind", guarded("operation-kinds-error", html.Div(id="operation-kinds"))),
            (
                "plans",
                "Plans",
                guarded(
                    "operation-plans-error",
                    html.Div(id="operation-plans-note", className=_NOTE),
                    html.Div(id="operation-plans"),
                ),
            ),
        ],
    )
    return html.Div(
        [html.Div([toolbar, listing], className="card"), html.Div(panels, className="card")],
        className="stack",
    )


def _columns_menu() -> html.Label:
    """Return the menu of the columns, with those of the address chosen."""
    menu = dmc.MultiSelect(
        id="operations-columns",
        data=[{"value": name, "label": title} for name, title in _CHOICE],
        value=[],
        size="xs",
        w="100%",
        hidePickedOptions=False,
        maxDropdownHeight=420,
        className="columns-menu",
    )
    return field("Columns", menu)


def _connect_controls(app: Dash) -> None:
    """Connect the selection of rows and the columns menu, entirely in the browser."""
    connect(
        app,
        "operations.mark",
        Output("operations-table", "selected"),
        Input(view_store("operations", "operation"), "data"),
    )
    visible_ids = ("list", "table-fields", "graph", "graph-fields")
    connect(
        app,
        "operations.showAs",
        *(Output(f"operations-{part}", "style") for part in visible_ids),
        Input(view_store("operations", "graph"), "data"),
    )
    state = view_store("operations", "list")
    connect(
        app,
        "operations.showColumns",
        Output("operations-columns", "value"),
        Input(state, "data"),
        State("operations-columns", "value"),
        prevent_initial_call=True,
    )
    connect(
        app,
        "operations.chooseColumns",
        Input("operations-columns", "value"),
        State(state, "data"),
        State("operations-columns", "data"),
        prevent_initial_call=True,
    )


def register(app: Dash, library: Library) -> None:
    """Connect the page."""
    _connect_controls(app)
    _register_listing(app, library)
    _register_operation(app, library)
    view_input = Input(view_store("operations", "kinds"), "data")

    @answer(app, "operation-kinds-error", [Output("operation-kinds", "children")], view_input)
    def show_kinds_table(view: dict[str, str]) -> tuple[Any, ...]:
        if view["tab"] != "kinds":
            return (no_update,)
        listed = _asked(library, view)
        trusts = _trust(library, view, listed[0].layer)
        errors: dict[str, str] = {}
        for side, trust in zip(listed, trusts, strict=True):
            if side is not None and trust is not None:
                errors = trust.of_calls(side) | errors
        passes = passes_table(*library.ask(view, pass_totals))
        stages = stages_table(*library.ask(view, stage_figures))
        heading = [html.H3("By kind")] if passes or stages else []
        note = html.Div(_trust_note(trusts), className=_NOTE)
        return ([*passes, *stages, *heading, kinds_table(*listed, errors), note],)

    @answer(
        app,
        "operation-plans-error",
        [Output("operation-plans", "children"), Output("operation-plans-note", "children")],
        Input(view_store("operations", "plans"), "data"),
    )
    def show_plans(view: dict[str, str]) -> tuple[Any, ...]:
        if view["tab"] != "plans":
            return no_update, no_update
        with library.opened(view["report"]) as report:
            rows = plan_rows(plans(report))
        matching_rows = matching(rows, view["find"])
        table = data_table(
            _PLAN_COLUMNS,
            by_field(_PLAN_COLUMNS, matching_rows, "key"),
            label="Plans",
            empty="This report has no plans: no convolutions, products or reductions.",
            file="plans",
        )
        note = "Predicted cycles and temporary memory per tile; select a plan to see it explained."
        return table, ("Plans of the baseline. " if view["with"] else "") + note


def _register_listing(app: Dash, library: Library) -> None:
    """Connect the table of operations."""

    @answer(
        app,
        "operations-error",
        [
            Output("operations-table", "columns"),
            Output("operations-table", "data"),
            Output("operations-headlines", "children"),
            Output("operations-note", "children"),
            Output("operations-trust", "children"),
            Output("operations-metric-field", "style"),
            Output("operations-columns-field", "style"),
            Output("operations-pass-field", "style"),
        ],
        Input(view_store("operations", "list"), "data"),
    )
    def show_operations(view: dict[str, str]) -> tuple[Any, ...]:
        baseline, candidate = _asked(library, view)
        has_training = any(side and side.has_training for side in (baseline, candidate))
        fields = ({}, _HIDDEN) if candidate else (_HIDDEN, {})
        pass_field = {} if has_training else _HIDDEN
        heads = [_headline(baseline, "Baseline" if candidate else "")]
        trusts = _trust(library, view, baseline.layer)
        if candidate is None:
            rows, columns = operation_rows(baseline, trusts[0]), _chosen_columns(view)
            is_shown = {
                "pass": has_training,
                "ipu": baseline.has_ipus,
                "stage": baseline.has_stages,
            }
            columns = [item for item in columns if is_shown.get(item["field"], True)]
        else:
            heads.append(_headline(candidate, "Candidate"))
            rows, columns = compared_rows(baseline, candidate, _metric(view))
        of_pass = _of_pass(rows, view) if has_training else rows
        matching_rows = matching(of_pass, view["find"])
        note = _note(matching_rows, rows, baseline, _layer(view))
        columns = [_NAME, *columns]
        data = by_field(columns, matching_rows[:_MAX_ROWS], "key")
        trust_note = "" if candidate else _trust_note(trusts)
        return columns, data, heads, note, trust_note, *fields, pass_field


def _register_operation(app: Dash, library: Library) -> None:
    """Connect the tabs of the selected operation."""
    view_input = Input(view_store("operations", "operation"), "data")

    @answer(
        app,
        "operation-error",
        [Output("operation", "children"), Output("operation-links", "children")],
        view_input,
    )
    def show_details(view: dict[str, str]) -> tuple[Any, ...]:
        if view["tab"] != "details":
            return no_update, no_update
        if not view["op"]:
            return _totals(_asked(library, view)), []
        sides = _sides(library, view)
        if sides is None:
            return empty_state(_MISSING), []
        reports = reports_of(view)
        links = operation_links(sides[0], reports) if sides[0] is not None else []
        return details_panel(view["op"], sides, reports), links

    @answer(app, "operation-debug-error", [Output("operation-debug", "children")], view_input)
    def show_debug(view: dict[str, str]) -> tuple[Any, ...]:
        if view["tab"] != "debug":
            return (no_update,)
        if not view["op"]:
            return (_totals(_asked(library, view)),)
        sides = _sides(library, view)
        if sides is None:
            return (empty_state(_MISSING),)
        return (debug_panel(view["op"], sides, reports_of(view)),)

    for tab in FIGURE_TABS:
        _register_figure(app, library, tab)


def _register_figure(app: Dash, library: Library, tab: str) -> None:
    """Connect a tab with a figure of the selected operation."""

    @answer(
        app,
        f"operation-{tab}-error",
        [Output(f"operation-{tab}", "children")],
        Input(view_store("operations", "operation"), "data"),
    )
    def show_figure(view: dict[str, str]) -> tuple[Any, ...]:
        if view["tab"] != tab:
            return (no_update,)
        listed = _asked(library, view)
        if not view["op"]:
            return (_totals(listed),)
        chosen = _chosen(*listed, view["op"])
        reports = reports_of(view)
        heads = ("Baseline", "Candidate") if view["with"] else ("", "")
        columns = []
        for report_id, operation, head in zip(
            (view["report"], view["with"]), chosen, heads, strict=True
        ):
            if report_id and operation is not None:
                side_reports = reports if report_id == view["report"] else swapped(reports)
                with library.opened(report_id) as report:
                    columns.append(
                        tab_column(tab, operation_tiles(report, operation), side_reports, head)
                    )
        if not columns:
            return (empty_state(_MISSING),)
        return (html.Div([html.H2(view["op"]), *columns], className="details"),)


def _totals(listed: tuple[Operations, Operations | None]) -> html.Div:
    """Return the totals of both reports, and how to see more."""
    heads = ("Baseline", "Candidate") if listed[1] is not None else ("", "")
    columns = [
        totals(side, head) for side, head in zip(listed, heads, strict=True) if side is not None
    ]
    hint = html.Div("Select an operation above to see its cost and plan.", className=_NOTE)
    return html.Div([html.Div(columns, className="operation-columns"), hint], className="details")


def _sides(library: Library, view: Mapping[str, str]) -> list[OperationDetails | None] | None:
    """Return the selected operation in the view's reports; None if it is in none of them."""
    baseline, candidate = _asked(library, view)
    layer, chosen = baseline.layer, _chosen(baseline, candidate, view["op"])
    sides: list[OperationDetails | None] = []
    for report_id, operation in zip((view["report"], view["with"]), chosen, strict=True):
        if report_id:
            with library.opened(report_id) as report:
                listed = operations(report, layer)
                sides.append(
                    operation_details(report, listed, operation, library.trust)
                    if operation is not None
                    else None
                )
    return sides if any(sides) else None


def _chosen_columns(view: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the columns that are chosen in the view."""
    known = {name for name, _ in _CHOICE}
    names = {name for name in view["columns"].split(",") if name and name != "none"}
    unknown = sorted(names - known)
    if unknown:
        raise BadView(f"Unknown column {unknown[0][:40]!r} in the address; choose in the menu.")
    return [item for item in _COLUMNS if item["field"] in names]


def _of_pass(rows: list[dict[str, Any]], view: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the rows of the pass of the view."""
    if view["pass"] not in _PASSES:
        raise BadView(f"Unknown pass {view['pass'][:40]!r} in the address; choose one above.")
    if view["pass"] == "all":
        return rows
    return [row for row in rows if row["pass"] == _PASSES[view["pass"]]]


def _layer(view: Mapping[str, str]) -> Layer:
    """Return the layer of the view: library calls or nodes of the model."""
    for layer in LAYERS:
        if layer == view["layer"]:
            return layer
    raise BadView(f"Unknown layer {view['layer'][:40]!r} in the address; choose one above.")


def _chosen(
    baseline: Operations, candidate: Operations | None, key: str
) -> tuple[Operation | None, Operation | None]:
    """Return the operation of a key in both reports; in a comparison, of the pair with the key."""
    if candidate is None:
        return baseline.by_key.get(key), None
    pair_ = next((pair for pair in operation_pairs(baseline, candidate) if pair.key == key), None)
    return (None, None) if pair_ is None else (pair_.baseline, pair_.candidate)


def _metric(view: Mapping[str, str]) -> str:
    """Return the metric of a comparison."""
    if view["metric"] not in MEASURES:
        raise BadView(f"Unknown metric {view['metric'][:40]!r} in the address; choose one above.")
    return view["metric"]


def _asked(library: Library, view: Mapping[str, str]) -> tuple[Operations, Operations | None]:
    """Return the operations of the view's reports."""
    return operations_of_view(library, view, _layer(view))


def _trust(
    library: Library, view: Mapping[str, str], layer: Layer
) -> tuple[ReportTrust, ReportTrust | None]:
    """Return how far figures of the view's reports can be trusted."""
    return library.ask(view, lambda report: report_trust(report, library.trust, layer))


def _trust_note(trusts: tuple[ReportTrust, ReportTrust | None]) -> str:
    """Return where expected errors come from: what is said of one report or of both."""
    sentences = (note for trust in trusts if trust is not None for note in trust.notes)
    return " ".join(dict.fromkeys(sentences))


def _headline(listed: Operations, side: str) -> html.Div:
    """Return the operations' share of the total cycles."""
    total = listed.total_cycles
    share = f" ({format_percent(100 * listed.cycles / total)})" if total else ""
    layer_words = LAYERS[listed.layer].lower()
    caption = f"of {total:,} cycles{share} are in {len(listed.operations):,} {layer_words}"
    return headline(f"{listed.cycles:,}", f"{caption}, {format_runs(listed.n_runs)}", side=side)


def _note(
    results: Sequence[dict[str, Any]],
    rows: Sequence[dict[str, Any]],
    listed: Operations,
    layer: Layer,
) -> str:
    """Return a note about omitted rows, and about the layer if it is not the one asked for."""
    if not rows:
        return "This report has no steps: it was written without the compiled program."
    parts = []
    if listed.layer != layer:
        asked_words, listed_words = LAYERS[layer].lower(), LAYERS[listed.layer].lower()
        parts.append(f"this program was built without {asked_words}, its {listed_words} are listed")
    if len(results) < len(rows):
        parts.append(f"{len(results):,} of {len(rows):,} match")
    if len(results) > _MAX_ROWS:
        parts.append(f"the first {_MAX_ROWS:,} are listed")
    if listed.cycles < listed.total_cycles:
        parts.append("the remaining cycles belong to none, such as copies to and from the host")
    text = "; ".join(parts)
    return text[:1].upper() + text[1:]
