"""Rows of products at all alignments of their operands, and the kernel of convolutions."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle import naive_codelets

from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._addresses import AT_ONCE, address, list_places
from tilescope.engine.host.kernels._convolve import convolve
from tilescope.engine.host.kernels._lanes import (
    DOT_BLOCKS,
    DOT_LANES,
    EACH_BLOCKS,
    GROUPS,
    LARGEST,
    SEVERAL_OUTPUTS,
    SPREAD_BLOCKS,
    dot_kernel,
    each_kernel,
    row_kernel,
)

_COUNTS = (0, 1, 2, 9, 35)


def _chain(x: np.ndarray, w: np.ndarray) -> np.float32:
    """Return the sum of products, rounded once for each of them."""
    total = 0.0
    for value, weight in zip(x, w, strict=True):  # the exact product of two floats is a double
        total = float(np.float32(math.fsum([float(value) * float(weight), total])))
    return np.float32(total)


def _compare(
    kernel: Any,
    n_lanes: int,
    *,
    steps: tuple[int, int],
    n_own: int = 0,
    n_groups: int = 2,
    apart: tuple[int, int] | None = None,
) -> None:
    """Compare a kernel with sums of integers, which are exact in any order.

    The outputs and the weights of groups of lanes are `apart`.
    """
    x_step, w_pitch = steps
    x_lanes = np.arange(n_lanes) // (n_own or n_lanes)
    # The lanes of outputs and of weights, from the first.
    n_together = max(n_lanes // n_groups, 1)
    out_half, w_half = apart or (n_together, n_together)
    group, lane = np.divmod(np.arange(n_lanes), n_together)
    out_lanes, w_lanes = (group * distance + lane for distance in (out_half, w_half))

    @jit
    def run(out, at, out_places, x, x_places, w, tap_x, tap_w, count, n):
        kernel(address(out, at), address(out_places, 0), out_half, address(x, 1),
               address(x_places, 0), x_step, address(w, 3), w_pitch, w_half, address(tap_x, 0),
               address(tap_w, 0), tap_x.size, count, n)  # fmt: skip

    random = np.random.default_rng(n_lanes)
    tap_x, tap_w = np.array([0, 7]), np.array([5, 0])
    counts = (1,) if n_own else _COUNTS
    for n_pixels, offset, count in product((1, 2, 3, 5, 8, 13), (0, 1, 16), counts):
        held = np.minimum(np.arange(-(-n_pixels // LARGEST) * LARGEST), n_pixels - 1)
        out = random.integers(-4, 4, offset + 40 * n_pixels + 16 + n_groups * out_half).astype(
            np.float32
        )
        x = random.integers(-4, 4, 90 + 40 * n_pixels).astype(np.float32)
        w = random.integers(-4, 4, 50 + n_groups * w_half + 34 * max(count, 1)).astype(np.float32)
        expected = out.copy()
        for p in range(n_pixels):
            total = np.zeros(n_lanes)
            for tap, i in product(range(2), range(count)):
                source = 1 + p * 40 + tap_x[tap] + i * x_step
                row = 3 + tap_w[tap] + i * w_pitch
                total += x[source + x_lanes] * w[row + w_lanes]
            expected[offset + p * 40 + out_lanes] = total
        run(out, offset, held * 40, x, held * 40, w, tap_x, tap_w, count, n_pixels)
        assert out.tolist() == expected.tolist()


@pytest.mark.parametrize(("n_lanes", "n_groups"), GROUPS)
def test_rows_hold_their_products_at_any_alignment(n_lanes: int, n_groups: int) -> None:
    _compare(row_kernel(n_lanes, n_groups), n_lanes, steps=(2, 34), n_groups=n_groups)


@pytest.mark.parametrize(("n_lanes", "n_groups"), GROUPS)
def test_groups_of_outputs_share_their_inputs(n_lanes: int, n_groups: int) -> None:
    """A group is as far as all pixels of the one before, and beyond its weights."""
    kernel = row_kernel(n_lanes, n_groups)
    _compare(kernel, n_lanes, steps=(2, 34), n_groups=n_groups, apart=(600, 1300))


@pytest.mark.parametrize("n_lanes", EACH_BLOCKS)
def test_outputs_have_inputs_of_their_own(n_lanes: int) -> None:
    _compare(each_kernel(n_lanes), n_lanes, steps=(1, 18), n_own=1)


@pytest.mark.parametrize("n_lanes", [8, 16])
def test_inputs_have_several_outputs_of_their_own(n_lanes: int) -> None:
    kernel = each_kernel(n_lanes, SEVERAL_OUTPUTS)
    _compare(kernel, n_lanes, steps=(1, 18), n_own=SEVERAL_OUTPUTS)


@pytest.mark.parametrize("n_outputs", DOT_BLOCKS)
def test_dot_products_take_contiguous_inputs(n_outputs: int) -> None:
    kernel = dot_kernel(n_outputs)
    _compare(kernel, n_outputs, steps=(1, 1), n_groups=n_outputs, apart=(600, 1300))


@pytest.mark.parametrize("n_inputs", [16, 32, 35, 47])
def test_a_dot_product_is_the_same_chains_whatever_the_block(n_inputs: int) -> None:
    """Sums of one pixel and output are the same bits as those of many: every lane in order."""
    random = np.random.default_rng(n_inputs)
    x = random.standard_normal((13, n_inputs)).astype(np.float32)
    w = random.standard_normal((7, n_inputs)).astype(np.float32)

    def products(x: np.ndarray, w: np.ndarray, step: int) -> np.ndarray:
        out = np.zeros((len(w), len(x), step), np.float32)
        fields = (
            (x, (1, 1, 1, 1, len(x), n_inputs), (0, 0, 0, 0, n_inputs, 1)),
            (w, (1, len(w), 1, 1, 1, n_inputs, 1), (0, n_inputs, 0, 0, 0, 1, 1)),
            (out, (1, 1, len(w), 1, len(x), 1), (0, 0, len(x) * step, 0, step, 1)),
        )
        parts: list[Any] = []
        for array, size, stride in fields:
            parts += [array.reshape(-1), 0, np.array(size), np.array(stride)]
        convolve(*parts, 1, 1, 1, 1, 0, 0, 1, 1)
        return out[..., 0]

    full = products(x, w, 1)
    assert products(x, w, 3).tolist() == full.tolist(), "pixels of a block need not adjoin"
    for output, pixel in product(range(7), range(13)):
        single = products(x[pixel : pixel + 1].copy(), w[output : output + 1].copy(), 1)
        assert single[0, 0] == full[output, pixel]
    for first in range(7):
        assert products(x, w[first:].copy(), 1).tolist() == full[first:].tolist()
    n_padded = -(-n_inputs // DOT_LANES) * DOT_LANES
    rows = np.pad(np.stack([x[0], w[0]]), ((0, 0), (0, n_padded - n_inputs)))
    lanes = [_chain(*rows[:, lane::DOT_LANES]) for lane in range(DOT_LANES)]
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [np.float32(lanes[lane] + lanes[half + lane]) for lane in range(half)]
    if not vars(numba.config)["DISABLE_JIT"]:  # plain Python rounds products and sums
        assert full[0, 0] == lanes[0]


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 40])
def test_places_of_a_row_are_listed(n: int) -> None:
    @jit
    def run(places, first, step, n):
        list_places(address(places, 1), first, step, n)

    positions = np.full(n + AT_ONCE + 1, -1)
    run(positions, 5, -3, n)
    assert positions[: n + 1].tolist() == [-1, *range(5, 5 - 3 * n, -3)]
    assert positions[n + AT_ONCE] == -1, "no more than a few entries are written after them"


def _convolved(
    case: dict[str, int],
    inside: int,
    combined: int,
    seed: int,
    *,
    apart: int = 1,
    n_requested: int | None = None,
) -> tuple[Any, Any]:
    """Return the outputs of the kernel and of the oracle, for a small convolution.

    The inputs of neighbouring pixels are `apart` times their number apart.

    Weights between combined groups are zero for the oracle, and no number for the kernel. Those of
    outputs that are not requested are zero for both.
    """
    n_requested = n_requested or case["n_out"]
    random = np.random.default_rng(seed)
    n_in, n_out = case["n_in"] * combined, case["n_out"] * combined * inside
    sizes = {
        "x": (2, 2, case["groups"], case["height"], case["width"], n_in * inside),
        "w": (2, case["out_groups"], case["groups"], case["ky"], case["kx"], n_in, n_out),
        "out": (2, 2, case["out_groups"], case["rows"], case["columns"], n_out),
    }
    arrays = {n: random.integers(-4, 4, s).astype(np.float32) for n, s in sizes.items()}
    names = ("stride_y", "stride_x", "dilation_y", "dilation_x", "shift_y", "shift_x")
    scalars = {name: case[name] for name in names}
    arrays["w"].reshape(-1, case["n_out"])[:, n_requested:] = 0
    fields = {name: arrays[name].astype(np.float64) for name in ("x", "w")}
    if combined > 1:
        local = np.kron(np.eye(combined), np.ones((case["n_in"], case["n_out"])))
        fields["w"] *= local
        arrays["w"][..., local == 0] = np.nan
    parts: list[Any] = []
    for name, array in arrays.items():
        strides = np.array(array.strides) // 4
        flat = array.reshape(-1)
        if name == "x":
            flat = np.repeat(flat.reshape(-1, n_in * inside), apart, axis=0).reshape(-1)
            strides[:-1] *= apart
        parts += [flat, 0, np.array(array.shape), strides]

    convolve(*parts, *scalars.values(), combined, n_requested)
    return arrays["out"], naive_codelets._convolve(fields, scalars, sizes["out"])


_CASES = {
    "n_in": (1, 2, 17),
    "n_out": (1, 3, 8, 21),
    "groups": (1, 2),
    "out_groups": (1, 2, 3, 7),
    "height": (1, 5),
    "width": (1, 6),
    "ky": (1, 3),
    "kx": (1, 3),
    "rows": (1, 4),
    "columns": (1, 11),
    "stride_y": (1, 2),
    "stride_x": (1, 2),
    "dilation_y": (1, 2),
    "dilation_x": (1, 3),
    "shift_y": (-4, 0, 2),
    "shift_x": (-4, -1, 2),
}


@given(
    st.fixed_dictionaries({name: st.sampled_from(values) for name, values in _CASES.items()}),
    st.sampled_from(((1, 1), (5, 1), (1, 3), (1, 8), (1, 16))),
    st.integers(0, 9),
)
def test_convolutions_are_those_of_the_oracle(
    case: dict[str, int], groups: tuple[int, int], seed: int
) -> None:
    actual, expected = _convolved(case, *groups, seed)
    assert actual.tolist() == expected.tolist()


@given(
    st.fixed_dictionaries({name: st.sampled_from(values) for name, values in _CASES.items()}),
    st.sampled_from((2, 3, 4, 5, 8)),
    st.sampled_from((8, 19, 33, 70)),
    st.sampled_from((1, 3)),
    st.sampled_from(list(SPREAD_BLOCKS)),
    st.integers(0, 9),
)
def test_inputs_of_several_pixels_are_computed_together(
    case: dict[str, int],
    combined: int,
    columns: int,
    apart: int,
    outputs: tuple[int, int],
    seed: int,
) -> None:
    """Depthwise convolutions with a few outputs per input, of rows alone and beside others."""
    n_own, n_requested = outputs
    local = case | {"n_in": 1, "n_out": n_own, "rows": 9, "columns": columns, "height": 8}
    local |= {"width": columns + 1, "stride_x": 1}
    actual, expected = _convolved(local, 1, combined, seed, apart=apart, n_requested=n_requested)
    assert actual.tolist() == expected.tolist()


@pytest.mark.skipif(
    bool(vars(numba.config)["DISABLE_JIT"]), reason="plain Python rounds products and sums"
)
def test_a_sum_is_one_chain_whatever_the_block() -> None:
    """Sums of one pixel alone and of many are the same bits: rounded once per product, in order."""
    random = np.random.default_rng(0)
    x = random.standard_normal((13, 24)).astype(np.float32)
    w = random.standard_normal((24, 29)).astype(np.float32)
    size = {"x": (1, 1, 1, 1, 13, 24), "w": (1, 1, 1, 1, 1, 24, 29), "out": (1, 1, 1, 1, 13, 29)}

    def columns(first: int, last: int, pixel: int, n: int) -> np.ndarray:
        out = np.zeros((n, last - first), np.float32)
        arrays = (x[pixel : pixel + n].copy(), w[:, first:last].copy(), out)
        parts: list[Any] = []
        for name, array in zip(size, arrays, strict=True):
            lengths = np.array(size[name])
            lengths[-2:] = array.shape
            strides = np.array([0] * (len(lengths) - 2) + [array.shape[1], 1])
            parts += [array.reshape(-1), 0, lengths, strides]
        convolve(*parts, 1, 1, 1, 1, 0, 0, 1, 1)
        return out

    full = columns(0, 29, 0, 13)
    for first, last in ((0, 4), (3, 5), (5, 13), (13, 29)):
        for pixel in (0, 7, 12):
            assert (
                columns(first, last, pixel, 1).tolist()
                == full[pixel : pixel + 1, first:last].tolist()
            )
    assert full[0, 0] == _chain(x[0], w[:, 0])
