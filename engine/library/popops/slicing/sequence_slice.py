"""Several runs of rows copied from one tensor to another, at positions that the data give.

As in graphcore/poplibs sdk-release-3.4, include/popops/SequenceSlice.hpp. There, vertices copy the
runs; here the row that every row of the target takes is computed first, and then looked up, so that
the exchange does not depend on data.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import INT32, Tensor, View
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.in_place import select_in_place
from tilescope.engine.library.popops.elementwise.operations import binary, copy_to, select
from tilescope.engine.library.popops.reduction.reduce import reduce
from tilescope.engine.library.popops.slicing.multi_slice import multi_slice

__all__ = ["sequence_slice"]


@checked
def sequence_slice(  # source and target, and three tensors of a run each
    builder: Builder,
    x: View,
    target: View,
    lengths: View,
    x_offsets: View,
    target_offsets: View,
    *,
    zero_unused: bool = False,
) -> None:
    """Copy runs of rows to their places in a target.

    Parameters
    ----------
    builder
        Target of the program.
    x
        Source, shape (rows, …).
    target
        Of the same type, shape (rows, …) with as many elements a row; a view without aliased
        elements.
    lengths, x_offsets, target_offsets
        int32, shape (runs,): the rows of every run, its first row in the source and in the target.
        Runs may not overlap in the target: of two, the row of the source that is further back
        counts. Rows beyond the source are zeros.
    zero_unused
        Whether rows of the target that no run names become zeros; else they stay.

    Raises
    ------
    BadGraph
        If types or shapes are incompatible, or the target aliases elements.
    """
    _check(x, target, [lengths, x_offsets, target_offsets])
    n_rows, n_runs = target.shape[0], lengths.shape[0]
    detail = {"source": list(x.shape), "target": list(target.shape), "runs": n_runs}
    build = builder.inside("sequenceSlice", "popops.sequenceSlice", detail, flops=0)
    rows = _rows(
        build,
        n_rows,
        [column.reshape(n_runs, 1) for column in (lengths, x_offsets, target_offsets)],
    )
    slices = multi_slice(build, x, rows).reshape(*target.shape)
    if zero_unused:
        copy_to(build, slices, target, "result")
        return
    none = build.constant([0], "none", INT32)
    is_unused = binary(build, "less", rows, none)
    select_in_place(
        build, target, slices, is_unused.reshape(n_rows, *[1] * (len(target.shape) - 1))
    )


def _check(x: View, target: View, runs: list[View]) -> None:
    """Raise BadGraph unless types and shapes are compatible.

    Raises
    ------
    BadGraph
        If they are not.
    """
    is_like = len(x.shape) > 1 and len(target.shape) > 1 and x.dtype == target.dtype
    if not is_like or prod(x.shape[1:]) != prod(target.shape[1:]):
        raise BadGraph(
            f"sequence_slice: the source {x.name!r} is {x.dtype} of shape {x.shape}, the target"
            f" {target.name!r} {target.dtype} of shape {target.shape}: expected one type, two or"
            " more dimensions, and rows of as many elements"
        )
    for runs_ in runs:
        if runs_.dtype != INT32 or len(runs_.shape) != 1 or runs_.shape != runs[0].shape:
            raise BadGraph(
                f"sequence_slice: {runs_.name!r} is {runs_.dtype} of shape {runs_.shape}: expected"
                " int32 of one dimension, as long as lengths and both offsets are"
            )


def _rows(builder: Builder, n_rows: int, runs: list[View]) -> Tensor:
    """Return the row of the source for every row of the target, -1 for none: int32, (rows,)."""
    lengths, x_offsets, target_offsets = runs
    position = builder.constant(np.arange(n_rows)[None], "position", INT32)
    zero = builder.constant([[0]], "zero", INT32)
    none = builder.constant([[-1]], "none", INT32)
    within = binary(builder, "subtract", position, target_offsets)
    is_inside = binary(
        builder,
        "logical_and",
        binary(builder, "greater_equal", within, zero),
        binary(builder, "less", within, lengths),
    )
    row = select(builder, binary(builder, "add", within, x_offsets), none, is_inside)
    return reduce(builder, "maximum", row, [0]).reshape(n_rows)
