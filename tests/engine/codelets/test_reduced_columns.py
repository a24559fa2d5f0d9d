"""Columns of a reduction are combined in order, whatever block of columns they are in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilescope.engine.codelets.poplin.reduce_partials import REDUCE_PARTIALS
from tilescope.engine.codelets.popops.reduction.reduce import REDUCE, REDUCE_UPDATE

_random = np.random.default_rng(0)


@pytest.mark.parametrize("kind", ["float32", "int32"])
@pytest.mark.parametrize(
    ("n_planes", "n"), [(1, 2), (1, 8), (3, 7), (1, 64), (2, 64), (9, 15), (1, 200), (5, 130)]
)
def test_columns_in_order(kind: str, n_planes: int, n: int) -> None:
    n_rows = 5
    for is_joined in (True, False):
        gap = 0 if is_joined else 3
        pitch = n_planes * (n + gap)
        x: NDArray[Any] = (100 * _random.standard_normal(n_rows * pitch)).astype(kind)
        rows = x.reshape(n_rows, n_planes, n + gap)[:, :, :n]
        total = rows[0].copy()
        for row in rows[1:]:
            total = total + row
        out_pitch = n + 5
        held = (100 * _random.standard_normal(n_planes * out_pitch)).astype(kind)
        for codelets, before in ((REDUCE, 0), (REDUCE_UPDATE, 1)):
            out = held.copy()
            expected = held.copy().reshape(n_planes, out_pitch)
            expected[:, :n] = expected[:, :n] + total if before else total
            codelets["sum"].kernel(
                x, 0, np.array([n_planes, n, 1, n_rows]), np.array([n + gap, 1, 0, pitch]),
                out, 0, np.array([1, n_planes, n]), np.array([0, out_pitch, 1]), np.float32(1),
            )  # fmt: skip
            assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("n_columns", [1, 15, 64, 150])
@pytest.mark.parametrize("step", [1, 2])
def test_partials_are_summed_in_order(dtype: type, n_columns: int, step: int) -> None:
    """Sums of columns are those of all partials one after the other, bit by bit."""
    shape = (5, 2, 3, n_columns * step)
    random = np.random.default_rng(n_columns)
    partials: NDArray[Any] = (100 * random.standard_normal(shape)).astype(dtype)
    out: NDArray[Any] = np.zeros((2, 3, n_columns + 1), dtype)
    expected = out.copy()
    for partial in partials[..., ::step]:
        expected[..., :-1] += partial
    size, stride = np.array([*shape[:3], n_columns]), np.array(partials.strides) // 4
    stride[3] = step
    out_size, out_stride = np.array([2, 3, n_columns]), np.array(out.strides) // 4
    kernel = REDUCE_PARTIALS.kernel
    kernel(partials.reshape(-1), 0, size, stride, out.reshape(-1), 0, out_size, out_stride)
    assert out.tobytes() == expected.tobytes()
