"""Figures for notebooks: their data are the analyser's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.generated_report import generate_report

from tilescope.analyser.advice.insights import insights
from tilescope.analyser.diff import align_liveness
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.memory.liveness import curve
from tilescope.analyser.memory.tile_memory import tile_memory
from tilescope.analyser.program.operations import operations
from tilescope.analyser.time.execution import execution
from tilescope.reports import PackedArray, Report, open_report
from tilescope.webapp.figures.notebook import FIGURES, liveness, memory_by_tile, operations_pareto


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Report, Report]]:
    root = tmp_path_factory.mktemp("figures")
    paths: list[Path] = [
        generate_report(root / str(n), n_tiles=16, n_ipus=2, n_steps=60 + n, n_variables=20, seed=n)
        for n in (1, 2)
    ]
    with open_report(paths[0]) as first, open_report(paths[1]) as second:
        yield first, second


def test_memory_stacks_to_the_sum_of_its_series(two: tuple[Report, Report]) -> None:
    memory = tile_memory(two[0], "category")
    drawn = memory_by_tile(two[0])
    total = np.sum([trace.y for trace in drawn.data], axis=0)
    np.testing.assert_array_equal(total, memory.stacked_bytes)
    assert {trace.stackgroup for trace in drawn.data} == {"memory"}
    with pytest.raises(BadQuestion, match="colour"):
        memory_by_tile(two[0], breakdown="colour")  # type: ignore[arg-type]


def test_two_reports_are_outlines(two: tuple[Report, Report]) -> None:
    baseline, candidate = memory_by_tile(*two).data
    assert (baseline.name, candidate.name) == ("Baseline", "Candidate")
    np.testing.assert_array_equal(candidate.y, tile_memory(two[1], "none").total_bytes)


def test_liveness_of_two_reports_stands_over_aligned_steps(two: tuple[Report, Report]) -> None:
    drawn = liveness(*two, source=("ipu", 1))
    for trace, side, place in zip(drawn.data, two, align_liveness(*two).places, strict=True):
        actual = curve(side, ("ipu", 1))
        np.testing.assert_array_equal(trace.x, place)
        np.testing.assert_array_equal(
            trace.y, actual.not_always_live_bytes + actual.always_live_bytes
        )


def test_the_share_of_operations_rises_to_that_of_all(two: tuple[Report, Report]) -> None:
    listed = operations(two[0], "model")
    *_, share = operations_pareto(two[0], max_operations=10_000).data
    assert np.all(np.diff(share.y) >= 0)
    assert share.y[-1] == pytest.approx(100 * listed.cycles / listed.total_cycles)


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_every_figure_draws_one_and_two_reports(two: tuple[Report, Report], name: str) -> None:
    item, both = FIGURES[name](two[0], None), FIGURES[name](*two)
    assert item.layout.title.text
    assert {"Baseline", "Candidate"} <= {trace.name for trace in both.data}
    assert item.to_json()


def test_the_histogram_reads_memory_by_tile_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = set()
    array = Report.array

    def noted(report: Report, name: str) -> PackedArray:
        names.add(name)
        return array(report, name)

    monkeypatch.setattr(Report, "array", noted)
    path = generate_report(tmp_path, n_tiles=16, n_steps=60, n_variables=20)
    with open_report(path) as report:
        FIGURES["histogram"](report, None)
    assert names <= {"memory.tile"}


def test_phases_and_histogram_are_whole(two: tuple[Report, Report]) -> None:
    (bar,) = FIGURES["phases"](two[0], None).data
    assert sum(bar.y) == sum(execution(two[0]).phase_cycles.values())
    (bar,) = FIGURES["histogram"](two[0], None).data
    assert sum(bar.y) == sum(insights(two[0]).histogram_n_tiles) == 32
