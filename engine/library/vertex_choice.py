"""Chooses specialised codelets for the layouts of an operation's vertices.

An elementwise operation may broadcast one row; a copy may be a transposition. The vertices of these
cases form separate batches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.codelets.popops.elementwise.copy import COPY_BLOCK, block_cycles
from tilescope.engine.codelets.popops.elementwise.in_place import BINARY_IN_PLACE_BLOCK
from tilescope.engine.codelets.popops.elementwise.operations import BINARY_BLOCK
from tilescope.engine.codelets.popops.elementwise.transpose import TRANSPOSE, grain_of
from tilescope.engine.codelets.popops.elementwise.vector_inner import (
    VECTOR_INNER,
    VECTOR_INNER_IN_PLACE,
    has_vector_inner,
)
from tilescope.engine.graph import Regions
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.graph.vertex.law import Batch
from tilescope.engine.machine import Machine

__all__ = ["choose_vertices"]

Batches = list[tuple[Codelet, NDArray[np.int32], dict[str, Regions]]]


def choose_vertices(
    function: str,
    codelet: Codelet,
    tile: NDArray[np.int32],
    regions: Sequence[Regions],
    machine: Machine,
) -> Batches:
    """Return the batch, split by the best codelet for its vertices.

    Parameters
    ----------
    function
        Name of the operation.
    codelet
        Codelet of the whole batch.
    tile : ndarray of int32, shape (n,)
        Tiles of the vertices.
    regions
        Regions of the operands, then of the result.
    machine
        The target.
    """
    rest = np.ones(tile.size, dtype=bool)
    batches: Batches = []
    out = regions[-1]
    for data, shared in _row_candidates(function, codelet, regions):
        chosen = rest & _shares_row(function, data, shared, out)
        if not chosen.any():
            continue
        rest &= ~chosen
        fields = {"a": _some(data, chosen), "b": _rows_of(_some(shared, chosen))}
        of_function = VECTOR_INNER_IN_PLACE
        if data is not out:
            fields["out"] = _some(out, chosen)
            of_function = VECTOR_INNER
        batches.append((of_function[function], tile[chosen], fields))
    if codelet is COPY_BLOCK:
        x, out = regions
        chosen = _is_transposed(x, out, machine)
        if chosen.any():
            rest &= ~chosen
            fields = {"x": _some(x, chosen), "out": _some(out, chosen)}
            batches.append((TRANSPOSE, tile[chosen], fields))
    if rest.any():
        batches.append((codelet, tile[rest], _fields(codelet, [_some(r, rest) for r in regions])))
    return batches


def _fields(codelet: Codelet, regions: Sequence[Regions]) -> dict[str, Regions]:
    """Return regions by field; a codelet in place has its result, the last region, first."""
    if codelet.fields[0].is_written:
        regions = [regions[-1], *regions[:-1]]
    return {field.name: r for field, r in zip(codelet.fields, regions, strict=True)}


def _row_candidates(
    function: str, codelet: Codelet, regions: Sequence[Regions]
) -> list[tuple[Regions, Regions]]:
    """Return the operands as data and shared row, in all orders that the vertices support."""
    if function not in VECTOR_INNER:
        return []
    if codelet is BINARY_IN_PLACE_BLOCK[function]:
        shared, target = regions
        return [(target, shared)]
    if codelet is BINARY_BLOCK[function]:
        a, b, _ = regions
        return [(a, b), (b, a)] if function in ("add", "multiply") else [(a, b)]
    return []


def _is_transposed(x: Regions, out: Regions, machine: Machine) -> NDArray[np.bool_]:
    """Whether rows are columns of the source, in whole blocks, and a transposition is faster."""
    _, rows, columns = out.size.T
    grain = grain_of(out.variable.dtype.n_bytes)
    if grain is None or not rows.size:
        return np.zeros(rows.size, dtype=bool)
    fits = (x.stride[:, 1] == 1) & (x.stride[:, 2] > 1) & (out.stride[:, 2] == 1)
    fits &= (rows % grain == 0) & (columns % grain == 0)
    if fits.any():
        n_bytes, name = out.variable.dtype.n_bytes, out.variable.dtype.name
        shapes = Batch(
            rows.size,
            {"x": x.size, "out": out.size},
            {"x": x.stride, "out": out.stride},
            dict.fromkeys(("x", "out"), n_bytes),
            dict.fromkeys(("x", "out"), name),
            {},
            np.zeros(rows.size, np.int64),
        )
        fits &= TRANSPOSE.law(shapes, machine) < block_cycles(shapes, machine)
    return np.asarray(fits)


def _shares_row(function: str, data: Regions, shared: Regions, out: Regions) -> NDArray[np.bool_]:
    """Whether an operand's row is shared by all rows, or by all rows of a plane."""
    planes, rows, columns = out.size.T
    is_row = (columns > 1) & (out.stride[:, 2] == 1)
    is_row &= (data.stride[:, 2] == 1) & (shared.stride[:, 2] == 1)
    of_all_planes = (planes == 1) | (shared.stride[:, 0] == 0)
    of_all_rows = (rows == 1) | (shared.stride[:, 1] == 0)
    n_blocks = np.where(of_all_planes, planes * rows, rows)
    fits = has_vector_inner(function, out.variable.dtype.name, columns)
    return np.asarray(is_row & of_all_rows & (n_blocks > 1) & fits)


def _rows_of(shared: Regions) -> Regions:
    """Return only the shared rows: one, or one per plane."""
    of_all = (shared.size[:, 0] == 1) | (shared.stride[:, 0] == 0)
    size, stride = shared.size[:, [0, 2]].copy(), shared.stride[:, [0, 2]].copy()
    size[of_all, 0], stride[of_all, 0] = 1, 0
    return Regions(shared.variable, shared.start, size, stride)


def _some(regions: Regions, chosen: NDArray[np.bool_]) -> Regions:
    if chosen.all():
        return regions
    return Regions(
        regions.variable, regions.start[chosen], regions.size[chosen], regions.stride[chosen]
    )
