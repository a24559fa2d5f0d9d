"""Liveness of two reports side by side: steps by identity, live variables by name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.diff.align import longest_rise
from tilescope.analyser.diff.aligned import aligned_steps, cached_for_two
from tilescope.analyser.diff.pairs import SizeChange, size_changes
from tilescope.analyser.liveness import liveness_step_ids

if TYPE_CHECKING:
    from tilescope.analyser.liveness import LiveVariables
    from tilescope.reports import Report

__all__ = ["LivenessPairs", "align_liveness", "live_variable_changes"]


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
        return 1 + max(int(places.max(initial=-1)) for places in self.places)

    @property
    def n_pairs(self) -> int:
        """Number of steps that both sides have."""
        return int((self.partners[0] >= 0).sum())


@cached_for_two
def align_liveness(baseline: Report, candidate: Report) -> LivenessPairs:
    """Return which liveness steps of two reports are the same; see `align_steps`.

    Liveness steps of one step of the program are paired in order.
    """
    others = dict(aligned_steps(baseline, candidate).pairs)
    sides = [_occurrences(liveness_step_ids(report)) for report in (baseline, candidate)]
    partners = [np.full(len(side), -1, np.int64) for side in sides]
    position = {entry: index for index, entry in enumerate(sides[1])}
    for one, (step, occurrence) in enumerate(sides[0]):
        other = position.get((others.get(step, -1), occurrence), -1)
        if other >= 0:
            partners[0][one], partners[1][other] = other, one
    return LivenessPairs((partners[0], partners[1]), _places(partners[0], len(sides[1])))


def live_variable_changes(
    baseline: LiveVariables | None, candidate: LiveVariables | None
) -> tuple[SizeChange, ...]:
    """Return the bytes of live variables by name, the largest change first; equal ones by name.

    Parameters
    ----------
    baseline, candidate
        What is live on either side; None where a report does not have the step.
    """
    found = size_changes(_sizes(baseline), _sizes(candidate))
    return tuple(sorted(found, key=lambda change: (-abs(change.delta), change.key)))


def _occurrences(step_ids: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return step and occurrence of it for every liveness step."""
    seen: dict[int, int] = {}
    found = []
    for step in step_ids.tolist():
        found.append((step, seen.get(step, 0)))
        seen[step] = found[-1][1] + 1
    return found


def _places(
    partners: NDArray[np.int64], n_candidate: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of both sides on a common axis, the baseline first between two pairs."""
    in_order = longest_rise(
        [(one, other) for one, other in enumerate(partners.tolist()) if other >= 0]
    )
    places = np.empty(len(partners), np.int64), np.empty(n_candidate, np.int64)
    one = other = place = 0
    for next_one, next_other in [*in_order, (len(partners), n_candidate)]:
        for side, start, stop in ((0, one, next_one), (1, other, next_other)):
            places[side][start:stop] = np.arange(place, place + stop - start)
            place += stop - start
        if next_one < len(partners):
            places[0][next_one] = places[1][next_other] = place
            place += 1
        one, other = next_one + 1, next_other + 1
    return places


def _sizes(found: LiveVariables | None) -> dict[str, int]:
    """Return bytes by name; equal names are summed."""
    sizes: dict[str, int] = {}
    if found is not None:
        for name, size in zip(found.name, found.bytes.tolist(), strict=True):
            sizes[name] = sizes.get(name, 0) + size
    return sizes
