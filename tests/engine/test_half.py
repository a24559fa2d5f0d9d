"""Half precision: values on the half grid, casts, and models that use both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilescope import engine
from tilescope.engine.graph import FLOAT16, FLOAT32
from tilescope.engine.host.kernels._rounding import rounder_of
from tilescope.engine.library.popops.elementwise.operations import binary, cast
from tilescope.engine.number.grid import HALF
from tilescope.engine.program import Sequence, StreamCopyIn, StreamCopyOut

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


def test_a_sum_in_half_is_rounded_after_every_operation() -> None:
    graph = engine.Graph(engine.load_machine("gc200", tiles_per_ipu=4))
    a = graph.add_variable("float16", (33,), "a")
    b = graph.add_variable("float16", (33,), "b")
    for tensor in (a, b):
        graph.map_linearly(tensor)
    program = Sequence("", [StreamCopyIn("a", a), StreamCopyIn("b", b)])
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
    program = Sequence("", [StreamCopyIn("x", x)])
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
