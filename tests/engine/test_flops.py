"""Floating-point operations are those of the operation, whatever its plan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilescope.engine import (
    Builder,
    Executable,
    Graph,
    compile_model,
    compile_programs,
    load_machine,
)
from tilescope.engine.graph import Tensor
from tilescope.engine.ir import IrBuilder
from tilescope.engine.library.poplin.convolution import convolution, matmul
from tilescope.engine.library.popnn.pool import pool
from tilescope.engine.library.popops.elementwise.operations import binary, cast, clamp, unary
from tilescope.engine.library.popops.elementwise.scaled_add import scaled_add
from tilescope.engine.library.popops.reduction.reduce import reduce, reduce_with_output
from tilescope.engine.library.window import Window
from tilescope.engine.operators import OPERATORS
from tilescope.engine.program import Sequence


def new() -> tuple[Graph, Builder]:
    graph = Graph(load_machine("gc200", tiles_per_ipu=24))
    return graph, Builder(graph, Sequence("main"))


def products_of(graph: Graph, builder: Builder) -> int:
    compiled: Executable = compile_programs(graph, [builder.sequence], plans=builder.plans)
    results = [step for step in compiled.steps if step.name.endswith("/convolve")]
    return sum(int(step.cost.flops.sum()) for step in results)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("sizes", [(5, 3, 7), (40, 50, 18), (1, 129, 33)])
def test_a_product_has_two_per_pair(dtype: str, sizes: tuple[int, int, int]) -> None:
    rows, inner, columns = sizes
    graph, builder = new()
    a = graph.add_variable(dtype, (2, rows, inner), "a")
    graph.map_linearly(a)
    matmul(builder, a, np.ones((2, inner, columns), np.float32))
    assert products_of(graph, builder) == 2 * 2 * rows * inner * columns


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("channels", "outputs", "groups"), [(3, 10, 1), (6, 6, 6), (10, 10, 2), (7, 7, 7)]
)
def test_a_convolution_has_two_per_weight_and_output(
    dtype: str, channels: int, outputs: int, groups: int
) -> None:
    graph, builder = new()
    x = graph.add_variable(dtype, (1, channels, 9, 8), "x")
    graph.map_linearly(x)
    weights = np.ones((outputs, channels // groups, 3, 2), np.float32)
    convolution(builder, x, weights, Window((3, 2)), groups)
    assert products_of(graph, builder) == 2 * 7 * 7 * outputs * channels // groups * 6


def total_of(builder: Builder) -> int:
    compiled = compile_programs(builder.graph, [builder.sequence], plans=builder.plans)
    return sum(int(step.cost.flops.sum()) for step in compiled.steps)


def of_context(builder: Builder) -> int:
    """Return what the debug contexts of the outermost library calls state."""
    calls = [item.debug for item in builder.sequence.children]
    return sum(call.flops or 0 for call in calls)


def built(n_tiles: int, **options: Any) -> Builder:
    graph = Graph(load_machine("gc200", tiles_per_ipu=n_tiles))
    return Builder(graph, Sequence("main"), **options)


def variable(builder: Builder, dtype: str, *shape: int) -> Tensor:
    tensor = builder.graph.add_variable(dtype, shape, "x")
    builder.graph.map_linearly(tensor)
    return tensor


@pytest.mark.parametrize("n_tiles", [1, 24, 96])
@pytest.mark.parametrize(("share", "partials_type"), [(0.02, "half"), (0.6, "float")])
@pytest.mark.parametrize("split", [{}, {"inputs": 4}])
def test_a_product_has_the_same_operations_by_any_plan(
    n_tiles: int, share: float, partials_type: str, split: dict[str, int]
) -> None:
    if split and n_tiles == 1:
        pytest.skip("one tile has one part")
    builder = built(n_tiles)
    matmul(
        builder,
        variable(builder, "float16", 2, 24, 256),
        np.ones((2, 256, 40), np.float16),
        available_memory_proportion=share,
        partials_type=partials_type,
        split=split,
    )
    assert total_of(builder) == of_context(builder) == 2 * 2 * 24 * 256 * 40


@pytest.mark.parametrize("n_tiles", [1, 8, 64])
@pytest.mark.parametrize(("share", "partials_type"), [(0.02, "half"), (0.6, "float")])
@pytest.mark.parametrize(
    "split", [{}, {"inputs": 2}, {"serial outputs": 2}, {"serial inputs": 2}, {"kernel rows": 3}]
)
def test_a_convolution_has_the_same_operations_by_any_plan(
    n_tiles: int, share: float, partials_type: str, split: dict[str, int]
) -> None:
    builder = built(n_tiles)
    if n_tiles == 1 and not any(name.startswith("serial") for name in split) and split:
        pytest.skip("one tile has one part")
    convolution(
        builder,
        variable(builder, "float16", 2, 32, 9, 7),
        np.ones((48, 32, 3, 3), np.float16),
        Window((3, 3), stride=(2, 1), padding_before=(1, 1), padding_after=(1, 1)),
        available_memory_proportion=share,
        partials_type=partials_type,
        split=split,
    )
    assert total_of(builder) == of_context(builder) == 2 * (2 * 48 * 5 * 7) * (32 * 3 * 3)


@pytest.mark.parametrize("n_tiles", [1, 8, 96, 1472])
@pytest.mark.parametrize("operation", ["sum", "maximum"])
@pytest.mark.parametrize("dims", [(1,), (0,), (0, 1)])
def test_a_reduction_has_one_for_each_element_but_the_results(
    n_tiles: int, operation: str, dims: tuple[int, ...]
) -> None:
    builder = built(n_tiles)
    x = variable(builder, "float32", 6, 4096)
    reduce(builder, operation, x, dims)
    n_results = 6 * 4096 // np.prod([x.shape[d] for d in dims])
    assert total_of(builder) == of_context(builder) == 6 * 4096 - n_results


@pytest.mark.parametrize("n_tiles", [1, 24, 1472])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("operation", "per_pair", "per_element"),
    [("square_sum", 1, 1), ("log_add", 6, 0), ("product", 1, 0), ("minimum", 1, 0)],
)
def test_a_reduction_counts_its_operation(
    n_tiles: int, dtype: str, operation: str, per_pair: int, per_element: int
) -> None:
    """Squares are taken once, and a log-add is six operations, in whatever stages."""
    builder = built(n_tiles)
    reduce(builder, operation, variable(builder, dtype, 6, 4096), [1], 0.5)
    expected = 6 * 4095 * per_pair + 6 * 4096 * per_element + 6
    assert total_of(builder) == of_context(builder) == expected


@pytest.mark.parametrize("n_tiles", [1, 24])
def test_an_update_adds_once_per_result(n_tiles: int) -> None:
    builder = built(n_tiles)
    out = variable(builder, "float32", 6)
    x = variable(builder, "float32", 6, 4096)
    reduce_with_output(builder, "sum", x, out, [1], update=True)
    assert total_of(builder) == of_context(builder) == 6 * 4096


def test_logical_reductions_have_no_floating_point_operations() -> None:
    builder = built(24)
    reduce(builder, "logical_and", variable(builder, "bool", 6, 4096), [1])
    assert total_of(builder) == of_context(builder) == 0


def test_a_mean_multiplies_each_result() -> None:
    builder = built(96)
    reduce(builder, "sum", variable(builder, "float32", 6, 4096), [1], 1 / 4096)
    assert total_of(builder) == of_context(builder) == 6 * 4096


def test_whole_numbers_have_no_floating_point_operations() -> None:
    builder = built(96)
    reduce(builder, "sum", variable(builder, "int32", 6, 4096), [1])
    full = variable(builder, "int32", 9)
    binary(builder, "add", full, full)
    assert total_of(builder) == of_context(builder) == 0


@pytest.mark.parametrize("n_tiles", [1, 8, 96])
@pytest.mark.parametrize(("kind", "per_result"), [("max", 8), ("sum", 8), ("average", 9)])
def test_a_pooling_has_one_for_each_element_of_a_window(
    n_tiles: int, kind: str, per_result: int
) -> None:
    builder = built(n_tiles)
    x = variable(builder, "float16", 2, 12, 9, 8)
    window = Window((3, 3), stride=(2, 2), padding_before=(1, 1), padding_after=(1, 1))
    pool(builder, x, window, kind)
    assert total_of(builder) == of_context(builder) == per_result * 2 * 12 * 5 * 4


@pytest.mark.parametrize("n_tiles", [1, 8, 96])
def test_elementwise_operations_count_results(n_tiles: int) -> None:
    builder = built(n_tiles)
    a, b = variable(builder, "float32", 4, 1, 30), variable(builder, "float32", 5, 1)
    product = binary(builder, "multiply", a, b)
    unary(builder, "exp", product)
    scaled_add(builder, a, a, 2.0)
    clamp(builder, a, b.slice(0, 0, 1), b.slice(0, 1, 2))
    cast(builder, a, "float16")
    expected = 2 * 4 * 5 * 30 + 2 * 4 * 30 + 2 * 4 * 30
    assert total_of(builder) == of_context(builder) == expected


@pytest.mark.parametrize("n_tiles", [4, 64, 1472])
def test_a_softmax_has_the_same_operations_on_any_number_of_tiles(n_tiles: int) -> None:
    build = IrBuilder("softmax")
    x = build.input("x", (3, 5000), "float32")
    y = build.emit(OPERATORS["Softmax"], [x], name="softmax", source="Softmax", axis=-1)
    machine = load_machine("gc200", tiles_per_ipu=n_tiles)
    executable = compile_model(build.finish([("y", y)]), machine).executable
    # Largest, subtract, exp, sum, inverse, multiply.
    expected = (15000 - 3) + 15000 + 15000 + (15000 - 3) + 3 + 15000
    assert sum(int(step.cost.flops.sum()) for step in executable.steps) == expected
