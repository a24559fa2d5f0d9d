"""Comparison of two reports: operations, live variables and tables by key."""

from __future__ import annotations

from collections.abc import Callable

from tests.analyser.small_report import Shape

from tilescope.analyser.diff import (
    kind_changes,
    live_variable_changes,
    memory_row_pairs,
    operation_changes,
    option_pairs,
    row_pairs,
)
from tilescope.analyser.liveness import always_live_variables
from tilescope.analyser.operations import operations
from tilescope.analyser.summary import comparable_sections, summarise
from tilescope.analyser.tile_memory import memory_table
from tilescope.reports import Report

Variation = Callable[[Shape], Report]


def test_operations_are_aligned_by_name_and_sorted_by_change(
    small: Report, variation: Variation
) -> None:
    slower = variation(Shape(conv_tile0_cycles=300))
    (change,) = operation_changes(operations(small), operations(slower), "cycles")
    assert (change.key, change.baseline, change.candidate, change.delta) == (
        "layer1/conv",
        580,
        780,
        200,
    )
    (kind,) = kind_changes(operations(small), operations(slower))
    assert (kind.key, kind.known.n_operations) == ("poplin.convolution", 1)


def test_live_variables_are_aligned_by_name(small: Report, variation: Variation) -> None:
    larger = variation(Shape(weights_bytes=640, has_bias=True))
    changes = live_variable_changes(always_live_variables(small), always_live_variables(larger))
    found = {change.key: (change.baseline, change.candidate) for change in changes}
    assert found["weights"] == (320, 640)
    assert found["bias"] == (None, 16)
    assert live_variable_changes(None, None) == ()
    assert [abs(change.delta) for change in changes] == sorted(
        (abs(change.delta) for change in changes), reverse=True
    )


def test_tables_keep_what_one_side_lacks(small: Report, variation: Variation) -> None:
    other = variation(Shape(options={"autoReport.directory": "x"}))
    ones, others = summarise(small), summarise(other)
    pairs = option_pairs(ones.options, others.options)
    assert [(pair.baseline is None, pair.candidate is None) for pair in pairs] == [
        (False, True),
        (True, False),
    ]
    assert all(pair.baseline and pair.candidate for pair in row_pairs(ones.memory, others.memory))
    rows = memory_row_pairs(memory_table(small), memory_table(other))
    assert [pair.key for pair in rows] == [row.key for row in memory_table(small).rows]


def test_unequal_numbers_of_runs_are_compared_per_run(small: Report, variation: Variation) -> None:
    more = variation(Shape(n_runs=50))
    ones, others = comparable_sections(summarise(small), summarise(more))
    found = {pair.key: pair for pair in row_pairs(ones["Execution"], others["Execution"])}
    (cycles,) = (pair for key, pair in found.items() if key == "Cycles per run")
    assert cycles.baseline is not None
    assert cycles.candidate is not None
    assert cycles.baseline.value == cycles.candidate.value == 485
    same, _ = comparable_sections(summarise(small), summarise(small))
    assert same == summarise(small).sections
