"""Vertices of elementwise operations: equal operations of a graph share their arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph import (
    ComputeSet,
    Graph,
    Regions,
    Tensor,
    Variable,
    VertexBatch,
    View,
)
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.library.vertex_choice import choose_vertices
from tilescope.engine.library.walk import joint_walks

__all__ = ["Vertices", "add_together", "on_variables", "vertices_of"]

#: Codelet, tiles and regions by field of a batch.
Batch = tuple[Codelet, NDArray[np.int32], Mapping[str, Regions]]


class Vertices:
    """The vertices of an operation, or of one that was added before, on other variables.

    Parameters
    ----------
    batches
        On the variables of the first operation.
    variables
        Variables of the first operation, with those to use instead.
    scalars
        Scalars of the codelets.
    """

    def __init__(
        self,
        batches: Sequence[Batch],
        variables: Mapping[Variable, Variable],
        scalars: Mapping[str, float],
    ) -> None:
        self.batches, self.variables, self.scalars = batches, variables, scalars

    def add_to(self, graph: Graph, compute_set: ComputeSet) -> None:
        """Add the vertices to a compute set; those of the first operation are checked."""
        is_first = all(before is now for before, now in self.variables.items())
        for codelet, tile, fields in self.batches:
            if is_first:
                graph.add_vertices(compute_set, codelet, tile, fields, self.scalars)
                continue
            columns = codelet.columns_of(self.scalars, tile.size)
            compute_set.add(
                on_variables(VertexBatch(codelet, tile, fields, columns), self.variables)
            )


def on_variables(batch: VertexBatch, variables: Mapping[Variable, Variable]) -> VertexBatch:
    """Return vertices on other variables, given by those they are on."""
    moved = {
        name: regions.on(variables[regions.variable]) for name, regions in batch.fields.items()
    }
    return VertexBatch(batch.codelet, batch.tile, moved, batch.scalars)


def vertices_of(
    graph: Graph,
    name: str,
    codelets: tuple[Codelet, Codelet],
    operands: Sequence[View],
    out: View,
    scalars: Mapping[str, float] | None = None,
) -> Vertices | None:
    """Return the vertices that compute a tensor element by element; None if strides do not fit.

    Parameters
    ----------
    graph
        Where they are added; it remembers them.
    name
        Name of the operation.
    codelets
        For vectors, and for blocks. One in place has a field less: its first is the result, which
        is also its first operand.
    operands
        Tensors that broadcast to the output's shape; of codelets in place, the others.
    out
        A view without aliased elements.
    scalars
        Scalars of the codelets.

    Raises
    ------
    BadGraph
        If the output aliases elements, or shapes do not broadcast.
    """
    scalars = scalars or {}
    key = _key(name, codelets, operands, out)
    if key:
        key = *key, *sorted(scalars.items())
    variables = _variables(operands, out)
    batches_ = graph.vertices_of_operations.get(key) if key else None
    if batches_ is not None:
        before, batches, _ = batches_
        return Vertices(batches, dict(zip(before, variables, strict=True)), scalars)
    walks = joint_walks(operands, out)
    if walks is None:
        return None
    results: list[Batch] = []
    for walk in walks:
        for is_block, tiles, regions in walk.batches():
            codelet = codelets[is_block]
            results += choose_vertices(name, codelet, tiles, regions, graph.machine)
    if key:
        # With the mapping: another array could get the id of one that is gone.
        mapping = out.variables[0].map_start, out.variables[0].map_tile
        graph.vertices_of_operations[key] = variables, results, mapping
    return Vertices(results, dict(zip(variables, variables, strict=True)), scalars)


def add_together(graph: Graph, compute_set: ComputeSet, several: Sequence[Vertices]) -> None:
    """Add the vertices of several operations to a compute set."""
    for vertices in several:
        vertices.add_to(graph, compute_set)


def _variables(operands: Sequence[View], out: View) -> list[Variable]:
    return list(dict.fromkeys(v for view in (*operands, out) for v in view.variables))


def _key(
    name: str, codelets: tuple[Codelet, Codelet], operands: Sequence[View], out: View
) -> tuple[Any, ...]:
    """Return what decides the vertices of an operation; nothing if a view joins variables.

    They follow the mapping of the output: that of other operands decides exchanges only.
    """
    views = (*operands, out)
    if not all(isinstance(view, Tensor) for view in views):
        return ()
    numbers = {variable: i for i, variable in enumerate(_variables(operands, out))}
    described = []
    for view in views:
        assert isinstance(view, Tensor)
        variable = view.variable
        described.append(
            (numbers[variable], variable.dtype.name, variable.n_elements, view.offset, view.dims)
        )
    mapped = out.variables[0]
    mapping = id(mapped.map_start), id(mapped.map_tile)
    return name, codelets[0].name, codelets[1].name, *described, mapping
