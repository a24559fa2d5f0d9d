"""Unsigned indices, and extremes of numbers with NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tilescope.engine.codelets.popops.elementwise.operations import BINARY_BLOCK
from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._extremes import maximum, minimum


@pytest.mark.parametrize("steps", [(1, 1, 1), (1, 0, 1), (-1, 1, 2), (2, -2, -1), (0, 0, 1)])
def test_a_block_takes_any_stride(steps: tuple[int, int, int]) -> None:
    n, middle = 21, 50
    memory = np.arange(300, dtype=np.float32)
    expected = memory.copy()
    regions: list[Any] = []
    for index, step in enumerate(steps):
        regions.append((100 * index + middle, np.array([1, 1, n]), np.array([0, 0, step])))
    offset = [
        start + step * np.arange(n) for (start, _, _), step in zip(regions, steps, strict=True)
    ]
    expected[offset[2]] = expected[offset[0]] - expected[offset[1]]
    BINARY_BLOCK["subtract"].kernel(*(part for region in regions for part in (memory, *region)))
    assert memory.tolist() == expected.tolist()


@pytest.mark.parametrize(("extreme", "of"), [(maximum, max), (minimum, min)])
def test_extremes(extreme: Any, of: Any) -> None:
    @jit
    def run(row):
        total = row[0]
        for i in range(1, row.size):
            total = extreme(total, row[i])
        return total

    random = np.random.default_rng(0)
    for n in (1, 2, 7, 100):
        floats = random.standard_normal(n).astype(np.float32)
        assert run(floats) == of(floats.tolist())
        integers = random.integers(-9, 9, n).astype(np.int32)
        assert run(integers) == of(integers.tolist())
        for position in (0, n // 2, n - 1):
            holed = floats.copy()
            holed[position] = np.nan
            assert math.isnan(run(holed))
    assert run(np.array([-np.inf, np.inf], np.float32)) == of(-np.inf, np.inf)
