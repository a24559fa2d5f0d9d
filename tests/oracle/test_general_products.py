"""Products of any rank, and vertices whose fields are tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.oracle.compared import check, small_machine, values_for
from tests.oracle.drawn_graphs import new_builder

from tilescope.engine import concat
from tilescope.engine.codelets.popops.elementwise.operations import UNARY, UNARY_BLOCK
from tilescope.engine.errors import BadGraph
from tilescope.engine.library.poplin.general_product import general_product


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3,), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3,)),
        ((2, 3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (3, 4, 2)),
    ],
)
def test_as_numpy(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    graph, builder = new_builder(small_machine(4))
    left, right = graph.add_variable("float32", a, "a"), graph.add_variable("float32", b, "b")
    for tensor in (left, right):
        graph.map_linearly(tensor)
    out = general_product(builder, left, right)
    inputs = [(left, values_for(left, 1)), (right, values_for(right, 2))]
    (result,) = check(builder, inputs, [out])
    expected = np.matmul(inputs[0][1], inputs[1][1])
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_shapes_that_do_not_fit() -> None:
    graph, builder = new_builder(small_machine(2))
    x = graph.add_variable("float32", (2, 3), "x")
    with pytest.raises(BadGraph, match=r"cannot multiply 'x' of shape \(2, 3\) and 'x'"):
        general_product(builder, x, x)


def test_fields_from_tensors() -> None:
    graph, builder = new_builder(small_machine(3))
    x, y = (graph.add_variable("float32", (3, 4), name) for name in "xy")
    for tensor in (x, y):
        graph.map_linearly(tensor, grain=4)
    rows = [x.slice(0, i, i + 1) for i in range(3)]
    compute_set = builder.compute_set("rows")
    to = [y.slice(0, i, i + 1) for i in range(3)]
    graph.add_vertices(compute_set, UNARY["square"], [0, 1, 2], {"x": rows, "out": to})
    z = graph.add_variable("float32", (2, 2, 2), "z")
    graph.map_linearly(z)
    part = concat([y.slice(0, 0, 1), y.slice(0, 1, 2)]).reshape(2, 2, 2)
    blocks = {"x": part, "out": z}
    graph.add_vertices(builder.compute_set("block"), UNARY_BLOCK["negate"], [1], blocks)
    values = values_for(x, 1)
    results = check(builder, [(x, values)], [y, z])
    np.testing.assert_array_equal(results[0], values**2)
    np.testing.assert_array_equal(results[1], -(values[:2] ** 2).reshape(2, 2, 2))


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (lambda x, _: [x.slice(0, 0, 1)], "has 1 tensors for 2 vertices: give one for all, or one"),
        (lambda x, y: [x.slice(0, 0, 1), y.slice(0, 0, 1)], "connects 'y' and another variable"),
        (lambda x, y: concat([x.slice(0, 0, 1), y.slice(0, 0, 1)]), "joins several variables"),
        (
            lambda x, _: [x.slice(0, 0, 1), 3],
            "one of its tensors is not a tensor: expected regions",
        ),
    ],
)
def test_fields_that_do_not_fit(field: Any, message: str) -> None:
    graph, builder = new_builder(small_machine(3))
    x, y = (graph.add_variable("float32", (3, 4), name) for name in "xy")
    compute_set = builder.compute_set("rows")
    with pytest.raises(BadGraph, match=message):
        graph.add_vertices(compute_set, UNARY["square"], [0, 1], {"x": field(x, y), "out": [y, y]})
