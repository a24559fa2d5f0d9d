"""Decimation keeps all peaks."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tilescope.webapp.figures.decimate import keep_extremes, visible_points


@given(
    st.lists(st.integers(0, 1 << 40), min_size=1, max_size=400),
    st.integers(1, 50),
)
def test_extremes_of_every_group_survive(values: list[int], n_buckets: int) -> None:
    array = np.array(values, dtype=np.int64)
    kept = keep_extremes(array, n_buckets)
    assert np.all(np.diff(kept) > 0)
    assert array[kept].max() == array.max()
    assert array[kept].min() == array.min()
    assert {0, len(values) - 1} <= set(kept.tolist())
    assert len(kept) <= max(2 * n_buckets + 2, 1)


def test_few_values_are_all_kept() -> None:
    values = np.arange(100, dtype=np.int64)
    kept = visible_points(values, None)
    assert kept.positions.tolist() == list(range(100))
    assert kept.note("steps") == ""


def test_a_window_is_drawn_finely_and_the_rest_coarsely() -> None:
    values = np.random.default_rng(0).integers(0, 1000, 20_000)
    kept = visible_points(values, (5000, 5400))
    inside = kept.positions[(kept.positions >= 5000) & (kept.positions <= 5400)]
    assert inside.tolist() == list(range(5000, 5401))
    assert len(kept.positions) < 1500
    assert kept.note("steps") == ""
    whole = visible_points(values, None)
    assert whole.is_decimated
    assert "20,000 steps" in whole.note("steps")


@given(st.floats(-50, 150), st.floats(0.01, 80))
def test_any_window_keeps_positions_in_range(low: float, width: float) -> None:
    values = np.arange(60, dtype=np.int64)
    kept = visible_points(values, (low, low + width))
    assert kept.positions.tolist() == sorted(set(kept.positions.tolist()))
    assert set(kept.positions.tolist()) <= set(range(60))


def test_nothing_gives_nothing() -> None:
    assert len(visible_points(np.zeros(0, dtype=np.int64), None).positions) == 0
