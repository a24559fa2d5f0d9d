"""Kernels are split over tiles if that is faster, at the predicted cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod

import numpy as np
import pytest
from tests.engine.planner.test_accuracy import check_parts

from tilescope.engine import Graph, load_machine
from tilescope.engine.errors import BadGraph
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.poplin.convolution import convolution, matmul
from tilescope.engine.library.poplin.weight_gradient import weight_gradient
from tilescope.engine.library.window import Window, output_size
from tilescope.engine.planner.convolution.convolution import plan_convolution
from tilescope.engine.planner.plan import Plan
from tilescope.engine.program import Sequence
from tilescope.engine.tiling import KERNEL, ConvolutionShape

MACHINE = load_machine("gc200")
SMALL = load_machine("gc200", tiles_per_ipu=64)


@dataclass(frozen=True)
class Case:
    """A convolution of an image, its window, and its required split."""

    inputs: int
    outputs: int
    size: int
    window: Window
    split: Mapping[str, int] = field(default_factory=dict)
    groups: int = 1
    images: int = 1
    dtype: str = "float16"
    family: str = ""


def same(kernel: int, stride: int = 1, dilation: int = 1) -> Window:
    """Return a window that preserves the size, up to the stride."""
    pad = (kernel // 2 * dilation,) * 2
    return Window((kernel,) * 2, (stride,) * 2, (dilation,) * 2, pad, pad)


ROWS, COLUMNS = (d.label for d in KERNEL)
CASES = {
    # More tiles share the weights than they have rows.
    "pixel by pixel": Case(
        1, 8, 28, same(5), {"rows": 28, "columns": 28, ROWS: 1, COLUMNS: 1}, dtype="float32"
    ),
    "rows": Case(64, 64, 56, same(3), {ROWS: 3}),
    "columns": Case(64, 64, 56, same(3), {COLUMNS: 3}),
    "both": Case(64, 64, 14, same(3), {ROWS: 3, COLUMNS: 3}),
    "uneven parts": Case(16, 16, 28, same(11), {ROWS: 6, COLUMNS: 2}),
    "stride": Case(64, 64, 28, same(5, 2), {ROWS: 2, COLUMNS: 2}),
    "dilation": Case(32, 64, 28, same(5, dilation=2), {ROWS: 5}, dtype="float32"),
    "groups": Case(128, 128, 28, same(3), {ROWS: 3}, groups=8),
    "slic": Case(3, 64, 56, same(7, 2), {ROWS: 4}, family="slic"),
    "vertical mac": Case(144, 144, 28, same(3), {ROWS: 3}, groups=144, family="vertical mac"),
}


def built(case: Case) -> tuple[Graph, Sequence, Plan]:
    graph, program = Graph(MACHINE), Sequence("main")
    builder = Builder(graph, program)
    x = graph.add_variable(case.dtype, (case.images, case.inputs, case.size, case.size), "x")
    graph.map_linearly(x, grain=4)
    shape = (case.outputs, case.inputs // case.groups, *case.window.kernel)
    weights = np.zeros(shape, np.float32)
    convolution(
        builder, x, weights, case.window, case.groups, "op", family=case.family, split=case.split
    )
    return graph, program, builder.plans[0]


def gradient_built(case: Case) -> tuple[Graph, Sequence, Plan]:
    graph, program = Graph(MACHINE), Sequence("main")
    builder = Builder(graph, program)
    field = [output_size(case.size, d, case.window) for d in (0, 1)]
    x = graph.add_variable(case.dtype, (case.images, case.inputs, case.size, case.size), "x")
    gradient = graph.add_variable(case.dtype, (case.images, case.outputs, *field), "gradient")
    for tensor in (x, gradient):
        graph.map_linearly(tensor, grain=4)
    weight_gradient(builder, x, gradient, case.window, name="op", split=case.split)
    return graph, program, builder.plans[0]


def n_kernel_parts(plan: Plan) -> int:
    return plan.split[ROWS] * plan.split[COLUMNS]


@pytest.mark.parametrize("case", CASES.values(), ids=[*CASES])
def test_every_part_costs_what_was_planned(case: Case) -> None:
    graph, program, plan = built(case)
    assert {name: plan.split[name] for name in case.split} == case.split
    check_parts(graph, program, plan)


def test_the_gradient_of_weights_gains_much_and_costs_what_was_planned() -> None:
    """The kernel is the whole field: few outputs, sums over hundreds of positions."""
    case = Case(128, 128, 28, same(3), images=4)
    graph, program, plan = gradient_built(case)
    assert n_kernel_parts(plan) > 4
    full = gradient_built(Case(128, 128, 28, same(3), {ROWS: 1, COLUMNS: 1}, images=4))[2]
    assert n_kernel_parts(full) == 1
    assert plan.predicted_cycles < 0.5 * full.predicted_cycles
    check_parts(graph, program, plan)


def test_a_tile_reads_only_the_rows_that_its_part_of_the_kernel_touches() -> None:
    """With 7 rows, a kernel of 5 and no padding, there are 3 outputs: a kernel row reads 3 rows."""
    graph = Graph(SMALL)
    builder = Builder(graph, Sequence("main"))
    x = graph.add_variable("float32", (1, 8, 7, 7), "x")
    graph.map_linearly(x, grain=8)
    split = {ROWS: 5, COLUMNS: 1, "rows": 1, "columns": 1, "outputs": 1, "inputs": 1}
    convolution(builder, x, np.ones((8, 8, 5, 5), np.float32), Window((5, 5)), split=split)
    (vertices,) = next(c for c in graph.compute_sets if c.name.endswith("convolve")).batches
    assert vertices.n_vertices == 5
    assert vertices.fields["x"].size[:, 3:5].tolist() == [[3, 7]] * 5
    assert vertices.fields["w"].size[:, 3:5].tolist() == [[1, 5]] * 5
    assert len(set(vertices.fields["x"].start.tolist())) == 5
    weights = vertices.fields["w"].variable
    assert set(np.unique(weights.map_tile)) == set(vertices.tile.tolist()), "weights are local"


SHAPES = (
    ConvolutionShape(
        1, 1, 14, 14, 16, 16, (3, 3), padding_before=(1, 1), in_height=14, in_width=14
    ),
    ConvolutionShape(1, 8, 3, 3, 1, 16, (14, 14), padding_before=(1, 1), in_height=14, in_width=14),
    ConvolutionShape(
        8, 1, 7, 7, 1, 1, (5, 5), padding_before=(2, 2), in_height=7, in_width=7, dtype="float16"
    ),
)


@pytest.mark.parametrize("share", [1.0, 0.002, 0.0])
@pytest.mark.parametrize("shape", SHAPES, ids=["convolution", "gradient", "depthwise"])
def test_skipped_kernel_splits_would_not_be_chosen(shape: ConvolutionShape, share: float) -> None:
    """The planner skips splits that a lower bound rules out; the test requests them all."""
    plan = plan_convolution("free", shape, SMALL, share)
    limit = share * SMALL.allocatable_bytes
    for counts in product(*(range(1, size + 1) for size in shape.kernel)):
        if prod(counts) > SMALL.n_tiles:
            continue
        requested = tuple(zip((ROWS, COLUMNS), counts, strict=True))
        forced = plan_convolution("forced", shape, SMALL, share, "", requested)
        assert tuple(forced.split[name] for name in (ROWS, COLUMNS)) == counts
        fits = forced.temporary_bytes <= limit
        if plan.temporary_bytes <= limit:
            assert not fits or forced.predicted_cycles >= plan.predicted_cycles
        elif forced.predicted_cycles <= plan.predicted_cycles:
            assert forced.temporary_bytes >= plan.temporary_bytes


def test_products_and_kernels_of_one_element_are_not_split_so() -> None:
    shape = ConvolutionShape(1, 1, 1, 8, 64, 8, in_height=1, in_width=8, is_matmul=True)
    assert n_kernel_parts(plan_convolution("product", shape, SMALL)) == 1


def test_invalid_splits_are_refused() -> None:
    graph = Graph(SMALL)
    builder = Builder(graph, Sequence("main"))
    x = graph.add_variable("float32", (1, 8, 7, 7), "x")
    graph.map_linearly(x)
    w = np.ones((8, 8, 3, 3), np.float32)
    with pytest.raises(BadGraph, match="Unknown dimension 'kernel' to split; choose one of groups"):
        convolution(builder, x, w, Window((3, 3)), split={"kernel": 2})
    with pytest.raises(BadGraph, match="has the split kernel rows 4: request fewer parts"):
        convolution(builder, x, w, Window((3, 3)), split={ROWS: 4})
    a = graph.add_variable("float32", (1, 8, 8), "a")
    graph.map_linearly(a)
    with pytest.raises(BadGraph, match="No plan of this matmul of float32 has the split outputs 0"):
        matmul(builder, a, np.ones((1, 8, 8), np.float32), split={"outputs": 0})
