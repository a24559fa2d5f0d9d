"""The image of a graph that a compiler reads: a private copy, frozen before any pass runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph.compute_set import ComputeSet, VertexBatch
from tilescope.engine.graph.freeze import read_only
from tilescope.engine.graph.graph import Graph
from tilescope.engine.graph.joined import Joined, View
from tilescope.engine.graph.regions import Regions
from tilescope.engine.graph.remote import RemoteBuffer
from tilescope.engine.graph.variable import Variable
from tilescope.engine.machine import Machine

__all__ = ["GraphCopy", "GraphImage"]


@dataclass(frozen=True, eq=False)
class GraphImage:
    """Variables and compute sets as they were when a program was compiled.

    Nothing in it changes: sequences are tuples, arrays are read-only, variables, compute sets and
    batches are frozen.

    Parameters
    ----------
    compute_tiles, io_tiles : ndarray of int32
        Tiles that compute and tiles kept for input and output, ascending.
    variables
        Those of the graph under the same ids, then those that expanded copies added.
    compute_sets
        Those of the graph under the same ids, then those of expanded copies.
    sources
        The graph's own variables, by which its tensors are recognised.
    """

    machine: Machine
    n_io_tiles: int
    compute_tiles: NDArray[np.int32]
    io_tiles: NDArray[np.int32]
    variables: tuple[Variable, ...]
    compute_sets: tuple[ComputeSet, ...]
    remote_buffers: tuple[RemoteBuffer, ...]
    sources: tuple[Variable, ...]

    def check_own(self, tensor: View) -> None:
        """Raise BadGraph unless a tensor is on variables of the graph as it was compiled.

        Parameters
        ----------
        tensor
            Of the graph that was compiled, or of this image.

        Raises
        ------
        BadGraph
            When a variable belongs to another graph, was added later, or it is not a tensor.
        """
        if not isinstance(tensor, View):
            raise BadGraph(
                f"A tensor is needed, not a {type(tensor).__name__}: give what add_variable"
                " returned, or a view on it"
            )
        for variable in tensor.variables:
            i = variable.variable_id
            is_source = i < len(self.sources) and self.sources[i] is variable
            is_own = i < len(self.variables) and self.variables[i] is variable
            if not (is_source or is_own):
                raise BadGraph(
                    f"{variable.name!r} is a variable of another graph, or was added after the"
                    " program was compiled: compile again"
                )


class GraphCopy:
    """A private copy of a graph, which can still grow before it is frozen.

    Parameters
    ----------
    source
        The graph to copy; it is read only.

    Attributes
    ----------
    graph
        The copy. It shares no variable, compute set or batch with `source`, and ids are equal.
    """

    def __init__(self, source: Graph) -> None:
        self._sources = tuple(source.variables)
        self.graph = Graph(source.machine, n_io_tiles=source.n_io_tiles)
        self.graph.variables += [_copied_variable(variable) for variable in source.variables]
        self.graph.compute_sets += [self._copied(found) for found in source.compute_sets]
        self.graph.remote_buffers += source.remote_buffers
        self.graph.codelets.update(source.codelets)
        self.graph.n_plans = source.n_plans

    def tensor(self, view: View) -> View:
        """Return the same view on the copy's variables."""
        if isinstance(view, Joined):
            return replace(view, parts=tuple(self.tensor(part) for part in view.parts))
        return replace(view, variable=self.graph.variables[view.variable.variable_id])

    def compute_set(self, compute_set: ComputeSet) -> ComputeSet:
        """Return the copy of a compute set."""
        return self.graph.compute_sets[compute_set.compute_set_id]

    def freeze(self) -> GraphImage:
        """Freeze the copy and return it as an image; nothing can be added to it any more."""
        graph = self.graph
        for variable in graph.variables:
            variable.freeze()
        for compute_set in graph.compute_sets:
            compute_set.batches = tuple(_read_only_batch(batch) for batch in compute_set.batches)
            compute_set.freeze()
        return GraphImage(
            machine=graph.machine,
            n_io_tiles=graph.n_io_tiles,
            compute_tiles=read_only(graph.compute_tiles),
            io_tiles=read_only(graph.io_tiles),
            variables=tuple(graph.variables),
            compute_sets=tuple(graph.compute_sets),
            remote_buffers=tuple(graph.remote_buffers),
            sources=self._sources,
        )

    def _copied(self, source: ComputeSet) -> ComputeSet:
        """Return a compute set whose regions are on the copy's variables."""
        batches = [
            VertexBatch(
                batch.codelet,
                read_only(batch.tile),
                {name: self._regions(regions) for name, regions in batch.fields.items()},
                batch.scalars,
            )
            for batch in source.batches
        ]
        return ComputeSet(
            source.compute_set_id, source.name, source.debug, source.plan_stage, batches
        )

    def _regions(self, regions: Regions) -> Regions:
        variable = self.graph.variables[regions.variable.variable_id]
        return Regions(
            variable,
            read_only(regions.start),
            read_only(regions.size),
            read_only(regions.stride),
        )


def _copied_variable(source: Variable) -> Variable:
    return Variable(
        source.variable_id,
        source.name,
        source.dtype,
        source.shape,
        source.debug,
        source.category,
        source.values,
        source.map_start,
        source.map_tile,
    )


def _read_only_batch(batch: VertexBatch) -> VertexBatch:
    """Return a batch of which nothing can be written."""
    fields: Mapping[str, Regions] = {
        name: regions
        if not regions.start.flags.writeable
        else Regions(
            regions.variable,
            read_only(regions.start),
            read_only(regions.size),
            read_only(regions.stride),
        )
        for name, regions in batch.fields.items()
    }
    scalars = {name: read_only(column) for name, column in batch.scalars.items()}
    return VertexBatch(
        batch.codelet,
        read_only(batch.tile),
        MappingProxyType(fields),
        MappingProxyType(scalars),
    )
