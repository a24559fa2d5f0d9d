"""Compute sets: their names, their codelets, and the steps that run them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select

from tilescope.analyser.cache import cached
from tilescope.analyser.machine import target
from tilescope.analyser.patterns import pattern
from tilescope.reports import schema

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "ComputeSetEntry",
    "ComputeSetVertices",
    "TileVertices",
    "compute_set_vertices",
    "compute_sets",
    "tile_vertices",
    "vertices_by_tile",
]


@dataclass(frozen=True)
class ComputeSetVertices:
    """One codelet of a compute set; cycles are those of a vertex's context or supervisor."""

    vertex_type: str
    kind: str
    n_vertices: int
    n_tiles: int
    code_bytes: int
    state_bytes: int
    max_cycles: int
    total_cycles: int
    flops: int
    is_data_dependent: bool


@dataclass(frozen=True)
class ComputeSetEntry:
    """A compute set; ``step_id`` is the first step that runs it, None if none does."""

    compute_set_id: int
    name: str
    n_vertices: int
    n_edges: int
    step_id: int | None


@cached
def compute_sets(report: Report) -> tuple[ComputeSetEntry, ...]:
    """Return all compute sets in order of their id, with the first step that runs each."""
    sets, steps = schema.compute_set, schema.step
    first = (
        select(steps.c.compute_set_id, func.min(steps.c.step_id))
        .where(steps.c.compute_set_id.is_not(None))
        .group_by(steps.c.compute_set_id)
    )
    step_of = dict(report.fetch(first))
    columns = (sets.c.compute_set_id, sets.c.name, sets.c.n_vertices, sets.c.n_edges)
    return tuple(
        ComputeSetEntry(number, name, n_vertices, n_edges, step_of.get(number))
        for number, name, n_vertices, n_edges in report.fetch(
            select(*columns).order_by(sets.c.compute_set_id)
        )
    )


@cached
def _names(report: Report) -> dict[int, str]:
    """Return the names of all compute sets by id."""
    table = schema.compute_set
    return dict(report.fetch(select(table.c.compute_set_id, table.c.name)))


@cached
def _vertices(report: Report) -> dict[int, tuple[ComputeSetVertices, ...]]:
    """Return the codelets of all compute sets by id, slowest first, in one query."""
    used, types = schema.compute_set_vertex, schema.vertex_type
    rows = report.fetch(
        select(
            used.c.compute_set_id,
            types.c.name,
            types.c.kind,
            used.c.n_vertices,
            used.c.n_tiles,
            types.c.code_bytes,
            used.c.state_bytes,
            used.c.max_cycles,
            used.c.total_cycles,
            used.c.flops,
            types.c.is_data_dependent,
        )
        .select_from(used.join(types, used.c.vertex_type_id == types.c.vertex_type_id))
        .order_by(used.c.compute_set_id, used.c.max_cycles.desc(), types.c.name)
    )
    found: dict[int, list[ComputeSetVertices]] = {}
    for compute_set_id, *values in rows:
        found.setdefault(compute_set_id, []).append(ComputeSetVertices(*values))
    return {compute_set_id: tuple(vertices) for compute_set_id, vertices in found.items()}


def compute_set_vertices(
    report: Report, compute_set_id: int | None
) -> tuple[str | None, tuple[ComputeSetVertices, ...]]:
    """Return the name of a compute set and its codelets, slowest first; nothing for None."""
    if compute_set_id is None:
        return None, ()
    return _names(report).get(compute_set_id), _vertices(report).get(compute_set_id, ())


@cached
def _patterns(report: Report) -> dict[tuple[int, str], int]:
    """Return the row of ``vertices.pattern`` of every compute set and codelet."""
    used, types = schema.compute_set_vertex, schema.vertex_type
    rows = report.fetch(
        select(used.c.compute_set_id, types.c.name, used.c.vertices_pattern_id).select_from(
            used.join(types, used.c.vertex_type_id == types.c.vertex_type_id)
        )
    )
    return {(compute_set_id, name): row for compute_set_id, name, row in rows}


def vertices_by_tile(report: Report, compute_set_id: int, vertex_type: str) -> NDArray[np.int64]:
    """Return how many vertices of a codelet a compute set has on every tile.

    Returns
    -------
    ndarray of int64, shape (n_tiles,)

    Raises
    ------
    BadQuestion
        When the report has no such row of vertices.
    """
    row = _patterns(report).get((compute_set_id, vertex_type))
    if row is None:
        return np.zeros(target(report).n_tiles, dtype=np.int64)
    return pattern(report, "vertices.pattern", row)


@dataclass(frozen=True)
class TileVertices:
    """The vertices of one codelet on a tile, over all compute sets; code is there once."""

    vertex_type: str
    n_vertices: int
    state_bytes: int
    code_bytes: int


@dataclass(frozen=True)
class _Codelets:
    """Codelets and how many vertices of each are on every tile, over all compute sets.

    ``state_bytes`` is that of one vertex, the mean where compute sets differ.
    """

    names: tuple[str, ...]
    code_bytes: tuple[int, ...]
    state_bytes: tuple[int, ...]
    n_vertices: NDArray[np.int64]
    """Shape (n_codelets, n_tiles)."""


@cached
def _codelets(report: Report) -> _Codelets:
    """Return all codelets."""
    types = schema.vertex_type
    rows = report.fetch(select(types.c.name, types.c.code_bytes).order_by(types.c.vertex_type_id))
    place = {name: number for number, (name, _) in enumerate(rows)}
    counts = np.zeros((len(rows), target(report).n_tiles), dtype=np.int64)
    total, state = np.zeros((2, len(rows)), dtype=np.int64)
    for (_, name), row in _patterns(report).items():
        counts[place[name]] += pattern(report, "vertices.pattern", row)
    for vertices in _vertices(report).values():
        for one in vertices:
            total[place[one.vertex_type]] += one.n_vertices
            state[place[one.vertex_type]] += one.state_bytes
    return _Codelets(
        tuple(place),
        tuple(code_bytes for _, code_bytes in rows),
        tuple((state // np.maximum(total, 1)).tolist()),
        counts,
    )


def tile_vertices(report: Report, tile_id: int) -> tuple[TileVertices, ...]:
    """Return the codelets on a tile with their vertices, by name."""
    every = _codelets(report)
    here = every.n_vertices[:, tile_id]
    found = [
        TileVertices(
            every.names[row],
            int(here[row]),
            int(here[row]) * every.state_bytes[row],
            every.code_bytes[row],
        )
        for row in np.flatnonzero(here).tolist()
    ]
    return tuple(sorted(found, key=lambda vertices: vertices.vertex_type))
