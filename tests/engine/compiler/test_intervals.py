"""Runs of elements, compared with sets of elements."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilescope.engine.errors import RunFailed
from tilescope.engine.intervals import runs
from tilescope.engine.intervals.distinct import distinct
from tilescope.engine.intervals.runs import (
    join_runs,
    order_by_tile,
    split_by_owner,
    union_runs,
)

Region = tuple[int, int, list[tuple[int, int]]]

#: Tile, start, and size and stride of three dimensions; strides of all kinds, overlaps included.
REGIONS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 20),
        st.lists(
            st.tuples(st.integers(1, 5), st.sampled_from([-12, -3, -1, 0, 1, 2, 3, 4, 6, 8, 24])),
            min_size=3,
            max_size=3,
        ),
    ),
    max_size=6,
)


def elements(region: Region) -> set[int]:
    """Return the elements of a region by walking it."""
    _, start, dims = region
    counters = product(*(range(size) for size, _ in dims))
    return {
        start + sum(i * stride for i, (_, stride) in zip(index, dims, strict=True))
        for index in counters
    }


def runs_of(regions: list[Region], base: int = 0) -> list[tuple[int, int, int]]:
    n = len(regions)
    columns = union_runs(
        np.array([start for _, start, _ in regions], np.int64),
        np.array([[size for size, _ in dims] for *_, dims in regions], np.int64).reshape(n, 3),
        np.array([[stride for _, stride in dims] for *_, dims in regions], np.int64).reshape(n, 3),
        np.array([tile for tile, _, _ in regions], np.int32),
        base,
        "Vertices of the test",
    )
    return list(zip(*(column.tolist() for column in columns), strict=True))


def expected_runs(regions: list[Region], base: int) -> list[tuple[int, int, int]]:
    """Return the runs of every tile's elements, element by element."""
    runs: list[tuple[int, int, int]] = []
    for tile in sorted({region[0] for region in regions}):
        held = set().union(*(elements(region) for region in regions if region[0] == tile))
        starts = sorted(e for e in held if e - 1 not in held)
        for start in starts:
            length = next(k for k in range(1, len(held) + 1) if start + k not in held)
            runs.append((tile, start + base, length))
    return runs


@given(REGIONS, st.sampled_from([0, 200]))
def test_runs_are_those_of_the_elements(regions: list[Region], base: int) -> None:
    regions = [(tile, start + 200, dims) for tile, start, dims in regions]
    assert runs_of(regions, base) == expected_runs(regions, base)


@given(REGIONS)
def test_runs_made_in_parts_are_the_same(regions: list[Region]) -> None:
    regions = [(tile, start + 200, dims) for tile, start, dims in regions]
    full = runs_of(regions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "_RUNS_AT_ONCE", 5)
        assert runs_of(regions) == full


def test_a_square_walked_in_blocks_is_one_run() -> None:
    # A product reads its rows in blocks of channels: 128 blocks of 8 in each of 256 rows.
    square = (0, 0, [(128, 8), (256, 1024), (8, 1)])
    assert runs_of([square] * 50) == [(0, 0, 256 * 1024)]


def test_addresses_beyond_what_one_number_sorts() -> None:
    far = 1 << 61
    tile, start = np.array([9, 0, 9]), np.array([far, far + 8, 0])
    joined = join_runs(tile, start, np.array([8, 8, 8]))
    assert [column.tolist() for column in joined] == [[0, 9, 9], [far + 8, 0, far], [8, 8, 8]]


def test_more_runs_than_this_computer_can_hold() -> None:
    every_second = (0, 0, [(1, 0), (1, 0), (1 << 40, 2)])
    with pytest.raises(RunFailed) as refused:
        runs_of([every_second])
    text = str(refused.value)
    assert text.startswith(f"Vertices of the test touch at least {1 << 40:,} separate runs")
    assert "this computer has" in text
    assert "\n" not in text


def test_more_fragments_than_this_computer_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "available_bytes", lambda: 10**9)
    n = 10_000_000
    owners = np.arange(n, dtype=np.int64)
    item = np.zeros(1, np.int64)
    with pytest.raises(RunFailed, match="A phase touch at least 10,000,000 separate runs"):
        split_by_owner(item, item, item + n, owners, owners % 7, "A phase")


def test_pieces_change_where_the_owner_changes() -> None:
    random = np.random.default_rng(0)
    for _ in range(200):
        n_owned, n = random.integers(1, 12), random.integers(0, 9)
        map_start = np.append(0, np.sort(random.choice(np.arange(1, 100), n_owned - 1, False)))
        map_tile, tile = random.integers(0, 4, n_owned), random.integers(0, 4, n)
        start, length = random.integers(0, 110, n), random.integers(1, 50, n)
        owner = map_tile[np.searchsorted(map_start, np.arange(200), "right") - 1]
        expected = [
            (owner[offset], tile[run], offset)
            for run in range(n)
            for offset in range(start[run], start[run] + length[run])
            if owner[offset] != tile[run]
        ]
        actual = split_by_owner(tile, start, length, map_start, map_tile, "A phase")
        elements = [
            (sender, receiver, element)
            for sender, receiver, first, size in zip(*actual, strict=True)
            for element in range(first, first + size)
        ]
        assert elements == expected


@pytest.mark.parametrize("largest", [5, 1 << 20, 1 << 45, 1 << 58, 1 << 62])
@pytest.mark.parametrize("n", [0, 1, 300])
def test_runs_are_ordered_by_tile_and_start_and_equal_ones_stay_in_order(
    largest: int, n: int
) -> None:
    random = np.random.default_rng(n)
    tile, start = random.integers(0, 6, n), random.integers(0, 7, n) * (largest // 7)
    expected = np.lexsort((start, tile))
    assert order_by_tile(tile, start).tolist() == expected.tolist()
    ordered = order_by_tile(tile[expected], start[expected])
    assert ordered.tolist() == list(range(n))


@given(st.lists(st.integers(-3, 3)), st.sampled_from([np.int32, np.int64]))
def test_distinct_values_are_those_of_numpy(values: list[int], kind: type[np.integer]) -> None:
    array = np.array(values, kind)
    actual = distinct(array)
    assert actual.dtype == np.dtype(kind)
    assert actual.tolist() == np.unique(array).tolist()
    assert distinct(array[None, ::-1]).tolist() == actual.tolist()
