"""``tilescope reports``: reports below folders, or all that are known, with headline figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilescope.console import Column, print_json, print_line, print_table, progress
from tilescope.parameters import AsJson, TopOption, Units, UnitsOption, examples

if TYPE_CHECKING:
    from tilescope.analyser.catalogue.listing import ListedReport
    from tilescope.reports import FoundReport

__all__ = ["register"]


class _Sort(StrEnum):
    """Order of the list: the newest, the most cycles, bytes or runs first, or by name."""

    NEWEST = "newest"
    CYCLES = "cycles"
    MEMORY = "memory"
    SIZE = "size"
    RUNS = "runs"
    MODEL = "model"
    NAME = "name"


def register(app: typer.Typer) -> None:
    """Add the command ``reports``."""

    @app.command(
        epilog=examples(
            "reports",
            "reports runs/ --search resnet --sort cycles",
            "reports --all --state damaged",
            "reports --all --top 1 --json",
        )
    )
    def reports(
        paths: Annotated[
            list[Path] | None,
            typer.Argument(
                help="Reports or directories of reports; default: this directory.",
                show_default=False,
            ),
        ] = None,
        as_json: AsJson = False,
        are_all: Annotated[
            bool,
            typer.Option("--all", help="List all reports of this computer that were ever read."),
        ] = False,
        search: Annotated[
            str,
            typer.Option(
                "--search", help="Reports whose name, model, machine or state has these words."
            ),
        ] = "",
        state: Annotated[
            str,
            typer.Option(help="Reports in this state, such as complete, ended early or damaged."),
        ] = "",
        sort: Annotated[_Sort, typer.Option(help="Order of the list.")] = _Sort.NEWEST,
        units: UnitsOption = Units.BINARY,
        top: TopOption = 20,
    ) -> None:
        """List reports with model, machine, runs, cycles, fullest tile and state."""
        from tilescope.analyser.catalogue.catalogue import user_catalogue
        from tilescope.analyser.catalogue.listing import list_reports

        if are_all and paths:
            raise typer.BadParameter("--all lists every known report: give no PATHS with it.")
        for path in paths or ():
            if not path.exists():
                raise typer.BadParameter(f"{path} does not exist; give a report or a directory.")
        catalogue = user_catalogue()
        with progress("searching for reports") as tell:
            files = _known_files(catalogue.paths(), catalogue.forget) if are_all else None
            if files is None:
                from tilescope.reports import find_reports

                files = find_reports(paths or [Path()])
            listed = list_reports(
                files, catalogue, lambda n, n_all: tell(f"reading reports: {n:,} of {n_all:,}")
            )
        catalogue.close()
        chosen = _sorted(_fitting(listed, search, state), sort)
        if as_json:
            print_json({"n_reports": len(listed), "reports": [_json(report) for report in chosen]})
            return
        where = "known" if are_all else "below " + ", ".join(map(str, paths or [Path()]))
        _print(chosen, len(listed), where, units, top)


def _known_files(
    paths: Sequence[Path], forget: Callable[[Sequence[Path]], None]
) -> list[FoundReport]:
    """Return the reports at some paths; those that are gone are forgotten."""
    from tilescope.reports import find_reports

    files = find_reports(paths)
    found = {file.path for file in files}
    forget([path for path in paths if path not in found])
    return files


def _fitting(listed: Sequence[ListedReport], search: str, state: str) -> list[ListedReport]:
    """Return the reports that have the words and the state."""
    from tilescope.analyser.search import search_words, words_fit

    words = search_words(search)
    return [
        report
        for report in listed
        if (not state or report.state == state)
        and words_fit(words, str(report.file.path), report.state, *_names(report))
    ]


def _names(report: ListedReport) -> tuple[str, ...]:
    overview = report.overview
    return () if overview is None else (overview.model, overview.machine)


def _sorted(listed: Sequence[ListedReport], sort: _Sort) -> list[ListedReport]:
    """Return reports in an order; what lacks the fact comes last."""

    def names(report: ListedReport) -> tuple[str, str]:
        overview = report.overview
        model = overview.model if overview is not None and sort is _Sort.MODEL else ""
        return model.lower(), str(report.file.path)

    def number(report: ListedReport) -> float:
        overview = report.overview
        match sort:
            case _Sort.NEWEST:
                return report.file.mtime
            case _Sort.SIZE:
                return report.file.size_bytes
            case _Sort.CYCLES:
                value = None if overview is None else overview.cycles
            case _Sort.MEMORY:
                value = None if overview is None else overview.max_tile_bytes
            case _:
                value = None if overview is None else overview.n_runs
        return -1.0 if value is None else float(value)

    by_name = sorted(listed, key=names)
    if sort in (_Sort.MODEL, _Sort.NAME):
        return by_name
    return sorted(by_name, key=number, reverse=True)


def _json(report: ListedReport) -> dict[str, object]:
    """Return a report with raw numbers."""
    from tilescope.analyser.summary.overview import ReportOverview

    names = [field.name for field in fields(ReportOverview)]
    facts = dict.fromkeys(names) if report.overview is None else asdict(report.overview)
    return {
        "path": str(report.file.path),
        "state": report.state,
        "size_bytes": report.file.size_bytes,
        "modified_s": report.file.mtime,
        **facts,
    }


def _print(
    chosen: Sequence[ListedReport], n_listed: int, where: str, units: Units, top: int
) -> None:
    """Print the first reports of the list."""
    reports = f"{n_listed:,} report{'s' * (n_listed != 1)}"
    if not n_listed:
        print_line(f"No report {where}; create one with `tilescope run MODEL.onnx`.")
        return
    count = reports if len(chosen) == n_listed else f"{len(chosen):,} of {reports}"
    print_line(f"{count} {where}")
    if not chosen:
        return
    print_line()
    numbers = ("Size", "Runs", "Cycles", "Fullest tile", "Holds")
    print_table(
        [
            Column("Report"),
            Column("Model"),
            Column("Machine"),
            Column("Written (UTC)"),
            *(Column(title, is_number=True) for title in numbers),
            Column("State"),
        ],
        [_row(report, units) for report in chosen[:top]],
    )
    if len(chosen) > top:
        print_line(f"… {len(chosen) - top:,} more; --top N shows more, --json all of them")


def _row(report: ListedReport, units: Units) -> tuple[str, ...]:
    """Return a report as a row of the table."""
    from tilescope.analyser.quantities import MISSING, format_bytes, format_count, format_moment

    overview, file = report.overview, report.file
    facts = (MISSING,) * 6
    state = report.state
    if overview is not None:
        tile = overview.fullest_tile_id
        facts = (
            overview.model or MISSING,
            overview.machine_words,
            f"{overview.n_runs:,}",
            format_count(overview.cycles),
            MISSING if tile is None else f"{tile:,}",
            format_bytes(overview.max_tile_bytes, units.style),
        )
        state = overview.state_words(report.state)
    model, machine, *counts = facts
    return (
        str(file.path.parent if file.path.name == "profile.pop" else file.path),
        model,
        machine,
        format_moment(file.mtime),
        format_bytes(file.size_bytes, units.style),
        *counts,
        state,
    )
