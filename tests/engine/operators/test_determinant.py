"""Determinants, with exchanged rows, of singular and of larger matrices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.engine.operators.graphs import both, info, model_of

from tilescope.engine import load_onnx
from tilescope.engine.errors import BadModel

RANDOM = np.random.default_rng(2)
_MATRICES = {
    "one": np.array([[-3.0]]),
    "zero pivot": np.array([[0.0, 2.0, 1.0], [1.0, 0.0, 0.0], [3.0, 0.0, 4.0]]),
    "singular": np.array([[1.0, 2.0], [2.0, 4.0]]),
    "column of zeros": np.array([[0.0, 2.0], [0.0, 4.0]]),
    "batches": RANDOM.standard_normal((2, 3, 5, 5)),
    "large": RANDOM.standard_normal((20, 20)) / 4,
}


@pytest.mark.parametrize("x", _MATRICES.values(), ids=_MATRICES)
def test_determinants(tmp_path: Path, x: np.ndarray) -> None:
    x = x.astype(np.float32)
    node = helper.make_node("Det", ["x"], ["y"])
    model = model_of([node], [info("x", x.shape)], [info("y", x.shape[:-2])])
    ((actual, expected),) = both(model, tmp_path / "det.onnx", {"x": x})
    np.testing.assert_allclose(actual, expected, rtol=2e-4, atol=1e-6)
    np.testing.assert_allclose(actual, np.linalg.det(x.astype(np.float64)), rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("shape", [(3, 4), (129, 129)])
def test_other_matrices_are_refused(tmp_path: Path, shape: tuple[int, int]) -> None:
    node = helper.make_node("Det", ["x"], ["y"], name="det")
    onnx.save(model_of([node], [info("x", shape)], [info("y", [])]), tmp_path / "det.onnx")
    with pytest.raises(BadModel, match=r"'det'.* expected square matrices of 1 to 128 rows"):
        load_onnx(tmp_path / "det.onnx")
