"""The published solvers: their hand-written vertices, and the author's splits."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fidelity.solvers import (
    heart_codelet,
    heat_in_three_codelet,
    split_in_three,
    split_in_two,
)
from tests.fidelity.test_stencils import run_one

from tilescope.engine.graph.vertex.codelet import Codelet

FLOAT = np.float32


def strides_of(shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
    return list(shape), [int(np.prod(shape[d + 1 :])) for d in range(len(shape))]


def run(codelet: Codelet, **values: np.ndarray) -> tuple[np.ndarray, int]:
    return run_one(codelet, values, {name: strides_of(x.shape) for name, x in values.items()})


def test_a_step_of_the_heart_as_its_listing_counts() -> None:
    height, width = 3, 4
    random = np.random.default_rng(0)
    e = random.random((height + 2, width + 2)).astype(FLOAT)
    r = random.random((height, width)).astype(FLOAT)
    out, cycles = run(heart_codelet(), e_in=e, out=np.zeros((height, width), FLOAT), r=r)
    local = e[1:-1, 1:-1].astype(np.float64)
    around = e[:-2, 1:-1] + e[2:, 1:-1] + e[1:-1, :-2] + e[1:-1, 2:]
    change = 0.5 * (around - 4 * local) - 8 * local * (local - 0.1) * (local - 1) - local * r
    np.testing.assert_allclose(out, local + 0.01 * change, rtol=1e-5)
    assert cycles == 43 + 3 * (33 + 4 * 40)


@pytest.mark.parametrize(("depth", "line"), [(5, 16 + 2 * 20 + 16), (6, 2 * 16 + 2 * 20 + 16)])
def test_a_step_of_the_heat_in_three_dimensions(depth: int, line: int) -> None:
    height, width = 2, 3
    grid = np.random.default_rng(0).random((height + 2, width + 2, depth + 2)).astype(FLOAT)
    built = np.zeros((height, width, depth), FLOAT)
    out, cycles = run(heat_in_three_codelet(), grid=grid, out=built)
    inside = (slice(1, -1),) * 3
    around = sum(np.roll(grid, step, dim)[inside] for dim in range(3) for step in (1, -1))
    np.testing.assert_allclose(out, 0.4 * grid[inside] + 0.1 * around, rtol=1e-5)
    assert cycles == 20 + height * (width * line + 4)


def test_splits_are_the_authors() -> None:
    assert split_in_two(7998, 7998) == (46, 32)  # of 46 x 32 and 32 x 46 the last
    assert sorted(split_in_three(358, 1472)) == [8, 8, 23]
    assert split_in_three(8, 8) == (2, 2, 2)
