"""Sums of products by labels, against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.engine.operators.graphs import both, info, model_of

RANDOM = np.random.default_rng(5)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...ii->...i", [(2, 4, 4)]),
        ("ii", [(5, 5)]),
        ("iji->j", [(3, 4, 3)]),
        ("iij,jk->ik", [(3, 3, 4), (4, 2)]),
        ("bij,bjk,kl->bil", [(2, 3, 4), (2, 4, 5), (5, 6)]),
    ],
)
def test_labels_may_be_repeated(
    tmp_path: Path, equation: str, shapes: list[tuple[int, ...]]
) -> None:
    """A label that an operand has twice is its diagonal."""
    arrays = {f"x{i}": RANDOM.standard_normal(s).astype("float32") for i, s in enumerate(shapes)}
    node = helper.make_node("Einsum", list(arrays), ["y"], name="einsum", equation=equation)
    model = model_of(
        [node],
        [info(name, array.shape, TensorProto.FLOAT) for name, array in arrays.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        {},
    )
    ((actual, expected),) = both(model, tmp_path / "einsum.onnx", arrays)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
