"""The race check of compute sets: no vertex reads or writes what another vertex writes.

Tiles run their vertices concurrently and in no defined order, so a program that breaks the rule
has no defined result.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph.variable import Variable
from tilescope.engine.graph.vertex.compute_set import ComputeSet
from tilescope.engine.intervals.overlap import first_read_of_write, first_shared_write
from tilescope.engine.intervals.runs import join_runs, union_runs

__all__ = ["check_compute_set", "check_compute_sets"]

Runs = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


def check_compute_sets(compute_sets: Iterable[ComputeSet]) -> None:
    """Check every compute set.

    Raises
    ------
    BadGraph
        At the first two vertices that break the rule.
    """
    for compute_set in compute_sets:
        check_compute_set(compute_set)


def check_compute_set(compute_set: ComputeSet) -> None:
    """Check that no vertex reads or writes what another vertex of the compute set writes.

    Regions are checked as well: those of the library's own vertices were not before.

    Parameters
    ----------
    compute_set
        Compute set with all its vertices.

    Raises
    ------
    BadGraph
        Names the first two vertices that break the rule, the variable and the elements; or the
        first one whose regions are not those of its codelet, or out of range.
    """
    for batch in compute_set.batches:
        where = f"{batch.codelet.name} in {compute_set.name!r}"
        batch.codelet.check_fields(where, batch.fields, batch.n_vertices)
        for name, regions in batch.fields.items():
            regions.check(f"{where}, field {name!r}")
    written = {
        batch.fields[field.name].variable.variable_id: batch.fields[field.name].variable
        for batch in compute_set.batches
        for field in batch.codelet.fields
        if field.is_written
    }
    for _, variable in sorted(written.items()):
        _check_variable(compute_set, variable)


def _check_variable(compute_set: ComputeSet, variable: Variable) -> None:
    writes = _runs(compute_set, variable, is_write=True)
    order = np.argsort(writes[1], kind="stable")
    vertex, start, length = (column[order] for column in writes)
    shared = first_shared_write(start, length)
    if shared is not None:
        first, second = shared
        low, high = _overlap(start, length, first, start, length, second)
        raise BadGraph(
            f"Compute set {compute_set.name!r}: {_vertex(compute_set, int(vertex[first]))} and"
            f" {_vertex(compute_set, int(vertex[second]))} both write elements {low} to {high} of"
            f" variable {variable.name!r}: write disjoint elements, or use two compute sets"
        )
    reads = _runs(compute_set, variable, is_write=False)
    conflict = first_read_of_write(reads, (vertex, start, length))
    if conflict is not None:
        read, write = conflict
        low, high = _overlap(reads[1], reads[2], read, start, length, write)
        raise BadGraph(
            f"Compute set {compute_set.name!r}: {_vertex(compute_set, int(reads[0][read]))} reads"
            f" elements {low} to {high} of variable {variable.name!r}, which"
            f" {_vertex(compute_set, int(vertex[write]))} writes: use two compute sets, or write"
            " to another variable"
        )


def _runs(compute_set: ComputeSet, variable: Variable, *, is_write: bool) -> Runs:
    """Return vertex, start and length of the runs of a variable that vertices write, or read.

    Vertices are numbered over all batches; the runs of one vertex do not overlap.
    """
    runs_: list[Runs] = []
    n_before = 0
    for batch in compute_set.batches:
        numbers = np.arange(n_before, n_before + batch.n_vertices, dtype=np.int32)
        n_before += batch.n_vertices
        for field in batch.codelet.fields:
            regions = batch.fields[field.name]
            uses = field.is_written if is_write else field.is_read
            if uses and regions.variable is variable:
                where = f"Vertices of {batch.codelet.name} in {compute_set.name!r}"
                users = regions.by_region(numbers)
                runs_.append(
                    union_runs(regions.start, regions.size, regions.stride, users, 0, where)
                )
    if not runs_:
        empty = np.zeros(0, np.int64)
        return empty, empty, empty
    vertex, start, length = (np.concatenate(columns) for columns in zip(*runs_, strict=True))
    return join_runs(vertex, start, length)


def _overlap(
    start: NDArray[np.int64],
    length: NDArray[np.int64],
    first: int,
    other_start: NDArray[np.int64],
    other_length: NDArray[np.int64],
    second: int,
) -> tuple[int, int]:
    """Return the first and the last element that two runs share."""
    low = max(int(start[first]), int(other_start[second]))
    end = min(int(start[first] + length[first]), int(other_start[second] + other_length[second]))
    return low, end - 1


def _vertex(compute_set: ComputeSet, number: int) -> str:
    """Describe a vertex: its index in its batch, its codelet and its tile."""
    for batch in compute_set.batches:
        if number < batch.n_vertices:
            return f"vertex {number} of {batch.codelet.name} on tile {int(batch.tile[number])}"
        number -= batch.n_vertices
    raise AssertionError("vertices are numbered over the batches")
