"""The difference flame: cycles by path of two reports, against sums computed on paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.generated_report import generate_report

from tilescope import analyser
from tilescope.analyser.diff import difference_flame
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.time.execution import execution
from tilescope.reports import Report

from .conftest import STEPS, loop, sequence

Make = Callable[..., Report]
#: The exchange is longer, the product is gone, and a sum comes at the end.
CHANGED = (
    ("OnTileExecute", "net/conv1/convolve", 40),
    ("DoExchange", "net/conv1/convolve", 18),
    ("Sync", "net/conv1", 5),
    ("StreamCopyMid", "out", 12),
    ("Sync", "out", 7),
    ("DoExchange", "net/sum", 30),
)


@pytest.fixture
def pair(make: Make) -> tuple[Report, Report]:
    """Return a baseline of one run and its changed candidate."""
    changed = sequence(10, table=CHANGED)
    return make([(0, 0, 0, sequence(10))]), make([(0, 0, 0, changed)], steps=CHANGED)


def test_paths_hold_the_cycles_of_both_reports(pair: tuple[Report, Report]) -> None:
    actual = difference_flame(*pair).rows()
    facts = {row.name: (row.baseline_cycles, row.candidate_cycles, row.verdict) for row in actual}
    assert facts == {
        "": (99, 112, "changed"),
        "net": (80, 93, "changed"),
        "net/conv1": (55, 63, "changed"),
        "net/conv1/convolve": (50, 58, "changed"),
        "net/conv1/convolve/Compute": (40, 40, "same"),
        "net/conv1/convolve/Internal exchange": (10, 18, "changed"),
        "net/conv1/Sync": (5, 5, "same"),
        "net/fc": (25, 0, "removed"),
        "net/fc/matmul": (25, 0, "removed"),
        "net/sum": (0, 30, "added"),
        "out": (19, 19, "same"),
        "out/Stream copy": (12, 12, "same"),
        "out/Sync": (7, 7, "same"),
    }
    assert {row.name: row.delta_cycles for row in actual}["net/sum"] == 30


def test_rows_are_as_wide_as_the_larger_side_of_their_steps(pair: tuple[Report, Report]) -> None:
    rows = {row.name: row for row in difference_flame(*pair).rows()}
    assert rows[""].width_cycles == 40 + 18 + 5 + 25 + 30 + 12 + 7
    assert rows["net"].width_cycles == 118
    assert (rows["net"].offset_cycles, rows["out"].offset_cycles) == (0, 118)
    assert rows["net/fc"].offset_cycles == 63
    assert (rows["net/fc"].baseline_step_id, rows["net/fc"].candidate_step_id) == (3, None)
    assert (rows["net/sum"].baseline_step_id, rows["net/sum"].candidate_step_id) == (None, 5)


def test_narrow_rows_are_left_out_and_a_path_is_a_root(pair: tuple[Report, Report]) -> None:
    flame = difference_flame(*pair)
    wide = [row.name for row in flame.rows(smallest=0.2)]
    assert wide == ["", "net", "net/conv1", "net/conv1/convolve", "net/conv1/convolve/Compute",
                    "net/sum"]  # fmt: skip
    below = flame.rows(flame.find("net/fc"))
    assert [row.name for row in below] == ["net/fc", "net/fc/matmul"]
    with pytest.raises(BadQuestion, match="below 'net/nothing'"):
        flame.find("net/nothing")


def test_swapped_reports_give_the_opposite(pair: tuple[Report, Report]) -> None:
    forth = {row.name: row.delta_cycles for row in difference_flame(*pair).rows()}
    back = {row.name: row.delta_cycles for row in difference_flame(*reversed(pair)).rows()}
    assert forth == {name: -delta for name, delta in back.items()}


def test_time_outside_steps_and_loops_are_counted(make: Make) -> None:
    gap = [*sequence(0, (0,)), *sequence(60, (3,))]
    first, second = make([(0, 0, 0, gap)]), make([(0, 0, 0, loop(0, 5, (0, 1)))])
    rows = {row.name: row for row in difference_flame(first, second).rows()}
    assert (rows[""].baseline_cycles, rows[""].candidate_cycles) == (85, 250)
    assert rows["(outside steps)"].delta_cycles == -20
    assert rows["net/conv1/convolve/Compute"].candidate_cycles == 200


def test_equal_reports_differ_nowhere(make: Make) -> None:
    first, second = (make([(0, 0, 0, sequence(0))]) for _ in range(2))
    assert {row.verdict for row in difference_flame(first, second).rows()} == {"same"}


def test_reports_without_runs_compare_one_execution(make: Make) -> None:
    flame = difference_flame(make([]), make([]))
    assert flame.basis == "estimate"
    assert flame.row(0).baseline_cycles == sum(cycles for _, _, cycles in STEPS)


@pytest.mark.parametrize("n_ipus", [1, 2])
def test_totals_are_those_of_the_reports(tmp_path: Path, n_ipus: int) -> None:
    paths = [
        generate_report(tmp_path / str(seed), n_tiles=16, n_ipus=n_ipus, n_steps=n_steps, seed=seed)
        for seed, n_steps in ((1, 400), (2, 440))
    ]
    with analyser.open(paths[0]) as first, analyser.open(paths[1]) as second:
        flame = difference_flame(first, second)
        totals = execution(first).total_cycles, execution(second).total_cycles
        assert tuple(flame.cycles[:, 0].tolist()) == totals
        for row, below in enumerate(flame.below):
            if below:
                assert flame.cycles[:, row].tolist() == flame.cycles[:, below].sum(axis=1).tolist()
                assert flame.width[row] == flame.width[list(below)].sum()
