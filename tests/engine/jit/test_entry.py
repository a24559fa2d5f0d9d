"""Passes on arrays: what they take and write, compiled and as plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilescope.engine.host.jit.entry import array_pass


@array_pass("int64[:, :], bool[:], int64", writes="int64[:]")
def totals(rows: Any, is_counted: Any, factor: int, total: Any) -> None:
    for i in range(rows.shape[0]):
        if is_counted[i]:
            for k in range(rows.shape[1]):
                total[i] += factor * rows[i, k]


ROWS, COUNTED = np.arange(6).reshape(2, 3), np.array([True, False])


@pytest.mark.parametrize(
    "rows",
    [ROWS, ROWS.astype(np.int32), ROWS.astype(np.uint8), np.asfortranarray(ROWS), ROWS[::-1][::-1]],
    ids=["as taken", "narrower", "unsigned", "columns first", "reversed twice"],
)
def test_arrays_that_are_taken_may_be_narrower_or_apart(rows: Any) -> None:
    total = np.zeros(2, np.int64)
    totals(rows, COUNTED, np.int32(2), total)
    totals(rows, ~COUNTED, 10, total)
    assert total.tolist() == [6, 120]


@pytest.mark.parametrize("rows", [np.zeros((2, 3)), np.zeros((2, 3), np.uint64), np.zeros(6, int)])
def test_arrays_that_would_lose_something_are_refused(rows: Any) -> None:
    with pytest.raises(TypeError):
        totals(rows, COUNTED, 1, np.zeros(2, np.int64))


@pytest.mark.parametrize("total", [np.zeros(2, np.int32), np.zeros(4, np.int64)[::2], ROWS])
def test_arrays_that_are_written_are_never_copied(total: Any) -> None:
    with pytest.raises(TypeError, match="totals takes a contiguous array of int64 with 1 dim"):
        totals(ROWS, COUNTED, 1, total)


def test_arguments_are_counted() -> None:
    with pytest.raises(ValueError, match="zip"):
        totals(ROWS, COUNTED)
