"""The charts' data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilescope.analyser.diff import align_liveness
from tilescope.analyser.liveness import curve
from tilescope.analyser.tile_memory import TileMemory, tile_memory
from tilescope.reports import open_report
from tilescope.webapp.components.panels import legend
from tilescope.webapp.figures.step_chart import compare_steps, draw_steps
from tilescope.webapp.figures.theme import byte_ticks
from tilescope.webapp.figures.tile_chart import compare_tiles, draw_tiles


@pytest.mark.parametrize("breakdown", ["none", "region", "category", "liveness"])
def test_series_of_tiles_sum_to_the_stack(reports_dir: Path, breakdown: str) -> None:
    with open_report(reports_dir / "baseline") as report:
        memory = tile_memory(report, breakdown, include_gaps=True)  # type: ignore[arg-type]
    drawn = draw_tiles(memory).figure
    stacked = [trace for trace in drawn.data if trace.stackgroup]
    heights = np.sum([_inner(trace.y) for trace in stacked], axis=0)
    assert heights.tolist() == memory.stacked_bytes.tolist()
    others = [trace for trace in drawn.data if not trace.stackgroup]
    assert [trace.name for trace in others] == (["Total"] if breakdown != "none" else [])
    for total in others:
        assert _inner(total.y).tolist() == memory.total_bytes.tolist()


def _inner(values: Any) -> np.ndarray:
    """Return the values at whole tiles or steps, since the ends are drawn twice."""
    return np.asarray(values)[1:-1]


@pytest.mark.parametrize("n_tiles", [1, 2, 64])
def test_every_tile_is_drawn_as_wide_and_the_pointer_rounds_to_it(n_tiles: int) -> None:
    sizes = np.arange(1, n_tiles + 1)
    memory = TileMemory("none", False, np.arange(n_tiles), {"Total": sizes}, sizes, 1000)
    (trace,) = draw_tiles(memory).figure.data
    places = np.asarray(trace.x)
    assert trace.line.shape == "hvh"
    assert places[0] < -0.49
    assert places[-1] > n_tiles - 0.51
    assert np.rint(places).tolist() == [0, *range(n_tiles), n_tiles - 1]
    assert np.asarray(trace.y).tolist() == [1, *range(1, n_tiles + 1), n_tiles]


def _borders(figure: Any) -> list[tuple[float, str]]:
    return [(note.x, note.text) for note in figure.layout.annotations if "IPU" in note.text]


def test_borders_of_ipus_are_marked(reports_dir: Path) -> None:
    with open_report(reports_dir / "pair") as report:
        pair = tile_memory(report, "none")
    with open_report(reports_dir / "baseline") as report:
        one = tile_memory(report, "none")
    assert _borders(draw_tiles(pair).figure) == [(-0.5, "IPU 0"), (15.5, "IPU 1")]
    lines = [shape.x0 for shape in draw_tiles(pair).figure.layout.shapes if shape.layer == "below"]
    assert lines == [-0.5, 15.5]
    assert _borders(compare_tiles(pair, pair).figure) == [(-0.5, "IPU 0"), (15.5, "IPU 1")]
    assert _borders(draw_tiles(one).figure) == []
    assert _borders(compare_tiles(one, pair).figure) == []
    many = replace(one, tiles_per_ipu=2)
    assert _borders(draw_tiles(many).figure) == []


def test_the_total_is_read_on_hover_and_not_in_the_legend(reports_dir: Path) -> None:
    with open_report(reports_dir / "baseline") as report:
        figure = draw_tiles(tile_memory(report, "category")).figure
    assert "Total" in [trace.name for trace in figure.data]
    assert "Total" not in str(legend(figure))
    assert figure.layout.xaxis.unifiedhovertitle.text == "Tile %{x:,d}"


def test_the_capacity_is_a_dashed_line_if_near_or_requested(reports_dir: Path) -> None:
    with open_report(reports_dir / "baseline") as report:
        memory = tile_memory(report, "none")
    asked = draw_tiles(memory, show_capacity=True).figure
    dashed = [shape for shape in asked.layout.shapes if shape.line.dash == "dash"]
    assert [shape.y0 for shape in dashed] == [memory.capacity_bytes]
    assert asked.layout.yaxis.range[1] >= memory.capacity_bytes


def test_selected_tiles_are_marked(reports_dir: Path) -> None:
    with open_report(reports_dir / "baseline") as report:
        memory = tile_memory(report, "none")
    marks = draw_tiles(memory, selected=[3, 9]).figure.layout.shapes
    assert [mark.x0 for mark in marks if mark.line.dash == "dot"] == [3, 9]


def test_reports_of_different_size_share_an_axis(reports_dir: Path) -> None:
    with open_report(reports_dir / "baseline") as one, open_report(reports_dir / "pair") as other:
        sides = tile_memory(one, "none"), tile_memory(other, "none")
    figure = compare_tiles(*sides).figure
    assert [trace.name for trace in figure.data] == ["Baseline", "Candidate"]
    assert [len(_inner(trace.x)) for trace in figure.data] == [64, 32]
    assert figure.layout.xaxis.range[1] == 63.5


def test_always_live_memory_lies_below(reports_dir: Path) -> None:
    with open_report(reports_dir / "baseline") as report:
        live = curve(report)
    plain, stacked = (
        draw_steps(live, include_always_live=always).figure for always in (False, True)
    )
    below = np.asarray(stacked.data[-1].y) - np.asarray(plain.data[-1].y)
    assert set(below.tolist()) == {live.always_live_bytes}


def test_a_filter_marks_the_matching_steps_only(reports_dir: Path) -> None:
    with open_report(reports_dir / "baseline") as report:
        live = curve(report)
    found = live.matching("doEXCHANGE")
    assert len(found) == sum(kind == "DoExchange" for kind in live.kind) > 0
    marks = draw_steps(live, text="doexchange").figure.data[-1]
    assert np.asarray(marks.x).tolist() == found.tolist()
    assert live.matching(" ").tolist() == list(range(len(live)))


def test_two_curves_have_two_outlines(reports_dir: Path) -> None:
    with (
        open_report(reports_dir / "baseline") as one,
        open_report(reports_dir / "candidate") as other,
    ):
        sides, pairs = (curve(one), curve(other)), align_liveness(one, other)
    figure = compare_steps(*sides, pairs).figure
    assert [len(_inner(trace.x)) for trace in figure.data] == [120, 140]
    # The last four steps are the same in both; twenty before them are only in the candidate.
    ends = [[round(x) for x in _inner(trace.x)[-4:]] for trace in figure.data]
    assert ends == [[136, 137, 138, 139]] * 2
    assert [_inner(trace.customdata)[-1][1] for trace in figure.data] == ["119", "c139"]


def test_names_cannot_become_markup(reports_dir: Path) -> None:
    with open_report(reports_dir / "baseline") as report:
        live = curve(report)
    hostile = type(live)(
        **{**live.__dict__, "name": ("<a href='x'>&</a>",) * len(live)},
    )
    texts = draw_steps(hostile).figure.data[0].customdata
    assert all("<a" not in text for text in texts)


@pytest.mark.parametrize("highest", [1, 900, 1024, 5000, 638_976, 940_572_672, 10**12])
def test_ticks_of_bytes_are_round_and_reach_the_top(highest: int) -> None:
    positions, labels = byte_ticks(highest)
    assert positions[0] == 0
    assert positions[-1] >= highest
    assert 2 <= len(positions) <= 9
    assert len(labels) == len(positions)
    assert len(set(labels)) == len(labels)
