"""Copies of blocks with any sizes and strides: rows, transpositions and single elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.elementwise.copy import (
    CAST_BLOCK,
    CAST_TO_BOOL_BLOCK,
    COPY_BLOCK,
)
from tilescope.engine.graph.vertex.codelet import Codelet

_SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 33)
_random = np.random.default_rng(0)


def _view(memory: NDArray[Any], start: int, size: Any, stride: Any) -> NDArray[Any]:
    steps = np.asarray(stride) * memory.itemsize
    return np.lib.stride_tricks.as_strided(memory[start:], size, steps)


def _strides(size: list[int], order: list[int], gap: int, step: int) -> list[int]:
    """Return strides of distinct elements: dimensions in order, innermost last."""
    stride = [0, 0, 0]
    for dim in reversed(order):
        stride[dim] = step
        step *= size[dim] + gap
    return stride


def _check(
    codelet: Codelet, types: tuple[str, str], size: list[int], x_stride: Any, stride: Any
) -> None:
    x: NDArray[Any] = _random.integers(-100, 100, 60_000).astype(types[0])
    out = _random.integers(0, 2, 60_000).astype(types[1])
    start = 3 + sum((n - 1) * -min(step, 0) for n, step in zip(size, x_stride, strict=True))
    expected = out.copy()
    _view(expected, 5, size, stride)[...] = _view(x, start, size, x_stride).astype(types[1])
    sizes = np.array(size)
    codelet.kernel(x, start, sizes, np.array(x_stride), out, 5, sizes, np.array(stride))
    assert out.tobytes() == expected.tobytes()


_ORDERS = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]


@pytest.mark.parametrize("x_order", _ORDERS)
@pytest.mark.parametrize("order", _ORDERS)
def test_blocks_are_copied_in_any_order(x_order: list[int], order: list[int]) -> None:
    for _ in range(20):
        size = _random.choice(_SIZES, 3).tolist()
        gaps = _random.integers(0, 3, 2).tolist()
        steps = _random.choice([1, 1, 1, 2], 2).tolist()
        x_stride = _strides(size, x_order, gaps[0], steps[0])
        _check(
            COPY_BLOCK, ("float32",) * 2, size, x_stride, _strides(size, order, gaps[1], steps[1])
        )


@pytest.mark.parametrize("gap", [0, 1, 6])
def test_pairs_are_transposed_as_one_element(gap: int) -> None:
    for rows, columns in ((3, 9), (4, 4), (5, 19), (16, 7), (37, 8)):
        by_row, by_column = 2 * columns + gap, 2 * rows + gap
        size, x_stride, stride = [columns, rows, 2], [2, by_row, 1], [by_column, 2, 1]
        _check(COPY_BLOCK, ("float32",) * 2, size, x_stride, stride)
        turned = [[numbers[1], numbers[0], numbers[2]] for numbers in (size, x_stride, stride)]
        _check(COPY_BLOCK, ("int32",) * 2, *turned)


@pytest.mark.parametrize("x_stride", [(0, 0, 0), (1, 1, 1), (0, 1, 0), (-1, 9, 1), (40, -1, -3)])
@pytest.mark.parametrize("order", _ORDERS)
def test_operands_may_repeat_overlap_and_run_backwards(x_stride: Any, order: list[int]) -> None:
    for size in ([5, 7, 9], [16, 4, 4], [1, 1, 18], [1, 0, 3]):
        _check(COPY_BLOCK, ("float32",) * 2, size, x_stride, _strides(size, order, 0, 1))


@pytest.mark.parametrize("kind", ["int8", "uint8", "bool", "int16", "int32", "int64", "float64"])
def test_all_types_are_copied(kind: str) -> None:
    for order in _ORDERS:
        for size in ([2, 9, 17], [3, 21, 4]):
            _check(COPY_BLOCK, (kind, kind), size, _strides(size, order, 1, 1), [900, 25, 1])


@pytest.mark.parametrize(
    ("codelet", "types"),
    [
        (CAST_BLOCK, ("float32", "int32")),
        (CAST_BLOCK, ("int8", "float32")),
        (CAST_BLOCK, ("bool", "int8")),
        (CAST_TO_BOOL_BLOCK, ("int8", "bool")),
    ],
)
def test_casts_convert_every_element(codelet: Codelet, types: tuple[str, str]) -> None:
    for order in _ORDERS:
        size = [3, 9, 17]
        _check(codelet, types, size, _strides(size, order, 0, 1), [200, 20, 1])


def test_numbers_keep_their_bits() -> None:
    """NaN with a payload, and both zeros."""
    bits = _random.integers(0, 2**32, 16 * 16, np.uint32)
    out = np.zeros(16 * 16, np.float32)
    size = np.array([1, 16, 16])
    x = bits.view(np.float32)
    COPY_BLOCK.kernel(x, 0, size, np.array([0, 1, 16]), out, 0, size, np.array([0, 16, 1]))
    assert (out.view(np.uint32) == bits.reshape(16, 16).T.ravel()).all()
