"""Code of programs on every tile: exchange code, and their share of control code."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.machine.patterns import pattern
from tilescope.analyser.machine.target import target
from tilescope.analyser.memory.tile_memory import categories, category_bytes
from tilescope.analyser.program.compute_sets import codelets, compute_set_places
from tilescope.analyser.program.program_tree import all_programs, inside_ids, program
from tilescope.analyser.time.execution import steps
from tilescope.analyser.validation import require_below
from tilescope.reports import schema
from tilescope.reports.schema.vocabulary import PROGRAM_KINDS

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "ProgramCode",
    "control_code",
    "exchange_code",
    "exchange_code_rows",
    "own_control_code",
    "program_code",
]


@dataclass(frozen=True)
class ProgramCode:
    """Code of a program and of all programs in it, over all tiles.

    Attributes
    ----------
    exchange_bytes
        Code of its exchanges.
    control_bytes
        Its share of the control code: see `control_code`.
    vertex_bytes
        Code of the codelets that it runs, once on every tile; other programs may use it too.
    """

    exchange_bytes: int
    control_bytes: int
    vertex_bytes: int


def program_code(report: Report, program_id: int) -> ProgramCode:
    """Return the code of a program by kind.

    Raises
    ------
    BadQuestion
        When the program does not exist.
    """
    inside = [program(report, inside_id) for inside_id in inside_ids(report, program_id)]
    sets = {
        inside_id.compute_set_id for inside_id in inside if inside_id.compute_set_id is not None
    }
    size = {inside_id.name: inside_id.code_bytes for inside_id in codelets(report).values()}
    on_tiles: dict[str, NDArray[np.bool_]] = {}
    for (compute_set_id, name), row in compute_set_places(report).items():
        if compute_set_id in sets:
            here = pattern(report, "vertices.pattern", row) > 0
            on_tiles[name] = here | on_tiles.get(name, here)
    return ProgramCode(
        sum(
            inside_id.code_bytes
            for inside_id in inside
            if PROGRAM_KINDS[inside_id.kind].has_exchange_code
        ),
        int(control_code(report, program_id).sum()),
        sum(size[name] * int(np.count_nonzero(here)) for name, here in on_tiles.items()),
    )


@cached
def _patterns(report: Report) -> dict[int, int]:
    """Return the row of ``code.pattern`` of every program with code."""
    rows = report.rows(schema.program, "program_id", "code_pattern_id")
    patterns = {program_id: row for program_id, row in rows if row is not None}
    used = np.array(list(patterns.values()), np.int64)
    require_below(report, used, report.array("code.pattern").shape[0], "pattern of code")
    return patterns


def exchange_code_rows(report: Report) -> dict[int, int]:
    """Return the row of ``code.pattern`` of every program that has exchange code."""
    kinds = {number: program_.kind for number, program_ in all_programs(report).items()}
    return {
        number: row
        for number, row in _patterns(report).items()
        if PROGRAM_KINDS[kinds[number]].has_exchange_code
    }


def exchange_code(report: Report, program_id: int) -> NDArray[np.int64]:
    """Return the exchange code of a program on every tile; zeros if it is not an exchange.

    Returns
    -------
    ndarray of int64, shape (n_tiles,), bytes

    Raises
    ------
    BadQuestion
        When the program does not exist.
    """
    kind = PROGRAM_KINDS[program(report, program_id).kind]
    row = _patterns(report).get(program_id)
    if row is None or not kind.has_exchange_code:
        return np.zeros(target(report).n_tiles, dtype=np.int64)
    return pattern(report, "code.pattern", row)


def control_code(report: Report, program_id: int) -> NDArray[np.int64]:
    """Return the control code of a program on every tile, with that of all programs in it.

    Returns
    -------
    ndarray of int64, shape (n_tiles,), bytes

    Raises
    ------
    BadQuestion
        When the program does not exist.
    """
    return own_control_code(report, inside_ids(report, program_id))


def own_control_code(report: Report, program_ids: Collection[int]) -> NDArray[np.int64]:
    """Return the control code of some programs on every tile, without that of programs in them.

    A report holds the control code of a tile as a whole. Every step takes the same, so a program
    has the share of the steps in it; what steps do not share evenly belongs to the first program.

    Returns
    -------
    ndarray of int64, shape (n_tiles,), bytes

    Raises
    ------
    BadQuestion
        When a program does not exist.
    """
    n_inside = sum(program(report, inside_id).step_id is not None for inside_id in program_ids)
    held, n_steps = _control_code(report), len(steps(report))
    share = held // max(n_steps, 1)
    rest = held - share * n_steps if min(all_programs(report)) in program_ids else 0
    answer: NDArray[np.int64] = share * n_inside + rest
    return answer


@cached
def _control_code(report: Report) -> NDArray[np.int64]:
    """Return the control code of every tile, int64 of shape (n_tiles,), bytes."""
    for row, category in enumerate(categories(report)):
        if category.name == "controlCode":
            held: NDArray[np.int64] = category_bytes(report)[row]
            return held
    return np.zeros(target(report).n_tiles, dtype=np.int64)
