"""Products with static sparse matrices against scipy, and the naive machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from tests.oracle.compared import held, near, run_both, small_machine
from tests.oracle.drawn_graphs import machines, views
from tests.oracle.sparse_matrices import new_builder, random_matrix

from tilescope.engine import Engine, compile_programs, resolve_options
from tilescope.engine.errors import BadGraph
from tilescope.engine.library.popsparse.static_product import (
    create_dense_sparse_matmul_lhs,
    create_dense_sparse_matmul_rhs,
    create_sparse_dense_matmul_lhs,
    create_sparse_dense_matmul_rhs,
    dense_sparse_matmul,
    sparse_dense_matmul,
)
from tilescope.engine.library.sparse_matrix import (
    CooMatrix,
    CscMatrix,
    CsrMatrix,
    from_dense,
)
from tilescope.engine.library.sparse_tensor import StaticMatMulParams

SIZES = (1, 4, 8, 16)


def bsr(matrix: Any) -> Any:
    """Return scipy's matrix of the arrays of the format, in blocks of compressed rows."""
    b = matrix.block_size
    csr = matrix.to_csr()
    blocks = np.asarray(csr.values).reshape(-1, b, b)
    ends = np.asarray(csr.row_indices) // (b * b)
    shape = (matrix.n_rows, matrix.n_columns)
    return sparse.bsr_matrix((blocks, np.asarray(csr.column_indices) // b, ends), shape=shape)


@settings(max_examples=6, deadline=None)
@given(st.data(), machines(), st.sampled_from(SIZES), st.booleans(), st.integers(0, 99))
def test_operands_of_any_layout(
    data: Any, machine: Any, size: int, is_right: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    m, k = (size * data.draw(st.integers(1, 4)) for _ in range(2))
    n = data.draw(st.integers(1, 9))
    builder = new_builder(machine)
    shape = (k, m) if is_right else (m, k)
    matrix = random_matrix(random, *shape, size, data.draw(st.sampled_from([0.0, 0.3, 1.0])))
    params = StaticMatMulParams(m, k, n, is_dense_sparse=is_right)
    dense = data.draw(views(builder.graph, (n, k) if is_right else (k, n), "float32", "dense"))
    values = random.normal(size=dense.shape).astype(np.float32)
    if is_right:
        tensor = create_dense_sparse_matmul_rhs(builder, params, matrix)
        out = dense_sparse_matmul(builder, dense, tensor)
        expected = values @ bsr(matrix)
    else:
        tensor = create_sparse_dense_matmul_lhs(builder, params, matrix)
        out = sparse_dense_matmul(builder, tensor, dense)
        expected = bsr(matrix) @ values
    inputs = [(dense, values)]
    if matrix.pattern.n_blocks:
        inputs.append((tensor.values, tensor.values_of(matrix)))
    _, (actual,) = run_both(builder.graph, builder.sequence, inputs, [out])
    near(actual, expected, k, "float32")


#: Two of the eight programs run with every test run.
SEEDS = [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))]


@pytest.mark.parametrize("seed", SEEDS)
def test_two_hundred_random_matrices_and_patterns(seed: int) -> None:
    """25 products of one program, in every format, size of blocks and type."""
    random = np.random.default_rng(seed)
    builder = new_builder(small_machine(24))
    products = []
    for i in range(25):
        size, dtype = SIZES[i % 4], ("float32", "float16")[i // 4 % 2]
        m, k, n = (int(random.integers(1, 40 // size + 3)) * size for _ in range(3))
        is_right = bool(random.integers(2))
        shape = (k, m) if is_right else (m, k)
        matrix = random_matrix(random, *shape, size, random.uniform(0.02, 1))
        params = StaticMatMulParams(m, k, n, is_dense_sparse=is_right)
        if is_right:
            dense = create_dense_sparse_matmul_lhs(builder, params, matrix, dtype=dtype)
            tensor = create_dense_sparse_matmul_rhs(builder, params, matrix, dtype=dtype)
            out = dense_sparse_matmul(builder, dense, tensor)
        else:
            dense = create_sparse_dense_matmul_rhs(builder, params, matrix, dtype=dtype)
            tensor = create_sparse_dense_matmul_lhs(builder, params, matrix, dtype=dtype)
            out = sparse_dense_matmul(builder, tensor, dense)
        values = random.normal(size=dense.shape).astype(np.float32)
        products.append((matrix, tensor, dense, values, out, dtype))
    executable = compile_programs(builder.graph, [builder.sequence])
    with Engine(executable, resolve_options(environ={})) as engine:
        for matrix, tensor, dense, values, _, _ in products:
            engine.write_tensor(dense, values)
            if matrix.pattern.n_blocks:
                engine.write_tensor(tensor.values, tensor.values_of(matrix))
        engine.run()
        for matrix, tensor, dense, values, out, dtype in products:
            right, left = held(builder.graph, dense, values), bsr(matrix)
            if matrix.pattern.n_blocks:
                blocks = held(builder.graph, tensor.values, tensor.values_of(matrix))
                left = bsr(tensor.matrix_of(blocks))
            expected = right @ left if tensor.params.is_dense_sparse else left @ right
            near(engine.read_tensor(out), expected, tensor.params.k, dtype)


@pytest.mark.parametrize("size", SIZES)
def test_formats_are_those_of_scipy(size: int) -> None:
    random = np.random.default_rng(size)
    matrix = random_matrix(random, 3 * size, 5 * size, size, 0.5)
    dense = matrix.to_dense()
    np.testing.assert_array_equal(bsr(matrix).toarray(), dense)
    np.testing.assert_array_equal(bsr(matrix.transposed()).toarray(), dense.T)
    for other in (matrix.to_csr(), matrix.to_csc(), matrix.to_coo(), from_dense(dense, size)):
        np.testing.assert_array_equal(other.to_dense(), dense)
    if size == 1:
        columns = matrix.to_csc()
        theirs = sparse.csc_matrix(dense)
        np.testing.assert_array_equal(columns.values, theirs.data)
        np.testing.assert_array_equal(columns.column_indices, theirs.indptr)
        np.testing.assert_array_equal(columns.row_indices, theirs.indices)


def test_values_change_between_runs_and_come_back() -> None:
    random = np.random.default_rng(0)
    builder = new_builder(small_machine(8))
    matrix = random_matrix(random, 16, 24, 4, 0.4)
    tensor = create_sparse_dense_matmul_lhs(builder, StaticMatMulParams(16, 24, 8), matrix)
    x = create_sparse_dense_matmul_rhs(builder, StaticMatMulParams(16, 24, 8), matrix)
    out = sparse_dense_matmul(builder, tensor, x)
    executable = compile_programs(builder.graph, [builder.sequence])
    with Engine(executable, resolve_options(environ={})) as engine:
        for factor in (1, -2):
            scaled = CsrMatrix.of_blocks(matrix.pattern, matrix.blocks * factor)
            engine.write_tensor(tensor.values, tensor.values_of(scaled))
            engine.write_tensor(x, np.eye(24, 8, dtype=np.float32))
            engine.run()
            np.testing.assert_array_equal(engine.read_tensor(out), scaled.to_dense()[:, :8])
            back = tensor.matrix_of(engine.read_tensor(tensor.values))
            np.testing.assert_array_equal(back.to_dense(), scaled.to_dense())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CsrMatrix(4, 4, [1.0], [0], [0, 1]), "has 2 ends and 1 indices: expected 5"),
        (lambda: CsrMatrix(2, 4, [1.0], [4], [0, 1, 1]), "column index 4: expected 0 to 3"),
        (lambda: CscMatrix(2, 2, [1.0], [0, 0, 0], [0]), "do not ascend from 0 to 1"),
        (lambda: CooMatrix(4, 4, [1.0, 2.0], [1, 1], [0, 0]), "two blocks at row 0, column 1"),
        (lambda: CooMatrix(8, 8, [1.0] * 16, [1], [4], 4), "index 1 is inside of a block of 4 x 4"),
        (lambda: CooMatrix(8, 8, [1.0] * 9, [0], [0], 3), "have 3 rows and columns: use 1, 4, 8"),
        (lambda: CooMatrix(6, 8, [1.0] * 16, [0], [0], 4), "multiples of a block's"),
        (lambda: CooMatrix(8, 8, [1.0] * 5, [0], [0], 4), "whole blocks of 16 values"),
        (lambda: StaticMatMulParams(1, 2, 3, n_groups=2), "n_groups is 2: only 1 is supported"),
    ],
)
def test_matrices_that_are_none(make: Any, message: str) -> None:
    with pytest.raises(BadGraph, match=message):
        make()


def test_operands_of_other_products_are_refused() -> None:
    builder = new_builder(small_machine(4))
    random = np.random.default_rng(0)
    matrix, other = random_matrix(random, 8, 8, 4, 1), random_matrix(random, 8, 8, 4, 0.5)
    params = StaticMatMulParams(8, 8, 4)
    tensor = create_sparse_dense_matmul_lhs(builder, params, matrix)
    with pytest.raises(BadGraph, match="made for a pattern of 64 values"):
        tensor.values_of(other)
    with pytest.raises(BadGraph, match=r"expected \(8, 8\) by the parameters"):
        create_sparse_dense_matmul_lhs(builder, params, random_matrix(random, 4, 8, 4, 1))
    with pytest.raises(BadGraph, match="use the other allocators"):
        create_dense_sparse_matmul_rhs(builder, params, matrix)
    with pytest.raises(BadGraph, match="float16 or float32"):
        create_sparse_dense_matmul_lhs(builder, params, matrix, dtype="int32")
    x = builder.graph.add_variable("float16", (8, 4), "x")
    builder.spread(x)
    with pytest.raises(BadGraph, match=r"float16 of shape \(8, 4\): expected float32"):
        sparse_dense_matmul(builder, tensor, x)
    with pytest.raises(BadGraph, match="is the left operand of a sparse_dense_matmul"):
        dense_sparse_matmul(builder, x, tensor)


def test_a_product_that_does_not_fit_is_refused() -> None:
    builder = new_builder(small_machine(2))
    matrix = from_dense(np.ones((256, 256)), 16)
    with pytest.raises(BadGraph, match="raise available_memory_proportion, use more tiles"):
        create_sparse_dense_matmul_lhs(builder, StaticMatMulParams(256, 256, 4093), matrix)
