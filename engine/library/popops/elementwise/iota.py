"""Ascending integers: 0, 1, 2 … along the last dimension."""

from __future__ import annotations

import numpy as np

from tilescope.engine.codelets.popops.elementwise.iota import IOTA
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph import INT32, Tensor, View
from tilescope.engine.graph import unchecked_blocks as blocks
from tilescope.engine.library.argument_check import checked
from tilescope.engine.library.builder import Builder
from tilescope.engine.library.walk import cut_rows

__all__ = ["iota"]


@checked
def iota(builder: Builder, target: View, first: int = 0) -> None:
    """Write ascending integers to every row of a variable of int32.

    Parameters
    ----------
    builder
        Target of the program.
    target
        A whole variable; its mapping decides which tile writes what.
    first
        First integer of every row.

    Raises
    ------
    BadGraph
        If the target is not int32, or is not a whole row-major variable.
    """
    if target.dtype != INT32:
        raise BadGraph(f"{target.name!r} is {target.dtype}: iota writes int32")
    if not (
        isinstance(target, Tensor)
        and target.is_contiguous
        and target.n_elements == target.variable.n_elements
    ):
        raise BadGraph(f"{target.name!r} is not a whole variable: iota writes whole variables")
    variable = target.variable
    variable.check_mapped()
    build = builder.inside("iota", "popops.iota", {"shape": list(target.shape)}, flops=0)
    row = target.shape[-1]
    rows_by_tile = cut_rows(variable, row, variable.n_elements // row)
    n = rows_by_tile.n_pieces
    sizes = [rows_by_tile.n_rows, rows_by_tile.n_columns]
    out = blocks(variable, rows_by_tile.start, sizes, [row, 1], n)
    scalars = {"begin": np.asarray(first + rows_by_tile.start % row)}
    build.vertices(build.compute_set("iota"), IOTA, rows_by_tile.tile, {"out": out}, scalars)
