"""Regions: the elements that each vertex of a batch connects to, as flat arrays.

A region is a block of up to a few dimensions: a start element and, per dimension, a size and a
stride. A field of a batch holds one region per vertex, or a list of intervals per vertex, all on
one variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.arguments import a_count, a_list, shown, whole_numbers
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph.freeze import altered, read_only
from tilescope.engine.graph.tensor.joined import Joined
from tilescope.engine.graph.tensor.tensor import Tensor

if TYPE_CHECKING:
    from tilescope.engine.graph.variable import Variable

__all__ = [
    "Regions",
    "blocks",
    "check_variable",
    "products_of_rows",
    "regions_of",
    "unchecked_blocks",
]


@dataclass(frozen=True)
class Regions:
    """One region per vertex, or several.

    Parameters
    ----------
    variable
        The variable all regions are on.
    start : ndarray of int64, shape (n_regions,)
        First element.
    size : ndarray of int64, shape (n_regions, n_dims)
        Elements along each dimension. Where all regions agree, one row stands for all.
    stride : ndarray of int64, shape (n_regions, n_dims)
        Distance between adjacent elements along each dimension, elements; one row where all agree.
    first : ndarray of int64, shape (n_vertices + 1,)
        For lists of intervals: the first region of every vertex, and the number of regions. None
        if every vertex has one.
    """

    variable: Variable
    start: NDArray[np.int64]
    size: NDArray[np.int64]
    stride: NDArray[np.int64]
    first: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        """Freeze the arrays; keep one row of sizes and of strides where all regions agree."""
        object.__setattr__(self, "start", read_only(self.start))
        object.__setattr__(self, "size", _with_one_row(self.size))
        object.__setattr__(self, "stride", _with_one_row(self.stride))
        if self.first is not None:
            object.__setattr__(self, "first", read_only(self.first))

    def on(self, variable: Variable) -> Regions:
        """Return the same regions on another variable."""
        return altered(self, variable=variable)

    @property
    def arrays(self) -> tuple[NDArray[np.int64] | None, ...]:
        """All that vertices access, without the variable."""
        return self.start, self.size, self.stride, self.first

    @property
    def shapes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sizes and strides: ndarrays of int64 with a row per region, or one row for all."""
        return _rows(self.size), _rows(self.stride)

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return self.start.size if self.first is None else self.first.size - 1

    def by_region(self, of_vertex: NDArray[Any]) -> NDArray[Any]:
        """Return what is known of every vertex for every region: its tile, or its number."""
        return of_vertex if self.first is None else np.repeat(of_vertex, np.diff(self.first))

    @property
    def n_elements(self) -> NDArray[np.int64]:
        """Elements of each region: ndarray of int64, shape (n_regions,)."""
        product = products_of_rows(self.shapes[0])
        return np.broadcast_to(product, self.start.shape)

    def check(self, where: str) -> None:
        """Raise BadGraph when a region is out of range of its variable.

        Raises
        ------
        BadGraph
            When the first or last element of a region is out of range.
        """
        size, stride = self.shapes
        last = self.start + ((size - 1) * stride).sum(axis=1)
        low = np.minimum(self.start, last)
        high = np.maximum(self.start, last)
        bad = (low < 0) | (high >= self.variable.n_elements) | (size < 1).any(axis=1)
        if bad.any():
            region = int(np.flatnonzero(bad)[0])
            vertex = int(self.by_region(np.arange(self.n_vertices))[region])
            raise BadGraph(
                f"{where}: vertex {vertex} accesses elements {int(low[region])} to"
                f" {int(high[region])} of variable {self.variable.name!r}, which has"
                f" {self.variable.n_elements}"
            )


def products_of_rows(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the product of every row of a table of few columns: ndarray of int64, (n_rows,)."""
    if not table.shape[1]:
        return np.ones(len(table), np.int64)
    product = table[:, 0].copy()
    for column in range(1, table.shape[1]):
        product *= table[:, column]
    return product


def _rows(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows of a table that are stored."""
    return table[:1] if len(table) > 1 and table.strides[0] == 0 else table


def _with_one_row(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a read-only table that stores one row if all are equal."""
    if not table.flags.writeable:
        return table  # as it was made here, or is read
    if len(table) < 2 or (table[-1] != table[0]).any() or (table != table[0]).any():
        return read_only(table)
    return _repeated(table[0].copy(), len(table))


def _repeated(row: NDArray[np.int64], n_rows: int) -> NDArray[np.int64]:
    """Return a read-only table that stores one row; as np.broadcast_to does, in less time."""
    table: NDArray[np.int64] = np.ndarray(
        (n_rows, row.size), np.int64, row, strides=(0, row.itemsize)
    )
    table.flags.writeable = False
    return table


def blocks(
    variable: Variable,
    start: NDArray[np.int64] | int,
    sizes: Sequence[NDArray[np.int64] | int],
    strides: Sequence[NDArray[np.int64] | int],
    n_vertices: int,
) -> Regions:
    """Return regions from per-dimension sizes and strides, given as scalars or columns.

    Parameters
    ----------
    variable
        The variable they are on.
    start : ndarray of int64, shape (n_vertices,), or int
        First elements.
    sizes, strides
        One entry per dimension: a scalar, or an ndarray of int64 of shape (n_vertices,).
    n_vertices
        Number of regions.

    Raises
    ------
    BadGraph
        When the numbers of sizes and strides differ, or a column has the wrong length.
    """
    check_variable(variable)
    where = f"Regions on {variable.name!r}"
    sizes = a_list(f"{where}: the sizes", sizes, "a list with one entry per dimension")
    strides = a_list(f"{where}: the strides", strides, "a list with one entry per dimension")
    if len(sizes) != len(strides):
        raise BadGraph(f"{where} have {len(sizes)} sizes and {len(strides)} strides")
    n_vertices = a_count(f"{where}: the number of vertices", n_vertices, 0)

    def checked(values: NDArray[np.int64] | int) -> NDArray[np.int64]:
        numbers: NDArray[np.int64] = whole_numbers(f"{where}: starts, sizes and strides", values)
        if numbers.shape not in ((), (n_vertices,)):
            raise BadGraph(f"{where}: expected {n_vertices} values, got shape {numbers.shape}")
        return numbers

    return unchecked_blocks(
        variable,
        checked(start),
        [checked(values) for values in sizes],
        [checked(values) for values in strides],
        n_vertices,
    )


def unchecked_blocks(
    variable: Variable,
    start: NDArray[np.int64] | int,
    sizes: Sequence[NDArray[np.int64] | int],
    strides: Sequence[NDArray[np.int64] | int],
    n_vertices: int,
) -> Regions:
    """Return regions as `blocks` does, whose arguments the caller knows to be right.

    Parameters
    ----------
    variable, start, sizes, strides, n_vertices
        As for `blocks`.
    """
    # A copy: the caller may modify its array later.
    first = np.empty(n_vertices, np.int64)
    first[:] = start
    return Regions(variable, first, _table(sizes, n_vertices), _table(strides, n_vertices))


def _table(columns: Sequence[NDArray[np.int64] | int], n_rows: int) -> NDArray[np.int64]:
    """Return columns, or scalars that stand for one, as a table."""
    if not any(isinstance(column, np.ndarray) and column.ndim for column in columns):
        return _repeated(np.array(columns, np.int64), n_rows)
    table = np.empty((n_rows, len(columns)), np.int64)
    for dim, column in enumerate(columns):
        table[:, dim] = column
    return table


def check_variable(variable: object) -> None:
    """Raise BadGraph unless regions can be on it.

    Raises
    ------
    BadGraph
        When it is not one variable.
    """
    if isinstance(variable, Tensor):
        raise BadGraph(
            f"Expected a variable for the regions, got a tensor on {variable.variable.name!r}: pass"
            " tensor.variable"
        )
    if isinstance(variable, Joined):
        raise BadGraph(
            f"Expected one variable for the regions, got a tensor that joins {variable.name}: copy"
            " it to a new variable first"
        )
    if not hasattr(variable, "map_start"):
        raise BadGraph(f"Expected a variable for the regions, got {shown(variable)}")


def regions_of(where: str, connected: object, n_vertices: int, n_dims: int) -> Regions:
    """Return the regions of a field, given as regions, one tensor for all vertices, or one each.

    Parameters
    ----------
    where
        The field, for messages.
    connected
        Regions; a tensor, which may be a slice or a concatenation of adjacent slices; or a list
        with one tensor per vertex, all on one variable.
    n_vertices
        Number of vertices.
    n_dims
        Dimensions of the field; a field of one dimension takes tensors of any shape, in logical
        order.

    Raises
    ------
    BadGraph
        When a tensor is on another variable than the first one, joins several, or has other
        dimensions than the field.
    """
    if hasattr(connected, "stride"):
        return connected  # type: ignore[return-value] # regions, or an object that looks like them
    one_each = connected if isinstance(connected, list | tuple) else [connected] * n_vertices
    if len(one_each) != n_vertices or not one_each:
        raise BadGraph(
            f"{where} has {len(one_each)} tensors for {n_vertices} vertices: give one for all, or"
            " one each"
        )
    variable = one_each[0].variable if isinstance(one_each[0], Tensor) else None
    start, size, stride = [], [], []
    for view in one_each:
        if not isinstance(view, Tensor):
            problem = "joins several variables" if isinstance(view, Joined) else "is not a tensor"
            raise BadGraph(
                f"{where}: {shown(view) if variable is None else 'one of its tensors'} {problem}:"
                " expected regions of engine.graph.blocks, a tensor on one variable, or a list of"
                " them"
            )
        if view.variable is not variable:
            raise BadGraph(
                f"{where} connects {view.name!r} and another variable: the vertices of a batch"
                " share one; add them in several calls"
            )
        dims = view.flatten().dims if n_dims == 1 else view.dims
        atoms = [atom_list[0] if atom_list else (1, 0) for atom_list in dims]
        if len(atoms) != n_dims or any(len(atom_list) > 1 for atom_list in dims):
            raise BadGraph(
                f"{where}: a tensor of shape {tuple(view.shape)} on {view.name!r} is not a block of"
                f" {n_dims} dimensions with one stride each: copy it first"
            )
        start.append(view.offset)
        size.append([atom[0] for atom in atoms])
        stride.append([atom[1] for atom in atoms])
    assert variable is not None, "the first tensor was checked"
    return Regions(variable, *(np.array(part, np.int64) for part in (start, size, stride)))
