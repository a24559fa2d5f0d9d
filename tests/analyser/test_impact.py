"""What a run gains or loses by each change, on one IPU and on two, hand-computed and as a sum."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from tests.analyser.known_changes import PIPELINE, Pipeline, brisk, sluggish, steady

from tilescope import analyser
from tilescope.analyser.diff import compare
from tilescope.analyser.diff.causes.impact import Side, step_impacts

#: A meeting, a step, a meeting, a step.
MEETINGS = (True, False, True, False)
SAME = tuple((step, step) for step in range(4))


def side(own: ArrayLike, meetings: tuple[bool, ...] = MEETINGS) -> Side:
    """Return steps, each a group of its own; the path is what the later IPU does."""
    times = np.array(own, np.int64)
    region = np.cumsum(meetings)
    critical = np.zeros(times.shape[1], np.int64)
    for number in np.unique(region):
        part = region == number
        critical[part] = times[times[:, part].sum(axis=1).argmax(), part]
    return Side(times, critical, np.array(meetings), np.arange(len(meetings)))


def test_on_one_ipu_a_change_is_its_impact() -> None:
    actual, _ = step_impacts(side([[1, 10, 1, 20]]), side([[1, 15, 1, 13]]), SAME)
    assert actual.tolist() == [0, 5, 0, -7]


def test_what_another_ipu_hides_costs_the_run_nothing() -> None:
    before = side([[1, 10, 1, 20], [1, 30, 1, 20]])
    actual, _ = step_impacts(before, side([[1, 28, 1, 20], [1, 30, 1, 20]]), SAME)
    assert actual.tolist() == [0, 0, 0, 0]


def test_of_what_passes_another_ipu_only_the_rest_counts() -> None:
    before = side([[1, 10, 1, 20], [1, 30, 1, 20]])
    actual, _ = step_impacts(before, side([[1, 37, 1, 20], [1, 30, 1, 20]]), SAME)
    assert actual.tolist() == [0, 7, 0, 0]


def test_one_ipu_faster_and_one_slower_is_what_the_run_loses() -> None:
    before = side([[1, 90, 1, 20], [1, 30, 1, 20]])
    actual, _ = step_impacts(before, side([[1, 10, 1, 20], [1, 97, 1, 20]]), SAME)
    assert actual.tolist() == [0, 7, 0, 0]


def test_a_meeting_that_comes_between_counts_what_is_waited_for() -> None:
    before = side([[1, 10, 30, 20], [1, 30, 10, 20]], (True, False, False, False))
    after = side([[1, 10, 2, 30, 20], [1, 30, 2, 10, 20]], (True, False, True, False, False))
    gone, come = step_impacts(before, after, ((0, 0), (1, 1), (2, 3), (3, 4)))
    assert (gone.sum(), come.tolist()) == (0, [0, 0, 22, 0, 0])  # 61 → 83


times = st.lists(st.lists(st.integers(0, 50), min_size=4, max_size=4), min_size=2, max_size=2)


@given(times, times)
def test_impacts_add_up_to_the_change_of_the_run_and_turn_with_the_sides(
    one: list[list[int]], other: list[list[int]]
) -> None:
    before, after = side(one), side(other)
    assert before.critical is not None
    assert after.critical is not None
    actual, _ = step_impacts(before, after, SAME)
    assert actual.sum() == after.critical.sum() - before.critical.sum()
    assert (step_impacts(after, before, SAME)[0] == -actual).all()


@pytest.fixture(scope="session")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Pipeline], Path]:
    """Return a function that writes the report of a pipeline, once."""
    written: dict[Pipeline, Path] = {}

    def of(program: Pipeline) -> Path:
        if program not in written:
            written[program] = program(tmp_path_factory.mktemp("pipeline") / "r")
        return written[program]

    return of


@pytest.mark.parametrize("first", [brisk, steady, sluggish])
@pytest.mark.parametrize("second", [brisk, steady, sluggish])
def test_causes_of_a_real_pipeline_add_up_to_the_run(
    pipeline: Callable[[Pipeline], Path], first: object, second: object
) -> None:
    paths = pipeline(PIPELINE), pipeline(Pipeline(first=first, codelet=second))
    with analyser.open(paths[0]) as item, analyser.open(paths[1]) as peer:
        actual = compare(item, peer)
        assert sum(cause.cycles for cause in actual.causes) == actual.metric("cycles.total").delta
