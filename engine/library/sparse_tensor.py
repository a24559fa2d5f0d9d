"""Sparse operands of products: parameters of a product, and the values that the device has.

Source: graphcore/poplibs sdk-release-3.4, include/popsparse: MatMulParams.hpp, SparseTensor.hpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilescope.engine.arguments import a_count, a_kind, a_switch, numbers
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor
from tilescope.engine.library.sparse_matrix import CsrMatrix, SparseMatrix
from tilescope.engine.planner.sparse.static_plan import StaticPlan

__all__ = ["SparseTensor", "StaticMatMulParams"]


@dataclass(frozen=True)
class StaticMatMulParams:
    """Sizes of a product with a sparse matrix whose pattern is known at compile time.

    Parameters
    ----------
    m, k, n
        The sparse matrix has shape (m, k) and the dense one (k, n); with `is_dense_sparse`, the
        dense one has shape (n, k) and the sparse one (k, m).
    is_dense_sparse
        Whether the sparse matrix is the right operand.
    n_groups
        Products with one pattern; only 1 is supported.

    Raises
    ------
    BadGraph
        If a size is below 1, or there are several groups.
    """

    m: int
    k: int
    n: int
    is_dense_sparse: bool = False
    n_groups: int = 1

    def __post_init__(self) -> None:
        """Check the sizes."""
        for size in ("m", "k", "n", "n_groups"):
            a_count(f"StaticMatMulParams: {size}", getattr(self, size), 1)
        a_switch("StaticMatMulParams: is_dense_sparse", self.is_dense_sparse)
        if self.n_groups != 1:
            raise BadGraph(
                f"StaticMatMulParams: n_groups is {self.n_groups}: only 1 is supported; multiply"
                " the groups one by one"
            )

    @property
    def sparse_shape(self) -> tuple[int, int]:
        """Shape of the sparse matrix as the caller has it."""
        return (self.k, self.m) if self.is_dense_sparse else (self.m, self.k)


@dataclass(frozen=True, eq=False)
class SparseTensor:
    """The sparse operand of a static product.

    Parameters
    ----------
    values
        The blocks, shape (n_blocks, size, size), in the order in which the plan has them.
    params
        Sizes of the product.
    plan
        Of the product. A sparse matrix on the right is multiplied as its transpose on the left.
    """

    values: Tensor
    params: StaticMatMulParams
    plan: StaticPlan

    def values_of(self, matrix: SparseMatrix) -> NDArray[Any]:
        """Return the values of a matrix as `values` has them: ndarray of its shape.

        Parameters
        ----------
        matrix
            A matrix of the pattern of the plan.

        Raises
        ------
        BadGraph
            If the matrix has another pattern.
        """
        a_kind("The matrix of a SparseTensor", matrix, SparseMatrix, "a CSR, CSC or COO matrix")
        on_left = matrix.transposed() if self.params.is_dense_sparse else matrix
        pattern = self.plan.shape.pattern
        if on_left.pattern != pattern:
            raise BadGraph(
                f"{self.values.name!r} was made for a pattern of {pattern.n_values} values, and the"
                f" matrix of shape ({matrix.n_rows}, {matrix.n_columns}) has"
                f" {matrix.pattern.n_values} at other places: the pattern of a static product is"
                " that of the compiled program; compile again, or use a dynamic product"
            )
        return np.asarray(on_left.blocks[self.plan.order])

    def matrix_of(self, values: ArrayLike) -> SparseMatrix:
        """Return the matrix with values that the device has, in compressed rows.

        Parameters
        ----------
        values : array of float, shape (n_blocks, size, size)
            As `Engine.read_tensor` returns them.

        Raises
        ------
        BadGraph
            If they have another shape.
        """
        blocks = numbers(f"The values of {self.values.name!r}", values)
        if blocks.shape != self.values.shape:
            raise BadGraph(
                f"The values of {self.values.name!r} have shape {blocks.shape}: expected"
                f" {self.values.shape}"
            )
        by_row = np.empty_like(blocks)
        by_row[self.plan.order] = blocks
        matrix = CsrMatrix.of_blocks(self.plan.shape.pattern, by_row)
        return matrix.transposed() if self.params.is_dense_sparse else matrix
