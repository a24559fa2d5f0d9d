"""A map of the tiles in characters: how much of something every tile holds, as the tiles lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilescope.console import print_json, print_line, report_json

if TYPE_CHECKING:
    from tilescope.analyser.memory.variables import MappedMemory
    from tilescope.parameters import Units
    from tilescope.reports import Report

__all__ = ["show_map"]

#: Darkness by share of the largest value; a tile with nothing has the first.
_SHADES = " .:-=+*#%@"
_NO_TILE = "_"


def show_map(
    report: Report, shown_quantity: str, ipus: list[int] | None, as_json: bool, units: Units
) -> None:
    """Print a map per IPU, or its numbers as JSON.

    Parameters
    ----------
    report
        The report.
    shown_quantity
        ``total``, ``gaps``, a category of memory, or ``variable:NAME``.
    ipus
        IPUs to draw; all of them by default.
    as_json
        Whether to print JSON.
    units
        Unit of memory.

    Raises
    ------
    BadQuestion
        When it is none of these, or the report holds no memory.
    """
    from tilescope.analyser.machine.floor_plan import floor_plan, grid
    from tilescope.analyser.machine.target import target, tile_range
    from tilescope.analyser.memory.variables import mapped_memory

    memory, plan = mapped_memory(report, shown_quantity), floor_plan(report)
    chosen = ipus or list(range(target(report).n_ipus))
    for ipu in chosen:
        tile_range(report, ("ipu", ipu))
    if as_json:
        print_json(
            report_json(report)
            | {
                "map": shown_quantity,
                "n_rows": plan.n_rows,
                "n_columns": plan.n_columns,
                "ipus": [
                    {"ipu_id": ipu, "bytes": grid(report, memory.tile_bytes, ipu).tolist()}
                    for ipu in chosen
                ],
            }
        )
        return
    _print(report, memory, chosen, units)


def _print(report: Report, memory: MappedMemory, ipus: list[int], units: Units) -> None:
    """Print the maps and their scale."""
    from tilescope.analyser.machine.floor_plan import grid
    from tilescope.analyser.quantities import format_bytes

    maximum = int(memory.tile_bytes.max(initial=0))
    print_line(f"{memory.title} by tile of {report.path}")
    for ipu in ipus:
        print_line()
        print_line(f"IPU {ipu}, a column of characters per column of tiles")
        for row, values in enumerate(grid(report, memory.tile_bytes, ipu).tolist()):
            print_line(f"{row:>3} " + "".join(_shade(value, maximum) for value in values))
    print_line()
    print_line(f"'{_SHADES[0]}' nothing")
    if maximum:
        step = maximum / (len(_SHADES) - 1)
        for level, shade in enumerate(_SHADES[1:]):
            low, high = int(level * step), int((level + 1) * step)
            print_line(
                f"'{shade}' above {format_bytes(low, units.style)},"
                f" up to {format_bytes(high, units.style)}"
            )


def _shade(value: int, maximum: int) -> str:
    """Return the character of a value."""
    if value < 0:
        return _NO_TILE
    n_levels = len(_SHADES) - 1
    return _SHADES[-(-value * n_levels // maximum)] if value else _SHADES[0]
