"""What a run gains or loses by each change: of steps between two meetings, the later IPU counts.

IPUs meet in external syncs, and between two meetings the run takes as long as the IPU that takes
longest. A change on an IPU that the others do not wait for costs the run nothing. Where several
steps change between two meetings, each has the mean of what it adds when changes are made in the
order of their size, and of what undoing them in that order takes away; so impacts add up to the
change of the run, and are the opposite when the two reports change places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Side", "step_impacts"]


@dataclass(frozen=True)
class Side:
    """The steps of a report.

    Attributes
    ----------
    own : ndarray of int64, shape (n_ipus, n_steps), cycles
        Time of one run without waiting for other IPUs.
    critical : ndarray of int64, shape (n_steps,), cycles
        Time of one run on the critical path; None without a run.
    is_meeting : ndarray of bool, shape (n_steps,)
        Whether the step syncs externally.
    group : ndarray of int64, shape (n_steps,)
        Steps of one group change together.
    """

    own: NDArray[np.int64]
    critical: NDArray[np.int64] | None
    is_meeting: NDArray[np.bool_]
    group: NDArray[np.int64]


def step_impacts(
    before: Side, after: Side, pairs: Sequence[tuple[int, int]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what a run gains or loses by the change of every step, cycles.

    Parameters
    ----------
    before, after
        The two reports.
    pairs
        Steps that are the same on both sides.

    Returns
    -------
    tuple of ndarray of float64, shapes (n_steps_before,) and (n_steps_after,)
        The impact of a pair is its baseline step's.
    """
    n_ipus = max(len(before.own), len(after.own))
    own_cycles = [_padded(side.own, n_ipus) for side in (before, after)]
    regions = _regions(before, after, pairs)
    units = _units(before, after, pairs, regions)
    change = np.zeros((len(units), n_ipus), np.int64)
    for side, sign in ((0, -1), (1, 1)):
        has = units[:, side] >= 0
        change[has] += sign * own_cycles[side][:, units[has, side]].T
    moved = change.any(axis=1)
    units, change = units[moved], change[moved]
    order = _order(units, change)
    units, change = units[order], change[order]

    n_regions = 1 + max(int(side.max(initial=0)) for side in regions)
    busy = [_by_region(own_cycles[side], regions[side], n_regions) for side in (0, 1)]
    region = units[:, 2]
    first = np.searchsorted(region, region)  # of the region's units
    added = np.cumsum(change, axis=0)
    earlier_change = added - (added - change)[first]
    impact = np.zeros(len(units))
    for start, sign in ((busy[0], 1), (busy[1], -1)):
        times = (start[region] + sign * earlier_change).max(axis=1, initial=0)
        earlier = (start[region] + sign * (earlier_change - change)).max(axis=1, initial=0)
        impact += sign * (times - earlier) / 2
    if before.critical is not None and after.critical is not None:
        # What IPUs that meet more often, or else than in this order, take beside.
        rest = np.zeros(n_regions)
        for side, critical, sign in ((0, before.critical, -1), (1, after.critical, 1)):
            np.add.at(rest, regions[side], sign * critical)
            rest -= sign * busy[side].max(axis=1, initial=0)
        starts = np.unique(first)  # units of a region begin with the largest
        impact[starts] += rest[region[starts]]
    impacts = np.zeros(before.own.shape[1]), np.zeros(after.own.shape[1])
    is_new = units[:, 0] < 0
    impacts[0][units[~is_new, 0]] = impact[~is_new]
    impacts[1][units[is_new, 1]] = impact[is_new]
    return impacts


def _padded(own_cycles: NDArray[np.int64], n_ipus: int) -> NDArray[np.int64]:
    """Return times with rows for IPUs that only the other side has."""
    return np.pad(own_cycles, ((0, n_ipus - len(own_cycles)), (0, 0)))


def _regions(
    before: Side, after: Side, pairs: Sequence[tuple[int, int]]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return after how many of the meetings that both sides have every step comes.

    A meeting belongs to what follows it: IPUs are released there.
    """
    met: list[tuple[int, int]] = []
    for item, peer in sorted(pairs):
        is_shared = before.is_meeting[item] and after.is_meeting[peer]
        if is_shared and (not met or peer > met[-1][1]):
            met.append((item, peer))
    first, second = (
        np.searchsorted([pair[side] for pair in met], np.arange(n_steps), side="right")
        for side, n_steps in ((0, len(before.is_meeting)), (1, len(after.is_meeting)))
    )
    return first, second


def _units(
    before: Side,
    after: Side,
    pairs: Sequence[tuple[int, int]],
    regions: tuple[NDArray[np.intp], NDArray[np.intp]],
) -> NDArray[np.int64]:
    """Return what may change: int64, shape (n_units, 4).

    Columns are the steps of both sides, -1 for none, region and group. A pair that lies in other
    regions is a step that goes and one that comes.
    """
    rows = np.array(pairs, np.int64).reshape(-1, 2)
    same = rows[regions[0][rows[:, 0]] == regions[1][rows[:, 1]]]
    gone = np.setdiff1d(np.arange(len(before.group)), same[:, 0])
    come = np.setdiff1d(np.arange(len(after.group)), same[:, 1])
    none = np.full(len(gone), -1), np.full(len(come), -1)
    return np.concatenate(
        [
            np.stack([same[:, 0], same[:, 1], regions[0][same[:, 0]], before.group[same[:, 0]]], 1),
            np.stack([gone, none[0], regions[0][gone], before.group[gone]], 1),
            np.stack([none[1], come, regions[1][come], after.group[come]], 1),
        ]
    )


def _order(units: NDArray[np.int64], change: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the order of units: by region, then groups that change most, then steps that do."""
    keys, of_unit = np.unique(units[:, 2:], axis=0, return_inverse=True)
    net = np.zeros((len(keys), change.shape[1]), np.int64)
    np.add.at(net, of_unit.reshape(-1), change)
    size = np.abs(net).max(axis=1, initial=0)[of_unit.reshape(-1)]
    return np.lexsort((-np.abs(change).max(axis=1, initial=0), units[:, 3], -size, units[:, 2]))


def _by_region(
    own_cycles: NDArray[np.int64], regions: NDArray[np.intp], n_regions: int
) -> NDArray[np.int64]:
    """Return the time of every IPU in every region: int64, shape (n_regions, n_ipus)."""
    region_cycles = np.zeros((n_regions, len(own_cycles)), np.int64)
    np.add.at(region_cycles, regions, own_cycles.T)
    return region_cycles
