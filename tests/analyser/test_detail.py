"""Long series keep their peaks at any level of detail."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tilescope.analyser.detail import keep_extremes


@given(
    st.lists(st.integers(0, 1 << 40), min_size=1, max_size=400),
    st.integers(1, 50),
)
def test_extremes_of_every_group_survive(values: list[int], n_groups: int) -> None:
    array = np.array(values, dtype=np.int64)
    selected = keep_extremes(array, n_groups)
    assert np.all(np.diff(selected) > 0)
    assert array[selected].max() == array.max()
    assert array[selected].min() == array.min()
    assert {0, len(values) - 1} <= set(selected.tolist())
    assert len(selected) <= max(2 * n_groups + 2, 1)


def test_few_values_are_all_kept() -> None:
    values = np.arange(100, dtype=np.int64)
    assert keep_extremes(values, 50).tolist() == list(range(100))
    assert len(keep_extremes(values, 10)) < 100


def test_nothing_gives_nothing() -> None:
    assert len(keep_extremes(np.zeros(0, dtype=np.int64), 5)) == 0
