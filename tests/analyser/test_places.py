"""Where a thing stands on all views, and things by a few words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.generated_report import generate_report

from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.memory.liveness import liveness_step_ids, step_program
from tilescope.analyser.memory.tile_memory import tile_memory
from tilescope.analyser.memory.variable_list import list_variables
from tilescope.analyser.program.operations import operation_steps, operations, steps_of
from tilescope.analyser.program.program_tree import all_programs
from tilescope.analyser.summary.lookup import look_up
from tilescope.analyser.summary.places import KINDS, busiest_tile, place_of
from tilescope.analyser.trace import step_details
from tilescope.reports import Report, open_report


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Report]:
    path = generate_report(
        tmp_path_factory.mktemp("places"), n_tiles=16, n_ipus=2, n_steps=60, n_variables=30, seed=4
    )
    with open_report(path) as opened:
        yield opened


def test_a_step_has_its_program_moment_and_operation(report: Report) -> None:
    for moment, step_id in enumerate(liveness_step_ids(report).tolist()):
        position = place_of(report, f"moment:{moment}")
        assert position.step_id == step_id
        assert position.program_id == step_program(report, moment)
        if position.operation is not None:
            actual = operations(report, position.layer).by_key[position.operation]  # type: ignore[arg-type]
            assert step_id in steps_of(report, actual.debug_context_id)


def test_a_program_that_is_no_step_has_no_place_in_the_trace(report: Report) -> None:
    outer = next(node for node in all_programs(report).values() if node.step_id is None)
    position = place_of(report, f"program:{outer.program_id}")
    assert (position.kind, position.step_id, position.moment) == ("program", None, None)
    assert position.program_id == outer.program_id


def test_an_operation_stands_at_its_longest_step(report: Report) -> None:
    key, actual = next(iter(operations(report, "model").by_key.items()))
    position = place_of(report, f"operation:{key}")
    longest = max(
        operation_steps(report, actual), key=lambda step: (step.n_executions > 0, step.cycles)
    )
    assert (position.step_id, position.program_id) == (longest.step_id, longest.program_id)
    assert position.layer == "model"


def test_tiles_and_variables(report: Report) -> None:
    position = place_of(report, "tile:17,3")
    assert (position.tile_id, position.detail.split(",")[0]) == (17, "IPU 1")
    assert tile_memory(report, "none").total_bytes[17] > 0
    row = list_variables(report).rows[0]
    position = place_of(report, f"variable:{row.name}")
    assert position.variable == row.name
    assert position.moment == row.start_step or row.start_step is None


@pytest.mark.parametrize(
    "what", ["", "step", "step:", "colour:3", "step:-1", "step:x", "step:999999", "tile:99999",
             "moment:99999", "program:99999", "variable:none", "operation:none", "step:9999999999"],
)  # fmt: skip
def test_an_unknown_thing_is_refused(report: Report, what: str) -> None:
    with pytest.raises(BadQuestion):
        place_of(report, what)


def test_what_is_found_has_a_place(report: Report) -> None:
    for text in ("layer", "12", "tile 3", "step 4", "weights", "DoExchange"):
        actual = look_up(report, text)
        assert actual, text
        for match in actual:
            assert match.what.partition(":")[0] in KINDS
            place_of(report, match.what)


def test_numbers_name_tiles_and_steps(report: Report) -> None:
    assert [match.what for match in look_up(report, "tile 3")][:1] == ["tile:3"]
    both = [match.what for match in look_up(report, "12")]
    assert both[:2] == ["tile:12", "step:12"]
    assert "tile:40" not in [match.what for match in look_up(report, "40")]


def test_all_words_must_be_in_a_name_and_kinds_are_capped(report: Report) -> None:
    assert look_up(report, "layer nowhere") == ()
    assert look_up(report, "  ") == ()
    actual = look_up(report, "layer", limit=2)
    kinds = [match.kind for match in actual]
    assert all(kinds.count(kind) <= 2 for kind in set(kinds))


@pytest.mark.parametrize("text", ["DoExchange", "a", "e layer", "exchange 1", "conv layer"])
def test_steps_are_found_in_their_order(report: Report, text: str) -> None:
    words = text.lower().split()
    expected = [
        f"step:{node.step_id}"
        for node in all_programs(report).values()
        if node.step_id is not None and all(word in node.label.lower() for word in words)
    ]
    results = [match.what for match in look_up(report, text, 10**6) if match.kind == "Step"]
    assert results == expected


def test_the_busiest_tile_of_a_step_is_one_that_computes(report: Report) -> None:
    tiles = [busiest_tile(report, step_id) for step_id in range(60)]
    assert None in tiles
    busy = [tile for tile in tiles if tile is not None]
    assert max(busy) < 32
    for step_id, tile in enumerate(tiles):
        cycles = step_details(report, step_id).costs
        maximum = max((cost.max_tile_cycles for cost in cycles), default=0)
        assert (tile is None) == (maximum == 0)
