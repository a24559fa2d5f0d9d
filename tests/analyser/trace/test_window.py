"""Level of detail: nothing is lost, wide slices stay separate, loops count in full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tilescope.analyser import trace
from tilescope.analyser.errors import BadQuestion
from tilescope.reports import Report
from tilescope.reports.bars.group import TrackGroup
from tilescope.reports.bars.kinds import GROUP, classify
from tilescope.reports.bars.paths import build_paths
from tilescope.reports.bars.timeline import build_timeline

from .conftest import STEPS, end_of, executions, loop, sequence

Make = Callable[..., Report]
NAMES = trace.KINDS


def bars_of(answer: trace.Window, names: trace.Names, level: int) -> list[tuple[Any, ...]]:
    """Return (label, kind, start, end, count) of the bars of a level of the first group."""
    lane = next(i for i, lane in enumerate(answer.lanes) if lane.level == level)
    bars = answer.bars
    return [
        (
            names.labels[bars.name[i]] if bars.name[i] >= 0 else "",
            NAMES[bars.kind[i]].name,
            int(bars.start_cycle[i]),
            int(bars.end_cycle[i]),
            int(bars.count[i]),
        )
        for i in np.flatnonzero(answer.lane == lane)
    ]


def test_flame_groups_by_the_text_before_the_last_slash(make: Make) -> None:
    report = make([(0, 0, 0, sequence(100))])
    answer = trace.window(report, 100, 199, 990)
    names = trace.names(report)
    assert bars_of(answer, names, -1) == [("Engine::run #0", "run", 100, 199, 1)]
    assert bars_of(answer, names, 0) == [
        ("net", "group", 100, 180, 1),
        ("out", "stream_copy", 180, 192, 1),
        ("out", "external_sync", 192, 199, 1),
    ]
    assert bars_of(answer, names, 1) == [
        ("conv1", "group", 100, 150, 1),
        ("conv1", "sync", 150, 155, 1),
        ("fc", "group", 155, 180, 1),
    ]
    assert bars_of(answer, names, 2) == [
        ("convolve", "compute", 100, 140, 1),
        ("convolve", "exchange", 140, 150, 1),
        ("matmul", "compute", 155, 180, 1),
    ]


def test_slices_shorter_than_a_pixel_become_one_bar_of_the_dominating_kind(make: Make) -> None:
    report = make([(0, 0, 0, sequence(0))])
    answer = trace.window(report, 0, 99, 1, trace.Lanes(view="flat"))
    assert bars_of(answer, trace.names(report), 0) == [("", "compute", 0, 99, 6)]


def test_runs_part_groups_that_would_merge(make: Make) -> None:
    report = make([(0, 0, 0, sequence(0, (0, 1))), (1, 0, 0, sequence(50, (0, 1)))])
    bars = bars_of(trace.window(report, 0, 100, 1000), trace.names(report), 0)
    assert bars == [("net", "group", 0, 50, 1), ("net", "group", 50, 100, 1)]


def test_collapsed_ipus_have_one_lane_and_tracks_their_own_group(make: Make) -> None:
    report = make([(0, 0, 0, sequence(0)), (0, 0, 1, sequence(3, (4,))), (0, 1, 0, sequence(0))], 2)
    answer = trace.window(report, 0, 99, 100, trace.Lanes(collapsed=[1]))
    levels = [(lane.ipu_id, lane.track, lane.level) for lane in answer.lanes]
    assert levels == [
        (0, 0, -1), (0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, -1), (0, 1, 0), (1, 0, -1), (1, 0, 0),
    ]  # fmt: skip
    assert {
        lane.ipu_id for lane in trace.window(report, 0, 99, 100, trace.Lanes(ipus=[1])).lanes
    } == {1}


def test_a_loop_goes_on_in_its_group_and_shows_its_iterations(make: Make) -> None:
    report = make([(0, 0, 0, loop(0, 2000, (0, 1)))])
    names = trace.names(report)
    full = trace.window(report, 0, 100_000, 1000)
    assert bars_of(full, names, 0) == [("net", "group", 0, 100_000, 1)]
    leaves = bars_of(full, names, 2)
    assert sum(bar[4] for bar in leaves) == 4000
    near = trace.window(report, 50_000, 50_100, 1000)
    assert bars_of(near, names, 2) == [
        ("convolve", "compute", 50_000, 50_040, 1),
        ("convolve", "exchange", 50_040, 50_050, 1),
        ("convolve", "compute", 50_050, 50_090, 1),
        ("convolve", "exchange", 50_090, 50_100, 1),
    ]


def test_a_long_loop_is_not_written_out_but_counted_in_full(make: Make) -> None:
    report = make([(0, 0, 0, [*loop(0, 50_000_000, (0, 1, 2)), *sequence(2_750_000_000, (3,))])])
    answer = trace.window(report, 0, 2_750_000_025, 1000, trace.Lanes(view="flat"))
    assert answer.n_slices == 150_000_002  # one is the run
    assert len(answer.bars.name) < 2000
    deep = trace.window(report, 1_375_000_000, 1_375_000_055, 1000, trace.Lanes(view="flat"))
    assert deep.bars.start_cycle.tolist() == [0, 1_375_000_000, 1_375_000_040, 1_375_000_050]
    actual = trace.slice_at(report, 0, 0, 0, 1_375_000_041, "flat")
    assert actual is not None
    assert (actual.start_cycle, actual.kind, actual.iteration) == (
        1_375_000_040,
        "exchange",
        25_000_000,
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((50, 50, 100), "empty"),
        ((0, 99, 0), "width"),
        ((0, 99, 100, trace.Lanes([7])), "IPU 7"),
        ((0, 99, 100, trace.Lanes(view="sideways")), "use flame, calls, flat"),
    ],
)
def test_bad_windows_are_refused_in_a_sentence(
    make: Make, arguments: tuple[Any, ...], said: str
) -> None:
    with pytest.raises(BadQuestion, match=said):
        trace.window(make([(0, 0, 0, sequence(0))]), *arguments)


blocks = st.lists(
    st.tuples(
        st.lists(st.integers(0, len(STEPS) - 1), min_size=1, max_size=5),
        st.sampled_from([1, 1, 1, 2, 7, 3000]),
        st.integers(0, 30),
    ),
    min_size=1,
    max_size=6,
)


def entries_of(plan: list[tuple[list[int], int, int]]) -> list[tuple[int, int, int, int, int]]:
    """Return entries for blocks of (steps, iterations, gap)."""
    entries: list[tuple[int, int, int, int, int]] = []
    offset = 0
    for steps, count, gap in plan:
        body = loop(offset, count, tuple(steps)) if count > 1 else sequence(offset, tuple(steps))
        entries += body
        offset = end_of(body) + gap
    return entries


def group_of(entries: list[tuple[int, int, int, int, int]]) -> TrackGroup:
    """Return the group of one run of these entries."""
    step, start, end, period, count = (np.asarray(c) for c in zip(*entries, strict=True))
    line = build_timeline(
        start, end, step.astype(np.int32), np.zeros(1, np.int64), period, count.astype(np.int32)
    )
    paths = build_paths([name for _, name, _ in STEPS])
    return TrackGroup(0, 0, line, paths, classify([kind for kind, _, _ in STEPS], [5]))


@given(blocks, st.integers(0, 5000), st.integers(1, 5000), st.integers(1, 400))
@example([([0], 1, 0), ([2], 3000, 0)], 503, 2942, 165)  # 165 pixels of 17.83 cycles: 2942.0…1
def test_every_execution_in_a_window_is_in_exactly_one_bar(
    plan: list[tuple[list[int], int, int]], start: int, length: int, n_pixels: int
) -> None:
    """Compare with the plain list of executions."""
    entries = entries_of(plan)
    end = start + length
    group = group_of(entries)
    bars = group.bars(group.lanes("flat")[0], start, end, n_pixels)
    expected = [
        execution
        for execution in executions(entries)
        if execution[1] > start and execution[0] < end
    ]
    assert int(bars.count.sum()) == pytest.approx(len(expected), abs=2 * n_edges(group, n_pixels))
    single = bars.count == 1
    text = set(zip(bars.start_cycle[single].tolist(), bars.end_cycle[single].tolist(), strict=True))
    assert text <= {(low, high) for low, high, _ in expected}
    wide = {(low, high) for low, high, _ in expected if high - low >= 2 * length / n_pixels}
    assert wide <= text
    assert len(bars.count) <= 4 * n_pixels + 8


def n_edges(group: TrackGroup, n_pixels: int) -> int:
    """Return the number of slices that a bar cut by the window's edge may count."""
    return 5 * n_pixels if any(p.period_cycles for p in group.timeline.pieces) else 0


@given(blocks, st.integers(1, 12))
def test_a_merged_bar_has_the_shares_of_its_kinds_and_its_longest_slice(
    plan: list[tuple[list[int], int, int]], n_pixels: int
) -> None:
    entries = entries_of(plan)
    group = group_of(entries)
    (lane,) = group.lanes("flat")
    bars = group.bars(lane, 0, end_of(entries), n_pixels)
    kinds = lane.kinds
    for start, end, count, kind, share, name, cycles in zip(
        bars.start_cycle, bars.end_cycle, bars.count, bars.kind, bars.share,
        bars.longest_name, bars.longest_cycles, strict=True,
    ):  # fmt: skip
        inside = [
            execution
            for execution in executions(entries)
            if start <= execution[0] and execution[1] <= end
        ]
        spent = np.zeros(share.size)
        for low, high, step in inside:
            spent[kinds[step]] += high - low
        assert len(inside) == count
        np.testing.assert_allclose(share / 255, spent / spent.sum(), atol=0.5 / 255 + 1e-9)
        assert spent[kind] == spent.max()
        low, high, step = max(inside, key=lambda execution: execution[1] - execution[0])
        assert (cycles, name) == (high - low, lane.names[step])


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=12),
    st.integers(1, 90),
    st.floats(0, 1),
    st.floats(0.001, 1),
    st.integers(1, 40),
)
def test_a_merged_bar_of_any_level_names_the_longest_of_many_slices(
    plan: list[tuple[int, int]], n_times: int, place: float, part: float, n_pixels: int
) -> None:
    """Compare with all slices of the lane; up to a thousand of them, so that blocks are whole."""
    entries = []
    offset = 0
    for number, (step, added) in enumerate(plan * n_times):
        end = offset + STEPS[step][2] + added * (number % 5)
        entries.append((step, offset, end, 0, 1))
        offset = end
    group = group_of(entries)
    start = int(place * offset)
    for lane in [*group.lanes("flame"), *group.lanes("flat")]:
        bars = group.bars(lane, start, start + max(1, int(part * offset)), n_pixels)
        slices = lane.every(0, len(entries))
        for low, high, count, name, cycles in zip(
            bars.start_cycle.tolist(), bars.end_cycle.tolist(), bars.count.tolist(),
            bars.longest_name.tolist(), bars.longest_cycles.tolist(), strict=True,
        ):  # fmt: skip
            inside = slices.at((slices.start_cycle >= low) & (slices.end_cycle <= high))
            assert len(inside.name) == count
            longest = int(np.argmax(inside.cycles))
            assert (name, cycles) == (inside.name[longest], inside.cycles[longest])


@given(blocks, st.floats(0, 1))
def test_flame_lanes_hold_every_execution_once(
    plan: list[tuple[list[int], int, int]], place: float
) -> None:
    """At one pixel per cycle nothing is merged, so leaves can be counted exactly."""
    entries = entries_of(plan)
    group = group_of(entries)
    start = int(place * end_of(entries))
    leaves = []
    for lane in group.lanes("flame"):
        bars = group.bars(lane, start, start + 2000, 2000)
        assert (bars.count == 1).all()
        is_leaf = bars.kind != GROUP
        leaves += list(
            zip(bars.start_cycle[is_leaf].tolist(), bars.end_cycle[is_leaf].tolist(), strict=True)
        )
    inside = [
        execution[:2]
        for execution in executions(entries)
        if execution[1] > start and execution[0] < start + 2000
    ]
    assert sorted(leaves) == inside


@given(
    st.lists(
        st.tuples(
            st.integers(0, len(STEPS) - 1),
            st.integers(0, 2000),
            st.integers(0, 700),
            st.sampled_from([1, 1, 3, 5000]),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_interleaved_loops_are_expanded_in_order(
    plan: list[tuple[int, int, int, int]],
) -> None:
    entries = sorted(
        ((s, offset, offset + STEPS[s][2], period if count > 1 else 0, count)
         for s, offset, period, count in plan),
        key=lambda entry: entry[1],
    )  # fmt: skip
    line = group_of(entries).timeline
    results = []
    for region in line.pieces:
        for k in range(region.n_iterations):
            part = slice(region.first_entry, region.stop_entry)
            shift = k * region.period_cycles
            results += list(
                zip(
                    (line.start[part] + shift).tolist(),
                    (line.end[part] + shift).tolist(),
                    line.step[part].tolist(),
                    strict=True,
                )
            )
    assert sorted(results) == executions(entries)
    assert line.n_executions == len(results)


def test_the_lane_of_all_steps_is_that_of_the_flat_view(make: Make) -> None:
    report = make([(0, 0, 0, sequence(100) + sequence(300))])
    for place in ((100, 399, 990), (0, 500, 7)):
        flame = trace.window(report, *place, trace.Lanes(has_steps=True))
        flat = trace.window(report, *place, trace.Lanes(view="flat"))
        steps, lane = (
            next(i for i, one in enumerate(answer.lanes) if one.level == level)
            for answer, level in ((flame, trace.STEPS_LEVEL), (flat, 0))
        )
        for mine, other in zip(
            flame.bars.at(flame.lane == steps).columns,
            flat.bars.at(flat.lane == lane).columns,
            strict=True,
        ):
            np.testing.assert_array_equal(mine, other)
        assert all(lane.level != trace.STEPS_LEVEL for lane in trace.window(report, *place).lanes)
