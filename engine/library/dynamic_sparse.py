"""Sparse operands whose pattern changes between runs: parameters, device data, host partitioner.

Source: graphcore/poplibs sdk-release-3.4, include/popsparse: SparsityParams.hpp,
FullyConnectedParams.hpp, SparseTensor.hpp, SparsePartitioner.hpp.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilescope.engine.arguments import a_count, a_kind, a_number, numbers
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import Tensor
from tilescope.engine.library.sparse_matrix import CsrMatrix, SparseMatrix
from tilescope.engine.planner.sparse.buckets import fill_buckets, read_buckets
from tilescope.engine.planner.sparse.dynamic_plan import DynamicPlan, DynamicShape
from tilescope.engine.planner.sparse.pattern import BLOCK_SIZES

__all__ = [
    "DynamicSparseTensor",
    "FullyConnectedParams",
    "SparsityData",
    "SparsityParams",
]


@dataclass(frozen=True)
class SparsityParams:
    """The kind of a sparse matrix: single elements or blocks, at any places.

    Parameters
    ----------
    block_size
        Rows and columns of a block: 1 for elements, 4, 8 or 16.

    Raises
    ------
    BadGraph
        If the size of a block is not supported.
    """

    block_size: int = 1

    def __post_init__(self) -> None:
        """Check the size of a block."""
        size = a_count("SparsityParams: block_size", self.block_size)
        if size not in BLOCK_SIZES:
            sizes = ", ".join(map(str, BLOCK_SIZES))
            raise BadGraph(f"SparsityParams: block_size is {size}: use {sizes}")


@dataclass(frozen=True)
class FullyConnectedParams:
    """Sizes of a fully connected layer with sparse weights, and how many values they may have.

    Parameters
    ----------
    n_batch, n_inputs, n_outputs
        Activations have shape (n_batch, n_inputs), results (n_batch, n_outputs), weights
        (n_outputs, n_inputs).
    n_values
        Values that a pattern may have.
    sparsity
        Kind of the weights.
    n_groups
        Layers with weights of their own; only 1 is supported.

    Raises
    ------
    BadGraph
        If a size is below 1, blocks do not divide the weights, values are more than the weights
        have, or there are several groups.
    """

    n_batch: int
    n_inputs: int
    n_outputs: int
    n_values: int
    sparsity: SparsityParams = field(default_factory=SparsityParams)
    n_groups: int = 1

    def __post_init__(self) -> None:
        """Check the sizes."""
        where = "FullyConnectedParams"
        for name in ("n_batch", "n_inputs", "n_outputs", "n_groups"):
            a_count(f"{where}: {name}", getattr(self, name), 1)
        a_kind(f"{where}: sparsity", self.sparsity, SparsityParams, "a SparsityParams")
        a_count(f"{where}: n_values", self.n_values, 1, self.n_inputs * self.n_outputs)
        if self.n_groups != 1:
            raise BadGraph(
                f"{where}: n_groups is {self.n_groups}: only 1 is supported; use a layer for every"
                " group"
            )
        size = self.sparsity.block_size
        if self.n_inputs % size or self.n_outputs % size:
            raise BadGraph(
                f"{where}: weights of shape ({self.n_outputs}, {self.n_inputs}) have blocks of"
                f" {size} x {size}: expected rows and columns that are multiples of a block's"
            )

    @classmethod
    def with_density(
        cls,
        density: float,
        n_batch: int,
        n_inputs: int,
        n_outputs: int,
        sparsity: SparsityParams | None = None,
    ) -> FullyConnectedParams:
        """Return the parameters of weights of which a share may have values (``nzRatio``).

        Parameters
        ----------
        density
            Share of the weights, above 0 and at most 1.
        n_batch, n_inputs, n_outputs, sparsity
            As for the class.

        Raises
        ------
        BadGraph
            If the share is out of range, or as for the class.
        """
        share = a_number("FullyConnectedParams: density", density)
        if not 0 < share <= 1:
            raise BadGraph(
                f"FullyConnectedParams: density is {share}: expected more than 0 and at most 1"
            )
        n_values = max(1, int(np.ceil(share * n_inputs * n_outputs)))
        return cls(n_batch, n_inputs, n_outputs, n_values, sparsity or SparsityParams())

    def shape(self, dtype: str) -> DynamicShape:
        """Return what the plan depends on."""
        size = self.sparsity.block_size
        most = -(-self.n_values // size**2)
        return DynamicShape(self.n_outputs, self.n_inputs, self.n_batch, size, most, dtype)


class SparsityData(NamedTuple):
    """What the host writes for a pattern and its values.

    Parameters
    ----------
    places : ndarray of uint16, shape (n_parts, n_places)
        For `DynamicSparseTensor.places`.
    values : ndarray of float, shape (n_parts, capacity, size, size)
        For `DynamicSparseTensor.values`.
    steps : ndarray of int32, shape (1,)
        For `DynamicSparseTensor.steps`.
    """

    places: NDArray[np.uint16]
    values: NDArray[Any]
    steps: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class DynamicSparseTensor:
    """Sparse weights whose pattern the host changes between runs, without a new compile.

    Parameters
    ----------
    places
        Where the blocks of every bucket are, uint16, shape (n_parts, n_places).
    values
        The blocks of every bucket, shape (n_parts, capacity, size, size).
    steps
        How far buckets are passed around, int32, shape (1,).
    params
        Of the layer.
    plan
        Of its passes.
    """

    places: Tensor
    values: Tensor
    steps: Tensor
    params: FullyConnectedParams
    plan: DynamicPlan

    def data_of(self, matrix: SparseMatrix) -> SparsityData:
        """Return what the device has of weights: their blocks, divided among the buckets.

        Parameters
        ----------
        matrix
            Shape (n_outputs, n_inputs), with up to as many values as planned.

        Raises
        ------
        BadGraph
            If the matrix has another shape or blocks, more values than planned, or rows of blocks
            that are spread so that their places do not fit the buckets.
        """
        name, params = self.values.name, self.params
        a_kind(f"The weights of {name!r}", matrix, SparseMatrix, "a CSR, CSC or COO matrix")
        shape, size = (matrix.n_rows, matrix.n_columns), params.sparsity.block_size
        wanted = (params.n_outputs, params.n_inputs)
        if shape != wanted or matrix.block_size != size:
            raise BadGraph(
                f"{name!r} takes weights of shape {wanted} in blocks of {size}, and the matrix has"
                f" shape {shape} and blocks of {matrix.block_size}"
            )
        buckets = fill_buckets(name, self.plan, matrix.pattern)
        values = np.zeros((self.plan.n_parts * self.plan.capacity, size, size), np.float32)
        values[buckets.slot] = matrix.blocks
        shape_of_values = (self.plan.n_parts, self.plan.capacity, size, size)
        return SparsityData(
            buckets.places, values.reshape(shape_of_values), np.array([buckets.steps], np.int32)
        )

    def matrix_of(self, places: ArrayLike, values: ArrayLike) -> SparseMatrix:
        """Return the weights that the device has, or their gradients, in compressed rows.

        Parameters
        ----------
        places : array of uint16, shape (n_parts, n_places)
            As `data_of` returns them.
        values : array of float, shape (n_parts, capacity, size, size)
            As `Engine.read_tensor` returns them.

        Raises
        ------
        BadGraph
            If they have another shape.
        """
        name = self.values.name
        blocks, at = numbers(f"The values of {name!r}", values), numbers(f"{name!r}", places)
        if blocks.shape != self.values.shape or at.shape != self.places.shape:
            raise BadGraph(
                f"Places and values of {name!r} have shapes {at.shape} and {blocks.shape}: expected"
                f" {self.places.shape} and {self.values.shape}"
            )
        pattern, slot = read_buckets(self.plan, at.astype(np.uint16))
        size = self.params.sparsity.block_size
        return CsrMatrix.of_blocks(pattern, blocks.reshape(-1, size, size)[slot])
