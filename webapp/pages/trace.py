"""Execution trace: slices over cycles on a canvas, with the figures of the range below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dash import Dash, Input, Output, html, no_update

from tilescope.analyser import trace
from tilescope.analyser.diff import TracePair, compare_regions
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.summary.places import busiest_tile, place_of
from tilescope.analyser.summary.stage_figures import stage_figures
from tilescope.analyser.time.execution import execution
from tilescope.webapp.answer import answer
from tilescope.webapp.browser import connect, marked
from tilescope.webapp.components.controls import choice, switch, tabs, text_box
from tilescope.webapp.components.links import Reports, reports_of
from tilescope.webapp.components.panels import empty_state, guarded
from tilescope.webapp.library import Library
from tilescope.webapp.pages.mark_panels import marks_table
from tilescope.webapp.pages.region_panels import (
    REGION_CHOICES,
    region_changes_panel,
    regions_panel,
)
from tilescope.webapp.pages.stage_panels import stages_panel
from tilescope.webapp.pages.stretch_panels import statistics_table, stretches_panel
from tilescope.webapp.pages.trace_panels import (
    Around,
    Counterpart,
    change_table,
    contributor_table,
    execution_table,
    slice_panel,
    summary_panel,
)
from tilescope.webapp.view import BadView, Parameter, parse_numbers, view_store

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["ICON", "PANELS", "PATH", "TITLE", "VIEW", "layout", "register"]

PATH = "/trace"
TITLE = "Execution Trace"
ICON = "trace"
VIEW = (
    Parameter("view", "flame", "trace-view"),
    Parameter("align", "step", "trace-align"),
    Parameter("ipus", "", "trace-ipus"),
    Parameter("tiles", "", "trace-tiles"),
    Parameter("find", "", "trace-find"),
    Parameter("tab", "summary", "trace-tabs"),
    Parameter("by", "layer", "trace-by"),
    Parameter("range"),
    Parameter("mark"),
    Parameter("marks"),
    Parameter("notes"),
    Parameter("closed"),
    Parameter("opened"),
    Parameter("at"),
    Parameter("node"),
    Parameter("merge", "", "trace-merge", "checked"),
    Parameter("hide"),
    Parameter("pins"),
)
#: What the figures of the range depend on, and the details of the selection.
PANELS = {
    "range": ("tab", "align", "ipus", "range", "mark", "marks"),
    "regions": ("tab", "by", "ipus", "range", "mark"),
    "table": ("tab", "align", "ipus", "range", "mark", "hide"),
    "details": ("tab", "align", "view", "merge", "closed", "at"),
}

_TOP = 100
_MOST_MARKS = 6
_LISTED = 200
_VIEWS = [("flame", "Flame"), ("flat", "Flat"), ("difference", "Difference")]
_BUTTONS = (
    ("trace-previous", "‹", "Previous match (Shift-N, or Shift-Enter in the search)"),
    ("trace-next", "›", "Next match (N, or Enter in the search)"),
    ("trace-out", "−", "Zoom out (S)"),
    ("trace-in", "+", "Zoom in (W)"),
    ("trace-keep", "Mark", "Mark: keep the marked range or selected slice, to compare it (M)"),
    ("trace-note", "Note", "Note: write a note on the marked range or selected slice (T)"),
    ("trace-focus", "Focus", "Focus: fit the selection (F)"),
    ("trace-all", "All", "All: show the whole trace (0)"),
    ("trace-picture", "PNG", "PNG: save the visible trace as a picture of twice the size"),
)


def layout() -> html.Div:
    """Return the page without content."""
    buttons = [
        marked(html.Button(text, id=name, className="trace-tool", title=hint), aria_label=hint)
        for name, text, hint in _BUTTONS
    ]
    match_note = html.Span(id="trace-match", className="trace-found", role="status")
    rows = html.Details(
        [
            html.Summary("Rows", id="trace-rows-shown", className="trace-tool"),
            html.Div(
                [
                    text_box("trace-ipus", "IPUs", "all, or 2-5", width="180px"),
                    text_box("trace-tiles", "Tiles with a row of their own", "0, 7-9"),
                    switch("trace-merge", "Merge phases of a name"),
                ],
                className="trace-menu",
            ),
        ],
        id="trace-rows",
        className="trace-rows",
    )
    toolbar = html.Div(
        [
            choice("trace-view", "View", _VIEWS),
            choice(
                "trace-align", "Align by", [("step", "Step"), ("cycle", "Cycle"), ("time", "Time")]
            ),
            rows,
            text_box("trace-find", "Find steps", "Find steps", width="116px", is_search=True),
            html.Div([*buttons[:2], match_note], className="trace-tools"),
            marked(
                html.Div(id="trace-legend", className="trace-legend", role="group"),
                aria_label="Kinds of steps and their share of the visible range",
            ),
            html.Div(className="toolbar-space"),
            html.Div(buttons[2:], className="trace-tools"),
        ],
        className="toolbar",
    )
    panels = tabs(
        "trace-tabs",
        [
            ("summary", "Summary of the range", _panel("trace-summary")),
            ("top", "Top contributors", _panel("trace-top")),
            ("details", "Details of the selection", _panel("trace-details")),
            ("stretches", "Stretches", _panel("trace-stretches")),
            ("regions", "Regions", _panel("trace-regions")),
            ("table", "Table", _panel("trace-table")),
            ("stages", "Stages", _panel("trace-stages")),
        ],
    )
    by = html.Div(choice("trace-by", "Regions by", REGION_CHOICES), className="only-regions")
    return html.Div(
        [
            html.Div(
                [
                    toolbar,
                    html.Div(id="trace-viewer"),
                    html.Div(id="trace-difference"),
                ],
                className="card",
            ),
            marked(
                html.Div(
                    id="trace-splitter", className="trace-splitter", role="separator", tabIndex=0
                ),
                aria_orientation="horizontal",
                aria_label="Height of the trace: arrow keys move it",
                aria_valuenow="0",
            ),
            html.Div(
                html.Div(
                    [html.Div(by, className="tabs-filter"), panels], className="filtered-tabs"
                ),
                className="card trace-below",
            ),
        ],
        className="stack trace-page",
    )


def register(app: Dash, library: Library) -> None:
    """Connect the page: scripts update the canvas from the URL, callbacks fill the panels."""
    connect(app, "trace.show", Input(view_store("trace"), "data"))
    connect(
        app,
        "trace.act",
        *(Input(name, "n_clicks") for name, _, _ in _BUTTONS),
        prevent_initial_call=True,
    )

    @answer(
        app,
        "trace-summary-error",
        [Output("trace-summary", "children")],
        Input(view_store("trace", "range"), "data"),
    )
    def show_summary(view: dict[str, str]) -> tuple[Any, ...]:
        if view["tab"] != "summary":
            return (no_update,)
        place = view["mark"] or view["range"]
        sides = _range_summaries(library, view, place, top=0)
        if not any(sides):
            return (_nothing(),)
        critical = [_critical(library, view, place)] if not view["with"] else []
        panel = summary_panel(
            sides, reports_of(view), is_marked=bool(view["mark"]), critical=critical
        )
        places = [part for part in view["marks"].split(",") if part][:_MOST_MARKS]
        if not places:
            return (panel,)
        marks = [_cycles(part) for part in places]
        figures = [_range_summaries(library, view, part, top=0) for part in places]
        return (html.Div([marks_table(marks, figures), panel]),)

    @answer(
        app,
        "trace-top-error",
        [Output("trace-top", "children")],
        Input(view_store("trace", "range"), "data"),
    )
    def show_contributors(view: dict[str, str]) -> tuple[Any, ...]:
        if view["tab"] != "top":
            return (no_update,)
        if view["with"]:
            return (_changes(library, view),)
        return (_contributors(library, view),)

    @answer(
        app,
        "trace-stretches-error",
        [Output("trace-stretches", "children")],
        Input(view_store("trace", "range"), "data"),
    )
    def show_stretches(view: dict[str, str]) -> tuple[Any, ...]:
        if view["tab"] != "stretches":
            return (no_update,)
        return (_stretches(library, view),)

    @answer(
        app,
        "trace-regions-error",
        [Output("trace-regions", "children")],
        Input(view_store("trace", "regions"), "data"),
    )
    def show_regions(view: dict[str, str]) -> tuple[Any, ...]:
        if view["tab"] != "regions":
            return (no_update,)
        return (_regions(library, view),)

    @answer(
        app,
        "trace-stages-error",
        [Output("trace-stages", "children")],
        Input(view_store("trace", "range"), "data"),
    )
    def show_stages(view: dict[str, str]) -> tuple[Any, ...]:
        if view["tab"] != "stages":
            return (no_update,)
        return (_stages(library, view),)

    @answer(
        app,
        "trace-table-error",
        [Output("trace-table", "children")],
        Input(view_store("trace", "table"), "data"),
    )
    def show_table(view: dict[str, str]) -> tuple[Any, ...]:
        if view["tab"] != "table":
            return (no_update,)
        return (_table(library, view) if view["report"] else _nothing(),)

    @answer(
        app,
        "trace-details-error",
        [Output("trace-details", "children")],
        Input(view_store("trace", "details"), "data"),
    )
    def show_details(view: dict[str, str]) -> tuple[Any, ...]:
        if view["tab"] != "details":
            return (no_update,)
        if not view["report"] or not view["at"]:
            return (empty_state("Click a slice of the trace to see its details."),)
        if view["at"].startswith("step:"):
            return (_unless_found(library, view),)
        return (_details(library, view),)


def _stretches(library: Library, view: dict[str, str]) -> Any:
    """Return the stretches of the whole trace, so that the list stays while one is looked at.

    Those of a trace that is too long for that are of the marked range, else of the visible one.
    """
    if not view["report"]:
        return _nothing()
    with library.opened(view["report"]) as report:
        tracks = trace.extent(report).tracks
        if not tracks:
            return _nothing()
        ipus = _ipus(view, tracks)
        try:
            found = trace.stretches(report, ipus=ipus)
        except BadQuestion:
            # Of two reports, a range is a place on the common axis.
            start, end = (None, None) if view["with"] else _cycles(view["mark"] or view["range"])
            found = trace.stretches(report, start, end, ipus)
    return stretches_panel(found, is_pair=bool(view["with"]))


def _regions(library: Library, view: dict[str, str]) -> Any:
    """Return the regions of the whole trace, of a trace that is too long as in `_stretches`."""
    if not view["report"]:
        return _nothing()
    by = view["by"]
    with library.opened(view["report"]) as report:
        tracks = trace.extent(report).tracks
        if not tracks:
            return _nothing()
        ipus = _ipus(view, tracks)
        if view["with"]:
            with library.opened(view["with"]) as candidate:
                return region_changes_panel(compare_regions(report, candidate, by, ipus), by)
        try:
            found = trace.regions(report, by, ipus=ipus)
        except BadQuestion:
            found = trace.regions(report, by, *_cycles(view["mark"] or view["range"]), ipus)
    return regions_panel(found)


def _stages(library: Library, view: dict[str, str]) -> html.Div:
    """Return the stages of the first run in the marked range, else in the visible one."""
    if not view["report"]:
        return _nothing()
    start, end = _cycles(view["mark"] or view["range"])
    with library.opened(view["report"]) as report:
        inside = (
            run for run in trace.extent(report).runs if start is None or run.end_cycle > start
        )
        run_id = next((run.run_id for run in inside), None)
        if run_id is None:
            return empty_state("No run in this range; zoom out or press 0.")
        picture = trace.stage_picture(report, run_id)
        figures = stage_figures(report, run_id)
    if picture is None or figures is None:
        return empty_state("This program is not a pipeline over several IPUs.")
    return stages_panel(picture, figures, start, end)


def _panel(name: str) -> html.Div:
    """Return a panel body that an error panel can replace."""
    return guarded(f"{name}-error", html.Div(id=name))


def _nothing() -> html.Div:
    """Return the placeholder of the panels without a trace."""
    return empty_state("No execution recorded.")


@contextmanager
def _pair(library: Library, view: dict[str, str]) -> Iterator[TracePair]:
    """Lend both reports on the axis that the view names."""
    with library.opened(view["report"]) as baseline, library.opened(view["with"]) as candidate:
        yield TracePair(baseline, candidate, view["align"])


def _range_summaries(
    library: Library, view: dict[str, str], place: str, *, top: int
) -> list[trace.RangeSummary | None]:
    """Return the figures of a range such as ``100:200``, of one or two reports.

    None stands for a report without a trace there.
    """
    if not view["report"]:
        return [None]
    start, end = _cycles(place)
    if view["with"]:
        with _pair(library, view) as pair:
            sides = [trace.extent(pair.report(side)) for side in range(2)]
            ipus = _ipus(view, [track for side in sides for track in side.tracks])
            return [pair.summary(side, start, end, ipus, top=top) for side in range(2)]
    with library.opened(view["report"]) as report:
        extent = trace.extent(report)
        if not extent.tracks:
            return [None]
        return [trace.range_summary(report, start, end, _ipus(view, extent.tracks), top=top)]


def _critical(library: Library, view: dict[str, str], place: str) -> dict[int, int] | None:
    """Return the cycles of a range on the critical path, by IPU; None where that is not known."""
    with library.opened(view["report"]) as report:
        return trace.critical_cycles(report, *_cycles(place))


def _contributors(library: Library, view: dict[str, str]) -> Any:
    """Return the names of the range with statistics, of a long range without."""
    if not view["report"]:
        return _nothing()
    start, end = _cycles(view["mark"] or view["range"])
    with library.opened(view["report"]) as report:
        tracks = trace.extent(report).tracks
        if not tracks:
            return _nothing()
        ipus = _ipus(view, tracks)
        try:
            return statistics_table(trace.name_statistics(report, start, end, ipus))
        except BadQuestion:
            # Too many executions, unless the summary refuses the question, too.
            summary = trace.range_summary(report, start, end, ipus, top=_TOP)
    return contributor_table(summary, reports_of(view))


def _changes(library: Library, view: dict[str, str]) -> html.Div:
    """Return what the names of a range cost in both reports."""
    start, end = _cycles(view["mark"] or view["range"])
    with _pair(library, view) as pair:
        sides = [trace.extent(pair.report(side)) for side in range(2)]
        ipus = _ipus(view, [track for side in sides for track in side.tracks])
        rows = pair.contributors(start, end, ipus)
    return change_table(rows[:_TOP], len(rows), reports_of(view))


def _details(library: Library, view: dict[str, str]) -> html.Div:
    """Return the details of the selected slice, of two reports with the same step beside it."""
    ipu_id, track, level, cycle, side = _place(view["at"])
    closed = view["closed"].split(",")
    how = "flat" if str(ipu_id) in closed else _lanes_of(view)
    if not view["with"]:
        with library.opened(view["report"]) as report:
            slice_ = trace.slice_at(report, ipu_id, track, level, cycle, how)
            return _slice_panel(report, slice_, reports_of(view))
    with _pair(library, view) as pair:
        slice_ = pair.slice_at(side, ipu_id, track, level, cycle, how)
        report = pair.report(side)
        other_side = None
        if slice_ is not None and slice_.step_id is not None:
            partner = pair.partner(side, slice_.step_id)
            if partner is not None:
                other_side = trace.step_details(pair.report(1 - side), partner)
        reports = reports_of(view)
        if side:  # links lead to the report of the slice
            reports = {"report": view["with"], "with": view["report"]}
        return _slice_panel(report, slice_, reports, Counterpart(side, other_side))


def _unless_found(library: Library, view: dict[str, str]) -> Any:
    """Return what is said of a step that did not run; of any other the trace writes its place.

    Raises
    ------
    BadQuestion
        When the report has no such step.
    """
    with library.opened(view["report"]) as report:
        step_id = place_of(report, view["at"]).step_id
        if step_id is not None and execution(report).executions[:, step_id].any():
            return no_update
    return empty_state(f"Step {view['at'].removeprefix('step:')} did not run.")


def _slice_panel(
    report: Report,
    slice_: trace.Slice | None,
    reports: Reports,
    counterpart: Counterpart | None = None,
) -> html.Div:
    """Return the panel of a slice of a report."""
    if slice_ is None:
        return empty_state("No slice here; click another one.")
    inside = trace.range_summary(
        report, slice_.start_cycle, slice_.end_cycle, [slice_.ipu_id], top=20
    )
    step = position = busiest = wait = None
    idle: list[trace.IdleTiles] = []
    if slice_.step_id is not None:
        step = trace.step_details(report, slice_.step_id)
        idle = trace.idle_tiles(report, slice_.step_id)
        position = place_of(report, f"step:{slice_.step_id}")
        busiest = busiest_tile(report, slice_.step_id)
        own = trace.waits(report, slice_.start_cycle, slice_.end_cycle, [slice_.ipu_id]).rows
        wait = next((row for row in own if row.step_id == slice_.step_id), None)
    return slice_panel(
        slice_, inside, step, reports, Around(position, busiest, tuple(idle), wait), counterpart
    )


def _table(library: Library, view: dict[str, str]) -> html.Div:
    """Return the first executions of the range, of every report."""
    start, end = _cycles(view["mark"] or view["range"])
    hidden = [kind.name for kind in trace.KINDS if kind.name in view["hide"].split(",")]
    if not view["with"]:
        with library.opened(view["report"]) as report:
            tracks = trace.extent(report).tracks
            if not tracks:
                return _nothing()
            ipus = _ipus(view, tracks)
            executions = trace.executions(report, start, end, ipus, hidden=hidden, limit=_LISTED)
        return execution_table(
            [executions], [view["report"]], reports_of(view), ipus=[ipus], hidden=hidden
        )
    with _pair(library, view) as pair:
        sides = [trace.extent(pair.report(side)) for side in range(2)]
        ipus = _ipus(view, [track for side in sides for track in side.tracks])
        lists, tables = [], []
        for side in range(2):
            low, high = pair.cycles(side, start, end)
            here = None if ipus is None else [i for i in ipus if i in _known(sides[side])]
            tables.append(here)
            if high <= low:
                lists.append(trace.ExecutionList(low, low, 0, []))
                continue
            report = pair.report(side)
            lists.append(trace.executions(report, low, high, here, hidden=hidden, limit=_LISTED))
    ids = [view["report"], view["with"]]
    return execution_table(lists, ids, reports_of(view), ipus=tables, hidden=hidden)


def _known(extent: trace.Extent) -> set[int]:
    """Return the IPUs of a trace."""
    return {track.ipu_id for track in extent.tracks}


def _ipus(view: dict[str, str], tracks: Sequence[trace.TrackExtent]) -> list[int] | None:
    """Return the IPUs of a view, None for all."""
    if not view["ipus"].strip() or not tracks:
        return None
    limit = max(track.ipu_id for track in tracks) + 1
    return parse_numbers(view["ipus"], limit=limit, noun="number of an IPU")


def _cycles(text: str) -> tuple[int | None, int | None]:
    """Return the range ``a:b`` in whole cycles; of none, and of ``all``, both bounds are open."""
    if text in {"", "all"}:
        return None, None
    try:
        start, end = (int(part) for part in text.split(":"))
    except ValueError:
        start, end = 0, 0
    if not start < end:
        raise BadView(
            f"Expected a range such as 100:200 in the address, got {text[:40]!r}; press 0 to reset."
        )
    return start, end


def _place(text: str) -> tuple[int, int, int, int, int]:
    """Return IPU, track, level, cycle and side of the selection."""
    try:
        ipu_id, track, level, cycle, side = (int(part) for part in (text + ".0").split(".")[:5])
    except ValueError:
        raise BadView(
            f"The selection {text[:40]!r} in the address is invalid; click a slice."
        ) from None
    return ipu_id, track, level, cycle, min(side, 1)


def _lanes_of(view: dict[str, str]) -> str:
    """Return what the analyser calls the lanes of a view."""
    if view["view"] == "flat":
        return "flat"
    return "calls" if view["merge"] == "1" else "flame"
