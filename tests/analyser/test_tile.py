"""A tile, the floor plan, variables and a shortfall, computed on paper for the small report."""

from __future__ import annotations

import numpy as np
import pytest
from tests.analyser.small_report import Shape

from tilescope.analyser.advice.insights import insights
from tilescope.analyser.advice.shortfall import shortfall, shortfall_sentences
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.floor_plan import floor_plan, grid
from tilescope.analyser.memory.tile_memory import largest_tiles, memory_table
from tilescope.analyser.memory.variable_list import (
    SORTS,
    VariableFilter,
    list_variables,
    variable_places,
)
from tilescope.analyser.summary.tile import tile_facts
from tilescope.engine.machine import load_machine, tile_rows


def test_a_tile(small):
    actual = tile_facts(small, 1)
    assert (actual.tile_id, actual.ipu_id, actual.row, actual.column) == (1, 0, 0, 1)
    assert {row.key: row.bytes for row in actual.memory}["excluding_gaps"] == (264,)
    # Two runs: 150 cycles of the convolution and three times 30.
    assert actual.busy_cycles["compute"] == 2 * (150 + 3 * 30)
    assert (actual.n_runs, actual.run_cycles) == (2, 970)
    assert [(step.step_id, step.n_executions, step.cycles) for step in actual.steps] == [
        (3, 2, 300),
        (5, 6, 180),
    ]
    assert [(row.vertex_type, row.n_vertices) for row in actual.vertices] == [
        ("conv<float>", 1),
        ("relu<half>", 1),
    ]
    assert actual.peak is not None
    assert (actual.peak.step, actual.peak.not_always_live_bytes) == (3, 32)
    assert actual.variables.name == ("in", "act", "weights")
    assert tile_facts(small, 1, 0).busy_cycles["compute"] == 150 + 3 * 30


def test_tiles_add_up_to_the_ipu(small):
    busy = [tile_facts(small, tile).busy_cycles["compute"] for tile in range(4)]
    assert sum(busy) == 2 * (200 + 150 + 100 + 50 + 4 * 3 * 30)


def test_a_tile_without_runs_or_memory(variation):
    actual = tile_facts(variation(Shape(n_runs=0)), 0)
    assert (actual.n_runs, actual.run_cycles) == (0, 0)
    assert actual.busy_cycles["compute"] == 230
    bare = tile_facts(variation(Shape(has_memory=False)), 0)
    assert (bare.memory, bare.peak, len(bare.variables)) == ((), None, 0)


def test_the_floor_plan_of_few_tiles(small):
    plan = floor_plan(small)
    # Four tiles per IPU: two pairs in the first two rows.
    assert plan.row.tolist() == [0, 0, 1, 1] * 2
    assert plan.column.tolist() == [0, 1, 0, 1] * 2
    assert plan.hardware_order.tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
    cells = grid(small, np.arange(8), 1)
    assert cells[:3].tolist() == [[4, 5], [6, 7], [-1, -1]]


@pytest.mark.parametrize("name", ["gc2", "gc200", "bow", "c600"])
def test_the_floor_plan_is_that_of_the_engine(name, monkeypatch, small):
    from dataclasses import replace

    from tilescope.analyser.machine import floor_plan as module
    from tilescope.analyser.machine.target import target

    machine = load_machine(name)
    shape = replace(
        target(small),
        architecture=machine.architecture,
        tiles_per_ipu=machine.tiles_per_ipu,
        n_ipus=1,
    )
    monkeypatch.setattr(module, "target", lambda _: shape)
    plan = module.floor_plan.__wrapped__(small)  # type: ignore[attr-defined]
    assert np.array_equal(plan.row, tile_rows(machine.tiles_per_ipu, machine.exchange_rows))
    positions = set(zip(plan.row.tolist(), plan.column.tolist(), strict=True))
    assert len(positions) == machine.tiles_per_ipu == plan.n_rows * plan.n_columns
    assert np.array_equal(np.sort(plan.hardware_order), np.arange(machine.tiles_per_ipu))
    assert np.array_equal(plan.physical_id[plan.hardware_order], np.arange(machine.tiles_per_ipu))


def test_an_unknown_architecture_has_no_floor_plan(monkeypatch, small):
    from dataclasses import replace

    from tilescope.analyser.machine import floor_plan as module
    from tilescope.analyser.machine.target import target

    shape = replace(target(small), architecture="cpu")
    monkeypatch.setattr(module, "target", lambda _: shape)
    with pytest.raises(BadQuestion, match="known are ipu1, ipu2, ipu21"):
        module.floor_plan.__wrapped__(small)  # type: ignore[attr-defined]


def test_a_list_of_variables(small):
    actual = list_variables(small)
    assert [row.name for row in actual.rows] == ["weights", "in", "act", "layer1/conv/exchange"]
    assert (actual.n_variables, actual.total_bytes) == (4, 320 + 64 + 64 + 32)
    act = actual.rows[2]
    assert (act.shape, act.dtype, act.n_tiles, act.lives) == (
        (4, 8), "float16", 4, ((3, 7),),
    )  # fmt: skip
    for sort in SORTS:
        assert len(list_variables(small, None, sort).rows) == 4
    assert [row.name for row in list_variables(small, None, "start").rows][-1] == "act"


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (VariableFilter(text="CONV"), ["layer1/conv/exchange"]),
        (VariableFilter(category="constant"), ["weights"]),
        (VariableFilter(dtype="float16"), ["act"]),
        (VariableFilter(step=2), ["weights", "in", "layer1/conv/exchange"]),
        (VariableFilter(source=("tile", 4)), ["weights", "layer1/conv/exchange"]),
        (VariableFilter(source=("ipu", 0), dtype="float32"),
         ["weights", "in", "layer1/conv/exchange"]),
        (VariableFilter(text="nothing"), []),
    ],
)  # fmt: skip
def test_filters(small, wanted, names):
    assert [row.name for row in list_variables(small, wanted).rows] == names


def test_parts_of_ipus_add_up(small):
    full = {row.name: row.bytes for row in list_variables(small).rows}
    parts: dict[str, int] = {}
    for ipu in (0, 1):
        for row in list_variables(small, VariableFilter(source=("ipu", ipu))).rows:
            parts[row.name] = parts.get(row.name, 0) + row.bytes
    assert parts == full


def test_where_a_variable_lies(small):
    positions = variable_places(small, "layer1/conv/exchange")
    assert positions.tile_id.tolist() == [0, 4]
    assert positions.offset_bytes.tolist() == [32, 32]
    assert positions.bytes.tolist() == [16, 16]
    assert variable_places(small, "0").variable.name == "in"
    with pytest.raises(BadQuestion, match="nearest name is 'weights'"):
        variable_places(small, "weight")


def test_memory_by_ipu(small):
    table = memory_table(small, [0], [0, 1])
    assert table.columns == ("IPU 0", "IPU 1", "Tile 0")
    held = {row.key: row.bytes for row in table.rows}["excluding_gaps"]
    assert held == (280 + 3 * 264, 248 + 232 + 2 * 112, 280)
    assert largest_tiles(small, 2, [1]).tile_id.tolist() == [4, 5]
    assert insights(small, 1).fullest_tiles[0].tile_id == 4


def test_a_program_that_fits_has_no_shortfall(small):
    assert shortfall(small) is None


def test_a_shortfall(variation):
    # Tile 0 uses addresses up to 288 of 250; code alone is far less than executable memory.
    report = variation(Shape(bytes_per_tile=250))
    actual = shortfall(report)
    assert actual is not None
    # weights 320 always; at step 3, the worst, in 64 and act 64; the message does not count.
    assert actual.simultaneous_bytes == 320 + 64 + 64
    assert actual.least_tiles == 2
    assert actual.n_tiles_always_over == 0
    worst = actual.tiles[0]
    assert (worst.tile_id, worst.missing_bytes, worst.gap_bytes) == (0, 38, 8)
    # What holds most there is vertex code, 160 bytes, and that is enough.
    assert [(item.name, item.bytes) for item in worst.items] == [("vertexCode", 160)]
    assert worst.is_enough
    assert "at least 2 tiles of 250 B" in shortfall_sentences(actual)[0]
    assert insights(report).shortfall == actual
