"""``tilescope trace``: runs, cycle proportions and top contributors of a range."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tilescope.console import Column, print_json, print_line, print_table, reading, report_json
from tilescope.parameters import (
    AsJson,
    IpusOption,
    ReportPath,
    TopOption,
    Units,
    UnitsOption,
    examples,
    parse_cycles,
)
from tilescope.trace_lists import (
    Cause,
    RegionKind,
    StretchList,
    show_critical_path,
    show_idle,
    show_regions,
    show_statistics,
    show_stretches,
    show_waits,
)

if TYPE_CHECKING:
    from tilescope.analyser.trace import Extent, RangeSummary
    from tilescope.reports import Report

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command ``trace``."""

    @app.command(
        epilog=examples(
            "trace report",
            "trace report --run 0 --ipu 0",
            "trace report --range 1000:2000 --json",
            "trace report --stretches --top 20",
            "trace report --regions layer --run 0",
            "trace report --statistics --run 0",
            "trace report --waits --range 1000:2000",
            "trace report --critical-path --run 0",
            "trace report --idle conv1",
        )
    )
    def trace(
        path: ReportPath,
        as_json: AsJson = False,
        cycles: Annotated[
            str | None,
            typer.Option(
                "--range",
                metavar="A:B",
                help="Range of cycles, half-open; either end may be omitted.",
            ),
        ] = None,
        ipu: IpusOption = None,
        run: Annotated[
            int | None,
            typer.Option(
                "--run",
                min=0,
                metavar="N",
                help="The range of this recorded run.",
                show_default=False,
            ),
        ] = None,
        stretches: Annotated[
            bool,
            typer.Option(
                "--stretches",
                help="Show what is bound by exchange, sync, waiting, imbalance or the host.",
            ),
        ] = False,
        cause: Annotated[
            Cause | None,
            typer.Option(
                "--cause", help="Show the stretches of this cause only.", show_default=False
            ),
        ] = None,
        regions: Annotated[
            RegionKind | None,
            typer.Option(
                "--regions",
                help="Show layers, phases, micro-batches, batches or runs with their figures.",
                show_default=False,
            ),
        ] = None,
        waits: Annotated[
            bool,
            typer.Option("--waits", help="Show which IPU waits for which in syncs, and how long."),
        ] = False,
        critical: Annotated[
            bool,
            typer.Option(
                "--critical-path",
                help="Show which IPU the others wait for, span by span, in --run or the first run.",
            ),
        ] = False,
        statistics: Annotated[
            bool,
            typer.Option(
                "--statistics", help="Show count, cycles and their spread by name of step."
            ),
        ] = False,
        idle: Annotated[
            str | None,
            typer.Option(
                "--idle",
                metavar="STEP",
                help="Show the idle tiles of a step: its number, or words of its name.",
                show_default=False,
            ),
        ] = None,
        units: UnitsOption = Units.BINARY,
        top: TopOption = 10,
    ) -> None:
        """Show runs, cycle proportions and top contributors of a range of the trace."""
        from tilescope.analyser.trace import extent, range_summary

        if idle is not None and (stretches or cause or cycles is not None or run is not None):
            raise typer.BadParameter("--idle takes neither a range or run nor --stretches.")
        if waits and (idle is not None or stretches or cause):
            raise typer.BadParameter("--waits takes neither --idle nor --stretches nor --cause.")
        if statistics and (critical or waits or idle is not None or stretches or cause):
            raise typer.BadParameter("--statistics takes a range or run and no other list.")
        if critical and (waits or idle is not None or stretches or cause or cycles is not None):
            raise typer.BadParameter("--critical-path takes --run and no other list or range.")
        others = statistics or critical or waits or idle is not None or stretches or cause
        if regions and others:
            raise typer.BadParameter("--regions takes --range, --run and --ipu, and no other list.")
        if cycles is not None and run is not None:
            raise typer.BadParameter("--range and --run are mutually exclusive.")
        start, end = parse_cycles(cycles)
        with reading(path) as report:
            if idle is not None:
                show_idle(report, idle, ipu or None, as_json=as_json, top=top)
                return
            recorded = extent(report)
            if run is not None:
                start, end = _range_of_run(recorded, run)
            if statistics:
                show_statistics(report, (start, end), ipu or None, as_json=as_json, top=top)
                return
            if critical:
                show_critical_path(report, run, as_json=as_json, top=top)
                return
            if waits:
                show_waits(report, (start, end), ipu or None, as_json=as_json, top=top)
                return
            if regions:
                show_regions(report, regions, (start, end), ipu or None, as_json=as_json, top=top)
                return
            if stretches or cause:
                shown = StretchList(cause, as_json, top)
                show_stretches(report, (start, end), ipu or None, shown)
                return
            summary = range_summary(report, start, end, ipu or None, top=top)
            if as_json:
                print_json(_as_json(report, recorded, summary))
            else:
                _print(report, recorded, summary, units)


def _range_of_run(recorded: Extent, run_id: int) -> tuple[int, int]:
    """Return the range of cycles of a recorded run."""
    from tilescope.analyser.errors import BadQuestion

    for run in recorded.runs:
        if run.run_id == run_id:
            return run.start_cycle, run.end_cycle
    held = f"runs 0 to {len(recorded.runs) - 1}" if recorded.runs else "no recorded run"
    raise BadQuestion(f"run {run_id} does not exist; this report has {held}")


def _as_json(report: Report, recorded: Extent, summary: RangeSummary) -> dict[str, object]:
    """Return runs, figures per IPU and contributors as raw numbers."""
    return report_json(report) | {
        "start_cycle": summary.start_cycle,
        "end_cycle": summary.end_cycle,
        "cycles": summary.cycles,
        "parallel_efficiency": summary.parallel_efficiency,
        "tile_balance": summary.tile_balance,
        "n_entries": recorded.n_entries,
        "runs": [
            {
                "run_id": run.run_id,
                "name": run.name,
                "start_cycle": run.start_cycle,
                "end_cycle": run.end_cycle,
            }
            for run in recorded.runs
        ],
        "ipus": [
            {
                "ipu_id": ipu.ipu_id,
                "cycles": ipu.cycles,
                "cycles_by_kind": ipu.cycles_by_kind,
                "parallel_efficiency": ipu.parallel_efficiency,
                "tile_balance": ipu.tile_balance,
                "host_in_bytes": ipu.host_in_bytes,
                "host_out_bytes": ipu.host_out_bytes,
                "remote_in_bytes": ipu.remote_in_bytes,
                "remote_out_bytes": ipu.remote_out_bytes,
                "exchange_bytes": ipu.exchange_bytes,
                "global_in_bytes": ipu.global_in_bytes,
                "global_out_bytes": ipu.global_out_bytes,
                "n_executions": ipu.n_executions,
            }
            for ipu in summary.ipus
        ],
        "n_contributors": summary.n_contributors,
        "contributors": [
            {
                "name": row.name,
                "kind": row.kind,
                "count": row.count,
                "cycles": row.cycles,
                "share": row.share,
                "step_id": row.step_id,
            }
            for row in summary.contributors
        ],
    }


def _print(report: Report, recorded: Extent, summary: RangeSummary, units: Units) -> None:
    """Print runs, figures per IPU and contributors."""
    from tilescope.analyser.quantities import format_cycles
    from tilescope.analyser.summary.overview import why_no_run

    print_line(f"Execution trace of {report.path}")
    if not recorded.runs:
        print_line(why_no_run(report))
        return
    print_line(
        f"{len(recorded.runs):,} runs, {recorded.n_entries:,} entries,"
        f" cycles {recorded.start_cycle:,} to {recorded.end_cycle:,}"
    )
    print_line()
    runs = recorded.runs[:20]
    rows = [
        (run.name, f"{run.start_cycle:,}", f"{run.end_cycle - run.start_cycle:,}") for run in runs
    ]
    if len(recorded.runs) > len(runs):
        rows.append((f"{len(recorded.runs) - len(runs):,} more", "", ""))
    print_table(
        [Column("Run"), Column("Start", is_number=True), Column("Cycles", is_number=True)], rows
    )
    print_line()
    print_line(
        f"Range {summary.start_cycle:,} to {summary.end_cycle:,}: {format_cycles(summary.cycles)},"
        f" parallel efficiency {_percent(summary.parallel_efficiency)},"
        f" tile balance {_percent(summary.tile_balance)}"
    )
    print_line()
    _print_ipus(summary, units)
    print_line()
    _print_contributors(summary)


def _print_ipus(summary: RangeSummary, units: Units) -> None:
    """Print proportions, balance and bytes of every IPU."""
    from tilescope.analyser.quantities import format_bytes
    from tilescope.analyser.trace import KINDS

    labels = {kind.name: kind.label for kind in KINDS} | {"idle": "Idle"}
    used = [name for name in labels if any(ipu.cycles_by_kind.get(name) for ipu in summary.ipus)]
    columns = [Column(""), *(Column(f"IPU {ipu.ipu_id}", is_number=True) for ipu in summary.ipus)]
    rows = [("Cycles", *(f"{ipu.cycles:,}" for ipu in summary.ipus))]
    rows += [
        (
            labels[name],
            *(
                _percent(ipu.cycles_by_kind.get(name, 0) / ipu.cycles if ipu.cycles else None)
                for ipu in summary.ipus
            ),
        )
        for name in used
    ]
    rows.append(("Parallel efficiency", *(_percent(i.parallel_efficiency) for i in summary.ipus)))
    rows.append(("Tile balance", *(_percent(ipu.tile_balance) for ipu in summary.ipus)))
    for label, name in (
        ("Exchanged", "exchange_bytes"),
        ("Host in", "host_in_bytes"),
        ("Host out", "host_out_bytes"),
        ("Remote in", "remote_in_bytes"),
        ("Remote out", "remote_out_bytes"),
        ("Global in", "global_in_bytes"),
        ("Global out", "global_out_bytes"),
    ):
        texts = [format_bytes(getattr(ipu, name), units.style) for ipu in summary.ipus]
        rows.append((label, *texts))
    print_table(columns, rows)


def _print_contributors(summary: RangeSummary) -> None:
    """Print the top contributors and the number of omitted ones."""
    from tilescope.analyser.trace import KINDS

    labels = {kind.name: kind.label for kind in KINDS}
    rows = [
        (
            row.name,
            labels[row.kind],
            f"{row.count:,}",
            f"{row.cycles:,}",
            _percent(row.share),
        )
        for row in summary.contributors
    ]
    rest = summary.n_contributors - len(rows)
    if rest:
        rows.append((f"{rest:,} more", "", "", "", ""))
    print_table(
        [
            Column("Top contributors"),
            Column("Kind"),
            Column("Count", is_number=True),
            Column("Cycles", is_number=True),
            Column("% of range", is_number=True),
        ],
        rows,
    )


def _percent(ratio: float | None) -> str:
    """Return a ratio as a percentage, or a dash."""
    from tilescope.analyser.quantities import MISSING, format_percent

    if ratio is None:
        return MISSING
    return "< 0.01 %" if 0 < ratio < 1e-4 else format_percent(100 * ratio)
