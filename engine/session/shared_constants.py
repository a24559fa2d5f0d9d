"""Constants of a program that are equal: one of them stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilescope.engine.graph import ComputeSet, Graph, Variable, VertexBatch
from tilescope.engine.graph.identity.array_digests import ArrayDigests
from tilescope.engine.program import Program
from tilescope.engine.session.repeats import MOVED_BYTES, named_by

__all__ = ["share_constants"]


def share_constants(
    graph: Graph,
    programs: Sequence[Program],
    constants: Sequence[Variable],
    digests: ArrayDigests,
) -> None:
    """Let vertices read the first of equal constants, and remove the others, in place.

    Parameters
    ----------
    graph, programs
        The graph, and the programs that use it.
    constants
        Those that may be shared: of operations on parts of a batch, which lay out the same weights
        in the same way; small ones may be on other tiles. Those that a program names itself,
        outside of vertices, stay.
    digests
        Of the arrays of the graph.
    """
    of: dict[Variable, Variable] = {}
    first: dict[tuple[object, ...], Variable] = {}
    for constant in constants:
        arrays = [constant.values]
        if constant.n_bytes > MOVED_BYTES:
            arrays += [constant.map_start, constant.map_tile]
        key = (constant.name, constant.dtype, constant.shape, *map(digests.of, arrays))
        kept = first.setdefault(key, constant)
        if kept is not constant:
            of[constant] = kept
    named = (
        {v for program in programs for v in named_by(program, with_vertices=False)} if of else ()
    )
    of = {constant: kept for constant, kept in of.items() if constant not in named}
    if not of:
        return
    for compute_set in graph.compute_sets:
        _share(compute_set, of)
    graph.variables[:] = [variable for variable in graph.variables if variable not in of]
    for number, variable in enumerate(graph.variables):
        variable.variable_id = number


def _share(compute_set: ComputeSet, of: dict[Variable, Variable]) -> None:
    """Let the vertices of a compute set read other constants."""
    compute_set.batches = [
        _on(batch, of)
        if any(regions.variable in of for regions in batch.fields.values())
        else batch
        for batch in compute_set.batches
    ]


def _on(batch: VertexBatch, of: dict[Variable, Variable]) -> VertexBatch:
    fields = {name: r.on(of.get(r.variable, r.variable)) for name, r in batch.fields.items()}
    return replace(batch, fields=fields)
