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


def mapped_change(baseline: Report, candidate: Report, name: str) -> MappedMemory:
    """Return the bytes of the candidate minus those of the baseline, on every tile.

    Parameters
    ----------
    baseline, candidate
        The reports.
    name
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
    shapes = [
        (target(before).n_ipus, target(before).tiles_per_ipu) for before in (baseline, candidate)
    ]
    if shapes[0] != shapes[1]:
        described = [f"{n_ipus} x {tiles:,} tiles" for n_ipus, tiles in shapes]
        raise BadQuestion(
            f"the machines differ ({described[0]} and {described[1]}), so tiles have no difference;"
            " show one of the reports"
        )
    before, after = (_side(report, name) for report in (baseline, candidate))
    if before is None or after is None:
        known = mapped_memory(candidate if before is None else baseline, name)
        sign = 1 if before is None else -1
        return MappedMemory(known.title, sign * known.tile_bytes)
    title = before.title if before.title == after.title else f"{before.title} and {after.title}"
    return MappedMemory(title, after.tile_bytes - before.tile_bytes)


def _side(report: Report, name: str) -> MappedMemory | None:
    """Return what a report holds; None if it lacks the variables."""
    if name.startswith(VARIABLE):
        text = name.removeprefix(VARIABLE)
        memory = shown_memory(report, BREAKDOWN_VARIABLES, text=text, may_lack=True)
        if not memory.total_bytes.any():
            return None
    return mapped_memory(report, name)
