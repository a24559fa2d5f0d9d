"""The variables a step reads and writes, and those it overwrites completely."""

from __future__ import annotations

from collections.abc import Sequence

from tilescope.engine.graph import ComputeSet, View

__all__ = ["accesses", "overwritten", "written"]


def written(target: View) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the variables that a write to a tensor touches, and those it covers completely."""
    counts = dict.fromkeys((variable.variable_id for variable in target.variables), 0)
    for tensor in target.pieces:
        counts[tensor.variable.variable_id] += tensor.n_elements
    covered = [v.variable_id for v in target.variables if counts[v.variable_id] == v.n_elements]
    return tuple(sorted(counts)), tuple(sorted(covered))


def accesses(compute_set: ComputeSet) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the variables a compute set reads, and the variables it writes."""
    reads: set[int] = set()
    writes: set[int] = set()
    for batch in compute_set.batches:
        for field in batch.codelet.fields:
            variable = batch.fields[field.name].variable.variable_id
            if field.is_read:
                reads.add(variable)
            if field.is_written:
                writes.add(variable)
    return tuple(sorted(reads)), tuple(sorted(writes))


def overwritten(compute_set: ComputeSet, writes: Sequence[int]) -> tuple[int, ...]:
    """Return the variables that the vertices overwrite completely and do not read.

    Vertices of a compute set never write the same element twice, so counting elements is enough.
    """
    counts = dict.fromkeys(writes, 0)
    sizes = {}
    for batch in compute_set.batches:
        for field in batch.codelet.fields:
            variable = batch.fields[field.name].variable
            if field.direction == "out":
                counts[variable.variable_id] += int(batch.fields[field.name].n_elements.sum())
                sizes[variable.variable_id] = variable.n_elements
            elif field.is_read:
                counts[variable.variable_id] = -(2**62)
    return tuple(v for v, n in sorted(counts.items()) if v in sizes and n == sizes[v])
