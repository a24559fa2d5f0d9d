"""Products of sparse matrices in models: results, gradients, and nodes that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engine.operators.graphcore import (
    MACHINE,
    Case,
    agrees,
    drawn,
    gradients_agree,
    node_of,
    saved,
)
from tests.engine.operators.graphs import info

from tilescope.engine import compile_model, load_onnx
from tilescope.engine.errors import BadModel


def _dense(values: Any, attributes: dict[str, Any]) -> Any:
    """Return a sparse matrix with its zeros."""
    size = attributes.get("block_size", 1)
    matrix = np.zeros((attributes["n_rows"], attributes["n_columns"]), values.dtype)
    blocks = values.reshape(-1, size, size)
    for block, row, column in zip(blocks, attributes["rows"], attributes["columns"], strict=True):
        places = slice(row * size, row * size + size), slice(column * size, column * size + size)
        matrix[places] = block
    return matrix


def _case(size: int, *, is_right: bool, is_trained: bool = True, is_flat: bool = False) -> Case:
    """Return a product whose blocks are in no order."""
    places = [(2, 0), (0, 3), (0, 1), (1, 3)]
    attributes = {
        "rows": [row for row, _ in places],
        "columns": [column for _, column in places],
        "n_rows": 3 * size,
        "n_columns": 4 * size,
    }
    if size > 1:
        attributes["block_size"] = size
    values = drawn((4,) if is_flat else (4, size, size))
    dense = drawn((5, 3 * size) if is_right else (4 * size, 5), 1)
    name = f"{'Dense' * is_right}Sparse{'Dense' * (not is_right)}MatMul"
    operands = [dense, values] if is_right else [values, dense]

    def reference(a: Any, b: Any) -> Any:
        return a @ _dense(b, attributes) if is_right else _dense(a, attributes) @ b

    return Case(
        name,
        operands,
        reference,
        attributes,
        trained=(0, 1) if is_trained else (),
        tolerance=1e-5,
        name=f"{name}-{size}{'-flat' * is_flat}",
        domain="popsparse",
    )


CASES = [
    _case(size, is_right=is_right, is_flat=is_flat)
    for size, is_flat in ((1, False), (1, True), (4, False), (8, False))
    for is_right in (False, True)
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_results(case: Case, tmp_path: Path) -> None:
    agrees(case, tmp_path)


@pytest.mark.parametrize("case", CASES[:6], ids=str)
def test_gradients_of_values_and_of_the_dense_operand(case: Case, tmp_path: Path) -> None:
    gradients_agree(case, tmp_path)


@pytest.mark.parametrize("is_right", [False, True])
def test_constant_values_lie_on_the_tiles_of_their_product(is_right: bool, tmp_path: Path) -> None:
    case = _case(4, is_right=is_right)
    weights = Case(**{**vars(case), "known": (1,) if is_right else (0,)})
    agrees(weights, tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": [0, 0, 0, 3]}, "row index 3: expected 0 to 2"),
        ({"rows": [2, 0, 0]}, "has 3 rows and 4 columns"),
        ({"columns": [0, 3, 3, 3]}, "two blocks at row 0, column 3"),
        ({"block_size": 3}, "have 3 rows and columns: use 1, 4, 8, 16"),
        ({"n_columns": 5}, "a row for every column of the sparse matrix"),
        ({"n_rows": None}, "attribute 'n_rows' is missing"),
    ],
)
def test_nodes_that_are_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    case = _case(1, is_right=False)
    attributes = {**case.attributes, **changes}
    attributes = {name: value for name, value in attributes.items() if value is not None}
    node = node_of(case.op_type, ["values", "dense"], ["y"], **attributes)
    node.domain = "popsparse"
    values, dense = case.operands
    assert values is not None
    assert dense is not None
    inputs = {"values": values, "dense": dense}
    saved([node], inputs, [info("y", (3, 5))], {}, tmp_path / "one.onnx")
    with pytest.raises(BadModel, match=message):
        compile_model(load_onnx(tmp_path / "one.onnx"), MACHINE)
