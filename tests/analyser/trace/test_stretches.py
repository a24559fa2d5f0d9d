"""Stretches and causes of cycles, beside their definitions written out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tilescope import analyser
from tilescope.analyser import trace
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.time.execution import execution
from tilescope.analyser.trace import run_cuts
from tilescope.analyser.trace.causes import CAUSES
from tilescope.analyser.trace.stretch import maximal_stretches
from tilescope.reports import Report

from .conftest import N_TILES, STEPS, executions, loop, sequence

Make = Callable[..., Report]


def by_definition(score: NDArray[np.int64], shift: int = 0) -> list[tuple[int, int]]:
    """Return the best range, the shortest of equal ones, and those left and right of it."""
    n = len(score)
    sums = {
        (low, high): int(score[low:high].sum())
        for low in range(n)
        for high in range(low + 1, n + 1)
    }
    best = max(sums, key=lambda item: (sums[item], item[0] - item[1], -item[0]), default=None)
    if best is None or sums[best] <= 0:
        return []
    low, high = best
    return [
        *by_definition(score[:low], shift),
        (low + shift, high + shift),
        *by_definition(score[high:], shift + high),
    ]


@pytest.mark.parametrize("seed", range(60))
def test_maximal_stretches_are_those_of_the_definition(seed: int) -> None:
    random = np.random.default_rng(seed)
    score = random.integers(-4, 4, random.integers(0, 14))
    assert maximal_stretches(score) == by_definition(score)


def test_many_stretches_take_no_time_to_join() -> None:
    score = np.where(np.arange(400_001) % 2, -2, 3)
    assert maximal_stretches(score) == [(0, 400_001)]
    assert len(maximal_stretches(np.where(np.arange(400_001) % 2, -3, 2))) == 200_001


def causes_of(step: int, cycles: int) -> dict[str, float]:
    """Return what the cycles of an execution go to, from the table of steps."""
    kind, _, cost = STEPS[step]
    waiting = max(0, cycles - cost)
    if kind == "OnTileExecute":
        busiest, mean = cost, 1.5 * cost / N_TILES
        return {"waiting": waiting, "imbalance": round(busiest - mean)}
    name = {"DoExchange": "exchange", "Sync": "sync", "StreamCopyMid": "host"}[kind]
    return {"waiting": waiting, name: cycles - waiting}


@pytest.mark.parametrize("count", [3, 6_000])
def test_all_cycles_go_to_one_cause_each(make: Make, count: int) -> None:
    # The sync at 99 waits for 20 cycles, and nothing runs from 126 to 300.
    entries = [*sequence(0), (5, 99, 126, 0, 1), *loop(300, count, (0, 1, 3))]
    every = executions(entries)
    found = trace.stretches(make([(0, 0, 0, entries)]))
    expected: dict[str, float] = dict.fromkeys((*CAUSES, "work"), 0)
    expected["waiting"] = 300 - 126
    for start, end, step in every:
        for cause, cycles in causes_of(step, end - start).items():
            expected[cause] += cycles
    total = every[-1][1]
    expected["work"] = total - sum(expected.values())
    assert {share.cause: share.cycles for share in found.shares} == expected
    assert found.cycles == total
    assert sum(share.share for share in found.shares) == pytest.approx(1)


def test_a_stretch_is_named_placed_and_counted(make: Make) -> None:
    # Twice the same: an exchange and a sync of 15 cycles beside 40 of compute.
    entries = [*sequence(0, (0, 1, 2)), *sequence(55, (0, 1, 2))]
    found = trace.stretches(make([(0, 0, 0, entries), (1, 0, 0, sequence(200, (0, 1, 2)))]))
    (exchange,) = found.of("exchange")
    assert (exchange.name, exchange.step_id) == ("net/conv1/convolve", 1)
    assert (exchange.start_cycle, exchange.end_cycle, exchange.cause_cycles) == (40, 50, 10)
    assert (exchange.count, exchange.total_cause_cycles, exchange.ipus) == (3, 30, (0,))
    assert exchange.share == pytest.approx(30 / found.cycles)
    # 25 of 40 cycles of the compute step are imbalance: 40 of the busiest tile less a mean of 15.
    assert [(row.start_cycle, row.cause_cycles) for row in found.of("imbalance")] == [(0, 25)]
    costly = [row.total_cause_cycles for row in found.rows]
    assert costly == sorted(costly, reverse=True)


def test_stretches_end_with_their_run(make: Make) -> None:
    # The first run ends with an exchange, and the second one begins with it.
    report = make([(0, 0, 0, sequence(0, (0, 1))), (1, 0, 0, sequence(50, (1, 0)))])
    (row,) = trace.stretches(report).of("exchange")
    assert (row.count, row.n_executions, row.cycles) == (2, 1, 10)


def test_a_range_cuts_executions(make: Make) -> None:
    report = make([(0, 0, 0, sequence(0))])
    found = trace.stretches(report, 44, 52)
    # Four cycles of the exchange are before the range, and three of the sync behind it.
    assert {share.cause: share.cycles for share in found.shares if share.cycles} == {
        "exchange": 6,
        "sync": 2,
    }
    assert [(row.start_cycle, row.end_cycle) for row in found.rows] == [(44, 50), (50, 52)]


def test_equal_stretches_of_ipus_are_one_row(make: Make) -> None:
    report = make([(0, ipu, 0, sequence(0)) for ipu in range(3)], 3)
    (row,) = trace.stretches(report).of("exchange")
    assert (row.ipus, row.count) == ((0, 1, 2), 3)
    assert trace.stretches(report, ipus=[1]).of("exchange")[0].ipus == (1,)


def test_too_many_executions_are_refused(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_cuts, "MOST_EXECUTIONS", 5)
    report = make([(0, 0, 0, sequence(0))])
    with pytest.raises(BadQuestion, match="more than 5 executions, too many"):
        trace.stretches(report)
    assert trace.stretches(report, 40, 55).rows


@pytest.mark.parametrize("name", ["train", "run"])
def test_waiting_is_what_the_critical_path_waits(pipelines: Path, name: str) -> None:
    with analyser.open(pipelines / name) as report:
        ran = execution(report)
        for ipu_id in range(3):
            found = trace.stretches(report, ipus=[ipu_id])
            cycles = {share.cause: share.cycles for share in found.shares}
            assert cycles["waiting"] == ran.waiting_cycles[ipu_id].sum() > 0
            kinds = trace.range_summary(report, ipus=[ipu_id]).ipus[0].cycles_by_kind
            exchange = kinds["exchange"] + kinds["global_exchange"]
            assert cycles["exchange"] == exchange
            assert found.cycles == sum(kinds.values())
