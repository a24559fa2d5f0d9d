"""RoiAlign in training: the gradient of averages is a call of the library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.oracle.naive_regions import bin_shares

from tilescope.engine import Engine, compile_model, load_machine, load_onnx, resolve_options
from tilescope.engine.ir import Model
from tilescope.engine.training import Loss, Sgd, for_training
from tilescope.engine.transform import transform

_SHAPE, _N_BOXES, _BINS = (2, 3, 6, 5), 4, (2, 3)
_WEIGHTS = np.random.default_rng(3).uniform(-1, 1, _SHAPE).astype(np.float32)
_MODES = {"aligned": "half_pixel", "whole": "output_half_pixel"}


def _model(path: Path, factor: str = "w", **attributes: Any) -> Model:
    """Return a model that trains a factor of the images, or another one."""
    node = helper.make_node(
        "RoiAlign",
        ["y", "boxes", "images"],
        ["z"],
        name="regions",
        output_height=_BINS[0],
        output_width=_BINS[1],
        **attributes,
    )
    nodes = [helper.make_node("Mul", ["x", "w" if factor == "w" else "x"], ["y"]), node]
    out, of_output = "z", (_N_BOXES, _SHAPE[1], *_BINS)
    weights = {"w": _WEIGHTS}
    if factor != "w":
        nodes.append(helper.make_node("Mul", ["z", "w"], ["out"]))
        weights, out = {"w": np.ones((1, 1, 1, 1), np.float32)}, "out"
    graph = helper.make_graph(
        nodes,
        "graph",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, _SHAPE),
            helper.make_tensor_value_info("boxes", TensorProto.FLOAT, (_N_BOXES, 4)),
            helper.make_tensor_value_info("images", TensorProto.INT64, (_N_BOXES,)),
        ],
        [helper.make_tensor_value_info(out, TensorProto.FLOAT, of_output)],
        [numpy_helper.from_array(w, name) for name, w in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    loss = Loss(kind="mse", reduction="sum")
    return for_training(load_onnx(path, trainable=["w"]), loss, Sgd(lr=0.1), anchors=["w"])


def _batch() -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    corners = random.uniform(-1, 6, (_N_BOXES, 2, 2))
    return {
        "x": random.uniform(-1, 1, _SHAPE).astype(np.float32),
        "boxes": np.concatenate([corners.min(1), corners.max(1)], 1).astype(np.float32),
        "images": np.array([1, 0, 1, 1]),
        "labels": np.zeros((_N_BOXES, _SHAPE[1], *_BINS), np.float32),
    }


def _operators(model: Model) -> list[str]:
    return [operation.operator.key for operation in transform(model).operations]


@pytest.mark.parametrize("mode", _MODES.values(), ids=_MODES)
def test_gradient_of_averages(mode: str, tmp_path: Path) -> None:
    attributes: dict[str, Any] = {"sampling_ratio": 2, "coordinate_transformation_mode": mode}
    model = _model(tmp_path / "graph.onnx", spatial_scale=0.75, **attributes)
    compiled = compile_model(model, load_machine("gc200", tiles_per_ipu=8), is_checked=True)
    batch = _batch()
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        engine.load()
        actual = compiled.run(engine, batch)["Gradient___w"]
    y = batch["x"] * _WEIGHTS
    of_y = np.zeros(_SHAPE)
    is_aligned = mode == "half_pixel"
    for box, image in zip(batch["boxes"].astype(np.float64) * 0.75, batch["images"], strict=True):
        x0, y0, x1, y1 = box.tolist()
        rows = bin_shares(y0, y1, _BINS[0], 2, _SHAPE[2], is_aligned=is_aligned)
        columns = bin_shares(x0, x1, _BINS[1], 2, _SHAPE[3], is_aligned=is_aligned)
        bins = np.einsum("cyx,hy,wx->chw", y[image], rows, columns)
        of_y[image] += 2 * np.einsum("chw,hy,wx->cyx", bins, rows, columns)
    np.testing.assert_allclose(actual.reshape(_SHAPE), of_y * batch["x"], rtol=1e-5, atol=1e-5)


def test_which_forms_have_a_gradient_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "graph.onnx"
    averages = _operators(_model(path, sampling_ratio=1))
    assert averages.count("region_gradient") == averages.count("averaged_regions") == 1
    largest = _operators(_model(path, sampling_ratio=1, mode="max"))
    untrained = _operators(_model(path, factor="of the result", sampling_ratio=1))
    for operators in (largest, untrained):
        assert not {"region_gradient", "averaged_regions", "RoiAlign"} & set(operators)
