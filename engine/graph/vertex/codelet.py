"""A codelet: the function of a vertex, and its cost.

A codelet is a compiled function for one vertex, typed fields, and a cycle law over the shapes of a
whole batch; `tilescope.engine.execute.launcher` builds the function that runs a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilescope.engine.arguments import a_kind, a_switch, a_text, numbers, shown
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph.tensor.sliding import Sliding
from tilescope.engine.graph.vertex.field import Field, Scalar
from tilescope.engine.graph.vertex.law import Batch, Law, SharedWork

if TYPE_CHECKING:
    from tilescope.engine.graph.vertex.regions import Regions

__all__ = ["Codelet", "Field", "Scalar", "Sliding"]


@dataclass(frozen=True, eq=False)
class Codelet:
    """A vertex type.

    Parameters
    ----------
    name
        User-visible name.
    kernel
        Compiled function of one vertex; its arguments are the fields and then the scalars, in
        order, without those for the law.
    law
        Cycles of each vertex: of its worker context, or of the whole tile for a supervisor
        vertex. Takes a `Batch` and the machine, returns ndarray of int64, shape (n_vertices,).
    code_bytes
        Code size, bytes, once per tile that runs the codelet.
    source
        Source of the law.
    flops
        Useful floating-point operations of each vertex; None if it has none.
    is_supervisor
        Whether one vertex uses all worker contexts of its tile.
    is_data_dependent
        Whether its cycles depend on the data: the kernel then returns a count, which the law
        finds in `Batch.counts`.
    is_multi_vertex
        Whether the kernel is the program of one worker and runs on every context of the tile: its
        last arguments are the number of the worker and of all workers, and the law returns the
        instructions of every worker, ndarray of int64, shape (n_vertices, n_worker_contexts).
    reads_clock
        Whether the kernel's last argument is the cycle counter of its IPU as its step begins.
    pieces
        The cost of a tile's vertices when they are the pieces of one job that all its workers
        share, whichever codelets they have; the law is then that of these pieces.
    apart
        Groups of fields that must lie in different memory elements, pairwise, so that a tile can
        access them in the same cycle.
    has_slow_path
        Whether `apart` and interleaved fields are only for speed: where the constraints are not
        met, the vertex still runs, and the law finds False in `Batch.is_fast`. Without a slow path,
        a tile that cannot meet them is out of memory.
    independent
        Dimensions along which the vertex computes every element alone, outermost first: per
        dimension, its number in each field, -1 in a field without it. Along these, the simulator
        computes adjoining vertices in one call of the kernel. Along the last dimension of a written
        field, elements stay contiguous. The kernel must accept any stride along the others, and in
        fields it reads.
    sliding
        Dimensions along which windows move, outermost first: adjoining vertices are computed in one
        call if their windows take the same elements as before.
    is_selection
        Whether it writes nothing but elements that it reads, and zero: results in the type of the
        operands need no rounding.
    """

    name: str
    fields: tuple[Field, ...]
    kernel: Any
    law: Law
    code_bytes: int
    source: str
    scalars: tuple[Scalar, ...] = ()
    flops: Callable[[Batch], NDArray[np.int64]] | None = None
    is_supervisor: bool = True
    is_data_dependent: bool = False
    apart: tuple[tuple[str, ...], ...] = ()
    has_slow_path: bool = False
    independent: tuple[tuple[int, ...], ...] = ()
    sliding: tuple[Sliding, ...] = ()
    is_multi_vertex: bool = False
    reads_clock: bool = False
    pieces: SharedWork | None = None
    is_selection: bool = False

    def _check_asks(self) -> None:
        """Validate the memory constraints.

        Raises
        ------
        BadGraph
            When fields to be kept apart are unknown or fewer than two, or when there is a slow path
            without any constraint.
        """
        names = [field.name for field in self.fields]
        for group in self.apart:
            unknown = [name for name in group if name not in names]
            if unknown:
                raise BadGraph(
                    f"Codelet {self.name!r} keeps {unknown[0]!r} apart, which is not one of its"
                    f" fields {', '.join(names)}"
                )
            if len(set(group)) < 2 or len(set(group)) < len(group):
                raise BadGraph(
                    f"Codelet {self.name!r} keeps {', '.join(map(repr, group)) or 'nothing'}"
                    " apart: name two or more fields, each once"
                )
        if self.has_slow_path and not self.asks_of_memory:
            raise BadGraph(
                f"Codelet {self.name!r} has a slow path but no memory constraints: give it"
                " interleaved fields or fields to keep apart"
            )

    @property
    def asks_of_memory(self) -> bool:
        """Whether its fields have memory constraints."""
        return bool(self.apart) or any(field.interleaved for field in self.fields)

    def __post_init__(self) -> None:
        """Validate the description.

        Raises
        ------
        BadGraph
            When a part is of the wrong kind, names repeat, the law is not a function, or the code
            size is invalid.
        """
        a_text("The name of a codelet", self.name)
        where = f"Codelet {self.name!r}"
        a_text(f"{where}: its source", self.source)
        for part in ("is_supervisor", "is_data_dependent", "has_slow_path", "is_multi_vertex"):
            a_switch(f"{where}: {part}", getattr(self, part))
        if self.is_multi_vertex and self.is_supervisor:
            raise BadGraph(
                f"{where} is a multi-vertex and a supervisor vertex: choose one; a multi-vertex"
                " runs on every worker, a supervisor vertex does as its law says"
            )
        if self.pieces is not None:
            a_kind(
                f"{where}: pieces", self.pieces, SharedWork, "a SharedWork of the engine or None"
            )
            if self.fills_tile or self.is_data_dependent:
                raise BadGraph(
                    f"{where} has pieces: its vertices are dealt to workers, so it may not be a"
                    " supervisor vertex, a multi-vertex or data-dependent"
                )
        for field in self.fields:
            a_kind(f"{where}: one of its fields", field, Field, "an engine.Field")
        for scalar in self.scalars:
            a_kind(f"{where}: one of its scalars", scalar, Scalar, "an engine.Scalar")
        if self.flops is not None and not callable(self.flops):
            raise BadGraph(f"{where}: flops is {shown(self.flops)}: expected a function or None")
        names = [field.name for field in self.fields] + [scalar.name for scalar in self.scalars]
        for name in names:
            if names.count(name) > 1:
                raise BadGraph(f"Codelet {self.name!r} has two fields or scalars called {name!r}")
        if not callable(self.law):
            raise BadGraph(
                f"The cycle law of {self.name} is {shown(self.law)}: expected a function"
            )
        code_bytes: object = self.code_bytes  # untrusted: authors may pass any type
        if not isinstance(code_bytes, int) or code_bytes < 0:
            raise BadGraph(
                f"The code of {self.name} takes {shown(code_bytes)} bytes: expected 0 or more"
            )
        for field in self.fields:
            for related in {field.dtype_of, field.size_of} - {""}:
                if related not in names:
                    raise BadGraph(
                        f"Field {field.name!r} of {self.name} refers to {related!r}, which is not a"
                        " field"
                    )
            if field.size_of and (field.is_list or self.field(field.size_of).is_list):
                raise BadGraph(
                    f"Field {field.name!r} of {self.name}: size_of is for fields of one region, not"
                    " for lists of intervals"
                )
        self._check_asks()
        self._check_independent(where)

    def _check_independent(self, where: str) -> None:
        """Validate the dimensions along which elements are independent.

        Raises
        ------
        BadGraph
            When a number is out of range, or vertices cannot be joined.
        """
        for field_dims in self.independent:
            if len(field_dims) != len(self.fields) or any(
                not -1 <= dim < field.n_dims
                for dim, field in zip(field_dims, self.fields, strict=True)
            ):
                raise BadGraph(
                    f"{where}: an independent dimension is {shown(field_dims)}: expected its"
                    f" number in each of {len(self.fields)} fields, -1 where a field lacks it"
                )
        counts = self.is_data_dependent or self.is_multi_vertex or self.reads_clock
        if (self.independent or self.sliding) and (
            counts or any(field.is_list for field in self.fields)
        ):
            raise BadGraph(
                f"{where} has independent dimensions: its vertices are joined, so it may not be a"
                " multi-vertex, count, read the clock or take lists of intervals"
            )

    @property
    def has_products(self) -> bool:
        """Whether its windows have weights: a field of taps."""
        return any(isinstance(window.taps, tuple) for window in self.sliding)

    @property
    def kernel_scalars(self) -> tuple[Scalar, ...]:
        """The scalars that the kernel takes."""
        return tuple(scalar for scalar in self.scalars if not scalar.is_for_law)

    @property
    def fills_tile(self) -> bool:
        """Whether a vertex uses all worker contexts of its tile."""
        return self.is_supervisor or self.is_multi_vertex

    @property
    def vertex_kind(self) -> str:
        """The kind of its vertices, for messages."""
        if self.is_multi_vertex:
            return "a multi-vertex"
        return "a supervisor" if self.is_supervisor else "a worker"

    def count_shape(self, n_vertices: int, n_workers: int) -> tuple[int, ...]:
        """Return the shape of what kernels count: by vertex, or by vertex and worker."""
        return (n_vertices, n_workers) if self.is_multi_vertex else (n_vertices,)

    @property
    def state_bytes(self) -> int:
        """Instance state of a vertex: a pointer and a size per dimension and field, scalars."""
        stored = sum(scalar.on_device for scalar in self.scalars)
        return sum(4 + 4 * field.n_dims for field in self.fields) + 4 * stored

    def field(self, name: str) -> Field:
        """Return the field of that name."""
        return next(field for field in self.fields if field.name == name)

    def check_same_type(self, second: Codelet) -> None:
        """Check that a codelet with the same name can be the same vertex type.

        Code is counted, and vertices are reported, by codelet name.

        Raises
        ------
        BadGraph
            When they differ in code size, in the kind of vertex, or in data dependence.
        """
        sizes, kinds = (
            (self.code_bytes, second.code_bytes),
            (self.vertex_kind, second.vertex_kind),
        )
        if len(set(sizes)) > 1:
            sizes_text = f", of {min(sizes)} and of {max(sizes)} bytes of code"
        elif len(set(kinds)) > 1:
            sizes_text = f": {' and '.join(sorted(kinds, reverse=True))}"
        elif self.is_data_dependent is not second.is_data_dependent:
            sizes_text = ": only one is data-dependent"
        else:
            return
        raise BadGraph(
            f"There are two codelets called {self.name}{sizes_text}; give them different names"
        )

    def check_fields(self, where: str, fields: Mapping[str, Regions], n_vertices: int) -> None:
        """Raise BadGraph unless `fields` are this codelet's.

        Raises
        ------
        BadGraph
            When a field is missing, unknown, or has the wrong number of vertices or dimensions.
        """
        expected = [field.name for field in self.fields]
        a_kind(f"{where}: the fields", fields, Mapping, "a dictionary of regions by field")
        if set(fields) != set(expected):
            raise BadGraph(
                f"{where}: the fields are {', '.join(expected)}, not {', '.join(map(str, fields))}"
            )
        for field in self.fields:
            regions = fields[field.name]
            if not hasattr(regions, "stride"):
                raise BadGraph(
                    f"{where}: field {field.name!r} takes regions, not a {type(regions).__name__}:"
                    " pass a tensor, or make them with engine.graph.blocks"
                )
            first = getattr(regions, "first", None)
            if (first is not None) != field.is_list:
                kind = "a list of intervals" if field.is_list else f"a {field.kind}"
                raise BadGraph(f"{where}: field {field.name!r} is {kind}: give such regions")
            n_given = len(regions.size) if first is None else first.size - 1
            if (n_given, *regions.size.shape[1:]) != (n_vertices, field.n_dims):
                raise BadGraph(
                    f"{where}: field {field.name!r} takes {n_vertices} regions of {field.n_dims}"
                    f" dimensions, not {regions.size.shape}"
                )
            size, stride = regions.shapes
            if field.is_vector and ((stride != 1) & (size > 1)).any():
                raise BadGraph(f"{where}: field {field.name!r} must be contiguous")
        for field in self.fields:
            self._check_alike(where, field, fields)

    def _check_alike(self, where: str, field: Field, fields: Mapping[str, Regions]) -> None:
        """Raise BadGraph unless a field has its required type and sizes."""
        regions = fields[field.name]
        dtype = regions.variable.dtype.name
        dtype_name = fields[field.dtype_of].variable.dtype.name if field.dtype_of else field.dtype
        if dtype_name and dtype != dtype_name:
            raise BadGraph(
                f"{where}: field {field.name!r} must be {dtype_name}, but"
                f" {regions.variable.name!r} is {dtype}"
            )
        if field.size_of:
            unlike = (regions.size != fields[field.size_of].size).any(axis=1)
            if unlike.any():
                vertex = int(unlike.argmax())
                this_size, related_size = (
                    field_regions.size[vertex].tolist()
                    for field_regions in (regions, fields[field.size_of])
                )
                raise BadGraph(
                    f"{where}: vertex {vertex} has {this_size} elements in field {field.name!r} and"
                    f" {related_size} in {field.size_of!r}: the sizes must match"
                )

    def check_scalars(self, where: str, scalars: Mapping[str, ArrayLike], n_vertices: int) -> None:
        """Raise BadGraph unless `scalars` are this codelet's.

        Raises
        ------
        BadGraph
            When a scalar is missing or unknown, or has the wrong length.
        """
        expected = [scalar.name for scalar in self.scalars]
        a_kind(f"{where}: the scalars", scalars, Mapping, "a dictionary of numbers by name")
        if set(scalars) != set(expected):
            raise BadGraph(
                f"{where}: the scalars are {', '.join(expected) or 'none'}, not"
                f" {', '.join(map(str, scalars))}"
            )
        for scalar in self.scalars:
            column = numbers(f"{where}: the values of {scalar.name!r}", scalars[scalar.name])
            if column.dtype.kind not in "fiub" or (
                scalar.kind == "int" and column.dtype.kind == "f"
            ):
                raise BadGraph(
                    f"{where}: scalar {scalar.name!r} must be of kind {scalar.kind}, got"
                    f" {shown(scalars[scalar.name])}"
                )
            if column.ndim > 1 or (column.ndim == 1 and column.size != n_vertices):
                raise BadGraph(
                    f"{where}: scalar {scalar.name!r} takes one number, or one per vertex"
                )

    def columns_of(
        self, scalars: Mapping[str, ArrayLike], n_vertices: int
    ) -> dict[str, NDArray[Any]]:
        """Return every scalar as an array over the vertices, of int64 or float32."""
        columns = {}
        for scalar in self.scalars:
            kind = np.int64 if scalar.kind == "int" else np.float32
            column = np.empty(n_vertices, kind)
            column[:] = scalars[scalar.name]
            columns[scalar.name] = column
        return columns
