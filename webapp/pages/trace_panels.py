"""Panels below the trace: figures of a range, top contributors, details of a slice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlencode

from dash import html

from tilescope.analyser import trace
from tilescope.analyser.diff import ContributorChange
from tilescope.analyser.quantities import format_bytes, format_percent
from tilescope.analyser.summary.places import Place
from tilescope.webapp.browser import marked
from tilescope.webapp.components.histogram import tile_histogram
from tilescope.webapp.components.links import Reports, page_link, tile_link, trace_link
from tilescope.webapp.components.markup import frozen
from tilescope.webapp.components.panels import empty_state, headline
from tilescope.webapp.components.tables import plain_table
from tilescope.webapp.components.training import training_rows

__all__ = [
    "Around",
    "Counterpart",
    "change_table",
    "contributor_table",
    "execution_table",
    "slice_panel",
    "summary_panel",
]

_KINDS = {kind.name: kind for kind in trace.KINDS}
_IDLE = "idle"
_SIDES = ("Baseline", "Candidate")
#: Ranges of idle tiles that are listed.
_IDLE_RANGES = 12
#: Kinds that have a column even without cycles.
_SHOWN = ("compute", "exchange", "sync")


@dataclass(frozen=True)
class Counterpart:
    """Of two reports: the side of the selected slice, and its step on the other, if it has it."""

    side: int
    step: trace.StepDetails | None


def summary_panel(
    sides: Sequence[trace.RangeSummary | None],
    reports: Reports,
    *,
    is_marked: bool,
    critical: Sequence[dict[int, int] | None] = (),
) -> html.Div:
    """Return cycles, efficiency, balance, proportions by kind and bytes per IPU.

    Of two reports, the rows of an IPU stand one below the other.
    """
    range_words = "selected range" if is_marked else "visible range"
    heads = []
    for side, summary in enumerate(sides):
        whose = f"{_SIDES[side]}: " if len(sides) > 1 else ""
        if summary is None:
            heads.append([headline("–", f"{whose}nothing ran in the {range_words}")])
            continue
        heads.append(
            [
                headline(f"{summary.cycles:,}", f"{whose}cycles executed in the {range_words}"),
                headline(
                    _ratio(summary.parallel_efficiency),
                    f"{whose}parallel efficiency" + ("" if whose else ": tiles not waiting"),
                ),
                headline(
                    _ratio(summary.tile_balance),
                    f"{whose}tile balance" + ("" if whose else ": mean over busiest tile"),
                ),
            ]
        )
    for head, cycles in zip(heads, critical, strict=False):
        if cycles and (whole := sum(cycles.values())):
            most = max(cycles, key=lambda ipu_id: cycles[ipu_id])
            words = f"of the critical path, the blue line, is on IPU {most}"
            head.append(headline(_ratio(cycles[most] / whole), words))
    ipus = [
        (f"IPU {ipu.ipu_id}" + (f", {_SIDES[side].lower()}" if len(sides) > 1 else ""), side, ipu)
        for side, summary in enumerate(sides)
        for ipu in (summary.ipus if summary else ())
    ]
    ipus.sort(key=lambda row: (row[2].ipu_id, row[1]))
    rows = [(label, ipu) for label, _, ipu in ipus]
    kinds = [
        name for name in (*_KINDS, _IDLE) if any(ipu.cycles_by_kind.get(name) for _, ipu in rows)
    ]
    return html.Div(
        [
            *(html.Div(head, className="trace-heads") for head in heads),
            _proportions(rows, kinds),
            html.Div(style={"height": "10px"}),
            _traffic(rows, _on_path(ipus, critical)),
            html.Div(
                [
                    "What bounds which stretch: tab Stretches. What another precision or machine"
                    " saves: ",
                    page_link("Insights", "/insights", reports),
                    ".",
                ],
                className="grid-note",
            ),
        ]
    )


def change_table(rows: Sequence[ContributorChange], n_rows: int, reports: Reports) -> html.Div:
    """Return what names cost in both reports, the largest change first."""
    if not rows:
        return empty_state("Nothing ran in this range; zoom out or press 0.")
    note = f"{n_rows:,} names by change of cycles in the range; steps are matched by identity"
    if n_rows > len(rows):
        note += f"; the first {len(rows):,} are listed"
    body = [
        [
            html.Span([_swatch(row.kind), _found_name(row.name, reports)]),
            _KINDS[row.kind].label,
            _count_pair(row),
            f"{row.baseline_cycles:,}",
            f"{row.candidate_cycles:,}",
            html.Span(f"{row.delta_cycles:+,}" if row.delta_cycles else "0", className=_sign(row)),
            _verdict(row),
        ]
        for row in rows
    ]
    heads = ("Name", "Kind", "Count", "Baseline", "Candidate", "Change", "")
    table = _table(heads, body, (2, 3, 4, 5))
    return html.Div([html.Div(note, className="grid-note"), table])


def execution_table(
    lists: Sequence[trace.ExecutionList],
    report_ids: Sequence[str],
    reports: Reports,
    *,
    ipus: Sequence[Sequence[int] | None],
    hidden: Sequence[str],
) -> html.Div:
    """Return the first executions of a range, with a link to all of them as CSV.

    Parameters
    ----------
    lists
        Of one report or of two.
    report_ids
        Their ids.
    reports
        The reports of the page, for links.
    ipus
        For every report, the IPUs that are listed; None for all.
    hidden
        Names of the kinds that are left out.
    """
    parts: list[Any] = []
    for side, (executions, report_id) in enumerate(zip(lists, report_ids, strict=True)):
        note = f"{executions.n_executions:,} executions of steps in"
        note += f" {executions.start_cycle:,} to {executions.end_cycle:,}"
        if executions.n_executions > len(executions.rows):
            note += f"; the first {len(executions.rows):,} are listed"
        if len(lists) > 1:
            note = f"{_SIDES[side]}: {note}, in its own cycles"
        address = f"/api/trace/{report_id}/executions.csv"
        shown_only: dict[str, str] = {}
        if (mine := ipus[side]) is not None:
            shown_only["ipus"] = ",".join(map(str, mine))
            note += f", of {'IPU' if len(mine) == 1 else 'IPUs'} {shown_only['ipus'] or 'none'}"
        if hidden:
            shown_only["hide"] = ",".join(hidden)
            note += f", without {', '.join(_KINDS[name].label for name in hidden)}"
        query = urlencode(
            {"start": executions.start_cycle, "end": executions.end_cycle, **shown_only}
        )
        save = html.A(
            "Save as CSV",
            href=f"{address}?{query}",
            download="executions.csv",
            className="trace-save",
        )
        table = html.Div([note, ". ", save] if executions.rows else note, className="grid-note")
        side_reports = {"report": report_id} if side else reports
        body = [
            [
                f"{row.start_cycle:,}",
                f"{row.end_cycle - row.start_cycle:,}",
                html.Span([_swatch(row.kind), _KINDS[row.kind].label]),
                f"IPU {row.ipu_id}" + (" I/O" if row.track else ""),
                trace_link(f"{row.step_id:,}", side_reports, row.step_id),
                row.name or "(no name)",
            ]
            for row in executions.rows
        ]
        heads = ("Start", "Cycles", "Kind", "IPU", "Step", "Name")
        # The link for saving is no page's: without it, the rows are static.
        parts += [table, frozen(_table(heads, body, (0, 1, 4)))]
    return html.Div(parts)


def _count_pair(row: ContributorChange) -> str:
    """Return how often a name ran, on both sides if that differs."""
    first, second = row.baseline_count, row.candidate_count
    return f"{first:,}" if first == second else f"{first:,} → {second:,}"


def _sign(row: ContributorChange) -> str:
    """Return the class of a change."""
    return "trace-more" if row.delta_cycles > 0 else "trace-less" if row.delta_cycles else "soft"


def _verdict(row: ContributorChange) -> str:
    """Return whether only one side has a name."""
    if row.baseline_step_id is None:
        return "added"
    return "removed" if row.candidate_step_id is None else ""


def contributor_table(summary: trace.RangeSummary, reports: Reports) -> html.Div:
    """Return the names with the most cycles in the range as a table; a name is found in it."""
    if not summary.contributors:
        return empty_state("Nothing ran in this range; zoom out or press 0.")
    left_out = summary.n_contributors - len(summary.contributors)
    note = (
        f"{summary.n_contributors:,} names by cycles in {summary.start_cycle:,} to"
        f" {summary.end_cycle:,}, over the IPUs shown"
    )
    if left_out > 0:
        note += f"; the first {len(summary.contributors):,} are listed"
    rows = _contributors(summary.contributors, reports)
    return html.Div([html.Div(note, className="grid-note"), rows])


class Around(NamedTuple):
    """Where a step stands on other pages, its busiest tile, its idle ones and its wait for an IPU.

    None stands for what is unknown or does not exist.
    """

    position: Place | None = None
    busiest: int | None = None
    idle: tuple[trace.IdleTiles, ...] = ()
    wait: trace.Wait | None = None


def slice_panel(
    slice_: trace.Slice,
    inside: trace.RangeSummary,
    step: trace.StepDetails | None,
    reports: Reports,
    around: Around,
    counterpart: Counterpart | None = None,
) -> html.Div:
    """Return the details of a slice: location, contents, and the cost of its step."""
    position, busiest, idle, wait = around
    kind = _KINDS[slice_.kind]
    parts: list[Any]
    below: list[Any]
    facts: list[tuple[str, Any]] = [
        ("Kind", f"{kind.label} [{kind.letter}]"),
        ("Cycles", f"{slice_.end_cycle - slice_.start_cycle:,}"),
        ("From", f"{slice_.start_cycle:,}"),
        ("To", f"{slice_.end_cycle:,}"),
        ("IPU", f"{slice_.ipu_id}" + (", input and output" if slice_.track else "")),
        ("Run", slice_.run_name),
    ]
    if counterpart is not None:
        facts.insert(0, ("Report", _SIDES[counterpart.side]))
    if slice_.n_iterations > 1:
        facts.append(("Iteration", f"{slice_.iteration + 1:,} of {slice_.n_iterations:,}"))
    if step is None:
        facts.append(("Nested steps", f"{slice_.n_steps:,}"))
        rows = _contributors(inside.contributors, reports)
        parts, below = [], [html.H3("Top contributors"), rows]
    else:
        facts += [
            ("Step", f"{step.step_id:,}"),
            ("Program", _program(step, reports)),
        ]
        if wait is not None:
            facts.append(("Waits", _wait(wait, reports)))
        if position is not None:
            facts.append(("Also in", _elsewhere(step, position, busiest, reports)))
        if step.compute_set:
            facts.append(("Compute set", step.compute_set))
        if counterpart is not None:
            facts.append(
                (f"In the {_SIDES[1 - counterpart.side].lower()}", _other(step, counterpart))
            )
        facts += training_rows(step.training, reports)
        facts += [
            (f"Idle tiles of IPU {row.ipu_id}", _idle(row, reports))
            for row in idle
            if row.ipu_id == slice_.ipu_id and 0 < row.n_idle < row.n_tiles
        ]
        if step.is_data_dependent:
            facts.append(("Note", "Data-dependent cycles"))
        parts, below = _step(step)
    return html.Div(
        [
            html.H2(slice_.name or kind.label),
            html.Div([_facts(facts), *parts], className="trace-columns"),
            *below,
        ],
        className="details",
    )


def _wait(wait: trace.Wait, reports: Reports) -> html.Span:
    """Return how long an IPU waits in a sync, and for what."""
    parts: list[Any] = [f"{wait.cycles:,} cycles for IPU {wait.late_ipu_id}"]
    if wait.late_step_id is not None:
        step = trace_link(wait.late_step or "a step", reports, wait.late_step_id)
        parts += [", which was in ", step]
    return html.Span(parts)


def _table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], numbers: Sequence[int]
) -> html.Div:
    """Return a table in the style of the trace's panels."""
    return plain_table(columns, rows, numbers=numbers, class_name="trace-table")


def _ratio(value: float | None) -> str:
    """Return a ratio as a percentage, or a dash."""
    return "–" if value is None else format_percent(100 * value)


def _proportions(ipus: Sequence[tuple[str, trace.IpuSummary]], kinds: Sequence[str]) -> html.Div:
    """Return a bar and a row of percentages per IPU."""
    rows = []
    for label, ipu in ipus:
        shares = {
            name: ipu.cycles_by_kind.get(name, 0) / ipu.cycles if ipu.cycles else 0.0
            for name in kinds
        }
        bar = marked(
            html.Div(
                [_segment(name, share) for name, share in shares.items()],
                className="trace-bar",
                role="img",
            ),
            aria_label="Proportions, as in the other columns",
        )
        rows.append(
            [
                label,
                bar,
                *(
                    html.Span(
                        format_percent(100 * share),
                        title=f"{ipu.cycles_by_kind.get(name, 0):,} cycles",
                    )
                    for name, share in shares.items()
                ),
            ]
        )
    heads = ["", "Cycle proportions", *(_kind_label(name) for name in kinds)]
    return _table(heads, rows, range(2, len(heads)))


def _segment(name: str, share: float) -> html.Span:
    """Return one segment of a proportions bar, with its letter if it fits."""
    style: dict[str, Any] = {"width": f"{100 * share:.3f}%"}
    letter = ""
    if name != _IDLE:
        variable = name.replace("_", "-")
        style["background"] = f"var(--trace-{variable})"
        style["color"] = f"var(--trace-on-{variable})"
        letter = _KINDS[name].letter
    return html.Span(
        letter if share > 0.04 else "",
        style=style,
        title=f"{_kind_label(name)}: {format_percent(100 * share)}",
    )


def _kind_label(name: str) -> str:
    """Return the label of a kind."""
    return "Idle" if name == _IDLE else _KINDS[name].label


def _on_path(
    ipus: Sequence[tuple[str, int, trace.IpuSummary]], critical: Sequence[dict[int, int] | None]
) -> list[str]:
    """Return the share of the critical path that every row's IPU has; nothing where unknown."""
    if not any(critical):
        return []
    texts = []
    for _, side, ipu in ipus:
        cycles = critical[side]
        whole = sum(cycles.values()) if cycles else 0
        texts.append(_ratio(cycles[ipu.ipu_id] / whole if cycles and whole else None))
    return texts


def _traffic(ipus: Sequence[tuple[str, trace.IpuSummary]], on_path: Sequence[str] = ()) -> html.Div:
    """Return cycles, balance and bytes per IPU; what no IPU has is left out."""
    traffic = [
        (head, sizes)
        for head, size_of in _TRAFFIC
        if any(sizes := [size_of(ipu) for _, ipu in ipus]) or head == "Exchanged"
    ]
    figures = "", "Cycles", "Executions", "Parallel efficiency", "Tile balance"
    path = ("Of the critical path",) if on_path else ()
    heads = (*figures, *path, *(head for head, _ in traffic))
    rows = [
        [
            label,
            f"{ipu.cycles:,}",
            f"{ipu.n_executions:,}",
            _ratio(ipu.parallel_efficiency),
            _ratio(ipu.tile_balance),
            *on_path[row : row + 1],
            *(
                html.Span(format_bytes(sizes[row]), title=f"{sizes[row]:,} B")
                for _, sizes in traffic
            ),
        ]
        for row, (label, ipu) in enumerate(ipus)
    ]
    return _table(heads, rows, range(1, len(heads)))


_TRAFFIC: tuple[tuple[str, Callable[[trace.IpuSummary], int]], ...] = (
    ("Exchanged", lambda ipu: ipu.exchange_bytes),
    ("Host in", lambda ipu: ipu.host_in_bytes),
    ("Host out", lambda ipu: ipu.host_out_bytes),
    ("Remote in", lambda ipu: ipu.remote_in_bytes),
    ("Remote out", lambda ipu: ipu.remote_out_bytes),
    ("Global in", lambda ipu: ipu.global_in_bytes),
    ("Global out", lambda ipu: ipu.global_out_bytes),
)


def _other(step: trace.StepDetails, counterpart: Counterpart) -> str:
    """Return what one execution of a step costs on the other side, beside this one."""
    if counterpart.step is None:
        return "no such step"
    this_cycles, other_cycles = (
        max((c.cycles for c in details.costs), default=0) for details in (step, counterpart.step)
    )
    renamed = "" if counterpart.step.name == step.name else f", named {counterpart.step.name}"
    change = f"{other_cycles - this_cycles:+,}" if other_cycles != this_cycles else "the same"
    step_id = counterpart.step.step_id
    return f"step {step_id:,}{renamed}: {other_cycles:,} cycles an execution ({change})"


def _idle(row: trace.IdleTiles, reports: Reports) -> html.Span:
    """Return how many tiles idle, and which ones, with links to their memory."""
    parts: list[Any] = [f"{row.n_idle:,} of {row.n_tiles:,}: "]
    for position, (low, high) in enumerate(row.ranges[:_IDLE_RANGES]):
        text = str(low) if high - low == 1 else f"{low}-{high - 1}"
        first = page_link(text, "/memory", reports, tiles=text)
        parts += [", ", first] if position else [first]
    rest = len(row.ranges) - _IDLE_RANGES
    if rest > 0:
        return html.Span([*parts, f" and {rest:,} more ranges"])
    every = ",".join(
        str(low) if high - low == 1 else f"{low}-{high - 1}" for low, high in row.ranges
    )
    return html.Span(
        [*parts, "; ", page_link("on the tile map", "/memory", reports, tiles=every, graph="map")]
    )


def _elsewhere(
    step: trace.StepDetails, position: Place, busiest: int | None, reports: Reports
) -> html.Span:
    """Return links to what other pages show of a step."""
    links = [page_link("Program tree", "/programs", reports, node=str(step.program_id))]
    if position.moment is not None:
        links.append(page_link("Liveness", "/liveness", reports, step=str(position.moment)))
    if position.operation is not None:
        layer = {} if position.layer == "library" else {"layer": position.layer}
        links.append(page_link("Operation", "/operations", reports, **layer, op=position.operation))
    if busiest is not None:
        links.append(tile_link(f"Memory of its busiest tile, {busiest:,}", reports, busiest))
    return html.Span([part for link in links for part in (", ", link)][1:])


def _program(step: trace.StepDetails, reports: Reports) -> Any:
    """Return a link to a step's place in the program tree."""
    text = f"{step.program_kind}, number {step.program_id:,} of the tree"
    return page_link(text, "/programs", reports, node=str(step.program_id))


def _contributors(rows: Sequence[trace.Contributor], reports: Reports) -> html.Div:
    """Return a table of names, counts, cycles and shares."""
    largest = max((row.share for row in rows), default=1.0) or 1.0
    body = [
        [
            html.Span([_swatch(row.kind), _name(row, reports)]),
            _KINDS[row.kind].label,
            f"{row.count:,}",
            f"{row.cycles:,}",
            html.Div(
                [
                    html.Span(style={"width": f"{90 * row.share / largest:.1f}px"}),
                    format_percent(100 * row.share),
                ],
                className="trace-share",
            ),
        ]
        for row in rows
    ]
    heads = ("Name", "Kind", "Count", "Cycles", "Share")
    return _table(heads, body, (2, 3, 4))


def _name(row: trace.Contributor, reports: Reports) -> Any:
    """Return a link that finds a name in the trace."""
    return _found_name(row.name, reports)


def _found_name(name: str, reports: Reports) -> Any:
    """Return a link that finds a name in the trace."""
    if not name:
        return "(no name)"
    return page_link(name, "/trace", reports, find=name, tab="top")


def _swatch(kind: str) -> html.Span:
    """Return the colour and letter of a kind."""
    variable = kind.replace("_", "-")
    style = {
        "background": f"var(--trace-{variable})",
        "color": f"var(--trace-on-{variable})",
    }
    return html.Span(_KINDS[kind].letter, className="trace-swatch trace-swatch-letter", style=style)


def _facts(rows: Sequence[tuple[str, Any]]) -> html.Table:
    """Return a table of labels and values."""
    cells = [html.Tr([html.Th(label, scope="row"), html.Td(text)]) for label, text in rows]
    return html.Table(html.Tbody(cells), className="facts")


def _step(step: trace.StepDetails) -> tuple[list[Any], list[Any]]:
    """Return the cost of a step by cause and by tile, and a table of its vertices."""
    rows = [
        ("Cycles", [f"{cost.cycles:,}" for cost in step.costs]),
        ("Active tiles", [f"{cost.n_active_tiles:,}" for cost in step.costs]),
        ("Busiest tile, cycles", [f"{cost.max_tile_cycles:,}" for cost in step.costs]),
        ("Mean over all tiles, cycles", [f"{cost.mean_tile_cycles:,.1f}" for cost in step.costs]),
        ("Tile balance", [_ratio(cost.tile_balance) for cost in step.costs]),
        ("Most sent by a tile", [format_bytes(cost.max_sent_bytes) for cost in step.costs]),
        ("Most received by a tile", [format_bytes(cost.max_received_bytes) for cost in step.costs]),
        ("Sent by all tiles", [format_bytes(cost.total_sent_bytes) for cost in step.costs]),
        (
            "Received by tile pairs at double rate",
            [format_bytes(cost.total_paired_bytes) for cost in step.costs],
        ),
        ("Fragments on the busiest tile", [f"{cost.n_fragments:,}" for cost in step.costs]),
        (
            "From/to host",
            [
                f"{format_bytes(cost.host_in_bytes)}, {format_bytes(cost.host_out_bytes)}"
                for cost in step.costs
            ],
        ),
        (
            "From/to remote buffers",
            [
                f"{format_bytes(cost.remote_in_bytes)}, {format_bytes(cost.remote_out_bytes)}"
                for cost in step.costs
            ],
        ),
        (
            "From/to other IPUs",
            [
                f"{format_bytes(cost.link_in_bytes)}, {format_bytes(cost.link_out_bytes)}"
                for cost in step.costs
            ],
        ),
        ("Sync", [cost.sync_zone for cost in step.costs]),
    ]
    heads = ["One execution", *(f"IPU {cost.ipu_id}" for cost in step.costs)]
    table = _table(heads, [[label, *cells] for label, cells in rows], range(1, len(heads)))
    parts: list[Any] = [html.Div([html.H3("Cost"), table])]
    busy = [cost for cost in step.costs if cost.histogram.n_tiles.size]
    parts += [_histogram(cost) for cost in busy[:4]]
    if not step.vertices:
        return parts, []
    vertices = [
        [
            row.name,
            f"{row.n_vertices:,}",
            f"{row.n_tiles:,}",
            f"{row.max_cycles:,}",
            f"{row.total_cycles:,}",
            format_bytes(row.state_bytes),
        ]
        for row in step.vertices
    ]
    heads = ["Codelet", "Vertices", "Tiles", "Slowest, cycles", "Sum, cycles", "State"]
    return parts, [html.H3("Vertices"), _table(heads, vertices, range(1, len(heads)))]


def _histogram(cost: trace.StepCost) -> html.Div:
    """Return a histogram of cycles per tile, with the figures as tooltips."""
    edges, counts = cost.histogram.edges_cycles.tolist(), cost.histogram.n_tiles.tolist()
    takes = "tile takes", "tiles take"
    bars = tile_histogram(edges, counts, lambda cycles: f"{cycles:,} cycles", holds=takes)
    idle = cost.histogram.n_idle_tiles
    words = f"{idle:,} {'tile is' if idle == 1 else 'tiles are'} idle"
    note = html.Div(words, className="grid-note")
    return html.Div([html.H3(f"Cycles of the tiles of IPU {cost.ipu_id}"), bars, note])
