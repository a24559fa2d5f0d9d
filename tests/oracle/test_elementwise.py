"""Elementwise functions on random shapes, layouts and mappings, against the naive machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.compared import check, run_both, seeds, small_machine, values_for
from tests.oracle.drawn_graphs import machines, new_builder, shapes, tensors, views
from tests.oracle.naive_codelets import (
    BINARY,
    BINARY_OF_WHOLE,
    TERNARY,
    UNARY,
    UNARY_OF_WHOLE,
)

from tilescope.engine import (
    Tensor,
    load_machine,
)
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import dtype_of
from tilescope.engine.library.popops.elementwise.operations import (
    binary,
    cast,
    clamp,
    select,
    unary,
)
from tilescope.engine.library.popops.elementwise.scaled_add import scaled_add


@given(st.data(), machines(), shapes(), st.booleans(), st.booleans(), seeds)
def test_scaled_add(
    data: st.DataObject, machine: Any, shape: Any, is_fast: bool, is_half: bool, seed: int
) -> None:
    graph, builder = new_builder(machine)
    dtype = "float16" if is_half else "float32"
    a, b = (data.draw(views(graph, shape, dtype, name)) for name in "ab")
    if data.draw(st.booleans()):
        scale: Tensor | float = data.draw(tensors(graph, (1,), dtype, "s", may_be_part=False))
    else:
        scale = 0.5
    scaled_add(builder, a, b, scale, optimise_for_speed=is_fast)
    inputs = [(x, values_for(x, seed + i)) for i, x in enumerate((a, b))]
    factor: Any = 0.5
    if isinstance(scale, Tensor):
        inputs.append((scale, values_for(scale, seed + 2)))
        factor = inputs[2][1]
    (result,) = check(builder, inputs, [a])
    near = 4e-3 if is_half else 1e-5
    np.testing.assert_allclose(result, inputs[0][1] + factor * inputs[1][1], rtol=near, atol=near)


@pytest.mark.parametrize(
    ("a", "b", "scale", "message"),
    [
        ("int32", "int32", 2.0, "'a' is int32: a scaled addition takes float16 or float32"),
        ("float32", "float16", 2.0, "'b' is float16, but its target 'a' is float32"),
        ("float32", "float32", "float16", "'s' is float16, but its target 'a'"),
        ("float32", "float32", "float32", "'s' scales an addition and has 3 elements"),
    ],
)
def test_an_invalid_scaled_addition(a: str, b: str, scale: Any, message: str) -> None:
    graph, builder = new_builder(load_machine("gc200", tiles_per_ipu=2))
    x, y = graph.add_variable(a, (3,), "a"), graph.add_variable(b, (3,), "b")
    factor = graph.add_variable(scale, (3,), "s") if isinstance(scale, str) else scale
    with pytest.raises(BadGraph, match=message):
        scaled_add(builder, x, y, factor)


@given(st.data(), machines(), shapes(), st.sampled_from(sorted(UNARY)), seeds)
def test_unary(data: st.DataObject, machine: Any, shape: Any, function: str, seed: int) -> None:
    graph, builder = new_builder(machine)
    x = data.draw(views(graph, shape))
    out = unary(builder, function, x)
    low = 0.1 if function in ("log", "sqrt", "inverse", "rsqrt") else -2.0
    low, high = (-0.9, 0.9) if function in ("log1p", "asin", "tan") else (low, 2.0)
    values = values_for(x, seed, low=low, high=high)
    if function.startswith("is_"):
        outlier = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
        values = np.random.default_rng(seed).choice(outlier, values.shape)
    (result,) = check(builder, [(x, values)], [out])
    expected = np.vectorize(UNARY[function], otypes=[float])(values.astype(np.float64))
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-5)


@given(st.data(), machines(), shapes(), st.sampled_from(sorted(BINARY)), seeds)
def test_binary_broadcasts(
    data: st.DataObject, machine: Any, shape: Any, function: str, seed: int
) -> None:
    graph, builder = new_builder(machine)
    is_stretched = data.draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    peer = [1 if flag else s for s, flag in zip(shape, is_stretched, strict=True)]
    peer = peer[data.draw(st.integers(0, len(shape) - 1)) :]
    first, second = (shape, peer) if data.draw(st.booleans()) else (peer, shape)
    a = data.draw(views(graph, first, name="a"))
    b = data.draw(views(graph, second, name="b"))
    out = binary(builder, function, a, b, shape)
    low = 0.2 if function in ("divide", "power") else -2.0
    left, right = values_for(a, seed, low=low), values_for(b, seed + 1, low=low)
    (result,) = check(builder, [(a, left), (b, right)], [out])
    expected = np.vectorize(BINARY[function], otypes=[float])(left.astype(np.float64), right)
    np.testing.assert_allclose(result, np.broadcast_to(expected, shape), rtol=3e-5, atol=2e-5)


@given(st.data(), machines(), st.sampled_from(["add", "subtract", "multiply", "divide"]), seeds)
def test_broadcast_of_one_row(data: st.DataObject, machine: Any, function: str, seed: int) -> None:
    """Rows of one tile share a bias or a scale, for all rows or per group."""
    graph, builder = new_builder(machine)
    groups, rows = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 7))
    columns = data.draw(st.sampled_from([1, 3, 4, 8, 12]))
    a = graph.add_variable("float16", (groups, rows, columns), "a")
    graph.map_linearly(a, grain=data.draw(st.sampled_from([1, columns, rows * columns])))
    is_grouped = data.draw(st.booleans())
    b = data.draw(views(graph, (groups if is_grouped else 1, 1, columns), "float16", "b"))
    operands = [b, a] if function in ("add", "multiply") and data.draw(st.booleans()) else [a, b]
    out = binary(builder, function, operands[0], operands[1], a.shape)
    left, right = (values_for(x, seed, low=0.5).astype(np.float16) for x in (a, b))
    (result,) = check(builder, [(a, left), (b, right)], [out])
    expected = np.vectorize(BINARY[function])(left.astype(np.float64), right.astype(np.float64))
    np.testing.assert_allclose(result, expected, rtol=2e-3)


@pytest.mark.parametrize(
    ("function", "dtype", "columns", "is_taken"),
    [
        ("add", "float16", 16, True),
        ("add", "float16", 10, False),
        ("add", "float32", 16, False),
        ("divide", "float32", 10, True),
        ("maximum", "float16", 16, False),
    ],
)
def test_condition_for_the_shared_row_vertex(
    function: str, dtype: str, columns: int, is_taken: bool
) -> None:
    """Source: graphcore/poplibs sdk-release-3.4, lib/popops/ElementWise.cpp."""
    graph, builder = new_builder(small_machine(2))
    a = graph.add_variable(dtype, (6, columns), "a")
    b = graph.add_variable(dtype, (columns,), "b")
    for tensor in (a, b):
        graph.map_linearly(tensor, grain=3 * columns)
    binary(builder, function, a, b, a.shape)
    (compute_set,) = graph.compute_sets
    names = {batch.codelet.name for batch in compute_set.batches}
    kind = "VectorInner" if is_taken else "Op2D"
    assert names == {f"popops::Broadcast{kind}<{function}>"}


@pytest.mark.parametrize("function", ["add", "subtract", "multiply", "maximum", "minimum"])
def test_binary_on_integers(function: str) -> None:
    graph, builder = new_builder(small_machine(5))
    a = graph.add_variable("int32", (4, 3), "a")
    b = graph.add_variable("int32", (3,), "b")
    graph.map_linearly(a)
    graph.map_linearly(b, first=2)
    out = binary(builder, function, a, b, (4, 3))
    left, right = values_for(a, 1), values_for(b, 2)
    (result,) = check(builder, [(a, left), (b, right)], [out])
    assert result.tolist() == np.vectorize(BINARY[function])(left, right).tolist()


@given(st.data(), machines(), shapes(), st.sampled_from(sorted(TERNARY)), seeds)
def test_ternary_broadcasts(
    data: st.DataObject, machine: Any, shape: Any, function: str, seed: int
) -> None:
    graph, builder = new_builder(machine)
    dtype = data.draw(st.sampled_from(["float32", "int32"]))
    kinds = [dtype, dtype, "bool" if function == "select" else dtype]
    operands, values = [], []
    for i, kind in enumerate(kinds):
        is_stretched = [data.draw(st.integers(0, 3)) == 3 for _ in shape]
        sizes = [1 if flag else n for n, flag in zip(shape, is_stretched, strict=True)]
        operands.append(data.draw(views(graph, sizes, kind, "abc"[i])))
        given_values = values_for(operands[i], seed + i, low=-2 if i != 2 else 0.5)
        values.append(np.abs(given_values) % 2 if kind == "bool" else given_values)
    out = (select if function == "select" else clamp)(builder, *operands)
    (result,) = check(builder, list(zip(operands, values, strict=True)), [out])
    expected = np.vectorize(TERNARY[function], otypes=[float])(*values)
    np.testing.assert_allclose(result, expected.reshape(result.shape), rtol=1e-6)
    assert out.dtype.name == dtype


@given(st.data(), machines(), shapes(), st.sampled_from(sorted(BINARY_OF_WHOLE)), seeds)
def test_integer_functions(
    data: st.DataObject, machine: Any, shape: Any, function: str, seed: int
) -> None:
    graph, builder = new_builder(machine)
    dtype = "bool" if function.startswith("logical") else "int32"
    a, b = (data.draw(views(graph, shape, dtype, name)) for name in "ab")
    random = np.random.default_rng(seed)
    low, high = (0, 2) if dtype == "bool" else (-1000, 1000)
    left = random.integers(low, high, shape).astype(np.int32)
    right = random.integers(0, 12 if function.startswith("shift") else high, shape)
    out = binary(builder, function, a, b)
    kinds = ["bitwise_not", "count_leading_zeros", "popcount"]
    turn = "logical_not" if dtype == "bool" else data.draw(st.sampled_from(kinds))
    inverse = unary(builder, turn, out)
    results = check(builder, [(a, left), (b, right.astype(np.int32))], [out, inverse])
    expected = np.vectorize(BINARY_OF_WHOLE[function], otypes=[int])(left, right)
    assert results[0].astype(int).tolist() == expected.tolist()
    turned = np.vectorize(UNARY_OF_WHOLE[turn], [int])(expected)
    assert results[1].astype(int).tolist() == turned.tolist()


@pytest.mark.parametrize(
    ("function", "left", "right", "expected"),
    [
        ("remainder", [7, -7, 7, -7], [3, 3, -3, -3], [1, -1, 1, -1]),
        ("equal", [1, 2, 2**31 - 1, -5], [1, 3, 2**31 - 1, 5], [1, 0, 1, 0]),
        ("less", [16_777_217, -1, 0, 3], [16_777_216, 0, 0, 4], [0, 1, 0, 1]),
    ],
)
def test_integers_beyond_the_mantissa(
    function: str, left: list[int], right: list[int], expected: list[int]
) -> None:
    graph, builder = new_builder(small_machine(2))
    a, b = (graph.add_variable("int32", (4,), name) for name in "ab")
    for tensor in (a, b):
        graph.map_linearly(tensor)
    out = binary(builder, function, a, b)
    inputs = [(a, np.array(left, np.int32)), (b, np.array(right, np.int32))]
    _, (result,) = run_both(graph, builder.sequence, inputs, [out])
    assert result.astype(int).tolist() == expected


def test_ties_round_away_from_zero_or_to_even() -> None:
    graph, builder = new_builder(small_machine(2))
    x = graph.add_variable("float32", (6,), "x")
    graph.map_linearly(x)
    outs = [unary(builder, function, x) for function in ("round", "nearby_int", "trunc", "ceil")]
    values = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)
    results = check(builder, [(x, values)], outs)
    assert [result.tolist() for result in results] == [
        [-3, -2, -1, 1, 2, 3],
        [-2, -2, 0, 0, 2, 2],
        [-2, -1, 0, 0, 1, 2],
        [-2, -1, 0, 1, 2, 3],
    ]


def test_incompatible_operands() -> None:
    graph, builder = new_builder(small_machine(2))
    x, full, flag, peer = (
        graph.add_variable(dtype, shape, name)
        for dtype, shape, name in (
            ("float32", (4,), "x"),
            ("int32", (4,), "whole"),
            ("bool", (4,), "flag"),
            ("float32", (3,), "other"),
        )
    )
    for tensor in (x, full, flag, peer):
        graph.map_linearly(tensor)
    for message, call in (
        (
            "Unknown function 'plus' of 2 operands: use one of add",
            lambda: binary(builder, "plus", x, x),
        ),
        ("Unknown function 'add' of 1 operand: use one of abs", lambda: unary(builder, "add", x)),
        (
            r"add of 'x' \(float32\) and 'whole' \(int32\)",
            lambda: binary(builder, "add", x, full),
        ),
        (
            r"add: shapes \[\(4,\), \(3,\)\] do not broadcast to one",
            lambda: binary(builder, "add", x, peer),
        ),
        (
            "logical_and of 'x': float32.*cast it to bool",
            lambda: binary(builder, "logical_and", x, x),
        ),
        ("add of 'flag': bool", lambda: binary(builder, "add", flag, flag)),
        ("bitwise_not of 'flag': bool", lambda: unary(builder, "bitwise_not", flag)),
        (
            r"select: expected a bool chooser, got 'whole' \(int32\)",
            lambda: select(builder, x, x, full),
        ),
        (r"select of 'x' \(float32\) and 'whole'", lambda: select(builder, x, full, flag)),
    ):
        with pytest.raises(BadGraph, match=message):
            call()


@pytest.mark.parametrize("function", ["exp", "inverse", "tanh"])
def test_real_functions_reject_integers(function: str) -> None:
    graph, builder = new_builder(small_machine(2))
    x = graph.add_variable("int32", (4,), "x")
    graph.map_linearly(x)
    with pytest.raises(BadGraph, match=r"x.*int32.*cast it to float32 or float16"):
        unary(builder, function, x)


CASTS = [("float32", "float16"), ("float16", "float32"), ("float32", "int32"), ("int32", "float16")]


@given(st.data(), machines(), shapes(), st.sampled_from(CASTS), seeds)
def test_cast(
    data: st.DataObject, machine: Any, shape: Any, types: tuple[str, str], seed: int
) -> None:
    graph, builder = new_builder(machine)
    x = data.draw(views(graph, shape, types[0]))
    out = cast(builder, x, dtype_of(types[1]))
    values = values_for(x, seed).astype(types[0])
    (result,) = check(builder, [(x, values)], [out])
    np.testing.assert_array_equal(result, values.astype(types[1]))
