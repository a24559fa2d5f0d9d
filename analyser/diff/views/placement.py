"""Compute sets, codelets and exchanges of two reports on some tiles, aligned by their steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilescope.analyser.diff.alignment.calls import align_calls
from tilescope.analyser.diff.alignment.pairs import (
    Pair,
    by_change,
    matching_rows,
    paired_rows,
    pairs,
)
from tilescope.analyser.diff.alignment.steps import align_steps
from tilescope.analyser.memory.placement import (
    CodeletPlacement,
    ComputeSetPlacement,
    ExchangePlacement,
    codelet_placements,
    compute_set_placements,
    exchange_placements,
)
from tilescope.analyser.program.call_tree import call_tree
from tilescope.reports import schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilescope.reports import Report

__all__ = ["codelet_pairs", "compute_set_pairs", "exchange_pairs", "step_partners"]


def step_partners(baseline: Report, candidate: Report) -> dict[int, int]:
    """Return the candidate's step for every step of the baseline that both have; by identity."""
    calls = align_calls(call_tree(baseline), call_tree(candidate))
    return dict(align_steps(baseline, candidate, calls).pairs)


def compute_set_pairs(
    baseline: Report, candidate: Report, tiles: Sequence[int] = (), text: str = ""
) -> tuple[Pair[ComputeSetPlacement], ...]:
    """Return the compute sets of two reports, the largest change of bytes first.

    Those that the same steps run are the same; those that no step runs are paired by name.

    Parameters
    ----------
    baseline, candidate
        The reports.
    tiles
        Empty for all tiles; the same numbers on both sides.
    text
        As in `compute_set_placements`; a row is listed if it matches on one side.

    Raises
    ------
    BadQuestion
        When a report does not have one of the tiles.
    """
    partners = _compute_set_partners(baseline, candidate)

    def list_rows(report: Report, text: str) -> tuple[ComputeSetPlacement, ...]:
        return compute_set_placements(report, tiles, text)

    sides = matching_rows(baseline, candidate, list_rows, text)
    return by_change(
        paired_rows(
            *sides,
            number=lambda row: row.compute_set_id,
            partners=partners,
            fallback=lambda row: row.name if row.step_id is None else None,
        ),
        lambda row: row.bytes,
    )


def codelet_pairs(
    baseline: Report, candidate: Report, tiles: Sequence[int] = (), text: str = ""
) -> tuple[Pair[CodeletPlacement], ...]:
    """Return the codelets of two reports by name, the largest change of bytes first.

    Raises
    ------
    BadQuestion
        When a report does not have one of the tiles.
    """
    before, after = (
        {row.vertex_type: row for row in codelet_placements(report, tiles, text)}
        for report in (baseline, candidate)
    )
    return by_change(list(pairs(before, after)), lambda row: row.state_bytes + row.code_bytes)


def exchange_pairs(
    baseline: Report, candidate: Report, tiles: Sequence[int] = (), text: str = ""
) -> tuple[Pair[ExchangePlacement], ...]:
    """Return the exchanges of two reports by step, the largest change of code first.

    Raises
    ------
    BadQuestion
        When a report does not have one of the tiles.
    """

    def list_rows(report: Report, text: str) -> tuple[ExchangePlacement, ...]:
        return exchange_placements(report, tiles, text)

    sides = matching_rows(baseline, candidate, list_rows, text)
    return by_change(
        paired_rows(
            *sides,
            number=lambda row: row.step_id,
            partners=step_partners(baseline, candidate),
            fallback=lambda _: None,
        ),
        lambda row: row.code_bytes,
    )


def _compute_set_partners(baseline: Report, candidate: Report) -> dict[int, int]:
    """Return the candidate's compute set for that of the baseline, by the first step they share."""
    sets = [report.column(schema.step, "compute_set_id") for report in (baseline, candidate)]
    partners: dict[int, int] = {}
    used: set[int] = set()
    for step, after in sorted(step_partners(baseline, candidate).items()):
        before, partner = sets[0][step], sets[1][after]
        if None in {before, partner} or before in partners or partner in used:
            continue
        partners[before] = partner
        used.add(partner)
    return partners
