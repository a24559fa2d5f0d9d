"""Variables by name: which there are, and how much of them lies on each tile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from tilescope.analyser.cache import cached
from tilescope.analyser.errors import BadQuestion
from tilescope.analyser.machine.target import target
from tilescope.analyser.memory.lowered_variables import variable_columns, variable_memory
from tilescope.analyser.memory.tile_memory import (
    BREAKDOWNS,
    TileMemory,
    categories,
    category_bytes,
    tile_memory,
)
from tilescope.analyser.search import search_words, words_fit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilescope.reports import Report

__all__ = [
    "BREAKDOWN_VARIABLES",
    "VARIABLE",
    "MappedMemory",
    "NamedVariables",
    "map_choices",
    "mapped_memory",
    "named_variables",
    "shown_memory",
    "variable_tiles",
]

#: Besides the breakdowns of all memory: some variables only.
BREAKDOWN_VARIABLES = "variables"
#: What a map shows of variables begins with this; their name follows.
VARIABLE = "variable:"


@dataclass(frozen=True)
class NamedVariables:
    """Variables that a text names.

    Attributes
    ----------
    names
        Their names, each once, in the order of their ids.
    n_variables
        How many there are; several may have one name.
    tile_bytes : ndarray of int64, shape (n_tiles,), bytes
        Their sizes on each tile, added up whether they live at the same time or not.
    """

    names: tuple[str, ...]
    n_variables: int
    tile_bytes: NDArray[np.int64]


@cached
def named_variables(report: Report, text: str) -> NamedVariables:
    """Return the variables of a name, else those whose name holds all words of a text.

    Raises
    ------
    BadQuestion
        When there is none.
    """
    columns = variable_columns(report)
    names = [str(name) for name in columns["name"]]
    words = search_words(text)
    chosen = [index for index, name in enumerate(names) if name == text.strip()]
    chosen = chosen or [index for index, name in enumerate(names) if words_fit(words, name)]
    if not words or not chosen:
        raise BadQuestion(
            f"no variable has {text[:80]!r} in its name; this report has {len(names):,} variables"
        )
    ids = [cast("int", columns["variable_id"][index]) for index in chosen]
    names_ = tuple(dict.fromkeys(names[row] for row in chosen))
    return NamedVariables(names_, len(chosen), variable_memory(report, *ids))


def variable_tiles(report: Report, named: NamedVariables | None) -> TileMemory:
    """Return the memory of variables on every tile, as one series by their name.

    Parameters
    ----------
    report
        The report.
    named
        The variables; None for a series of zeros without a name.
    """
    machine = target(report)
    label, sizes = "", np.zeros(machine.n_tiles, np.int64)
    if named is not None:
        rest = f" and {len(named.names) - 1:,} more" if len(named.names) > 1 else ""
        label, sizes = named.names[0] + rest, named.tile_bytes
    tiles = np.arange(machine.n_tiles, dtype=np.int64)
    return TileMemory(
        "none",
        False,
        tiles,
        {label: sizes},
        sizes,
        machine.capacity_bytes,
        tiles_per_ipu=machine.tiles_per_ipu,
    )


def shown_memory(
    report: Report,
    breakdown: str,
    include_gaps: bool = False,
    text: str = "",
    *,
    may_lack: bool = False,
) -> TileMemory:
    """Return the memory of every tile: all in a breakdown, or of the variables that a text names.

    Parameters
    ----------
    report
        The report.
    breakdown
        One of `BREAKDOWNS`, or ``variables``.
    include_gaps
        Whether gaps count; not with variables.
    text
        A name of variables or a part of it; without one, a series of zeros.
    may_lack
        Whether a report that lacks the variables has zeros, as one of two may.

    Raises
    ------
    BadQuestion
        When the breakdown is unknown, no variable has that name, or the report holds no memory.
    """
    if breakdown in BREAKDOWNS:
        return tile_memory(report, breakdown, include_gaps)
    if breakdown != BREAKDOWN_VARIABLES:
        allowed = ", ".join((*BREAKDOWNS, BREAKDOWN_VARIABLES))
        raise BadQuestion(f"breakdown {breakdown[:40]!r} is not known; allowed are {allowed}")
    named = None
    if text.strip():
        try:
            named = named_variables(report, text)
        except BadQuestion:
            if not may_lack:
                raise
    return variable_tiles(report, named)


@dataclass(frozen=True)
class MappedMemory:
    """What a map of the tiles shows: its title, and int64 of shape (n_tiles,), bytes."""

    title: str
    tile_bytes: NDArray[np.int64]


def map_choices(report: Report) -> tuple[tuple[str, str], ...]:
    """Return what `mapped_memory` takes besides variables, with labels: categories in use last."""
    used = [
        (category.name, category.label) for category in categories(report) if category.total_bytes
    ]
    return (("total", "Memory held"), ("gaps", "Gaps"), *used)


def mapped_memory(report: Report, name: str) -> MappedMemory:
    """Return how much of something every tile holds.

    Parameters
    ----------
    report
        The report.
    name
        ``total``, ``gaps``, a category of memory, or ``variable:NAME``.

    Raises
    ------
    BadQuestion
        When it is none of these, or the report holds no memory.
    """
    held = tile_memory(report).total_bytes
    if name == "total":
        return MappedMemory("Memory held", held)
    if name == "gaps":
        including = tile_memory(report, "none", include_gaps=True).total_bytes
        return MappedMemory("Gaps", including - held)
    if name.startswith(VARIABLE):
        memory = variable_tiles(report, named_variables(report, name.removeprefix(VARIABLE)))
        (title,) = memory.series
        return MappedMemory(title, memory.total_bytes)
    names = [category.name for category in categories(report)]
    if name not in names:
        raise BadQuestion(
            f"expected total, gaps, variable:NAME or a category of memory, got {name[:60]!r};"
            f" categories: {', '.join(names)}"
        )
    row = names.index(name)
    return MappedMemory(categories(report)[row].label, category_bytes(report)[row])
