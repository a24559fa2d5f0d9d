"""Operands allocated for a plan are read in place, and the results are those of numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.oracle.compared import check, near, small_machine, values_for
from tests.oracle.windows import naive_convolution

from tilescope.engine import Builder, Executable, Graph, compile_programs, concat
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import View
from tilescope.engine.library.poplin.allocators import (
    create_convolution_biases,
    create_convolution_input,
    create_convolution_weights,
    create_matmul_input_lhs,
    create_matmul_input_rhs,
)
from tilescope.engine.library.poplin.convolution import convolution, matmul
from tilescope.engine.library.window import Window
from tilescope.engine.program import Sequence

SQUARE = Window((3, 3), padding_before=(1, 1), padding_after=(1, 1))
POINT = Window((1, 1))


def new_builder(n_tiles: int = 24) -> Builder:
    return Builder(Graph(small_machine(n_tiles)), Sequence("main", []))


def spread(builder: Builder, dtype: str, shape: tuple[int, ...], name: str) -> Any:
    """Return a row-major variable, spread evenly."""
    tensor = builder.graph.add_variable(dtype, shape, name)
    builder.spread(tensor, grain=2)
    return tensor


def names_of(builder: Builder) -> list[str]:
    """Return the last names of the compute sets."""
    return [step.name.rpartition("/")[2] for step in builder.graph.compute_sets]


def cycles(executable: Executable) -> int:
    """Return the cycles of all steps on the busiest tiles."""
    return sum(int(step.cost.cycles.max()) for step in executable.steps)


#: Batch, rows, inner and columns; types and options of the product.
MATMULS: dict[str, tuple[tuple[int, int, int, int], str, dict[str, Any]]] = {
    "reduced": ((1, 64, 128, 32), "float32", {}),
    "half": ((1, 32, 128, 64), "float16", {}),
    "batch": ((3, 16, 32, 32), "float32", {}),
    "odd": ((2, 7, 9, 5), "float32", {}),
    "serial inputs": ((1, 16, 128, 32), "float32", {"split": {"serial inputs": 2}}),
    "serial inputs of a batch": ((2, 16, 64, 16), "float16", {"split": {"serial inputs": 2}}),
    "serial outputs": ((1, 16, 64, 64), "float32", {"split": {"serial outputs": 2}}),
    "row": ((1, 1, 64, 48), "float32", {}),
}


@pytest.mark.parametrize("case", MATMULS)
def test_matmul_reads_both_operands_in_place(case: str) -> None:
    (batch, rows, inner, columns), dtype, options = MATMULS[case]
    left, right = (batch, rows, inner), (batch, inner, columns)
    builder = new_builder()
    a = create_matmul_input_lhs(builder, left, right, dtype=dtype, **options)
    b = create_matmul_input_rhs(builder, right, left, dtype=dtype, **options)
    assert (a.shape, b.shape) == (left, right)
    out = matmul(builder, a, b, **options)
    assert not {"preArrange", "preArrangeWeights"} & {*names_of(builder)}
    operands = [(a, values_for(a, 1)), (b, values_for(b, 2))]
    (result,) = check(builder, operands, [out])
    kinds = [values.astype(dtype).astype(np.float64) for _, values in operands]
    near(result, kinds[0] @ kinds[1], inner, dtype)


@pytest.mark.parametrize(("n_rows", "is_left"), [(16, True), (64, False)])
def test_blocks_that_the_plan_does_not_divide_are_arranged_at_once(
    n_rows: int, is_left: bool
) -> None:
    """An operand in two blocks, as a plan with divided inputs allocates it, is copied once."""
    builder = new_builder()
    blocks = spread(builder, "float16", (1, 2, n_rows, 50), "blocks").dim_shuffle(0, 2, 1, 3)
    rows = blocks.reshape(1, n_rows, 100)
    other = spread(builder, "float16", (1, 100, 48), "other")
    a, b = (rows, other) if is_left else (other.dim_shuffle(0, 2, 1), rows.dim_shuffle(0, 2, 1))
    out = matmul(builder, a, b)
    assert "rowMajor" not in names_of(builder)
    values = [(a, values_for(a, 1)), (b, values_for(b, 2))]
    (result,) = check(builder, values, [out])
    kinds = [value.astype("float16").astype(np.float64) for _, value in values]
    near(result, kinds[0] @ kinds[1], 100, "float16")


@pytest.mark.parametrize("case", ["reduced", "half", "batch", "odd", "row"])
def test_matmul_takes_no_longer_than_with_row_major_operands(case: str) -> None:
    (batch, rows, inner, columns), dtype, _ = MATMULS[case]
    left, right = (batch, rows, inner), (batch, inner, columns)
    used = []
    for is_allocated in (True, False):
        builder = new_builder()
        if is_allocated:
            a = create_matmul_input_lhs(builder, left, right, dtype=dtype)
            b = create_matmul_input_rhs(builder, right, left, dtype=dtype)
        else:
            a, b = spread(builder, dtype, left, "a"), spread(builder, dtype, right, "b")
        matmul(builder, a, b)
        used.append(cycles(compile_programs(builder.graph, [builder.sequence])))
    assert used[0] <= used[1]


@pytest.mark.parametrize("is_left", [True, False])
def test_one_allocated_operand_beside_a_given_one(is_left: bool) -> None:
    builder = new_builder()
    left, right = (1, 48, 64), (1, 64, 40)
    a: View
    if is_left:
        b = spread(builder, "float32", right, "b")
        a = create_matmul_input_lhs(builder, left, b)
    else:
        a = concat([spread(builder, "float32", (1, 24, 64), name) for name in "ac"], 1)
        b = create_matmul_input_rhs(builder, right, a)
    out = matmul(builder, a, b)
    arranged = {"preArrange", "preArrangeWeights"} & {*names_of(builder)}
    assert arranged <= ({"preArrange"} if builder.plans[0].swaps_operands == is_left else arranged)
    operands = [(a, values_for(a, 1)), (b, values_for(b, 2))]
    (result,) = check(builder, operands, [out])
    near(result, operands[0][1] @ operands[1][1], 64, "float32")


def test_constants_beside_an_allocated_operand() -> None:
    builder = new_builder()
    values = values_for(spread(new_builder(), "float32", (1, 64, 48), "b"), 2)
    a = create_matmul_input_lhs(builder, (1, 32, 64), values)
    out = matmul(builder, a, values)
    assert not {"preArrange", "preArrangeWeights"} & {*names_of(builder)}
    (result,) = check(builder, [(a, known := values_for(a, 1))], [out])
    near(result, known @ values, 64, "float32")


#: Shapes of images and weights, groups, window, type and options.
CONVOLUTIONS: dict[str, tuple[Any, Any, int, Window, str, dict[str, Any]]] = {
    "square": ((2, 16, 6, 5), (16, 16, 3, 3), 1, SQUARE, "float32", {}),
    "point": ((1, 32, 4, 6), (24, 32, 1, 1), 1, POINT, "float16", {}),
    "strided point": ((2, 32, 7, 6), (24, 32, 1, 1), 1, Window((1, 1), (2, 2)), "float16", {}),
    "strided rows": ((1, 32, 6, 5), (16, 16, 1, 1), 2, Window((1, 1), (3, 1)), "float32", {}),
    "groups": ((1, 32, 5, 5), (32, 8, 3, 3), 4, SQUARE, "float32", {}),
    "depthwise": ((1, 16, 5, 4), (16, 1, 3, 3), 16, SQUARE, "float16", {"family": "vertical mac"}),
    "serial": ((2, 16, 4, 4), (8, 16, 3, 3), 1, SQUARE, "float32", {"split": {"serial inputs": 2}}),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolution_reads_both_operands_in_place(case: str) -> None:
    shape, kernels, groups, window, dtype, options = CONVOLUTIONS[case]
    builder = new_builder()
    x = create_convolution_input(builder, shape, kernels, window, groups, dtype=dtype, **options)
    w = create_convolution_weights(builder, kernels, shape, window, groups, dtype=dtype, **options)
    assert (x.shape, w.shape) == (shape, kernels)
    out = convolution(builder, x, w, window, groups, **options)
    assert not {"preArrange", "preArrangeWeights"} & {*names_of(builder)}
    operands = [(x, values_for(x, 1)), (w, values_for(w, 2, low=-1, high=1))]
    (result,) = check(builder, operands, [out])
    kinds = [values.astype(dtype).astype(np.float64) for _, values in operands]
    expected = naive_convolution(kinds[0], kinds[1], window, groups)
    near(result, expected, kernels[1] * kernels[2] * kernels[3], dtype)


def test_the_variable_lies_as_the_copy_of_the_convolution() -> None:
    """Same shape, same mapping: those of the row-major operands' copies."""
    shape, kernels, groups, window, dtype, _ = CONVOLUTIONS["square"]
    builder = new_builder()
    x = create_convolution_input(builder, shape, kernels, window, groups, dtype=dtype)
    w = create_convolution_weights(builder, kernels, shape, window, groups, dtype=dtype)
    convolution(builder, x, w, window, groups)
    (plan,) = builder.plans
    plain = new_builder()
    convolution(
        plain,
        spread(plain, dtype, shape, "x"),
        spread(plain, dtype, kernels, "w"),
        window,
        groups,
        split=dict(plan.split),
        family=plan.family,
    )
    assert plain.plans[0].grouping == plan.grouping
    copies = {v.name.rpartition("/")[2]: v for v in plain.graph.variables}
    for built, copy in ((x, copies["preArranged"]), (w, copies["preArrangedWeights"])):
        assert built.variable.shape == copy.shape
        np.testing.assert_array_equal(built.variable.map_start, copy.map_start)
        np.testing.assert_array_equal(built.variable.map_tile, copy.map_tile)


def test_padded_channels_stay_row_major() -> None:
    builder = new_builder()
    options: Any = {"family": "amp"}
    x = create_convolution_input(builder, (1, 3, 6, 6), (5, 3, 3, 3), SQUARE, **options)
    w = create_convolution_weights(builder, (5, 3, 3, 3), (1, 3, 6, 6), SQUARE, **options)
    assert x.is_contiguous
    assert w.is_contiguous
    out = convolution(builder, x, w, SQUARE, **options)
    assert {"preArrange", "preArrangeWeights"} <= {*names_of(builder)}
    operands = [(x, values_for(x, 1)), (w, values_for(w, 2))]
    (result,) = check(builder, operands, [out])
    near(result, naive_convolution(operands[0][1], operands[1][1], SQUARE, 1), 27, "float32")


def test_a_product_of_a_tensor_with_itself_copies_the_weights() -> None:
    """Both operands of a vertex may have to lie in different memory elements."""
    builder = new_builder()
    a = spread(builder, "float32", (1, 16, 16), "a")
    out = matmul(builder, a, a)
    assert "preArrangeWeights" in names_of(builder)
    (result,) = check(builder, [(a, values := values_for(a, 1))], [out])
    near(result, values @ values, 16, "float32")


def test_biases_lie_on_tiles_of_their_channels() -> None:
    builder = new_builder()
    x = create_convolution_input(builder, (1, 32, 4, 4), (32, 32, 1, 1), POINT)
    w = create_convolution_weights(builder, (32, 32, 1, 1), (1, 32, 4, 4), POINT)
    out = convolution(builder, x, w, POINT)
    biases = create_convolution_biases(builder, out)
    assert biases.shape == (32,)
    local = builder.graph.tile_mapping(biases)
    for tile, start, end in zip(local.tile, local.start, local.end, strict=True):
        for channel in range(int(start), int(end)):
            assert tile in builder.graph.tile_mapping(out.slice(1, channel, channel + 1)).tile
    assert np.unique(local.tile).size > 1


def test_mistakes_are_named() -> None:
    builder = new_builder()
    with pytest.raises(BadGraph, match=r"lhs: cannot multiply shapes \(1, 2, 3\) and \(1, 4, 5\)"):
        create_matmul_input_lhs(builder, (1, 2, 3), (1, 4, 5))
    with pytest.raises(BadGraph, match=r"input: weights \(4, 3, 1, 1\) do not fit an input of 2"):
        create_convolution_input(builder, (1, 2, 4, 4), (4, 3, 1, 1), POINT)
    with pytest.raises(BadGraph, match=r"rhs: its right operand: shape \(4, 5\) is not"):
        create_matmul_input_rhs(builder, (4, 5), (1, 2, 4))
    with pytest.raises(BadGraph, match="'b' is 3: expected a tensor, an ndarray of constants, or"):
        create_matmul_input_lhs(builder, (1, 2, 3), 3)  # type: ignore[arg-type]
    with pytest.raises(BadGraph, match="A size of the left operand"):
        create_matmul_input_rhs(builder, (1, 2, 4), (1, 0, 2))
