"""Slices, updates and layouts of PopART, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.engine.operators.graphcore import Case, agrees, drawn, gradients_agree, results_of

from tilescope.engine.errors import BadModel

X = drawn((4, 6, 5))


def _at(*offsets: int, dtype: str = "uint32") -> np.ndarray:
    return np.array(offsets, dtype)


def _slices(index: np.ndarray, axes: list[int], sizes: list[int]) -> tuple[slice, ...]:
    places = [slice(None)] * 3
    for axis, first, size in zip(axes, index.reshape(-1).tolist(), sizes, strict=True):
        places[axis] = slice(first, first + size)
    return tuple(places)


def _updated(x: np.ndarray, places: tuple[slice, ...], values: Any, is_added: bool = False):
    out = x.copy()
    out[places] = out[places] + values if is_added else values
    return out


def _dynamic(op_type: str, index: np.ndarray, axes: list[int], sizes: list[int]) -> Case:
    attributes: dict[str, Any] = {"axes": axes, "sizes": sizes}
    shape: list[int] = list(X.shape)
    for axis, size in zip(axes, sizes, strict=True):
        shape[axis] = size
    operands: list[np.ndarray] = [X, index]
    trained: tuple[int, ...] = (0,)
    references: dict[str, Callable[..., Any]] = {
        "DynamicSlice": lambda x, i: x[_slices(i, axes, sizes)],
        "DynamicZero": lambda x, i: _updated(x, _slices(i, axes, sizes), 0),
        "DynamicUpdate": lambda x, i, u: _updated(x, _slices(i, axes, sizes), u),
        "DynamicAdd": lambda x, i, u: _updated(x, _slices(i, axes, sizes), u, True),
    }
    if op_type in ("DynamicUpdate", "DynamicAdd"):
        operands, trained = [*operands, drawn(shape, 1)], (0, 2)
    if op_type == "DynamicSlice":
        attributes["noOverlap"] = 1
    name = f"{op_type}-{axes}-{index.dtype}"
    return Case(op_type, operands, references[op_type], attributes, trained=trained, name=name)


_DYNAMIC = ("DynamicSlice", "DynamicZero", "DynamicUpdate", "DynamicAdd")

CASES = [
    *(_dynamic(kind, _at(2), [1], [3]) for kind in _DYNAMIC),
    *(_dynamic(kind, _at(1, 2, dtype="int32"), [2, 0], [3, 2]) for kind in _DYNAMIC),
    _dynamic("DynamicSlice", np.array(3, np.uint32), [0], [1]),
    Case("Reverse", [X], lambda x: x[::-1, :, ::-1], {"dimensions": [0, -1]}),
    Case("Subsample", [X], lambda x: x[::2, ::3, ::1], {"strides": [2, 3, 1]}),
    Case("Subsample", [X], lambda x: x[::9, ::1, ::1], {"strides": [9, 1, 1]}, name="Subsample-9"),
    Case("Slice", [X], lambda x: x[1:3, 2:-1], {"starts": [1, 2], "ends": [3, -1]}),
    Case("Slice", [X], lambda x: x[:, :, 1:9], {"starts": [1], "ends": [9], "axes": [2]},
         name="Slice-axes"),
    Case("Reshape", [X], lambda x: x.reshape(4, 30), {"shape": [0, -1]}),
    Case(
        "DepthToSpace",
        [drawn((1, 8, 2, 3))],
        lambda x: x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6),
        {"blocksize": 2},
    ),
    Case(
        "DepthToSpace",
        [drawn((1, 8, 2, 3))],
        lambda x: x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 6),
        {"blocksize": 2, "mode": "CRD"},
        name="DepthToSpace-CRD",
    ),
]  # fmt: skip


def _runs(is_cleared: bool) -> Case:
    def reference(x: np.ndarray, target: np.ndarray, *runs: np.ndarray) -> np.ndarray:
        out = np.zeros_like(target) if is_cleared else target.copy()
        for n, source, place in zip(*(run.tolist() for run in runs), strict=True):
            out[place : place + n] = x[source : source + n]
        return out

    operands = [drawn((6, 4)), drawn((5, 4), 1), _at(1, 2), _at(4, 1), _at(3, 0)]
    attributes = {"zeroUnused": int(is_cleared)}
    return Case("SequenceSlice", operands, reference, attributes, name=f"Runs-{is_cleared}")


@pytest.mark.parametrize("case", [*CASES, _runs(True), _runs(False)], ids=str)
def test_results(case: Case, tmp_path: Path) -> None:
    agrees(case, tmp_path)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients(case: Case, tmp_path: Path) -> None:
    gradients_agree(case, tmp_path)


@pytest.mark.parametrize(("kind", "dtype"), [(11, "float32"), (12, "float16"), (6, "int32")])
def test_init(kind: int, dtype: str, tmp_path: Path) -> None:
    attributes = {"shape": [2, 3], "data_type": kind, "init_type": 1, "tensor_type": 0}
    case = Case("Init", [], lambda: np.zeros((2, 3), dtype), attributes)
    (actual,) = results_of(case, tmp_path / "init.onnx")
    assert actual.dtype == dtype
    assert not actual.any()


@pytest.mark.parametrize(
    ("op_type", "operands", "attributes", "message"),
    [
        ("Subsample", [X], {"strides": [1, 0, 1]}, r"strides \[1, 0, 1\]: expected a number"),
        ("DynamicSlice", [X, _at(0)], {"axes": [0], "sizes": [5]}, "takes 5 elements of axis 0"),
        ("DynamicSlice", [X, _at(0)], {"axes": [0, 1], "sizes": [1, 1]}, "do not fit"),
        (
            "DynamicUpdate",
            [X, _at(0), X],
            {"axes": [0], "sizes": [1]},
            r"the slice 'x2' is float32 of shape \(4, 6, 5\): expected float32 of shape \(1, 6",
        ),
        ("Reverse", [X], {"dimensions": [0, 0]}, "a dimension is named twice"),
        ("Init", [], {"shape": [1], "data_type": 17, "init_type": 1}, "data type 17"),
    ],
)
def test_what_does_not_fit(
    op_type: str, operands: list[Any], attributes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadModel, match=message):
        results_of(Case(op_type, operands, lambda *_: 0.0, attributes), tmp_path / "bad.onnx")
