"""``tilescope machines``: the figures of several machines side by side, with their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilescope.completion import complete_machine
from tilescope.console import Column, print_json, print_line, print_table
from tilescope.parameters import AsJson, examples

if TYPE_CHECKING:
    from tilescope.engine.machine import FigureRow

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command ``machines``."""

    @app.command(
        epilog=examples(
            "machines",
            "machines gc200 bow",
            "machines gc200 --sources",
        )
    )
    def machines(
        names: Annotated[
            list[str] | None,
            typer.Argument(
                metavar="MACHINE",
                help="Presets or machine files (TOML); all presets by default.",
                show_default=False,
                autocompletion=complete_machine,
            ),
        ] = None,
        sources: Annotated[
            bool, typer.Option("--sources", help="Show the source of every figure.")
        ] = False,
        as_json: AsJson = False,
    ) -> None:
        """Compare machines: every figure of both parameter sets."""
        from tilescope.engine.machine import describe_machine, figure_rows, machine_names

        described = [describe_machine(name) for name in names or machine_names()]
        rows = figure_rows(described)
        if as_json:
            heads = [
                {"name": d.name, "architecture": d.architecture, "link_topology": d.link_topology}
                for d in described
            ]
            print_json({"machines": heads, "figures": [_as_dict(row) for row in rows]})
        elif sources:
            columns = [
                Column("Figure"),
                Column("Set"),
                Column("Machine"),
                Column("Value", is_number=True),
                Column("Unit"),
                Column("Source"),
            ]
            print_table(columns, _source_rows(rows, [d.name for d in described]))
        else:
            columns = [Column("Figure"), Column("Set"), Column("Unit")]
            columns += [Column(d.name, is_number=True) for d in described]
            print_table(columns, (_row(row) for row in rows))
            print_line('Figures marked "shown only" are not used in any computation yet.')


def _row(row: FigureRow) -> list[str]:
    cells = ["" if figure is None else _number(figure.value) for figure in row.figures]
    return [row.spec.name, row.in_set, row.spec.unit, *cells]


def _source_rows(rows: list[FigureRow], names: list[str]) -> list[list[str]]:
    return [
        [row.spec.name, row.in_set, name, _number(figure.value), row.spec.unit, figure.source]
        for row in rows
        for name, figure in zip(names, row.figures, strict=True)
        if figure is not None
    ]


def _number(value: float) -> str:
    """Return a figure in full: no digit is lost."""
    is_whole = float(value).is_integer()
    return f"{int(value):,}" if is_whole else f"{value:,}"


def _as_dict(row: FigureRow) -> dict[str, Any]:
    return {
        "name": row.spec.name,
        "set": row.in_set,
        "unit": row.spec.unit,
        "meaning": row.spec.meaning,
        "is_used": row.spec.is_used,
        "values": [None if figure is None else figure.value for figure in row.figures],
        "sources": [None if figure is None else figure.source for figure in row.figures],
    }
