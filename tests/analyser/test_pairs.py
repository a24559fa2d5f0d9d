"""Comparison of two reports: operations, live variables and tables by key."""

from __future__ import annotations

from collections.abc import Callable

from tests.analyser.small_report import Shape

from tilescope.analyser.diff import (
    always_live_pairs,
    kind_changes,
    live_column_pairs,
    memory_row_pairs,
    operation_changes,
    option_pairs,
    row_pairs,
)
from tilescope.analyser.memory.live_columns import live_columns
from tilescope.analyser.memory.liveness import step_variables
from tilescope.analyser.memory.tile_memory import memory_table
from tilescope.analyser.program.operations import operations
from tilescope.analyser.summary.summarise import comparable_sections, summarise
from tilescope.reports import Report

Variation = Callable[[Shape], Report]


def test_operations_are_aligned_by_name_and_sorted_by_change(
    small: Report, variation: Variation
) -> None:
    slower = variation(Shape(conv_tile0_cycles=300))
    (change,) = operation_changes(operations(small), operations(slower), "cycles")
    assert (change.key, change.baseline, change.candidate, change.delta) == (
        "layer1/conv",
        290,
        390,
        100,
    )
    (kind,) = kind_changes(operations(small), operations(slower))
    assert (kind.key, kind.known.n_operations) == ("poplin.convolution", 1)


def test_what_is_always_live_is_aligned_and_sorted_by_change(
    small: Report, variation: Variation
) -> None:
    larger = variation(Shape(weights_bytes=640, has_bias=True))
    actual = always_live_pairs(small, larger)
    sizes = {pair.key: (pair.baseline and pair.baseline.bytes, pair.candidate
                        and pair.candidate.bytes) for pair in actual}  # fmt: skip
    assert sizes["weights"] == (320, 640)
    assert sizes["bias"] == (None, 16)
    assert sizes["controlCode"][0] == sizes["controlCode"][1]
    changes = [abs((second or 0) - (first or 0)) for first, second in sizes.values()]
    assert changes == sorted(changes, reverse=True)


def test_live_variables_have_a_column_for_every_step(small: Report, variation: Variation) -> None:
    rows = live_columns(small, [3, 5, None])
    for index, step in enumerate((3, 5)):
        live = step_variables(small, step)
        sizes = [row.bytes[index] for row in rows if row.bytes[index] is not None]
        assert sum(size for size in sizes if size is not None) == live.total_bytes
    assert all(row.bytes[2] is None for row in rows)
    assert [row.max_bytes for row in rows] == sorted((row.max_bytes for row in rows), reverse=True)
    same = live_column_pairs(small, variation(Shape(conv_name="layer1/renamed")), [(3, 3), (5, 5)])
    assert len(same) == len(rows)
    assert all(pair.baseline and pair.candidate for pair in same)
    assert all(
        pair.baseline.bytes[:2] == pair.candidate.bytes
        for pair in same
        if pair.baseline and pair.candidate
    )


def test_tables_keep_what_one_side_lacks(small: Report, variation: Variation) -> None:
    second = variation(Shape(options={"autoReport.directory": "x"}))
    first_items, second_items = summarise(small), summarise(second)
    pairs = option_pairs(first_items.options, second_items.options)
    assert [(pair.baseline is None, pair.candidate is None) for pair in pairs] == [
        (False, True),
        (True, False),
    ]
    assert all(
        pair.baseline and pair.candidate
        for pair in row_pairs(first_items.memory, second_items.memory)
    )
    rows = memory_row_pairs(memory_table(small), memory_table(second))
    assert [pair.key for pair in rows] == [row.key for row in memory_table(small).rows]


def test_runs_are_compared_per_run(small: Report, variation: Variation) -> None:
    extra = variation(Shape(n_runs=50))
    first_items, second_items = comparable_sections(summarise(small), summarise(extra))
    results = {
        pair.key: pair for pair in row_pairs(first_items["Execution"], second_items["Execution"])
    }
    (cycles,) = (pair for key, pair in results.items() if key == "Cycles per run")
    assert cycles.baseline is not None
    assert cycles.candidate is not None
    assert cycles.baseline.value == cycles.candidate.value == 485
    single = summarise(variation(Shape(n_runs=1)))
    same, _ = comparable_sections(single, single)
    assert same == single.sections
