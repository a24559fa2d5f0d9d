"""Cycle laws and the scheduling rule, against figures computed on paper or published."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilescope.engine import Builder, Graph, compile_programs, load_machine
from tilescope.engine.codelets.poplin.amp import amp_1x1_cycles, amp_nx1_cycles
from tilescope.engine.codelets.poplin.reduce_partials import REDUCE_PARTIALS
from tilescope.engine.codelets.poplin.slic import slic_cycles
from tilescope.engine.codelets.poplin.vertical_mac import vertical_mac_cycles
from tilescope.engine.codelets.poplin.work import Work
from tilescope.engine.codelets.popnn.pool import MAX_POOL
from tilescope.engine.codelets.popops.elementwise.copy import CAST, CAST_BLOCK, COPY, COPY_BLOCK
from tilescope.engine.codelets.popops.elementwise.fill import FILL, FILL_BLOCK
from tilescope.engine.codelets.popops.elementwise.operations import (
    BINARY,
    BINARY_BLOCK,
    UNARY,
    UNARY_BLOCK,
)
from tilescope.engine.codelets.popops.elementwise.scaled_add import SCALED_ADD, SCALED_ADD_FAST
from tilescope.engine.codelets.popops.elementwise.ternary import TERNARY, TERNARY_BLOCK
from tilescope.engine.codelets.popops.elementwise.transpose import TRANSPOSE
from tilescope.engine.codelets.popops.elementwise.vector_inner import (
    VECTOR_INNER,
    VECTOR_INNER_IN_PLACE,
)
from tilescope.engine.codelets.popops.reduction.reduce import REDUCE, REDUCE_UPDATE
from tilescope.engine.compiler.cycles.cycles import CountedCycles
from tilescope.engine.compiler.kernels.schedule import list_schedule
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import blocks
from tilescope.engine.graph.vertex.codelet import Codelet, Field
from tilescope.engine.graph.vertex.law import start_cycles
from tilescope.engine.library.popops.elementwise.scaled_add import scaled_add
from tilescope.engine.program import Execute, Sequence


def work(*, item_bytes: int = 4, partial_bytes: int = 0, **sizes: int) -> Work:
    """Return one vertex's shapes; those not given are 1, channel groups 16 wide."""
    names = [field.name for field in fields(Work) if not field.name.endswith("_bytes")]
    values = {**dict.fromkeys(names, 1), "inputs": 16, "outputs": 16, **sizes}
    arrays = {name: ints(size) for name, size in values.items()}
    return Work(**arrays, item_bytes=item_bytes, partial_bytes=partial_bytes or item_bytes)


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def step_cycles(codelet: Codelet, n_elements: int, tiles: list[int], n_ipus: int = 1) -> Any:
    """Return the cost of a compute set of one vertex per entry of `tiles`, on 4 tiles an IPU."""
    graph = Graph(load_machine("gc200", parameter_set="ipu_model", tiles_per_ipu=4, n_ipus=n_ipus))
    n = len(tiles)
    fields = {}
    for field in codelet.fields:
        x = graph.add_variable("float32", (n, n_elements), field.name)
        order = np.repeat(np.array(tiles), 1)
        graph.set_tile_mapping(x, np.arange(n) * n_elements, order)
        start = np.arange(n, dtype=np.int64) * n_elements
        fields[field.name] = blocks(x.variable, start, [n_elements], [1], n)
    compute_set = graph.add_compute_set("c")
    scalars = {scalar.name: 1.0 for scalar in codelet.scalars}
    graph.add_vertices(compute_set, codelet, tiles, fields, scalars)
    (step,) = compile_programs(graph, [Execute(compute_set)]).steps
    return step.cost


def test_multi_vertices_of_one_tile_share_its_contexts() -> None:
    """48 worker vertices of 77 instructions take 8 rounds on 6 contexts: 6 x 8 x 77 = 3,696."""
    cycles = list_schedule(np.zeros(48, np.int32), np.full(48, 77), 2, 6)
    assert cycles.tolist() == [3696, 0]


def test_list_scheduling_takes_the_least_busy_context() -> None:
    # Two contexts: 5 | 3, then 4 joins the 3 (7), then 2 joins the 5 (7), then 1 joins the first.
    cycles = list_schedule(np.zeros(5, np.int32), ints(5, 3, 4, 2, 1), 1, 2)
    assert cycles.tolist() == [2 * 8]


@pytest.mark.parametrize(("rows", "published"), [(16, 402), (64, 584), (256, 1352), (1024, 4424)])
def test_a_product_on_one_tile_takes_what_was_measured(rows: int, published: int) -> None:
    """Half [rows, 16] x [16, 16] on a Bow tile: cycles of the 1x1 AMP vertex, within 3 percent.

    Source: graphcore-research/tessellate-ipu, notebook IPU Peak Flops.
    """
    cycles = int(amp_1x1_cycles(work(columns=rows, item_bytes=2), load_machine("bow"))[0])
    assert abs(cycles / published - 1) < 0.03


def test_scores_of_attention_take_what_was_measured() -> None:
    """365 rows x 80 x 16 halves on a C600 tile: 8,488 cycles measured, within 5 percent.

    Source: osmarks/ipu-stack, SDK_ONNX_PROFILE_ANALYSIS.
    """
    shape = work(columns=365, in_groups=5, item_bytes=2)
    cycles = int(amp_1x1_cycles(shape, load_machine("c600"))[0])
    assert abs(cycles / 8488 - 1) < 0.05


def test_hand_computed_product_in_float() -> None:
    """13 rows x 16 x 16 floats on gc200, by the formula of the library.

    Workers get 3 or 2 rows: 46 + 2 + 8 x 3 = 72 or 46 + 2 + 8 x 2 = 64 with zeroing, 46 without;
    times 6. Weights of a pass: 16 units x 8 inputs x 4 bytes at 8 a cycle = 64. Two input groups:
    50 + 13 + (15 + 19 + 6 + 64 + 290) + (11 + 18 + 7 + 64 + 432).
    """
    cycles = amp_1x1_cycles(work(columns=13, in_groups=2, inputs=8), load_machine("gc200"))
    assert int(cycles[0]) == 50 + 13 + (15 + 19 + 6 + 64 + 290) + (11 + 18 + 7 + 64 + 432)


def test_hand_computed_convolution_in_half() -> None:
    """A 3 x 3 kernel over 2 rows of 7 columns, 16 half inputs and outputs, half partials.

    14 elements are shared out 2 or 3 each; the third worker has elements 4 to 6 of row 0, the
    fourth elements 0 and 1 of row 1. A row part of 2 costs 3 + 34 - 9 = 28 and one of 3 as well;
    every worker has one part: 6 x (18 + 28) = 276, the quickest too, so that 276 + 9 decide.
    Weights of a pass: 16 x 16 x 2 / 8 = 64. Rows of the kernel: 3 x (14 + 3 x (12 + 64 + 18)), its
    positions 9 x 285. Zeroing: 38 of 224 elements a worker, 10 vectors: 6 x (10 + 15 - 10).
    """
    shape = work(rows=2, columns=7, kernel_rows=3, kernel_columns=3, item_bytes=2)
    cycles = amp_nx1_cycles(shape, load_machine("gc200"))
    loops = 3 * (14 + 3 * (12 + 64 + 18)) + 9 * 285
    assert int(cycles[0]) == 90 + 109 + 6 * (9 + 10) + 17 + 1 + 1 + 16 + 14 + 14 + loops


def test_hand_computed_product_of_halves_with_float_partials() -> None:
    """13 rows x 16 x 16 halves, partial sums in float: two passes of the 8 units.

    A worker's 2 rows cost 40 + 1 - 7 = 34, more than 3 of them, 37 - 7: 204 and 180. Weights of a
    pass: 8 x 16 x 2 / 8 = 32.
    """
    shape = work(columns=13, item_bytes=2, partial_bytes=4)
    cycles = amp_1x1_cycles(shape, load_machine("gc200"))
    assert int(cycles[0]) == 50 + 6 * 7 + 13 + 11 + 18 + 2 * (7 + 32 + 204)


def test_hand_computed_product_of_float8() -> None:
    """13 rows x 64 x 16 of float8 on a C600, partial sums in half: two groups of 32 inputs.

    Workers get 3 or 2 rows: 17 + 27 or 17 + 23, times 6; 5 less when a sum begins. Weights of a
    pass: 16 units x 32 inputs at 8 a cycle = 64.
    """
    shape = work(columns=13, in_groups=2, inputs=32, item_bytes=1, partial_bytes=2)
    cycles = amp_1x1_cycles(shape, load_machine("c600"))
    assert int(cycles[0]) == 46 + 21 + 46 + (131 + 64 + 234) + (108 + 64 + 264)


def test_hand_computed_convolution_of_float8() -> None:
    """A 3 x 3 kernel over 2 rows of 7 columns, 32 inputs and 16 outputs of float8.

    Workers have parts of 3 or 2: 18 + 16 + 27 or 23, times 6 = 366 or 342 + 9. Rows of the kernel:
    33 + 103 for its first column, 86 for the other two, two loads of 64. Zeroing as for half.
    """
    sizes = {"rows": 2, "columns": 7, "kernel_rows": 3, "kernel_columns": 3, "inputs": 32}
    shape = work(**sizes, item_bytes=1, partial_bytes=2)
    cycles = amp_nx1_cycles(shape, load_machine("c600"))
    loops = 3 * (33 + 103 + 2 * 86 + 2 * 64 + 3 * 366)
    assert int(cycles[0]) == 90 + 83 + 37 + 58 + 61 + loops


def test_hand_computed_convolution_of_few_float8_channels() -> None:
    """A 3 x 4 kernel over 2 rows of 7 columns, 8 inputs and outputs of float8: three windows.

    The slowest worker has 3 columns: 20 + 24 + 2 x 17 at first, then 20 + 24 + 2 x 33, times 6.
    """
    sizes = {"rows": 2, "columns": 7, "kernel_rows": 3, "kernel_columns": 4}
    shape = work(**sizes, inputs=8, outputs=8, item_bytes=1, partial_bytes=2)
    cycles = slic_cycles(shape, load_machine("c600"))
    first = 36 + 38 + 48 + 6 * 78
    assert int(cycles[0]) == 43 + 93 + first + 2 * (36 + 38 + 38 + 6 * 110)


def test_hand_computed_depthwise_convolution_with_float_partials() -> None:
    """4 groups of halves over 13 elements, 3 x 3: workers share 13 rows of 3 kernel columns.

    One has two rows, of 7 + 5 + 3 + 4, and one more column, for each row of the kernel. 52 partial
    sums in float are zeroed as 26 vectors and added up 9 a worker, 19 / 4 each.
    """
    sizes = {"columns": 13, "kernel_rows": 3, "kernel_columns": 3, "groups_inside": 4}
    shape = work(**sizes, inputs=1, outputs=1, item_bytes=2, partial_bytes=4)
    cycles = vertical_mac_cycles(shape, load_machine("gc200"))
    workers = 4 + 26 + 32 + 24 + 6 * (19 + 3 * (2 * 19 + 15)) + 9 + 19 * 9 // 4
    assert int(cycles[0]) == 61 + 14 + 26 + workers


def test_hand_computed_scaled_addition() -> None:
    """45,001 floats: 22,500 vectors, 3,750 a worker, and a float left over.

    Slow path: 21 + 11 + 13 + 12 + 6 + 6 x (15 + 6 + 3 x 3,749 + 2 + 1 + 8 + 1). Fast path: one
    cycle per vector. 20 vectors are 3 per worker and 4 for two workers, 2 cycles each.
    """
    frame = 21 + 11 + 13 + 12 + 6
    plain = step_cycles(SCALED_ADD, 45_001, [1])
    assert plain.tile_cycles[1] == frame + 6 * (15 + 6 + 3 * 3_749 + 2 + 1 + 8 + 1)
    fast = step_cycles(SCALED_ADD_FAST, 45_001, [1])
    assert fast.tile_cycles[1] == frame + 6 * (15 + 6 + 3_749 + 2 + 1 + 8 + 1)
    few = step_cycles(SCALED_ADD_FAST, 40, [1])
    assert few.tile_cycles[1] == 21 + 11 + 7 + 12 + 6 + 6 * (15 + 6 + 2 * 3 + 2 + 1)


def test_hand_computed_addition() -> None:
    """100 floats: 17 a worker, 9 vectors of 8 bytes at 3 cycles: 11 + 6 x (29 + 27) = 347."""
    cost = step_cycles(BINARY["add"], 100, [1])
    assert cost.tile_cycles.tolist() == [0, 347, 0, 0]
    assert cost.cycles.tolist() == [347]
    assert cost.flops.tolist() == [100]


def vertex_cycles(
    codelet: Codelet, dtypes: dict[str, str], fields: dict[str, tuple[list[int], list[int]]]
) -> int:
    """Return the cycles of one vertex on one tile, its fields given as sizes and strides."""
    is_narrow = any(dtype.startswith("float8") for dtype in dtypes.values())
    name = "c600" if is_narrow else "gc200"
    graph = Graph(load_machine(name, parameter_set="ipu_model", tiles_per_ipu=1))
    regions = {}
    for name, (sizes, strides) in fields.items():
        last = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        x = graph.add_variable(dtypes.get(name, "float32"), (last + 1,), name)
        graph.map_linearly(x)
        regions[name] = blocks(x.variable, 0, sizes, strides, 1)
    compute_set = graph.add_compute_set("c")
    scalars = {scalar.name: 1.0 for scalar in codelet.scalars}
    graph.add_vertices(compute_set, codelet, [0], regions, scalars)
    (step,) = compile_programs(graph, [Execute(compute_set)]).steps
    return int(step.cost.tile_cycles[0])


HALF = {"a": "float16", "b": "float16", "x": "float16", "out": "float16", "partials": "float16"}
INTEGERS = dict.fromkeys(HALF, "int32")
BYTES = dict.fromkeys(HALF, "uint8")
EIGHT_OUT = {"x": "float16", "out": "float8_143"}
ROWS = ([1, 12, 16], [192, 16, 1])
SHARED = {"a": ROWS, "b": ([1, 16], [0, 1]), "out": ROWS}
OF_12 = {name: ([1, 12, 12], [144, 12, 1]) for name in ("a", "out")} | {"b": ([1, 12], [0, 1])}
OF_PLANES = {name: ([2, 6, 16], [96, 16, 1]) for name in ("a", "out")} | {"b": ([2, 16], [16, 1])}
APART = {name: ([1, 12, 16], [240, 20, 1]) for name in ("a", "out")} | {"b": ([1, 16], [0, 1])}


def in_place(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the vertex whose result lies over its first operand."""
    return {name: fields[name] for name in ("a", "b")}


def turned(planes: int, rows: int, columns: int, apart: int = 0) -> dict[str, Any]:
    """Return a copy whose source has the output's rows as columns, `apart` more to a line."""
    line = rows + apart
    return {
        "x": ([planes, rows, columns], [line * columns, 1, line]),
        "out": ([planes, rows, columns], [rows * columns, columns, 1]),
    }


@pytest.mark.parametrize(
    ("codelet", "dtypes", "fields", "cycles"),
    [
        # An addition of halves begins 3 earlier than one of floats: 17 a worker, 5 vectors.
        (BINARY["add"], HALF, dict.fromkeys(("a", "b", "out"), ([100], [1])), 11 + 6 * (26 + 15)),
        # Integers are processed one by one: 17 per worker at 7 cycles.
        (
            BINARY["multiply"],
            INTEGERS,
            dict.fromkeys(("a", "b", "out"), ([100], [1])),
            11 + 6 * (26 + 17 * 7),
        ),
        # A division of them is a loop in software, 277 each.
        (BINARY_BLOCK["divide"], INTEGERS, dict.fromkeys(("a", "b", "out"), ROWS), 6 * 8869),
        # One integer per row has no assembly: 28 per row, 16 elements of 6.
        (
            BINARY_BLOCK["add"],
            INTEGERS,
            {"a": ROWS, "b": ([1, 12, 16], [0, 1, 0]), "out": ROWS},
            6 * (20 + 2 * (28 + 96)),
        ),
        # 17 per worker are 5 loops of 4; the type of the operands matters, not that of the result.
        (
            BINARY["greater"],
            {"a": "float32", "b": "float32", "out": "bool"},
            dict.fromkeys(("a", "b", "out"), ([100], [1])),
            11 + 6 * (29 + 5 * 14),
        ),
        (
            BINARY["greater_equal"],
            {"a": "int32", "b": "int32", "out": "bool"},
            dict.fromkeys(("a", "b", "out"), ([100], [1])),
            11 + 6 * (26 + 5 * 26),
        ),
        # 17 a worker, one at a time at 5; 6 for a row and 5 to begin.
        (
            TERNARY["select"],
            {"a": "float16", "b": "float16", "c": "bool", "out": "float16"},
            dict.fromkeys(("a", "b", "c", "out"), ([100], [1])),
            6 * (5 + 6 + 17 * 5),
        ),
        # Two rows a worker of 16 halves: 4 vectors at 2.
        (
            TERNARY_BLOCK["clamp"],
            {"a": "float16", "b": "float16", "c": "float16", "out": "float16"},
            dict.fromkeys(("a", "b", "c", "out"), ROWS),
            6 * (5 + 2 * (6 + 8)),
        ),
        # Bytes are processed as integers: 10 per worker, 2 instructions and 4 of overhead.
        (UNARY["negate"], BYTES, dict.fromkeys(("x", "out"), ([60], [1])), 20 + 6 * (17 + 60)),
        # One absolute value at a time, whatever the type.
        (UNARY["absolute"], HALF, dict.fromkeys(("x", "out"), ([60], [1])), 20 + 6 * (17 + 50)),
        # Two rows a worker, 8 vectors of 2 floats each; nothing is repeated: BinaryOp2D.
        (BINARY_BLOCK["add"], {}, dict.fromkeys(("a", "b", "out"), ROWS), 6 * (5 + 2 * 24)),
        # One number a row: 16 floats are 8 vectors, enough to part every row: 2 vectors a worker,
        # 2 cycles each, 7 a row.
        (
            BINARY_BLOCK["add"],
            {},
            {"a": ROWS, "b": ([1, 12, 16], [0, 1, 0]), "out": ROWS},
            11 + 6 * (15 + 12 * (7 + 4)),
        ),
        # Of halves they are 4 vectors, so that workers take whole rows.
        (
            BINARY_BLOCK["add"],
            HALF,
            {"a": ROWS, "b": ([1, 12, 16], [0, 1, 0]), "out": ROWS},
            11 + 6 * (15 + 2 * (7 + 8)),
        ),
        # A maximum of the same has no assembly: 28 per row.
        (
            BINARY_BLOCK["maximum"],
            {},
            {"a": ROWS, "b": ([1, 12, 16], [0, 1, 0]), "out": ROWS},
            6 * (20 + 2 * (28 + 24)),
        ),
        # A row of halves for 12: 2 rows a worker, two eights at 15 + 2 x 1.
        (VECTOR_INNER["add"], HALF, SHARED, 19 + 6 * (22 + 12 + 2 * 17)),
        # 12 is not a multiple of 8: three fours of two rows at once, 13 each.
        (VECTOR_INNER["subtract"], HALF, OF_12, 19 + 6 * (22 + 15 + 3 * 13)),
        # Two rows for 6 each: one a worker, 11 + 2 x 7, and 17 for each of the two.
        (VECTOR_INNER["add"], HALF, OF_PLANES, 19 + 6 * (22 + 2 * (17 + 25))),
        # Separate rows: two per worker, 15 and 11 + 2 x 7 each.
        (VECTOR_INNER["add"], HALF, APART, 6 * (7 + 2 * (15 + 25))),
        # Loads and stores together: 4 vectors of 9 + 2.
        (VECTOR_INNER["multiply"], HALF, SHARED, 13 + 6 * (45 + 13 + 4 * 11)),
        # 8 pairs: 11 and 6 more for the second row; of halves 13 and 8.
        (VECTOR_INNER["divide"], {}, SHARED, 18 + 6 * (19 + 10 + 8 * 17)),
        (VECTOR_INNER["divide"], HALF, SHARED, 18 + 6 * (24 + 14 + 8 * 21)),
        # In place, the tile and its workers begin differently.
        (VECTOR_INNER_IN_PLACE["add"], HALF, in_place(SHARED), 13 + 6 * (21 + 12 + 2 * 17)),
        (VECTOR_INNER_IN_PLACE["subtract"], HALF, in_place(OF_12), 19 + 6 * (22 + 15 + 3 * 13)),
        (VECTOR_INNER_IN_PLACE["add"], HALF, in_place(APART), 6 * (6 + 2 * (15 + 25))),
        (VECTOR_INNER_IN_PLACE["divide"], {}, in_place(SHARED), 16 + 6 * (19 + 10 + 8 * 17)),
        # Loads and stores of a product alternate: 4 vectors of 7 + 2 x 2; for a row, of 7 + 2.
        (VECTOR_INNER_IN_PLACE["multiply"], HALF, in_place(SHARED), 19 + 6 * (46 + 9 + 4 * 11)),
        (VECTOR_INNER_IN_PLACE["multiply"], HALF, in_place(APART), 6 * (7 + 2 * (13 + 13 + 36))),
        # 17 halves a worker: 26 and 4 fours. 17 bytes: 28 and 4 fours.
        (FILL, HALF, {"out": ([100], [1])}, 6 * (26 + 4)),
        (FILL, BYTES, {"out": ([100], [1])}, 6 * (28 + 4)),
        (FILL, HALF, {"out": ([12], [1])}, 6 * 21),
        # 2 rows a worker of 16 floats: 6, and 23 + 8 - 3 each; apart they are 32 rows of one.
        (FILL_BLOCK, {}, {"out": ([1, 12, 16], [0, 20, 1])}, 6 * (6 + 2 * 28)),
        (FILL_BLOCK, {}, {"out": ([1, 12, 16], [0, 32, 2])}, 6 * (6 + 32 * 21)),
        (FILL_BLOCK, HALF, {"out": ([1, 12, 16], [0, 20, 1])}, 6 * (5 + 2 * (30 - 2))),
        # A matrix of 4 x 2 blocks of 4 x 4 halves for each worker: 29 + 18 + 4 x 12.
        (TRANSPOSE, HALF, turned(6, 8, 16), 7 + 6 * (95 - 7)),
        # One alone is split by its 4 lines of blocks.
        (TRANSPOSE, HALF, turned(1, 8, 16), 7 + 6 * (29 + 18 + 12 - 7)),
        # Up to four single blocks go to one worker: 37 and 4 for each after the second.
        (TRANSPOSE, HALF, turned(4, 4, 4), 6 * (37 + 8)),
        # 24 x 4 of halves, two matrices a worker: 27 + 2 x (35 + 4 x (6 - 2)).
        (TRANSPOSE, HALF, turned(12, 4, 24), 7 + 6 * (27 + 2 * 51 - 7)),
        # No whole blocks: 10 lines of 2 x 5 and more.
        (TRANSPOSE, HALF, turned(6, 10, 6), 6 * (15 + 8 + 10 * (5 + 15))),
        # Of floats 2 x 2 at a time: 27 + 11 + 8 lines of 6 + 3 x 3; one alone is one worker's.
        (TRANSPOSE, {}, turned(6, 8, 16), 6 * (27 + 11 + 8 * 15)),
        (TRANSPOSE, {}, turned(1, 8, 16), 6 * (27 + 11 + 8 * 15)),
        (TRANSPOSE, {}, turned(6, 7, 16), 6 * (13 + 8 + 7 * (5 + 32))),
        # Strided lines are made contiguous first: 96 of 2 vectors.
        (TRANSPOSE, HALF, turned(6, 8, 16, 12), 7 + 6 * (95 - 7) + 6 * (20 + 16 * 11)),
        (UNARY_BLOCK["relu"], {}, dict.fromkeys(("x", "out"), ROWS), 6 * (20 + 2 * 24)),
        # To half: 17 floats a worker are 4 fours and one left over: two checks and 2 cycles.
        (CAST, {"out": "float16"}, {"x": ([100], [1]), "out": ([100], [1])}, 12 + 6 * (18 + 31)),
        # From half 8 twos and one left over.
        (CAST, {"x": "float16"}, {"x": ([100], [1]), "out": ([100], [1])}, 12 + 6 * (18 + 30)),
        # Integers are cast to floats one by one at 2 cycles.
        (CAST, {"x": "int32"}, {"x": ([100], [1]), "out": ([100], [1])}, 12 + 6 * (18 + 53)),
        # From half to float8: 17 a worker are 2 eights of 2 cycles and one over, of three checks.
        (CAST, EIGHT_OUT, {"x": ([100], [1]), "out": ([100], [1])}, 12 + 6 * (18 + 19 + 4 + 5)),
        # From float8 to half: 4 fours of 1 cycle and one over, of two checks.
        (
            CAST,
            {"x": "float8_152", "out": "float16"},
            {"x": ([100], [1]), "out": ([100], [1])},
            12 + 6 * (18 + 19 + 4 + 4),
        ),
        # Between scales: 2 passes of 8, the further one 13, and one over.
        (
            CAST,
            {"x": "float8_143", "out": "float8_143@2"},
            {"x": ([100], [1]), "out": ([100], [1])},
            12 + 6 * (18 + 4 + 13 + 5),
        ),
        # Bytes to half: 4 passes of 4, the first 14 and three more of 9, and one over.
        (
            CAST,
            {"x": "uint8", "out": "float16"},
            {"x": ([100], [1]), "out": ([100], [1])},
            12 + 6 * (18 + 4 + 14 + 27 + 12),
        ),
        # Each row begins anew: 11 + 19 + 4 fours of 2 cycles + 2 checks.
        (CAST_BLOCK, {"out": "float16"}, {"x": ROWS, "out": ROWS}, 6 * (5 + 2 * 40)),
        # 8 rows of 736 halves: 2 outputs a worker, 184 vectors of 4.
        (
            REDUCE["maximum"],
            HALF,
            {"x": ([1, 8, 1, 736], [0, 736, 736, 1]), "out": ([1, 1, 8], [0, 0, 1])},
            6 * (17 + 2 * (12 + 184)),
        ),
        # The same as planes of one column.
        (
            REDUCE["maximum"],
            HALF,
            {"x": ([8, 1, 1, 736], [736, 0, 736, 1]), "out": ([1, 8, 1], [0, 1, 1])},
            6 * (17 + 2 * (12 + 184)),
        ),
        # One row of 736 floats, a sixth for every worker: 123 are 61 pairs and an odd one.
        (
            REDUCE["sum"],
            {},
            {"x": ([1, 1, 1, 736], [0, 0, 0, 1]), "out": ([6, 1, 1], [1, 1, 1])},
            6 * (17 + 12 + 61 + 2),
        ),
        # 24 outputs side by side over 10 rows of floats: 2 vectors a worker, each 3 to begin, 5
        # after it (2 to store, 3 to leave the accumulators), 3 for the group, 9 further rows.
        (
            REDUCE["sum"],
            {},
            {"x": ([1, 24, 1, 10], [0, 1, 240, 24]), "out": ([1, 1, 24], [0, 0, 1])},
            6 * (16 + 2 * (3 + 5 + 3 + 9)),
        ),
        # A maximum leaves no accumulators: 2 in place of 3.
        (
            REDUCE["maximum"],
            {},
            {"x": ([1, 24, 1, 10], [0, 1, 240, 24]), "out": ([1, 1, 24], [0, 0, 1])},
            6 * (16 + 2 * (3 + 4 + 3 + 9)),
        ),
        # An update takes 3 more per vector of floats, and 2 per vector of halves.
        (
            REDUCE_UPDATE["sum"],
            {},
            {"x": ([1, 24, 1, 10], [0, 1, 240, 24]), "out": ([1, 1, 24], [0, 0, 1])},
            6 * (16 + 2 * (3 + 8 + 3 + 9)),
        ),
        (
            REDUCE_UPDATE["sum"],
            HALF,
            {"x": ([1, 24, 1, 10], [0, 1, 240, 24]), "out": ([1, 1, 24], [0, 0, 1])},
            6 * (16 + 2 * (3 + 10 + 3 + 9)),
        ),
        # Halves to floats: 6 vectors, two a worker; 6 to store and 1 to leave the loop.
        (
            REDUCE["sum"],
            {"x": "float16"},
            {"x": ([1, 24, 1, 10], [0, 1, 240, 24]), "out": ([1, 1, 24], [0, 0, 1])},
            6 * (16 + 2 * (3 + 7 + 3 + 9)),
        ),
        # 2 sections of 5 rows: 24 vectors of 2 floats, 4 a worker, all in one row of 12.
        (
            REDUCE["sum"],
            {},
            {"x": ([1, 24, 1, 10], [0, 1, 240, 24]), "out": ([2, 1, 24], [24, 24, 1])},
            6 * (16 + 4 * (3 + 5 + 3 + 4)),
        ),
        # Log-add of vectors of 2 floats: 23 for every further row; not in vectors: 20 an element.
        (
            REDUCE["log_add"],
            {},
            {"x": ([1, 24, 1, 10], [0, 1, 240, 24]), "out": ([1, 1, 24], [0, 0, 1])},
            6 * (16 + 2 * (3 + 4 + 3 + 9 * 23)),
        ),
        (
            REDUCE["log_add"],
            {},
            {"x": ([1, 8, 1, 736], [0, 736, 736, 1]), "out": ([1, 1, 8], [0, 0, 1])},
            6 * (17 + 2 * (12 + 736 * 20)),
        ),
        # Neither: 3 outputs are one a worker, 4 elements at 16 each.
        (
            REDUCE["sum"],
            {},
            {"x": ([1, 3, 1, 4], [0, 40, 10, 10]), "out": ([1, 1, 3], [0, 0, 1])},
            6 * (33 + 24 + 4 + 7 + 64),
        ),
        # Integers are added one by one.
        (
            REDUCE["sum"],
            {"x": "int32", "out": "int32"},
            {"x": ([1, 8, 1, 10], [0, 10, 10, 1]), "out": ([1, 1, 8], [0, 0, 1])},
            6 * (17 + 2 * (12 + 10)),
        ),
        # Logical operations take C++: 31 to begin, 8 an output, 22 + 25 an element.
        (
            REDUCE["logical_and"],
            {"x": "bool", "out": "bool"},
            {"x": ([1, 8, 1, 10], [0, 10, 10, 1]), "out": ([1, 1, 8], [0, 0, 1])},
            6 * (31 + 2 * (8 + 10 * 47)),
        ),
        # Two groups of 8 halves a worker: 2 cycles for each of 4 partials that come, 9 around.
        (
            REDUCE_PARTIALS,
            HALF,
            {"partials": ([5, 1, 2, 48], [96, 0, 48, 1]), "out": ([1, 2, 48], [0, 48, 1])},
            33 + 6 * (20 + 2 * (8 + 9)),
        ),
        # No whole groups of 4 floats: two groups and a pair, on three workers, 2 a partial.
        (
            REDUCE_PARTIALS,
            {},
            {"partials": ([4, 1, 1, 10], [10, 0, 0, 1]), "out": ([1, 1, 10], [0, 0, 1])},
            6 * (32 + 2 * 4 + 13),
        ),
        # More than a sixteenth of the memory: 200 groups are 34 a worker, 3 a partial, 7 around.
        (
            REDUCE_PARTIALS,
            {},
            {"partials": ([12, 1, 1, 800], [800, 0, 0, 1]), "out": ([1, 1, 800], [0, 0, 1])},
            6 * (32 + 34 * (3 * 12 + 7)),
        ),
        # Of floats they are four groups of 4 a worker; an output in half takes one cycle less.
        (
            REDUCE_PARTIALS,
            {"out": "float16"},
            {"partials": ([5, 1, 1, 96], [96, 0, 0, 1]), "out": ([1, 1, 96], [0, 0, 1])},
            33 + 6 * (20 + 4 * (8 + 7)),
        ),
    ],
)
def test_hand_computed_laws_of_the_vector_unit(
    codelet: Codelet,
    dtypes: dict[str, str],
    fields: dict[str, tuple[list[int], list[int]]],
    cycles: int,
) -> None:
    """Source: graphcore/poplibs sdk-release-3.4, cycle estimators of popops and poplin."""
    assert vertex_cycles(codelet, dtypes, fields) == cycles


def test_hand_computed_pool() -> None:
    """A 3 x 3 maximum over 6 rows of 7 outputs, 16 floats: a row a worker, 8 vectors.

    45 to begin, 56 first values, then 15 for the row and for each of 9 positions 25 and 8 loops of
    3 + 4 + 3 x 6.
    """
    graph = Graph(load_machine("gc200", parameter_set="ipu_model", tiles_per_ipu=1))
    x = graph.add_variable("float32", (8, 9, 16), "x")
    out = graph.add_variable("float32", (6, 7, 16), "out")
    for tensor in (x, out):
        graph.map_linearly(tensor)
    fields = {
        "x": blocks(x.variable, 0, [8, 9, 16], [144, 16, 1], 1),
        "out": blocks(out.variable, 0, [6, 7, 16], [112, 16, 1], 1),
    }
    scalars = {scalar.name: 1 for scalar in MAX_POOL.scalars}
    scalars |= {"kernel_height": 3, "kernel_width": 3, "shift_y": 0, "shift_x": 0}
    compute_set = graph.add_compute_set("c")
    graph.add_vertices(compute_set, MAX_POOL, [0], fields, scalars)
    (step,) = compile_programs(graph, [Execute(compute_set)]).steps
    expected = 13 + 6 * (45 + 56 + 15 + 9 * (25 + 8 * (3 + 4 + 18)))
    assert step.cost.tile_cycles.tolist() == [expected]


def test_hand_computed_copy() -> None:
    """100 floats are 50 vectors, 9 for the slowest worker: 11 + 6 x (20 + 9) = 185."""
    assert step_cycles(COPY, 100, [3]).tile_cycles.tolist() == [0, 0, 0, 185]


def test_supervisor_vertices_of_a_tile_run_one_after_the_other() -> None:
    item = int(step_cycles(FILL, 40, [2]).tile_cycles[2])
    assert item == 6 * (16 + 4 + 7)  # 7 floats a worker are 4 vectors
    cost = step_cycles(FILL, 40, [2, 2, 0])
    assert cost.tile_cycles.tolist() == [item, 0, 2 * item, 0]
    assert cost.cycles.tolist() == [2 * item]


@pytest.mark.parametrize(
    ("n_floats", "published"), [(64, 375), (128, 467), (256, 665), (512, 1043)]
)
def test_the_hardware_takes_its_time_to_start_workers(n_floats: int, published: int) -> None:
    """Scaled additions as measured (tessellate-ipu), less 45 cycles of reading the counter."""
    cycles = []
    for parameter_set in ("hardware", "ipu_model"):
        graph = Graph(load_machine("bow", parameter_set=parameter_set, tiles_per_ipu=1))
        program = Sequence("main")
        a, b = (graph.add_variable("float32", (n_floats,), name) for name in "ab")
        for operand in (a, b):
            graph.map_linearly(operand)
        scaled_add(Builder(graph, program), a, b, 0.5)
        compiled = compile_programs(graph, [program])
        cycles.append(max(int(step.cost.tile_cycles[0]) for step in compiled.steps))
    assert cycles[0] - cycles[1] == 98 - 57  # the estimator's figure
    assert abs(cycles[0] - (published - 45)) <= 2


def test_what_the_law_has_for_the_start_counts_where_it_is_more() -> None:
    gc200 = load_machine("gc200")
    assert [start_cycles(counted, gc200) for counted in (0, 98, 150)] == [98, 98, 150]
    assert start_cycles(11, load_machine("gc200", parameter_set="ipu_model")) == 11


def test_worker_vertices_share_the_contexts() -> None:
    codelet = Codelet(
        "test::Worker",
        (Field("out", "out"),),
        FILL.kernel,
        lambda batch, _: np.full(batch.n_vertices, 77),
        code_bytes=10,
        source="test",
        is_supervisor=False,
    )
    cost = step_cycles(codelet, 1, [0] * 48 + [1])
    assert cost.tile_cycles.tolist() == [3696, 6 * 77, 0, 0]


@pytest.mark.parametrize(
    ("law", "words"),
    [
        (lambda _, __: np.full(3, 1), "must return 1 integers"),
        (lambda _, __: np.full(1, 1.5), "must return 1 integers"),
        (lambda _, __: np.full(1, -1), "returns -1 cycles"),
    ],
    ids=["too many", "no integers", "negative"],
)
def test_a_law_that_gives_no_cycles_is_refused(law: Any, words: str) -> None:
    codelet = Codelet("test::Odd", (Field("out", "out"),), FILL.kernel, law, 10, "test")
    with pytest.raises(BadGraph, match=words):
        step_cycles(codelet, 1, [0])


def test_every_ipu_takes_as_long_as_its_slowest_tile() -> None:
    cost = step_cycles(FILL, 40, [1, 5, 5], n_ipus=2)
    assert cost.cycles.tolist() == [162, 324]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=60), st.integers(1, 6))
def test_scheduling_is_what_plain_lists_give(
    vertices: list[tuple[int, int]], n_contexts: int
) -> None:
    contexts = [[0] * n_contexts for _ in range(4)]
    for tile, cycles in vertices:
        mine = contexts[tile]
        mine[mine.index(min(mine))] += cycles
    tiles, cycles_of = np.array(vertices, dtype=np.int64).reshape(-1, 2).T
    actual = list_schedule(tiles.astype(np.int32), cycles_of.copy(), 4, n_contexts)
    assert actual.tolist() == [max(context) * n_contexts for context in contexts]


def scaled(factor: int, *, is_data_dependent: bool, is_supervisor: bool) -> Codelet:
    """Return a codelet whose vertices take `factor` cycles per count."""
    return Codelet(
        name=f"scaled{factor}",
        fields=(Field("x", "in"),),
        kernel=lambda x: x.size,
        law=lambda batch, _machine: factor * (batch.counts + 1),
        source="test",
        code_bytes=20,
        is_data_dependent=is_data_dependent,
        is_supervisor=is_supervisor,
    )


def test_counted_cycles_are_those_of_a_compute_set_of_such_vertices() -> None:
    """Two kinds of vertices return counts, two do not; one of each two is a supervisor vertex.

    A tile copies beside them.
    """
    graph = Graph(load_machine("gc200", tiles_per_ipu=3))
    compute_set = graph.add_compute_set("c")
    counts, random = [], np.random.default_rng(1)
    supervised, worked = np.zeros(3, np.int64), [[0] * 6 for _ in range(3)]
    for factor, (counts_data, is_supervisor) in enumerate(
        [(True, False), (False, True), (True, True), (False, False)], start=2
    ):
        codelet = scaled(factor, is_data_dependent=counts_data, is_supervisor=is_supervisor)
        tiles = random.integers(0, 3, 11)
        x = graph.add_variable("int32", (11,), "x")
        graph.map_linearly(x)
        graph.add_vertices(
            compute_set, codelet, tiles, {"x": blocks(x.variable, np.arange(11), [1], [1], 11)}
        )
        counts.append(random.integers(0, 50, 11) if counts_data else np.zeros(0, np.int64))
        cycles = factor * ((counts[-1] if counts_data else np.zeros(11, np.int64)) + 1)
        for tile, n_cycles in zip(tiles.tolist(), cycles.tolist(), strict=True):
            if is_supervisor:
                supervised[tile] += n_cycles
            else:
                worked[tile][worked[tile].index(min(worked[tile]))] += n_cycles
    copied = [graph.add_variable("float32", (8,), name) for name in ("x", "out")]
    for tensor in copied:
        graph.set_tile_mapping(tensor, [0], [1])
    run = {tensor.name: blocks(tensor.variable, 0, [8], [1], 1) for tensor in copied}
    graph.add_vertices(compute_set, COPY, [1], run)
    counts.append(np.zeros(0, np.int64))
    supervised[1] += 11 + 6 * (20 + 1)
    actual = CountedCycles(compute_set, graph.machine, counts)
    expected = supervised + 6 * np.array([max(contexts) for contexts in worked])
    assert actual.tile_cycles().tolist() == expected.tolist()
    counts[0][:] = 10_000  # the kernels count again, into the same arrays
    assert actual.tile_cycles().max() > 20_000


def test_a_codelet_in_two_batches_of_a_compute_set_is_one_use() -> None:
    graph = Graph(load_machine("gc200", tiles_per_ipu=4))
    compute_set = graph.add_compute_set("c")
    for i, (tiles, n_elements) in enumerate((([0, 1], 8), ([1, 2, 2], 64))):
        n = len(tiles)
        start = np.arange(n, dtype=np.int64) * n_elements
        fields = {}
        for field in COPY.fields:
            x = graph.add_variable("float32", (n, n_elements), f"{field.name}{i}")
            graph.set_tile_mapping(x, start, tiles)
            fields[field.name] = blocks(x.variable, start, [n_elements], [1], n)
        graph.add_vertices(compute_set, COPY, tiles, fields, {})
    compiled = compile_programs(graph, [Execute(compute_set)])
    (use,) = compiled.vertex_uses
    assert (use.codelet_name, use.n_vertices, use.n_tiles) == (COPY.name, 5, 3)
    assert use.n_edges == 5 * len(COPY.fields)
    # A worker's instructions: 20, and one for 8 bytes.
    small, large = 20 + 4, 20 + 32
    assert (use.max_cycles, use.total_cycles) == (large, 2 * small + 3 * large)
    # 4 vectors, 4 + 32 and 32 + 32, in shares of six workers, the cost of a piece once.
    expected = [11 + 6 * (20 + share) for share in (1, 6, 11)]
    assert compiled.steps[-1].cost.tile_cycles.tolist() == [*expected, 0]


def test_pieces_are_of_worker_vertices() -> None:
    with pytest.raises(BadGraph, match="its vertices are dealt to workers"):
        replace(COPY, is_supervisor=True)
    with pytest.raises(BadGraph, match="pieces is 3: expected a SharedWork"):
        replace(COPY, pieces=3)  # type: ignore[arg-type]


def test_copies_of_a_tile_are_dealt_to_its_workers() -> None:
    """Rows of two vectors take 9 + 2 instructions, of four 9 + 4; a worker's first piece 20."""

    def cycles(*rows_of_blocks: int, columns: int = 4) -> int:
        graph = Graph(load_machine("gc200", tiles_per_ipu=4))
        compute_set = graph.add_compute_set("c")
        for i, n_rows in enumerate(rows_of_blocks):
            fields = {}
            for name in ("x", "out"):
                y = graph.add_variable("float32", (n_rows, columns + 2), f"{name}{i}")
                graph.set_tile_mapping(y, [0], [1])
                fields[name] = blocks(y.variable, 0, [1, n_rows, columns], [0, columns + 2, 1], 1)
            graph.add_vertices(compute_set, COPY_BLOCK, [1], fields)
        compiled = compile_programs(graph, [Execute(compute_set)])
        assert set(compiled.steps[-1].cost.tile_cycles[[0, 2, 3]].tolist()) == {0}
        return int(compiled.steps[-1].cost.tile_cycles[1])

    def of(n_pieces: int, work: int) -> int:
        return 11 + 6 * (20 * n_pieces + work)

    row = 9 + 2
    assert cycles(13) == of(1, 3 * row)  # the busiest worker has three of its rows
    assert cycles(13, 13, 13, 13, 13, 13) == of(1, 13 * row)  # a block for each worker
    assert cycles(*[13] * 7) == of(2, -(-7 * 13 * row // 6))
    assert cycles(12, 60) == of(1, 12 * row)
    assert cycles(1, 1, 1) == of(1, row)  # a row is not divided
    assert cycles(1, columns=8) == of(1, 9 + 4)


def test_the_pieces_of_different_codelets_share_the_workers_of_a_tile() -> None:
    graph = Graph(load_machine("gc200", tiles_per_ipu=4))
    compute_set = graph.add_compute_set("c")
    x, y = (graph.add_variable("float32", (8, 8), name) for name in "xy")
    for tensor in (x, y):
        graph.set_tile_mapping(tensor, [0], [2])
    of_fields = (("x", x.variable), ("out", y.variable))
    run = {name: blocks(variable, 0, [32], [1], 1) for name, variable in of_fields}
    graph.add_vertices(compute_set, COPY, [2], run)
    rows = {name: blocks(variable, 32, [1, 4, 4], [0, 8, 1], 1) for name, variable in of_fields}
    graph.add_vertices(compute_set, COPY_BLOCK, [2], rows)
    compiled = compile_programs(graph, [Execute(compute_set)])
    # 16 vectors and four rows of 9 + 2, dealt to six workers; no worker has less than a row.
    assert compiled.steps[-1].cost.tile_cycles[2] == 11 + 6 * (20 + max(11, -(-(16 + 44) // 6)))
