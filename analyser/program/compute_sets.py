"""Compute sets: their names, their codelets, and the steps that run them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilescope.analyser.cache import cached
from tilescope.analyser.machine.patterns import pattern
from tilescope.analyser.machine.target import target
from tilescope.analyser.validation import require_below, require_known
from tilescope.reports import schema

if TYPE_CHECKING:
    from tilescope.reports import Report

__all__ = [
    "Codelet",
    "CodeletPlaces",
    "ComputeSetEntry",
    "ComputeSetVertices",
    "TileVertices",
    "codelet_places",
    "codelets",
    "compute_set_places",
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
    step_of: dict[int | None, int] = {}
    for step_id, compute_set_id in report.rows(schema.step, "step_id", "compute_set_id"):
        step_of.setdefault(compute_set_id, step_id)
    columns = ("compute_set_id", "name", "n_vertices", "n_edges")
    return tuple(
        ComputeSetEntry(number, name, n_vertices, n_edges, step_of.get(number))
        for number, name, n_vertices, n_edges in report.rows(schema.compute_set, *columns)
    )


@cached
def _names(report: Report) -> dict[int, str]:
    """Return the names of all compute sets by id."""
    return dict(report.rows(schema.compute_set, "compute_set_id", "name"))


@dataclass(frozen=True)
class Codelet:
    """A codelet; ``code_bytes`` are on every tile that uses it, once."""

    name: str
    kind: str
    code_bytes: int
    is_data_dependent: bool
    #: Whether it moves elements only; None in reports of before it was recorded.
    is_copy: bool | None


@cached
def codelets(report: Report) -> dict[int, Codelet]:
    """Return the codelets of a report by id of their vertex type, all in use among them.

    Raises
    ------
    DamagedReport
        A compute set has vertices of an unknown type.
    """
    columns = ("vertex_type_id", *Codelet.__dataclass_fields__)
    codelets_ = {row[0]: Codelet(*row[1:]) for row in report.rows(schema.vertex_type, *columns)}
    used = report.column(schema.compute_set_vertex, "vertex_type_id")
    require_known(report, used, codelets_, "vertex type {} does not exist")
    return codelets_


_COLUMNS = (
    "vertex_type_id",
    "n_vertices",
    "n_tiles",
    "state_bytes",
    "max_cycles",
    "total_cycles",
    "flops",
)


@cached
def _rows_of_sets(report: Report) -> dict[int, list[tuple[Any, ...]]]:
    """Return the rows of all compute sets by id, as `_COLUMNS`."""
    rows_of_set: dict[int, list[tuple[Any, ...]]] = {}
    for number, *row in report.rows(schema.compute_set_vertex, "compute_set_id", *_COLUMNS):
        rows_of_set.setdefault(number, []).append(tuple(row))
    return rows_of_set


def _vertices(report: Report, compute_set_id: int) -> tuple[ComputeSetVertices, ...]:
    """Return the codelets of a compute set, slowest first."""
    known, vertices = codelets(report), []
    for row in _rows_of_sets(report).get(compute_set_id, ()):
        type_id, n_vertices, n_tiles, state_bytes, largest, total, flops = row
        codelet = known[type_id]
        vertices.append(
            ComputeSetVertices(
                codelet.name,
                codelet.kind,
                n_vertices,
                n_tiles,
                codelet.code_bytes,
                state_bytes,
                largest,
                total,
                flops,
                codelet.is_data_dependent,
            )
        )
    return tuple(sorted(vertices, key=lambda row: (-row.max_cycles, row.vertex_type)))


def compute_set_vertices(
    report: Report, compute_set_id: int | None
) -> tuple[str | None, tuple[ComputeSetVertices, ...]]:
    """Return the name of a compute set and its codelets, slowest first; nothing for None."""
    if compute_set_id is None:
        return None, ()
    return _names(report).get(compute_set_id), _vertices(report, compute_set_id)


@cached
def compute_set_places(report: Report) -> dict[tuple[int, str], int]:
    """Return the row of ``vertices.pattern`` of every compute set and codelet.

    Raises
    ------
    DamagedReport
        When a row does not exist.
    """
    columns = ("compute_set_id", "vertex_type_id", "vertices_pattern_id")
    known = codelets(report)
    used = np.array(report.column(schema.compute_set_vertex, "vertices_pattern_id"), np.int64)
    require_below(report, used, report.array("vertices.pattern").shape[0], "pattern of vertices")
    return {
        (compute_set_id, known[type_id].name): row
        for compute_set_id, type_id, row in report.rows(schema.compute_set_vertex, *columns)
    }


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
    row = compute_set_places(report).get((compute_set_id, vertex_type))
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
class CodeletPlaces:
    """Codelets and how many vertices of each are on every tile, over all compute sets.

    Attributes
    ----------
    state_bytes
        That of one vertex, the mean where compute sets differ.
    n_vertices : ndarray of int64, shape (n_codelets, n_tiles)
        Vertices of every codelet on every tile.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    code_bytes: tuple[int, ...]
    state_bytes: tuple[int, ...]
    n_vertices: NDArray[np.int64]


@cached
def codelet_places(report: Report) -> CodeletPlaces:
    """Return all codelets with their vertices on every tile."""
    rows = list(codelets(report).values())
    row_of = {codelet.name: number for number, codelet in enumerate(rows)}
    counts = np.zeros((len(rows), target(report).n_tiles), dtype=np.int64)
    total, state = np.zeros((2, len(rows)), dtype=np.int64)
    for (_, name), row in compute_set_places(report).items():
        counts[row_of[name]] += pattern(report, "vertices.pattern", row)
    for vertices in (_vertices(report, number) for number in _rows_of_sets(report)):
        for codelet in vertices:
            total[row_of[codelet.vertex_type]] += codelet.n_vertices
            state[row_of[codelet.vertex_type]] += codelet.state_bytes
    return CodeletPlaces(
        tuple(row_of),
        tuple(codelet.kind for codelet in rows),
        tuple(codelet.code_bytes for codelet in rows),
        tuple((state // np.maximum(total, 1)).tolist()),
        counts,
    )


def tile_vertices(report: Report, tile_id: int) -> tuple[TileVertices, ...]:
    """Return the codelets on a tile with their vertices, by name."""
    every = codelet_places(report)
    here = every.n_vertices[:, tile_id]
    rows = [
        TileVertices(
            every.names[row],
            int(here[row]),
            int(here[row]) * every.state_bytes[row],
            every.code_bytes[row],
        )
        for row in np.flatnonzero(here).tolist()
    ]
    return tuple(sorted(rows, key=lambda vertices: vertices.vertex_type))
