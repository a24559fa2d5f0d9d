"""Blocks of packed sequences, as PopART's builder writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.engine.operators.graphcore import DOMAIN, MACHINE, drawn, saved
from tests.engine.operators.graphs import info

from tilescope.engine import Engine, compile_model, load_onnx, resolve_options
from tilescope.engine.errors import BadModel

LENGTHS, OFFSETS = np.array([2, 3, 1, 2], "u4"), np.array([0, 2, 5, 6], "u4")
DATA, LONGEST = drawn((8, 3)), 4


def _block(path: Path, n_batch: int) -> None:
    """Save a block whose subgraph doubles batches of sequences."""
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "s"], ["t"], name="sum")],
        "callback",
        [helper.make_tensor_value_info("s", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)],
    )
    node = helper.make_node(
        "PackedDataBlock",
        ["x", "offsets", "lengths", "offsets", "lengths"],
        ["y"],
        name="block",
        domain=DOMAIN,
        callback=body,
        maxSequenceLengths=[LONGEST],
        resultSize=9,
        callbackBatchSize=n_batch,
    )
    inputs = {"x": DATA, "offsets": OFFSETS, "lengths": LENGTHS}
    saved([node], inputs, [info("y", (9, 3))], {}, path)


@pytest.mark.parametrize("n_batch", [1, 2, 4])
def test_sequences_are_packed_again(n_batch: int, tmp_path: Path) -> None:
    path = tmp_path / "block.onnx"
    _block(path, n_batch)
    compiled = compile_model(load_onnx(path), MACHINE, is_checked=True)
    with Engine(compiled.executable, resolve_options(environ={})) as engine:
        inputs = {"x": DATA, "offsets": OFFSETS, "lengths": LENGTHS}
        (y,) = compiled.run(engine, inputs).values()
    np.testing.assert_array_equal(y, np.concatenate([2 * DATA, np.zeros((1, 3), "f4")]))


def test_batches_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "block.onnx"
    _block(path, 3)
    with pytest.raises(BadModel, match=r"'block'.* 4 sequences in batches of 3 do not fit"):
        load_onnx(path)
