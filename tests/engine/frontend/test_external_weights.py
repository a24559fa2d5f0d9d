"""Weights in files of their own: mapped, of any size; files that do not hold them are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from tilescope.engine import load_onnx
from tilescope.engine.errors import BadModel

_SIDE = 600  # 1.4 MB: mapped, not read


def _model(
    folder: Path, array: NDArray[Any], kind: int, stated: dict[str, str] | None = None
) -> Path:
    """Save ``y = x + w`` with w in ``w.bin``, behind 64 bytes of something else."""
    (folder / "w.bin").write_bytes(b"\xff" * 64 + array.tobytes())
    weight = TensorProto(name="w", data_type=kind, dims=array.shape)
    weight.data_location = TensorProto.EXTERNAL
    entries = {"location": "w.bin", "offset": "64", "length": str(array.nbytes)} | (stated or {})
    for key, value in entries.items():
        weight.external_data.add(key=key, value=value)
    wide = helper.make_node("Cast", ["w"], ["f"], to=TensorProto.FLOAT)
    graph = helper.make_graph(
        [wide, helper.make_node("Add", ["x", "f"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, array.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, array.shape)],
        [weight],
    )
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.mark.parametrize("side", [3, _SIDE])
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (TensorProto.FLOAT, np.float32),
        (TensorProto.FLOAT16, np.float16),
        (TensorProto.INT32, np.int32),
        (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
    ],
)
def test_elements_at_an_offset(tmp_path: Path, side: int, kind: int, dtype: Any) -> None:
    array = (np.arange(side * side) % 999).reshape(side, side).astype(dtype)
    (operation,) = load_onnx(_model(tmp_path, array, kind)).operations
    actual = np.asarray(operation.operands[1].known)
    assert actual.dtype == np.float32
    assert np.array_equal(actual, array.astype(np.float32))


def test_large_weights_are_mapped(tmp_path: Path) -> None:
    array = np.ones((_SIDE, _SIDE), np.float32)
    path = _model(tmp_path, array, TensorProto.FLOAT)
    (operation,) = load_onnx(path).operations
    held: Any = operation.operands[1].known
    while held is not None and not isinstance(held, np.memmap):
        held = held.base
    assert isinstance(held, np.memmap)


@pytest.mark.parametrize("side", [3, _SIDE])
@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"location": "other.bin"}, "the file 'other.bin' does not exist"),
        ({"location": "../w.bin"}, "'../w.bin' is outside the model's folder"),
        ({"location": "/etc/hostname"}, "'/etc/hostname' is outside the model's folder"),
        ({"offset": "-4"}, "bytes -4 to"),
        ({"offset": "100"}, "bytes 100 to"),
        ({"length": "99999999999"}, "bytes 64 to 100,000,000,063 of a file of"),
        ({"length": "much"}, "its offset or length is not a number"),
        ({"length": "8"}, "too small for the declared shape"),
    ],
)
def test_files_that_do_not_hold_the_weights(
    tmp_path: Path, side: int, stated: dict[str, str], said: str
) -> None:
    path = _model(tmp_path, np.ones((side, side), np.float32), TensorProto.FLOAT, stated)
    with pytest.raises(BadModel) as caught:
        load_onnx(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_link_that_leads_outside(tmp_path: Path) -> None:
    path = _model(tmp_path, np.ones((3, 3), np.float32), TensorProto.FLOAT)
    inside = tmp_path / "model"
    inside.mkdir()
    path.rename(inside / "m.onnx")
    (inside / "w.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(BadModel, match="is outside the model's folder"):
        load_onnx(inside / "m.onnx")


def _with_weight(folder: Path, raw: bytes) -> Path:
    """Save ``y = x + w``, whose weight holds its bytes itself."""
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[64, 64], raw_data=raw)
    side = helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 64])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [64, 64])
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])], "graph", [side], [result], [weight]
    )
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_checker_is_given_no_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    checked: list[int] = []
    check = onnx.checker.check_model

    def counted(model: onnx.ModelProto) -> None:
        checked.append(model.ByteSize())
        check(model)

    monkeypatch.setattr(onnx.checker, "check_model", counted)
    (operation,) = load_onnx(_with_weight(tmp_path, array.tobytes())).operations
    assert max(checked) < 1000
    assert np.array_equal(np.asarray(operation.operands[1].known), array)


def test_weights_of_a_wrong_length_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadModel, match=r"fails the ONNX checker: .*'?w'?\) raw_data size"):
        load_onnx(_with_weight(tmp_path, bytes(64 * 64 * 4 - 4)))
