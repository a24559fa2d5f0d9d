"""Parameters shared by several commands."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from tilescope.analyser.machine.target import Source
    from tilescope.analyser.memory.variable_list import Sort
    from tilescope.analyser.quantities import BytesStyle

__all__ = [
    "AsJson",
    "ConfigOption",
    "IpuOption",
    "IpusOption",
    "ReportPath",
    "RunOption",
    "TopOption",
    "Units",
    "UnitsOption",
    "VariableSort",
    "examples",
    "parse_cycles",
    "tiles_of",
]


def examples(*lines: str) -> str:
    """Return the epilog of a command's help: a line per example, never wrapped."""
    return "\b\nExamples:\n" + "\n".join(f"  tilescope {line}" for line in lines)


class Units(StrEnum):
    """Format of byte counts."""

    BINARY = "binary"
    SI = "si"
    BYTES = "bytes"

    @property
    def style(self) -> BytesStyle:
        """The analyser's name of the format."""
        return self.value


class VariableSort(StrEnum):
    """Order of a list of variables: the largest first, or by name or first live step."""

    SIZE = "size"
    NAME = "name"
    TILES = "tiles"
    LARGEST = "largest"
    LIFETIME = "lifetime"
    START = "start"

    @property
    def name_of_order(self) -> Sort:
        """The analyser's name of the order."""
        return self.value


def tiles_of(ipu: int | None, tile: int | None) -> Source:
    """Return the tiles that ``--ipu`` and ``--tile`` select; reject both at once."""
    if ipu is not None and tile is not None:
        raise typer.BadParameter("--ipu and --tile are mutually exclusive.")
    if ipu is not None:
        return ("ipu", ipu)
    return "all" if tile is None else ("tile", tile)


def parse_cycles(text: str | None) -> tuple[int | None, int | None]:
    """Return the range ``a:b``; an omitted end is None.

    Raises
    ------
    BadQuestion
        When the text is none.
    """
    from tilescope.analyser.errors import BadQuestion

    if text is None:
        return None, None
    low, colon, high = (part.strip() for part in text.partition(":"))
    try:
        if not colon or max(len(low), len(high)) > 18:
            raise ValueError
        return (int(low) if low else None), (int(high) if high else None)
    except ValueError:
        raise BadQuestion(
            f"expected a range of cycles such as 1000:2000, got {text[:60]!r}"
        ) from None


ReportPath: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="REPORT",
        help="A profile.pop, or its directory.",
        show_default=False,
    ),
]
AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print JSON: raw numbers, units in keys.")
]
UnitsOption: TypeAlias = Annotated[
    Units, typer.Option("--units", help="Unit of memory: powers of 1024, powers of 1000, or bytes.")
]
TopOption: TypeAlias = Annotated[
    int, typer.Option("--top", min=1, help="Number of rows shown of a long list.")
]
ConfigOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Configuration; default: the nearest tilescope.toml here or above.",
        show_default=False,
    ),
]
IpuOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--ipu",
        min=0,
        metavar="N",
        help="Count this IPU only; default: all, and time on the critical path.",
        show_default=False,
    ),
]
IpusOption: TypeAlias = Annotated[
    list[int] | None,
    typer.Option(
        "--ipu", min=0, metavar="N", help="This IPU only; repeatable.", show_default=False
    ),
]
RunOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--run",
        min=0,
        metavar="N",
        help="Count this recorded run only; default: all runs.",
        show_default=False,
    ),
]
