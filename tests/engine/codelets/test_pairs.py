"""Functions of two operands over blocks with any strides, apart and in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.elementwise.in_place import BINARY_IN_PLACE_BLOCK
from tilescope.engine.codelets.popops.elementwise.operations import BINARY_BLOCK

_FUNCTIONS: dict[str, Any] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "less": np.less,
    "bitwise_xor": np.bitwise_xor,
}
#: Strides of the second operand: its own elements, one row, one number per row, one for all,
#: columns, and backwards.
_SECOND = ("own", "row", "row of plane", "number per row", "number", "columns", "backwards")
_random = np.random.default_rng(0)


def _view(memory: NDArray[Any], start: int, size: Any, stride: Any) -> NDArray[Any]:
    steps = np.asarray(stride) * memory.itemsize
    return np.lib.stride_tricks.as_strided(memory[start:], size, steps)


def _strides(kind: str, size: list[int]) -> list[int]:
    _, rows, n = size
    return {
        "own": [rows * n, n, 1],
        "row": [0, 0, 1],
        "row of plane": [n, 0, 1],
        "number per row": [rows, 1, 0],
        "number": [0, 0, 0],
        "columns": [rows * n, 1, rows],
        "backwards": [-rows * n, -n, -1],
    }[kind]


def _check(
    name: str, kind: str, size: list[int], second: str, stride: list[int], a_stride: list[int]
) -> None:
    memory: NDArray[Any] = _random.integers(-9, 9, 90_000).astype(kind)
    sizes, steps, b_steps = np.array(size), np.array(stride), np.array(_strides(second, size))
    a_start, b_start, start = 10, 60_000, 30_000
    a, b = _view(memory, a_start, size, a_stride), _view(memory, b_start, size, b_steps)
    actual = _FUNCTIONS[name](a, b)
    out = memory.astype(actual.dtype)
    expected = out.copy()
    _view(expected, start, size, stride)[...] = actual
    second_operand = (memory, b_start, sizes, b_steps)
    first = (memory, a_start, sizes, np.array(a_stride))
    BINARY_BLOCK[name].kernel(*first, *second_operand, out, start, sizes, steps)
    assert out.tobytes() == expected.tobytes()
    if actual.dtype == memory.dtype and name in BINARY_IN_PLACE_BLOCK:
        expected = memory.copy()
        _view(expected, a_start, size, a_stride)[...] = actual
        BINARY_IN_PLACE_BLOCK[name].kernel(*first, *second_operand)
        assert memory.tobytes() == expected.tobytes()


@pytest.mark.parametrize("second", _SECOND)
@pytest.mark.parametrize(("name", "kind"), [("subtract", "float32"), ("less", "float32")])
def test_blocks_of_any_strides(second: str, name: str, kind: str) -> None:
    for size in ([1, 40, 8], [3, 17, 5], [2, 9, 64], [4, 8, 1], [2, 30, 65], [1, 1, 3], [2, 0, 4]):
        n_planes, n_rows, n = size
        for dense in ([n_rows * n, n, 1], [2 * n_rows * n, 2 * n, 2], [n, n * n_planes, 1]):
            _check(name, kind, size, second, dense, [n_rows * n, n, 1])
            _check(name, kind, size, second, [n_rows * n, n, 1], dense)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("add", "int32"),
        ("multiply", "float32"),
        ("maximum", "int8"),
        ("bitwise_xor", "uint8"),
        ("bitwise_xor", "bool"),
        ("less", "int32"),
    ],
)
def test_other_functions_and_types(name: str, kind: str) -> None:
    for second in _SECOND:
        _check(name, kind, [2, 20, 8], second, [200, 8, 1], [160, 8, 1])


def test_an_operand_may_be_the_result() -> None:
    memory = np.arange(1, 41, dtype=np.float32)
    block = (memory, 0, np.array([1, 10, 4]), np.array([0, 4, 1]))
    BINARY_IN_PLACE_BLOCK["multiply"].kernel(*block, *block)
    assert memory.tolist() == [float(k * k) for k in range(1, 41)]
