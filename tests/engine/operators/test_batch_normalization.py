"""Batch normalisation of opset 7 with statistics of every element (spatial = 0)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.engine.operators.graphs import info, model_of

from tilescope.engine import Engine, compile_model, load_machine, load_onnx, resolve_options

NAMES = ("scale", "bias", "mean", "variance")


@pytest.mark.parametrize("are_inputs", [False, True])
@pytest.mark.parametrize("is_spatial", [True, False])
def test_statistics_of_channels_or_of_elements(
    are_inputs: bool, is_spatial: bool, tmp_path: Path
) -> None:
    random = np.random.default_rng(7)
    shape = (3, 4, 2, 5)
    local = shape[1:2] if is_spatial else shape[1:]
    x = random.standard_normal(shape).astype(np.float32)
    values = {name: random.uniform(0.5, 2, local).astype(np.float32) for name in NAMES}
    node = helper.make_node(
        "BatchNormalization", ["x", *NAMES], ["y"], epsilon=0.25, spatial=int(is_spatial)
    )
    inputs = [info("x", shape), *(info(name, local) for name in NAMES if are_inputs)]
    held = {} if are_inputs else values
    model = model_of([node], inputs, [info("y", shape)], held, opset=7)
    onnx.save(model, tmp_path / "model.onnx")
    compiled = compile_model(
        load_onnx(tmp_path / "model.onnx"), load_machine("gc200", tiles_per_ipu=4), is_checked=True
    )
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        actual = compiled.run(engine, {"x": x, **(values if are_inputs else {})})["y"]
    scale, bias, mean, variance = (
        value.reshape(1, *local, *(1,) * (len(shape) - 1 - len(local))) for value in values.values()
    )
    expected = scale * (x - mean) / np.sqrt(variance + 0.25) + bias
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
