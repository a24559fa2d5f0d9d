"""Tensors joined along a dimension: a view on several variables. No data moves.

A `Joined` holds its parts unchanged, so joining is free for any layout; operations on elements
split all their operands alike until every part lies on one variable (`aligned`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tilescope.engine.arguments import a_count, a_list
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph.tensor.shape import slice_range, whole_shape, wide_shape
from tilescope.engine.graph.tensor.tensor import Dim, Tensor

if TYPE_CHECKING:
    from tilescope.engine.graph.variable import Variable
    from tilescope.engine.number.dtype import DType

__all__ = ["Joined", "View", "aligned", "concat", "section"]

#: Maximum number of fragments, one object each, that a reshape may split a joined tensor into.
_MOST_PIECES = 65_536


@dataclass(frozen=True)
class Joined:
    """Tensors concatenated along dimension `dim`: see `concat`."""

    parts: tuple[View, ...]
    dim: int

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """End of each part along the joined dimension, elements."""
        return tuple(accumulate(part.shape[self.dim] for part in self.parts))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Logical shape."""
        sizes = list(self.parts[0].shape)
        sizes[self.dim] = self.ends[-1]
        return tuple(sizes)

    @property
    def n_elements(self) -> int:
        """Number of logical elements."""
        return prod(self.shape)

    @property
    def dtype(self) -> DType:
        """Type of the elements."""
        return self.parts[0].dtype

    @property
    def name(self) -> str:
        """Name in messages."""
        names = [variable.name for variable in self.variables]
        return " and ".join(names if len(names) < 4 else [*names[:2], f"{len(names) - 2} more"])

    @property
    def pieces(self) -> tuple[Tensor, ...]:
        """The single-variable views that it consists of, in no particular order."""
        return tuple(tensor for part in self.parts for tensor in part.pieces)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables it is on, without duplicates."""
        return tuple({id(tensor.variable): tensor.variable for tensor in self.pieces}.values())

    def slice(self, dim: int, start: int, stop: int) -> View:
        """Return elements `start` to `stop` (half-open) along one dimension.

        Raises
        ------
        BadGraph
            When the range is out of bounds, or splits a dimension of a part unevenly.
        """
        dim, start, stop = slice_range(self.shape, dim, start, stop)
        if dim != self.dim:
            return concat([part.slice(dim, start, stop) for part in self.parts], self.dim)
        views: list[View] = []
        begin = start
        for i in range(bisect_right(self.ends, start), bisect_left(self.ends, stop) + 1):
            first = self.ends[i - 1] if i else 0
            end = min(stop, self.ends[i])
            views.append(self.parts[i].slice(dim, begin - first, end - first))
            begin = end
        return concat(views, dim)

    def dim_shuffle(self, *order: int) -> View:
        """Return the tensor with its dimensions permuted.

        Raises
        ------
        BadGraph
            When `order` is not a permutation of the dimensions.
        """
        turned = [part.dim_shuffle(*order) for part in self.parts]
        return concat(turned, order.index(self.dim))

    def reverse(self, dim: int) -> View:
        """Return the tensor with the elements along one dimension reversed.

        Raises
        ------
        BadGraph
            When the dimension does not exist.
        """
        turned = [part.reverse(dim) for part in self.parts]
        return concat(turned[::-1] if dim == self.dim else turned, self.dim)

    def broadcast_to(self, shape: Sequence[int]) -> View:
        """Return the tensor stretched to `shape` by numpy's rules, without copying.

        Raises
        ------
        BadGraph
            When the shapes do not broadcast.
        """
        shape = wide_shape(shape)
        dim = self.dim + len(shape) - len(self.shape)
        if dim < self.dim or shape[dim] != self.shape[self.dim]:
            raise BadGraph(f"Shape {self.shape} does not broadcast to {shape}")
        wide = []
        for part in self.parts:
            sizes = list(shape)
            sizes[dim] = part.shape[self.dim]
            wide.append(part.broadcast_to(sizes))
        return concat(wide, dim)

    def flatten(self) -> View:
        """Return the elements in logical order as one dimension.

        Raises
        ------
        BadGraph
            When it splits into too many fragments.
        """
        return self.reshape(-1)

    def reshape(self, *shape: int) -> View:
        """Return the same elements in the same logical order under another shape.

        Raises
        ------
        BadGraph
            When the number of elements differs, a part would be split unevenly, or there would be
            too many fragments.
        """
        sizes = whole_shape(self.shape, shape)
        return _shaped(list(_in_order(self)), sizes)

    def can_reshape(self, *shape: int) -> bool:
        """Return whether a reshape to that shape is a view."""
        try:
            self.reshape(*shape)
        except BadGraph:
            return False
        return True


View = Tensor | Joined


def concat(tensors: Sequence[View], dim: int = 0) -> View:
    """Concatenate tensors along a dimension as one view; nothing is copied.

    Parameters
    ----------
    tensors
        Of one type, with equal shapes except along that dimension; any layouts, any variables.
    dim
        The dimension, counted from 0.

    Returns
    -------
    View
        A plain tensor where one stride covers all of them, as for adjacent slices.

    Raises
    ------
    BadGraph
        When there are no tensors, or types or shapes differ.
    """
    parts = list(a_list("The tensors to concatenate", tensors, "a list of tensors"))
    if not parts:
        raise BadGraph("No tensors to concatenate: give at least one")
    for part in parts:
        if not isinstance(part, View):
            raise BadGraph(f"Expected a tensor to concatenate, got a {type(part).__name__}")
    rank = len(parts[0].shape)
    dim = a_count("The dimension to concatenate along", dim, 0)
    if dim >= rank:
        raise BadGraph(f"Tensors of shape {parts[0].shape} have no dimension {dim} to join along")
    for part in parts:
        same = len(part.shape) == rank and all(
            part.shape[d] == parts[0].shape[d] for d in range(rank) if d != dim
        )
        if not same or part.dtype != parts[0].dtype:
            raise BadGraph(
                f"Cannot join {part.dtype} {part.shape} to {parts[0].dtype}"
                f" {parts[0].shape} along dimension {dim}"
            )
    merged: list[View] = []
    for part in parts:
        same_way = isinstance(part, Joined) and part.dim == dim
        for view in part.parts if isinstance(part, Joined) and same_way else (part,):
            merged_view = _as_one(merged[-1], view, dim) if merged else None
            if merged_view is None:
                merged.append(view)
            else:
                merged[-1] = merged_view
    return merged[0] if len(merged) == 1 else Joined(tuple(merged), dim)


def _as_one(left: View, right: View, dim: int) -> Tensor | None:
    """Return two adjacent views as one tensor where a single stride covers both."""
    if not isinstance(left, Tensor) or not isinstance(right, Tensor):
        return None
    if left.variable is not right.variable:
        return None
    if any(left.dims[d] != right.dims[d] for d in range(len(left.dims)) if d != dim):
        return None
    atoms = _one_atom_more(left.dims[dim], right.dims[dim], right.offset - left.offset)
    if atoms is None:
        return None
    dims = list(left.dims)
    dims[dim] = atoms
    return replace(left, dims=tuple(dims))


def _one_atom_more(left: Dim, right: Dim, distance: int) -> Dim | None:
    """Return the atoms of two parts of a dimension at a distance; None if no stride covers both.

    Parts of blocks have equal inner atoms; a part of one block lacks the outer one.
    """
    n_atoms = max(len(left), len(right))
    inner = (left if len(left) == n_atoms else right)[1:]
    counts, strides = [], set()
    for atoms in (left, right):
        if len(atoms) == n_atoms and atoms[1:] == inner:
            counts.append(atoms[0][0])
            strides |= {atoms[0][1]} if atoms[0][0] > 1 else set()
        elif atoms == inner:
            counts.append(1)
        else:
            return None
    stride = strides.pop() if strides else distance
    if strides or stride == 0 or distance != counts[0] * stride:
        return None
    return ((sum(counts), stride), *inner)


def section(view: View, dim: int, start: int, stop: int) -> View:
    """Return elements `start` to `stop` (half-open) along one dimension, of any layout.

    Parameters
    ----------
    view
        A tensor, or several joined ones.
    dim, start, stop
        As for `Tensor.slice`.

    Returns
    -------
    View
        Shape of the slice: as `Tensor.slice` returns it where one tensor has these elements. Where
        the range ends within a block of a blocked dimension, its parts are joined.

    Raises
    ------
    BadGraph
        When the range is out of bounds.
    """
    dim, start, stop = slice_range(view.shape, dim, start, stop)
    if isinstance(view, Joined):
        if dim != view.dim:
            parts = [section(part, dim, start, stop) for part in view.parts]
            return concat(parts, view.dim)
        inside = [
            section(part, dim, max(start, first) - first, min(stop, end) - first)
            for part, (first, end) in zip(view.parts, pairwise((0, *view.ends)), strict=True)
            if max(start, first) < min(stop, end)
        ]
        return concat(inside, dim)
    try:
        return view.slice(dim, start, stop)
    except BadGraph:  # The range ends within a block.
        block = prod([size for size, _ in view.dims[dim] if size > 1][1:])
        first = start // block * block
        if stop <= first + block:
            whole = view.slice(dim, first, first + block)
            return section(whole, dim, start - first, stop - first)
        edges = (start, -(-start // block) * block, stop // block * block, stop)
        ranges = [(first, end) for first, end in pairwise(edges) if first < end]
        return concat([section(view, dim, first, end) for first, end in ranges], dim)


def aligned(views: Sequence[View]) -> list[tuple[Tensor, ...]]:
    """Split views of one shape alike until every part is on one variable."""
    plain = [view for view in views if isinstance(view, Tensor)]
    if len(plain) == len(views):
        return [tuple(plain)]
    joined = next(view for view in views if isinstance(view, Joined))
    aligned_parts: list[tuple[Tensor, ...]] = []
    for part, (first, end) in zip(joined.parts, pairwise((0, *joined.ends)), strict=True):
        aligned_parts += aligned(
            [part if view is joined else section(view, joined.dim, first, end) for view in views]
        )
    return aligned_parts


def _in_order(view: View) -> Iterator[Tensor]:
    """Yield one-dimensional fragments, in logical order."""
    if isinstance(view, Tensor):
        yield view.flatten()
        return
    outer = view.shape[: view.dim]
    if prod(outer) * len(view.parts) > _MOST_PIECES:
        raise BadGraph(
            f"A reshape of {view.name!r}, shape {view.shape} joined along dimension {view.dim},"
            f" would split into {prod(outer) * len(view.parts):,} fragments: copy it first"
        )
    for index in np.ndindex(*outer):
        for part in view.parts:
            row = part
            for d, i in enumerate(index):
                row = row.slice(d, i, i + 1)
            yield from _in_order(row)


def _shaped(tensors: list[Tensor], shape: Sequence[int]) -> View:
    """Return one-dimensional fragments, in logical order, as one tensor of a shape."""
    if len(tensors) == 1:
        return tensors[0].reshape(*shape)
    if len(shape) == 1:
        return concat(tensors)
    inner = prod(shape[1:])
    rows: list[View] = []
    rest = tensors[::-1]
    while rest:
        tensor = rest.pop()
        n_whole = tensor.n_elements // inner
        if n_whole:
            cut = n_whole * inner
            rows.append(tensor.slice(0, 0, cut).reshape(n_whole, *shape[1:]))
            if cut < tensor.n_elements:
                rest.append(tensor.slice(0, cut, tensor.n_elements))
            continue
        row, missing = [tensor], inner - tensor.n_elements
        while missing:
            tensor = rest.pop()
            if tensor.n_elements > missing:
                rest.append(tensor.slice(0, missing, tensor.n_elements))
                tensor = tensor.slice(0, 0, missing)
            row.append(tensor)
            missing -= tensor.n_elements
        rows.append(_with_leading_one(_shaped(row, shape[1:])))
    return concat(rows)


def _with_leading_one(view: View) -> View:
    """Return a view with a leading dimension of size 1."""
    if isinstance(view, Tensor):
        return replace(view, dims=(((1, 0),), *view.dims))
    return Joined(tuple(_with_leading_one(part) for part in view.parts), view.dim + 1)
