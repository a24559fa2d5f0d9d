"""``tilescope system``: traces of hosts by file, thread, channel and label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilescope.console import (
    Column,
    print_json,
    print_line,
    print_table,
    reading,
    report_json,
)
from tilescope.parameters import AsJson, TopOption, examples

if TYPE_CHECKING:
    from tilescope.analyser import host
    from tilescope.reports import Report

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command ``system``."""

    @app.command(
        epilog=examples(
            "system traces/Sat_Nov_28_10_00_00_2026_UTC_4532.pvti",
            "system traces/*.pvti --channel Poplar",
            "system traces/*.pvti --search run --json",
        )
    )
    def system(
        files: Annotated[
            list[Path],
            typer.Argument(metavar="FILE...", help="Traces of hosts, *.pvti.", show_default=False),
        ],
        as_json: AsJson = False,
        channel: Annotated[
            str, typer.Option("--channel", help="List labels of this channel only.")
        ] = "",
        search: Annotated[
            str, typer.Option("--search", help="List labels that have these words.")
        ] = "",
        top: TopOption = 20,
    ) -> None:
        """Show what programs did on their host: events by file, thread, channel and label.

        A trace is written by a program that runs with PVTI_OPTIONS in its environment.
        """
        from tilescope.analyser import host

        answers = []
        for number, file in enumerate(files):
            with reading(file, host.open_trace) as report:
                labels = _chosen(report, channel, search)
                if as_json:
                    answers.append(report_json(report) | _answer(report, labels))
                    continue
                if number:
                    print_line()
                _print(report, labels, top)
        if as_json:
            print_json({"traces": answers})


def _chosen(report: Report, channel: str, search: str) -> list[host.LabelFigures]:
    """Return the figures of the labels that are asked for.

    Raises
    ------
    BadParameter
        When the trace has no such channel.
    """
    from tilescope.analyser import host
    from tilescope.analyser.search import search_words, words_fit

    names = host.host_trace(report).channels
    if channel and channel not in names:
        raise typer.BadParameter(
            f"{report.name} has no channel {channel!r}; it has {', '.join(names) or 'none'}."
        )
    words = search_words(search)
    return [
        figures
        for figures in host.label_figures(report)
        if channel in ("", figures.channel) and words_fit(words, figures.channel, figures.label)
    ]


def _answer(report: Report, labels: Sequence[host.LabelFigures]) -> dict[str, Any]:
    """Return a trace for JSON: times in nanoseconds."""
    from tilescope.analyser import host

    trace, events = host.host_trace(report), host.events(report)
    threads = [
        {
            "tid": figures.thread.tid,
            "name": figures.thread.name,
            "n_events": figures.n_events,
            "busy_ns": figures.busy_ns,
            "utilisation": figures.utilisation,
        }
        for figures in host.thread_figures(report)
    ]
    return {
        "trace_id": trace.trace_id,
        "pid": trace.pid,
        "program": trace.program,
        "host": trace.host,
        "origin_ns": trace.origin_ns,
        "n_events": len(events),
        "n_open": int(events.is_open.sum()),
        "n_unmatched_ends": events.n_unmatched,
        "duration_ns": _duration_ns(events),
        "threads": threads,
        "channels": [asdict(figures) for figures in host.channel_figures(report)],
        "labels": [asdict(figures) for figures in labels],
        "series": [
            {"graph": one.graph, "name": one.name, "unit": one.unit, **_numbers(one)}
            for one in host.series(report)
        ],
        "heatmaps": [
            {
                "name": one.name,
                "unit": one.unit,
                "n_bins": len(one.edges) - 1,
                "n_columns": len(one.wall_ns),
                "n_values": int(one.counts.sum()),
            }
            for one in host.heatmaps(report)
        ],
    }


def _duration_ns(events: host.Events) -> int:
    """Return the time from the first record of a trace to its last."""
    return events.end_of_trace_ns - int(events.start_ns.min()) if len(events) else 0


def _numbers(one: host.SeriesValues) -> dict[str, float | int | None]:
    """Return the figures of a series; numbers that are not finite are none."""
    import numpy as np

    finite = one.values[np.isfinite(one.values)]
    last = float(one.values[-1]) if len(one.values) else np.nan
    return {
        "n_values": len(one.values),
        "least": float(finite.min()) if len(finite) else None,
        "most": float(finite.max()) if len(finite) else None,
        "last": last if np.isfinite(last) else None,
    }


def _print(report: Report, labels: Sequence[host.LabelFigures], top: int) -> None:
    from tilescope.analyser import host
    from tilescope.analyser.quantities import format_count, format_moment, format_percent

    trace, events = host.host_trace(report), host.events(report)
    print_line(report.name, is_whole=True)
    began = f", began at {format_moment(trace.origin_ns / 1e9)} UTC" if trace.origin_ns else ""
    print_line(
        f"{trace.program or 'A program'}, process {trace.pid} on {trace.host or 'unknown'}{began}"
    )
    n_open, n_marks = int(events.is_open.sum()), int(events.is_mark.sum())
    threads = host.thread_figures(report)
    facts = [
        f"{len(events):,} events, {n_marks:,} of them moments",
        f"{_time(_duration_ns(events))} from first to last",
        f"{len(threads):,} thread{'' if len(threads) == 1 else 's'}",
    ]
    facts += [f"{n_open:,} not ended"] if n_open else []
    facts += [f"{events.n_unmatched:,} ends without a begin"] if events.n_unmatched else []
    print_line("; ".join(facts) + ".")
    numbers = [Column(name, is_number=True) for name in ("Events", "Busy", "% of time")]
    print_line()
    print_table(
        [Column("Thread"), Column("Name"), *numbers],
        [
            [
                str(one.thread.tid),
                one.thread.name,
                format_count(one.n_events),
                _time(one.busy_ns),
                format_percent(100 * one.utilisation),
            ]
            for one in sorted(threads, key=lambda one: -one.busy_ns)[:top]
        ],
        f"Threads, busiest first{_rest(len(threads), top)}",
    )
    channels = host.channel_figures(report)
    names = ("Labels", "Events", "Moments", "Self")
    print_line()
    print_table(
        [Column("Channel"), *(Column(name, is_number=True) for name in names)],
        [
            [
                one.channel,
                format_count(one.n_labels),
                format_count(one.n_events),
                format_count(one.n_marks),
                _time(one.self_ns),
            ]
            for one in channels[:top]
        ],
        f"Channels{_rest(len(channels), top)}",
    )
    _print_labels(labels, top)
    _print_series(report, top)


def _print_labels(labels: Sequence[host.LabelFigures], top: int) -> None:
    from tilescope.analyser.quantities import format_count

    names = ("Events", "Total", "Self", "Mean", "Least", "p50", "p99", "Most")
    print_line()
    print_table(
        [Column("Label"), Column("Channel"), *(Column(name, is_number=True) for name in names)],
        [
            [
                one.label,
                one.channel,
                format_count(one.n_events + one.n_marks),
                *(
                    _time(value) if one.n_events else "–"
                    for value in (
                        one.total_ns,
                        one.self_ns,
                        one.mean_ns,
                        one.least_ns,
                        one.p50_ns,
                        one.p99_ns,
                        one.most_ns,
                    )
                ),
            ]
            for one in labels[:top]
        ],
        f"Labels, most time of their own first{_rest(len(labels), top)}",
    )


def _print_series(report: Report, top: int) -> None:
    from tilescope.analyser import host
    from tilescope.analyser.quantities import format_count

    series = host.series(report)
    if not series:
        return
    rows = []
    for one in series[:top]:
        figures = _numbers(one)
        values = [figures[key] for key in ("n_values", "least", "most", "last")]
        rows.append([one.graph, one.name, one.unit, *map(format_count, values)])
    names = ("Values", "Least", "Most", "Last")
    print_line()
    print_table(
        [
            Column("Graph"),
            Column("Series"),
            Column("Unit"),
            *(Column(name, is_number=True) for name in names),
        ],
        rows,
        f"Series{_rest(len(series), top)}",
    )


def _rest(n_rows: int, top: int) -> str:
    """Return how many rows are shown of how many, unless all are."""
    return f" ({top:,} of {n_rows:,})" if n_rows > top else ""


def _time(nanoseconds: float) -> str:
    from tilescope.analyser.quantities import format_seconds

    return format_seconds(nanoseconds / 1e9) if nanoseconds else "0"
