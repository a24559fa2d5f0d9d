"""``tilescope summary``: what a report is about, on one screen."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilescope.console import Column, print_json, print_line, print_table, report_json
from tilescope.parameters import AsJson, ReportPath, TopOption, Units, UnitsOption

if TYPE_CHECKING:
    from tilescope.analyser.summary import Row, Summary

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command ``summary``."""

    @app.command()
    def summary(
        path: ReportPath,
        as_json: AsJson = False,
        units: UnitsOption = Units.BINARY,
        all_options: Annotated[
            bool,
            typer.Option(
                "--all-options", help="Also list options that were left at their default."
            ),
        ] = False,
        top: TopOption = 10,
    ) -> None:
        """Show target, graph, memory, execution, provenance and options of a report."""
        from tilescope import analyser
        from tilescope.analyser.metrics import values
        from tilescope.analyser.summary import summarise

        with analyser.open(path) as report:
            found = summarise(report, units.style)
            if as_json:
                print_json(report_json(report) | _as_json(found) | {"metrics": values(report)})
            else:
                _print(path, found, all_options, top)


def _as_json(summary: Summary) -> dict[str, object]:
    """Return the summary with raw values."""

    def raw(rows: tuple[Row, ...]) -> dict[str, object]:
        return {row.key: row.value for row in rows}

    return {
        "milestones": list(summary.milestones),
        **{title.lower(): raw(rows) for title, rows in summary.sections.items()},
        "options": [asdict(option) for option in summary.options],
        "plans": [asdict(plan) for plan in summary.plans],
        "notices": [asdict(notice) for notice in summary.notices],
    }


def _print(path: Path, summary: Summary, all_options: bool, top: int) -> None:
    """Print the sections one below the other."""
    print_line(f"Report {path}")
    if not summary.is_complete:
        print_line(
            "This report is incomplete: the engine was stopped or still runs."
            f" It came as far as: {summary.milestones[-1]}."
        )
    for title, rows in summary.sections.items():
        if rows:
            print_line()
            print_table(
                [Column(title), Column("", is_number=title != "Provenance")],
                [(row.label, row.text) for row in rows],
            )
    _print_plans(summary, top)
    options = [each for each in summary.options if all_options or each.origin != "default"]
    if options:
        print_line()
        print_table(
            [Column("Option"), Column("Value"), Column("Set by"), Column("Has effect")],
            [
                (each.name, each.value, each.origin, "yes" if each.has_effect else "not yet")
                for each in options
            ],
        )
    if summary.notices:
        print_line()
        for notice in summary.notices:
            print_line(f"{notice.severity}: {notice.message}")


def _print_plans(summary: Summary, top: int) -> None:
    """Print how the operations that take longest were split over the tiles."""
    if not summary.plans:
        return
    numbers = ("Tiles", "Tile balance", "Expected cycles")
    print_line()
    print_table(
        [Column("Plan"), *(Column(title, is_number=True) for title in numbers), Column("Parts")],
        [
            (
                each.name,
                f"{each.n_tiles:,}",
                f"{each.tile_balance:.1%}",
                f"{each.predicted_cycles:,}",
                ", ".join(
                    f"{dimension} {n_parts}"
                    for dimension, n_parts in each.split.items()
                    if n_parts != 1
                ),
            )
            for each in summary.plans[:top]
        ],
    )
    if len(summary.plans) > top:
        print_line(f"… {len(summary.plans) - top:,} more; --top N shows more, --json all")
