"""``tilescope summary``: an overview of a report."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tilescope.console import Column, print_json, print_line, print_table, reading, report_json
from tilescope.parameters import AsJson, ReportPath, TopOption, Units, UnitsOption, examples

if TYPE_CHECKING:
    from tilescope.analyser.summary.summarise import Row, Summary
    from tilescope.reports import Report

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command ``summary``."""

    @app.command(
        epilog=examples(
            "summary report",
            "summary report --all-options",
            "summary report --json",
        )
    )
    def summary(
        path: ReportPath,
        as_json: AsJson = False,
        units: UnitsOption = Units.BINARY,
        all_options: Annotated[
            bool,
            typer.Option("--all-options", help="Also list options with default values."),
        ] = False,
        top: TopOption = 10,
        verify: Annotated[
            bool,
            typer.Option(
                "--verify",
                help="Verify the whole report first, at any size: damage ends the command.",
            ),
        ] = False,
    ) -> None:
        """Show machine, graph, memory, execution, provenance and options of a report."""
        from tilescope.analyser.program.plans import predicted_by_stage
        from tilescope.analyser.summary.metrics import ipu_values, values
        from tilescope.analyser.summary.summarise import summarise

        with reading(path) as report:
            if verify:
                report.verify()
            summary = summarise(report, units.style)
            if as_json:
                figures = {
                    "metrics": values(report),
                    "metrics_by_ipu": {name: list(row) for name, row in ipu_values(report).items()},
                }
                stages = predicted_by_stage(report)
                training = _training_json(report)
                print_json(
                    report_json(report)
                    | _as_json(summary, stages)
                    | training
                    | _pipeline_json(report)
                    | figures
                )
            else:
                by_ipu = ipu_values(report) if _has_several_ipus(summary) else {}
                print_line(f"Report {path}")
                _print_state(report, is_verified=verify)
                _print(summary, by_ipu, _curve(report), all_options, units, top)


def _curve(report: Report) -> str:
    """Return the loss over the steps of a training as a line; empty without any."""
    from tilescope.analyser.summary.loss import loss_curve, text_curve

    return text_curve(loss_curve(report))


def _training_json(report: Report) -> dict[str, object]:
    """Return passes and loss curve of a training; nothing for inference."""
    from tilescope.analyser.program.training import pass_totals
    from tilescope.analyser.summary.loss import loss_curve

    passes, curve = pass_totals(report), loss_curve(report)
    answer: dict[str, object] = {}
    if passes:
        answer["passes"] = [asdict(item) for item in passes]
    if len(curve):
        answer["loss_curve"] = curve.as_json()
    return answer


def _pipeline_json(report: Report) -> dict[str, object]:
    """Return the stages of a pipeline and what its IPUs do; nothing for other programs."""
    from tilescope.analyser.summary.stage_figures import ipu_memory, stage_figures

    figures = stage_figures(report)
    if figures is None:
        return {}
    memory = {item.ipu_id: asdict(item) for item in ipu_memory(report)}
    return {
        "pipeline": {
            "stages": [
                {
                    "name": item.stage.name,
                    "direction": item.stage.direction,
                    "stage": item.stage.number,
                    "ipu_id": item.ipu_id,
                    "cycles": item.cycles,
                    "n_executions": item.n_executions,
                }
                for item in figures.stages
            ],
            "ipus": [
                asdict(ipu) | {"idle_share": ipu.idle_share} | memory.get(ipu.ipu_id, {})
                for ipu in figures.ipus
            ],
            "slowest": figures.slowest.stage.name,
            "balanced_cycles": figures.balanced_cycles,
            "idle_share": figures.idle_share,
            "bubble_share": figures.bubble_share,
        }
    }


def _as_json(summary: Summary, predicted: dict[int, dict[str, int]]) -> dict[str, object]:
    """Return the summary with raw values; `predicted` are the cycles of plans by stage."""

    def raw(rows: tuple[Row, ...]) -> dict[str, object]:
        return {row.key: row.value for row in rows}

    return {
        "milestones": list(summary.milestones),
        **{title.lower().replace(" ", "_"): raw(rows) for title, rows in summary.sections.items()},
        "options": [asdict(option) for option in summary.options],
        "plans": [
            asdict(plan) | {"predicted": predicted.get(plan.plan_id, {})} for plan in summary.plans
        ],
        "notices": [asdict(notice) for notice in summary.notices],
    }


#: Metrics by IPU that are printed, with their titles.
_BY_IPU = (
    ("cycles.total", "Cycles"),
    ("cycles.compute", "Compute"),
    ("cycles.exchange", "Exchange"),
    ("cycles.waiting", "Waiting"),
    ("memory.total", "Memory"),
    ("memory.max_tile", "Fullest tile"),
    ("tile.balance", "Tile balance"),
)


def _has_several_ipus(summary: Summary) -> bool:
    """Return whether a table by IPU says more than the sections."""
    rows = {row.key: row.value for row in summary.target}
    return isinstance(number := rows.get("n_ipus"), int) and number > 1


def _print_ipus(by_ipu: dict[str, tuple[int | float | None, ...]], units: Units, top: int) -> None:
    """Print the figures of every IPU."""
    from tilescope.analyser.quantities import format_bytes, format_count, format_value
    from tilescope.analyser.summary.metrics import METRICS

    def text(name: str, value: int | float | None) -> str:
        unit = METRICS[name].unit
        if unit == "cycles":
            return format_count(value)
        if unit == "bytes" and isinstance(value, int):
            return format_bytes(value, units.style)
        return format_value(value, unit)

    n_ipus = len(by_ipu["cycles.total"])
    print_line()
    print_table(
        [
            Column("IPU", is_number=True),
            *(Column(title, is_number=True) for _, title in _BY_IPU),
        ],
        [
            (str(ipu), *(text(name, by_ipu[name][ipu]) for name, _ in _BY_IPU))
            for ipu in range(min(n_ipus, max(top, 16)))
        ],
    )
    if n_ipus > max(top, 16):
        print_line(f"… {n_ipus - max(top, 16):,} more; --top N shows more, --json all")


def _print_state(report: Report, *, is_verified: bool) -> None:
    """Print the state of a report, unless it is complete, and that of a newer run."""
    state, newer = report.state, report.newer_run
    if not state.is_complete:
        print_line(f"{state.sentence} Last milestone: {report.milestones[-1]}.")
    if newer is not None:
        print_line(newer.sentence)
    if is_verified:
        print_line("All rows and chunks match their digests.")


def _print(
    summary: Summary,
    by_ipu: dict[str, tuple[int | float | None, ...]],
    curve: str,
    all_options: bool,
    units: Units,
    top: int,
) -> None:
    """Print all sections, and the figures of every IPU if there are several."""
    for title, rows in summary.sections.items():
        if rows:
            print_line()
            print_table(
                [Column(title), Column("", is_number=title != "Provenance")],
                [(row.label, row.text) for row in rows],
            )
            if curve and title == "Training":
                print_line(f"Loss  {curve}")
    if by_ipu:
        _print_ipus(by_ipu, units, top)
    _print_plans(summary, top)
    options = [option for option in summary.options if all_options or option.origin != "default"]
    if options:
        print_line()
        print_table(
            [Column("Option"), Column("Value"), Column("Set by"), Column("Has effect")],
            [
                (
                    option.name,
                    option.value,
                    option.origin,
                    "yes" if option.has_effect else "not yet",
                )
                for option in options
            ],
        )
    if summary.notices:
        print_line()
        for notice in summary.notices:
            print_line(f"{notice.severity}: {notice.message}")


def _print_plans(summary: Summary, top: int) -> None:
    """Print the plans of the most expensive operations."""
    if not summary.plans:
        return
    numbers = ("Tiles", "Tile balance", "Predicted cycles")
    print_line()
    print_table(
        [Column("Plan"), *(Column(title, is_number=True) for title in numbers), Column("Parts")],
        [
            (
                plan.name,
                f"{plan.n_tiles:,}",
                f"{plan.tile_balance:.1%}",
                f"{plan.predicted_cycles:,}",
                ", ".join(
                    f"{dimension} {n_parts}"
                    for dimension, n_parts in plan.split.items()
                    if n_parts != 1
                ),
            )
            for plan in summary.plans[:top]
        ],
    )
    if len(summary.plans) > top:
        print_line(f"… {len(summary.plans) - top:,} more; --top N shows more, --json all")
