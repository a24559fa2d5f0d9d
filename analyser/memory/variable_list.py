"""Variables, filtered and sorted: size, tiles, lifetime, category; and where one of them lies."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.absence import absence
from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.target import Source, target, tile_range
from tilescope.analyser.memory.liveness import curve, variable_lives
from tilescope.analyser.memory.lowered_variables import (
    lowered_parts,
    places_once,
    variable_positions,
)
from tilescope.analyser.program.contexts import contexts
from tilescope.analyser.search import search_words, words_fit
from tilescope.analyser.validation import require_below
from tilescope.reports import schema
from tilescope.reports.schema.vocabulary import MEMORY_CATEGORIES

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "SORTS",
    "Sort",
    "VariableFilter",
    "VariableList",
    "VariablePlaces",
    "VariableRow",
    "list_variables",
    "variable_places",
]

Sort: TypeAlias = Literal["size", "name", "tiles", "largest", "lifetime", "start"]
SORTS: tuple[Sort, ...] = get_args(Sort)


@dataclass(frozen=True)
class VariableRow:
    """A variable.

    Attributes
    ----------
    bytes
        On the tiles in question.
    n_tiles
        Tiles in question that hold a part.
    max_tile_bytes
        Its largest part on one of them.
    lives
        Liveness steps at which it lives, half-open and ascending; empty if it never does. Between
        two of them its memory is free.
    made_by
        The operation that created it; empty if none did.
    """

    variable_id: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    category: str
    is_always_live: bool
    bytes: int
    n_tiles: int
    max_tile_bytes: int
    lives: tuple[tuple[int, int], ...]
    made_by: str

    @property
    def start_step(self) -> int | None:
        """The first step at which it lives; None if it never does."""
        return self.lives[0][0] if self.lives else None

    @property
    def n_steps(self) -> int:
        """Number of liveness steps at which it lives."""
        return sum(end - start for start, end in self.lives)


@dataclass(frozen=True)
class VariableFilter:
    """Which variables are wanted; the default is all of them.

    Attributes
    ----------
    text
        Words of the name in any order, whatever their case.
    category, dtype
        The exact name; empty for any.
    source
        Tiles that must hold a part.
    step
        Liveness step at which it must live.
    """

    text: str = ""
    category: str = ""
    dtype: str = ""
    source: Source = "all"
    step: int | None = None


@dataclass(frozen=True)
class VariableList:
    """The wanted variables in the asked order, and how many the report has."""

    rows: tuple[VariableRow, ...]
    n_variables: int

    @property
    def total_bytes(self) -> int:
        """Sum of their sizes, whether they live at the same time or not."""
        return sum(row.bytes for row in self.rows)


@dataclass(frozen=True)
class VariablePlaces:
    """The parts of a variable, by tile and address.

    Attributes
    ----------
    tile_id, offset_bytes, bytes, start_step, end_step : ndarray of int64, shape (n_parts,)
        Steps are those of the liveness report, half-open.
    """

    variable: VariableRow
    tile_id: NDArray[np.int64]
    offset_bytes: NDArray[np.int64]
    bytes: NDArray[np.int64]
    start_step: NDArray[np.int64]
    end_step: NDArray[np.int64]


_KEYS: dict[Sort, Callable[[VariableRow], tuple[object, ...]]] = {
    "size": lambda row: (-row.bytes,),
    "name": lambda row: (row.name,),
    "tiles": lambda row: (-row.n_tiles,),
    "largest": lambda row: (-row.max_tile_bytes,),
    "lifetime": lambda row: (-row.n_steps,),
    "start": lambda row: (-1 if row.start_step is None else row.start_step,),
}


def list_variables(
    report: Report, variable_filter: VariableFilter | None = None, sort: Sort = "size"
) -> VariableList:
    """Return variables that pass a filter; equal ones in order of their ids.

    Raises
    ------
    BadQuestion
        When the category, tile, IPU or step does not exist.
    """
    variable_filter = variable_filter or VariableFilter()
    _check(report, variable_filter)
    every = _rows(report)
    rows = every if variable_filter.source == "all" else _rows_on(report, variable_filter.source)
    words = search_words(variable_filter.text)
    results = [
        row
        for row in rows
        if words_fit(words, row.name)
        and variable_filter.category in {"", row.category}
        and variable_filter.dtype in {"", row.dtype}
        and (variable_filter.step is None or _is_live(row, variable_filter.step))
    ]
    results.sort(key=lambda row: (*_KEYS[sort](row), row.variable_id))
    return VariableList(tuple(results), len(every))


def variable_places(report: Report, name: str) -> VariablePlaces:
    """Return where a variable lies, by its name or its id.

    Raises
    ------
    BadQuestion
        When none or several have the name.
    """
    variable = _named(report, name)
    packed = report.array("lowered.variable_id").read()
    parts = np.flatnonzero(packed == variable.variable_id)
    starts = report.array("lowered.tile_start").read().astype(np.int64)
    columns = [
        report.array(f"lowered.{column}").rows(parts).astype(np.int64)
        for column in ("offset", "bytes", "start_step", "end_step")
    ]
    tile = (np.searchsorted(starts, parts, side="right") - 1).astype(np.int64)
    require_below(report, tile, target(report).n_tiles, "tile")
    order = np.lexsort((columns[0], tile))
    return VariablePlaces(variable, tile[order], *(column[order] for column in columns))


def _named(report: Report, name: str) -> VariableRow:
    """Return the variable of a name or an id."""
    from difflib import get_close_matches

    rows = _rows(report)
    matches = [row for row in rows if row.name == name]
    if not matches and name.isascii() and name.isdigit() and len(name) < 10:
        matches = [row for row in rows if row.variable_id == int(name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        ids = ", ".join(str(row.variable_id) for row in matches[:10])
        raise BadQuestion(f"{len(matches):,} variables are named {name[:80]!r}; give an id: {ids}")
    if not rows:
        raise BadQuestion(absence(report, "variables"))
    near = get_close_matches(name, {row.name for row in rows}, n=1, cutoff=0.0)
    raise BadQuestion(
        f"variable {name[:80]!r} does not exist; the nearest name is {near[0][:200]!r}"
    )


def _check(report: Report, variable_filter: VariableFilter) -> None:
    """Refuse what the report does not have."""
    tile_range(report, variable_filter.source)
    allowed = [category.name for category in MEMORY_CATEGORIES if category.is_variable]
    if variable_filter.category and variable_filter.category not in allowed:
        raise BadQuestion(
            f"category {variable_filter.category[:60]!r} has no variables; allowed are"
            f" {', '.join(allowed)}"
        )
    known = sorted({row.dtype for row in _rows(report)})
    if variable_filter.dtype and variable_filter.dtype not in known:
        raise BadQuestion(
            f"no variable has type {variable_filter.dtype[:60]!r}; this report has"
            f" {', '.join(known) or 'no variables'}"
        )
    n_steps = len(curve(report))
    if variable_filter.step is not None and not 0 <= variable_filter.step < n_steps:
        held = f"liveness steps 0 to {n_steps - 1}" if n_steps else "no liveness"
        raise BadQuestion(f"step {variable_filter.step} does not exist; this report has {held}")


def _is_live(row: VariableRow, step: int) -> bool:
    """Return whether a variable lives at a step."""
    return any(start <= step < end for start, end in row.lives)


@cached
def _rows(report: Report) -> tuple[VariableRow, ...]:
    """Return all variables in order of their ids."""
    columns = (
        "variable_id",
        "name",
        "dtype",
        "shape",
        "category",
        "is_always_live",
        "bytes",
        "n_tiles",
        "max_tile_bytes",
        "debug_context_id",
    )
    made_by, lives = contexts(report), variable_lives(report)
    answer = []
    for number, name, dtype, shape, *rest, context in report.rows(schema.variable, *columns):
        category, always, size, n_tiles, largest = rest
        maker = made_by[context].name if context in made_by else ""
        answer.append(
            VariableRow(
                number,
                name,
                dtype,
                _shape(shape),
                category,
                always,
                size,
                n_tiles,
                largest,
                lives.get(number, ()),
                maker,
            )
        )
    return tuple(answer)


def _rows_on(report: Report, source: Source) -> list[VariableRow]:
    """Return the variables with a part on some tiles, with their sizes there."""
    rows, tiles = _rows(report), tile_range(report, source)
    starts = report.array("lowered.tile_start").read(tiles.start, tiles.stop + 1).astype(np.int64)
    parts = lowered_parts(report, tiles.start, tiles.stop)
    positions = variable_positions(report, parts["variable_id"])
    if not len(positions):
        return []
    tile = np.repeat(np.arange(len(tiles)), np.diff(starts))
    once = places_once(tile, parts["variable_id"], parts["offset"])
    positions, tile = positions[once], tile[once]
    keys, where = np.unique(positions * len(tiles) + tile, return_inverse=True)
    held = np.zeros(len(keys), dtype=np.int64)
    np.add.at(held, where.reshape(-1), parts["bytes"][once])
    variable = keys // len(tiles)
    total, n_tiles, largest = (np.zeros(len(rows), dtype=np.int64) for _ in range(3))
    np.add.at(total, variable, held)
    np.add.at(n_tiles, variable, 1)
    np.maximum.at(largest, variable, held)
    return [
        VariableRow(
            **{
                **vars(rows[number]),
                "bytes": int(total[number]),
                "n_tiles": int(n_tiles[number]),
                "max_tile_bytes": int(largest[number]),
            }
        )
        for number in np.unique(variable).tolist()
    ]


def _shape(text: str) -> tuple[int, ...]:
    """Return a shape from its JSON; one that is not a list of numbers is empty."""
    try:
        return tuple(int(size) for size in json.loads(text))
    except (OverflowError, RecursionError, TypeError, ValueError):
        return ()
