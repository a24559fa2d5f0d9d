"""The published figures of `published.toml` as typed rows."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["MACHINES", "Figures", "Row", "all_rows"]

#: Presets by the names of the table's figures; all rows are of the IPU Model.
MACHINES = ("gc2", "gc200")


@dataclass(frozen=True)
class Figures:
    """What one program takes.

    Parameters
    ----------
    cycles
        Of one run.
    memory
        Bytes of what is always live, plus by tile the peak of what comes and goes, over all tiles.
    fullest
        Bytes of the fullest tile, with gaps.
    """

    cycles: int
    memory: int
    fullest: int


@dataclass(frozen=True)
class Row:
    """A published program on a machine.

    Parameters
    ----------
    name
        Its name in the source.
    program
        What kind of program it is: the table's heading.
    parameters
        Its sizes by the names of the table.
    machine
        One of `MACHINES`.
    published
        The figures of the source.
    """

    name: str
    program: str
    parameters: Mapping[str, Any]
    machine: str
    published: Figures

    @property
    def key(self) -> str:
        """The row's name in results."""
        return f"{self.name}@{self.machine}"


@cache
def all_rows() -> tuple[Row, ...]:
    """Return the rows in the order of the table."""
    text = (Path(__file__).parent / "published.toml").read_text(encoding="utf-8")
    rows = []
    for program, entries in tomllib.loads(text).items():
        for name, entry in entries.items():
            sizes = {key: value for key, value in entry.items() if key not in MACHINES}
            rows += [
                Row(name, program, sizes, machine, Figures(*entry[machine]))
                for machine in MACHINES
                if machine in entry
            ]
    return tuple(rows)
