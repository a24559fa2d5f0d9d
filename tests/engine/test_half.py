"""Half precision: values on the half grid, casts, and models that use both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilescope import engine
from tilescope.engine.codelets.poplin.cast_partials import CAST_PARTIALS
from tilescope.engine.codelets.popnn.pool import MAX_POOL
from tilescope.engine.codelets.popops.elementwise.copy import CAST_BLOCK, COPY_BLOCK
from tilescope.engine.codelets.popops.elementwise.operations import UNARY
from tilescope.engine.codelets.popops.elementwise.transpose import TRANSPOSE
from tilescope.engine.codelets.popops.elementwise.vector_inner import VECTOR_INNER_IN_PLACE
from tilescope.engine.codelets.popops.slicing.multi_slice import MULTI_SLICE
from tilescope.engine.execute.join import Blocks, join
from tilescope.engine.execute.launcher import launcher_of, rounded_fields
from tilescope.engine.graph import FLOAT16, FLOAT32, INT32
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.host.jit.tables import numbers_of
from tilescope.engine.host.kernels._rounding import rounder_of
from tilescope.engine.library.popops.elementwise.operations import binary, cast
from tilescope.engine.number.grid import HALF
from tilescope.engine.program import Sequence as Steps
from tilescope.engine.program import StreamCopyIn, StreamCopyOut

NO_OPTIONS = engine.resolve_options(environ={})


def rounded(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Round a matrix in place with the compiled kernel, and return it."""
    memory = values.copy().reshape(-1)
    rows, columns = values.shape
    region = np.array([0, rows, columns, columns, 1])
    rounder_of(HALF)(memory.ctypes.data, region.ctypes.data, 2)
    return memory.reshape(values.shape)


def test_rounding_is_that_of_numpy_for_every_half_and_what_lies_between() -> None:
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        up = np.nextafter(halves, np.float32(np.inf))
        middle = (halves + np.roll(halves, -1)) / 2
        values = np.stack([halves, up, -up, middle.astype(np.float32)])
        expected = values.astype(np.float16).astype(np.float32)
    actual = rounded(values)
    assert np.array_equal(np.isnan(actual), np.isnan(expected))
    keep = ~np.isnan(expected)
    assert np.array_equal(actual[keep], expected[keep])


@pytest.mark.parametrize("seed", range(20))
def test_every_element_of_a_region_is_rounded_and_no_other(seed: int) -> None:
    random = np.random.default_rng(seed)
    for n_dims in range(1, 7):
        size = random.integers(1, (70, 20, 6, 4, 3, 3)[n_dims - 1] + 1, n_dims)
        stride, apart = np.zeros(n_dims, np.int64), int(random.integers(1, 3))
        for d in random.permutation(n_dims):
            stride[d] = apart
            apart = apart * size[d] + random.integers(0, 2) * random.integers(0, 5)
        memory = random.standard_normal(apart + 9).astype(np.float32)
        expected, first = memory.copy(), int(random.integers(0, 9))
        view = np.lib.stride_tricks.as_strided(expected[first:], size, stride * 4)
        view[...] = view.astype(np.float16)
        region = np.array([first, *size, *stride])
        rounder_of(HALF)(memory.ctypes.data, region.ctypes.data, n_dims)
        assert np.array_equal(memory, expected), (size, stride)


def test_only_numbers_that_are_computed_are_rounded() -> None:
    halves, mixed = [FLOAT16] * 2, [FLOAT32, FLOAT16]
    for codelet in (COPY_BLOCK, TRANSPOSE, MAX_POOL, UNARY["relu"]):
        assert rounded_fields(codelet, halves) == ()
    assert rounded_fields(MAX_POOL, mixed) == (("out", HALF),)
    assert rounded_fields(CAST_BLOCK, mixed) == (("out", HALF),)
    assert rounded_fields(UNARY["exp"], halves) == (("out", HALF),)
    assert rounded_fields(MULTI_SLICE, [FLOAT16, INT32, FLOAT16]) == ()


def test_partial_sums_and_biases_of_adjoining_tiles_are_one_piece() -> None:
    # Six vertices with two rows each of a field [2, 6, 8] and [row, 8] of partial sums.
    n = 6
    row = np.arange(n) * 16
    six = (row, np.full((n, 6), [1, 1, 1, 1, 2, 8]), np.full((n, 6), [96, 96, 96, 96, 8, 1]))
    assert _pieces(CAST_PARTIALS, [six, six]) == [[[1, 1, 1, 1, 12, 8]]] * 2
    # Three vertices per plane; both planes have the same row of biases.
    three = (row, np.full((n, 3), [1, 2, 8]), np.full((n, 3), [0, 8, 1]))
    one_row = (np.zeros(n), np.full((n, 2), [1, 8]), np.full((n, 2), [0, 1]))
    assert _pieces(VECTOR_INNER_IN_PLACE["add"], [three, one_row])[0] == [[1, 12, 8]]


@pytest.mark.parametrize("n_rows", [1, 2])
def test_rows_serve_the_planes_that_are_joined_in_turn(n_rows: int) -> None:
    # Planes are apart, so that they are joined as planes: two vertices with the same rows.
    a = (np.array([0, 100]), np.full((2, 3), [2, 2, 4]), np.full((2, 3), [50, 4, 1]))
    b = (np.full(2, 300), np.full((2, 2), [n_rows, 4]), np.full((2, 2), [10, 1]))
    assert _pieces(VECTOR_INNER_IN_PLACE["add"], [a, b]) == [[[4, 2, 4]], [[n_rows, 4]]]
    memory = np.arange(400, dtype=np.float32)
    expected = memory.copy()
    for plane in range(4):
        first = 300 + plane % n_rows * 10
        rows = expected[50 * plane : 50 * plane + 8].reshape(2, 4)
        rows += memory[first : first + 4]
    places = np.array([[0, 4, 2, 4, 50, 4, 1, 300, n_rows, 4, 10, 1]])
    launch = launcher_of(VECTOR_INNER_IN_PLACE["add"], ("float32", "float32"))
    table = np.array(numbers_of([memory, memory, places]), np.int64)
    launch(0, 1, table.ctypes.data)
    assert np.array_equal(memory, expected)


def _pieces(codelet: Codelet, fields: Sequence[Sequence[NDArray[Any]]]) -> list[Any]:
    """Return the sizes of the pieces of a batch, by field."""
    start, size, stride = (
        [np.asarray(field[part], np.int64) for field in fields] for part in range(3)
    )
    work = np.asarray(sum(part.prod(axis=1) for part in size), np.int64)
    return [part.tolist() for part in join(codelet, Blocks(start, size, stride, [], work)).size]


def test_a_sum_in_half_is_rounded_after_every_operation() -> None:
    graph = engine.Graph(engine.load_machine("gc200", tiles_per_ipu=4))
    a = graph.add_variable("float16", (33,), "a")
    b = graph.add_variable("float16", (33,), "b")
    for tensor in (a, b):
        graph.map_linearly(tensor)
    program = Steps("", [StreamCopyIn("a", a), StreamCopyIn("b", b)])
    builder = engine.Builder(graph, program)
    total = binary(builder, "add", binary(builder, "multiply", a, b, (33,)), b, (33,))
    program.add(StreamCopyOut(total, "total"))
    random = np.random.default_rng(0)
    left, right = (random.standard_normal(33).astype(np.float16) for _ in range(2))
    with engine.Engine(engine.compile_programs(graph, [program]), NO_OPTIONS) as device:
        device.connect_stream("a", left)
        device.connect_stream("b", right)
        device.run()
        output = device.output("total")
    assert output.dtype == np.float16
    assert np.array_equal(output, left * right + right)


@pytest.mark.parametrize(("source", "target"), [("float32", FLOAT16), ("float16", FLOAT32)])
def test_a_cast_gives_what_numpy_gives(source: str, target: object) -> None:
    graph = engine.Graph(engine.load_machine("gc200", tiles_per_ipu=4))
    x = graph.add_variable(source, (5, 7), "x")
    graph.map_linearly(x)
    program = Steps("", [StreamCopyIn("x", x)])
    out = cast(engine.Builder(graph, program), x.dim_shuffle(1, 0), target)
    program.add(StreamCopyOut(out, "out"))
    values = np.random.default_rng(1).standard_normal((5, 7)).astype(source)
    with engine.Engine(engine.compile_programs(graph, [program]), NO_OPTIONS) as device:
        device.connect_stream("x", values)
        device.run()
        assert np.array_equal(device.output("out"), values.T.astype(str(target)))


def test_a_half_model_with_casts_at_its_ends_agrees_with_numpy(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    weights = random.standard_normal((24, 10)).astype(np.float16)
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("MatMul", ["h", "w"], ["y"]),
        helper.make_node("Relu", ["y"], ["z"]),
        helper.make_node("Cast", ["z"], ["out"], to=TensorProto.FLOAT),
    ]
    graph = helper.make_graph(
        nodes,
        "half",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 24])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [3, 10])],
        [numpy_helper.from_array(weights, "w")],
    )
    path = tmp_path / "half.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    model = engine.load_onnx(path)
    compiled = engine.compile_model(model, engine.load_machine("gc200", tiles_per_ipu=16))
    values = random.standard_normal((3, 24)).astype(np.float32)
    with engine.Engine(compiled.executable, NO_OPTIONS) as device:
        actual = compiled.run(device, {"x": values})["out"]
    exact = np.maximum(values.astype(np.float16).astype(np.float64) @ weights.astype(np.float64), 0)
    assert actual.dtype == np.float32
    assert np.array_equal(actual, actual.astype(np.float16).astype(np.float32))
    # Partial sums and their sum are each rounded to 11 bits.
    assert np.allclose(actual, exact, rtol=2**-9, atol=2**-7)
