"""The fields and scalars of a codelet: what a vertex connects to, and the numbers in its state."""

from __future__ import annotations

import keyword
from dataclasses import dataclass

from tilescope.engine.arguments import a_count, a_switch, a_text
from tilescope.engine.errors import BadGraph

__all__ = ["Field", "Scalar"]


@dataclass(frozen=True)
class Field:
    """A connection of a vertex.

    Parameters
    ----------
    name
        An identifier; graphs connect the field by it.
    direction
        ``in``, ``out`` or ``inout``.
    n_dims
        Dimensions of the region.
    kind
        How the kernel receives it: ``vector``, a contiguous 1-D array; ``view``, an array of
        `n_dims` dimensions with any strides; ``list``, a list of contiguous arrays with a length of
        their own; ``block``, the four arguments memory, start, sizes and strides, for kernels that
        do their own indexing.
    interleaved
        Whether it must lie in interleaved memory, which wide loads require.
    dtype
        Required type of its variable; empty for any type.
    dtype_of, size_of
        Fields whose type, or sizes, it must match.
    """

    name: str
    direction: str
    n_dims: int = 1
    kind: str = "vector"
    interleaved: bool = False
    dtype: str = ""
    dtype_of: str = ""
    size_of: str = ""

    def __post_init__(self) -> None:
        """Validate the description.

        Raises
        ------
        BadGraph
            When a value is not allowed.
        """
        _check_name("field", self.name)
        where = f"Field {self.name!r}"
        for part in ("direction", "kind", "dtype", "dtype_of", "size_of"):
            a_text(f"{where}: its {part}", getattr(self, part))
        a_count(f"{where}: its number of dimensions", self.n_dims)
        a_switch(f"{where}: interleaved", self.interleaved)
        if self.direction not in ("in", "out", "inout"):
            raise BadGraph(f"Field {self.name!r} must be in, out or inout, got {self.direction!r}")
        if self.kind not in ("vector", "view", "list", "block") or not 1 <= self.n_dims <= 8:
            raise BadGraph(
                f"Field {self.name!r} must be a vector, view, list or block of 1 to 8 dimensions,"
                f" got a {self.kind} of {self.n_dims}"
            )
        if self.kind in ("vector", "list") and self.n_dims != 1:
            subject = "a vector" if self.kind == "vector" else "a list of intervals"
            raise BadGraph(f"Field {self.name!r} is {subject} and must have one dimension")

    @property
    def is_vector(self) -> bool:
        """Whether it must be contiguous."""
        return self.kind in ("vector", "list")

    @property
    def is_list(self) -> bool:
        """Whether a vertex has several intervals of it."""
        return self.kind == "list"

    @property
    def is_read(self) -> bool:
        """Whether the vertex reads it."""
        return self.direction in ("in", "inout")

    @property
    def is_written(self) -> bool:
        """Whether the vertex writes it."""
        return self.direction in ("out", "inout")


def _check_name(subject: str, name: str) -> None:
    a_text(f"The name of a {subject}", name)
    if not name.isidentifier() or keyword.iskeyword(name):
        raise BadGraph(f"Expected a Python identifier as the name of a {subject}, got {name!r}")


@dataclass(frozen=True)
class Scalar:
    """A number in the vertex state: ``int`` or ``float``.

    A scalar that is not ``on_device`` is a compile-time constant and takes no tile memory. One that
    ``is_for_law`` is read by law and FLOP count only: the kernel does not take it.
    """

    name: str
    kind: str = "int"
    on_device: bool = True
    is_for_law: bool = False

    def __post_init__(self) -> None:
        """Validate the description.

        Raises
        ------
        BadGraph
            When its name or kind is invalid.
        """
        _check_name("scalar", self.name)
        a_text(f"Scalar {self.name!r}: its kind", self.kind)
        a_switch(f"Scalar {self.name!r}: on_device", self.on_device)
        a_switch(f"Scalar {self.name!r}: is_for_law", self.is_for_law)
        if self.kind not in ("int", "float"):
            raise BadGraph(f"Scalar {self.name!r} must be an int or a float, got {self.kind!r}")
