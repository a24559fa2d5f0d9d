"""Published figures: references.toml and further.toml as typed rows."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tilescope.engine.fidelity.score import FURTHER_TOLERANCE

__all__ = ["Figure", "Reference", "all_references"]


@dataclass(frozen=True)
class Figure:
    """One published number.

    Parameters
    ----------
    tolerance
        A fraction of the published number, or with ``kind`` absolute an amount in its unit.
    needs
        Missing feature that prevents building it; empty if there is none.
    gave_law
        Whether a cost model was fitted to it, so that agreement proves nothing.
    """

    name: str
    published: float
    unit: str
    tolerance: float
    kind: str = "relative"
    counted: bool = True
    needs: str = ""
    gave_law: bool = False


@dataclass(frozen=True)
class Reference:
    """A published program or machine with its figures; scored once.

    Parameters
    ----------
    machine
        The preset and the parameter set that the program is compiled for.
    note
        Assumptions and limits of the comparison.
    is_further
        Whether it was tested after the laws were set; such a reference does not count.
    """

    reference_id: str
    what: str
    source: str
    machine: str
    figures: tuple[Figure, ...]
    note: str = ""
    is_further: bool = False

    @property
    def is_counted(self) -> bool:
        """Whether any figure counts."""
        return any(figure.counted for figure in self.figures)


@cache
def all_references() -> Mapping[str, Reference]:
    """Return the references by id, in the order of the files."""
    return {**_references("references.toml"), **_references("further.toml", is_further=True)}


def _references(name: str, *, is_further: bool = False) -> dict[str, Reference]:
    path = Path(__file__).parent / name
    results = {}
    for reference_id, entry in tomllib.loads(path.read_text(encoding="utf-8")).items():
        counted = not is_further and entry.get("counted", True)
        shared = {"counted": counted, "needs": entry.get("needs", "")}
        if is_further:
            shared["tolerance"] = FURTHER_TOLERANCE
        figures = tuple(Figure(**{**shared, **figure}) for figure in entry["figures"])
        results[reference_id] = Reference(
            reference_id,
            entry["what"],
            entry["source"],
            entry["machine"],
            figures,
            entry.get("note", ""),
            is_further,
        )
    return results
