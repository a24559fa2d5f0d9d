"""Maps of the tiles of two reports: what more the candidate holds on every tile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.target import target
from tilescope.analyser.memory.variables import (
    BREAKDOWN_VARIABLES,
    VARIABLE,
    MappedMemory,
    mapped_memory,
    shown_memory,
)

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = ["mapped_change"]


def mapped_change(baseline: Report, candidate: Report, what: str) -> MappedMemory:
    """Return the bytes of the candidate minus those of the baseline, on every tile.

    Parameters
    ----------
    baseline, candidate
        The reports.
    what
        As `mapped_memory` takes it; of a variable that one report lacks, that one holds nothing.

    Returns
    -------
    MappedMemory
        Signed bytes.

    Raises
    ------
    BadQuestion
        As `mapped_memory`, or when the machines do not have the same tiles.
    """
    shapes = [(target(one).n_ipus, target(one).tiles_per_ipu) for one in (baseline, candidate)]
    if shapes[0] != shapes[1]:
        described = [f"{n_ipus} x {tiles:,} tiles" for n_ipus, tiles in shapes]
        raise BadQuestion(
            f"the machines differ ({described[0]} and {described[1]}), so tiles have no difference;"
            " show one of the reports"
        )
    one, other = (_side(report, what) for report in (baseline, candidate))
    if one is None or other is None:
        known = mapped_memory(candidate if one is None else baseline, what)
        sign = 1 if one is None else -1
        return MappedMemory(known.title, sign * known.tile_bytes)
    title = one.title if one.title == other.title else f"{one.title} and {other.title}"
    return MappedMemory(title, other.tile_bytes - one.tile_bytes)


def _side(report: Report, what: str) -> MappedMemory | None:
    """Return what a report holds; None if it lacks the variables."""
    if what.startswith(VARIABLE):
        text = what.removeprefix(VARIABLE)
        found = shown_memory(report, BREAKDOWN_VARIABLES, text=text, may_lack=True)
        if not found.total_bytes.any():
            return None
    return mapped_memory(report, what)
