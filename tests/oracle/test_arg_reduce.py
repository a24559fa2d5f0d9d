"""Positions of largest and smallest elements, against numpy and the naive machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.compared import check, seeds, small_machine
from tests.oracle.drawn_graphs import machines, new_builder, shapes, views

from tilescope.engine.errors import BadGraph
from tilescope.engine.library.popops.reduction.arg_reduce import (
    arg_max,
    arg_min,
    max_and_arg_max,
    min_and_arg_min,
)

TYPES = st.sampled_from(["float32", "float16", "int32"])


@given(st.data(), machines(), shapes(most=70, rank=2), TYPES, st.booleans(), seeds)
def test_values_and_positions(
    data: st.DataObject, machine: Any, shape: Any, dtype: str, last: bool, seed: int
) -> None:
    graph, builder = new_builder(machine)
    dim = data.draw(st.integers(0, len(shape) - 1))
    x = data.draw(views(graph, shape, dtype))
    matches = [
        *max_and_arg_max(builder, x, dim, last=last),
        *min_and_arg_min(builder, x, dim, last=last),
    ]
    values = np.random.default_rng(seed).integers(-5, 5, shape).astype(np.float32)
    results = check(builder, [(x, values)], matches)
    for result, sign in ((results[:2], 1), (results[2:], -1)):
        signed = sign * (np.flip(values, dim) if last else values)
        offset = np.argmax(signed, dim)
        np.testing.assert_array_equal(result[0], sign * signed.max(dim))
        np.testing.assert_array_equal(result[1], shape[dim] - 1 - offset if last else offset)
    assert matches[0].dtype == x.dtype


@pytest.mark.parametrize("find", [arg_max, arg_min])
def test_a_long_row_takes_several_stages_and_moves_candidates_only(find: Any) -> None:
    graph, builder = new_builder(small_machine(40))
    x = graph.add_variable("float32", (1, 4000), "x")
    graph.map_linearly(x, grain=2)
    actual = find(builder, x, 1)
    names = [step.name.rpartition("/")[2] for step in graph.compute_sets]
    assert names == ["gather", "reduce0", "reduce1"]
    values = np.random.default_rng(0).permutation(4000).astype(np.float32).reshape(1, 4000)
    (result,) = check(builder, [(x, values)], [actual])
    assert result.tolist() == [int((np.argmax if find is arg_max else np.argmin)(values))]
    (gather,) = graph.compute_sets[0].batches
    local = graph.tile_mapping(x)
    for tile, start in zip(gather.tile, gather.fields["x"].start, strict=True):
        assert any(low <= start < high for low, high in local.intervals(int(tile)))


def test_mistakes_are_named() -> None:
    graph, builder = new_builder(small_machine(2))
    x = graph.add_variable("bool", (2, 3), "x")
    graph.map_linearly(x)
    with pytest.raises(BadGraph, match="argMax: 'x' is bool: expected float16, float32 or int32"):
        arg_max(builder, x, 1)
    with pytest.raises(BadGraph, match="argMin"):
        arg_min(builder, x, 2)
