"""Lists of ``tilescope trace``: stretches, regions, statistics, waits, critical path, idle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from tilescope.console import Column, print_json, print_line, print_table, report_json

if TYPE_CHECKING:
    from tilescope.analyser.trace import CriticalSpan
    from tilescope.reports import Report

__all__ = [
    "Cause",
    "RegionKind",
    "StretchList",
    "show_critical_path",
    "show_idle",
    "show_regions",
    "show_statistics",
    "show_stretches",
    "show_waits",
]


class Cause(StrEnum):
    """What binds a stretch; the analyser's names."""

    EXCHANGE = "exchange"
    SYNC = "sync"
    WAITING = "waiting"
    IMBALANCE = "imbalance"
    HOST = "host"


class RegionKind(StrEnum):
    """What regions are of; the analyser's names."""

    LAYER = "layer"
    PHASE = "phase"
    MICRO_BATCH = "micro-batch"
    BATCH = "batch"
    RUN = "run"


class StretchList(NamedTuple):
    """Which stretches are printed and how: of one cause or all, as JSON, the number of rows."""

    cause: Cause | None
    as_json: bool
    top: int


def show_stretches(
    report: Report,
    cycles: tuple[int | None, int | None],
    ipus: Sequence[int] | None,
    shown: StretchList,
) -> None:
    """Print what the cycles of a range go to, and the stretches that one cause takes most of.

    Raises
    ------
    BadQuestion
        For an empty range, an unknown IPU, or a range with too many executions.
    """
    from tilescope.analyser.quantities import format_percent
    from tilescope.analyser.summary.overview import why_no_run
    from tilescope.analyser.trace import extent, format_ranges, number_ranges, stretches

    if not extent(report).runs and not shown.as_json:
        print_line(why_no_run(report))
        return
    found = stretches(report, *cycles, ipus)
    rows = found.rows if shown.cause is None else found.of(shown.cause)
    if shown.as_json:
        facts = asdict(found) | {"rows": [asdict(row) for row in rows]}
        print_json(report_json(report) | facts)
        return
    print_line(f"Stretches of {report.path}, cycles {found.start_cycle:,} to {found.end_cycle:,}")
    print_line()
    print_table(
        [Column("Cycles go to"), *_numbers("Cycles", "% of range", "Stretches")],
        [
            (
                share.cause,
                f"{share.cycles:,}",
                format_percent(100 * share.share),
                "" if share.cause == "work" else f"{sum(r.count for r in found.of(share.cause)):,}",
            )
            for share in found.shares
        ],
    )
    if not rows:
        return
    print_line()
    print_table(
        [
            Column("Stretch"),
            Column("Bound by"),
            *_numbers("% of range", "Count", "From", "Cycles", "Of the cause", "Steps"),
            Column("IPUs"),
        ],
        [
            (
                row.name,
                row.cause,
                format_percent(100 * row.share),
                f"{row.count:,}",
                f"{row.start_cycle:,}",
                f"{row.cycles:,}",
                f"{row.cause_cycles:,}",
                f"{row.n_executions:,}",
                format_ranges(number_ranges(row.ipus)),
            )
            for row in rows[: shown.top]
        ],
    )
    if len(rows) > shown.top:
        print_line(f"… {len(rows) - shown.top:,} more; --top N shows more, --json all")
    place = f"{rows[0].start_cycle}:{rows[0].end_cycle}"
    print_line(f"Next: tilescope trace {report.path.parent} --range {place}")


def show_regions(
    report: Report,
    by: RegionKind,
    cycles: tuple[int | None, int | None],
    ipus: Sequence[int] | None,
    *,
    as_json: bool,
    top: int,
) -> None:
    """Print the regions of a range by name, those with most cycles first.

    Raises
    ------
    BadQuestion
        For an empty range, an unknown IPU, a range with too many executions, or a program that has
        none of these regions.
    """
    from tilescope.analyser.quantities import format_percent
    from tilescope.analyser.summary.overview import why_no_run
    from tilescope.analyser.trace import KINDS, extent, format_ranges, number_ranges, regions

    if not extent(report).runs and not as_json:
        print_line(why_no_run(report))
        return
    found = regions(report, by.value, *cycles, ipus)
    if as_json:
        print_json(report_json(report) | asdict(found))
        return
    print_line(
        f"Regions of {report.path} by {by.value}, cycles {found.start_cycle:,} to"
        f" {found.end_cycle:,}"
    )
    print_line(f"{found.cycles:,} cycles over IPUs, {found.between_cycles:,} between regions")
    if not found.rows:
        return
    labels = {kind.name: kind.label for kind in KINDS} | {"idle": "Idle"}
    rows = found.rows[:top]
    print_line()
    print_table(
        [
            Column(by.value.capitalize()),
            *_numbers("Count", "Cycles", "% of range", "Mean", "Least", "Most", "First at"),
            *_numbers("Longest at"),
            Column("Most cycles in"),
            Column("IPUs"),
        ],
        [
            (
                row.name,
                f"{row.count:,}",
                f"{row.cycles:,}",
                format_percent(100 * row.share),
                f"{round(row.mean_cycles):,}",
                f"{row.min_cycles:,}",
                f"{row.max_cycles:,}",
                f"{row.first.start_cycle:,}",
                f"{row.longest.start_cycle:,}",
                labels[max(row.cycles_by_kind, key=row.cycles_by_kind.__getitem__)],
                format_ranges(number_ranges(row.ipus)),
            )
            for row in rows
        ],
    )
    if len(found.rows) > len(rows):
        print_line(f"… {len(found.rows) - len(rows):,} more; --top N shows more, --json all")
    place = f"{rows[0].longest.start_cycle}:{rows[0].longest.end_cycle}"
    print_line(f"Next: tilescope trace {report.path.parent} --range {place}")


def show_waits(
    report: Report,
    cycles: tuple[int | None, int | None],
    ipus: Sequence[int] | None,
    *,
    as_json: bool,
    top: int,
) -> None:
    """Print who waits for whom in a range, the longest waits first.

    Raises
    ------
    BadQuestion
        For an empty range, an unknown IPU, or a range with too many syncs.
    """
    from tilescope.analyser.trace import waits

    waited = waits(report, *cycles, ipus)
    if as_json:
        print_json(report_json(report) | asdict(waited))
        return
    print_line(f"Waits in {report.path}, cycles {waited.start_cycle:,} to {waited.end_cycle:,}")
    print_line(f"{waited.n_waits:,} waits for other IPUs, {waited.cycles:,} cycles")
    if not waited.rows:
        return
    print_line()
    rows = sorted(waited.rows, key=lambda row: -row.cycles)[:top]
    print_table(
        [
            *_numbers("IPU", "From", "Cycles", "Waits for IPU"),
            Column("Step of that IPU before the sync"),
        ],
        [
            (
                str(row.ipu_id),
                f"{row.start_cycle:,}",
                f"{row.cycles:,}",
                str(row.late_ipu_id),
                row.late_step,
            )
            for row in rows
        ],
    )
    if waited.n_waits > len(rows):
        print_line(f"… {waited.n_waits - len(rows):,} more; --top N shows more, up to 200")


def show_statistics(
    report: Report,
    cycles: tuple[int | None, int | None],
    ipus: Sequence[int] | None,
    *,
    as_json: bool,
    top: int,
) -> None:
    """Print the statistics of a range by name of step, those with most cycles first.

    Raises
    ------
    BadQuestion
        For an empty range, an unknown IPU, or a range with too many executions.
    """
    from tilescope.analyser.quantities import format_percent
    from tilescope.analyser.trace import KINDS, name_statistics

    found = name_statistics(report, *cycles, ipus)
    if as_json:
        print_json(report_json(report) | asdict(found))
        return
    labels = {kind.name: kind.label for kind in KINDS}
    place = f"cycles {found.start_cycle:,} to {found.end_cycle:,}"
    print_line(f"Statistics of {report.path}, {place}, in cycles")
    print_line()
    print_table(
        [
            Column("Name"),
            Column("Kind"),
            *_numbers("Count", "Total", "Share", "Mean", "Least", "p50", "p99", "Most"),
        ],
        [
            (
                row.name,
                labels[row.kind],
                f"{row.count:,}",
                f"{row.cycles:,}",
                format_percent(100 * row.share),
                f"{row.mean_cycles:,.0f}",
                f"{row.min_cycles:,}",
                f"{row.median_cycles:,}",
                f"{row.p99_cycles:,}",
                f"{row.max_cycles:,}",
            )
            for row in found.rows[:top]
        ],
    )
    if len(found.rows) > top:
        print_line(f"… {len(found.rows) - top:,} more; --top N shows more, --json all")


def show_critical_path(report: Report, run_id: int | None, *, as_json: bool, top: int) -> None:
    """Print the critical path of a run, of the first one if none is named, in order of time.

    Raises
    ------
    BadQuestion
        For an unknown run, or one with too many syncs.
    """
    from tilescope.analyser.quantities import format_percent
    from tilescope.analyser.summary.overview import why_no_run
    from tilescope.analyser.trace import critical_spans, extent

    runs = extent(report).runs
    if not runs and run_id is None:
        if as_json:
            print_json(report_json(report) | {"run_id": None, "spans": []})
        else:
            print_line(why_no_run(report))
        return
    run_id = runs[0].run_id if run_id is None else run_id
    spans = critical_spans(report, run_id)
    if as_json:
        print_json(
            report_json(report) | {"run_id": run_id, "spans": [asdict(span) for span in spans]}
        )
        return
    whole = sum(span.cycles for span in spans)
    print_line(f"Critical path of run {run_id} of {report.path}: {whole:,} cycles")
    print_line()
    print_table(
        [*_numbers("IPU", "Cycles", "% of path")],
        [
            (str(ipu_id), f"{cycles:,}", format_percent(100 * cycles / whole))
            for ipu_id, cycles in sorted(_by_ipu(spans).items())
        ],
    )
    print_line()
    print_table(
        [*_numbers("IPU", "From", "Cycles"), Column("Last step, which the others wait for")],
        [
            (str(span.ipu_id), f"{span.start_cycle:,}", f"{span.cycles:,}", span.step)
            for span in spans[:top]
        ],
    )
    if len(spans) > top:
        print_line(f"… {len(spans) - top:,} more; --top N shows more, --json all")


def _by_ipu(spans: Sequence[CriticalSpan]) -> dict[int, int]:
    """Return the cycles of the spans on every IPU."""
    sums: dict[int, int] = {}
    for span in spans:
        sums[span.ipu_id] = sums.get(span.ipu_id, 0) + span.cycles
    return sums


def show_idle(
    report: Report, step: str, ipus: Sequence[int] | None, *, as_json: bool, top: int
) -> None:
    """Print the idle tiles of a step, by its number or words of its name.

    Raises
    ------
    BadQuestion
        When no step matches.
    """
    from tilescope.analyser.quantities import format_percent
    from tilescope.analyser.trace import KINDS, format_ranges, idle_tiles_of

    rows = [row for row in idle_tiles_of(report, step) if ipus is None or row.ipu_id in ipus]
    if as_json:
        print_json(report_json(report) | {"steps": [asdict(row) for row in rows]})
        return
    labels = {kind.name: kind.label for kind in KINDS}
    print_line(f"Idle tiles in {report.path}; tiles are numbered over all IPUs")
    print_line()
    print_table(
        [
            Column("Step"),
            Column("Number", is_number=True),
            Column("Kind"),
            *_numbers("IPU", "Cycles", "Idle tiles", "% of tiles"),
            Column("Tiles"),
        ],
        [
            (
                row.name,
                f"{row.step_id:,}",
                labels[row.kind],
                str(row.ipu_id),
                f"{row.cycles:,}",
                f"{row.n_idle:,}",
                format_percent(100 * row.n_idle / row.n_tiles),
                format_ranges(row.ranges),
            )
            for row in rows[:top]
        ],
    )
    if len(rows) > top:
        print_line(f"… {len(rows) - top:,} more; --top N shows more, --json all")


def _numbers(*titles: str) -> list[Column]:
    """Return columns of numbers."""
    return [Column(title, is_number=True) for title in titles]
