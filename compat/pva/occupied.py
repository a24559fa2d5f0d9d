"""Cycles of tiles as lists; steps have few different ones, so the last lists are kept."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from tilescope.analyser.cache import cached
from tilescope.analyser.machine.target import target
from tilescope.analyser.time.execution import costs
from tilescope.analyser.time.occupancy import cost_rows, occupied_cycles

if TYPE_CHECKING:
    from tilescope.reports import Report as Opened

__all__ = ["cycles_by_tile", "estimated_cycles_by_tile"]

#: Lists kept per report; each takes some 50 KB on a machine of 1,472 tiles.
_KEPT_LISTS = 512


@cached
def _lists(_opened: Opened) -> OrderedDict[tuple[int, int], list[int]]:
    """Return where the last lists of a report are kept, by pattern and time of the step."""
    return OrderedDict()


def cycles_by_tile(opened: Opened, pattern_id: int, cycles: int) -> list[int]:
    """Return for how long an execution of a step occupies every tile of an IPU, a list to keep."""
    cache = _lists(opened)
    cycle_list = cache.get((pattern_id, cycles))
    if cycle_list is None:
        cycle_list = occupied_cycles(opened, pattern_id, cycles).tolist()
        cache[pattern_id, cycles] = cycle_list
        if len(cache) > _KEPT_LISTS:
            cache.popitem(last=False)
    return cycle_list.copy()


def estimated_cycles_by_tile(opened: Opened, step_id: int) -> list[int]:
    """Return for how long one execution of a step occupies every tile, from its cost."""
    rows, column = cost_rows(opened), costs(opened).column
    answer: list[int] = []
    for ipu_id in range(target(opened).n_ipus):
        row = rows.get((step_id, ipu_id))
        cost = (
            (-1, 0) if row is None else (int(column["pattern_id"][row]), int(column["cycles"][row]))
        )
        answer += cycles_by_tile(opened, *cost)
    return answer
