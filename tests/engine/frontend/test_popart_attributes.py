"""Attributes that PopART's builder writes on nodes of every domain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tests.engine.operators.graphs import info, model_of

from tilescope.engine import load_onnx
from tilescope.engine.errors import BadModel
from tilescope.engine.ir import UNPLACED, Hints, Model, Operation, Placement
from tilescope.engine.ir.digest import model_digests
from tilescope.engine.transform.decompose import decompose


def _loaded(path: Path, **attributes: Any) -> Model:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product", **attributes)
    model = model_of([node], [info("x", (2, 3))], [info("y", (2, 4))], {"w": np.ones((3, 4), "f4")})
    onnx.save(model, path)
    return load_onnx(path)


def _product(path: Path, **attributes: Any) -> Operation:
    (operation,) = _loaded(path, **attributes).operations
    return operation


@pytest.mark.parametrize(
    ("attribute", "value", "hints"),
    [
        ("__recompute_output_in_backward_pass", 0, Hints()),
        ("__recompute_output_in_backward_pass", 1, Hints(is_recomputed=False)),
        ("__recompute_output_in_backward_pass", 2, Hints(is_recomputed=True)),
        ("__recompute_output_in_backward_pass", 3, Hints(is_recomputed=True)),
        ("__available_memory", [0.5], Hints(available_memory_proportion=0.5)),
    ],
)
def test_what_is_asked_reaches_the_operation(
    attribute: str, value: Any, hints: Hints, tmp_path: Path
) -> None:
    operation = _product(tmp_path / "model.onnx", **{attribute: value})
    assert operation.hints == hints
    assert not operation.attributes


@pytest.mark.parametrize(
    ("attribute", "value", "placement"),
    [
        ("__ipu_number", 1, Placement(ipu=1)),
        ("__ipu_number", -1, UNPLACED),
        ("__pipeline_stage", 2, Placement(stage=2)),
        ("__execution_phase", 3, Placement(phase=3)),
        ("__execution_phase", -2, UNPLACED),
    ],
)
def test_a_place_reaches_the_operation_and_what_it_stands_for(
    attribute: str, value: Any, placement: Placement, tmp_path: Path
) -> None:
    model = _loaded(tmp_path / "model.onnx", **{attribute: value})
    for stage in (model, decompose(model)):
        assert {operation.placement for operation in stage.operations} == {placement}


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("__inplace_op_names", ["MatMulInplace"]),
        ("__inplace_op_priorities", [10.0]),
        ("__serialize_matmul_mode", "output_channels"),
        ("__serialize_matmul_factor", 2),
        ("__serialize_matmul_precision", 1),
        ("__schedule_priority", 1.5),
        ("__tile_set", 1),
        ("__exchange_strategy", 0),
        ("__replicated_stream_mode", 0),
        ("__outline", ["layer", "1"]),
        ("__exclude_patterns", ["MatMulPattern"]),
        ("__enable_conv_dithering", 1),
        ("__output_tensor_location", [1, 0, 0, 0]),
        ("__debug_info_id", 5),
        ("__execution_context", 0),
    ],
)
def test_what_changes_no_value_is_left_out(attribute: str, value: Any, tmp_path: Path) -> None:
    marked = _loaded(tmp_path / "marked.onnx", **{attribute: value})
    assert model_digests(marked) == model_digests(_loaded(tmp_path / "plain.onnx"))
    assert marked.operations[0].hints == Hints()


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("__recompute_output_in_backward_pass", 4, "must be an integer below 4, got 4"),
        ("__ipu_number", 0.5, "__ipu_number must be an integer, got 0.5"),
        ("__available_memory", [0.5, 0.5], "must be above 0 and at most 1"),
    ],
)
def test_what_says_nothing_is_refused(
    attribute: str, value: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadModel, match=f"Node 'product' .MatMul.: .*{message}"):
        _loaded(tmp_path / "bad.onnx", **{attribute: value})


def test_marks_are_those_of_the_parts_of_a_node(tmp_path: Path) -> None:
    loaded = _loaded(tmp_path / "model.onnx", __recompute_output_in_backward_pass=2)
    parts = decompose(loaded).operations
    assert [part.origin.hints.is_recomputed for part in parts if part.origin] == [True]
