"""Time insights: figures computed on paper for the small report, and planted faults."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.analyser.small_report import Shape

from tilescope.analyser.advice import time_insights as module
from tilescope.analyser.advice.time_insights import (
    BOUNDS_OF_GAINS,
    InsightKind,
    TimeInsight,
    time_insights,
)
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.time.execution import PHASES, execution


def by_kind(report, run_id=None):
    results: dict[str, list[TimeInsight]] = {}
    for insight in time_insights(report, run_id).found:
        results.setdefault(insight.kind, []).append(insight)
    return results


def test_the_imbalance_of_the_small_report(small):
    # Both compute sets belong to layer1/conv. In the convolution, tiles of IPU 0 are busy for 200,
    # 150, 100 and 50 cycles: 200 − 125 = 75 are lost in each of two runs. Relu is balanced.
    (insight,) = by_kind(small)["imbalance"]
    assert (insight.subject, insight.gain_cycles) == ("layer1/conv", 150)
    assert insight.cost_cycles == 2 * 200  # of the step that is not balanced
    assert insight.step_ids == (3,)
    assert "4 of 4 tiles compute in layer1/conv; the busiest takes 200 cycles" in insight.text
    assert "the mean over all tiles is 125" in insight.text
    (single,) = by_kind(small, 0)["imbalance"]
    assert single.gain_cycles == 75


def test_io_that_could_overlap(small):
    # 100 + 50 cycles of stream copies in each run, 20 + 200 + 3 · (5 + 30) of the rest.
    (insight,) = by_kind(small)["overlap"]
    assert (insight.cost_cycles, insight.gain_cycles) == (300, 300)
    assert insight.step_ids == (0, 6)


def test_insights_are_ranked_by_gain_and_say_how_it_is_computed(small):
    actual = time_insights(small)
    gains = [insight.gain_cycles for insight in actual.found]
    assert gains == sorted(gains, reverse=True)
    assert (actual.total_cycles, actual.n_runs) == (970, 2)
    for insight in actual.found:
        assert insight.bound == BOUNDS_OF_GAINS[insight.kind]
        assert 0 < insight.gain_cycles <= insight.cost_cycles <= actual.total_cycles
        assert insight.text.endswith(".")
        assert insight.advice.endswith((".", ")."))


def test_a_planted_imbalance_is_found(small, variation):
    slower = variation(Shape(conv_tile0_cycles=260))
    (before,), (after,) = by_kind(small)["imbalance"], by_kind(slower)["imbalance"]
    # The busiest tile takes 60 more; the mean over four tiles rises by 15.
    assert after.gain_cycles - before.gain_cycles == 2 * (60 - 15)


def test_a_report_without_runs_answers_for_one_execution(variation):
    actual = time_insights(variation(Shape(n_runs=0)))
    assert actual.n_runs == 0
    # One execution of every step on the IPU that takes longest.
    assert actual.total_cycles == 100 + 10 + 25 + 200 + 5 + 30 + 50
    assert actual.found[0].kind == "overlap"


def test_who_waits_for_whom(small, monkeypatch):
    ran = execution(small)
    waiting, caused = np.zeros_like(ran.waiting_cycles), np.zeros_like(ran.caused_cycles)
    waiting[0, 1] = caused[1, 1] = 36  # IPU 0 waits for IPU 1 in the sync
    changed = replace(ran, waiting_cycles=waiting, caused_cycles=caused)
    monkeypatch.setattr(module, "execution", lambda *_: changed)
    actual = module.time_insights.__wrapped__(small)  # type: ignore[attr-defined]
    (insight,) = [item for item in actual.found if item.kind == "waiting"]
    assert (insight.subject, insight.cost_cycles, insight.gain_cycles) == ("IPU 1", 36, 36)
    assert insight.text.startswith("Others wait for IPU 1: IPU 0 for 36 cycles.")
    assert (insight.ipu_ids, insight.step_ids) == ((1, 0), (1,))


def stretches_of(rows: list[tuple[str, str, int]]) -> list[tuple[InsightKind, int, int]]:
    """Return the stretches of steps given by operation, phase and cycles."""
    cycles = np.array([[row[2] for row in rows]])
    phase = np.array([PHASES.index(row[1]) for row in rows], dtype=np.int8)
    names = tuple(row[0] for row in rows)
    time = module._Time(int(cycles.sum()), cycles, cycles[0], phase, names)
    parts = time.of("compute"), time.of("exchange", "global_exchange"), time.of("sync")
    return module._bound_stretches(time, *parts)


def test_stretches_join_operations_with_one_bound():
    assert stretches_of(
        [
            ("a", "sync", 10),
            ("a", "exchange", 90),
            ("a", "compute", 50),
            ("b", "exchange", 20),
            ("b", "compute", 15),
            ("c", "compute", 30),
            ("d", "sync", 40),
            ("d", "exchange", 10),
            ("d", "compute", 20),
            ("", "stream_copy", 5),
        ]
    ) == [("exchange_bound", 0, 5), ("sync_bound", 6, 9)]


def test_copies_dearer_than_the_product(small, monkeypatch):
    # As if relu, 30 cycles three times in each of two runs, were a copy for the convolution.
    monkeypatch.setattr(module, "_copying_steps", lambda _: (5,))
    assert "copies" not in by_kind(small)
    cycles = np.array(execution(small).step_cycles)
    cycles[5] = 500
    monkeypatch.setattr(module, "selected_step_cycles", lambda *_: cycles)
    actual = module.time_insights.__wrapped__(small)  # type: ignore[attr-defined]
    (insight,) = [item for item in actual.found if item.kind == "copies"]
    assert (insight.subject, insight.cost_cycles, insight.step_ids) == ("layer1/conv", 500, (5,))
    assert "the product itself 400" in insight.text


def test_an_unknown_run(small):
    with pytest.raises(BadQuestion, match="runs 0 to 1"):
        time_insights(small, 2)


def test_gains_never_exceed_the_time_of_their_steps(small):
    actual = time_insights(small)
    for insight in actual.found:
        assert len(np.unique(insight.step_ids)) == len(insight.step_ids)
        assert insight.gain_cycles < actual.total_cycles
