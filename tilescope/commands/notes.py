"""``tilescope notes``: notes on the trace of a report, listed, written, removed, copied."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilescope.console import Column, print_json, print_line, print_table, reading, report_json
from tilescope.parameters import AsJson, ReportPath, examples, parse_cycles

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command ``notes``."""

    @app.command(
        epilog=examples(
            "notes report",
            "notes report --add 'waits for the host' --range 1000:2000",
            "notes report --remove 3f9a",
            "notes report --from ../yesterday/report",
        )
    )
    def notes(
        path: ReportPath,
        as_json: AsJson = False,
        add: Annotated[
            str | None,
            typer.Option("--add", metavar="TEXT", help="Write a note.", show_default=False),
        ] = None,
        cycles: Annotated[
            str | None,
            typer.Option(
                "--range",
                metavar="A:B",
                help="Range of cycles of the new note, half-open.",
                show_default=False,
            ),
        ] = None,
        ipu: Annotated[
            int, typer.Option("--ipu", min=0, metavar="N", help="IPU of the new note.")
        ] = 0,
        remove: Annotated[
            str | None,
            typer.Option(
                "--remove", metavar="ID", help="Remove the note of this id.", show_default=False
            ),
        ] = None,
        source: Annotated[
            Path | None,
            typer.Option(
                "--from",
                metavar="REPORT",
                help="Copy the notes of another report, by the steps that they are on.",
                show_default=False,
            ),
        ] = None,
    ) -> None:
        """List, write, remove or copy notes on the trace; they lie beside the report."""
        from tilescope.analyser.trace import add_note, copy_notes, remove_note

        if sum(option is not None for option in (add, remove, source)) > 1:
            raise typer.BadParameter("--add, --remove and --from are mutually exclusive.")
        if (add is None) != (cycles is None):
            raise typer.BadParameter("--add and --range go together.")
        with reading(path) as report:
            if add is not None and cycles is not None:
                start, end = parse_cycles(cycles)
                add_note(report, start, end, ipu, add)
            elif remove is not None:
                remove_note(report, remove)
            elif source is not None:
                with reading(source) as other:
                    n_new, missing = copy_notes(other, report)
                if not as_json:
                    print_line(f"{n_new} new {'note' if n_new == 1 else 'notes'}")
                    for sentence in missing:
                        print_line(f"  no place: {sentence}")
            _show(report, as_json=as_json)


def _show(report: Report, *, as_json: bool) -> None:
    """Print the notes of a report."""
    from dataclasses import asdict

    from tilescope.analyser.trace import placed_notes

    placed = placed_notes(report)
    if as_json:
        print_json(report_json(report) | {"notes": [asdict(note) for note in placed]})
        return
    if not placed:
        print_line(f"No notes on {report.path}; --add TEXT --range A:B writes one")
        return
    print_line(f"Notes on {report.path}")
    print_line()
    print_table(
        [
            Column("Id"),
            Column("IPU", is_number=True),
            Column("From", is_number=True),
            Column("Cycles", is_number=True),
            Column("Note"),
        ],
        [
            (
                note.note_id,
                str(note.ipu_id),
                "–" if note.start_cycle is None else f"{note.start_cycle:,}",
                "–"
                if note.start_cycle is None or note.end_cycle is None
                else f"{note.end_cycle - note.start_cycle:,}",
                note.text + (f" (no place: {note.missing})" if note.missing else ""),
            )
            for note in placed
        ],
    )
