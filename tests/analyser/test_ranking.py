"""Insights for memory and time in one order."""

from __future__ import annotations

import pytest
from tests.analyser.small_report import Shape

from tilescope.analyser import ranking as module
from tilescope.analyser.advice.insights import Tip, insights
from tilescope.analyser.ranking import (
    consumer_changes,
    live_changes,
    ranked_insights,
    ranked_pairs,
)
from tilescope.reports import Report


def test_memory_and_time_are_ranked_by_share(small: Report) -> None:
    actual = ranked_insights(small)
    # Of 970 cycles 300, 150, 34 and 12; of a tile's 1,000 bytes 28.
    assert [(item.topic, item.title, item.gain) for item in actual] == [
        ("time", "I/O not overlapped", 300),
        ("time", "Imbalance", 150),
        ("time", "Exchange-bound", 34),
        ("memory", "Use half precision", 28),
        ("time", "Exchange-bound", 12),
    ]
    assert actual[0].share == pytest.approx(300 / 970)
    assert actual[3].share == pytest.approx(0.028)


def test_an_unknown_gain_comes_last(small: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    known, unknown = Tip("Known", "", 5, tile_id=0), Tip("Unknown", "", None)
    monkeypatch.setattr(module, "tips", lambda _: (unknown, known))
    actual = module.ranked_insights.__wrapped__(small)  # type: ignore[attr-defined]
    assert [item.title for item in actual][-2:] == ["Known", "Unknown"]


def test_insights_lead_to_their_place(small: Report) -> None:
    of_title = {
        ranked_insight.title: ranked_insight for ranked_insight in reversed(ranked_insights(small))
    }
    imbalance = of_title["Imbalance"]
    assert (imbalance.operation, imbalance.step_id, imbalance.program_id) == ("layer1/conv", 3, 4)
    assert of_title["Use half precision"].tile_id == 0
    assert of_title["I/O not overlapped"].operation == ""


def test_without_a_run_or_memory(variation) -> None:
    compiled = ranked_insights(variation(Shape(n_runs=0)))
    assert all(item.step_id is None for item in compiled)
    assert {item.topic for item in ranked_insights(variation(Shape(has_memory=False)))} == {"time"}


def test_two_reports_are_paired(small: Report, variation) -> None:
    peer = variation(Shape(conv_tile0_cycles=260))
    actual = ranked_pairs(ranked_insights(small), ranked_insights(peer))
    by_title = {pair.known.title: pair for pair in actual}
    imbalance = by_title["Imbalance"]
    assert imbalance.baseline is not None
    assert imbalance.candidate is not None
    assert (imbalance.baseline.gain, imbalance.candidate.gain) == (150, 240)
    assert len(actual) == len(ranked_insights(small))
    gone = ranked_pairs(ranked_insights(small), ())
    assert all(pair.candidate is None for pair in gone)


def test_what_lives_on_the_fullest_tiles(small: Report, variation) -> None:
    before, after = (insights(report) for report in (small, variation(Shape(weights_bytes=640))))
    changes = live_changes(before.always_live, after.always_live)
    assert (changes[0].key, changes[0].delta) == ("weights", 40)
    assert all(change.delta == 0 for change in changes[1:])
    assert live_changes(before.always_live, None)[0].candidate is None
    states = consumer_changes(before.vertex_states, after.vertex_states)
    assert [change.delta for change in states] == [0, 0]
