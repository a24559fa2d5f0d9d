"""Floating-point operations are the useful ones, independent of channel padding."""

from __future__ import annotations

import numpy as np
import pytest

from tilescope.engine import Builder, Executable, Graph, compile_programs, load_machine
from tilescope.engine.library.convolution import convolution, matmul
from tilescope.engine.library.window import Window
from tilescope.engine.program import Sequence


def new() -> tuple[Graph, Builder]:
    graph = Graph(load_machine("gc200", tiles_per_ipu=24))
    return graph, Builder(graph, Sequence("main"))


def products_of(graph: Graph, builder: Builder) -> int:
    made: Executable = compile_programs(graph, [builder.sequence], plans=builder.plans)
    found = [step for step in made.steps if step.name.endswith("/convolve")]
    return sum(int(step.cost.flops.sum()) for step in found)


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
