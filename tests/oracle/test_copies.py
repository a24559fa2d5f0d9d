"""Copies, fills and joins on random shapes, layouts and mappings, against the naive machine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.compared import check, run_both, seeds, small_machine, values_for
from tests.oracle.drawn_graphs import machines, mappings, new_builder, shapes, tensors, views

from tilescope.engine import (
    Tensor,
    concat,
)
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph.tensor.tensor import row_major
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.operations import (
    blocked_copy,
    copy_to,
    rearranged,
    row_major_copy,
)
from tilescope.engine.program import Copy


@given(st.data(), machines(), shapes(), st.sampled_from(["float32", "int32"]), seeds)
def test_copy(data: st.DataObject, machine: Any, shape: Any, dtype: str, seed: int) -> None:
    graph, builder = new_builder(machine)
    source = data.draw(views(graph, shape, dtype, "source"))
    target = data.draw(views(graph, shape, dtype, "target", may_be_part=False))
    copy_to(builder, source, target)
    values = values_for(source, seed)
    (result,) = check(builder, [(source, values)], [target])
    np.testing.assert_array_equal(result, values)


@given(st.data(), machines(), st.sampled_from(["float16", "float32", "int32", "uint8"]), seeds)
def test_a_copy_that_transposes(data: st.DataObject, machine: Any, dtype: str, seed: int) -> None:
    graph, builder = new_builder(machine)
    planes, rows, columns = (data.draw(st.sampled_from(n)) for n in ([1, 2, 7], [3, 4, 8], [4, 12]))
    source = data.draw(views(graph, (planes, columns, rows), dtype, "source"))
    target = graph.add_variable(dtype, (planes, rows, columns), "target")
    graph.map_linearly(target, grain=data.draw(st.sampled_from([1, columns, rows * columns])))
    copy_to(builder, source.dim_shuffle(0, 2, 1), target)
    values = values_for(source, seed).astype(
        np.float16 if dtype == "float16" else source.dtype.host
    )
    if dtype == "uint8":
        values = np.abs(values)
    (result,) = check(builder, [(source, values)], [target])
    np.testing.assert_array_equal(result, values.transpose(0, 2, 1))


@pytest.mark.parametrize(
    ("dtype", "rows", "is_taken"),
    [("float16", 8, True), ("float16", 6, False), ("int32", 6, True), ("uint8", 8, False)],
)
def test_condition_for_the_transposition_vertex(dtype: str, rows: int, is_taken: bool) -> None:
    graph, builder = new_builder(small_machine(2))
    source = graph.add_variable(dtype, (12, 16, rows), "source")
    target = graph.add_variable(dtype, (12, rows, 16), "target")
    for tensor in (source, target):
        graph.map_linearly(tensor, grain=16 * rows)
    copy_to(builder, source.dim_shuffle(0, 2, 1), target)
    (compute_set,) = graph.compute_sets
    names = {batch.codelet.name for batch in compute_set.batches}
    assert names == {"poplar_rt::Transpose" if is_taken else "poplar::StridedCopy"}


@given(machines(), st.data(), seeds)
def test_blocks_of_one_size_into_blocks_of_another(
    machine: Any, data: st.DataObject, seed: int
) -> None:
    """Channels in groups of one size are copied to groups of another, whatever the sizes."""
    graph, builder = new_builder(machine)
    sizes = [data.draw(st.integers(1, 6)) for _ in range(2)]
    n = math.lcm(*sizes) * data.draw(st.integers(1, 2))

    def grouped(name: str, size: int) -> Tensor:
        x = graph.add_variable("float32", (n // size, 3, size), name)
        graph.map_linearly(x)
        return x.dim_shuffle(1, 0, 2).reshape(3, n)

    source, target = grouped("source", sizes[0]), grouped("target", sizes[1])
    copy_to(builder, source, target)
    values = values_for(source, seed)
    _, (result,) = run_both(graph, builder.sequence, [(source, values)], [target])
    np.testing.assert_array_equal(result, values)
    n_sections = n // max(sizes)
    crosses = max(sizes) % min(sizes) != 0
    assert len(graph.compute_sets) == 1 + (crosses and n_sections > 16)


@given(
    st.data(),
    machines(),
    shapes(),
    st.sampled_from([("float32", 0.5), ("float16", -3.0), ("int32", 7), ("uint8", 200)]),
)
def test_fill(data: st.DataObject, machine: Any, shape: Any, kind: tuple[str, float]) -> None:
    """Fills every element of the tensor, and no other of its variable."""
    graph, builder = new_builder(machine)
    dtype, value = kind
    target = data.draw(tensors(graph, shape, dtype, "target"))
    full = Tensor(target.variable, 0, row_major(target.variable.shape))
    fill(builder, target, value)
    before = np.ones(full.shape, "float16" if dtype == "float16" else target.dtype.host)
    _, (result, all_of_it) = run_both(graph, builder.sequence, [(full, before)], [target, full])
    assert (result == value).all()
    assert (all_of_it == value).sum() == target.n_elements


def test_a_value_out_of_range_of_the_type() -> None:
    graph, builder = new_builder(small_machine(1))
    for dtype, value in (("int32", 0.5), ("uint8", 256), ("uint8", -1)):
        x = graph.add_variable(dtype, (2,), "x")
        graph.map_linearly(x)
        with pytest.raises(BadGraph, match=f"cannot fill 'x' of type {dtype} with"):
            fill(builder, x, value)


@given(st.data(), machines(), shapes(), seeds)
def test_copy_into_a_part(data: st.DataObject, machine: Any, shape: Any, seed: int) -> None:
    """A target may be a reversed slice of its variable; the rest is unchanged."""
    graph, builder = new_builder(machine)
    source = data.draw(views(graph, shape, name="source"))
    target = data.draw(tensors(graph, shape, name="target"))
    full = Tensor(target.variable, 0, row_major(target.variable.shape))
    builder.sequence.add(Copy(source, target))
    values, before = values_for(source, seed), values_for(full, seed + 1)
    inputs = [(source, values), (full, before)]
    _, (result, all_of_it) = run_both(graph, builder.sequence, inputs, [target, full])
    np.testing.assert_array_equal(result, values)
    assert (all_of_it != before).sum() <= target.n_elements


@given(st.data(), machines(), shapes(), seeds)
def test_copy_within_a_variable(data: st.DataObject, machine: Any, shape: Any, seed: int) -> None:
    graph, builder = new_builder(machine)
    sizes = [shape[0] + data.draw(st.integers(0, 3)), *shape[1:]]
    x = graph.add_variable("float32", sizes, "x")
    data.draw(mappings(graph, x))
    source = x.slice(0, sizes[0] - shape[0], sizes[0])
    target = x.slice(0, 0, shape[0])
    if data.draw(st.booleans()):
        source = source.reverse(data.draw(st.integers(0, len(shape) - 1)))
    builder.sequence.add(Copy(source, target))
    values = values_for(x, seed)
    _, (result,) = run_both(graph, builder.sequence, [(x, values)], [target])
    assert sorted(result.reshape(-1)) == sorted(values[sizes[0] - shape[0] :].reshape(-1))


@given(st.data(), machines(), shapes(), seeds)
def test_rearranged_keeps_the_logical_order(
    data: st.DataObject, machine: Any, shape: Any, seed: int
) -> None:
    graph, builder = new_builder(machine)
    x = data.draw(views(graph, shape))
    out = rearranged(builder, x, (x.n_elements,), "flat")
    values = values_for(x, seed)
    (result,) = check(builder, [(x, values)], [out])
    np.testing.assert_array_equal(result, values.reshape(-1))


@given(st.data(), machines(), shapes(), seeds)
def test_concat(data: st.DataObject, machine: Any, shape: tuple[int, ...], seed: int) -> None:
    graph, builder = new_builder(machine)
    dim = data.draw(st.integers(0, len(shape) - 1))
    dtype = data.draw(st.sampled_from(["float32", "int32"]))
    parts = []
    for i in range(data.draw(st.integers(1, 4))):
        sizes = list(shape)
        sizes[dim] = data.draw(st.integers(1, 4))
        parts.append(data.draw(tensors(graph, sizes, dtype, f"part {i}")))
    values = [values_for(part, seed + i) for i, part in enumerate(parts)]
    out = row_major_copy(builder, concat(parts, dim))
    (result,) = check(builder, list(zip(parts, values, strict=True)), [out])
    np.testing.assert_array_equal(result, np.concatenate(values, axis=dim))


@given(st.data(), machines(), st.sampled_from(["float32", "int32"]), seeds)
def test_a_copy_keeps_the_runs_of_most_elements(
    data: st.DataObject, machine: Any, dtype: str, seed: int
) -> None:
    graph, builder = new_builder(machine)
    sizes = data.draw(st.lists(st.sampled_from([1, 4, 8, 16]), min_size=1, max_size=3))
    groups = data.draw(st.lists(st.integers(1, 2), min_size=len(sizes), max_size=len(sizes)))
    parts = []
    for i, (size, n) in enumerate(zip(sizes, groups, strict=True)):
        blocks = graph.add_variable(dtype, (1, n, 3, 2, size), f"part {i}")
        graph.map_linearly(blocks, grain=size)
        parts.append(blocks.dim_shuffle(0, 1, 4, 2, 3).reshape(1, n * size, 3, 2))
    values = [values_for(part, seed + i) for i, part in enumerate(parts)]
    out = blocked_copy(builder, concat(parts, 1))
    (result,) = check(builder, list(zip(parts, values, strict=True)), [out])
    np.testing.assert_array_equal(result, np.concatenate(values, axis=1))
    if min(sizes) >= machine.conv_unit(4, 4)[1]:
        assert out.dims[1][-1][1] == 1
        assert out.dims[1][-1][0] >= min(sizes)
