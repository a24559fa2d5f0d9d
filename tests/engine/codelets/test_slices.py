"""The kernel of look-ups: rows of its part are copied, rows of no part are zeros."""

from __future__ import annotations

import numpy as np
import pytest

from tilescope.engine.codelets.popops.slicing.multi_slice import MULTI_SLICE
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._indices import lowest_bit

N_ENTRIES, N_COLUMNS, FIRST, N_ROWS = 40, 3, 10, 12


@pytest.mark.parametrize("step", [1, 2, -1])
@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 200])
def test_rows_of_a_part(n: int, step: int) -> None:
    random = np.random.default_rng(n)
    rows = random.integers(-3, N_ENTRIES + 3, n).astype(np.int32)
    offsets = np.full(900, FIRST, np.int32)
    at = 300 + step * np.arange(n)
    offsets[at] = rows
    base = random.standard_normal((N_ROWS, N_COLUMNS)).astype(np.float32)
    out = np.full((n + 1, N_COLUMNS), 7, np.float32)
    expected = out.copy()
    for k, row in enumerate(rows.tolist()):
        if FIRST <= row < FIRST + N_ROWS:
            expected[k] = base[row - FIRST]
        elif not 0 <= row < N_ENTRIES:
            expected[k] = 0
    numbers = np.array
    MULTI_SLICE.kernel(
        base.ravel(), 0, numbers([1, N_ROWS, N_COLUMNS]), numbers([0, N_COLUMNS, 1]),
        offsets, 300, numbers([1, n]), numbers([0, step]),
        out.ravel(), 0, numbers([1, n, N_COLUMNS]), numbers([0, N_COLUMNS, 1]), FIRST, N_ENTRIES,
    )  # fmt: skip
    assert out.tolist() == expected.tolist()


@pytest.mark.parametrize("place", [0, 1, 31, 32, 62, 63])
def test_lowest_bit(place: int) -> None:
    @jit
    def run(mask):
        return lowest_bit(mask)

    assert run(np.uint64(1 << place)) == place
    assert run(np.uint64(1 << place | 1 << 63)) == place
