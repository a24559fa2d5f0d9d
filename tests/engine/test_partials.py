"""The partials type of half products: how users set it, its cost and its accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tilescope import engine
from tilescope.engine import (
    Builder,
    CompiledModel,
    Engine,
    Graph,
    compile_model,
    load_machine,
    load_onnx,
)
from tilescope.engine.errors import BadGraph, BadModel, BadOption
from tilescope.engine.library.poplin.convolution import matmul
from tilescope.engine.options import resolve
from tilescope.engine.options.catalogue import CONVOLUTION_PARTIALS, MATMUL_PARTIALS
from tilescope.engine.options.partials import PartialsTypes
from tilescope.engine.program import Sequence, StreamCopyIn, StreamCopyOut

NO_OPTIONS = resolve(environ={})
HALF = PartialsTypes("half", "half")
RANDOM_SEED = 5


def save(path: Path, **attributes: Any) -> Path:
    """Save a convolution, a rectifier and a product in half; attributes go to the two products."""
    random = np.random.default_rng(RANDOM_SEED)
    weights = {
        "k": random.standard_normal((16, 16, 3, 3)) / 12,
        "g": random.standard_normal((16 * 36, 24)) / 24,
    }
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["a"], name="conv", **attributes),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Flatten", ["b"], ["c"], name="flat"),
        helper.make_node("MatMul", ["c", "g"], ["y"], name="product", **attributes),
    ]
    graph = helper.make_graph(
        nodes,
        "half",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [1, 16, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [1, 24])],
        [numpy_helper.from_array(v.astype(np.float16), name) for name, v in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return path


def partial_types(made: CompiledModel) -> dict[str, str]:
    """Return by product the type that its vertices write."""
    return {
        compute_set.name.split("/")[0]: compute_set.batches[0].fields["out"].variable.dtype.name
        for compute_set in made.executable.graph.compute_sets
        if compute_set.name.endswith("convolve")
    }


@pytest.mark.parametrize(
    ("partials", "expected"),
    [
        (None, {"conv": "float32", "product": "float32"}),
        (HALF, {"conv": "float16", "product": "float16"}),
        (PartialsTypes(matmul="half"), {"conv": "float32", "product": "float16"}),
    ],
)
def test_vertices_write_the_requested_type(
    tmp_path: Path, partials: PartialsTypes | None, expected: dict[str, str]
) -> None:
    model = load_onnx(save(tmp_path / "half.onnx"))
    compiled = compile_model(model, load_machine("gc200", tiles_per_ipu=32), partials=partials)
    assert partial_types(compiled) == expected


@pytest.mark.parametrize("name", ["half", "HALF"])
def test_a_node_attribute_overrides_the_option(tmp_path: Path, name: str) -> None:
    model = load_onnx(save(tmp_path / "half.onnx", __partials_type=name))
    compiled = compile_model(model, load_machine("gc200", tiles_per_ipu=32))
    assert partial_types(compiled) == {"conv": "float16", "product": "float16"}


def test_another_type_of_a_node_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "half.onnx", __partials_type="double")
    with pytest.raises(BadModel, match=r"'conv' \(Conv\).*must be float or half, got 'double'"):
        load_onnx(path)


def test_options_say_it_for_convolutions_and_products() -> None:
    options = resolve(code={CONVOLUTION_PARTIALS: "half"}, environ={})
    assert PartialsTypes.of(options) == PartialsTypes("half", "float")
    assert PartialsTypes.of(NO_OPTIONS) == PartialsTypes("float", "float")
    with pytest.raises(
        BadOption, match=r"expected float or half for '.*matmulOptions.partialsType'"
    ):
        resolve(code={MATMUL_PARTIALS: "float16"}, environ={})
    with pytest.raises(BadOption, match="must be float or half, got 'single'"):
        PartialsTypes().with_own("single")


@pytest.mark.parametrize("machine", ["gc2", "gc200", "c600"])
@pytest.mark.parametrize("partials", [None, HALF])
def test_a_half_model_agrees_with_onnxruntime(
    tmp_path: Path, machine: str, partials: PartialsTypes | None
) -> None:
    path = save(tmp_path / "half.onnx")
    x = np.random.default_rng(1).standard_normal((1, 16, 8, 8)).astype(np.float16)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    expected = session.run(None, {"x": x})[0]
    compiled = compile_model(
        load_onnx(path), load_machine(machine, tiles_per_ipu=64), partials=partials
    )
    with Engine(compiled.executable, NO_OPTIONS) as device:
        actual = compiled.run(device, {"x": x})["y"]
    assert actual.dtype == np.float16
    np.testing.assert_allclose(
        actual.astype(np.float64), expected.astype(np.float64), rtol=4e-3, atol=4e-3
    )


def product(partials_type: str | None, dtype: str = "float16") -> tuple[Graph, NDArray[Any], Any]:
    """Return the graph, the result and the exact result of a long product over many tiles."""
    graph = Graph(load_machine("gc200", tiles_per_ipu=64))
    a = graph.add_variable(dtype, (1, 4, 4096), "a")
    b = graph.add_variable(dtype, (1, 4096, 16), "b")
    program = Sequence("", [StreamCopyIn("a", a), StreamCopyIn("b", b)])
    for tensor in (a, b):
        graph.map_linearly(tensor)
    out = matmul(Builder(graph, program), a, b, partials_type=partials_type)
    program.add(StreamCopyOut(out, "out"))
    random = np.random.default_rng(2)
    left, right = random.random(a.shape).astype(dtype), random.random(b.shape).astype(dtype)
    with Engine(engine.compile_programs(graph, [program], is_checked=True), NO_OPTIONS) as device:
        device.connect_stream("a", left)
        device.connect_stream("b", right)
        device.run()
        output = device.output("out")
    assert output.dtype == np.dtype(dtype)
    return graph, output.astype(np.float64), left.astype(np.float64) @ right.astype(np.float64)


def test_sums_in_float_are_rounded_once_and_sums_in_half_at_every_part() -> None:
    errors = {}
    for name in ("float", "half"):
        _, actual, exact = product(name)
        errors[name] = np.abs(actual - exact).max()
        nearest = np.abs(exact.astype(np.float16).astype(np.float64) - exact).max()
        assert errors[name] <= (1.01 if name == "float" else 16) * nearest
    assert errors["float"] < errors["half"]


def test_partial_sums_in_float_take_four_bytes() -> None:
    for name, expected in (("float", 4), ("half", 2), (None, 4)):
        graph, _, _ = product(name)
        (partials,) = (v for v in graph.variables if v.name.endswith("partials"))
        assert partials.dtype.n_bytes == expected


def test_floats_are_always_accumulated_in_float() -> None:
    graph, actual, exact = product("half", "float32")
    assert {v.dtype.name for v in graph.variables} == {"float32"}
    np.testing.assert_allclose(actual, exact, rtol=1e-5)


def test_float8_is_not_added_up_in_float() -> None:
    graph = Graph(load_machine("c600", tiles_per_ipu=4))
    a = graph.add_variable("float8_143", (1, 4, 32), "a")
    graph.map_linearly(a)
    builder = Builder(graph, Sequence(""))
    with pytest.raises(BadGraph, match=r"partial sums of float8_143 are half"):
        matmul(builder, a, np.ones((1, 32, 4), np.float32), partials_type="float")


@pytest.mark.parametrize("other", ["float16", "int32"])
def test_operands_of_two_types_are_not_multiplied(other: str) -> None:
    graph = Graph(load_machine("gc200", tiles_per_ipu=2))
    a = graph.add_variable("float32", (1, 4, 8), "a")
    b = graph.add_variable(other, (1, 8, 4), "b")
    for tensor in (a, b):
        graph.map_linearly(tensor)
    with pytest.raises(BadGraph, match=f"cannot multiply float32 by {other}; cast them"):
        matmul(Builder(graph, Sequence("")), a, b)


@pytest.mark.parametrize(("inner", "dtype"), [(16, "float16"), (40, "float32")])
def test_halves_that_are_summed_at_once_are_rounded_once(inner: int, dtype: str) -> None:
    random, rows, columns = np.random.default_rng(RANDOM_SEED), 24, 48
    a, b = (
        random.standard_normal(shape).astype(np.float16)
        for shape in ((1, rows, inner), (1, inner, columns))
    )
    builder = Builder(Graph(load_machine("gc200", tiles_per_ipu=8)), Sequence("main"))
    tensors = []
    for name, array in (("a", a), ("b", b)):
        tensor = builder.graph.add_variable("float16", array.shape, name)
        builder.graph.map_linearly(tensor)
        builder.sequence.add(StreamCopyIn(name, tensor))
        tensors.append(tensor)
    out = matmul(builder, tensors[0], tensors[1])
    builder.sequence.add(StreamCopyOut(out, "out"))
    (plan,) = (plan for plan in builder.plans if plan.operation == "matmul")
    assert plan.partial_dtype == dtype
    executable = engine.compile_programs(builder.graph, [builder.sequence], plans=builder.plans)
    with Engine(executable, NO_OPTIONS) as run:
        run.connect_stream("a", a)
        run.connect_stream("b", b)
        run.run(0)
        actual = run.output("out").reshape(rows, columns)
    exact = a[0].astype(np.float64) @ b[0].astype(np.float64)
    # Half a unit in the last place, and what sums of floats lose.
    np.testing.assert_allclose(actual, exact, rtol=2**-11 + 1e-5, atol=1e-5)
