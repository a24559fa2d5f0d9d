"""Summary: target, graph, memory, execution, provenance and options of one or two reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import Dash, Input, Output, html

from tilescope.analyser.diff import Difference, compare, explain, option_pairs
from tilescope.analyser.machine.target import target
from tilescope.analyser.memory.tile_memory import fullest_tile
from tilescope.analyser.program.operations import operations
from tilescope.analyser.quantities import format_bytes, format_cycles, format_percent, format_runs
from tilescope.analyser.search import search_words, words_fit
from tilescope.analyser.summary.metrics import METRICS
from tilescope.analyser.summary.summarise import OptionRow, Summary, comparable_sections, summarise
from tilescope.analyser.time.execution import execution
from tilescope.reports import Report
from tilescope.reports.schema.vocabulary import PHASE_LABELS
from tilescope.webapp.answer import answer
from tilescope.webapp.browser import connect, marked
from tilescope.webapp.components.controls import text_box
from tilescope.webapp.components.links import Reports, page_link, reports_of, tile_link
from tilescope.webapp.components.panels import guarded, headline, notice_bar, panel
from tilescope.webapp.components.tables import compare_rows, fact_table, plain_table
from tilescope.webapp.library import Library
from tilescope.webapp.pages.operation_rows import LAYERS, operations_of_view
from tilescope.webapp.pages.summary_changes import changes_tables, headlines
from tilescope.webapp.view import Parameter, view_store

__all__ = ["ICON", "PANELS", "PATH", "TITLE", "VIEW", "layout", "register"]

PATH = "/summary"
TITLE = "Summary"
ICON = "summary"
VIEW = (Parameter("options", control="summary-options-filter"),)
PANELS = {"body": (), "options": ("options",)}


def layout() -> html.Div:
    """Return the page without content."""
    changes = guarded("summary-changes-error", html.Div(id="summary-changes"))
    head = html.Div(id="summary-head", className="stack")
    body = html.Div(id="summary-body", className="stack")
    loss = html.Div(
        panel("Loss", html.Div(id="summary-loss", className="loss"), panel_id="panel-loss"),
        id="summary-loss-card",
        style={"display": "none"},
    )
    content = html.Div([head, loss, body], className="stack")
    options = panel(
        "Engine options",
        text_box("summary-options-filter", "Filter", "name, value or origin", is_search=True),
        guarded("summary-options-error", html.Div(id="summary-options")),
        panel_id="panel-options",
    )
    return html.Div([changes, guarded("summary-error", content), options], className="stack")


def register(app: Dash, library: Library) -> None:
    """Connect the page."""
    connect(
        app,
        "loss.show",
        Output("summary-loss-card", "style"),
        Input(view_store("summary", "body"), "data"),
    )

    @answer(
        app,
        "summary-error",
        [Output("summary-head", "children"), Output("summary-body", "children")],
        Input(view_store("summary", "body"), "data"),
    )
    def show(view: dict[str, str]) -> tuple[Any, Any]:
        with library.opened(view["report"]) as report:
            if not view["with"]:
                return _one(report, reports_of(view))
            with library.opened(view["with"]) as candidate:
                return _two(report, candidate)

    @answer(
        app,
        "summary-changes-error",
        [Output("summary-changes", "children")],
        Input(view_store("summary", "body"), "data"),
    )
    def show_changes(view: dict[str, str]) -> tuple[Any]:
        if not view["with"]:
            return ([],)
        with (
            library.opened(view["report"]) as baseline,
            library.opened(view["with"]) as candidate,
        ):
            difference = compare(baseline, candidate)
        sides = operations_of_view(library, view, "library")
        assert sides[1] is not None, "two reports were asked for"
        tables = changes_tables(difference, (sides[0], sides[1]), reports_of(view))
        figures = headlines(difference, reports_of(view))
        return (_explanation(difference, figures, tables),)

    @answer(
        app,
        "summary-options-error",
        [Output("summary-options", "children")],
        Input(view_store("summary", "options"), "data"),
    )
    def show_options(view: dict[str, str]) -> tuple[Any]:
        baseline, candidate = library.ask(view, lambda report: summarise(report).options)
        return (_options(baseline, candidate, view["options"]),)


def _one(report: Report, reports: Reports) -> tuple[list[Any], list[Any]]:
    """Return the blocks of one report: those above its loss, and those below."""
    summary = summarise(report)
    sections = [
        panel(title, fact_table(rows), panel_id=f"panel-{title.lower().replace(' ', '-')}")
        for title in _ORDER
        if (rows := summary.sections.get(title))
    ]
    head = [html.Div(_headlines(report, reports), className="headlines"), *_proportions(report)]
    return [*_notices(summary, ""), html.Div(head, className="card")], [
        html.Div([*_costliest(report, reports), *sections], className="page-columns")
    ]


def _proportions(report: Report) -> list[html.Div]:
    """Return the cycles of the recorded runs by phase as one bar; nothing without a run."""
    ran = execution(report)
    total = sum(ran.phase_cycles.values())
    if not total:
        return []
    shares = [
        (PHASE_LABELS[phase], cycles, 100 * cycles / total, f"phase-{phase}")
        for phase, cycles in ran.phase_cycles.items()
        if cycles
    ]
    texts = [f"{label} {format_percent(share)}" for label, _, share, _ in shares]
    bar = html.Div(
        [
            html.Span(
                style={"width": f"{share:.3f}%"},
                className=phase,
                title=f"{label}: {format_cycles(cycles)}",
            )
            for label, cycles, share, phase in shares
        ],
        className="stacked-bar phase-bar",
        role="img",
    )
    keys = [
        html.Span([html.Span(className=f"swatch {phase}"), text])
        for (_, _, _, phase), text in zip(shares, texts, strict=True)
    ]
    return [marked(bar, aria_label=", ".join(texts)), html.Div(keys, className="legend")]


def _costliest(report: Report, reports: Reports) -> list[html.Section]:
    """Return the operations that take most cycles, each a link to its details."""
    listed = next(
        (
            listed_operations
            for layer in LAYERS
            if (listed_operations := operations(report, layer)).operations
        ),
        None,
    )
    if listed is None or not listed.total_cycles:
        return []
    rows = [
        (
            page_link(
                operation.name or "(no name)", "/operations", reports,
                layer=listed.layer, op=key, select=f"operation:{key}",
            ),
            f"{operation.cycles:,}",
            format_percent(100 * operation.cycles / listed.total_cycles),
        )
        for key, operation in list(listed.by_key.items())[:_MOST_OPERATIONS]
    ]  # fmt: skip
    outside = listed.total_cycles - listed.cycles
    if outside > 0:
        rows.append(
            (
                page_link("In no operation, such as copies of the host", "/trace", reports),
                f"{outside:,}",
                format_percent(100 * outside / listed.total_cycles),
            )
        )
    table = plain_table(("Operation", "Cycles", "% of total"), rows, numbers=(1, 2))
    every = page_link("All operations", "/operations", reports)
    rest = html.P([every, f", {format_runs(listed.n_runs)}"])
    return [panel("Most cycles", table, rest, panel_id="panel-costliest")]


def _two(baseline: Report, candidate: Report) -> tuple[list[Any], list[Any]]:
    """Return the blocks of two reports: those above their loss, and those below."""
    baseline_summary, candidate_summary = summarise(baseline), summarise(candidate)
    baseline_sections, candidate_sections = comparable_sections(baseline_summary, candidate_summary)
    sections = [
        panel(
            title,
            html.Div(
                compare_rows(*rows),
                className="table-wrap",
            ),
            panel_id=f"panel-{title.lower().replace(' ', '-')}",
        )
        for title in _ORDER
        if any(rows := [part.get(title, ()) for part in (baseline_sections, candidate_sections)])
    ]
    notices = [
        *_notices(baseline_summary, "Baseline: "),
        *_notices(candidate_summary, "Candidate: "),
    ]
    return notices, [html.Div(sections, className="page-columns wide-columns")]


def _explanation(
    difference: Difference, figures: Sequence[html.A], tables: Sequence[html.Div]
) -> html.Section:
    """Return the headline figures, the differences as sentences, and what changed most."""
    sentences = [html.Li(sentence) for sentence in explain(difference, has_states=False)]
    return panel(
        "What changed, baseline to candidate",
        html.Div(list(figures), className="headlines"),
        html.Ul(sentences, className="sentences"),
        html.Div(list(tables), className="operation-columns wide-blocks"),
        panel_id="panel-changes",
    )


def _headlines(report: Report, reports: Reports) -> list[Any]:
    """Return the headline figures, each a link to what explains it."""
    values = {name: METRICS[name].compute(report) for name in _HEADLINES}
    parts: list[Any] = []
    over = values["memory.tiles_over_capacity"]
    if isinstance(over, int) and over:
        words = "tiles do not fit" if over > 1 else "tile does not fit"
        figure = headline(f"{over:,} {words}", "see what makes it fit")
        parts.append(page_link(figure, "/insights", reports))
    cycles, efficiency = values["cycles.total"], values["parallel.efficiency"]
    if isinstance(cycles, int):
        figure = headline(format_cycles(cycles), "in all recorded runs")
        parts.append(page_link(figure, "/trace", reports))
    if isinstance(efficiency, int | float):
        figure = headline(format_percent(100 * efficiency), "parallel efficiency")
        parts.append(page_link(figure, "/insights", reports))
    largest = values["memory.max_tile"]
    if isinstance(largest, int):
        capacity = target(report).capacity_bytes
        share = format_percent(100 * largest / capacity)
        fullest = fullest_tile(report)
        caption = f"on the fullest tile ({fullest}), {share} of {format_bytes(capacity)}"
        figure = headline(format_bytes(largest), caption, exact=f"{largest:,} B")
        parts.append(tile_link(figure, reports, fullest.tile_id))
    total = values["memory.total"]
    if isinstance(total, int):
        figure = headline(format_bytes(total), "over all tiles", exact=f"{total:,} B")
        parts.append(page_link(figure, "/memory", reports))
    return parts


#: The most requested first, ordered so that the columns are of similar height.
_ORDER = (
    "Execution",
    "Stages",
    "Replicas",
    "Training",
    "Memory",
    "Memory by purpose",
    "Machine",
    "Graph",
    "Provenance",
)
_MOST_OPERATIONS = 6
_HEADLINES = (
    "memory.tiles_over_capacity",
    "cycles.total",
    "parallel.efficiency",
    "memory.max_tile",
    "memory.total",
)


def _notices(summary: Summary, prefix: str) -> list[html.Div]:
    """Return the engine's notices; the state of the report is a notice of every page."""
    return [notice_bar(notice.severity, prefix + notice.message) for notice in summary.notices]


def _options(
    baseline: Sequence[OptionRow], candidate: Sequence[OptionRow] | None, text: str
) -> html.Div:
    """Return the options in effect whose name, value and origin have all words."""
    if candidate is None:
        rows = [
            (option.name, option.value, option.origin, "" if option.has_effect else "recorded only")
            for option in baseline
        ]
        columns = ["Option", "Value", "Set by", ""]
    else:
        rows = [
            (
                pair.key,
                _text(pair.baseline),
                _text(pair.candidate),
                _same(pair.baseline, pair.candidate),
            )
            for pair in option_pairs(baseline, candidate)
        ]
        columns = ["Option", "Baseline", "Candidate", "Diff"]
    words = search_words(text)
    matches = [row for row in rows if words_fit(words, *row)]
    if not matches:
        return html.Div(
            "No option matches; clear the filter to see all." if rows
            else "This report has no options.",
            className="empty-state",
        )  # fmt: skip
    return plain_table(columns, matches)


def _text(option: OptionRow | None) -> str:
    """Return value and origin of an option, a dash if it is missing."""
    return "–" if option is None else f"{option.value} ({option.origin})"


def _same(baseline: OptionRow | None, candidate: OptionRow | None) -> str:
    """Return whether an option has the same value on both sides."""
    return "same" if baseline and candidate and baseline.value == candidate.value else "differs"
