"""Rows and columns of floats are reduced in one order on every processor, in 16 lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilescope.engine.codelets.popops.reduction.reduce import REDUCE
from tilescope.engine.host.kernels._reduce_lanes import COLUMNS, LANES

_COMBINE = {"sum": np.add, "square_sum": np.add, "product": np.multiply, "maximum": np.maximum}


def _prepared(x: np.ndarray, operation: str) -> np.ndarray:
    return x * x if operation == "square_sum" else x


def _row_by_hand(rows: np.ndarray, operation: str) -> np.float32:
    """Combine elements k, k + 16 and so on of all rows, then halves of these lanes."""
    combine: Any = _COMBINE[operation]
    lanes: list[Any] = [None] * LANES
    for row in _prepared(rows, operation):
        for k, value in enumerate(row):
            held = lanes[k % LANES]
            lanes[k % LANES] = value if held is None else combine(held, value)
    while len(lanes) > 1:
        half = len(lanes) // 2
        pairs = zip(lanes[:half], lanes[half:], strict=True)
        lanes = [a if b is None else combine(a, b) for a, b in pairs]
    return np.float32(lanes[0])


def _column_by_hand(rows: np.ndarray, operation: str) -> list[np.float32]:
    total, *rest = _prepared(rows, operation)
    for row in rest:
        total = _COMBINE[operation](total, row)
    return [np.float32(value) for value in total]


def _reduced(operation: str, x: np.ndarray, size: list[int], stride: list[int]) -> list[float]:
    """Return [plane, column] of x, read as [plane, column, outer, inner]."""
    out = np.full(size[:2], 7, x.dtype)
    REDUCE[operation].kernel(
        x.reshape(-1), 0, np.array(size), np.array(stride),
        out.reshape(-1), 0, np.array([1, *out.shape]), np.array([out.size, out.shape[1], 1]), 1.0,
    )  # fmt: skip
    return list(out.reshape(-1).tolist())


def _numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(0.5, 1.5, shape).astype(np.float32)


@pytest.mark.parametrize("operation", _COMBINE)
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (1, 16), (1, 17), (1, 1000), (3, 20), (4, 32)])
def test_a_row_is_combined_as_by_hand(operation: str, shape: tuple[int, int]) -> None:
    outer, inner = shape
    x = _numbers(2, outer, inner)
    actual = _reduced(operation, x, [1, 2, outer, inner], [0, outer * inner, inner, 1])
    assert actual == [_row_by_hand(rows, operation) for rows in x]


@pytest.mark.parametrize("operation", _COMBINE)
@pytest.mark.parametrize("n", [2, 15, 16, 17, COLUMNS, 2 * COLUMNS + 33])
@pytest.mark.parametrize("n_rows", [1, 5])
def test_a_column_is_combined_in_order(operation: str, n: int, n_rows: int) -> None:
    rows = _numbers(n_rows, n)
    actual = _reduced(operation, rows, [1, n, 1, n_rows], [0, 1, 0, n])
    assert actual == _column_by_hand(rows, operation)


@pytest.mark.parametrize("n", [1, 16, 40])
@pytest.mark.parametrize(("operation", "expected"), [("maximum", 3.0), ("minimum", -2.0)])
def test_one_nan_makes_an_extreme_nan(operation: str, expected: float, n: int) -> None:
    x = np.linspace(-2, 3, 2 * 50 * n, dtype=np.float32).reshape(2, 50, n)
    x[:, 3, 0], x[:, 4, 0] = -2, 3  # in both halves
    as_rows, as_columns = [1, 2, 1, 50 * n], [2, n, 1, 50]
    positions = [0, 50 * n, 0, 1], [50 * n, 1, 0, n]
    x[1, 7, 0] = np.nan
    rows = _reduced(operation, x, as_rows, positions[0])
    assert rows[0] == expected
    assert np.isnan(rows[1])
    columns = np.reshape(_reduced(operation, x, as_columns, positions[1]), (2, n))
    assert not np.isnan(columns[0]).any()
    assert np.isnan(columns[1]).tolist() == [True] + [False] * (n - 1)


@pytest.mark.parametrize("operation", ["maximum", "minimum"])
def test_the_first_of_equal_zeros_is_kept_in_a_column(operation: str) -> None:
    rows = np.array([[0.0, -0.0, 0.0], [-0.0, 0.0, 0.0]], np.float32)
    actual = _reduced(operation, rows, [1, 3, 1, 2], [0, 1, 0, 3])
    assert np.signbit(actual).tolist() == [False, True, False]
