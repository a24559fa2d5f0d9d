"""Reports with valid digests and implausible numbers: rejected, never followed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.analyser.small_report import Shape

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.memory import liveness, lowered_variables
from tilescope.analyser.program import programs
from tilescope.analyser.summary import metrics
from tilescope.analyser.time import runs
from tilescope.analyser.time.execution import costs, execution
from tilescope.reports import DamagedReport, Report


@pytest.mark.parametrize(
    ("fault", "ask", "said"),
    [
        ("machine", metrics.values, "target"),
        ("variable", lambda r: liveness.step_variables(r, 4), "lifetime.variable_id"),
        ("ipu", costs, "cost.ipu_id"),
        ("step", execution, "trace.step_id"),
        ("step", lambda r: runs.executed(r, 0), "trace.step_id"),
        ("trace", execution, "run_trace"),
        ("time", execution, "trace.end_cycle"),
        ("tile_start", lambda r: lowered_variables.variable_memory(r, 1), "lowered.tile_start"),
        pytest.param(
            "tile_start",
            lambda r: lowered_variables.tile_variables(r, 7),
            "lowered.tile_start",
            id="tile_start-of a tile",
        ),
        ("parent", lambda r: programs.node(r, 7), "parent_id 1152921504606846976"),
        ("pattern", liveness.curve, "liveness.pattern_id"),
    ],
)
def test_implausible_numbers_are_rejected(
    variation: Callable[[Shape], Report], fault: str, ask: Callable[[Report], Any], said: str
) -> None:
    with pytest.raises(DamagedReport) as error:
        ask(variation(Shape(fault=fault)))
    assert said in str(error.value)


def test_a_loop_without_end_is_counted_and_not_written_out(
    variation: Callable[[Shape], Report],
) -> None:
    report = variation(Shape(fault="count"))
    assert execution(report).executions[0].max() == 2 * 2_000_000_000
    with pytest.raises(BadQuestion, match="too many"):
        runs.executed(report, 0)
