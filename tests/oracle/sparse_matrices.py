"""Random sparse matrices, and builders of programs with their products."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilescope.engine import Builder, Graph
from tilescope.engine.library.sparse_matrix import CooMatrix, CscMatrix, CsrMatrix, SparseMatrix
from tilescope.engine.planner.sparse.pattern import BlockPattern
from tilescope.engine.program import Sequence

Array = np.ndarray
FORMATS = (CsrMatrix, CscMatrix, CooMatrix)


def random_matrix(
    random: Any, n_rows: int, n_columns: int, block_size: int, density: float
) -> SparseMatrix:
    """Return blocks at random places in a random format, in any order where it has none."""
    n_down, n_across = n_rows // block_size, n_columns // block_size
    mask = random.random((n_down, n_across)) < density
    rows, columns = (places.astype(np.int64) for places in np.nonzero(mask))
    pattern = BlockPattern(n_rows, n_columns, block_size, rows, columns)
    blocks = random.normal(size=(rows.size, block_size, block_size)).astype(np.float32)
    matrix = FORMATS[random.integers(3)].of_blocks(pattern, blocks)
    if not isinstance(matrix, CooMatrix):
        return matrix
    order = random.permutation(rows.size)
    values = blocks[order].reshape(-1)
    places = (columns[order] * block_size, rows[order] * block_size)
    return CooMatrix(n_rows, n_columns, values, *places, block_size)


def new_builder(machine: Any) -> Builder:
    return Builder(Graph(machine), Sequence("main"))
