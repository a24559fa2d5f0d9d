"""Program trees of two reports as one, associated programs, and code by kind."""

from __future__ import annotations

import pytest
from tests.analyser.small_report import Shape
from tests.generated_report import generate_report

from tilescope import analyser
from tilescope.analyser.diff import pair_path, paired_children, paired_roots, search_pairs
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.memory.program_code import program_code
from tilescope.analyser.memory.tile_memory import categories, category_bytes
from tilescope.analyser.program.associated import associated_programs
from tilescope.analyser.program.program_tree import all_programs, child_ids
from tilescope.analyser.program.programs import node, program_cycles, roots
from tilescope.analyser.time.selection import selected_step_cycles


def _all_pairs(one, other):
    results, waiting = [], list(paired_roots(one, other))
    while waiting:
        pair = waiting.pop()
        results.append(pair)
        ends = [side.program_id if side else None for side in (pair.baseline, pair.candidate)]
        waiting += paired_children(one, other, ends[0], ends[1])
    return results


def test_a_report_beside_itself_is_the_same_everywhere(small):
    actual = _all_pairs(small, small)
    assert len(actual) == len(all_programs(small))
    assert {pair.mark for pair in actual} == {"same"}
    assert all(pair.baseline == pair.candidate for pair in actual)


def test_every_program_is_in_the_tree_of_two_reports_once(small, variation):
    peer = variation(Shape(conv_name="layer1/renamed", conv_tile0_cycles=300))
    actual = _all_pairs(small, peer)
    for side, report in (("baseline", small), ("candidate", peer)):
        numbers = [getattr(pair, side).program_id for pair in actual if getattr(pair, side)]
        assert sorted(numbers) == sorted(all_programs(report))
    marks = {pair.known.label: pair.mark for pair in actual}
    # A slower step changes what is around it; a new name alone changes nothing.
    assert marks["OnTileExecute (layer1/conv)"] == "changed"
    assert marks["DoExchange (layer1/relu/exchange)"] == "same"
    assert paired_roots(small, peer)[0].mark == "changed"
    pairs = {pair.known.label: pair for pair in actual}
    # Two runs on the slower IPU: the convolution takes 300 cycles in place of 200.
    assert pairs["OnTileExecute (layer1/conv)"].cycles == (400, 600)
    assert paired_roots(small, peer)[0].cycles == (970, 1170)
    assert pairs["OnTileExecute (layer1/conv)"].candidate.name == "layer1/renamed"


def test_a_path_leads_to_a_program_of_either_side(small, variation):
    peer = variation(Shape(conv_name="layer1/renamed"))
    for side, report in enumerate((small, peer)):
        for number in all_programs(report):
            path = pair_path(small, peer, side, number)
            last = (path[-1][0].baseline, path[-1][0].candidate)[side]
            assert last is not None
            assert last.program_id == number
            assert all(position >= 0 for _, position in path)
    with pytest.raises(BadQuestion, match="program 999"):
        pair_path(small, peer, 0, 999)


def test_a_search_lists_the_steps_of_both(small):
    keys, n_matches = search_pairs(small, small, "ontile", 1)
    assert (len(keys), n_matches) == (1, 2)


def test_a_search_lists_what_the_candidate_alone_has_inner_programs_too(tmp_path):
    paths = [
        generate_report(tmp_path / str(seed), n_tiles=16, n_steps=60 + 20 * seed, seed=seed)
        for seed in (1, 2)
    ]
    with analyser.open(paths[0]) as first, analyser.open(paths[1]) as second:
        alone = {
            pair.candidate.program_id: pair.candidate
            for pair in _all_pairs(first, second)
            if pair.baseline is None
        }
        inner = {number for number, node in alone.items() if node.step_id is None}
        assert inner
        kinds = {node.kind for side in (first, second) for node in all_programs(side).values()}
        keys = {key for kind in kinds for key in search_pairs(first, second, kind, 10**6)[0]}
        assert {int(key[1:]) for key in keys if key[0] == "c"} == set(alone)
        assert len(keys) == len(all_programs(first)) + len(alone)
        label = alone[min(inner)].label
        assert f"c{min(inner)}" in search_pairs(first, second, label, 10**6)[0]


def test_the_code_of_all_roots_is_all_code(small):
    names = [category.name for category in categories(small)]
    held = dict(zip(names, category_bytes(small).sum(axis=1).tolist(), strict=True))
    results = [program_code(small, root.program_id) for root in roots(small)]
    assert sum(code.control_bytes for code in results) == held["controlCode"]
    assert results[0].vertex_bytes == 6 * 120 + 8 * 40
    # A stream copy in and two exchanges; what the others have is control code.
    assert sum(code.exchange_bytes for code in results) == 8 + 24 + 24
    for number, below in child_ids(small).items():
        inside = node(small, number).code_inside_bytes - all_programs(small)[number].code_bytes
        assert inside == sum(node(small, category).code_inside_bytes for category in below)


def test_associated_programs_are_those_of_one_context(small):
    of_layer = {
        number: associated_programs(small, number, "library").program_ids
        for number in all_programs(small)
    }
    assert any(of_layer.values())
    for number, together in of_layer.items():
        assert not together or number in together
        assert all(of_layer[peer] == together for peer in together)
    with pytest.raises(BadQuestion, match="expected one of model, library, poplar"):
        associated_programs(small, 0, "python")


@pytest.mark.parametrize(("n_runs", "of_a_relu", "of_all"), [(2, 180, 970), (0, 30, 420)])
def test_the_cycles_of_a_program_are_those_of_the_steps_in_it(variation, n_runs, of_a_relu, of_all):
    report = variation(Shape(n_runs=n_runs))
    actual, below = program_cycles(report), child_ids(report)
    labels = {item.label: number for number, item in all_programs(report).items()}
    # A loop of three: its steps ran six times in two runs, and count once without a run.
    assert actual[labels["OnTileExecute (layer1/relu)"]] == of_a_relu
    assert sum(actual.get(item.program_id, 0) for item in roots(report)) == of_all
    assert int(selected_step_cycles(report).sum()) == of_all
    for parent, ids in below.items():
        assert actual[parent] == sum(actual.get(number, 0) for number in ids)


def test_a_report_without_runs_compares_as_compiled(small, variation):
    pair = paired_roots(small, variation(Shape(n_runs=0, conv_tile0_cycles=300)))[0]
    assert pair.cycles == (420, 520)  # an exchange takes 25 on the slower IPU
