"""What programs put on some tiles: compute sets, codelets and exchanges, with their code and state.

Code of a codelet is on a tile once, whichever compute sets use it; the rows of two compute sets
may therefore count the same code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.machine.patterns import PatternTotals, pattern_totals
from tilescope.analyser.machine.target import target, tile_range
from tilescope.analyser.memory.program_code import exchange_code_rows
from tilescope.analyser.program.compute_sets import (
    codelet_places,
    compute_set_places,
    compute_set_vertices,
    compute_sets,
)
from tilescope.analyser.program.exchanges import exchanges
from tilescope.analyser.search import search_words, words_fit
from tilescope.analyser.time.execution import costs, steps
from tilescope.reports import schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilescope.reports import Report

__all__ = [
    "CodeletPlacement",
    "ComputeSetPlacement",
    "ExchangePlacement",
    "codelet_placements",
    "compute_set_placements",
    "exchange_placements",
]


@dataclass(frozen=True)
class ComputeSetPlacement:
    """A compute set on the tiles in question.

    Attributes
    ----------
    n_instances
        Steps of the program that run it.
    step_id, program_id
        The first of them, and its program; None if none does.
    n_tiles
        Tiles on which its most widely spread codelet has vertices.
    state_bytes
        State of its vertices.
    code_bytes
        Code of its codelets, on every tile that has vertices of them.
    """

    compute_set_id: int
    name: str
    step_id: int | None
    program_id: int | None
    n_instances: int
    n_vertices: int
    n_tiles: int
    state_bytes: int
    code_bytes: int

    @property
    def bytes(self) -> int:
        """State and code together."""
        return self.state_bytes + self.code_bytes


@dataclass(frozen=True)
class CodeletPlacement:
    """A codelet on the tiles in question; ``step_id`` is the first step that runs it.

    State is that of a vertex, the mean where compute sets differ, times the vertices.
    """

    vertex_type: str
    kind: str
    step_id: int | None
    n_vertices: int
    n_compute_sets: int
    n_tiles: int
    state_bytes: int
    code_bytes: int


@dataclass(frozen=True)
class ExchangePlacement:
    """An exchange or stream copy on the tiles in question.

    Attributes
    ----------
    code_bytes
        Exchange code on the tiles in question.
    max_tile_cycles
        The most that one of them sends or receives for in one execution, cycles.
    n_fragments, n_active_tiles, sent_bytes, received_bytes
        Of the whole exchange, as in `tilescope.analyser.program.exchanges.Exchange`.
    """

    step_id: int
    program_id: int
    kind: str
    name: str
    code_bytes: int
    max_tile_cycles: int
    n_fragments: int
    n_active_tiles: int
    sent_bytes: int
    received_bytes: int


def compute_set_placements(
    report: Report, tiles: Sequence[int] = (), text: str = ""
) -> tuple[ComputeSetPlacement, ...]:
    """Return the compute sets with vertices on some tiles, the most bytes first.

    Parameters
    ----------
    report
        The report.
    tiles
        Empty for all tiles.
    text
        Words of the names of a compute set and its codelets in any order, whatever their case.

    Raises
    ------
    BadQuestion
        When a tile does not exist.
    """
    _check(report, tiles)
    sets, instances = compute_set_places(report), _instances(report)
    totals, every = _counts(report, tiles), steps(report)
    n_vertices, n_tiles = totals.sums, totals.n_used
    words = search_words(text)
    results = []
    for entry in compute_sets(report):
        number = entry.compute_set_id
        _, codelets = compute_set_vertices(report, number)
        names = (entry.name, *(codelet.vertex_type for codelet in codelets))
        if not words_fit(words, *names):
            continue
        rows = [(codelet, sets[number, codelet.vertex_type]) for codelet in codelets]
        vertices = sum(int(n_vertices[row]) for _, row in rows)
        if not vertices:
            continue
        results.append(
            ComputeSetPlacement(
                number,
                entry.name,
                entry.step_id,
                None if entry.step_id is None else int(every.program_id[entry.step_id]),
                instances.get(number, 0),
                vertices,
                max(int(n_tiles[row]) for _, row in rows),
                sum(
                    codelet.state_bytes * int(n_vertices[row]) // max(codelet.n_vertices, 1)
                    for codelet, row in rows
                ),
                sum(codelet.code_bytes * int(n_tiles[row]) for codelet, row in rows),
            )
        )
    return tuple(sorted(results, key=lambda row: (-row.bytes, row.compute_set_id)))


def codelet_placements(
    report: Report, tiles: Sequence[int] = (), text: str = ""
) -> tuple[CodeletPlacement, ...]:
    """Return the codelets with vertices on some tiles, the most bytes first.

    Tiles are as of `compute_set_placements`; the text has words of a codelet's name.

    Raises
    ------
    BadQuestion
        When a tile does not exist.
    """
    _check(report, tiles)
    every = codelet_places(report)
    counts = every.n_vertices[:, np.array(tiles, np.int64)] if tiles else every.n_vertices
    n_vertices, n_tiles = counts.sum(axis=1).tolist(), np.count_nonzero(counts, axis=1).tolist()
    n_sets, first = _users(report, tiles)
    words = search_words(text)
    rows = [
        CodeletPlacement(
            name,
            every.kinds[row],
            first.get(name),
            n_vertices[row],
            n_sets.get(name, 0),
            n_tiles[row],
            n_vertices[row] * every.state_bytes[row],
            n_tiles[row] * every.code_bytes[row],
        )
        for row, name in enumerate(every.names)
        if n_vertices[row] and words_fit(words, name)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.state_bytes - row.code_bytes, row.vertex_type)))


def exchange_placements(
    report: Report, tiles: Sequence[int] = (), text: str = ""
) -> tuple[ExchangePlacement, ...]:
    """Return the exchanges with code or traffic on some tiles, the most code first.

    Tiles are as of `compute_set_placements`; the text is part of an exchange's name or kind.

    Raises
    ------
    BadQuestion
        When a tile does not exist.
    """
    _check(report, tiles)
    code, busy = _exchange_code(report, tiles), _busy_cycles(report, tiles)
    rows = [
        ExchangePlacement(
            exchange.step_id,
            exchange.program_id,
            exchange.kind,
            exchange.name,
            code.get(exchange.program_id, 0) if tiles else exchange.code_bytes,
            int(busy[exchange.step_id]),
            exchange.n_fragments,
            exchange.n_active_tiles,
            exchange.sent_bytes,
            exchange.received_bytes,
        )
        for exchange in exchanges(report, text).exchanges
    ]
    rows_with_bytes = [row for row in rows if row.code_bytes or row.max_tile_cycles or not tiles]
    return tuple(sorted(rows_with_bytes, key=lambda row: (-row.code_bytes, row.step_id)))


def _check(report: Report, tiles: Sequence[int]) -> None:
    """Reject an unknown tile."""
    for tile in tiles:
        tile_range(report, ("tile", tile))


@cached
def _instances(report: Report) -> dict[int, int]:
    """Return how many steps run every compute set."""
    n_instances: dict[int, int] = {}
    for number in report.column(schema.step, "compute_set_id"):
        if number is not None:
            n_instances[number] = n_instances.get(number, 0) + 1
    return n_instances


def _counts(report: Report, tiles: Sequence[int]) -> PatternTotals:
    """Return the vertices of every pattern on some tiles, and on how many of them it has any."""
    return pattern_totals(report, "vertices.pattern", tuple(tiles))


def _users(report: Report, tiles: Sequence[int]) -> tuple[dict[str, int], dict[str, int | None]]:
    """Return how many compute sets use a codelet on some tiles, and the first step that does."""
    n_vertices = _counts(report, tiles).sums
    step_of = {entry.compute_set_id: entry.step_id for entry in compute_sets(report)}
    n_sets: dict[str, int] = {}
    first: dict[str, int | None] = {}
    for (number, name), row in compute_set_places(report).items():
        if not n_vertices[row]:
            continue
        n_sets[name] = n_sets.get(name, 0) + 1
        step = step_of.get(number)
        known = first.get(name)
        first[name] = step if known is None else known if step is None else min(known, step)
    return n_sets, first


def _exchange_code(report: Report, tiles: Sequence[int]) -> dict[int, int]:
    """Return the exchange code on some tiles by program; nothing for all tiles."""
    if not tiles:
        return {}
    sums = pattern_totals(report, "code.pattern", tuple(tiles)).sums
    return {program: int(sums[row]) for program, row in exchange_code_rows(report).items()}


def _busy_cycles(report: Report, tiles: Sequence[int]) -> NDArray[np.int64]:
    """Return the busy cycles of the busiest of some tiles in every step, shape (n_steps,)."""
    cost, n_steps = costs(report), len(steps(report))
    if not tiles:
        return cost.per_step("max_tile_cycles", n_steps, largest=True)
    answer = np.zeros(n_steps, dtype=np.int64)
    on_ipu: dict[int, list[int]] = {}
    for tile in tiles:
        ipu_id, here = divmod(tile, target(report).tiles_per_ipu)
        on_ipu.setdefault(ipu_id, []).append(here)
    for ipu_id, columns in on_ipu.items():
        rows = np.flatnonzero(cost.column["ipu_id"] == ipu_id)
        cycles = pattern_totals(report, "cycles.pattern", tuple(columns)).largest
        np.maximum.at(answer, cost.column["step_id"][rows], cycles[cost.column["pattern_id"][rows]])
    return answer
