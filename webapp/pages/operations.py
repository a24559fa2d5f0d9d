"""Operations: the cost of a program's library calls or model nodes, and their plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import Dash, Input, Output, html, no_update

from tilescope.analyser.diff import MEASURES, operation_pairs
from tilescope.analyser.operations import Layer, Operation, Operations, operations
from tilescope.analyser.plans import plans
from tilescope.analyser.quantities import format_percent
from tilescope.webapp.answer import answer
from tilescope.webapp.browser import connect
from tilescope.webapp.components.controls import choice, dropdown, tabs, text_box
from tilescope.webapp.components.grids import (
    bytes_column,
    grid,
    grid_style,
    name_column,
    number_column,
    share_column,
    text_column,
)
from tilescope.webapp.components.links import reports_of
from tilescope.webapp.components.panels import empty_state, guarded, headline
from tilescope.webapp.library import Library
from tilescope.webapp.pages.operation_panels import (
    OperationDetails,
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
    plan_rows,
)
from tilescope.webapp.view import BadView, Parameter, view_store

__all__ = ["ICON", "NEEDS", "PATH", "TITLE", "VIEW", "layout", "register"]

PATH = "/operations"
TITLE = "Operations"
ICON = "operations"
NEEDS = ("grid",)
VIEW = (
    Parameter("layer", "library", "operations-layer"),
    Parameter("find", "", "operations-find"),
    Parameter("metric", "cycles", "operations-metric"),
    Parameter("tab", "details", "operations-tabs"),
    Parameter("op", selects="operation"),
)

_MAX_ROWS = 20_000
_COLUMNS = (
    name_column("name", "Operation"),
    text_column("call", "Call", width=146),
    number_column("cycles", "Cycles", width=90),
    share_column("share", "% of total", width=94),
    number_column("flops", "FLOPs", width=108),
    share_column("busy", "Tiles busy", width=84),
    bytes_column("always", "Always live", width=90),
    bytes_column("temporary", "Temporary", width=90),
    bytes_column("code", "Code", width=98),
)
_PLAN_COLUMNS = (
    name_column("name", "Operation"),
    text_column("call", "Kind", width=110),
    text_column("family", "Family", width=95),
    text_column("split", "Split", width=195),
    number_column("tiles", "Tiles", width=75),
    share_column("balance", "Balance", width=80),
    number_column("cycles", "Predicted", width=90),
    bytes_column("temporary", "Temporary", width=90),
    text_column("bound", "Bound", width=80),
)


def layout() -> html.Div:
    """Return the page without content."""
    toolbar = html.Div(
        [
            choice("operations-layer", "Show", list(LAYERS.items())),
            text_box("operations-find", "Filter operations", "name or call", is_search=True),
            html.Div(
                dropdown(
                    "operations-metric",
                    "Compare",
                    [(name, measure.label) for name, measure in MEASURES.items()],
                ),
                id="operations-metric-field",
            ),
        ],
        className="toolbar",
    )
    listing = guarded(
        "operations-error",
        html.Div(id="operations-headlines", className="headlines"),
        html.Div(id="operations-note", className="grid-note"),
        grid("operations-grid", _COLUMNS, empty="No operation matches.", selects=True),
    )
    panels = tabs(
        "operations-tabs",
        [
            (
                "details",
                "Operation details",
                guarded(
                    "operation-error",
                    html.Div(id="operation-links", className="links"),
                    html.Div(id="operation"),
                ),
            ),
            ("kinds", "By kind", guarded("operation-kinds-error", html.Div(id="operation-kinds"))),
            (
                "plans",
                "Plans",
                guarded(
                    "operation-plans-error",
                    html.Div(id="operation-plans-note", className="grid-note"),
                    grid(
                        "operation-plans",
                        _PLAN_COLUMNS,
                        empty="This report has no plans: no convolutions, products or reductions.",
                        selects=True,
                    ),
                ),
            ),
        ],
    )
    return html.Div(
        [html.Div([toolbar, listing], className="card"), html.Div(panels, className="card")],
        className="stack",
    )


def register(app: Dash, library: Library) -> None:
    """Connect the page."""
    view_input = Input(view_store("operations"), "data")
    for grid_id in ("operations-grid", "operation-plans"):
        connect(
            app,
            "charts.pick_operation",
            Input(grid_id, "selectedRows"),
            prevent_initial_call=True,
        )

    @answer(
        app,
        "operations-error",
        [
            Output("operations-grid", "rowData"),
            Output("operations-grid", "columnDefs"),
            Output("operations-grid", "style"),
            Output("operations-headlines", "children"),
            Output("operations-note", "children"),
            Output("operations-metric-field", "style"),
        ],
        view_input,
    )
    def show_operations(view: dict[str, str]) -> tuple[Any, ...]:
        baseline, candidate = _asked(library, view)
        shown = {} if candidate else {"display": "none"}
        heads = [_headline(baseline, "Baseline" if candidate else "")]
        if candidate is None:
            rows, columns = operation_rows(baseline), list(_COLUMNS)
        else:
            heads.append(_headline(candidate, "Candidate"))
            rows, columns = compared_rows(baseline, candidate, _metric(view))
        found = matching(rows, view["find"])
        note = _note(found, rows, baseline, _layer(view))
        return found[:_MAX_ROWS], columns, grid_style(found), heads, note, shown

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
            return empty_state("Select an operation above to see its cost and plan."), []
        baseline, candidate = _asked(library, view)
        layer, chosen = baseline.layer, _chosen(baseline, candidate, view["op"])
        sides: list[OperationDetails | None] = []
        for report_id, found in zip((view["report"], view["with"]), chosen, strict=True):
            if report_id:
                with library.opened(report_id) as report:
                    listed = operations(report, layer)
                    sides.append(
                        operation_details(report, listed, found) if found is not None else None
                    )
        if not any(sides):
            return empty_state("The operation is not in this report; select another."), []
        reports = reports_of(view)
        links = operation_links(sides[0], reports) if sides[0] is not None else []
        return details_panel(view["op"], sides, reports), links

    @answer(app, "operation-kinds-error", [Output("operation-kinds", "children")], view_input)
    def showkinds_table(view: dict[str, str]) -> tuple[Any, ...]:
        if view["tab"] != "kinds":
            return (no_update,)
        return (kinds_table(*_asked(library, view)),)

    @answer(
        app,
        "operation-plans-error",
        [
            Output("operation-plans", "rowData"),
            Output("operation-plans", "style"),
            Output("operation-plans-note", "children"),
        ],
        view_input,
    )
    def show_plans(view: dict[str, str]) -> tuple[Any, ...]:
        if view["tab"] != "plans":
            return no_update, no_update, no_update
        with library.opened(view["report"]) as report:
            rows = plan_rows(plans(report))
        found = matching(rows, view["find"])[:_MAX_ROWS]
        note = "Predicted cycles and temporary memory per tile; select a plan to see it explained."
        return found, grid_style(found), ("Plans of the baseline. " if view["with"] else "") + note


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
    found = next((pair for pair in operation_pairs(baseline, candidate) if pair.key == key), None)
    return (None, None) if found is None else (found.baseline, found.candidate)


def _metric(view: Mapping[str, str]) -> str:
    """Return the metric of a comparison."""
    if view["metric"] not in MEASURES:
        raise BadView(f"Unknown metric {view['metric'][:40]!r} in the address; choose one above.")
    return view["metric"]


def _asked(library: Library, view: dict[str, str]) -> tuple[Operations, Operations | None]:
    """Return the operations of the view's reports."""
    return operations_of_view(library, view, _layer(view))


def _headline(listed: Operations, side: str) -> html.Div:
    """Return the operations' share of the total cycles."""
    total, n_runs = listed.total_cycles, listed.n_runs
    runs = f"in {n_runs:,} recorded run{'s' * (n_runs != 1)}" if n_runs else "as compiled, not run"
    share = f" ({format_percent(100 * listed.cycles / total)})" if total else ""
    what = LAYERS[listed.layer].lower()
    caption = f"of {total:,} cycles{share} are in {len(listed.operations):,} {what}, {runs}"
    return headline(f"{listed.cycles:,}", caption, side=side)


def _note(
    found: Sequence[dict[str, Any]],
    rows: Sequence[dict[str, Any]],
    listed: Operations,
    asked: Layer,
) -> str:
    """Return a note about omitted rows, and about the layer if it is not the one asked for."""
    if not rows:
        return "This report has no steps: it was written without the compiled program."
    parts = []
    if listed.layer != asked:
        what, shown = LAYERS[asked].lower(), LAYERS[listed.layer].lower()
        parts.append(f"this program was built without {what}, its {shown} are listed")
    if len(found) < len(rows):
        parts.append(f"{len(found):,} of {len(rows):,} match")
    if len(found) > _MAX_ROWS:
        parts.append(f"the first {_MAX_ROWS:,} are listed")
    if listed.cycles < listed.total_cycles:
        parts.append("the remaining cycles belong to none, such as copies to and from the host")
    text = "; ".join(parts)
    return text[:1].upper() + text[1:]
