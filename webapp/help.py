"""The help: the current page, keys, glossary, fidelity of the simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from dash import html

from tilescope.analyser.summary.metrics import METRICS
from tilescope.webapp.browser import marked
from tilescope.webapp.components.markup import PAGE_LINK
from tilescope.webapp.components.tables import plain_table

__all__ = ["Fidelity", "help_content"]


@dataclass(frozen=True)
class Fidelity:
    """Fidelity of the simulator as text, passed in by the CLI.

    Attributes
    ----------
    columns
        Column headings: the reference first, the verdict last.
    counted, shown, further
        Rows: counted figures, other figures of the same list, and figures tested after the laws
        were set.
    further_summary
        Score of the further figures.
    references
        Description of a reference, by id.
    corpus_columns, corpus, corpus_summary
        Column headings, rows and size of the table of expected errors by kind of program.
    trust
        Kind of figure, expected error, reason.
    not_modelled
        One sentence per effect.
    """

    summary: str
    columns: Sequence[str]
    counted: Sequence[Sequence[str]]
    shown: Sequence[Sequence[str]]
    further: Sequence[Sequence[str]]
    further_summary: str
    references: Mapping[str, str]
    corpus_columns: Sequence[str]
    corpus: Sequence[Sequence[str]]
    corpus_summary: str
    trust: Sequence[Sequence[str]]
    not_modelled: Sequence[str]


_KEYS = (
    ("Ctrl-K", "Go to a page, report, operation, variable, step or tile"),
    ("1 … 7", "Open a page"),
    ("/", "Search or filter on this page"),
    ("?", "Show or hide this help"),
    ("Wheel in a chart", "Zoom at the pointer; drag to pan, double-click to reset"),
    ("Click in a chart", "Select a tile, step or variable; Shift-click adds tiles"),
    ("Shift-drag in a chart", "Mark a range: f zooms to it, Enter selects its tiles"),
    ("Arrow keys", "Navigate the program tree; left collapses, right expands"),
    ("W A S D, arrows", "Zoom and pan the execution trace and charts"),
    ("Enter, Backspace", "Open and close a group of the graph of operations"),
    ("f", "Fit the selection of the execution trace"),
    ("n, Shift-N", "Next and previous match of the search in the execution trace"),
    ("p", "Pin the row of the selected slice of the execution trace"),
    ("m", "Keep the marked range of the execution trace, to compare it; again lets it go"),
    ("t", "Write a note on the marked range; Alt-click on its flag removes it"),
    ("[ and ]", "Along a wait of the execution trace, to the step it is for and back"),
    (
        "Drag on the ruler",
        "Mark a range of the execution trace; Alt keeps it off the edges of slices",
    ),
)

#: By path: what a page shows, how to read it, how far to trust it, and the page that says more.
_ABOUT = {
    "/": (
        "All reports below the served folders, the newest first.",
        "Click a name to open a report; tick two to compare them, the first as the baseline. A"
        " figure leads to the page that explains it.",
        "Figures are those of `tilescope summary`; a damaged or incomplete file says so.",
        "how-to/serve-reports.md",
    ),
    "/summary": (
        "The machine, the program, its memory and cycles, and every engine option with its origin.",
        "With two reports, the sentences at the top say what changed and why, by impact; rows of"
        " the tables below lead to the change.",
        "Cycles and bytes are exact for the simulated machine; wall-clock times are the host's.",
        "how-to/serve-reports.md#compare-two-reports",
    ),
    "/insights": (
        "Whether the program fits, what fills the fullest tiles, and advice with its effect.",
        "Read from the top: each block leads to the tiles, variables or steps behind it.",
        "An effect is exact where the report decides it; otherwise it is called a bound.",
        "how-to/find-what-costs-time.md",
    ),
    "/memory": (
        "The contents of every tile, by category, region, liveness or variable.",
        "Click a tile, Shift-click for more; the tables below describe the selected tiles. The"
        " line is the capacity of a tile. Of two reports, the tile map shows candidate minus"
        " baseline, and the map over time both of them.",
        "Bytes and addresses are those of the allocator of the simulated machine.",
        "how-to/serve-reports.md#see-whether-the-program-fits",
    ),
    "/liveness": (
        "Memory in use at every step of the program, and the variables that use it.",
        "Click a step to list its variables; what is always live is constant below the curve.",
        "Derived from the compiled program, not from a run: branches that never ran count.",
        "how-to/serve-reports.md#see-whether-the-program-fits",
    ),
    "/programs": (
        "The compiled program: control programs, functions, and their steps.",
        "Open a row with its arrow; select one for cost, vertices and where it comes from.",
        "Cycles of a step are those of one execution; the trace has those of all.",
        "explanation/architecture.md",
    ),
    "/operations": (
        "The cost of every library call, node of the model, or step, as a table or a graph.",
        "Select one to see how it was split over tiles, and predicted beside compiled cycles. The"
        " graph groups operations by their names: double-click or Enter opens a group. A line leads"
        " from the operation that computed a value to one that reads it.",
        "Cycles are those on the critical path of the recorded runs. Lines are those of the"
        " compiled program; what no step computed, such as a constant, has none.",
        "how-to/explain-a-plan.md",
    ),
    "/trace": (
        "What every IPU did in every cycle of the recorded runs.",
        "Zoom with the wheel or W and S, pan with A and D, click a slice; the tables describe the"
        " visible range.",
        "Starts and lengths are exact; where slices are narrower than a pixel, their kinds share"
        " its height.",
        "explanation/trace.md",
    ),
}

#: Glossary terms other than metrics.
_WORDS = (
    (
        "Tile",
        "A processor with its own local memory, the only memory it can access.",
    ),
    ("Vertex", "A unit of work on one tile: a codelet (a small program) and its operands."),
    (
        "Compute set",
        "Vertices that run in parallel; it takes as long as its busiest tile.",
    ),
    (
        "Exchange",
        "Tiles send and receive data. A tile receives data into a message buffer.",
    ),
    (
        "Sync",
        "Tiles wait for each other before an exchange; an external sync is between IPUs.",
    ),
    ("Stream copy", "A copy between the host and the tiles."),
    (
        "Step",
        "A compute set, exchange, sync or copy of the compiled program. A step may run many times.",
    ),
    ("Run", "One call of the engine. Cycles of several recorded runs are summed."),
    (
        "Always live",
        "In memory from start to end: weights, code, stacks. Other variables share memory over"
        " time.",
    ),
    (
        "Gaps",
        "Unused memory below the highest address in use, caused by alignment, allocation order"
        " and placement constraints.",
    ),
    (
        "Overlapped",
        "Categories whose parts share addresses at different times; their sum exceeds the memory"
        " in use.",
    ),
    (
        "Plan",
        "The split of a convolution or product over tiles. The Operations page explains the plan"
        " of the selected operation, as does tilescope ops REPORT --plan NAME.",
    ),
    (
        "Baseline, Candidate, Diff",
        "Two reports compared: Diff is candidate minus baseline, also in % of the baseline.",
    ),
    ("–", "Missing from this report."),
)

#: Metrics with their definition, under the names on the pages.
_METRICS = (
    ("Cycles", "cycles.total"),
    ("Parallel efficiency", "parallel.efficiency"),
    ("Tile balance", "tile.balance"),
    ("Fullest tile", "memory.max_tile"),
    ("FLOPs", "flops.total"),
)


def help_content(fidelity: Fidelity | None) -> html.Div:
    """Return the help; without a statement it names the command that prints it."""
    entries = [
        ("Keys and gestures", _keys()),
        ("Glossary", _words()),
        ("How far to trust the numbers", _trust(fidelity)),
    ]
    sections: list[Any] = [
        html.Details(
            [html.Summary(html.H3(title)), content], open=index == 0, className="help-part"
        )
        for index, (title, content) in enumerate(entries)
    ]
    sections[:0] = [_about(path, *texts) for path, texts in _ABOUT.items()]
    close = html.Button(
        "×", className="icon-button dialog-close", type="button", title="Close help"
    )
    heading = html.Div([html.H2("Help", id="help-title"), close], className="dialog-head")
    return html.Div([heading, *sections])


def _about(path: str, subject: str, how: str, trust: str, page: str) -> html.Section:
    """Return what is said of one page; the frame shows that of the current page."""
    link = html.A("More in the documentation", href=f"/docs/{page}", className=PAGE_LINK)
    texts = [html.P(_marked_up(text)) for text in (subject, how, trust)]
    section = html.Section([html.H3("This page"), *texts, html.P(link)], className="about-page")
    return marked(section, data_path=path)


def _keys() -> html.Table:
    """Return the table of keys."""
    rows = [html.Tr([html.Td(html.Kbd(key)), html.Td(meaning)]) for key, meaning in _KEYS]
    return html.Table(html.Tbody(rows), className="key-table")


def _words() -> html.Table:
    """Return the glossary."""
    words = [*_WORDS, *((label, f"{METRICS[name].definition}.") for label, name in _METRICS)]
    rows = [html.Tr([html.Th(word, scope="row"), html.Td(meaning)]) for word, meaning in words]
    return html.Table(html.Tbody(rows), className="key-table words-table")


def _trust(fidelity: Fidelity | None) -> html.Div:
    """Return the statement: expected errors, effects not modelled, individual figures."""
    if fidelity is None:
        return html.Div(
            html.P(["This server has no fidelity statement; print it with ",
                    html.Code("tilescope doctor --fidelity"), "."])
        )  # fmt: skip
    return html.Div(
        [
            html.P(
                "The machine is simulated. Programs described by public sources were built and"
                " compiled, and the simulated figures are compared with the published ones. Cycles"
                " and bytes are the same on every computer; the expected error depends on the kind"
                " of figure:"
            ),
            plain_table(("Figure", "Expected error", "Reason"), fidelity.trust),
            html.H3("Expected errors by kind of program"),
            html.P(fidelity.corpus_summary),
            plain_table(fidelity.corpus_columns, fidelity.corpus, numbers=range(2, 6)),
            html.H3("Not modelled"),
            html.Ul([html.Li(_marked_up(sentence)) for sentence in fidelity.not_modelled]),
            html.H3("Published and simulated figures"),
            html.P(fidelity.summary),
            _figures(fidelity, fidelity.counted),
            html.Details(
                [
                    html.Summary("Shown, not counted"),
                    html.P(
                        "The codelet or plan is the author's own, a cycle law was derived from the"
                        " figure, or an operator is not supported yet."
                    ),
                    _figures(fidelity, fidelity.shown),
                ]
            ),
            html.Details(
                [
                    html.Summary("Further figures, tested after the laws were set"),
                    html.P(fidelity.further_summary),
                    _figures(fidelity, fidelity.further),
                ]
            ),
        ],
        className="statement",
    )


def _marked_up(text: str) -> list[str | html.Code]:
    """Return a text with the parts between backticks as code."""
    parts = text.split("`")
    return [html.Code(part) if i % 2 else part for i, part in enumerate(parts)]


def _figures(fidelity: Fidelity, rows: Sequence[Sequence[str]]) -> html.Div:
    """Return rows of the table grouped by their reference."""
    heads = fidelity.columns[1:]
    body = []
    for reference, group in groupby(rows, key=lambda row: row[0]):
        source = html.Span(f" {fidelity.references.get(reference, '')}")
        cell = html.Td([html.B(reference), source], colSpan=len(heads))
        body.append(html.Tr(cell, className="figure-target"))
        body += [_figure(row[1:]) for row in group]
    head = html.Thead(html.Tr([html.Th(name, scope="col", className=_side(i, len(heads)))
                               for i, name in enumerate(heads)]))  # fmt: skip
    table = html.Table([head, html.Tbody(body)], className="facts figures")
    return html.Div(table, className="table-wrap")


def _figure(cells: Sequence[str]) -> html.Tr:
    """Return one figure; misses are highlighted."""
    return html.Tr(
        [html.Td(cell, className=_side(i, len(cells))) for i, cell in enumerate(cells)],
        className="is-miss" if cells[-1].startswith("miss") else "",
    )


def _side(index: int, n_cells: int) -> str:
    """Return the alignment of a cell: right for numbers, which lie between name and verdict."""
    return "number" if 0 < index < n_cells - 1 else ""
