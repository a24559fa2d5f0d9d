"""How users write a codelet: a plain function for one vertex, typed fields, a cycle law."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.codelets._jit import jit
from engine.codelets.codelet import Batch, Codelet, Field, Law, Scalar
from engine.errors import BadGraph

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
) -> Callable[[Callable[..., object]], Codelet]:
    """Make a codelet of the function below it.

    The function is compiled with numba; it gets the fields and then the scalars, in order, and
    works on one vertex. A worker vertex runs on one of its tile's contexts.

    Parameters
    ----------
    *fields
        What a vertex connects to.
    law
        Cycles of every vertex of a batch: takes a `Batch` of shapes and the machine, gives an
        ndarray of int64, shape (n_vertices,).
    code_bytes
        Size of its code on a tile.
    source
        Where the law comes from.
    scalars
        Numbers of a vertex's state.
    name
        As it stands in reports; the function's own when empty.
    flops
        Useful floating-point operations of every vertex.
    is_supervisor
        Whether one vertex takes all contexts of its tile.
    is_data_dependent
        Whether the function returns a count that the law uses as `Batch.counts`.
    apart
        Groups of fields that must lie in different memory elements.
    has_slow_path
        Whether `apart` and interleaved fields are only for speed: where a tile has no room for
        that, the law finds False in `Batch.is_fast`.

    Raises
    ------
    BadGraph
        When the function's arguments are not the fields and scalars, or `apart` does not name
        its fields.
    """

    def make(function: Callable[..., object]) -> Codelet:
        label = name or function.__name__
        expected = sum(4 if field.kind == "block" else 1 for field in fields) + len(scalars)
        given = len(inspect.signature(function).parameters)
        if given != expected:
            raise BadGraph(
                f"Codelet {label!r} takes {given} arguments: its fields and scalars make {expected}"
            )
        if isinstance(apart, str) or any(isinstance(group, str) for group in apart):
            raise BadGraph(
                f"Codelet {label!r} keeps {apart!r} apart: give groups of field names, as"
                " [('a', 'b')]"
            )
        return Codelet(
            label,
            fields,
            jit(function),
            law,
            code_bytes=code_bytes,
            source=source,
            scalars=tuple(scalars),
            flops=flops,
            is_supervisor=is_supervisor,
            is_data_dependent=is_data_dependent,
            apart=tuple(tuple(group) for group in apart),
            has_slow_path=has_slow_path,
        )

    return make
