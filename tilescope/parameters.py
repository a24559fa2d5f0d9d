"""Parameters shared by several commands."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from tilescope.analyser.quantities import BytesStyle

__all__ = ["AsJson", "ConfigOption", "ReportPath", "TopOption", "Units", "UnitsOption"]


class Units(StrEnum):
    """Format of byte counts."""

    BINARY = "binary"
    SI = "si"
    BYTES = "bytes"

    @property
    def style(self) -> BytesStyle:
        """The analyser's name of the format."""
        return self.value


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
