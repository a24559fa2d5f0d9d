"""Look-ups in sparse tables, and updates of them, against numpy and the naive machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.oracle.compared import held, near, run_both, small_machine
from tests.oracle.sparse_matrices import new_builder, random_matrix

from tilescope.engine.errors import BadGraph
from tilescope.engine.library.dynamic_sparse import FullyConnectedParams, SparsityParams
from tilescope.engine.library.popsparse.embedding import embedding_slice, embedding_update_add
from tilescope.engine.library.popsparse.fully_connected import create_fully_connected_weights
from tilescope.engine.library.sparse_matrix import from_dense


def _matrix(kind: str) -> Any:
    """Return a table with values everywhere, or in one corner, so that buckets overflow."""
    random = np.random.default_rng(3)
    if kind == "even":
        return random_matrix(random, 12, 14, 1, 0.1)
    dense = np.zeros((12, 14), np.float32)
    dense[:5, :9] = random.normal(size=(5, 9))
    return from_dense(dense)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("kind", ["even", "corner"])
def test_rows_are_looked_up_and_updated(kind: str, dtype: str) -> None:
    """Some rows twice, some never, and one that is out of range."""
    builder, matrix = new_builder(small_machine(10)), _matrix(kind)
    table = create_fully_connected_weights(
        builder, FullyConnectedParams(4, 14, 12, 48), dtype=dtype
    )
    indices = builder.graph.add_variable("int32", (6,), "indices")
    slices = builder.graph.add_variable(dtype, (6, 14), "slices")
    for tensor in (indices, slices):
        builder.spread(tensor)
    before = embedding_slice(builder, table, indices)
    embedding_update_add(builder, table, slices, indices, 0.5)
    after = embedding_slice(builder, table, indices)
    data = table.data_of(matrix)
    assert kind == "even" or data.steps[0] > 0
    wanted = np.array([3, 0, 3, 11, 12, 4], np.int32)
    added = held(builder.graph, slices, np.random.default_rng(4).normal(size=slices.shape))
    inputs = [(indices, wanted), (slices, added)]
    inputs += [(getattr(table, name), values) for name, values in data._asdict().items()]
    outputs = [before, table.values, after]
    _, (first, values, second) = run_both(builder.graph, builder.sequence, inputs, outputs)
    held_values = held(builder.graph, table.values, data.values)
    dense = np.vstack([table.matrix_of(data.places, held_values).to_dense(), np.zeros((1, 14))])
    near(first, dense[wanted], 1, dtype)
    expected = dense.copy()
    np.add.at(expected, wanted, 0.5 * added)
    expected *= dense != 0
    near(table.matrix_of(data.places, values).to_dense(), expected[:12], 3, dtype)
    near(second, expected[wanted], 3, dtype)


def test_what_is_refused() -> None:
    builder = new_builder(small_machine(4))
    table = create_fully_connected_weights(builder, FullyConnectedParams(4, 16, 8, 32))
    blocks = create_fully_connected_weights(
        builder, FullyConnectedParams(4, 16, 8, 32, SparsityParams(4)), "blocks"
    )
    indices = builder.graph.add_variable("int32", (3,), "indices")
    slices = builder.graph.add_variable("float32", (2, 16), "slices")
    for tensor in (indices, slices):
        builder.spread(tensor)
    with pytest.raises(BadGraph, match="only tables of single values are supported"):
        embedding_slice(builder, blocks, indices)
    with pytest.raises(BadGraph, match="expected int32 of one dimension"):
        embedding_slice(builder, table, slices)
    with pytest.raises(BadGraph, match=r"expected float32 of shape \(3, 16\)"):
        embedding_update_add(builder, table, slices, indices, 1)
