"""Liveness of two reports side by side: steps by identity, live variables by name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.diff.alignment.align import longest_rise
from tilescope.analyser.diff.alignment.aligned import aligned_steps, cached_for_two
from tilescope.analyser.diff.alignment.pairs import Pair, by_change, paired_rows
from tilescope.analyser.diff.alignment.variables import variable_partners
from tilescope.analyser.memory.live_columns import (
    AlwaysLiveRow,
    LiveRow,
    always_live_rows,
    live_columns,
)
from tilescope.analyser.memory.liveness import liveness_step_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilescope.analyser.machine.target import Source
    from tilescope.reports import Report

__all__ = [
    "LivenessPairs",
    "align_liveness",
    "always_live_pairs",
    "live_column_pairs",
]


@dataclass(frozen=True, eq=False)
class LivenessPairs:
    """Liveness steps of a baseline with the same steps of a candidate.

    Attributes
    ----------
    partners : tuple of two ndarrays of int64, shape (n_steps of the side,)
        Step of the other side for every step of the baseline and of the candidate, -1 for none.
    places : tuple of two ndarrays of int64, shape (n_steps of the side,)
        Ascending positions on a common axis of ``n_places``: pairs in order share a place, other
        steps have one of their own.
    """

    partners: tuple[NDArray[np.int64], NDArray[np.int64]]
    places: tuple[NDArray[np.int64], NDArray[np.int64]]

    @cached_property
    def n_places(self) -> int:
        """Length of the common axis."""
        return 1 + max(int(place.max(initial=-1)) for place in self.places)

    @property
    def n_pairs(self) -> int:
        """Number of steps that both sides have."""
        return int((self.partners[0] >= 0).sum())


@cached_for_two
def align_liveness(baseline: Report, candidate: Report) -> LivenessPairs:
    """Return which liveness steps of two reports are the same; see `align_steps`.

    Liveness steps of one step of the program are paired in order.
    """
    candidate_steps = dict(aligned_steps(baseline, candidate).pairs)
    sides = [_occurrences(liveness_step_ids(report)) for report in (baseline, candidate)]
    partners = [np.full(len(side), -1, np.int64) for side in sides]
    position = {entry: index for index, entry in enumerate(sides[1])}
    for before, (step, occurrence) in enumerate(sides[0]):
        partner = position.get((candidate_steps.get(step, -1), occurrence), -1)
        if partner >= 0:
            partners[0][before], partners[1][partner] = partner, before
    return LivenessPairs((partners[0], partners[1]), _places(partners[0], len(sides[1])))


def live_column_pairs(
    baseline: Report,
    candidate: Report,
    steps: Sequence[tuple[int | None, int | None]],
    source: Source = "all",
) -> tuple[Pair[LiveRow], ...]:
    """Return what is live but not always at some steps of two reports, the largest change first.

    Variables are paired by identity, not by name: see `variable_partners`.

    Parameters
    ----------
    baseline, candidate
        The reports.
    steps
        Every step on both sides; None where a report does not have it.
    source
        All tiles, an IPU or a tile.

    Raises
    ------
    BadQuestion
        When a step, IPU or tile does not exist.
    """
    before = live_columns(baseline, [step for step, _ in steps], source)
    after = live_columns(candidate, [step for _, step in steps], source)
    pairs = paired_rows(
        before,
        after,
        (*before, *after),
        number=lambda row: row.variable_id,
        partners=variable_partners(baseline, candidate),
    )

    def change(pair: Pair[LiveRow]) -> int:
        sides = [pair.baseline.bytes if pair.baseline else (), pair.candidate.bytes
                 if pair.candidate else ()]  # fmt: skip
        sizes = zip_longest(*sides, fillvalue=None)
        return max((abs((new or 0) - (old or 0)) for old, new in sizes), default=0)

    return tuple(sorted(pairs, key=lambda pair: (-change(pair), pair.key)))


def always_live_pairs(
    baseline: Report, candidate: Report, source: Source = "all"
) -> tuple[Pair[AlwaysLiveRow], ...]:
    """Return what is always live in two reports, the largest change first.

    Variables are paired by identity; code and state, which belong to none, by name.

    Raises
    ------
    BadQuestion
        When a report does not have the IPU or tile.
    """
    before, after = always_live_rows(baseline, source), always_live_rows(candidate, source)
    pairs = paired_rows(
        before,
        after,
        (*before, *after),
        number=lambda row: row.number,
        partners=variable_partners(baseline, candidate),
        fallback=lambda row: row.name if row.number < 0 else None,
    )
    return by_change(pairs, lambda row: row.bytes)


def _occurrences(step_ids: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return step and occurrence of it for every liveness step."""
    n_seen: dict[int, int] = {}
    occurrences = []
    for step in step_ids.tolist():
        occurrences.append((step, n_seen.get(step, 0)))
        n_seen[step] = occurrences[-1][1] + 1
    return occurrences


def _places(
    partners: NDArray[np.int64], n_candidate: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of both sides on a common axis, the baseline first between two pairs."""
    in_order = longest_rise(
        [(index, partner) for index, partner in enumerate(partners.tolist()) if partner >= 0]
    )
    positions = np.empty(len(partners), np.int64), np.empty(n_candidate, np.int64)
    index = partner = position = 0
    for next_one, next_other in [*in_order, (len(partners), n_candidate)]:
        for side, start, stop in ((0, index, next_one), (1, partner, next_other)):
            positions[side][start:stop] = np.arange(position, position + stop - start)
            position += stop - start
        if next_one < len(partners):
            positions[0][next_one] = positions[1][next_other] = position
            position += 1
        index, partner = next_one + 1, next_other + 1
    return positions
