"""Families of vertices: supported shapes, and hand-computed cycles of their laws."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product as product_of

import numpy as np
import pytest

from tilescope.engine import load_machine
from tilescope.engine.codelets.poplin.amp import amp_1x1_cycles, amp_nx1_cycles
from tilescope.engine.codelets.poplin.horizontal_mac import horizontal_mac_cycles
from tilescope.engine.codelets.poplin.outer_product import outer_product_cycles
from tilescope.engine.codelets.poplin.slic import slic_cycles
from tilescope.engine.codelets.poplin.vertical_mac import vertical_mac_cycles
from tilescope.engine.codelets.poplin.work import Work
from tilescope.engine.errors import BadGraph
from tilescope.engine.planner.convolution.convolution import plan_convolution
from tilescope.engine.planner.families import FAMILIES
from tilescope.engine.tiling import ConvolutionShape, Grouping

MACHINE = load_machine("gc200")
DEPTHWISE = ConvolutionShape(
    groups=32, images=1, height=56, width=56, in_channels=1, out_channels=1, kernel=(3, 3),
    padding_before=(1, 1), in_height=56, in_width=56, dtype="float16", partial_dtype="float16",
)  # fmt: skip
FIRST = replace(DEPTHWISE, groups=1, in_channels=3, out_channels=64, kernel=(7, 7))
PRODUCT = ConvolutionShape(1, 1, 1, 64, 1, 256, in_height=1, in_width=64, is_matmul=True)


def work(*, item_bytes: int = 2, partial_bytes: int = 2, **sizes: int) -> Work:
    """Return one vertex's shapes; 1 by default."""
    names = [field.name for field in fields(Work) if not field.name.endswith("_bytes")]
    arrays = {name: np.array([sizes.get(name, 1)], np.int64) for name in names}
    return Work(**arrays, item_bytes=item_bytes, partial_bytes=partial_bytes)


def groupings(family: str, shape: ConvolutionShape) -> list[Grouping]:
    actual = next(candidate for candidate in FAMILIES if candidate.name == family)
    return list(actual.groupings(shape, MACHINE))


def test_vertical_mac_and_slic_support_halves_only() -> None:
    in_float = replace(DEPTHWISE, dtype="float32", partial_dtype="float32")
    assert groupings("vertical mac", DEPTHWISE) == [Grouping(n, 1, 1) for n in (4, 8, 16)]
    assert groupings("vertical mac", replace(DEPTHWISE, partial_dtype="float32")) == [
        Grouping(4, 1, 1)
    ]
    assert Grouping(4, 1, 1) in groupings("slic", DEPTHWISE)
    assert groupings("slic", FIRST) == [Grouping(1, 4, 4)]
    assert groupings("slic", in_float) == groupings("vertical mac", in_float) == []
    assert groupings("horizontal mac", in_float) == [Grouping(1, 1, 1)]


def test_shapes_that_slic_does_not_support() -> None:
    for peer in (
        replace(DEPTHWISE, dilation=(1, 2)),
        replace(DEPTHWISE, stride=(1, 3)),
        replace(PRODUCT, dtype="float16"),
    ):
        assert groupings("slic", peer) == []
    slic = next(family for family in FAMILIES if family.name == "slic")
    assert slic.groupings(DEPTHWISE, load_machine("gc2")) == []


def test_outer_products_have_one_input() -> None:
    assert groupings("outer product", PRODUCT) == [Grouping(1, 1, 2)]
    assert groupings("outer product", replace(PRODUCT, in_channels=2)) == []
    assert groupings("outer product", replace(PRODUCT, partial_dtype="float16")) == []


def test_amp_takes_few_inputs_in_groups_that_divide_its_weights() -> None:
    assert {grouping.inputs for grouping in groupings("amp", FIRST)} == {16, 8, 4}
    assert {grouping.outputs for grouping in groupings("amp", FIRST)} == {16, 8}


def test_convolution_groups_of_a_channel_are_combined_for_the_unit() -> None:
    """Groups of 2, 4 and 8 in float, 4 to 16 in half."""

    def combined(shape: ConvolutionShape) -> set[tuple[int, int, int]]:
        results = [grouping for grouping in groupings("amp", shape) if grouping.combined > 1]
        return {(grouping.combined, grouping.inputs, grouping.outputs) for grouping in results}

    in_float = replace(DEPTHWISE, dtype="float32", partial_dtype="float32")
    assert combined(in_float) == {(n, n, width) for n in (2, 4, 8) for width in (8, 16)}
    assert combined(replace(in_float, out_channels=2)) == {
        (2, 2, 8), (2, 2, 16), (4, 4, 8), (4, 4, 16), (8, 8, 16)
    }  # fmt: skip
    assert combined(DEPTHWISE) == {(4, 4, 8), (4, 4, 16), (8, 8, 8), (8, 8, 16), (16, 16, 16)}
    pairs = replace(DEPTHWISE, in_channels=2, out_channels=2)
    assert combined(pairs) == {(2, 4, 8), (2, 4, 16), (4, 8, 8), (4, 8, 16), (8, 16, 16)}
    for peer in (
        replace(in_float, groups=1),
        replace(in_float, in_channels=2),
        replace(pairs, in_channels=4),
        replace(DEPTHWISE, dtype="float8_143"),
    ):
        assert combined(peer) == set()


def test_a_plan_lists_combined_groups() -> None:
    in_float = replace(DEPTHWISE, dtype="float32", partial_dtype="float32")
    plan = plan_convolution("depthwise", in_float, MACHINE)
    assert plan.family == "amp"
    assert plan.grouping == {"groups": 1, "inputs": 2, "outputs": 8, "combined": 2}
    assert "combined" not in plan_convolution("first", FIRST, MACHINE).grouping


def test_four_kernel_rows_are_loaded_at_once_for_four_inputs() -> None:
    """A 7 x 1 kernel with 4 inputs takes two loads of 64 + 60 + 3, not seven of 64 + 15 + 3.

    A field of one element: its worker takes 18 + 3 + 29 - 9 = 41, the others 18: 246 a position.
    Zeroing: 3 of 16 outputs a worker, one vector: 6 x (1 + 15 - 10).
    """
    shape = work(kernel_rows=7, inputs=4, outputs=16)
    loops = 2 * (14 + 12 + 64 + 60 + 3) + 246 * 2
    expected = 36 + 109 + 6 * (9 + 10) + 17 + 1 + 1 + 16 + 14 + 14 + loops
    assert int(amp_nx1_cycles(shape, MACHINE)[0]) == expected


def test_hand_computed_slic() -> None:
    """A 3 x 3 kernel over 6 rows of 8 columns, 4 groups of one channel, half sums: 3 windows.

    A worker has a row of 8. First: 17 + 10 + 1 + 15 + 3 = 46; then one less: 45; times 6. Weights:
    9 + 6 + 10 x 6 + 6 + 16 = 97; 97 + 20 per window, three windows, and 13 of branches.
    """
    shape = work(rows=6, columns=8, kernel_rows=3, kernel_columns=3, groups_inside=4)
    expected = 28 + 15 + 1 + 3 * (97 + 20) + 13 + 6 * 46 + 2 * 6 * 45
    assert int(slic_cycles(shape, MACHINE)[0]) == expected


def test_slic_with_sums_in_float_goes_over_the_inputs_twice() -> None:
    """As above: a worker takes 17 + 11 + 3 + 2 x 17 = 65 first, then 64."""
    shape = work(
        rows=6, columns=8, kernel_rows=3, kernel_columns=3, groups_inside=4, partial_bytes=4
    )
    expected = 28 + 15 + 1 + 3 * (97 + 20) + 13 + 6 * 65 + 2 * 6 * 64
    assert int(slic_cycles(shape, MACHINE)[0]) == expected


def test_hand_computed_dot_product_in_float() -> None:
    """6 rows of 5 with 8 inputs: a worker's row is 19 + 5 x (7 + 7 + 8 / 2), 16 more per position.

    Zeroing: 5 floats a worker, 3 vectors: 6 x (3 + 14 - 9).
    """
    shape = work(rows=6, columns=5, inputs=8, item_bytes=4, partial_bytes=4)
    inner = 6 * (16 + 19 + 5 * (7 + 7 + 4) + 16)
    expected = 48 + 58 + 6 * 9 + 23 + 15 + 10 + inner
    assert int(horizontal_mac_cycles(shape, MACHINE)[0]) == expected


@pytest.mark.parametrize(("item_bytes", "partial_bytes"), [(4, 4), (2, 4), (2, 2)])
def test_the_planner_s_bound_on_multiplications_of_dot_products(
    item_bytes: int, partial_bytes: int
) -> None:
    random = np.random.default_rng(0)
    shape = replace(DEPTHWISE, dtype={4: "float32", 2: "float16"}[item_bytes])
    shape = replace(shape, partial_dtype={4: "float32", 2: "float16"}[partial_bytes])
    outputs = 1 if partial_bytes == 4 else 2
    family = next(family for family in FAMILIES if family.name == "horizontal mac")
    near = 0.0
    for _ in range(300):
        names = ("groups", "images", "rows", "columns", "in_groups", "out_groups", "kernel_rows")
        sizes = {name: int(2 ** random.uniform(0, 5)) for name in names}
        inputs = int(2 ** random.uniform(0, 9)) * (1 if item_bytes == 4 else 2)
        vertex = work(
            item_bytes=item_bytes,
            partial_bytes=partial_bytes,
            inputs=inputs,
            outputs=outputs,
            **sizes,
        )
        cycles = int(horizontal_mac_cycles(vertex, MACHINE)[0])
        maximum = family.most_products(shape, Grouping(1, inputs, outputs), MACHINE)
        share = np.prod([*sizes.values(), inputs, outputs]) / (maximum * cycles)
        assert share <= 1
        near = max(near, share)
    assert near > 0.8, "the bound would be loose"


@pytest.mark.parametrize("preset", ["gc200", "gc2"])
@pytest.mark.parametrize(("item_bytes", "partial_bytes"), [(4, 4), (2, 4), (2, 2), (1, 2)])
def test_the_planner_s_bound_on_multiplications_of_the_unit(
    item_bytes: int, partial_bytes: int, preset: str
) -> None:
    machine = load_machine("c600" if item_bytes == 1 else preset)
    random = np.random.default_rng(0)
    types = {4: "float32", 2: "float16", 1: "float8_143"}
    product = replace(PRODUCT, in_channels=64, out_channels=64, dtype=types[item_bytes])
    product = replace(product, partial_dtype=types[partial_bytes])
    family = next(family for family in FAMILIES if family.name == "amp")
    near = 0.0
    for shape in (product, replace(product, kernel=(7, 7))):
        law = amp_1x1_cycles if shape.is_pointwise else amp_nx1_cycles
        for grouping, _ in product_of(family.groupings(shape, machine), range(100)):
            names = ["groups", "images", "rows", "columns", "in_groups", "out_groups"]
            names += [] if shape.is_pointwise else ["kernel_rows", "kernel_columns"]
            sizes = {name: int(2 ** random.uniform(0, 6)) for name in names}
            sizes |= {"inputs": grouping.inputs, "outputs": grouping.outputs}
            vertex = work(item_bytes=item_bytes, partial_bytes=partial_bytes, **sizes)
            maximum = family.most_products(shape, grouping, machine)
            share = np.prod([*sizes.values()]) / (maximum * int(law(vertex, machine)[0]))
            assert share <= 1
            near = max(near, share)
    assert near > 0.8, "the bound would be loose"


def test_hand_computed_vertical_mac() -> None:
    """6 field elements of a 3 x 3 kernel, 4 groups: a worker has 3 rows of the kernel.

    A row is 7 + 3 + 3 + 2 x 2. Zeroing 4 + 24 / 4; the sum over the workers 10 + 12 x 4 / 4.
    """
    shape = work(columns=6, kernel_rows=3, kernel_columns=3, groups_inside=4)
    inner = 6 * (18 + 3 * 17)
    expected = 61 + 14 + 25 + (4 + 6) + 32 + 24 + inner + (10 + 12)
    assert int(vertical_mac_cycles(shape, MACHINE)[0]) == expected


def test_hand_computed_vertical_mac_of_sixteen_groups() -> None:
    """As above by eights, twice: 25 + 2 x 3 x (7 + 15 + 3 + 3 x 2) a worker."""
    shape = work(columns=6, kernel_rows=3, kernel_columns=3, groups_inside=16)
    inner = 6 * (25 + 2 * 3 * 31)
    expected = 61 + 14 + 25 + (4 + 24) + 32 + 24 + inner + (10 + 12)
    assert int(vertical_mac_cycles(shape, MACHINE)[0]) == expected


def test_hand_computed_outer_product() -> None:
    """12 columns are 2 a worker; 8 floats in blocks of 2: 6 x (25 + 4 x (11 + 2 x (10 + 4)))."""
    shape = work(columns=12, out_groups=4, outputs=2, item_bytes=4, partial_bytes=4)
    assert int(outer_product_cycles(shape, MACHINE)[0]) == 6 * (25 + 4 * (11 + 2 * 14))


def test_depthwise_and_first_convolutions_leave_the_largest_groups_of_the_unit() -> None:
    depthwise = plan_convolution("depthwise", DEPTHWISE, MACHINE)
    by_amp = plan_convolution("depthwise", DEPTHWISE, MACHINE, family="amp")
    assert depthwise.family in ("slic", "vertical mac")
    assert depthwise.predicted_cycles < by_amp.predicted_cycles
    first = plan_convolution("first", FIRST, MACHINE)
    assert first.grouping["inputs"] == 4


def test_an_unsuitable_family_is_refused() -> None:
    with pytest.raises(
        BadGraph, match="'vertical mac' does not support this convolution of float32"
    ):
        plan_convolution("c", replace(DEPTHWISE, dtype="float32"), MACHINE, family="vertical mac")
    with pytest.raises(BadGraph, match="Unknown vertex family 'winograd': use one of amp"):
        plan_convolution("c", DEPTHWISE, MACHINE, family="winograd")


@pytest.mark.parametrize(
    ("inner", "family", "dtype"),
    [
        (1, "outer product", "float16"),
        (9, "amp", "float16"),
        (16, "amp", "float16"),
        (17, "amp", "float32"),
        (16, "horizontal mac", "float32"),
    ],
)
def test_vertices_that_sum_all_at_once_may_write_halves(
    inner: int, family: str, dtype: str
) -> None:
    """Nothing is summed after them: their results need not be of the type of partial sums."""
    shape = replace(PRODUCT, in_channels=inner, dtype="float16", partial_dtype="float32")
    plan = plan_convolution("product", shape, MACHINE, family=family)
    assert plan.partial_dtype == dtype
    # A larger kernel is summed by several vertices, or in several steps of one.
    window = replace(shape, is_matmul=False, kernel=(1, 3), in_width=66)
    assert plan_convolution("window", window, MACHINE).partial_dtype == "float32"
    assert plan_convolution("float", PRODUCT, MACHINE).partial_dtype == "float32"
