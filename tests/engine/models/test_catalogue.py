from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import numpy as np
import pytest

from tilescope.engine.models import all_models, companion_paths, find


@pytest.mark.parametrize("name", sorted(all_models()))
def test_every_entry_is_pinned_and_stays_in_its_folder(name: str) -> None:
    model = find(name)
    hashes = [model.package_sha256, model.sha256, *(c.sha256 for c in model.companions)]
    assert all(re.fullmatch("[0-9a-f]{64}", item) for item in hashes)
    assert re.fullmatch(r"[\w-]+==[\d.]+", model.requirement)
    assert model.size_bytes > 0
    assert model.inputs
    for position in [model.path, *(c.saved_as for c in model.companions)]:
        assert not PurePosixPath(position).is_absolute()
        assert ".." not in PurePosixPath(position).parts
    for entry in model.inputs:
        assert np.dtype(entry.dtype).kind in "fi"
        assert all(size > 0 for size in entry.shape)
        assert (entry.low is None) == (entry.high is None)


def test_the_models_of_the_tutorial_exist() -> None:
    assert {"mnist-8", "oww-alexa", "pulsevad-2k"} <= set(all_models())


@pytest.mark.parametrize("name", ["mnist-8", "oww-alexa", "pulsevad-2k"])
def test_the_entry_matches_the_file(name: str, catalogue_model: Callable[[str], Path]) -> None:
    onnx = pytest.importorskip("onnx")
    model = onnx.load(catalogue_model(name))
    entry = find(name)
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    assert [value.name for value in inputs] == [e.name for e in entry.inputs]
    assert [o.version for o in model.opset_import if o.domain in {"", "ai.onnx"}] == [entry.opset]
    for value, e in zip(inputs, entry.inputs, strict=True):
        dims = value.type.tensor_type.shape.dim
        assert len(dims) == len(e.shape)
        stated = [(d.dim_value or size) for d, size in zip(dims, e.shape, strict=True)]
        assert tuple(stated) == e.shape


def test_mnist_comes_with_a_stored_case(catalogue_model: Callable[[str], Path]) -> None:
    onnx = pytest.importorskip("onnx")
    catalogue_model("mnist-8")
    paths = companion_paths("mnist-8")
    image, scores = (
        onnx.numpy_helper.to_array(onnx.load_tensor(paths[f"test_data_set_0/{name}_0.pb"]))
        for name in ("input", "output")
    )
    assert image.shape == find("mnist-8").inputs[0].shape
    assert scores.shape == (1, 10)
