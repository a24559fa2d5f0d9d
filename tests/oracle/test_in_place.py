"""Operations in place and maps of expressions, against the naive machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.compared import check, held, seeds, small_machine, values_for
from tests.oracle.drawn_graphs import machines, new_builder, shapes, views

from tilescope.engine import compile_programs
from tilescope.engine.codelets.popops.elementwise.operations import TO_BOOL
from tilescope.engine.errors import BadGraph
from tilescope.engine.library.popops.elementwise.in_place import (
    binary_in_place,
    select_in_place,
    unary_in_place,
)
from tilescope.engine.library.popops.elementwise.map import (
    Expression,
    call,
    map_expression,
    map_in_place,
    operand,
)

FLOATS = st.sampled_from(["float32", "float16"])


@given(
    st.data(),
    machines(),
    shapes(),
    FLOATS,
    st.sampled_from(["relu", "sigmoid", "tanh", "exp", "negate", "square", "absolute"]),
    seeds,
)
def test_unary(
    data: st.DataObject, machine: Any, shape: Any, dtype: str, function: str, seed: int
) -> None:
    graph, builder = new_builder(machine)
    x = data.draw(views(graph, shape, dtype))
    unary_in_place(builder, function, x)
    check(builder, [(x, values_for(x, seed))], [x])


@given(
    st.data(),
    machines(),
    shapes(),
    FLOATS,
    st.sampled_from(["add", "subtract", "multiply", "maximum", "minimum"]),
    seeds,
)
def test_binary(
    data: st.DataObject, machine: Any, shape: Any, dtype: str, function: str, seed: int
) -> None:
    graph, builder = new_builder(machine)
    a = data.draw(views(graph, shape, dtype, "a"))
    narrow = [1 if data.draw(st.integers(0, 2)) == 2 else size for size in shape]
    b = data.draw(views(graph, narrow, dtype, "b"))
    binary_in_place(builder, function, a, b)
    check(builder, [(a, values_for(a, seed)), (b, values_for(b, seed + 1))], [a, b])


@given(st.data(), machines(), shapes(), st.sampled_from(["float32", "float16", "int32"]), seeds)
def test_select(data: st.DataObject, machine: Any, shape: Any, dtype: str, seed: int) -> None:
    graph, builder = new_builder(machine)
    a = data.draw(views(graph, shape, dtype, "a"))
    narrow = [1 if data.draw(st.integers(0, 2)) == 2 else size for size in shape]
    b = data.draw(views(graph, narrow, dtype, "b"))
    chooser = data.draw(views(graph, narrow, "bool", "chooser"))
    select_in_place(builder, a, b, chooser)
    values = [values_for(x, seed + i) for i, x in enumerate((a, b, chooser))]
    values[2] = np.abs(values[2]) % 2
    (result,) = check(builder, list(zip((a, b, chooser), values, strict=True)), [a])
    left, right = (held(graph, x, v) for x, v in zip((a, b), values, strict=False))
    np.testing.assert_array_equal(result, np.where(values[2], left, right))


@pytest.mark.parametrize("function", ["add", "subtract", "multiply", "divide"])
@pytest.mark.parametrize("shape", [(12, 16), (3, 4, 8), (5, 12)])
def test_a_shared_row_of_halves_has_its_own_vertex(function: str, shape: tuple[int, ...]) -> None:
    graph, builder = new_builder(small_machine(2))
    a = graph.add_variable("float16", shape, "a")
    graph.map_linearly(a, grain=shape[-1])
    b = graph.add_variable("float16", shape[-1:], "b")
    graph.map_linearly(b)
    binary_in_place(builder, function, a, b)
    (codelet,) = {batch.codelet.name for c in graph.compute_sets for batch in c.batches}
    assert codelet == f"popops::BroadcastVectorInnerInPlace<{function}>"
    values = values_for(a, 1), values_for(b, 2, low=1, high=3)
    check(builder, [(a, values[0]), (b, values[1])], [a, b])


@given(machines(), st.integers(1, 40), seeds)
def test_an_operand_may_be_the_target_reversed(machine: Any, n: int, seed: int) -> None:
    """Its elements are read before the vertices of other elements write them."""
    graph, builder = new_builder(machine)
    a = graph.add_variable("float32", (n,), "a")
    graph.map_linearly(a)
    binary_in_place(builder, "subtract", a, a.reverse(0))
    values = values_for(a, seed)
    (result,) = check(builder, [(a, values)], [a])
    np.testing.assert_array_equal(result, values - values[::-1])


X, Y, Z = (operand(i) for i in range(3))
#: Few, because every expression is compiled.
EXPRESSIONS = [
    X * 2 + 1,
    call("clamp", X * 0.2 + 0.5, 0, 1),
    call("tanh", X) * call("sigmoid", Y) - X,
    call("select", X, Y, call("less", X, 0.5)) / (1 + call("absolute", Z)),
]


@given(
    st.data(),
    machines(),
    shapes(),
    FLOATS,
    st.sampled_from(EXPRESSIONS),
    st.booleans(),
    seeds,
)
def test_map(
    data: st.DataObject, machine: Any, shape: Any, dtype: str, expression: Expression,
    is_in_place: bool, seed: int,
) -> None:  # fmt: skip
    graph, builder = new_builder(machine)
    names = "abc"[: expression.n_operands]
    operands = [data.draw(views(graph, shape, dtype, name)) for name in names]
    if is_in_place:
        map_in_place(builder, expression, operands)
        out: Any = operands[0]
    else:
        out = map_expression(builder, expression, operands)
    check(builder, [(x, values_for(x, seed + i)) for i, x in enumerate(operands)], [out])


def test_a_map_is_one_compute_set_that_costs_less_than_its_parts() -> None:
    graph, builder = new_builder(small_machine(4))
    x, y = (graph.add_variable("float32", (4000,), name) for name in "xy")
    for tensor in (x, y):
        graph.map_linearly(tensor, grain=2)
    gelu = operand(0) * (call("tanh", operand(0) * 0.8 + operand(1)) + 1) * 0.5
    out = map_expression(builder, gelu, [x, y])
    assert [c.name for c in graph.compute_sets] == ["map/map"]
    values = [values_for(x, 1), values_for(y, 2)]
    (result,) = check(builder, [(x, values[0]), (y, values[1])], [out])
    a, b = (v.astype(np.float64) for v in values)
    np.testing.assert_allclose(result, a * (np.tanh(a * 0.8 + b) + 1) / 2, rtol=1e-5, atol=1e-6)
    executable = compile_programs(graph, [builder.sequence])
    # Two loads and a store, multiply, add, tanh, add, multiply, multiply for 84 vectors per worker.
    (step,) = [step for step in executable.steps if step.compute_set is not None]
    start = graph.machine.worker_start_cycles
    assert step.cost.cycles.max() == start + 6 * (20 + 84 * (3 + 5 * 1 + 10))
    assert builder.sequence.children[0].debug.flops == 6 * 4000


def test_a_comparison_is_bool_and_chooses() -> None:
    graph, builder = new_builder(small_machine(2))
    x = graph.add_variable("float32", (10,), "x")
    graph.map_linearly(x)
    above = map_expression(builder, call("greater", operand(0), 0.5), [x])
    capped = map_expression(
        builder, call("select", 0.5, operand(0), call("greater", operand(0), 0.5)), [x]
    )
    assert "greater" in TO_BOOL
    assert above.dtype.name == "bool"
    values = values_for(x, 3)
    results = check(builder, [(x, values)], [above, capped])
    np.testing.assert_array_equal(results[0], values > 0.5)
    np.testing.assert_array_equal(results[1], np.minimum(values, np.float32(0.5)))


@pytest.mark.parametrize(
    ("call_it", "message"),
    [
        (lambda b, x, _: map_expression(b, operand(0), [x]), "the expression computes nothing"),
        (lambda b, x, _: map_expression(b, operand(0) + operand(1), [x]), "takes 2 tensors, got 1"),
        (lambda b, _, i: map_expression(b, operand(0) + 1, [i]), "'i' is int32: expected float16"),
        (lambda b, x, _: map_in_place(b, call("less", operand(0), 1), [x]), "less returns bools"),
        (lambda *_: call("tanh", 1, 2), "Unknown function 'tanh' of 2 operands: it takes 1"),
        (lambda *_: call("tanh", "x"), "An operand of 'tanh' is 'x': expected an expression"),
        (lambda *_: operand(8), "a map takes up to 8 tensors"),
        (lambda b, x, _: unary_in_place(b, "is_nan", x), "is_nan of 'x' returns bools"),
        (lambda b, x, i: binary_in_place(b, "add", x, i), "'x' .float32. and 'i' .int32.: cast"),
        (
            lambda b, x, _: unary_in_place(b, "exp", x.reshape(1, 10).broadcast_to((3, 10))),
            "aliases elements of 'x'",
        ),
    ],
)
def test_invalid_arguments(call_it: Any, message: str) -> None:
    graph, builder = new_builder(small_machine(2))
    x, i = graph.add_variable("float32", (10,), "x"), graph.add_variable("int32", (10,), "i")
    for tensor in (x, i):
        graph.map_linearly(tensor)
    with pytest.raises(BadGraph, match=message):
        call_it(builder, x, i)


def test_values_are_held_in_the_operands_type() -> None:
    graph, builder = new_builder(small_machine(2))
    x = graph.add_variable("float16", (7,), "x")
    graph.map_linearly(x)
    out = map_expression(builder, operand(0) * 3.0 - 1, [x])
    values = values_for(x, 5)
    (result,) = check(builder, [(x, values)], [out])
    expected = (held(graph, x, values) * 3 - 1).astype(np.float16)
    np.testing.assert_array_equal(result, expected)
