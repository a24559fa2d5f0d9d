"""The help behind the question mark: keys, what words mean, how far to trust the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import dash_mantine_components as dmc
from dash import html

from tilescope.analyser.metrics import METRICS
from tilescope.webapp.components.controls import tabs
from tilescope.webapp.components.markup import frozen
from tilescope.webapp.components.tables import plain_table

__all__ = ["Fidelity", "help_panel"]


@dataclass(frozen=True)
class Fidelity:
    """How far to trust the numbers, as texts; pages do not know where it comes from.

    Attributes
    ----------
    columns
        Heads of the table; the first is a row's reference, the last its verdict.
    counted, shown, further
        Its rows: figures that count, others of the same list, and those tried after the laws were
        set.
    further_summary
        How the last did.
    references
        What a reference is, by its id.
    trust
        Kind of number, how far to trust it, why.
    not_modelled
        A sentence each.
    """

    summary: str
    columns: Sequence[str]
    counted: Sequence[Sequence[str]]
    shown: Sequence[Sequence[str]]
    further: Sequence[Sequence[str]]
    further_summary: str
    references: Mapping[str, str]
    trust: Sequence[Sequence[str]]
    not_modelled: Sequence[str]


_KEYS = (
    ("1 … 7", "Show a page"),
    ("/", "Search or filter on this page"),
    ("?", "Show or hide this help"),
    ("Drag in a chart", "Zoom; double-click to see everything"),
    ("Click in a chart", "Select a tile or a step; Shift-click adds tiles"),
    ("Arrow keys", "Move in the program tree; left and right close and open"),
    ("W A S D, arrows", "Zoom and pan the execution trace"),
    ("f", "Fit the selection of the execution trace"),
)

#: Words of the pages that no metric explains.
_WORDS = (
    (
        "Tile",
        "A processor with memory of its own, the only one it can read; an IPU has many of them.",
    ),
    ("Vertex", "A piece of work on one tile: a codelet (a small program) with its data."),
    (
        "Compute set",
        "Vertices that run at the same time; as long as its busiest tile is at work.",
    ),
    (
        "Exchange",
        "Tiles send and receive data. What a tile receives lies in a message buffer of its own.",
    ),
    (
        "Sync",
        "Tiles wait for each other before they exchange; between IPUs an external sync.",
    ),
    ("Stream copy", "Data moves between the host and the tiles."),
    (
        "Step",
        "A compute set, exchange, sync or copy of the compiled program, in the order it runs;"
        " one step may run many times.",
    ),
    ("Run", "One call of the engine. Cycles of several recorded runs are added up."),
    (
        "Always live",
        "In memory from start to end: weights, code, stacks. The rest comes and goes and shares"
        " its place.",
    ),
    (
        "Gaps",
        "Memory below the highest address in use that nothing uses, from alignment, order and the"
        " places that operands ask for.",
    ),
    (
        "Overlapped",
        "Categories whose parts share addresses at different times, so that their sum says more"
        " than the tile holds.",
    ),
    (
        "Plan",
        "How a convolution or product is split over tiles: Operations explains it for the one that"
        " is selected, as does tilescope ops REPORT --plan NAME.",
    ),
    (
        "Baseline, Candidate, Diff",
        "Two reports side by side: Diff is candidate minus baseline, in % of the baseline.",
    ),
    ("–", "Not there: the report does not hold it, or this side has none."),
)

#: Metrics in the words of their one definition, under the names that pages use.
_METRICS = (
    ("Cycles", "cycles.total"),
    ("Parallel efficiency", "parallel.efficiency"),
    ("Tile balance", "tile.balance"),
    ("Fullest tile", "memory.max_tile"),
    ("FLOPs", "flops.total"),
)


def help_panel(fidelity: Fidelity | None) -> dmc.Modal:
    """Return the panel, closed; without a statement it says where there is one."""
    entries = [
        ("keys", "Keys and gestures", frozen(_keys())),
        ("words", "Words", frozen(_words())),
        ("trust", "How far to trust the numbers", frozen(_trust(fidelity))),
    ]
    return dmc.Modal(
        tabs("help-tabs", entries),
        id="help",
        title="Help",
        size="min(900px, 96vw)",
        opened=False,
        closeButtonProps={"aria-label": "Close help"},
    )


def _keys() -> html.Table:
    """Return the list of keys."""
    rows = [html.Tr([html.Td(html.Kbd(key)), html.Td(what)]) for key, what in _KEYS]
    return html.Table(html.Tbody(rows), className="key-table")


def _words() -> html.Table:
    """Return what words mean."""
    words = [*_WORDS, *((label, f"{METRICS[name].definition}.") for label, name in _METRICS)]
    rows = [html.Tr([html.Th(word, scope="row"), html.Td(what)]) for word, what in words]
    return html.Table(html.Tbody(rows), className="key-table words-table")


def _trust(fidelity: Fidelity | None) -> html.Div:
    """Return the statement: by kind of number, what is left out, figure by figure."""
    if fidelity is None:
        return html.Div(
            html.P(["This server was started without the statement; print it with ",
                    html.Code("tilescope doctor --fidelity"), "."])
        )  # fmt: skip
    return html.Div(
        [
            html.P(
                "The machine is simulated. The programs that public sources describe were built"
                " and compiled with it, and what it says stands beside what was published. Cycles"
                " and bytes are the same on every computer; how near they are to the machine"
                " depends on the kind of number:"
            ),
            plain_table(("Figure", "Expected error", "Reason"), fidelity.trust),
            html.H3("Not modelled"),
            html.Ul([html.Li(_marked_up(sentence)) for sentence in fidelity.not_modelled]),
            html.H3("Published figures and the simulator's own"),
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
    """Return a text whose parts between backticks are code."""
    parts = text.split("`")
    return [html.Code(part) if i % 2 else part for i, part in enumerate(parts)]


def _figures(fidelity: Fidelity, rows: Sequence[Sequence[str]]) -> html.Div:
    """Return rows of the table grouped by their reference."""
    heads = fidelity.columns[1:]
    body = []
    for reference, group in groupby(rows, key=lambda row: row[0]):
        what = html.Span(f" {fidelity.references.get(reference, '')}")
        cell = html.Td([html.B(reference), what], colSpan=len(heads))
        body.append(html.Tr(cell, className="figure-target"))
        body += [_figure(row[1:]) for row in group]
    head = html.Thead(html.Tr([html.Th(name, scope="col", className=_side(i, len(heads)))
                               for i, name in enumerate(heads)]))  # fmt: skip
    table = html.Table([head, html.Tbody(body)], className="facts figures")
    return html.Div(table, className="table-wrap")


def _figure(cells: Sequence[str]) -> html.Tr:
    """Return one figure; a miss is marked."""
    return html.Tr(
        [html.Td(cell, className=_side(i, len(cells))) for i, cell in enumerate(cells)],
        className="is-miss" if cells[-1].startswith("miss") else "",
    )


def _side(place: int, n_cells: int) -> str:
    """Return where a cell's text stands: numbers, between name and verdict, at the right."""
    return "number" if 0 < place < n_cells - 1 else ""
