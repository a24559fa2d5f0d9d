"""Catalogue models compared with their stored outputs and onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tilescope.engine import (
    CompiledModel,
    Engine,
    Machine,
    compile_model,
    load_machine,
    load_onnx,
    resolve_options,
)
from tilescope.engine.models import companion_paths

GetModel = Callable[[str], Path]


def run(
    path: Path,
    machine: Machine,
    inputs: Mapping[str, np.ndarray] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> tuple[CompiledModel, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the compiled model, its inputs (random if not given) and its outputs."""
    compiled = compile_model(load_onnx(path, shapes), machine, is_checked=True)
    value = dict(compiled.random_inputs(0) if inputs is None else inputs)
    with Engine(compiled.executable, resolve_options()) as engine:
        return compiled, value, compiled.run(engine, value)


def onnxruntime_outputs(path: Path, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def compare(found: Mapping[str, np.ndarray], expected: Mapping[str, Any], tolerance: float) -> None:
    assert set(found) == set(expected)
    for name, values in expected.items():
        assert found[name].shape == values.shape
        np.testing.assert_allclose(found[name], values, rtol=tolerance, atol=tolerance)


def stored(path: Path) -> np.ndarray:
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(tensor)


def test_mnist_gives_its_stored_output(catalogue_model: GetModel) -> None:
    path = catalogue_model("mnist-8")
    companions = companion_paths("mnist-8")
    x = stored(companions["test_data_set_0/input_0.pb"])
    expected = stored(companions["test_data_set_0/output_0.pb"])
    _, _, outputs = run(path, load_machine("gc200"), {"Input3": x})
    np.testing.assert_allclose(outputs["Plus214_Output_0"], expected, rtol=1e-4)
    assert outputs["Plus214_Output_0"].argmax() == expected.argmax()


@pytest.mark.parametrize("name", ["oww-alexa", "pulsevad-2k"])
def test_model_agrees_with_onnxruntime(catalogue_model: GetModel, name: str) -> None:
    path = catalogue_model(name)
    _, inputs, outputs = run(path, load_machine("gc200"))
    compare(outputs, onnxruntime_outputs(path, inputs), 1e-5)


@pytest.mark.parametrize("machine", ["gc2", "bow", "c600"])
def test_machines_agree(catalogue_model: GetModel, machine: str) -> None:
    path = catalogue_model("pulsevad-2k")
    compiled, inputs, outputs = run(path, load_machine(machine))
    assert compiled.executable.overfull_tiles.size == 0
    compare(outputs, onnxruntime_outputs(path, inputs), 1e-5)


@pytest.mark.parametrize(("n_ipus", "tiles"), [(1, 64), (2, 32), (2, None), (1, 7)])
def test_tiles_and_ipus_change_no_value(
    catalogue_model: GetModel, n_ipus: int, tiles: int | None
) -> None:
    path = catalogue_model("mnist-8")
    machine = load_machine("gc200", n_ipus=n_ipus, tiles_per_ipu=tiles)
    compiled, inputs, outputs = run(path, machine)
    compare(outputs, onnxruntime_outputs(path, inputs), 1e-5)
    crossing = sum(int(step.cost.link_in_bytes.sum()) for step in compiled.executable.steps)
    # A few tiles are all in use; one of two whole IPUs may be idle.
    if tiles is not None:
        assert (crossing > 0) == (n_ipus == 2)


def test_a_batch_by_shape(catalogue_model: GetModel) -> None:
    """A model with a dynamic first dimension runs with one row or the requested number."""
    path = catalogue_model("pulsevad-2k")
    name = "log_mel"
    item, inputs, _ = run(path, load_machine("gc200", tiles_per_ipu=64))
    assert item.model.inputs[0].shape[0] == 1
    shape = (3, *inputs[name].shape[1:])
    _, inputs, outputs = run(path, load_machine("gc200", tiles_per_ipu=64), shapes={name: shape})
    assert inputs[name].shape == shape
    compare(outputs, onnxruntime_outputs(path, inputs), 1e-5)
