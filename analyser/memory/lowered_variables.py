"""Variables on tiles: which parts of them lie where, and when."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.target import target, tile_range
from tilescope.analyser.validation import require
from tilescope.reports import schema
from tilescope.reports.schema.vocabulary import REGIONS

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "TileVariables",
    "first_parts",
    "lowered_parts",
    "places_once",
    "tile_variables",
    "variable_columns",
    "variable_memory",
    "variable_positions",
]


@dataclass(frozen=True)
class TileVariables:
    """The parts of variables on one tile, by address.

    Attributes
    ----------
    part_id : ndarray of int64, shape (n_parts,)
        Number that no other part of the report has.
    variable_id, offset_bytes, bytes, start_step, end_step : ndarray of int64, shape (n_parts,)
        Steps are those of the liveness report, half-open.
    variable_bytes : ndarray of int64, shape (n_parts,)
        Size of the whole variable over all tiles.
    name, dtype, category
        One entry per part.
    is_always_live : ndarray of bool, shape (n_parts,)
    region
        One entry per part: ``Non-interleaved``, ``Interleaved`` or ``Overflowed``; a part that
        reaches into several has them all, with commas between.
    """

    tile_id: int
    part_id: NDArray[np.int64]
    variable_id: NDArray[np.int64]
    name: tuple[str, ...]
    dtype: tuple[str, ...]
    category: tuple[str, ...]
    offset_bytes: NDArray[np.int64]
    bytes: NDArray[np.int64]
    variable_bytes: NDArray[np.int64]
    start_step: NDArray[np.int64]
    end_step: NDArray[np.int64]
    is_always_live: NDArray[np.bool_]
    region: tuple[str, ...]

    def __len__(self) -> int:
        """Return the number of parts."""
        return len(self.variable_id)


@cached
def variable_columns(report: Report) -> dict[str, tuple[object, ...]]:
    """Return the columns of all variables in order of their id."""
    names = (
        "variable_id",
        "name",
        "dtype",
        "shape",
        "bytes",
        "category",
        "is_always_live",
        "n_tiles",
        "sender_id",
        "purpose",
        "n_elements",
        "debug_context_id",
    )
    return dict(zip(names, map(tuple, report.columns(schema.variable, *names)), strict=True))


@cached
def _position_of_variable(report: Report) -> dict[int, int]:
    """Return the position of every variable in the columns by its id."""
    ids = report.column(schema.variable, "variable_id")
    return {variable_id: index for index, variable_id in enumerate(ids)}


def variable_positions(report: Report, variable_id: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return where variables stand in the columns of all variables.

    Raises
    ------
    DamagedReport
        When one of them does not exist.
    """
    ids = np.array(report.column(schema.variable, "variable_id"), dtype=np.int64)
    # Variables are numbered from 0; a report of which nothing says so is searched.
    is_numbered = bool(len(ids)) and ids[0] == 0 and ids[-1] == len(ids) - 1
    positions = variable_id if is_numbered else np.searchsorted(ids, variable_id)
    is_known = (positions >= 0) & (positions < len(ids))
    if not is_numbered:
        is_known[is_known] = ids[positions[is_known]] == variable_id[is_known]
    if not is_known.all():
        require(report, False, f"variable {variable_id[~is_known][0]} does not exist")
    return positions.astype(np.intp)


def tile_variables(report: Report, tile: int) -> TileVariables:
    """Return which variables lie on a tile, where, and from when to when, by address.

    Raises
    ------
    BadQuestion
        When the machine has no such tile.
    """
    tile = tile_range(report, ("tile", tile)).start
    columns = lowered_parts(report, tile, tile + 1)
    columns["part_id"] = first_parts(report)[tile] + np.arange(len(columns["offset"]))
    order = np.lexsort((columns["start_step"], columns["offset"]))
    columns = {name: values[order] for name, values in columns.items()}
    variables = variable_columns(report)
    index = variable_positions(report, columns["variable_id"]).tolist()
    return TileVariables(
        tile,
        columns["part_id"],
        columns["variable_id"],
        tuple(str(variables["name"][row]) for row in index),
        tuple(str(variables["dtype"][row]) for row in index),
        tuple(str(variables["category"][row]) for row in index),
        columns["offset"],
        columns["bytes"],
        np.array([variables["bytes"][row] for row in index], dtype=np.int64),
        columns["start_step"],
        columns["end_step"],
        np.array([bool(variables["is_always_live"][item]) for item in index], dtype=np.bool_),
        _regions_of(report, columns["offset"], columns["bytes"]),
    )


def _regions_of(
    report: Report, offset: NDArray[np.int64], n_bytes: NDArray[np.int64]
) -> tuple[str, ...]:
    """Return the regions that parts reach into, by their addresses."""
    machine = target(report)
    plain = machine.non_interleaved_bytes
    edges = (0, plain, plain + machine.interleaved_bytes, np.iinfo(np.int64).max)
    reaches = [(offset < high) & (offset + n_bytes > low) for low, high in pairwise(edges)]
    return tuple(
        ", ".join(region.label for region, here in zip(REGIONS, of_part, strict=True) if here)
        for of_part in zip(*(mask.tolist() for mask in reaches), strict=True)
    )


@cached
def first_parts(report: Report) -> NDArray[np.int64]:
    """Return the first lowered part of every tile and one past all, shape (n_tiles + 1,).

    Raises
    ------
    DamagedReport
        When the parts are not in order of tile.
    """
    n_tiles, n_parts = target(report).n_tiles, report.array("lowered.variable_id").shape[0]
    packed = report.array("lowered.tile_start")
    if not packed.shape[0]:
        return np.zeros(n_tiles + 1, dtype=np.int64)
    starts: NDArray[np.int64] = packed.read().astype(np.int64)
    is_sound = (
        len(starts) == n_tiles + 1
        and starts[0] == 0
        and starts[-1] == n_parts
        and bool((starts[1:] >= starts[:-1]).all())
    )
    require(report, is_sound, "the parts of its variables are not in order of tile")
    return starts


def lowered_parts(
    report: Report, first_tile: int, end_tile: int, *names: str
) -> dict[str, NDArray[np.int64]]:
    """Return columns of lowered.*, all by default, of a range of tiles, int64, by tile."""
    starts = first_parts(report)
    first, end = int(starts[first_tile]), int(starts[end_tile])
    names = names or ("variable_id", "offset", "bytes", "start_step", "end_step")
    return {
        name: report.array(f"lowered.{name}").read(first, end).astype(np.int64) for name in names
    }


def variable_memory(report: Report, *variable_ids: int) -> NDArray[np.int64]:
    """Return the bytes of some variables on every tile, added up, int64 of shape (n_tiles,).

    Raises
    ------
    BadQuestion
        When the report has no such variable.
    """
    position = _position_of_variable(report)
    missing = next((identifier for identifier in variable_ids if identifier not in position), None)
    if missing is not None:
        raise BadQuestion(f"variable {missing} does not exist; this report has {len(position)}")
    starts = first_parts(report)
    of_part = report.array("lowered.variable_id").read()
    parts = np.flatnonzero(np.isin(of_part, np.array(variable_ids, dtype=of_part.dtype)))
    sizes = report.array("lowered.bytes").rows(parts).astype(np.int64)
    offset = report.array("lowered.offset").rows(parts)
    tile = np.searchsorted(starts, parts, side="right") - 1
    once = places_once(tile, of_part[parts], offset)
    answer = np.zeros(target(report).n_tiles, dtype=np.int64)
    np.add.at(answer, tile[once], sizes[once])
    return answer


def places_once(
    tile: NDArray[np.integer], variable_id: NDArray[np.integer], offset: NDArray[np.integer]
) -> NDArray[np.intp]:
    """Return one row of every part: a part that lives several times has a row for every life.

    Parameters
    ----------
    tile, variable_id, offset : ndarray of int, shape (n_rows,)
        Tile, variable and address of every row.

    Returns
    -------
    ndarray of int, ascending
        Places of the rows.
    """
    order = np.lexsort((offset, variable_id, tile))
    is_new = np.zeros(len(order), dtype=np.bool_)
    is_new[:1] = True
    for column in (tile, variable_id, offset):
        is_new[1:] |= np.diff(column[order]) != 0
    return np.sort(order[is_new])
