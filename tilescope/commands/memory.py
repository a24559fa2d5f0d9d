"""``tilescope memory``: memory by region, category and liveness."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tilescope.completion import complete_map
from tilescope.console import Column, print_json, print_line, print_table, reading, report_json
from tilescope.parameters import (
    AsJson,
    IpusOption,
    ReportPath,
    TopOption,
    Units,
    UnitsOption,
    examples,
)
from tilescope.tile_lists import Shown, TileList, show_list
from tilescope.tile_map import show_map

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tilescope.analyser.memory.lowered_variables import TileVariables
    from tilescope.reports import Report

__all__ = ["register"]


class _Order(StrEnum):
    """Order of tiles."""

    SOFTWARE = "software"
    HARDWARE = "hardware"


class _Breakdown(StrEnum):
    """Breakdown of the memory per tile."""

    NONE = "none"
    REGION = "region"
    CATEGORY = "category"
    LIVENESS = "liveness"


def register(app: typer.Typer) -> None:
    """Add the command ``memory``."""

    @app.command(
        epilog=examples(
            "memory report",
            "memory report --tile 0 --tile 17 --variables",
            "memory report --ipu 0 --map total",
            "memory report --map variable:weights",
            "memory report --list compute-sets --tile 17 --search conv",
            "memory report --breakdown category --order hardware --json",
        )
    )
    def memory(
        path: ReportPath,
        as_json: AsJson = False,
        tile: Annotated[
            list[int] | None,
            typer.Option("--tile", help="Add a column for this tile; repeatable."),
        ] = None,
        ipu: IpusOption = None,
        order: Annotated[
            _Order,
            typer.Option(help="Order of the series per tile in --json: by number, or by place."),
        ] = _Order.SOFTWARE,
        map_of: Annotated[
            str | None,
            typer.Option(
                "--map",
                metavar="WHAT",
                help="Draw a map of the tiles as they lie: total, gaps, a category of memory, or"
                " variable:NAME.",
                show_default=False,
                autocompletion=complete_map,
            ),
        ] = None,
        breakdown: Annotated[
            _Breakdown, typer.Option(help="Breakdown of the series per tile in --json.")
        ] = _Breakdown.NONE,
        include_gaps: Annotated[
            bool, typer.Option("--include-gaps", help="Include gaps in the series per tile.")
        ] = False,
        variables: Annotated[
            bool, typer.Option("--variables", help="Also list the variables of these tiles.")
        ] = False,
        list_of: Annotated[
            TileList | None,
            typer.Option(
                "--list",
                help="List what programs put on the chosen tiles, or on all; addresses are of one"
                " tile.",
                show_default=False,
            ),
        ] = None,
        search: Annotated[
            str, typer.Option("--search", help="With --list, names that contain this text.")
        ] = "",
        units: UnitsOption = Units.BINARY,
        top: TopOption = 10,
    ) -> None:
        """Show memory by region, category and liveness, and the fullest tiles."""
        if variables and not tile:
            raise typer.BadParameter("--variables requires at least one --tile N.")
        if search and list_of is None:
            raise typer.BadParameter("--search requires --list.")
        with reading(path) as report:
            if list_of is not None:
                show_list(report, list_of, tile or [], search, Shown(as_json, units, top))
            elif map_of is not None:
                show_map(report, map_of, ipu, as_json, units)
            elif as_json:
                chosen = _Chosen(tile, ipu, breakdown, order, include_gaps, variables, top)
                print_json(_as_json(report, chosen))
            else:
                _print(report, tile, ipu, variables, units, top)


@dataclass(frozen=True)
class _Chosen:
    """Which tiles and series are asked for."""

    tiles: list[int] | None
    ipus: list[int] | None
    breakdown: _Breakdown
    order: _Order
    include_gaps: bool
    variables: bool
    top: int


def _as_json(report: Report, chosen: _Chosen) -> dict[str, object]:
    """Return the table, the fullest tiles and the series of every tile."""
    from tilescope.analyser.memory.lowered_variables import tile_variables
    from tilescope.analyser.memory.tile_memory import largest_tiles, memory_table, tile_memory

    table = memory_table(report, chosen.tiles, chosen.ipus)
    ranking = largest_tiles(report, chosen.top, chosen.ipus)
    series = tile_memory(report, chosen.breakdown.value, chosen.include_gaps)
    tile_id = _ordered_tiles(report, chosen)
    answer = report_json(report) | {
        "capacity_bytes": table.capacity_bytes,
        "columns": list(table.columns),
        "rows": [
            {"key": row.key, "label": row.label, "depth": row.depth, "bytes": list(row.bytes)}
            for row in table.rows
        ],
        "largest_tiles": {
            "tile_id": ranking.tile_id.tolist(),
            "ipu_id": ranking.ipu_id.tolist(),
            "including_gaps_bytes": ranking.including_gaps_bytes.tolist(),
            "excluding_gaps_bytes": ranking.excluding_gaps_bytes.tolist(),
        },
        "tiles": {
            "breakdown": series.breakdown,
            "include_gaps": series.include_gaps,
            "order": chosen.order.value,
            "tile_id": tile_id.tolist(),
            "total_bytes": series.total_bytes[tile_id].tolist(),
            "series_bytes": {
                label: values[tile_id].tolist() for label, values in series.series.items()
            },
        },
    }
    if chosen.variables and chosen.tiles:
        answer["variables"] = [
            _variables_json(tile_variables(report, tile)) for tile in chosen.tiles
        ]
    return answer


def _ordered_tiles(report: Report, chosen: _Chosen) -> NDArray[np.int64]:
    """Return the tiles of the series, in order."""
    import numpy as np

    from tilescope.analyser.machine.floor_plan import tile_order
    from tilescope.analyser.machine.target import target

    machine, tile_id = target(report), tile_order(report, chosen.order.value)
    if chosen.ipus:
        tile_id = tile_id[np.isin(tile_id // machine.tiles_per_ipu, chosen.ipus)]
    return tile_id


def _variables_json(variables: TileVariables) -> dict[str, object]:
    """Return the variables of a tile in columns."""
    return {
        "tile_id": variables.tile_id,
        "variable_id": variables.variable_id.tolist(),
        "name": list(variables.name),
        "dtype": list(variables.dtype),
        "category": list(variables.category),
        "offset_bytes": variables.offset_bytes.tolist(),
        "bytes": variables.bytes.tolist(),
        "start_step": variables.start_step.tolist(),
        "end_step": variables.end_step.tolist(),
        "is_always_live": variables.is_always_live.tolist(),
        "region": list(variables.region),
    }


def _print(
    report: Report,
    tiles: list[int] | None,
    ipus: list[int] | None,
    variables: bool,
    units: Units,
    top: int,
) -> None:
    """Print the table, then the fullest tiles or the tiles' variables."""
    from tilescope.analyser.memory.tile_memory import largest_tiles, memory_table
    from tilescope.analyser.quantities import format_bytes

    table = memory_table(report, tiles, ipus)
    print_line(
        f"Memory of {report.path}; {format_bytes(table.capacity_bytes, units.style)} per tile"
    )
    print_line()
    print_table(
        [Column(""), *(Column(title, is_number=True) for title in table.columns)],
        [
            ("  " * row.depth + row.label, *(format_bytes(size, units.style) for size in row.bytes))
            for row in table.rows
        ],
    )
    if variables:
        for tile in tiles or ():
            _print_variables(report, tile, units, top)
        return
    ranking = largest_tiles(report, top, ipus)
    print_line()
    print_table(
        [
            Column("Fullest tiles", is_number=True),
            Column("IPU", is_number=True),
            Column("Held", is_number=True),
            Column("% of capacity", is_number=True),
            Column("Highest address", is_number=True),
        ],
        [
            (
                str(tile),
                str(ipu),
                format_bytes(excluding, units.style),
                f"{excluding / ranking.capacity_bytes:.1%}",
                format_bytes(including, units.style),
            )
            for tile, ipu, including, excluding in zip(
                ranking.tile_id.tolist(),
                ranking.ipu_id.tolist(),
                ranking.including_gaps_bytes.tolist(),
                ranking.excluding_gaps_bytes.tolist(),
                strict=True,
            )
        ],
    )


def _print_variables(report: Report, tile: int, units: Units, top: int) -> None:
    """Print the largest parts on a tile."""
    from tilescope.analyser.memory.lowered_variables import tile_variables
    from tilescope.analyser.quantities import format_bytes, format_steps

    variables = tile_variables(report, tile)
    largest = (-variables.bytes).argsort(kind="stable")[:top].tolist()
    print_line()
    print_line(
        f"Tile {tile}: the {len(largest):,} largest of {len(variables):,} parts of variables"
    )
    print_table(
        [
            Column("Variable"),
            Column("Type"),
            Column("Address", is_number=True),
            Column("Size", is_number=True),
            Column("Region"),
            Column("Live", is_number=True),
        ],
        [
            (
                variables.name[part],
                variables.dtype[part],
                f"0x{variables.offset_bytes[part]:x}",
                format_bytes(int(variables.bytes[part]), units.style),
                variables.region[part].lower(),
                "always"
                if variables.is_always_live[part]
                else format_steps(int(variables.start_step[part]), int(variables.end_step[part])),
            )
            for part in largest
        ],
    )
