"""The steps of the page on adding an operator: one record, then load, compile, run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.engine.operators.graphs import both, info, model_of

from tilescope.engine import load_onnx
from tilescope.engine.errors import BadModel, UnsupportedOperators
from tilescope.engine.ir import Operator
from tilescope.engine.operators import FAMILIES, OPERATORS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/how-to/add-an-operator.md").read_text(encoding="utf-8")
X = np.linspace(-3, 3, 24, dtype=np.float32).reshape(4, 6)


def _model(op_type: str, **attributes: Any) -> onnx.ModelProto:
    node = helper.make_node(op_type, ["x"], ["y"], name="new", **attributes)
    return model_of([node], [info("x", [4, 6])], [info("y", [4, 6])])


@pytest.fixture
def records() -> dict[str, Operator]:
    """Return the records that the page's code creates."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    space: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, "add-an-operator.md", "exec"), space)
    return {value.name: value for value in space.values() if isinstance(value, Operator)}


@pytest.mark.parametrize(
    ("op_type", "attributes"), [("Softsign", {}), ("ThresholdedRelu", {"alpha": 0.5})]
)
def test_the_operators_of_the_page_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    records: dict[str, Operator],
    op_type: str,
    attributes: dict[str, float],
) -> None:
    record = records[op_type]
    monkeypatch.setitem(OPERATORS, record.key, record)
    ((actual, expected),) = both(_model(op_type, **attributes), tmp_path / "new.onnx", {"x": X})
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op_type", ["Atan", "Ceil", "Floor", "HardSigmoid"])
def test_operators_that_were_added_so(tmp_path: Path, op_type: str) -> None:
    ((actual, expected),) = both(_model(op_type), tmp_path / "new.onnx", {"x": X})
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_an_operator_that_is_lowered_whole_takes_its_types_from_onnx(tmp_path: Path) -> None:
    node = helper.make_node("GatherElements", ["x", "k"], ["y"], name="choose", axis=1)
    indices = np.array([[1, 0], [5, 2], [3, 3], [0, 4]], np.int64)
    model = model_of([node], [info("x", [4, 6])], [info("y", [4, 2])], {"k": indices})
    ((actual, expected),) = both(model, tmp_path / "gather.onnx", {"x": X})
    assert np.array_equal(actual, expected)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(indices.astype(np.float32), "k"))
    onnx.save(model, tmp_path / "gather.onnx")
    with pytest.raises(BadModel, match=r"Node 'choose' \(GatherElements\)"):
        load_onnx(tmp_path / "gather.onnx")


def test_unsupported_operators_are_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "missing.onnx"
    onnx.save(_model("StringNormalizer"), path)
    with pytest.raises(UnsupportedOperators) as refused:
        load_onnx(path)
    first, second, last = str(refused.value).splitlines()
    assert first == "1 nodes of 1 operators are not supported yet:"
    assert second == "  StringNormalizer (1): new"
    assert last.startswith("Export the model without them, or cut it before them with: tilescope")


def test_every_operator_has_a_way_to_the_machine() -> None:
    names = [record.key for family in FAMILIES for record in family.RECORDS]
    assert len(names) == len(set(names))
    for record in OPERATORS.values():
        assert record.decompose or record.lower, record.key
        if record.is_primitive:
            assert record.name.islower()
            assert record.infer
            assert record.evaluate
            assert record.lower
        elif not record.domain:
            assert onnx.defs.has(record.name), record.key
