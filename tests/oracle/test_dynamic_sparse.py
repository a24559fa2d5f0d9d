"""Layers whose sparse weights change their pattern, against numpy and the naive machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle.compared import held, near, run_both, small_machine
from tests.oracle.drawn_graphs import machines, views
from tests.oracle.sparse_matrices import new_builder, random_matrix

from tilescope.engine import Builder, Engine, compile_programs, resolve_options
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import View
from tilescope.engine.library.dynamic_sparse import (
    DynamicSparseTensor,
    FullyConnectedParams,
    SparsityParams,
)
from tilescope.engine.library.popsparse.fully_connected import (
    create_fully_connected_input,
    create_fully_connected_weights,
    fully_connected_fwd,
    fully_connected_grad_a,
    fully_connected_sparse_grad_w,
)
from tilescope.engine.library.sparse_matrix import CsrMatrix, from_dense
from tilescope.engine.planner.sparse.pattern import BlockPattern

SIZES = (1, 4, 8, 16)


def write_weights(engine: Any, weights: DynamicSparseTensor, matrix: Any) -> Any:
    """Write what the device has of weights, and return it."""
    data = weights.data_of(matrix)
    for name, values in data._asdict().items():
        engine.write_tensor(getattr(weights, name), values)
    return data


def passes(builder: Builder, weights: DynamicSparseTensor, x: View, gradient: View) -> list[View]:
    return [
        fully_connected_fwd(builder, weights, x),
        fully_connected_grad_a(builder, weights, gradient),
        fully_connected_sparse_grad_w(builder, weights, gradient, x),
    ]


@settings(max_examples=6, deadline=None)
@given(st.data(), machines(4), st.sampled_from(SIZES), st.integers(0, 99))
def test_operands_of_any_layout(data: Any, machine: Any, size: int, seed: int) -> None:
    """Half of the blocks are in one corner, so that buckets overflow."""
    random = np.random.default_rng(seed)
    n_outputs, n_inputs = (size * data.draw(st.integers(1, 4)) for _ in range(2))
    n_batch = data.draw(st.integers(1, 5))
    dense = random.normal(size=(n_outputs, n_inputs)).astype(np.float32)
    corner = (np.arange(n_outputs // size) < 1)[:, None] | (
        random.random((n_outputs // size, n_inputs // size)) < 0.2
    )
    matrix = from_dense(dense * np.kron(corner, np.ones((size, size))), size)
    builder = new_builder(machine)
    params = FullyConnectedParams(
        n_batch, n_inputs, n_outputs, matrix.pattern.n_values, SparsityParams(size)
    )
    weights = create_fully_connected_weights(builder, params)
    x = data.draw(views(builder.graph, (n_batch, n_inputs), "float32", "x"))
    gradient = data.draw(views(builder.graph, (n_batch, n_outputs), "float32", "gradient"))
    inputs = [
        (tensor, random.normal(size=tensor.shape).astype(np.float32)) for tensor in (x, gradient)
    ]
    written = weights.data_of(matrix)
    inputs += [(getattr(weights, name), values) for name, values in written._asdict().items()]
    _, (y, of_x, of_values) = run_both(
        builder.graph, builder.sequence, inputs, passes(builder, weights, x, gradient)
    )
    (_, activations), (_, given_gradient) = inputs[:2]
    near(y, activations @ matrix.to_dense().T, n_inputs, "float32")
    near(of_x, given_gradient @ matrix.to_dense(), n_outputs, "float32")
    actual = weights.matrix_of(written.places, of_values).to_dense()
    expected = (given_gradient.T @ activations) * (matrix.to_dense() != 0)
    near(actual, expected, n_batch, "float32")


@pytest.mark.parametrize(("size", "dtype"), [(1, "float32"), (4, "float16")])
def test_a_pattern_changes_a_hundred_times_without_a_compile(size: int, dtype: str) -> None:
    """Evenly spread, in a corner, few and none: all on one executable."""
    random = np.random.default_rng(size)
    builder = new_builder(small_machine(16))
    params = FullyConnectedParams.with_density(0.3, 8, 48, 32, SparsityParams(size))
    weights = create_fully_connected_weights(builder, params, dtype=dtype)
    x = create_fully_connected_input(builder, params, dtype=dtype)
    gradient = builder.graph.add_variable(dtype, (8, 32), "gradient")
    builder.spread(gradient)
    out = passes(builder, weights, x, gradient)
    executable = compile_programs(builder.graph, [builder.sequence])
    steps = set()
    with Engine(executable, resolve_options(environ={})) as engine:
        activations = held(builder.graph, x, random.normal(size=x.shape))
        of_results = held(builder.graph, gradient, random.normal(size=gradient.shape))
        engine.write_tensor(x, activations)
        engine.write_tensor(gradient, of_results)
        for i in range(100):
            matrix = random_matrix(random, 32, 48, size, (0.15, 0.05, 0, 0.9)[i % 4])
            if i % 4 == 3:  # a quarter of the weights
                mask = np.zeros((32, 48))
                mask[: 16 // size * size, :24] = 1
                matrix = from_dense(matrix.to_dense() * mask, size)
            data = write_weights(engine, weights, matrix)
            steps.add(int(data.steps[0]))
            engine.run()
            blocks = held(builder.graph, weights.values, data.values)
            dense = weights.matrix_of(data.places, blocks).to_dense()
            near(engine.read_tensor(out[0]), activations @ dense.T, 48, dtype)
            near(engine.read_tensor(out[1]), of_results @ dense, 32, dtype)
            of_values = weights.matrix_of(data.places, engine.read_tensor(out[2]))
            assert of_values.pattern == matrix.pattern
            everywhere = of_results.T @ activations
            expected = everywhere * from_dense_mask(matrix)
            near(of_values.to_dense(), expected, 8, dtype)
    assert {0} < steps


def from_dense_mask(matrix: Any) -> Any:
    """Return ones where a matrix has blocks."""
    ones = np.ones_like(matrix.blocks)
    return CsrMatrix.of_blocks(matrix.pattern, ones).to_dense()


@pytest.mark.parametrize("size", SIZES)
def test_buckets_give_the_matrix_back(size: int) -> None:
    random = np.random.default_rng(size)
    builder = new_builder(small_machine(12))
    params = FullyConnectedParams.with_density(0.5, 4, 5 * size, 7 * size, SparsityParams(size))
    weights = create_fully_connected_weights(builder, params)
    for density in (0, 0.2, 0.4):
        matrix = random_matrix(random, 7 * size, 5 * size, size, density)
        if matrix.pattern.n_values <= params.n_values:
            data = weights.data_of(matrix)
            back = weights.matrix_of(data.places, data.values)
            np.testing.assert_array_equal(back.to_dense(), matrix.to_dense())


def test_a_pattern_beyond_its_planned_number_of_values_is_refused() -> None:
    builder = new_builder(small_machine(4))
    params = FullyConnectedParams(4, 16, 16, 32, SparsityParams(4))
    weights = create_fully_connected_weights(builder, params)
    with pytest.raises(
        BadGraph,
        match="'weights' takes up to 32 values, as planned, and the pattern has 48: prune it, or"
        " compile with a larger n_values",
    ):
        weights.data_of(from_dense(np.kron(np.eye(4)[:, :3], np.ones((4, 4))) @ np.eye(12, 16), 4))


def test_places_that_do_not_fit_are_refused() -> None:
    """One block in every row of a part has the most places; a bucket has 1.3 of even ones."""
    builder = new_builder(small_machine(1))
    params = FullyConnectedParams(1, 64, 8, 64)
    weights = create_fully_connected_weights(builder, params)
    full = np.zeros(weights.places.shape, np.uint16)
    assert weights.matrix_of(full, np.zeros(weights.values.shape)).pattern.n_blocks == 0
    diagonal = from_dense(np.ones((8, 8)) @ np.eye(8, 64))
    assert weights.data_of(diagonal).steps == 0
    pattern = BlockPattern(8, 64, 1, np.zeros(64, np.int64), np.arange(64))
    assert weights.data_of(CsrMatrix.of_blocks(pattern, np.ones((64, 1, 1)))).steps == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SparsityParams(2), "block_size is 2: use 1, 4, 8, 16"),
        (lambda: FullyConnectedParams(1, 2, 3, 7), "n_values is 7: expected at most 6"),
        (lambda: FullyConnectedParams(1, 2, 3, 1, n_groups=2), "only 1 is supported"),
        (lambda: FullyConnectedParams(1, 6, 4, 1, SparsityParams(4)), "multiples of a block's"),
        (lambda: FullyConnectedParams.with_density(0, 1, 2, 3), "density is 0.0: expected more"),
    ],
)
def test_layers_that_are_none(make: Any, message: str) -> None:
    with pytest.raises(BadGraph, match=message):
        make()


def test_operands_of_other_layers_are_refused() -> None:
    builder = new_builder(small_machine(4))
    params = FullyConnectedParams(4, 16, 8, 32, SparsityParams(4))
    weights = create_fully_connected_weights(builder, params)
    x = builder.graph.add_variable("float32", (8, 16), "x")
    builder.spread(x)
    with pytest.raises(BadGraph, match=r"float32 of shape \(8, 16\): expected float32 of shape"):
        fully_connected_fwd(builder, weights, x)
    with pytest.raises(BadGraph, match=r"weights of shape \(8, 16\) in blocks of 4"):
        weights.data_of(from_dense(np.ones((8, 16)), 8))
    with pytest.raises(BadGraph, match="float16 or float32"):
        create_fully_connected_weights(builder, params, dtype="int32")
    with pytest.raises(BadGraph, match="have shapes"):
        weights.matrix_of(np.zeros((1, 1)), np.zeros((1, 1)))
    wide = FullyConnectedParams(8191, 256, 256, 9999)
    with pytest.raises(BadGraph, match="raise available_memory_proportion, use more tiles"):
        create_fully_connected_weights(new_builder(small_machine(2)), wide)
