"""An operation on the tiles, against figures computed on paper."""

from __future__ import annotations

from tilescope.analyser.advice.operation_tiles import operation_tiles
from tilescope.analyser.advice.operation_time import find_operation
from tilescope.analyser.program.operations import operations
from tilescope.reports import Report


def test_the_convolution_of_the_small_report(small: Report) -> None:
    actual = operation_tiles(small, find_operation(small, "layer1/conv"))
    # Two runs: the convolution once, relu three times 30 cycles.
    conv = [200, 150, 100, 50, 150, 150, 0, 0]
    assert actual.busy_cycles.tolist() == [2 * (cycles + 90) for cycles in conv]
    assert actual.code_bytes.tolist() == [2] * 8  # two programs with a byte on every tile
    assert [vertex.vertex_type for vertex in actual.vertices] == ["conv<float>", "relu<half>"]
    assert [(step.step_id, step.flops, step.code_bytes) for step in actual.steps] == [
        (3, 2 * 2 * 1000, 8), (5, 2 * 2 * 3 * 1000, 8),
    ]  # fmt: skip
    assert int(actual.busy_histogram.n_tiles.sum()) == 8
    assert actual.busy_histogram.n_idle_tiles == 0


def test_steps_and_what_they_sum_to(small: Report) -> None:
    exchange = operation_tiles(small, find_operation(small, "layer1/conv/exchange", "step"))
    assert exchange.code_bytes.tolist() == [3] * 8
    assert not exchange.busy_cycles.any()
    assert exchange.vertices == ()
    for operation in operations(small).operations:
        actual = operation_tiles(small, operation)
        assert sum(step.flops for step in actual.steps) == operation.flops
        assert sum(step.cycles for step in actual.steps) == operation.cycles
        assert len(actual.steps) == operation.n_steps
