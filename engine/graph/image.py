"""The image of a graph that the compiler reads: a private copy, frozen before any pass runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph.freeze import read_only
from tilescope.engine.graph.graph import Graph, own_graph
from tilescope.engine.graph.remote import RemoteBuffer
from tilescope.engine.graph.tensor.joined import Joined, View
from tilescope.engine.graph.variable import Variable
from tilescope.engine.graph.vertex.compute_set import ComputeSet, VertexBatch
from tilescope.engine.graph.vertex.regions import Regions
from tilescope.engine.machine import Machine

__all__ = ["GraphCopy", "GraphImage", "OwnGraph"]


@dataclass(frozen=True, eq=False)
class GraphImage:
    """The variables and compute sets of a graph at the time of compilation.

    It is immutable: sequences are tuples, arrays are read-only, variables, compute sets and batches
    are frozen.

    Parameters
    ----------
    compute_tiles, io_tiles : ndarray of int32
        Compute tiles and I/O tiles, ascending.
    variables
        Variables of the graph under the same ids, followed by those of expanded copies.
    compute_sets
        Compute sets of the graph under the same ids, followed by those of expanded copies.
    sources
        The graph's own variables, by which its tensors are identified.
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
        """Raise BadGraph unless a tensor is on variables of the compiled graph.

        Parameters
        ----------
        tensor
            Tensor of the compiled graph, or of this image.

        Raises
        ------
        BadGraph
            When a variable belongs to another graph or was added later, or it is not a tensor.
        """
        if not isinstance(tensor, View):
            raise BadGraph(
                f"Expected a tensor, got a {type(tensor).__name__}: pass the result of"
                " add_variable, or a view on it"
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


class OwnGraph:
    """A graph that the engine built for one compilation: it becomes the image itself.

    Parameters
    ----------
    graph
        Nobody else may use it.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def tensor(self, view: View) -> View:
        """Return the view."""
        return view

    def compute_set(self, compute_set: ComputeSet) -> ComputeSet:
        """Return the compute set."""
        return compute_set

    def freeze(self) -> GraphImage:
        """Freeze the graph and return it as an image; nothing can be added afterwards."""
        for variable in self.graph.variables:
            variable.allocated_for = None  # a plan's, which the compiler does not know
        return _frozen(self.graph, ())


class GraphCopy:
    """A private copy of a graph, which can grow until it is frozen.

    Parameters
    ----------
    source
        The graph to copy; it is only read.

    Attributes
    ----------
    graph
        The copy. It shares no variable, compute set or batch with `source`, but has the same ids.
    """

    def __init__(self, source: Graph) -> None:
        self._sources = tuple(source.variables)
        self.graph = own_graph(source.machine, n_io_tiles=source.n_io_tiles)
        self.graph.variables += [_copied_variable(variable) for variable in source.variables]
        self.graph.compute_sets += [
            self._copied(compute_set) for compute_set in source.compute_sets
        ]
        self.graph.remote_buffers += source.remote_buffers
        self.graph.codelets.update(source.codelets)
        self.graph.n_plans = source.n_plans

    def tensor(self, view: View) -> View:
        """Return the equivalent view on the copy's variables."""
        if isinstance(view, Joined):
            return replace(view, parts=tuple(self.tensor(part) for part in view.parts))
        return replace(view, variable=self.graph.variables[view.variable.variable_id])

    def compute_set(self, compute_set: ComputeSet) -> ComputeSet:
        """Return the copied compute set."""
        return self.graph.compute_sets[compute_set.compute_set_id]

    def freeze(self) -> GraphImage:
        """Freeze the copy and return it as an image; nothing can be added afterwards."""
        return _frozen(self.graph, self._sources)

    def _copied(self, source: ComputeSet) -> ComputeSet:
        """Return a copied compute set with regions on the copy's variables."""
        batches = [
            VertexBatch(
                batch.codelet,
                batch.tile,
                {name: self._regions(regions) for name, regions in batch.fields.items()},
                batch.scalars,
            )
            for batch in source.batches
        ]
        return ComputeSet(
            source.compute_set_id, source.name, source.debug, source.plan_stage, batches
        )

    def _regions(self, regions: Regions) -> Regions:
        return regions.on(self.graph.variables[regions.variable.variable_id])


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
        source.partial_mapping,
        purpose=source.purpose,
        is_replica_index=source.is_replica_index,
    )


def _frozen(graph: Graph, sources: tuple[Variable, ...]) -> GraphImage:
    """Freeze a graph and return it as an image."""
    for variable in graph.variables:
        variable.freeze()
    for compute_set in graph.compute_sets:
        compute_set.freeze()
    return GraphImage(
        machine=graph.machine,
        n_io_tiles=graph.n_io_tiles,
        compute_tiles=read_only(graph.compute_tiles),
        io_tiles=read_only(graph.io_tiles),
        variables=tuple(graph.variables),
        compute_sets=tuple(graph.compute_sets),
        remote_buffers=tuple(graph.remote_buffers),
        sources=sources,
    )
