"""Long contiguous rows are reduced in 64 lanes, in one order on every processor."""

from __future__ import annotations

import numpy as np
import pytest

from tilescope.engine.codelets.reduce import REDUCE


def _by_hand(rows: np.ndarray, operation: str) -> np.float32:
    """Combine lanes over all rows, then lanes in halves, then the elements left of every row."""
    combine = {"sum": np.add, "maximum": np.maximum}[operation]
    whole = rows.shape[1] // 64 * 64
    lanes = rows[:, :whole].reshape(-1, 64)
    total = lanes[0].copy()
    for part in lanes[1:]:
        total = combine(total, part)
    while total.size > 1:
        total = combine(total[: total.size // 2], total[total.size // 2 :])
    result = total[0]
    for value in rows[:, whole:].reshape(-1):
        result = combine(result, value)
    return np.float32(result)


@pytest.mark.parametrize("operation", ["sum", "maximum"])
@pytest.mark.parametrize("shape", [(1, 128), (1, 1000), (3, 200)])
def test_a_long_row_is_combined_as_by_hand(operation: str, shape: tuple[int, int]) -> None:
    outer, inner = shape
    x = np.random.default_rng(0).standard_normal((2, outer, inner)).astype(np.float32)
    out = np.zeros(2, np.float32)
    REDUCE[operation].kernel(
        x.reshape(-1), 0, np.array([1, 2, outer, inner]), np.array([0, outer * inner, inner, 1]),
        out, 0, np.array([1, 1, 2]), np.array([2, 2, 1]), 1.0,
    )  # fmt: skip
    assert out.tolist() == [_by_hand(rows, operation) for rows in x]
