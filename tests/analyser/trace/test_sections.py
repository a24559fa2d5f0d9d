"""A long trace is read a section at a time; the answers are those of a trace in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.generated_report import generate_report

from tilescope import analyser
from tilescope.analyser import trace
from tilescope.analyser.trace import index
from tilescope.analyser.trace.sections import Limits, Section
from tilescope.reports import Report
from tilescope.reports.bars.group import TrackGroup
from tilescope.reports.bars.lane import Bars, SliceLane, join_bars

from .conftest import store_bars

N_STEPS, N_RUNS = 60, 40
#: Some two runs a section, and half of the sections kept.
SMALL = Limits(
    trace_entries=100, section_entries=130, kept_entries=1_200, bins=1 << 11, least_bins=1 << 11
)


@pytest.fixture(
    scope="module",
    params=[
        (1, True, False), (2, True, False), (1, False, False),
        (1, True, True), (2, True, True),
    ],
    ids=str,
)  # fmt: skip
def kind(request: pytest.FixtureRequest) -> tuple[int, bool, bool]:
    """IPUs, whether no run repeats another, and whether bars are stored."""
    answer: tuple[int, bool, bool] = request.param
    return answer


@pytest.fixture(scope="module")
def path(kind: tuple[int, bool, bool], tmp_path_factory: pytest.TempPathFactory) -> Path:
    n_ipus, has_distinct_runs, has_bars = kind
    with pytest.MonkeyPatch.context() as patch:
        if has_bars:
            store_bars(patch)
        return generate_report(
            tmp_path_factory.mktemp("report"),
            n_tiles=8,
            n_ipus=n_ipus,
            n_steps=N_STEPS,
            n_variables=20,
            n_runs=N_RUNS,
            has_distinct_runs=has_distinct_runs,
        )


@pytest.fixture
def reports(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Report, Report]]:
    """The report in memory, and in sections."""
    with analyser.open(path) as whole, analyser.open(path) as cut:
        index.trace_of(whole)
        monkeypatch.setattr(index, "LIMITS", SMALL)
        index.trace_of(cut)
        yield whole, cut


def wide(window: trace.Window) -> list[tuple[object, ...]]:
    """Return the slices of a pixel or more: lane, range, name and kind."""
    bars = window.bars
    pixel_cycles = (window.end_cycle - window.start_cycle) / window.n_pixels
    is_wide = (bars.count == 1) & (bars.end_cycle - bars.start_cycle >= pixel_cycles)
    columns = window.lane, bars.start_cycle, bars.end_cycle, bars.name, bars.kind
    rows = zip(*(column[is_wide].tolist() for column in columns), strict=True)
    return sorted(rows)


def by_lane(window: trace.Window, values: NDArray[Any]) -> NDArray[np.float64]:
    """Return a column of the bars, summed over every lane."""
    return np.asarray(np.bincount(window.lane, values, len(window.lanes)), np.float64)


@pytest.mark.parametrize("view", trace.VIEWS)
@pytest.mark.parametrize("part", [1, 3, 40, 500])
@pytest.mark.parametrize("width", [20, 400])
def test_windows(reports: tuple[Report, Report], view: str, part: int, width: int) -> None:
    extent = trace.extent(reports[0])
    length = extent.end_cycle - extent.start_cycle
    low = extent.start_cycle + (0 if part == 1 else length // 3)
    high = low + length // part
    lanes = trace.Lanes(view=view, tiles=[0, 5])
    one, two = (trace.window(report, low, high, width, lanes) for report in reports)
    assert two.lanes == one.lanes
    assert wide(two) == wide(one)
    if part == 1:
        for name in ("count", "cycles"):
            sums = [by_lane(window, getattr(window.bars, name)) for window in (one, two)]
            assert sums[0].tolist() == sums[1].tolist()
    # At the edges, bars of the fine resolution are shown whole: they may be half a pixel long.
    edge = (high - low) / width
    inner = [
        (window.bars.start_cycle > low + edge) & (window.bars.end_cycle < high - edge)
        for window in (one, two)
    ]
    n_of_one, n_of_two = (
        by_lane(window, window.bars.count * is_inner)
        for window, is_inner in zip((one, two), inner, strict=True)
    )
    n_of_pixel = max(int(one.bars.count.max()), int(two.bars.count.max()))
    assert np.abs(n_of_one - n_of_two).max() <= 4 * n_of_pixel
    assert np.array_equal(two.bars.name == -1, two.bars.count > 1)
    for lane in range(len(two.lanes)):
        assert (np.diff(two.bars.start_cycle[two.lane == lane]) >= 0).all()


@pytest.mark.parametrize("view", trace.VIEWS)
@pytest.mark.parametrize("width", [20, 90])
def test_merged_bars_name_their_longest_slice(
    reports: tuple[Report, Report], view: str, width: int
) -> None:
    """Compare with all slices of the lanes, each as a bar of its own."""
    whole = index.trace_of(reports[0])
    for report in reports:
        window = trace.window(
            report, whole.start_cycle, whole.end_cycle, width, trace.Lanes(view=view)
        )
        for number, place in enumerate(window.lanes):
            if place.level < 0:
                continue
            group = whole.track(place.ipu_id, place.track).group(0)
            slices = every_slice(group, group.lanes(view)[place.level])
            bars = window.bars.at((window.lane == number) & (window.bars.count > 1))
            assert len(bars.name) > width // 2
            first = np.searchsorted(slices.start_cycle, bars.start_cycle)
            stop = np.searchsorted(slices.end_cycle, bars.end_cycle, "right")
            assert (stop - first).tolist() == bars.count.tolist()
            longest = [
                low + int(np.argmax(slices.cycles[low:high]))
                for low, high in zip(first.tolist(), stop.tolist(), strict=True)
            ]
            assert bars.longest_name.tolist() == slices.name[longest].tolist()
            assert bars.longest_cycles.tolist() == slices.cycles[longest].tolist()
            below = np.zeros((len(slices.name) + 1, bars.share.shape[1]))
            np.cumsum(slices.share / 255 * slices.cycles[:, None], axis=0, out=below[1:])
            share = (below[stop] - below[first]) / bars.cycles[:, None]
            # A share is rounded to a 255th when it is stored and whenever bars become one.
            np.testing.assert_allclose(bars.share / 255, share, atol=2 / 255)


def every_slice(group: TrackGroup, lane: SliceLane) -> Bars:
    """Return the slices of a lane in order of time, of all runs."""
    return join_bars(
        [
            lane.every(piece.first_entry, piece.stop_entry).shifted(np.array([piece.shift_cycles]))
            for piece in group.timeline.pieces
        ]
    )


QUESTIONS: dict[str, Callable[[Report, int], object]] = {
    "extent": lambda report, _: trace.extent(report),
    "search": lambda report, _: trace.search(report, "softmax", 70),
    "match": lambda report, n: [trace.match(report, "e", number=i) for i in (1, n // 2, n)],
    "next match": lambda report, n: [
        trace.match(report, "e", cycle=7_000 * i, direction=direction)
        for i in range(0, n, n // 5)
        for direction in ("next", "previous")
    ],
    "executions": lambda report, _: trace.executions(report, limit=300),
    "executions of a range": lambda report, _: trace.executions(report, 50_000, 90_000, limit=30),
    "first execution": lambda report, _: [trace.first_execution(report, i) for i in (0, 40)],
    "summary": lambda report, _: trace.range_summary(report),
    "summary of a range": lambda report, _: trace.range_summary(report, 50_000, 90_000),
    "slice": lambda report, _: [
        trace.slice_at(report, 0, 0, level, 1_000 * i, view)
        for view in ("flame", "flat")
        for level in ((-1, 0, 1, 1_000_003) if view == "flame" else (0,))
        for i in range(0, 100, 7)
    ],
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_answers(reports: tuple[Report, Report], name: str) -> None:
    n = trace.match(reports[0], "e", number=1).n_matches
    one, two = (QUESTIONS[name](report, n) for report in reports)
    assert two == one


def test_a_window_of_all_reads_nothing_again_and_no_entry_where_bars_are_stored(
    reports: tuple[Report, Report],
    kind: tuple[int, bool, bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n_read = 0
    columns: set[str] = set()
    read, column = index.Trace.timeline, index.Trace.column

    def counted(*arguments: Any) -> Any:
        nonlocal n_read
        n_read += 1
        return read(*arguments)

    def noted(trace_: index.Trace, name: str, ranges: Any) -> Any:
        columns.add(name.partition(".")[0])
        return column(trace_, name, ranges)

    _, cut = reports
    monkeypatch.setattr(index.Trace, "timeline", counted)
    monkeypatch.setattr(index.Trace, "column", noted)
    extent = trace.extent(cut)
    place = extent.start_cycle, extent.end_cycle, 20
    trace.window(cut, *place)
    n_sections = sum(len(index.trace_of(cut).track(*key).sections) for key in extent_keys(extent))
    if kind[2]:
        n_sections = 0
    assert n_read == n_sections
    assert columns == ({"bar", "bar_share"} if kind[2] else {"trace"})
    trace.window(cut, *place)
    trace.window(cut, place[0] + 5_000, place[1] - 5_000, 25)
    assert n_read == n_sections


def extent_keys(extent: trace.Extent) -> list[tuple[int, int]]:
    return [(track.ipu_id, track.track) for track in extent.tracks]


def test_few_sections_are_kept(reports: tuple[Report, Report]) -> None:
    _, cut = reports
    extent = trace.extent(cut)
    trace.window(cut, extent.start_cycle, extent.end_cycle, 20)
    trace.executions(cut)
    opened = index.trace_of(cut)
    kept = [
        number
        for key in extent_keys(extent)
        for number in range(len(opened.track(*key).sections))
        if opened._groups.known((*key, number)) is not None
    ]
    entries = [section.n_entries for section in sections(opened, extent)]
    assert len(kept) * min(entries) <= SMALL.kept_entries
    assert max(entries) <= SMALL.section_entries


def sections(opened: index.Trace, extent: trace.Extent) -> list[Section]:
    return [section for key in extent_keys(extent) for section in opened.track(*key).sections]
