"""Vertices whose windows adjoin are computed in one piece, and every tap as before."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilescope.engine.codelets.poplin.convolution import CONV_PARTIAL_1X1, CONV_PARTIAL_NX1
from tilescope.engine.execute.join import MOST_JOINED, Blocks, join

_WIDTH, _INPUTS, _OUTPUTS = 11, 3, 4


def _vertex(first: tuple[int, int], size: tuple[int, int], case: dict[str, int]) -> Any:
    """Return start, size and stride of x, w and out, and the scalars, of a part of the field."""
    n_taps, stride, dilation, pad = (case[n] for n in ("taps", "stride", "dilation", "pad"))
    origin = [f * stride - pad for f in first]
    low = [max(0, o) for o in origin]
    reach = [(n - 1) * stride + (n_taps - 1) * dilation + 1 for n in size]
    high = [min(_WIDTH, o + r) for o, r in zip(origin, reach, strict=True)]
    shift = [o - b for o, b in zip(origin, low, strict=True)]
    x_size = [max(0, h - b) for h, b in zip(high, low, strict=True)]
    x = (
        low[0] * _WIDTH * _INPUTS + low[1] * _INPUTS,
        [1, 1, 1, *x_size, _INPUTS],
        [0, 0, 0, _WIDTH * _INPUTS, _INPUTS, 1],
    )
    w = (0, [1, 1, 1, n_taps, n_taps, _INPUTS, _OUTPUTS], [0, 0, 0, 40, 12, 4, 1])
    out = (
        1000 + first[0] * 20 * _OUTPUTS + first[1] * _OUTPUTS,
        [1, 1, 1, *size, _OUTPUTS],
        [0, 0, 0, 20 * _OUTPUTS, _OUTPUTS, 1],
    )
    return (x, w, out), (stride, stride, dilation, dilation, *shift, 1, _OUTPUTS)


def _taps(blocks: Blocks) -> list[tuple[int, int, int, int]]:
    """Return output, tap and input element of every multiplication's pixel."""
    results = []
    for v in range(len(blocks)):
        (x0, _, o0), sizes, strides = (
            [column[v] for column in part] for part in (blocks.start, blocks.size, blocks.stride)
        )
        sy, sx, dy, dx, hy, hx, *_ = (int(column[v]) for column in blocks.scalars)
        field = product(*map(range, sizes[2][:5]), *map(range, sizes[1][3:5]))
        for group, image, out_group, oy, ox, ky, kx in field:
            iy, ix = oy * sy + ky * dy + hy, ox * sx + kx * dx + hx
            is_inside = 0 <= iy < sizes[0][3] and 0 <= ix < sizes[0][4]
            offset = int(x0 + iy * strides[0][3] + ix * strides[0][4]) if is_inside else -1
            offset += int(group * strides[0][0] + image * strides[0][1]) if is_inside else 0
            out = int(o0 + np.dot([group, image, out_group, oy, ox], strides[2][:5]))
            results.append((out, int(ky), int(kx), offset))
    return sorted(results)


@pytest.mark.parametrize(("n_outputs", "expected"), [(1, (4, 2)), (8, (4, 2)), (16, (2, 4))])
def test_groups_of_outputs_that_a_kernel_computes_together_are_joined_first(
    n_outputs: int, expected: tuple[int, int]
) -> None:
    """Inputs are loaded once for four groups of 1 or 8 outputs, and for two of others."""
    n_groups, n_pixels, n_inputs = 8, 16, 32
    group, pixel = (axis.reshape(-1) for axis in np.mgrid[:n_groups, :n_pixels])
    fields = (
        (pixel * n_inputs, [1, 1, 1, 1, 1, n_inputs], [0, 0, 0, 0, n_inputs, 1]),
        (
            group * n_inputs * n_outputs,
            [1, 1, 1, 1, 1, n_inputs, n_outputs],
            [0, n_inputs * n_outputs, 0, 0, 0, n_outputs, 1],
        ),
        (
            (group * n_pixels + pixel) * n_outputs,
            [1, 1, 1, 1, 1, n_outputs],
            [0, 0, n_pixels * n_outputs, 0, n_outputs, 1],
        ),
    )
    n = group.size
    blocks = Blocks(
        [start for start, _, _ in fields],
        [np.tile(size, (n, 1)) for _, size, _ in fields],
        [np.tile(stride, (n, 1)) for _, _, stride in fields],
        [np.full(n, number) for number in (1, 1, 1, 1, 0, 0, 1, 1)],
        np.full(n, MOST_JOINED // 8),
    )
    joined = join(CONV_PARTIAL_1X1, blocks)
    sizes = {(int(size[2]), int(size[4])) for size in joined.size[2]}
    assert sizes == {expected}


def test_sums_of_one_tap_are_joined_over_the_whole_field() -> None:
    """Taps that meet in an input do not tear columns: windows are joined before groups."""
    width, n_taps = 8, 3
    tap, column = (axis.reshape(-1) for axis in np.mgrid[:n_taps, :width])
    origin = column + tap - 1
    first = np.clip(origin, 0, width - 1)
    n = tap.size
    fields = (
        (first * 2, [1, 1, 1, 1, 1, 2], [0, 0, 0, 16, 2, 1]),
        (tap * 16, [1, 1, 1, 1, 1, 2, 8], [0, 0, 0, 48, 16, 8, 1]),
        ((tap * width + column) * 8, [1, 1, 1, 1, 1, 8], [0, 0, 0, 64, 8, 1]),
    )
    blocks = Blocks(
        [start for start, _, _ in fields],
        [np.tile(size, (n, 1)) for _, size, _ in fields],
        [np.tile(stride, (n, 1)) for _, _, stride in fields],
        [*np.ones((4, n), np.int64), 0 * first, origin - first, *np.ones((2, n), np.int64)],
        np.full(n, 16),
    )
    joined = join(CONV_PARTIAL_NX1, blocks)
    assert joined.size[2][:, 4].tolist() == [width] * n_taps
    assert _taps(joined) == _taps(blocks)


_CASES = st.fixed_dictionaries(
    {
        "taps": st.integers(1, 4),
        "stride": st.integers(1, 3),
        "dilation": st.integers(1, 2),
        "pad": st.integers(0, 4),
    }
)


def _blocks(cuts: tuple[list[int], list[int]], case: dict[str, int]) -> Blocks:
    vertices = []
    for y, x in product(*(pairwise(c) for c in cuts)):
        vertices.append(_vertex((y[0], x[0]), (y[1] - y[0], x[1] - x[0]), case))
    start, size, stride = (
        [np.array([vertex[0][field][part] for vertex in vertices]) for field in range(3)]
        for part in range(3)
    )
    scalars: list[Any] = list(np.array([vertex[1] for vertex in vertices]).T)
    return Blocks(start, size, stride, scalars, np.ones(len(vertices), np.int64))


@given(_CASES, *(st.lists(st.integers(1, 4), min_size=1, max_size=5) for _ in range(2)))
def test_joined_windows_take_the_same_elements(
    case: dict[str, int], rows: list[int], columns: list[int]
) -> None:
    cuts = ([0, *np.cumsum(rows).tolist()], [0, *np.cumsum(columns).tolist()])
    blocks = _blocks(cuts, case)
    joined = join(CONV_PARTIAL_NX1, blocks)
    assert _taps(joined) == _taps(blocks)
    assert joined.work.sum() == len(blocks)


def test_a_padded_field_is_one_piece() -> None:
    """11 x 11 outputs of 3 x 3 taps with one element of padding, in parts of 2 rows, 3 columns."""
    case = {"taps": 3, "stride": 1, "dilation": 1, "pad": 1}
    joined = join(CONV_PARTIAL_NX1, _blocks(([0, 2, 4, 6, 8, 11], [0, 3, 6, 9, 11]), case))
    assert len(joined) == 1
    assert joined.size[0].tolist() == [[1, 1, 1, 11, 11, _INPUTS]]
    assert joined.size[2].tolist() == [[1, 1, 1, 11, 11, _OUTPUTS]]
    assert [int(shift[0]) for shift in joined.scalars[4:6]] == [-1, -1]


def test_two_groups_of_outputs_are_one_piece_where_their_inputs_are_the_same() -> None:
    # Five groups of outputs of two halves of a field, with too much work for more than two.
    case = {"taps": 1, "stride": 1, "dilation": 1, "pad": 0}
    parts = [_vertex((row, 0), (4, 8), case) for row in (0, 4)]
    vertices = [(part, group) for group in range(5) for part in range(2)]

    def column(field: int, kind: int, group_stride: int) -> np.ndarray[Any, Any]:
        values = [parts[part][0][field][kind] for part, _ in vertices]
        offset = [group * group_stride for _, group in vertices]
        return np.asarray(values, np.int64) + (np.asarray(offset) if kind == 0 else 0)

    strides = (0, 60, 900)
    start, size, stride = (
        [column(field, kind, strides[field]) for field in range(3)] for kind in range(3)
    )
    scalars = [np.array([parts[part][1][k] for part, _ in vertices]) for k in range(8)]
    work = np.full(len(vertices), MOST_JOINED)
    blocks = Blocks(start, size, stride, scalars, work)
    joined = join(CONV_PARTIAL_NX1, blocks)
    assert joined.size[2][:, 2].tolist() == [2, 2, 2, 2, 1, 1]
    assert joined.stride[2][:4, 2].tolist() == [900] * 4
    assert joined.work.tolist() == [2 * MOST_JOINED] * 4 + [MOST_JOINED] * 2
    assert _taps(joined) == _taps(blocks)
