"""One element of every row: chosen by an index of the row, or lessened by one.

As in graphcore/poplibs sdk-release-3.4, include/popops/SelectScalarFromRows.hpp and
UpdateScalarInRows.hpp, for cross entropies with sparse labels. There, one vertex does each; here
they are put together from gathers, updates and choices.
"""

from __future__ import annotations

import numpy as np

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import FLOAT16, FLOAT32, INT32, Tensor, View
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.popops.elementwise.in_place import select_in_place
from tilescope.engine.library.popops.elementwise.operations import binary, select
from tilescope.engine.library.popops.slicing.gather import gather_elements
from tilescope.engine.library.popops.slicing.multi_update import grouped_multi_update

__all__ = ["MASKED_LABEL", "select_scalar_from_rows", "update_scalar_in_rows"]

#: Index of a row without a label; MASKED_LABEL_CODE there, as a signed integer.
MASKED_LABEL = -1


def _checked(subject: str, x: View, indices: View) -> tuple[int, int]:
    """Return rows and columns.

    Raises
    ------
    BadGraph
        If types or shapes are not supported.
    """
    if len(x.shape) != 2 or x.dtype not in (FLOAT16, FLOAT32):
        raise BadGraph(
            f"{subject}: {x.name!r} is {x.dtype} of shape {x.shape}: expected rows and columns of"
            " float16 or float32"
        )
    n_rows, n_columns = x.shape
    if indices.dtype != INT32 or indices.shape != (n_rows,):
        raise BadGraph(
            f"{subject}: {indices.name!r} is {indices.dtype} of shape {indices.shape}: expected"
            f" int32 of shape ({n_rows},), an index for each row of {x.name!r}"
        )
    return n_rows, n_columns


@checked
def select_scalar_from_rows(builder: Builder, x: View, indices: View) -> Tensor:
    """Return an element of every row.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16 or float32, shape (rows, columns).
    indices
        int32, shape (rows,). `MASKED_LABEL` gives 0, any other index out of range NaN.

    Returns
    -------
    Tensor
        Shape (rows,).

    Raises
    ------
    BadGraph
        If types or shapes are not supported.
    """
    n_rows, n_columns = _checked("select_scalar_from_rows", x, indices)
    detail = {"shape": list(x.shape)}
    operation = "popops.selectScalarFromRows"
    build = builder.inside("selectScalarFromRows", operation, detail, flops=0)
    scalars = gather_elements(build, x, indices.reshape(n_rows, 1), 1).reshape(n_rows)
    nan = build.constant([np.nan], "nan", x.dtype)
    return select(build, scalars, nan, _is_label(build, indices, n_columns))


@checked
def update_scalar_in_rows(builder: Builder, x: View, indices: View) -> None:
    """Subtract 1 from an element of every row.

    Parameters
    ----------
    builder
        Target of the program.
    x
        float16 or float32, shape (rows, columns); a view without aliased elements.
    indices
        int32, shape (rows,). `MASKED_LABEL` leaves the row as it is, any other index out of range
        makes all of it NaN.

    Raises
    ------
    BadGraph
        If types or shapes are not supported, or elements are aliased.
    """
    n_rows, n_columns = _checked("update_scalar_in_rows", x, indices)
    detail = {"shape": list(x.shape)}
    build = builder.inside("updateScalarInRows", "popops.updateScalarInRows", detail, flops=n_rows)
    less = build.constant(np.full((n_rows, 1, 1), -1.0), "minusOne", x.dtype)
    rows = x.reshape(n_rows, n_columns, 1)
    grouped_multi_update(build, "add", rows, indices.reshape(n_rows, 1), less)
    nan = build.constant([[np.nan]], "nan", x.dtype)
    is_label = _is_label(build, indices, n_columns).reshape(n_rows, 1)
    select_in_place(build, x, nan, is_label)


def _is_label(builder: Builder, indices: View, n_columns: int) -> Tensor:
    """Return whether every index is in range or masked: bool, shape (rows,)."""
    masked = builder.constant([MASKED_LABEL], "masked", INT32)
    end = builder.constant([n_columns], "columns", INT32)
    is_not_below = binary(builder, "greater_equal", indices, masked)
    return binary(builder, "logical_and", is_not_below, binary(builder, "less", indices, end))
