"""Gradients at operands where a function has no slope, and numbers that an operator refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.engine.operators.graphcore import gradient_of
from tests.engine.operators.graphs import info, model_of

from tilescope.engine import load_onnx
from tilescope.engine.errors import BadModel


def test_the_exponent_of_a_negative_base_has_no_gradient(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Pow", ["a", "b"], ["y"]),
        helper.make_node("ReduceSum", ["y"], ["loss"], keepdims=0),
    ]
    bases = np.array([-2, 0, 0, 0, 2], np.float32)
    exponents = np.array([2, 2, 0, -1, 3], np.float32)
    found = gradient_of(nodes, {"a": bases, "b": exponents}, tmp_path)
    expected = np.array([np.nan, 0, 0, -np.inf, 8 * np.log(2)], np.float32)
    np.testing.assert_allclose(found["b"], expected, rtol=1e-6)


@pytest.mark.parametrize("repeats", [[1, -2], [2]])
def test_repeats_that_do_not_fit(repeats: list[int], tmp_path: Path) -> None:
    model = model_of(
        [helper.make_node("Tile", ["x", "n"], ["y"])],
        [info("x", (2, 3))],
        [info("y", (None, None))],
        {"n": np.array(repeats, np.int64)},
    )
    onnx.save(model, tmp_path / "tile.onnx")
    with pytest.raises(BadModel, match=r"repeats .*'x', shape"):
        load_onnx(tmp_path / "tile.onnx")
