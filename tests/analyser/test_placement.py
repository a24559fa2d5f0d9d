"""What programs put on tiles, of one report and of two, computed on paper for the small report."""

from __future__ import annotations

import pytest
from tests.analyser.small_report import Shape

from tilescope.analyser.diff import (
    codelet_pairs,
    compute_set_pairs,
    exchange_pairs,
    variable_pairs,
)
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.memory.address_map import address_map
from tilescope.analyser.memory.lowered_variables import tile_variables
from tilescope.analyser.memory.placement import (
    codelet_placements,
    compute_set_placements,
    exchange_placements,
)
from tilescope.analyser.memory.variable_list import VariableFilter


def test_compute_sets_of_all_tiles_and_of_some(small):
    conv, relu = compute_set_placements(small)
    # Six tiles convolve with 8 bytes of state and 120 of code each.
    assert (conv.name, conv.step_id, conv.n_instances) == ("layer1/conv", 3, 1)
    assert (conv.n_vertices, conv.n_tiles, conv.state_bytes, conv.code_bytes) == (6, 6, 48, 720)
    assert (relu.n_vertices, relu.n_tiles, relu.bytes) == (8, 8, 48 + 320)
    conv, relu = compute_set_placements(small, [1, 5])
    assert (conv.n_vertices, conv.n_tiles, conv.state_bytes, conv.code_bytes) == (2, 2, 16, 240)
    assert (relu.state_bytes, relu.code_bytes) == (12, 80)


def test_a_filter_finds_compute_sets_by_name_and_by_codelet(small):
    assert [row.name for row in compute_set_placements(small, (), "RELU")] == ["layer1/relu"]
    assert [row.name for row in compute_set_placements(small, (), "conv<")] == ["layer1/conv"]
    assert compute_set_placements(small, (), "nothing") == ()


def test_codelets_count_their_code_once_a_tile(small):
    conv, relu = codelet_placements(small)
    assert (conv.vertex_type, conv.n_compute_sets, conv.step_id) == ("conv<float>", 1, 3)
    assert (conv.state_bytes, conv.code_bytes) == (48, 6 * 120)
    assert (relu.kind, relu.n_vertices, relu.code_bytes) == ("worker", 8, 8 * 40)
    assert [row.code_bytes for row in codelet_placements(small, [0])] == [120, 40]


def test_exchanges_of_tiles_have_their_code_there(small):
    rows = exchange_placements(small)
    assert [(row.step_id, row.code_bytes) for row in rows] == [(2, 24), (4, 24), (0, 8)]
    rows = exchange_placements(small, [1, 5])
    assert [(row.step_id, row.code_bytes) for row in rows] == [(2, 6), (4, 6), (0, 2)]
    assert (rows[0].n_fragments, rows[0].sent_bytes, rows[0].received_bytes) == (1, 64, 96)
    assert [row.step_id for row in exchange_placements(small, [1], "relu")] == [4]


@pytest.mark.parametrize(
    "question", [compute_set_placements, codelet_placements, exchange_placements]
)
def test_a_tile_that_does_not_exist(small, question):
    with pytest.raises(BadQuestion, match="tile 8"):
        question(small, [8])


def test_a_renamed_compute_set_is_the_same(small, variation):
    peer = variation(Shape(conv_name="layer1/renamed"))
    pairs = compute_set_pairs(small, peer)
    names = {(pair.known.name, pair.candidate.name if pair.candidate else "") for pair in pairs}
    assert names == {("layer1/conv", "layer1/renamed"), ("layer1/relu", "layer1/relu")}
    # A row is listed if it matches on one side.
    (pair,) = compute_set_pairs(small, peer, (), "renamed")
    assert pair.key == "layer1/conv"
    assert len(exchange_pairs(small, peer)) == len(codelet_pairs(small, peer)) + 1 == 3
    assert all(pair.baseline and pair.candidate for pair in exchange_pairs(small, peer))


def test_the_address_map_of_a_tile_has_no_holes(small):
    actual = address_map(small, 1)
    end = 0
    for block in actual.blocks:
        assert block.offset_bytes == end
        assert block.bytes > 0
        end += block.bytes
    assert end == actual.end_bytes
    parts = tile_variables(small, 1)
    assert end == int((parts.offset_bytes + parts.bytes).max())
    named = {name for block in actual.blocks for name in block.names}
    assert named == set(parts.name)
    assert sum(actual.bytes_of(use) for use in {block.use for block in actual.blocks}) == end


def test_an_address_that_variables_share_says_so(variation):
    report = variation(Shape())
    blocks = address_map(report, 0).blocks
    for block in blocks:
        assert (block.use == "shared") == (block.n_variables > 1)
        assert (block.use in {"code", "gap"}) == (block.n_variables == 0)


def test_variables_of_two_reports_by_identity(small, variation):
    peer = variation(Shape(weights_bytes=400, has_bias=True))
    pairs = {pair.key: pair for pair in variable_pairs(small, peer)}
    weights = pairs["weights"]
    assert weights.baseline is not None
    assert weights.candidate is not None
    assert weights.candidate.bytes - weights.baseline.bytes == 80
    assert pairs["bias"].baseline is None
    on_tile = variable_pairs(small, peer, VariableFilter(text="weights", source=("tile", 0)))
    assert [pair.key for pair in on_tile] == ["weights"]
