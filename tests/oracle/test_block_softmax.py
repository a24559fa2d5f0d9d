"""Softmax of block-sparse matrices against numpy, and the naive machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.oracle.compared import check, held, small_machine
from tests.oracle.sparse_matrices import new_builder, random_matrix

from tilescope.engine.errors import BadGraph
from tilescope.engine.library.popsparse.block_softmax import (
    bs_softmax,
    bs_softmax_grad,
    bs_softmax_in_place,
)
from tilescope.engine.library.sparse_matrix import CsrMatrix

_TRIANGLES: dict[str, Any] = {
    "none": np.ones_like,
    "zero_upper_triangle": np.tril,
    "zero_lower_triangle": np.triu,
}


def _matrix(size: int, seed: int = 0) -> Any:
    """Return a matrix with rows of many, few and no blocks, and one on every second diagonal."""
    random = np.random.default_rng(seed)
    return random_matrix(random, 6 * size, 5 * size, size, 0.5)


def _expected(values: Any, pattern: Any, mask: str) -> Any:
    """Return the softmax of the elements of a pattern and a mask, zeros elsewhere."""
    dense = CsrMatrix.of_blocks(pattern, values).to_dense().astype(np.float64)
    is_stored = CsrMatrix.of_blocks(pattern, np.ones_like(values)).to_dense() != 0
    is_stored &= _TRIANGLES[mask](np.ones(dense.shape)) != 0
    powers = np.where(is_stored, np.exp(dense), 0)
    total = powers.sum(axis=1, keepdims=True)
    return powers / np.where(total, total, 1)


def _dense(blocks: Any, pattern: Any) -> Any:
    return CsrMatrix.of_blocks(pattern, blocks).to_dense()


@pytest.mark.parametrize("mask", _TRIANGLES)
@pytest.mark.parametrize(("size", "dtype"), [(1, "float32"), (4, "float16")])
def test_rows_add_up_to_one(size: int, dtype: str, mask: str) -> None:
    pattern, builder = _matrix(size).pattern, new_builder(small_machine(6))
    shape = (pattern.n_blocks, size, size)
    x = builder.graph.add_variable(dtype, shape, "x")
    y = builder.graph.add_variable(dtype, shape, "y")
    for tensor in (x, y):
        builder.spread(tensor)
    values = held(builder.graph, x, np.random.default_rng(1).normal(size=shape))
    out = bs_softmax(builder, x, pattern, mask)
    bs_softmax_in_place(builder, y, pattern, mask)
    results = check(builder, [(x, values), (y, values)], [out, y])
    near = 1e-5 if dtype == "float32" else 3e-3
    for result in results:
        expected = _expected(values, pattern, mask)
        np.testing.assert_allclose(_dense(result, pattern), expected, rtol=near, atol=near)


def test_gradients() -> None:
    """Against the product with the whole derivative of every row."""
    pattern, builder = _matrix(4).pattern, new_builder(small_machine(6))
    shape = (pattern.n_blocks, 4, 4)
    out = builder.graph.add_variable("float32", shape, "out")
    gradient = builder.graph.add_variable("float32", shape, "gradient")
    for tensor in (out, gradient):
        builder.spread(tensor)
    random = np.random.default_rng(2)
    softmax = _expected(random.normal(size=shape), pattern, "none")
    blocks = softmax.reshape(6, 4, 5, 4).swapaxes(1, 2)[pattern.rows, pattern.columns]
    slopes = random.normal(size=shape).astype(np.float32)
    result = bs_softmax_grad(builder, out, gradient, pattern)
    (actual,) = check(builder, [(out, blocks.astype(np.float32)), (gradient, slopes)], [result])
    given = _dense(slopes, pattern)
    expected = [(np.diag(y) - np.outer(y, y)) @ g for y, g in zip(softmax, given, strict=True)]
    np.testing.assert_allclose(_dense(actual, pattern), expected, rtol=1e-4, atol=1e-5)


def test_other_blocks_are_refused() -> None:
    pattern, builder = _matrix(4).pattern, new_builder(small_machine(2))
    x = builder.graph.add_variable("float32", (pattern.n_blocks, 4, 4), "x")
    whole = builder.graph.add_variable("int32", x.shape, "whole")
    half = builder.graph.add_variable("float16", x.shape, "half")
    for tensor in (x, whole, half):
        builder.spread(tensor)
    with pytest.raises(BadGraph, match="expected the blocks of the pattern"):
        bs_softmax(builder, x.slice(0, 0, 1), pattern)
    with pytest.raises(BadGraph, match="expected float16 or float32"):
        bs_softmax_in_place(builder, whole, pattern)
    with pytest.raises(BadGraph, match="use none, zero_upper_triangle, zero_lower_triangle"):
        bs_softmax(builder, x, pattern, "upper")
    with pytest.raises(BadGraph, match="cast one"):
        bs_softmax_grad(builder, x, half, pattern)
