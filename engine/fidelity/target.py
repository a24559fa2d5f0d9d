"""What is published: targets.toml as typed rows."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

__all__ = ["Figure", "Target", "all_targets"]


@dataclass(frozen=True)
class Figure:
    """One published number.

    Parameters
    ----------
    tolerance
        A share of the published number, or with ``kind`` absolute an amount of its unit.
    needs
        What is missing before it can be built; empty when nothing is.
    """

    name: str
    published: float
    unit: str
    tolerance: float
    kind: str = "relative"
    counted: bool = True
    needs: str = ""


@dataclass(frozen=True)
class Target:
    """A published program or machine with its figures; it is scored once.

    Parameters
    ----------
    machine
        The preset and the parameter set that the program is compiled for.
    note
        What the comparison rests on, or cannot show.
    """

    target_id: str
    what: str
    source: str
    machine: str
    figures: tuple[Figure, ...]
    note: str = ""

    @property
    def is_counted(self) -> bool:
        """Whether any of its figures counts."""
        return any(figure.counted for figure in self.figures)


@cache
def all_targets() -> Mapping[str, Target]:
    """Return the targets by id, in the order of the file."""
    path = resources.files("engine.fidelity") / "targets.toml"
    found = {}
    for target_id, entry in tomllib.loads(path.read_text(encoding="utf-8")).items():
        shared = {"counted": entry.get("counted", True), "needs": entry.get("needs", "")}
        figures = tuple(Figure(**{**shared, **figure}) for figure in entry["figures"])
        found[target_id] = Target(
            target_id,
            entry["what"],
            entry["source"],
            entry["machine"],
            figures,
            entry.get("note", ""),
        )
    return found
