"""Pools over windows with any strides and padding, for channels side by side or apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tilescope.engine.codelets.popnn.pool import AVERAGE_POOL, MAX_POOL

_random = np.random.default_rng(0)
#: Stride, dilation, shift and taps along one dimension.
_WINDOWS = ((2, 1, 0, 2), (1, 1, -1, 3), (2, 1, -1, 3), (3, 2, -2, 3), (1, 1, 0, 1), (1, 3, -9, 2))


def _pooled(
    x: NDArray[Any], size: tuple[int, int], windows: Any, divisor: int | None
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the results, maxima without a divisor, and which have an element."""
    out = np.zeros((*size, x.shape[2]), x.dtype)
    has_element = np.zeros(size, bool)
    taps = windows[0][3] * windows[1][3]
    for position in np.ndindex(*size):
        offset = [
            [n * w[0] + k * w[1] + w[2] for k in range(w[3])]
            for n, w in zip(position, windows, strict=True)
        ]
        results = [
            x[i, j]
            for i in offset[0]
            for j in offset[1]
            if 0 <= i < x.shape[0] and 0 <= j < x.shape[1]
        ]
        has_element[position] = bool(results)
        if not results:
            continue
        total = results[0].copy()
        for value in results[1:]:
            total = np.maximum(total, value) if divisor is None else total + value
        if divisor:
            total = (total / np.float64(taps if divisor == 2 else len(results))).astype(x.dtype)
        out[position] = total
    return out, has_element


def _check(
    kind: str,
    shape: tuple[int, int, int],
    order: tuple[int, ...],
    windows: Any,
    divisor: int | None,
) -> None:
    x: NDArray[Any] = _random.integers(-99, 99, shape).astype(kind)
    size = (4, 5)
    expected, has_element = _pooled(x, size, windows, divisor)
    memory = np.ascontiguousarray(x.transpose(order)).ravel()
    steps = np.empty(3, np.int64)
    sizes = [shape[d] for d in order]
    for index, d in enumerate(order):
        steps[d] = int(np.prod(sizes[index + 1 :]))
    n = shape[2]
    out = np.full(size[0] * size[1] * n, 7, kind)
    out_size = np.array([*size, n])
    scalars = [number for pair in zip(*windows, strict=True) for number in pair]
    strides, dilations, shifts, taps = (scalars[k : k + 2] for k in (0, 2, 4, 6))
    (MAX_POOL if divisor is None else AVERAGE_POOL).kernel(
        memory, 0, np.array(shape), steps, out, 0, out_size, np.array([size[1] * n, n, 1]),
        *taps, *strides, *dilations, *shifts, divisor or 0,
    )  # fmt: skip
    actual = out.reshape(*size, n)
    if divisor is None:  # what has no element stays as it is
        expected[~has_element] = 7
    assert actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize("divisor", [None, 0, 1, 2])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (0, 2, 1)])
def test_windows_of_all_kinds(divisor: int | None, order: tuple[int, ...]) -> None:
    for rows in _WINDOWS:
        for columns in _WINDOWS:
            for n in (1, 3, 16, 29):
                _check("float32", (7, 8, n), order, (rows, columns), divisor)


@pytest.mark.parametrize("kind", ["int32", "int8", "uint8", "float64"])
def test_maxima_of_other_types(kind: str) -> None:
    for order in ((0, 1, 2), (2, 0, 1)):
        _check(kind, (7, 8, 21), order, ((2, 1, -1, 3), (2, 1, -1, 3)), None)


def test_a_maximum_is_nan_if_an_element_is() -> None:
    for n in (1, 16):
        x = np.ones((4, 4, n), np.float32)
        x[1, 2, 0] = np.nan
        out = np.zeros((2, 2, n), np.float32)
        size, steps = np.array(out.shape), np.array([2 * n, n, 1])
        MAX_POOL.kernel(
            x.ravel(), 0, np.array(x.shape), np.array([4 * n, n, 1]), out.reshape(-1), 0, size,
            steps, 2, 2, 2, 2, 1, 1, 0, 0, 0,
        )  # fmt: skip
        assert np.argwhere(np.isnan(out)).tolist() == [[0, 1, 0]]
