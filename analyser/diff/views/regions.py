"""Regions of two reports side by side: layers, phases, micro-batches, batches or runs by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilescope.analyser.diff.alignment.pairs import pairs
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.quantities import per_run, percent_of
from tilescope.analyser.time.runs import runs
from tilescope.analyser.trace import Region, regions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilescope.reports import Report

__all__ = ["RegionChange", "compare_regions"]


@dataclass(frozen=True)
class RegionChange:
    """The regions of one name on the sides that have some; cycles are per run, over the IPUs."""

    name: str
    baseline: Region | None
    candidate: Region | None
    baseline_cycles: int | float | None
    candidate_cycles: int | float | None

    @property
    def delta_cycles(self) -> int | float:
        """Candidate minus baseline; a missing side counts 0."""
        return (self.candidate_cycles or 0) - (self.baseline_cycles or 0)

    @property
    def percent_of_baseline(self) -> float | None:
        """Change in percent of the baseline; None if that is missing or 0."""
        return percent_of(self.baseline_cycles, self.delta_cycles)


def compare_regions(
    baseline: Report, candidate: Report, by: str, ipus: Sequence[int] | None = None
) -> tuple[RegionChange, ...]:
    """Return the regions of two reports by name, the largest change of cycles first.

    Parameters
    ----------
    baseline, candidate
        The reports.
    by
        One of `analyser.trace.REGIONS`. A run is compared as a whole, others per recorded run.
    ipus
        IPUs to look at, all by default.

    Raises
    ------
    BadQuestion
        When a side has no recorded run, none of these regions or too many executions, or an IPU
        has no trace.
    """
    for report in (baseline, candidate):
        if not runs(report):
            raise BadQuestion(
                f"{report.name} has no recorded run, so it has no regions to compare; run the"
                " model with a report, or compare by layer"
            )
    sides = [
        {row.name: row for row in regions(report, by, ipus=ipus).rows}
        for report in (baseline, candidate)
    ]
    n_runs = [1 if by == "run" else len(runs(report)) for report in (baseline, candidate)]
    changes = []
    for pair in pairs(*sides):
        cycles = [
            None if side is None else per_run(side.cycles, n)
            for side, n in zip((pair.baseline, pair.candidate), n_runs, strict=True)
        ]
        changes.append(RegionChange(pair.known.name, pair.baseline, pair.candidate, *cycles))
    return tuple(sorted(changes, key=lambda change: -abs(change.delta_cycles)))
