"""Why an operation takes its time, against figures computed on paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.analyser.small_report import Shape
from tests.analyser.test_critical_path import N_TILES, Stages
from tests.generated_report import generate_report

from tilescope import analyser
from tilescope.analyser.advice.operation_time import (
    OperationTime,
    find_operation,
    operation_time,
    operation_verdict,
)
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.program.operations import operations, steps_of
from tilescope.analyser.summary.tile import busy_cycles, tile_facts
from tilescope.analyser.time.execution import execution
from tilescope.analyser.time.runs import executed
from tilescope.engine.program import Repeat, Sequence
from tilescope.reports import Report


def of(report: Report, name: str, layer: str = "library") -> OperationTime:
    return operation_time(report, find_operation(report, name, layer))  # type: ignore[arg-type]


def parts(found: OperationTime) -> dict[str, tuple[int, int]]:
    return {part.kind: (part.ideal_cycles, part.actual_cycles) for part in found.parts}


def test_the_convolution_of_the_small_report(small: Report) -> None:
    # The call has both compute sets. On IPU 0 in each of two runs, the convolution takes 200
    # cycles, 125 of them on the mean tile; relu is balanced, three times 30.
    actual = of(small, "layer1/conv")
    assert parts(actual) == {
        "compute": (2 * (125 + 90), 2 * (125 + 90)), "imbalance": (0, 2 * 75),
    }  # fmt: skip
    assert (actual.ideal_cycles, actual.actual_cycles) == (430, 580)
    assert actual.actual_cycles == actual.operation.cycles
    assert (actual.bound, actual.slowest_step_id, actual.n_tiles) == ("compute", 3, 4)
    # Over both runs and both steps; the mean of the four tiles is 2 · (125 + 90).
    first = actual.slowest_tiles[0]
    assert (first.tile_id, first.cycles) == (0, 2 * (200 + 90))
    assert first.times_mean == pytest.approx(580 / 430)
    assert [tile.tile_id for tile in actual.slowest_tiles] == [0, 1, 4, 5, 2]
    assert actual.plan is not None
    assert actual.plan.name == "layer1/conv"
    assert operation_verdict(actual) == (
        "layer1/conv takes 580 cycles (59.79 % of the time), 1.3 times its ideal of 430: imbalance"
        " is 150 of the 150 cycles above it, tile 0 computes 1.3 times the mean. At most 15.46 % of"
        " the time can be gained here."
    )
    assert actual.advice == ("Even out the work: map operands so that tiles get equal parts.",)


def test_exchanges_and_syncs_as_steps(small: Report) -> None:
    exchange = of(small, "layer1/conv/exchange", "step")
    # 48 bytes over four tiles at 4 bytes a cycle take 3 cycles, in two runs 6; on IPU 0, 20 each.
    assert parts(exchange) == {"exchange": (6, 40)}
    assert exchange.advice[0].startswith("Move less")
    assert (exchange.bound, exchange.slowest_tiles, exchange.slowest_step_id) == (
        "exchange", (), None,
    )  # fmt: skip
    copy = of(small, "in", "step")
    assert parts(copy) == {"stream_copy": (200, 200)}
    assert operation_verdict(copy).endswith("only less work makes it faster.")


def test_a_report_without_runs_is_of_one_execution(variation) -> None:
    actual = of(variation(Shape(n_runs=0)), "layer1/conv")
    assert parts(actual) == {"compute": (155, 155), "imbalance": (0, 75)}
    assert (actual.n_runs, actual.slowest_tiles[0].cycles) == (0, 230)


def test_unknown_names(small: Report) -> None:
    with pytest.raises(BadQuestion, match=r"unknown operation 'conf'.*'layer1/conv'"):
        find_operation(small, "conf")
    assert find_operation(small, "layer1/relu").step_id == 5  # of another layer


def test_two_ipus_that_wait(tmp_path: Path) -> None:
    stages = Stages()
    body = [stages.work(0, 1000), stages.work(1, 300), stages.meet()]
    report = stages.report(tmp_path, Sequence("main", [Repeat(3, Sequence("round", body))]))
    with report:
        slow, fast = of(report, "work 0 1000", "step"), of(report, "work 1 300", "step")
        cycles = execution(report).step_cycles
        assert slow.operation.step_id is not None
        assert slow.actual_cycles == cycles[slow.operation.step_id] >= 3 * 1000
        assert (fast.actual_cycles, fast.parts) == (0, ())
        assert operation_verdict(fast) == "work 1 300 takes no time on the critical path."
        assert [tile.tile_id for tile in fast.slowest_tiles] == [N_TILES]
        assert slow.slowest_tiles[0].times_mean == pytest.approx(N_TILES)
        assert slow.advice[0].startswith("Use more of the tiles")


@pytest.mark.parametrize("n_ipus", [1, 2])
def test_parts_add_up_to_the_operation(tmp_path: Path, n_ipus: int) -> None:
    path = generate_report(
        tmp_path / "one", n_tiles=16, n_ipus=n_ipus, n_steps=80, n_variables=20, seed=4
    )
    with analyser.open(path) as report:
        for layer in ("library", "model", "step"):
            for operation in operations(report, layer).operations:
                actual = operation_time(report, operation)
                assert actual.actual_cycles == operation.cycles
                assert all(0 <= part.ideal_cycles <= part.actual_cycles for part in actual.parts)
                assert operation_verdict(actual).endswith(".")


def test_busy_cycles_are_those_of_the_tiles(small: Report) -> None:
    local = steps_of(small, 1)
    actual = busy_cycles(small, local)
    for tile in range(8):
        of_tile = sum(
            step.cycles for step in tile_facts(small, tile).steps if step.step_id in local
        )
        assert actual[tile] == of_tile
    assert not busy_cycles(small, []).any()
    assert executed(small, 0).step_id.size
    assert actual.dtype == np.int64
