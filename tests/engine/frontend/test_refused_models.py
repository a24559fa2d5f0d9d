"""Invalid models: rejected with a sentence that names the place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilescope.engine import Engine
from tilescope.engine.errors import BadModel, OutOfTileMemory
from tilescope.engine.frontend.onnx import load_onnx
from tilescope.engine.machine import load_machine
from tilescope.engine.session.compilation import compile_model

IMAGE = (1, 3, 8, 8)
KERNEL = np.ones((2, 3, 3, 3), np.float32)


def _saved(
    path: Path,
    op_type: str,
    shape: Sequence[int | str],
    weights: Sequence[np.ndarray] = (),
    *,
    element_type: int = TensorProto.FLOAT,
    **attributes: Any,
) -> onnx.ModelProto:
    """Save a model of one node on ``x`` and weights, and return it."""
    names = [f"w{i}" for i in range(len(weights))]
    graph = helper.make_graph(
        [helper.make_node(op_type, ["x", *names], ["y"], name="node", **attributes)],
        "one",
        [helper.make_tensor_value_info("x", element_type, shape)],
        [helper.make_tensor_value_info("y", element_type, [None] * len(shape))],
        [numpy_helper.from_array(array, name) for array, name in zip(weights, names, strict=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return model


def _refused(path: Path) -> str:
    with pytest.raises(BadModel) as refused:
        compile_model(load_onnx(path), load_machine("gc200", tiles_per_ipu=4))
    return str(refused.value)


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"strides": [0, 1]}, "expected 2 numbers of at least 1 for strides, got [0, 1]"),
        ({"strides": [1]}, "expected 2 numbers of at least 1 for strides, got [1]"),
        ({"dilations": [1, -1]}, "for dilations, got [1, -1]"),
        ({"pads": [1, 1, 1]}, "expected 4 numbers of at least 0 for pads, got [1, 1, 1]"),
        (
            {"kernel_shape": [0, 3]},
            "do not fit an input of shape (1, 3, 8, 8) and a kernel_shape of",
        ),
        ({"auto_pad": "SOMEHOW"}, "got 'SOMEHOW'"),
    ],
)
def test_an_invalid_window(tmp_path: Path, attributes: dict[str, Any], words: str) -> None:
    path = tmp_path / "conv.onnx"
    _saved(path, "Conv", IMAGE, [KERNEL], **attributes)
    text = _refused(path)
    assert "'node' (Conv)" in text
    assert words in text


def test_a_permutation_of_missing_dimensions(tmp_path: Path) -> None:
    path = tmp_path / "transpose.onnx"
    _saved(path, "Transpose", (4, 4), perm=[0, 5])
    assert "(0, 5) does not order the 2 dimensions" in _refused(path)


def test_batches_of_matrices_that_do_not_broadcast(tmp_path: Path) -> None:
    path = tmp_path / "product.onnx"
    _saved(path, "MatMul", (2, 3, 4), [np.ones((3, 4, 2), np.float32)])
    assert "cannot multiply" in _refused(path)


@pytest.mark.parametrize("kind", ["INT32", "INT64", "UINT8", "BOOL"])
def test_products_of_integers(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "product.onnx"
    element_type = getattr(TensorProto, kind)
    weights = np.ones((4, 4), helper.tensor_dtype_to_np_dtype(element_type))
    _saved(path, "MatMul", (4, 4), [weights], element_type=element_type)
    text = _refused(path)
    assert "'node' (MatMul)" in text
    assert "floats only" in text


@pytest.mark.parametrize("kind", [0, 99])
def test_element_types_that_onnx_does_not_have(tmp_path: Path, kind: int) -> None:
    path = tmp_path / "types.onnx"
    model = _saved(path, "Relu", (4,))
    model.graph.input[0].type.tensor_type.elem_type = kind
    onnx.save(model, path)
    assert f"Input 'x' has element type {kind}" in _refused(path)


def test_an_initializer_of_a_type_that_onnx_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "types.onnx"
    model = _saved(path, "Add", (4,), [np.ones(4, np.float32)])
    model.graph.initializer[0].data_type = 99
    onnx.save(model, path)
    assert "Initializer 'w0' has element type 99" in _refused(path)


@pytest.mark.parametrize("location", ["absent.bin", "../outside.bin", "/etc/hostname"])
def test_weights_in_missing_or_outside_files(tmp_path: Path, location: str) -> None:
    path = tmp_path / "external.onnx"
    model = _saved(path, "Add", (4,), [np.ones(4, np.float32)])
    weights = model.graph.initializer[0]
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value=location)
    path.write_bytes(model.SerializeToString())
    assert "external weights that are not readable" in _refused(path)


def test_an_opset_of_the_future(tmp_path: Path) -> None:
    path = tmp_path / "future.onnx"
    model = _saved(path, "Relu", (4,))
    model.opset_import[0].version = 99
    onnx.save(model, path)
    assert "opset 99" in _refused(path)


@pytest.mark.parametrize("shape", [(0, 3), (4, 0, 3), ("N", 0)])
def test_an_input_of_size_0_holds_nothing(tmp_path: Path, shape: tuple[Any, ...]) -> None:
    path = tmp_path / "empty.onnx"
    _saved(path, "Relu", shape)
    sizes = tuple(1 if size == "N" else size for size in shape)
    model = load_onnx(path)
    assert model.inputs[0].shape == sizes
    compiled = compile_model(model, load_machine("gc200", tiles_per_ipu=2))
    with Engine(compiled.executable) as engine:
        outputs = compiled.run(engine, {"x": np.zeros(sizes, np.float32)})
    assert [array.shape for array in outputs.values()] == [sizes]


def test_an_open_first_dimension_becomes_1_with_a_notice(tmp_path: Path) -> None:
    path = tmp_path / "open.onnx"
    _saved(path, "Relu", ("N", 3))
    model = load_onnx(path)
    assert (model.inputs[0].shape, model.assumed_ones) == ((1, 3), ("x",))
    assert load_onnx(path, {"x": (2, 3)}).assumed_ones == ()


@pytest.mark.parametrize(
    ("declared", "is_said"),
    [
        ((4, 3), False),
        (("N", "M"), False),
        ((4, 5), True),
        ((12,), True),
        ((), True),
    ],
)
def test_an_output_that_is_declared_otherwise_than_it_comes(
    tmp_path: Path, declared: tuple[Any, ...], is_said: bool
) -> None:
    """Onnxruntime warns of it and returns what it computes, and so do we."""
    path = tmp_path / "declared.onnx"
    model = _saved(path, "Relu", (4, 3))
    model.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("y", TensorProto.FLOAT, list(declared))
    )
    onnx.save(model, path)
    built = load_onnx(path)
    assert built.outputs[0][1].shape == (4, 3)
    text = [notice.message for notice in built.notices]
    assert [notice.code for notice in built.notices] == ["output_shape"] * is_said
    assert all("Output 'y' is declared as" in item and "(4, 3)" in item for item in text)


def test_an_output_that_needs_another_batch_than_the_assumed_one(tmp_path: Path) -> None:
    path = tmp_path / "batch.onnx"
    model = _saved(path, "Relu", ("N", 3))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 3]))
    onnx.save(model, path)
    (notice,) = load_onnx(path).notices
    assert "first dimension of 'x' was taken as 1; --shape says another" in notice.message
    built = load_onnx(path, {"x": (8, 3)})
    assert (built.outputs[0][1].shape, built.notices) == ((8, 3), ())


@pytest.mark.parametrize("sizes", [(10**7, 10**6), (2**62, 2**62)])
def test_a_variable_beyond_every_machine_is_refused_at_once(
    tmp_path: Path, sizes: tuple[int, int]
) -> None:
    path = tmp_path / "huge.onnx"
    _saved(path, "Relu", sizes)
    with pytest.raises(OutOfTileMemory, match=r"'x'.* takes .* bytes"):
        compile_model(load_onnx(path), load_machine("gc200", tiles_per_ipu=4))
