"""How users write a codelet: a plain function for one vertex, typed fields, a cycle law."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.arguments import a_kind, a_list, a_text, shown
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph.vertex.codelet import Codelet, Field, Scalar
from tilescope.engine.graph.vertex.law import Batch, Law
from tilescope.engine.host.jit._jit import allocating_jit

__all__ = ["codelet"]


def codelet(
    *fields: Field,
    law: Law,
    code_bytes: int,
    source: str = "the author of the codelet",
    scalars: Sequence[Scalar] = (),
    name: str = "",
    flops: Callable[[Batch], NDArray[np.int64]] | None = None,
    is_supervisor: bool = False,
    is_data_dependent: bool = False,
    apart: Sequence[Sequence[str]] = (),
    has_slow_path: bool = False,
    is_multi_vertex: bool = False,
) -> Callable[[Callable[..., object]], Codelet]:
    """Make a codelet from the decorated function.

    The function is compiled with numba. It receives the fields and then the scalars, in order, and
    processes one vertex. A worker vertex runs on one of its tile's contexts.

    Parameters
    ----------
    *fields
        Fields that a vertex connects to tensors.
    law
        Cycles of every vertex of a batch: takes a `Batch` of shapes and the machine, returns an
        ndarray of int64, shape (n_vertices,).
    code_bytes
        Code size on a tile, bytes.
    source
        Source of the law.
    scalars
        Scalars in the vertex state.
    name
        Name in reports; the function's name if empty.
    flops
        Useful floating-point operations of every vertex.
    is_supervisor
        Whether one vertex occupies all contexts of its tile.
    is_data_dependent
        Whether the function returns a count that the law uses as `Batch.counts`.
    apart
        Groups of fields that must lie in different memory elements.
    has_slow_path
        Whether `apart` and interleaved fields only affect speed: if a tile lacks room for them,
        `Batch.is_fast` is False.
    is_multi_vertex
        Whether a vertex runs on all worker contexts of its tile. The function is the program of one
        worker: it receives the number of the worker, from 0, and of all workers after the scalars.
        Workers must not write the same element, or read what another one writes. The law returns
        the instructions of every worker, shape (n_vertices, n_worker_contexts); `Batch.counts` has
        that shape. A vertex takes as long as its slowest worker, and the machine's
        `worker_start_cycles`.

    Raises
    ------
    BadGraph
        If an argument has the wrong type, the function's arguments do not match the fields and
        scalars, or `apart` names unknown fields.
    """
    called = a_text("The name of a codelet", name)
    for field in fields:
        a_kind("A part of a codelet", field, Field, "an engine.Field, and scalars as scalars=")
    numbers = tuple(a_list("The scalars of a codelet", scalars, "a list of engine.Scalar"))
    for number in numbers:
        a_kind("A scalar of a codelet", number, Scalar, "an engine.Scalar")

    def make(function: Callable[..., object]) -> Codelet:
        if not inspect.isfunction(function):
            raise BadGraph(
                f"A codelet is made of a function, not of {shown(function)}: write @codelet(...)"
                " above a def"
            )
        label = called or function.__name__
        expected = sum(4 if field.kind == "block" else 1 for field in fields)
        expected += sum(not number.is_for_law for number in numbers)
        parts = "fields and scalars"
        if is_multi_vertex:
            expected, parts = expected + 2, "fields, scalars, worker id and number of workers"
        n_given = len(inspect.signature(function).parameters)
        if n_given != expected:
            raise BadGraph(
                f"Codelet {label!r} takes {n_given} arguments: its {parts} make {expected}"
            )
        return Codelet(
            label,
            fields,
            allocating_jit(function),
            law,
            code_bytes=code_bytes,
            source=source,
            scalars=numbers,
            flops=flops,
            is_supervisor=is_supervisor,
            is_data_dependent=is_data_dependent,
            apart=_groups(label, apart),
            has_slow_path=has_slow_path,
            is_multi_vertex=is_multi_vertex,
        )

    return make


def _groups(label: str, apart: Any) -> tuple[tuple[str, ...], ...]:
    """Return the groups of fields that must lie in different memory elements."""
    where = f"Codelet {label!r}: what it keeps apart"
    form = "groups of field names, as [('a', 'b')]"
    return tuple(
        tuple(a_text(where, field) for field in a_list(where, group, form))
        for group in a_list(where, apart, form)
    )
