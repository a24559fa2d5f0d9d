"""Parameters that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from tilescope.analyser.quantities import BytesStyle

__all__ = ["AsJson", "ReportPath", "TopOption", "Units", "UnitsOption"]


class Units(StrEnum):
    """How bytes are written."""

    BINARY = "binary"
    SI = "si"
    BYTES = "bytes"

    @property
    def style(self) -> BytesStyle:
        """The same as the analyser takes it."""
        return self.value


ReportPath: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="REPORT",
        help="A profile.pop, or the directory it lies in.",
        show_default=False,
    ),
]
AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print JSON: raw numbers, units in the keys.")
]
UnitsOption: TypeAlias = Annotated[
    Units, typer.Option("--units", help="Memory in multiples of 1024, of 1000, or in bytes.")
]
TopOption: TypeAlias = Annotated[
    int, typer.Option("--top", min=1, help="How many rows of a long list to show.")
]
