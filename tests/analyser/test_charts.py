"""What the charts of memory and liveness draw of a range."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.floor_plan import floor_plan
from tilescope.analyser.memory.charts import ChartRange, step_series, tile_series
from tilescope.analyser.memory.liveness import Curve, curve
from tilescope.analyser.memory.tile_memory import BREAKDOWNS, Breakdown, TileMemory, tile_memory
from tilescope.reports import Report

WHOLE = ChartRange(0, 1 << 20, 4000)


@pytest.mark.parametrize("breakdown", BREAKDOWNS)
def test_series_of_tiles_sum_to_the_stack(small: Report, breakdown: Breakdown) -> None:
    memory = tile_memory(small, breakdown, include_gaps=True)
    actual = tile_series(memory, WHOLE)
    assert actual.place.tolist() == actual.item.tolist() == list(range(8))
    heights = np.sum(list(actual.series.values()), axis=0)
    assert heights.tolist() == memory.stacked_bytes.tolist()
    assert actual.total_bytes.tolist() == memory.total_bytes.tolist()
    assert actual.highest_bytes == heights.max()
    assert (actual.capacity_bytes, actual.n_items) == (1000, 8)


def test_series_without_bytes_are_left_out_of_several() -> None:
    tiles, unit_counts, none = np.arange(3), np.ones(3, np.int64), np.zeros(3, np.int64)
    both = TileMemory("region", False, tiles, {"a": unit_counts, "b": none}, unit_counts, 10)
    assert list(tile_series(both, WHOLE).series) == ["a"]
    alone = TileMemory("none", False, tiles, {"b": none}, none, 10)
    assert list(tile_series(alone, WHOLE).series) == ["b"]


def test_tiles_stand_in_hardware_order(small: Report) -> None:
    memory = tile_memory(small, "category")
    order = floor_plan(small).hardware_order[::-1].copy()
    actual = tile_series(memory, WHOLE, order)
    assert actual.place.tolist() == list(range(8))
    assert actual.item.tolist() == order.tolist()
    assert actual.total_bytes.tolist() == memory.total_bytes[order].tolist()
    middle = tile_series(memory, ChartRange(2, 5, 100), order)
    assert middle.item.tolist() == order[2:5].tolist()
    assert middle.n_items == 3


@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=300), st.data())
def test_a_range_keeps_its_extremes_in_few_places(values: list[int], data: st.DataObject) -> None:
    heights = np.array(values, dtype=np.int64)
    start = data.draw(st.integers(0, len(values) - 1))
    end = data.draw(st.integers(start + 1, len(values)))
    columns = data.draw(st.integers(2, 40))
    memory = TileMemory("none", False, np.arange(len(values)), {"Total": heights}, heights, 1)
    actual = tile_series(memory, ChartRange(start, end, columns))
    assert len(actual.place) <= columns + 2
    assert actual.total_bytes.max() == heights[start:end].max()
    assert actual.total_bytes.min() == heights[start:end].min()
    assert actual.highest_bytes == heights.max()
    assert actual.n_items == end - start


def test_always_live_memory_lies_below(small: Report) -> None:
    live = curve(small)
    plain = step_series(live, WHOLE)
    stacked = step_series(live, WHOLE, includes_always_live=True)
    assert list(plain.series) == ["Not always live"]
    assert list(stacked.series) == ["Always live", "Not always live"]
    assert set((stacked.total_bytes - plain.total_bytes).tolist()) == {live.always_live_bytes}
    assert stacked.highest_bytes == plain.highest_bytes + live.always_live_bytes


def test_a_search_gives_the_highest_match_of_every_column() -> None:
    names = ("a", "b", "ab", "c", "a", "a")
    sizes = np.array([5, 9, 7, 1, 3, 4])
    live = Curve("all", np.arange(6), names, ("k",) * 6, sizes, 100, 1000)
    assert step_series(live, WHOLE).matches is None
    fine = step_series(live, ChartRange(0, 6, 6), text="A").matches
    assert fine is not None
    assert (fine.n_found, fine.place.tolist()) == (4, [0, 2, 4, 5])
    coarse = step_series(live, ChartRange(0, 6, 2), text="a", includes_always_live=True).matches
    assert coarse is not None
    assert (coarse.n_found, coarse.item.tolist()) == (4, [2, 5])
    assert coarse.bytes.tolist() == [107, 104]
    inner = step_series(live, ChartRange(3, 5, 100), text="a").matches
    assert inner is not None
    assert (inner.n_found, inner.item.tolist()) == (4, [4])


def test_aligned_steps_stand_at_their_places() -> None:
    sizes = np.array([5, 9, 7])
    live = Curve("all", np.arange(3), ("x", "y", "x"), ("k",) * 3, sizes, 0, 1000)
    positions = np.array([0, 4, 9])
    actual = step_series(live, ChartRange(2, 20, 50), positions=positions, text="x")
    assert (actual.place.tolist(), actual.item.tolist()) == ([4, 9], [1, 2])
    assert (actual.n_items, actual.highest_bytes) == (2, 9)
    assert actual.matches is not None
    assert actual.matches.place.tolist() == [9]


def test_no_steps_give_no_places() -> None:
    none = np.zeros(0, np.int64)
    actual = step_series(Curve("all", none, (), (), none, 0, 10), WHOLE, text="a")
    assert (len(actual.place), actual.highest_bytes) == (0, 0)


@pytest.mark.parametrize("wrong", [(5, 5, 10), (9, 3, 10), (0, 5, 0)])
def test_an_empty_range_is_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(BadQuestion, match="range and a number of columns"):
        ChartRange(*wrong)
