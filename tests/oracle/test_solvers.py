"""Triangular systems and Cholesky factors against LAPACK, and the naive machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg
from tests.oracle.compared import check, held, run_both, small_machine
from tests.oracle.drawn_graphs import machines, new_builder, views

from tilescope.engine import (
    Builder,
    Engine,
    Graph,
    compile_programs,
    load_machine,
    resolve_options,
)
from tilescope.engine.errors import BadGraph, ProgramError
from tilescope.engine.graph import View
from tilescope.engine.library.poplin.cholesky import (
    cholesky,
    cholesky_in_place,
    create_cholesky_input,
)
from tilescope.engine.library.poplin.triangular import (
    create_triangular_solve_input_lhs,
    create_triangular_solve_input_rhs,
    triangular_mask,
    triangular_solve,
)
from tilescope.engine.program import Sequence

Array = np.ndarray


def systems(shape: tuple[int, ...], seed: int) -> Array:
    """Return matrices whose triangles have diagonals far from 0."""
    random = np.random.default_rng(seed)
    return (random.uniform(-1, 1, shape) / shape[-1] + 2 * np.eye(shape[-1])).astype(np.float32)


def definite(n_batch: int, n: int, seed: int) -> Array:
    """Return symmetric matrices that are positive definite."""
    factors = np.random.default_rng(seed).uniform(-1, 1, (n_batch, n, n))
    return (factors @ factors.swapaxes(1, 2) / n + np.eye(n)).astype(np.float32)


def solved(a: Array, b: Array, *, left: bool, lower: bool, unit: bool) -> Array:
    """Return what LAPACK says, in double precision."""
    unknowns = []
    for matrix, right in zip(a.astype(np.float64), b.astype(np.float64), strict=True):
        if left:
            x = linalg.solve_triangular(matrix, right, lower=lower, unit_diagonal=unit)
        else:
            x = linalg.solve_triangular(matrix.T, right.T, lower=not lower, unit_diagonal=unit).T
        unknowns.append(x)
    return np.array(unknowns)


@settings(max_examples=5, deadline=None)
@given(st.data(), machines(), st.integers(1, 2), st.integers(1, 7), st.integers(1, 3))
def test_systems_of_any_layout(
    data: Any, machine: Any, n_batch: int, n: int, n_columns: int
) -> None:
    left, lower, unit = (data.draw(st.booleans()) for _ in range(3))
    block, seed = data.draw(st.integers(1, 8)), data.draw(st.integers(0, 99))
    graph, builder = new_builder(machine)
    shape = (n_batch, n, n_columns) if left else (n_batch, n_columns, n)
    right = np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
    operands = [
        (data.draw(views(graph, (n_batch, n, n), "float32", "a")), systems((n_batch, n, n), seed)),
        (data.draw(views(graph, shape, "float32", "b")), right),
    ]
    x = triangular_solve(
        builder, *(view for view, _ in operands),
        left_side=left, lower=lower, unit_diagonal=unit, block_size=block,
    )  # fmt: skip
    _, (actual,) = run_both(graph, builder.sequence, operands, [x])
    expected = solved(operands[0][1], right, left=left, lower=lower, unit=unit)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("n_columns", [1, 5])
def test_allocated_systems_of_several_blocks(lower: bool, n_columns: int, dtype: str) -> None:
    builder = Builder(Graph(small_machine(12)), Sequence("main"))
    shapes = (2, 12, 12), (2, 12, n_columns)
    a = create_triangular_solve_input_lhs(builder, *shapes, dtype=dtype, block_size=4)
    b = create_triangular_solve_input_rhs(builder, *shapes, dtype=dtype)
    x = triangular_solve(builder, a, b, lower=lower, block_size=4)
    matrices = held(builder.graph, a, systems(shapes[0], 0))
    right = held(builder.graph, b, np.random.default_rng(0).uniform(-1, 1, shapes[1]))
    operands = [(a, matrices), (b, right)]
    _, (actual,) = run_both(builder.graph, builder.sequence, operands, [x])
    near = 1e-4 if dtype == "float32" else 1e-2
    expected = solved(matrices, right, left=True, lower=lower, unit=False)
    np.testing.assert_allclose(actual, expected, rtol=near, atol=near)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_masks(lower: bool, unit: bool) -> None:
    builder = Builder(Graph(small_machine(5)), Sequence("main"))
    a = builder.graph.add_variable("float32", (2, 2, 4, 4), "a")
    builder.spread(a)
    values = np.random.default_rng(0).normal(size=a.shape).astype(np.float32)
    out = triangular_mask(builder, a, lower=lower, unit_diagonal=unit)
    (actual,) = check(builder, [(a, values)], [out])
    expected = np.tril(values) if lower else np.triu(values)
    if unit:
        expected[..., range(4), range(4)] = 1
    np.testing.assert_array_equal(actual, expected)


@settings(max_examples=5, deadline=None)
@given(st.data(), machines(), st.integers(1, 2), st.integers(1, 9), st.booleans())
def test_factors_of_any_layout(data: Any, machine: Any, n_batch: int, n: int, lower: bool) -> None:
    seed, block = data.draw(st.integers(0, 99)), data.draw(st.integers(1, 9))
    graph, builder = new_builder(machine)
    a = data.draw(views(graph, (n_batch, n, n), "float32", "a"))
    matrices = definite(n_batch, n, seed)
    factors = cholesky(builder, a, lower=lower, block_size=block)
    (actual,) = check(builder, [(a, matrices)], [factors])
    expected = np.linalg.cholesky(matrices.astype(np.float64))
    expected = expected if lower else expected.swapaxes(1, 2)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_only_one_triangle_is_read_and_a_matrix_that_is_not_definite_gives_nan() -> None:
    builder = Builder(Graph(small_machine(6)), Sequence("main"))
    a = create_cholesky_input(builder, (2, 6, 6), block_size=2)
    matrices = definite(2, 6, 0)
    expected = np.linalg.cholesky(matrices[0].astype(np.float64))
    matrices[0] = np.tril(matrices[0]) + np.triu(np.full((6, 6), 1e9), 1)
    matrices[1, 3, 3] = -1
    cholesky_in_place(builder, a, block_size=2)
    executable = compile_programs(builder.graph, [builder.sequence])
    with Engine(executable, resolve_options(environ={})) as engine:
        engine.write_tensor(a, matrices)
        engine.run()
        actual = engine.read_tensor(a)
    np.testing.assert_allclose(actual[0], expected, rtol=1e-4, atol=1e-5)
    assert not np.isnan(actual[1, :3]).any()
    assert np.isnan(actual[1, 3, 3])


def test_equal_products_and_substitutions_exist_once() -> None:
    """Of four blocks in a row: two sizes of products, one substitution."""
    builder = Builder(Graph(small_machine(16)), Sequence("main"))
    shapes = (1, 16, 16), (1, 16, 16)
    a = create_triangular_solve_input_lhs(builder, *shapes, block_size=4)
    b = create_triangular_solve_input_rhs(builder, *shapes)
    triangular_solve(builder, a, b, block_size=4)
    executable = compile_programs(builder.graph, [builder.sequence])
    assert sorted(function.name for function in executable.functions) == [
        "product", "product", "substitute",
    ]  # fmt: skip


def test_cycles_of_a_vertex_by_its_published_estimate() -> None:
    """(11 x 5 + 74) x 16 rounds x 6 workers, and 9 a round and 21 of the supervisor."""
    machine = load_machine("gc200", tiles_per_ipu=4, parameter_set="ipu_model")
    builder = Builder(Graph(machine), Sequence("main"))
    a, b = (builder.graph.add_variable("float32", shape, "v") for shape in ((64, 64), (64, 1)))
    for tensor in (a, b):
        builder.spread(tensor)
    triangular_solve(builder, a, b, unit_diagonal=True)
    factors = builder.graph.add_variable("float32", (8, 8), "definite")
    builder.spread(factors)
    cholesky(builder, factors)
    steps = compile_programs(builder.graph, [builder.sequence]).steps
    cycles = {
        step.name.rpartition("/")[2]: int(step.cost.tile_cycles.dense().max())
        for step in steps
        if step.kind == "OnTileExecute"
    }
    assert cycles["triangularSolve"] == (11 * 5 + 74) * 16 * 6 + 9 * 16 + 21
    assert cycles["cholesky"] == 6 * (8**3 + 102 * 8**2 + 101 * 8 + 102)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b, v: triangular_solve(b, v((2, 3)), v((2, 3))), r"matrices have shape \(2, 3\)"),
        (
            lambda b, v: triangular_solve(b, v((2, 3, 3)), v((2, 4, 1))),
            r"right sides have shape \(2, 4, 1\): expected \(2, 3, k\)",
        ),
        (
            lambda b, v: triangular_solve(b, v((3, 3)), v((2, 4)), left_side=False),
            r"expected \(k, 3\)",
        ),
        (
            lambda b, v: triangular_solve(b, v((3, 3)), v((3, 1), "float16")),
            "is float32 and 'v' float16: cast one",
        ),
        (lambda b, v: triangular_mask(b, v((3, 3), "int32")), "expected float16 or float32"),
        (lambda b, v: cholesky(b, v((3, 4))), r"expected \(\.\.\., n, n\)"),
        (lambda b, v: cholesky(b, v((3, 3)), block_size=0), "block_size of"),
    ],
)
def test_what_does_not_fit_is_said(call: Any, message: str) -> None:
    builder = Builder(Graph(small_machine(2)), Sequence("main"))

    def variable(shape: tuple[int, ...], dtype: str = "float32") -> View:
        tensor = builder.graph.add_variable(dtype, shape, "v")
        builder.spread(tensor)
        return tensor

    with pytest.raises(BadGraph, match=message):
        call(builder, variable)


@pytest.mark.parametrize("lower", [True, False])
def test_a_checked_factor_names_the_matrices_that_are_not_definite(lower: bool) -> None:
    builder = Builder(Graph(small_machine(6)), Sequence("main"))
    a = create_cholesky_input(builder, (3, 6, 6), block_size=2)
    factors = cholesky(builder, a, lower=lower, block_size=2, is_checked=True)
    executable = compile_programs(builder.graph, [builder.sequence])
    matrices = definite(3, 6, 0)
    with Engine(executable, resolve_options(environ={})) as engine:
        engine.write_tensor(a, matrices)
        engine.run()
        expected = np.linalg.cholesky(matrices.astype(np.float64))
        expected = expected if lower else expected.swapaxes(1, 2)
        np.testing.assert_allclose(engine.read_tensor(factors), expected, rtol=1e-4, atol=1e-5)
        matrices[1, 3, 3] = -1
        engine.write_tensor(a, matrices)
        with pytest.raises(ProgramError, match=r"'cholesky' takes .* with True are not; add"):
            engine.run()
