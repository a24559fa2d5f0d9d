"""Elementwise functions and reductions at the limits of their types, against numpy.

Every value is tested alone and among many, which covers the loop's vectors and its remainder: a
result must not depend on the number of neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.oracle.compared import seeds, small_machine

from tilescope import engine
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor, dtype_of
from tilescope.engine.graph.mapping.elements import share_elements
from tilescope.engine.library.popops.elementwise.fill import fill
from tilescope.engine.library.popops.elementwise.operations import binary, cast, unary
from tilescope.engine.library.popops.elementwise.scaled_add import scaled_add
from tilescope.engine.library.popops.reduction.reduce import reduce

LEAST, MOST = -(2**31), 2**31 - 1
WHOLE = np.array([0, 1, -1, 7, -7, 31, 46_341, 2**24 + 1, MOST, LEAST], np.int32)
Values = NDArray[Any]


class Small:
    """A graph, its builder, and the values of its variables."""

    def __init__(self, n_tiles: int) -> None:
        self.graph = engine.Graph(small_machine(n_tiles))
        self.builder = engine.Builder(self.graph, engine.program.Sequence("main"))
        self.inputs: list[tuple[Tensor, Values]] = []

    def given(self, values: Any, dtype: str | None = None) -> Tensor:
        array = np.asarray(values)
        tensor = self.graph.add_variable(dtype or array.dtype, array.shape, "x")
        self.graph.map_linearly(tensor)
        self.inputs.append((tensor, array))
        return tensor

    def run(self, *outputs: Tensor) -> list[Values]:
        executable = engine.compile_programs(self.graph, [self.builder.sequence])
        with engine.Engine(executable) as device:
            for tensor, values in self.inputs:
                device.write_tensor(tensor, values)
            device.run()
            return [device.read_tensor(tensor) for tensor in outputs]


def alone_and_among_many(function: str, *operands: Values) -> list[Values]:
    """Return a function's results with one element per tile, and with all elements on one tile."""
    results = []
    for n_tiles in (operands[0].size, 1):
        small = Small(n_tiles)
        tensors = [small.given(operand) for operand in operands]
        out: Any = unary if len(operands) == 1 else binary
        results += small.run(out(small.builder, function, *tensors))
    return results


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rsqrt_of_zero_and_infinity(dtype: Any) -> None:
    x = np.tile(np.array([0, 4, 0.25, np.inf, np.nan], dtype), 8)
    with np.errstate(divide="ignore"):
        expected = 1 / np.sqrt(x)
    for result in alone_and_among_many("rsqrt", x):
        np.testing.assert_array_equal(result, expected)


def test_round_next_to_a_half_and_beyond_the_mantissa() -> None:
    below = np.nextafter(np.float32(0.5), np.float32(0))
    x = np.array([below, -below, 0.5, -0.5, 2.5, 2**23 + 1, -(2**23) - 1, np.inf], np.float32)
    expected = [0, 0, 1, -1, 3, 2**23 + 1, -(2**23) - 1, np.inf]
    for result in alone_and_among_many("round", np.tile(x, 5)):
        assert result.tolist() == expected * 5


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("remainder", np.fmod),
        ("shift_left", np.left_shift),
        ("shift_right_sign_extend", np.right_shift),
    ],
)
def test_integers_of_any_size(function: str, expected: Any) -> None:
    a, b = (grid.reshape(-1) for grid in np.meshgrid(WHOLE, WHOLE[WHOLE != 0]))
    for result in alone_and_among_many(function, a, b):
        assert result.tolist() == expected(a, b).tolist()


@pytest.mark.parametrize("source", ["float32", "float16", "int32", "uint8", "bool"])
def test_nonzero_is_true(source: str) -> None:
    values: list[float] = [0, 1, 0, 1] if source == "bool" else [0, 1, 2, 255]
    if source in ("float32", "float16"):
        values += [0.5, -0.25, 256, np.inf, np.nan]
    elif source == "int32":
        values += [-1, 256, LEAST]
    small = Small(2)
    x = small.given(np.array(values), source)
    truth = cast(small.builder, x, dtype_of("bool"))
    both = cast(small.builder, x.reverse(0), dtype_of("bool"))  # uses the block vertex
    results = small.run(truth, cast(small.builder, truth, dtype_of("int32")), both)
    expected = [value != 0 for value in values]
    assert results[0].tolist() == expected
    assert results[1].tolist() == [int(value) for value in expected]
    assert results[2].tolist() == expected[::-1]


def test_a_bool_holds_true_and_false_only() -> None:
    small = Small(2)
    x = small.graph.add_variable("bool", (2,), "flags")
    small.graph.map_linearly(x)
    with pytest.raises(BadGraph, match="cannot fill 'flags' of type bool with 2"):
        fill(small.builder, x, 2)
    with pytest.raises(BadGraph, match="0 to 2, but bool holds 0 to 1"):
        small.graph.add_constant([0, 2], "c", dtype="bool")
    small.inputs.append((x, np.array([1, 3])))
    with pytest.raises(BadGraph, match="The values of 'flags' range from 1 to 3"):
        small.run()


def test_an_infinite_integer() -> None:
    with pytest.raises(BadGraph, match="'c' is int32: expected integers, got fractions"):
        Small(1).graph.add_constant([np.inf], "c", dtype="int32")


@pytest.mark.parametrize(("operation", "function"), [("sum", np.sum), ("product", np.prod)])
def test_integer_reductions_wrap_around(operation: str, function: Any) -> None:
    values = np.random.default_rng(0).integers(2**20, MOST, (3, 600)).astype(np.int32) | 1
    small = Small(8)
    out = reduce(small.builder, operation, small.given(values), [1])
    (result,) = small.run(out)
    with np.errstate(over="ignore"):
        expected = function(values, axis=1, keepdims=True, dtype=np.int32)
    assert result.tolist() == expected.tolist()


def test_bools_have_no_sum() -> None:
    small = Small(2)
    flags = small.given(np.array([True, True]))
    with pytest.raises(BadGraph, match="cast it to int32 first to count"):
        reduce(small.builder, "sum", flags, [0])
    (is_any, are_all) = (reduce(small.builder, name, flags, [0]) for name in ("maximum", "minimum"))
    assert [r.tolist() for r in small.run(is_any, are_all)] == [[True], [True]]


def test_a_scaled_addition_reads_aliased_elements_first() -> None:
    values = np.arange(1, 13, dtype=np.float32)
    pair = values.reshape(6, 2)
    small = Small(4)
    turned, spread, scaled, columns, itself = (small.given(values) for _ in range(5))
    scaled_add(small.builder, turned, turned.reverse(0), 1.0)
    scaled_add(small.builder, spread, spread.slice(0, 3, 4), 1.0)
    scaled_add(small.builder, scaled, scaled, scaled.slice(0, 5, 6))
    grid = columns.reshape(6, 2)
    n_before = len(small.graph.compute_sets)
    scaled_add(small.builder, grid.slice(1, 0, 1), grid.slice(1, 1, 2), 2.0)
    scaled_add(small.builder, itself, itself, 2.0)
    assert len(small.graph.compute_sets) == n_before + 2  # neither operand is copied
    results = small.run(turned, spread, scaled, grid, itself)
    assert results[0].tolist() == (values + values[::-1]).tolist()
    assert results[1].tolist() == (values + values[3]).tolist()
    assert results[2].tolist() == (values + values * values[5]).tolist()
    assert results[3].tolist() == np.stack([pair @ [1, 2], pair[:, 1]], axis=1).tolist()
    assert results[4].tolist() == (3 * values).tolist()


@given(st.data(), seeds)
def test_views_share_elements_where_their_numbers_do(data: st.DataObject, seed: int) -> None:
    small = Small(3)
    shape = data.draw(st.sampled_from([(12,), (3, 4), (2, 3, 2)]))
    full = small.given(np.zeros(shape, np.float32))
    numbers: Any = np.arange(12).reshape(shape)
    random = np.random.default_rng(seed)
    views = []
    for _ in range(2):
        view, local = full, numbers
        for d, size in enumerate(shape):
            low = int(random.integers(size))
            high = int(random.integers(low, size)) + 1
            view, local = view.slice(d, low, high), np.take(local, range(low, high), d)
            if random.integers(2):
                view, local = view.reverse(d), np.flip(local, d)
        views.append((view, set(local.reshape(-1).tolist())))
    (first, left), (second, right) = views
    assert share_elements(first, second) == bool(left & right)
