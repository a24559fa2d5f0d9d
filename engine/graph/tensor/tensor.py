"""A tensor: a strided view on one variable. No operation on a tensor moves data.

Each logical dimension is a tuple of atoms ``(size, stride)``, outermost first, so a reshape of a
permuted tensor is still a view: its dimension then has several atoms. Strides are in elements of
the variable; a broadcast dimension has stride 0, a reversed one a negative stride.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from tilescope.engine.arguments import a_count
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph.tensor.shape import slice_range, whole_shape, wide_shape

if TYPE_CHECKING:
    from tilescope.engine.graph.variable import Variable
    from tilescope.engine.number.dtype import DType

__all__ = ["Atom", "Dim", "Tensor", "row_major"]

Atom = tuple[int, int]
Dim = tuple[Atom, ...]


def row_major(shape: Sequence[int]) -> tuple[Dim, ...]:
    """Return the dimensions of a contiguous tensor of that shape."""
    dims: list[Dim] = []
    stride = 1
    for size in reversed(shape):
        dims.append(((int(size), stride),))
        stride *= int(size)
    return tuple(reversed(dims))


def _merge(atoms: Sequence[Atom]) -> tuple[Atom, ...]:
    """Merge adjacent atoms that one stride covers; drop those of size 1."""
    merged: list[Atom] = []
    for size, stride in atoms:
        if size == 1:
            continue
        if merged and merged[-1][1] == size * stride:
            outer = merged.pop()
            merged.append((outer[0] * size, stride))
        else:
            merged.append((size, stride))
    return tuple(merged)


def _split_off(atoms: list[Atom], size: int) -> list[Atom] | None:
    """Split `size` elements off the inner end; None when an atom is not divisible."""
    head: list[Atom] = []
    while size > 1:
        if not atoms:
            return None
        inner_size, stride = atoms.pop()
        if inner_size <= size:
            if size % inner_size:
                return None
            head.append((inner_size, stride))
            size //= inner_size
        else:
            if inner_size % size:
                return None
            head.append((size, stride))
            atoms.append((inner_size // size, stride * size))
            size = 1
    return head[::-1]


@functools.lru_cache(maxsize=1 << 14)
def _split_into(dims: tuple[Dim, ...], sizes: tuple[int, ...]) -> tuple[Dim, ...] | None:
    """Return the dimensions of a view of other sizes; None when an atom is not divisible."""
    atoms = list(_merge([atom for dim in dims for atom in dim]))
    split_dims: list[Dim] = []
    for size in reversed(sizes):
        head = _split_off(atoms, size)
        if head is None:
            return None
        split_dims.append(tuple(head) if head else ((1, 0),))
    return tuple(reversed(split_dims))


@dataclass(frozen=True)
class Tensor:
    """A view on `variable` starting at element `offset`."""

    variable: Variable
    offset: int
    dims: tuple[Dim, ...]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Logical shape."""
        # Most dimensions are one atom.
        return tuple(
            dim[0][0] if len(dim) == 1 else prod([size for size, _ in dim]) for dim in self.dims
        )

    @property
    def n_elements(self) -> int:
        """Number of logical elements."""
        return prod(self.shape)

    @property
    def dtype(self) -> DType:
        """Type of the variable."""
        return self.variable.dtype

    @property
    def name(self) -> str:
        """Name of the variable."""
        return self.variable.name

    @property
    def pieces(self) -> tuple[Tensor, ...]:
        """The single-variable views that it consists of: itself."""
        return (self,)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables it is on: one."""
        return (self.variable,)

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """All atoms in logical order, merged where one stride covers both."""
        return _merge([atom for dim in self.dims for atom in dim])

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements are contiguous in logical order."""
        atoms = self.atoms
        return not atoms or (len(atoms) == 1 and atoms[0][1] == 1)

    def reshape(self, *shape: int) -> Tensor:
        """Return the same elements in the same logical order under another shape.

        Raises
        ------
        BadGraph
            When the number of elements differs, or an atom would be split unevenly.
        """
        dims = _split_into(self.dims, tuple(whole_shape(self.shape, shape)))
        if dims is None:
            raise BadGraph(
                f"Shape {tuple(shape)} is not a view of a tensor of shape {self.shape} with"
                f" strides {self.atoms}; copy it first"
            )
        return Tensor(self.variable, self.offset, dims)

    def can_reshape(self, *shape: int) -> bool:
        """Return whether a reshape to that shape is a view."""
        try:
            return _split_into(self.dims, tuple(whole_shape(self.shape, shape))) is not None
        except BadGraph:
            return False

    def dim_shuffle(self, *order: int) -> Tensor:
        """Return the tensor with its dimensions permuted.

        Raises
        ------
        BadGraph
            When `order` is not a permutation of the dimensions.
        """
        if not all(type(d) is int for d in order):
            order = tuple(a_count("A dimension to shuffle", d) for d in order)
        if sorted(order) != list(range(len(self.dims))):
            raise BadGraph(f"{order} is not a permutation of the {len(self.dims)} dimensions")
        return Tensor(self.variable, self.offset, tuple(self.dims[d] for d in order))

    def slice(self, dim: int, start: int, stop: int) -> Tensor:
        """Return elements `start` to `stop` (half-open) along one dimension.

        Raises
        ------
        BadGraph
            When the range is out of bounds, or splits a dimension with several atoms unevenly.
        """
        dim, start, stop = slice_range(self.shape, dim, start, stop)
        if (start, stop) == (0, self.shape[dim]):
            return self
        offset = self.offset
        kept_atoms: list[Atom] = []
        atoms = list(self.dims[dim])
        begin, length = start, stop - start
        while atoms:
            stride = atoms.pop(0)[1]
            inner = prod(s for s, _ in atoms)
            if start % inner == 0 and length % inner == 0:
                offset += start // inner * stride
                kept_atoms.append((length // inner, stride))
                kept_atoms.extend(atoms)
                break
            if start // inner != (start + length - 1) // inner:
                raise BadGraph(
                    f"slice {begin}:{begin + length} of dim {dim} is not a view; copy it first"
                )
            offset += start // inner * stride
            start %= inner
        dims = list(self.dims)
        dims[dim] = tuple(kept_atoms) or ((1, 0),)
        return Tensor(self.variable, offset, tuple(dims))

    def sub_sample(self, dim: int, step: int) -> Tensor:
        """Return every `step`-th element along one dimension, from the first.

        Raises
        ------
        BadGraph
            When the dimension does not exist, the step is below 1, or the dimension is in several
            atoms that the step does not divide.
        """
        dim = dim if type(dim) is int else a_count("The dimension to sample", dim)
        step = step if type(step) is int else a_count("The step of a sample", step)
        if not 0 <= dim < len(self.dims):
            raise BadGraph(f"A tensor of shape {self.shape} has no dimension {dim} to sample")
        if step < 1:
            raise BadGraph(f"The step of a sample is {step}; it must be 1 or more")
        *outer, (size, stride) = self.dims[dim]
        if any(n != 1 for n, _ in outer) and size % step:
            raise BadGraph(
                f"every {step} of dim {dim} of {self.shape} is not a view; copy it first"
            )
        dims = list(self.dims)
        dims[dim] = (*outer, (-(-size // step), stride * step))
        return replace(self, dims=tuple(dims))

    def reverse(self, dim: int) -> Tensor:
        """Return the tensor with the elements along one dimension reversed.

        Raises
        ------
        BadGraph
            When the dimension does not exist.
        """
        dim = dim if type(dim) is int else a_count("The dimension to reverse", dim)
        if not 0 <= dim < len(self.dims):
            raise BadGraph(f"A tensor of shape {self.shape} has no dimension {dim} to reverse")
        dims = list(self.dims)
        dims[dim] = tuple((size, -stride) for size, stride in self.dims[dim])
        last = sum((size - 1) * stride for size, stride in self.dims[dim])
        return replace(self, offset=self.offset + last, dims=tuple(dims))

    def broadcast_to(self, shape: Sequence[int]) -> Tensor:
        """Return the tensor stretched to `shape` by numpy's rules, without copying.

        Raises
        ------
        BadGraph
            When the shapes do not broadcast.
        """
        shape = wide_shape(shape)
        missing = len(shape) - len(self.dims)
        if missing < 0:
            raise BadGraph(f"Shape {self.shape} does not broadcast to {shape}")
        dims: list[Dim] = []
        padded_dims = (((1, 0),),) * missing + self.dims
        for dim, have, want in zip(padded_dims, (1,) * missing + self.shape, shape, strict=True):
            if have == want:
                dims.append(dim)
            elif have == 1:
                dims.append(((want, 0),))
            else:
                raise BadGraph(f"Shape {self.shape} does not broadcast to {shape}")
        return Tensor(self.variable, self.offset, tuple(dims))

    def flatten(self) -> Tensor:
        """Return the elements in logical order as one dimension."""
        atoms = self.atoms
        return Tensor(self.variable, self.offset, (atoms or ((1, 0),),))

    def refine(self, factors: Sequence[Sequence[int]]) -> list[list[Atom]] | None:
        """Split every dimension into atoms of the given sizes; None when that is impossible.

        Parameters
        ----------
        factors
            For each dimension, the sizes of its parts, outermost first.
        """
        result: list[list[Atom]] = []
        for dim, sizes in zip(self.dims, factors, strict=True):
            atoms = list(dim)
            parts: list[Atom] = []
            for size in reversed(sizes):
                head = _split_off(atoms, size)
                joined = _merge(head) if head is not None else None
                if joined is None or len(joined) > 1:
                    return None
                parts.append(joined[0] if joined else (1, 0))
            result.append(parts[::-1])
        return result
