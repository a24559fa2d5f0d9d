"""Casts to float8 and bool and back in a model, compared with onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.engine.operators.graphs import info, model_of

from tilescope.engine import Engine, compile_model, load_machine, load_onnx, resolve_options
from tilescope.engine.errors import BadGraph, BadModel

FORMATS = [TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2FNUZ]
SHAPE = [4, 9]


def save(
    path: Path, to: int, *, back: bool = True, constant: Any = None, **attributes: Any
) -> Path:
    """Save a cast to float8 and back; with `constant`, the constant is cast and added."""
    x = "c" if constant is not None else "x"
    nodes = [helper.make_node("Cast", [x], ["q"], name="down", to=to, **attributes)]
    if back:
        nodes.append(helper.make_node("Cast", ["q"], ["u"], name="up", to=TensorProto.FLOAT))
    if constant is not None:
        nodes.append(helper.make_node("Add", ["x", "u"], ["y"], name="sum"))
    else:
        nodes[-1].output[0] = "y"
    graph = helper.make_graph(
        nodes,
        "casts",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT if back else to, SHAPE)],
        [numpy_helper.from_array(constant, "c")] if constant is not None else [],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.save(model, path)
    return path


def both(path: Path, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    compiled = compile_model(load_onnx(path), load_machine("c600", tiles_per_ipu=8))
    with Engine(compiled.executable, resolve_options(environ={})) as device:
        actual = compiled.run(device, {"x": x})["y"]
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return actual, np.asarray(session.run(None, {"x": x})[0])


@pytest.mark.parametrize("to", FORMATS)
def test_a_cast_and_back_gives_what_onnxruntime_gives(tmp_path: Path, to: int) -> None:
    x = np.random.default_rng(0).uniform(-300, 300, SHAPE).astype(np.float32)
    actual, expected = both(save(tmp_path / "m.onnx", to), x)
    assert np.array_equal(actual, expected)


@pytest.mark.parametrize("to", FORMATS)
def test_constants_are_folded_as_the_machine_casts(tmp_path: Path, to: int) -> None:
    constant = np.random.default_rng(1).uniform(-1e5, 1e5, SHAPE).astype(np.float32)
    actual, expected = both(save(tmp_path / "m.onnx", to, constant=constant), np.zeros(SHAPE, "f4"))
    assert np.array_equal(actual, expected)
    assert np.abs(actual).max() in (240, 57344)


def test_unsupported_float8_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    with pytest.raises(BadModel, match=r"'down' \(Cast\).*set saturate to 1"):
        load_onnx(save(path, FORMATS[0], saturate=0))
    with pytest.raises(BadModel, match=r"Output 'y' is float8_e4m3fnuz.*cast it to float16"):
        load_onnx(save(path, FORMATS[0], back=False))
    with pytest.raises(BadModel, match=r"'down' makes float8_e4m3fn, which is not supported"):
        load_onnx(save(path, TensorProto.FLOAT8E4M3FN))
    with pytest.raises(BadGraph, match="gc200 has no float8"):
        compile_model(load_onnx(save(path, FORMATS[0])), load_machine("gc200", tiles_per_ipu=2))


def test_a_model_s_product_takes_no_float8(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["q"], name="down", to=FORMATS[0]),
        helper.make_node("MatMul", ["q", "q"], ["p"], name="product"),
        helper.make_node("Cast", ["p"], ["y"], name="up", to=TensorProto.FLOAT),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in "xy"]
    graph = helper.make_graph(nodes, "product", ends[:1], ends[1:])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9),
        tmp_path / "m.onnx",
    )
    with pytest.raises(BadModel, match=r"'product'.*is float8_e4m3fnuz, and a model's products"):
        compile_model(load_onnx(tmp_path / "m.onnx"), load_machine("c600", tiles_per_ipu=2))


@pytest.mark.parametrize("back", [True, False])
def test_casts_to_bool_and_back_are_as_onnxruntimes(tmp_path: Path, back: bool) -> None:
    x = np.resize(np.array([0, 0.5, -0.25, 1, 256, np.inf, np.nan], np.float32), SHAPE)
    actual, expected = both(save(tmp_path / "m.onnx", TensorProto.BOOL, back=back), x)
    assert actual.dtype == expected.dtype
    assert np.array_equal(actual, expected)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("float32", "int32"),
        ("int32", "float32"),
        ("uint32", "float32"),
        ("int8", "uint8"),
        ("uint16", "int16"),
    ],
)
def test_bits_are_kept(tmp_path: Path, source: str, target: str) -> None:
    size = np.dtype(source).itemsize
    bits = np.random.default_rng(1).integers(0, 1 << (8 * size), (6, 8)).astype(f"uint{8 * size}")
    if size == 4:  # no bits of infinity or NaN, which a machine may change
        bits[bits & 0x7F800000 == 0x7F800000] = 0
    x = bits.view(source)
    kinds = [helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) for dtype in (source, target)]
    nodes = [
        helper.make_node("Transpose", ["x"], ["turned"]),
        helper.make_node("BitCast", ["turned"], ["y"], to=kinds[1]),
    ]
    model = model_of(nodes, [info("x", x.shape, kinds[0])], [info("y", [8, 6], kinds[1])], opset=26)
    model.ir_version = 13
    path = tmp_path / "bits.onnx"
    onnx.save(model, path)
    compiled = compile_model(load_onnx(path), load_machine("gc200", tiles_per_ipu=4))
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        actual = compiled.run(engine, {"x": x})["y"]
    assert np.array_equal(actual, np.ascontiguousarray(x.T).view(target))


def test_bits_of_another_size_are_refused(tmp_path: Path) -> None:
    node = helper.make_node("BitCast", ["x"], ["y"], name="bits", to=TensorProto.INT16)
    model = model_of([node], [info("x", [3])], [info("y", [3], TensorProto.INT16)], opset=26)
    model.ir_version = 13
    onnx.save(model, tmp_path / "bits.onnx")
    with pytest.raises(BadModel, match="takes float32 as int16: expected types of one size"):
        load_onnx(tmp_path / "bits.onnx")


@pytest.mark.parametrize(("machine", "n_casts"), [("c600", 2), ("gc200", 0)])
@pytest.mark.parametrize("to", FORMATS)
def test_weights_in_float8_are_widened_where_they_are_used(
    tmp_path: Path, to: int, machine: str, n_casts: int
) -> None:
    """They stay in float8 on a device that has it: a product and a sum cast them."""
    random = np.random.default_rng(0)
    kind = np.dtype(helper.tensor_dtype_to_np_dtype(to))
    weights = {
        name: random.uniform(-1, 1, shape).astype(np.float32).astype(kind)
        for name, shape in (("w", (32, 24)), ("b", (24,)))
    }
    nodes = [
        *(helper.make_node("Cast", [f"{n}8"], [n], to=TensorProto.FLOAT) for n in weights),
        helper.make_node("MatMul", ["x", "w"], ["p"], name="product"),
        helper.make_node("Add", ["p", "b"], ["y"], name="sum"),
    ]
    graph = helper.make_graph(
        nodes,
        "kept",
        [info("x", [16, 32])],
        [info("y", [16, 24])],
        [
            helper.make_tensor(f"{name}8", to, array.shape, array.tobytes(), raw=True)
            for name, array in weights.items()
        ],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9),
        tmp_path / "m.onnx",
    )
    compiled = compile_model(load_onnx(tmp_path / "m.onnx"), load_machine(machine, tiles_per_ipu=8))
    codelets = [
        batch.codelet.name
        for step in compiled.executable.steps
        if step.compute_set is not None
        for batch in step.compute_set.batches
    ]
    assert sum(name.startswith("popops::Cast") for name in codelets) == n_casts
    x = random.uniform(-1, 1, (16, 32)).astype(np.float32)
    with Engine(compiled.executable, resolve_options(environ={})) as device:
        actual = compiled.run(device, {"x": x})["y"]
    w, b = (array.astype(np.float32) for array in weights.values())
    np.testing.assert_allclose(actual, x @ w + b, rtol=1e-5, atol=1e-5)
