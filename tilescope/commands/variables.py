"""``tilescope variables``: variables by size, tiles, lifetime or category; where one lies."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tilescope.completion import complete_category, complete_variable
from tilescope.console import Column, print_json, print_line, print_table, reading, report_json
from tilescope.parameters import (
    AsJson,
    ReportPath,
    TopOption,
    Units,
    UnitsOption,
    VariableSort,
    examples,
    tiles_of,
)

if TYPE_CHECKING:
    from tilescope.analyser.memory.variable_list import VariableList, VariablePlaces, VariableRow
    from tilescope.reports import Report

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command ``variables``."""

    @app.command(
        epilog=examples(
            "variables report",
            "variables report --search weights --sort largest",
            "variables report --category message --step 12",
            "variables report --tile 0 --json",
            "variables report --name weights",
        )
    )
    def variables(
        path: ReportPath,
        as_json: AsJson = False,
        search: Annotated[
            str, typer.Option("--search", help="Variables whose name has these words.")
        ] = "",
        name: Annotated[
            str | None,
            typer.Option(
                "--name",
                help="Show where this variable lies; its name or its id.",
                show_default=False,
                autocompletion=complete_variable,
            ),
        ] = None,
        category: Annotated[
            str,
            typer.Option(
                help="Category: variable, constant or message.", autocompletion=complete_category
            ),
        ] = "",
        dtype: Annotated[str, typer.Option(help="Type, such as float32.")] = "",
        step: Annotated[
            int | None,
            typer.Option("--step", help="Variables that live at this step.", show_default=False),
        ] = None,
        ipu: Annotated[
            int | None,
            typer.Option(
                "--ipu", min=0, metavar="N", help="Parts on this IPU.", show_default=False
            ),
        ] = None,
        tile: Annotated[
            int | None,
            typer.Option(
                "--tile", min=0, metavar="N", help="Parts on this tile.", show_default=False
            ),
        ] = None,
        sort: Annotated[VariableSort, typer.Option(help="Order of the list.")] = VariableSort.SIZE,
        units: UnitsOption = Units.BINARY,
        top: TopOption = 20,
    ) -> None:
        """List variables with size, tiles and lifetime, or show where one lies."""
        from tilescope.analyser.memory.variable_list import (
            VariableFilter,
            list_variables,
            variable_places,
        )

        variable_filter = VariableFilter(search, category, dtype, tiles_of(ipu, tile), step)
        with reading(path) as report:
            if name is not None:
                parts = variable_places(report, name)
                if as_json:
                    print_json(report_json(report) | _places_json(parts))
                else:
                    _print_places(parts, units, top)
                return
            variables = list_variables(report, variable_filter, sort.name_of_order)
            if as_json:
                print_json(report_json(report) | _as_json(variables))
            else:
                _print(report, variables, units, top)


def _as_json(variables: VariableList) -> dict[str, object]:
    """Return every variable of the list."""
    return {
        "n_variables": variables.n_variables,
        "total_bytes": variables.total_bytes,
        "variables": [asdict(row) for row in variables.rows],
    }


def _places_json(parts: VariablePlaces) -> dict[str, object]:
    """Return a variable and its parts in columns."""
    return {
        "variable": asdict(parts.variable),
        "parts": {
            "tile_id": parts.tile_id.tolist(),
            "offset_bytes": parts.offset_bytes.tolist(),
            "bytes": parts.bytes.tolist(),
            "start_step": parts.start_step.tolist(),
            "end_step": parts.end_step.tolist(),
        },
    }


def _print(report: Report, variables: VariableList, units: Units, top: int) -> None:
    """Print the first variables of the list."""
    from tilescope.analyser.quantities import format_bytes

    print_line(
        f"{len(variables.rows):,} of {variables.n_variables:,} variables of {report.path},"
        f" {format_bytes(variables.total_bytes, units.style)}"
    )
    if not variables.rows:
        return
    print_line()
    print_table(
        [
            Column("Variable"),
            Column("Category"),
            Column("Type"),
            Column("Shape"),
            *(
                Column(title, is_number=True)
                for title in ("Size", "Tiles", "Largest part", "Live steps", "Id")
            ),
        ],
        [
            (
                row.name,
                row.category,
                row.dtype,
                "×".join(str(size) for size in row.shape),
                format_bytes(row.bytes, units.style),
                f"{row.n_tiles:,}",
                format_bytes(row.max_tile_bytes, units.style),
                _life(row),
                str(row.variable_id),
            )
            for row in variables.rows[:top]
        ],
    )
    if len(variables.rows) > top:
        print_line(f"… {len(variables.rows) - top:,} more; --top N shows more, --json all")


def _life(row: VariableRow) -> str:
    """Return the steps at which a variable lives."""
    from tilescope.analyser.quantities import format_lives

    return "always" if row.is_always_live else format_lives(row.lives)


def _print_places(parts: VariablePlaces, units: Units, top: int) -> None:
    """Print a variable, then the ranges of tiles that hold equal parts."""
    from tilescope.analyser.quantities import MISSING, format_bytes

    row, style = parts.variable, units.style
    facts = [
        ("Variable", row.name),
        ("Id", str(row.variable_id)),
        ("Category", row.category),
        ("Type", row.dtype),
        ("Shape", "×".join(str(size) for size in row.shape) or MISSING),
        ("Size", format_bytes(row.bytes, style)),
        ("Tiles", f"{row.n_tiles:,}"),
        ("Largest part", format_bytes(row.max_tile_bytes, style)),
        ("Live steps", _life(row)),
        ("Made by", row.made_by or MISSING),
    ]
    print_table([Column(""), Column("")], facts)
    ranges = _ranges(parts)
    print_line()
    print_table(
        [Column("Tiles"), Column("Address", is_number=True), Column("Size", is_number=True)],
        [
            (
                f"{first:,}" if first == last else f"{first:,} to {last:,}",
                f"0x{offset:x}",
                format_bytes(size, style),
            )
            for first, last, offset, size in ranges[:top]
        ],
    )
    if len(ranges) > top:
        print_line(f"… {len(ranges) - top:,} more; --top N shows more, --json all")


def _ranges(parts: VariablePlaces) -> list[tuple[int, int, int, int]]:
    """Return first and last tile, address and size of equal parts on successive tiles."""
    ranges: list[tuple[int, int, int, int]] = []
    for tile, offset, size in zip(
        parts.tile_id.tolist(), parts.offset_bytes.tolist(), parts.bytes.tolist(), strict=True
    ):
        if ranges and ranges[-1][1:] == (tile - 1, offset, size):
            ranges[-1] = (ranges[-1][0], tile, offset, size)
        else:
            ranges.append((tile, tile, offset, size))
    return ranges
