"""Insights of the small report, computed on paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.analyser.small_report import Shape
from tests.generated_report import generate_report
from tests.golden.recipe import GOLDEN

from tilescope.analyser.advice.insights import Fit, fit_sentence, insights, tips
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.memory.tile_memory import fullest_of, fullest_tile, tile_memory
from tilescope.analyser.summary.metrics import METRICS
from tilescope.analyser.summary.overview import report_overview
from tilescope.reports import Report, open_report

Variation = Callable[[Shape], Report]


def test_a_fit_states_the_spare_memory(small: Report) -> None:
    # Tiles hold 288, 264, 264, 264, 252, 232, 112 and 112 bytes, gaps included.
    fit = insights(small).fit
    assert fit == Fit(1000, 288, 280, 1776, 8000, 8, 0, 0, 0, 0, 600)
    assert fit.fits
    assert fit_sentence(fit, "bytes") == (
        "It fits: the fullest tile holds 280 B of 1,000 B (28.00 %), all tiles hold 1,776 B of"
        " 8,000 B (22.20 %). With gaps, addresses reach 288 B."
    )


def test_a_misfit_states_the_missing_memory(variation: Variation) -> None:
    # 250 bytes a tile: 38, 14, 14, 14 and 2 bytes too many, on five tiles.
    fit = insights(variation(Shape(bytes_per_tile=250))).fit
    assert (fit.n_tiles_over, fit.excess_bytes) == (5, 38 + 3 * 14 + 2)
    assert fit_sentence(fit, "bytes") == (
        "It does not fit: 5 of 8 tiles need more than 250 B, gaps included: addresses reach 288 B;"
        " 82 B are missing over all tiles."
    )


def test_the_fullest_tiles_and_what_they_hold(small: Report) -> None:
    worst = insights(small).fullest_tiles
    assert [(tile.tile_id, tile.ipu_id, tile.including_gaps_bytes) for tile in worst] == [
        (0, 0, 288),
        (1, 0, 264),
        (2, 0, 264),
        (3, 0, 264),
        (4, 1, 252),
    ]
    assert sum(worst[0].categories.values()) == worst[0].excluding_gaps_bytes == 280


def test_every_tile_stands_in_one_bin(small: Report) -> None:
    actual = insights(small)
    held = tile_memory(small, "none").total_bytes
    edges, counts = actual.histogram_edges_bytes, actual.histogram_n_tiles
    assert edges[0] == 0
    assert edges[-1] == held.max()
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        is_last = high == edges[-1]
        inside = (held >= low) & ((held <= high) if is_last else (held < high))
        assert np.count_nonzero(inside) == count
    assert counts.sum() == 8


def test_what_takes_the_memory_of_vertices_and_exchanges(small: Report) -> None:
    actual = insights(small)
    assert [(codelet.name, codelet.bytes, codelet.detail) for codelet in actual.vertex_codes] == [
        ("conv<float>", 120, "layer1/conv"),
        ("relu<half>", 40, "layer1/relu"),
    ]
    assert [(state.bytes, state.n_users) for state in actual.vertex_states] == [(48, 1), (48, 1)]
    assert [(exchange.name, exchange.bytes) for exchange in actual.exchanges][:2] == [
        ("layer1/conv/exchange", 24),
        ("layer1/relu/exchange", 24),
    ]


def test_the_peak_is_that_of_the_fullest_tile(small: Report) -> None:
    peak = insights(small).peak
    assert peak is not None
    assert (peak.tile_id, peak.step, peak.kind) == (0, 2, "DoExchange")
    assert peak.variables.total_bytes == 32
    assert peak.plan is None


def test_half_precision_gains_the_same_as_in_the_list_of_remedies(small: Report) -> None:
    # The weights of tile 0 take 20 in place of 40; at step 3, 'in' 8 in place of 16.
    (tip,) = tips(insights(small), "bytes")
    assert (tip.title, tip.saving_bytes, tip.tile_id) == ("Use half precision", 28, 0)
    assert tip.text.endswith("Tile 0 then holds 28 B less, if operations keep their plans.")


def test_a_report_of_the_engine_names_its_contents() -> None:
    with open_report(GOLDEN) as report:
        actual = insights(report)
        used = tile_memory(report, "none").total_bytes
    assert actual.fit.total_bytes == used.sum()
    assert actual.fullest_tiles[0].excluding_gaps_bytes == used.max()
    assert actual.vertex_states
    sizes = [exchange.bytes for exchange in actual.exchanges]
    assert sizes == sorted(sizes, reverse=True)


def test_insights_are_empty_without_memory(variation: Variation) -> None:
    with pytest.raises(BadQuestion):
        insights(variation(Shape(has_memory=False)))


def test_the_fullest_tile_is_the_first_of_those_that_hold_most(small: Report) -> None:
    held = np.array([1, 7, 3, 7])
    assert str(fullest_of(held, 60)) == "tile 61, one of 2 tiles that hold as much"
    actual = insights(small)
    memory = tile_memory(small, "none")
    assert actual.fullest == memory.fullest_tile == fullest_tile(small)
    assert actual.peak is not None
    assert actual.peak.tile_id == actual.fullest.tile_id
    assert str(fullest_tile(small)) == "tile 0"
    assert fullest_tile(small, 1).tile_id == 4


def test_no_plan_is_advised_where_always_live_memory_exceeds_the_tile(
    variation: Variation,
) -> None:
    actual = insights(variation(Shape(bytes_per_tile=20)))
    assert actual.shortfall is not None
    assert actual.shortfall.n_tiles_always_over > 0
    assert actual.shortfall.least_tiles > 0
    assert "Give the operation at the peak less memory" not in [tip.title for tip in tips(actual)]


def test_the_fullest_tile_is_the_same_everywhere(variation: Variation, tmp_path: Path) -> None:
    """One definition, also where tiles lack memory and another reaches a higher address."""
    generated = generate_report(tmp_path / "r", n_tiles=16, n_steps=60, seed=5)
    with open_report(generated) as full:
        for report in (full, variation(Shape(bytes_per_tile=250)), variation(Shape())):
            actual, tile = insights(report), fullest_tile(report)
            assert actual.fullest_tiles[0].tile_id == actual.fullest.tile_id == tile.tile_id
            assert report_overview(report).fullest_tile_id == tile.tile_id
            held = [item.excluding_gaps_bytes for item in actual.fullest_tiles]
            assert held == sorted(held, reverse=True)
            assert held[0] == tile.bytes == METRICS["memory.max_tile"].compute(report)
