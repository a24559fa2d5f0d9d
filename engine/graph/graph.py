"""The graph: variables, their tile mappings, and vertices in compute sets, all validated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilescope.engine.arguments import a_count, a_kind, a_text, numbers, shown, whole_numbers
from tilescope.engine.errors import BadGraph
from tilescope.engine.graph.identity.debug import ROOT, DebugContext
from tilescope.engine.graph.mapping.mapping import TileMapping
from tilescope.engine.graph.remote import RemoteBuffer
from tilescope.engine.graph.tensor.joined import Joined, View
from tilescope.engine.graph.tensor.tensor import Tensor
from tilescope.engine.graph.unchecked_graph import UncheckedGraph
from tilescope.engine.graph.variable import Variable, to_host
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.graph.vertex.compute_set import ComputeSet, VertexBatch
from tilescope.engine.graph.vertex.field import Field
from tilescope.engine.graph.vertex.interval_list import lists_of
from tilescope.engine.graph.vertex.plan_stage import PlanStage
from tilescope.engine.graph.vertex.regions import Regions, regions_of
from tilescope.engine.machine import Machine
from tilescope.engine.number.dtype import dtype_of

__all__ = ["Graph", "checked_graph", "own_graph"]


class Graph(UncheckedGraph):
    """Variables and compute sets for one machine; all arguments are checked.

    Parameters
    ----------
    machine
        The machine to compile for.
    n_io_tiles
        Number of tiles per IPU, the last ones, reserved for I/O beside compute; see
        `tilescope.engine.program.Overlap`. Nothing is placed on them by default.

    Raises
    ------
    BadGraph
        When no compute tiles are left, or a pair of tiles that share their exchange bus is split.
    """

    def __init__(self, machine: Machine, *, n_io_tiles: int = 0) -> None:
        if not isinstance(machine, Machine):
            raise BadGraph(
                f"Expected a machine for the graph, got {shown(machine)}: write"
                ' Graph(load_machine("gc200"))'
            )
        n_io_tiles = a_count("The number of I/O tiles", n_io_tiles)
        if not 0 <= n_io_tiles < machine.tiles_per_ipu:
            raise BadGraph(
                f"n_io_tiles is {n_io_tiles}; it must be between 0 and {machine.tiles_per_ipu - 1},"
                f" so that at least one of the {machine.tiles_per_ipu} tiles per IPU computes"
            )
        n_compute = machine.tiles_per_ipu - n_io_tiles
        if n_io_tiles and n_compute % 2:
            raise BadGraph(
                f"{n_io_tiles} I/O tiles of {machine.tiles_per_ipu} would split the pair of tiles"
                f" {n_compute - 1} and {n_compute}, which share their exchange bus: use one more"
                " or one fewer"
            )
        super().__init__(machine, n_io_tiles=n_io_tiles)

    @property
    def unchecked(self) -> Graph:
        """The same graph, as an `UncheckedGraph`: for calls whose arguments need no checks."""
        graph = object.__new__(UncheckedGraph)
        graph.__dict__ = self.__dict__  # one graph under two classes
        return cast(Graph, graph)

    def add_variable(
        self, dtype: Any, shape: Sequence[int], name: str, debug: DebugContext = ROOT
    ) -> Tensor:
        """Add a variable and return the tensor that covers it; map it to tiles before use.

        Raises
        ------
        BadGraph
            When the device does not support the type, or a dimension is invalid.
        OutOfTileMemory
            When it is too large even for a report of the overflow.
        """
        kind = dtype_of(dtype)
        return self._add(kind, self._checked_shape(shape, name, debug), name, debug)

    def add_constant(
        self,
        values: ArrayLike,
        name: str,
        *,
        dtype: Any = None,
        debug: DebugContext = ROOT,
        copy: bool = True,
    ) -> Tensor:
        """Add an always-live variable that holds `values`; map it to tiles before use.

        Without `copy`, nobody may change the values later.

        Raises
        ------
        BadGraph
            When the device does not support the type, or an integer does not fit 32 bits.
        """
        array = numbers(f"The values of {shown(name)}", values)
        kind = dtype_of(array.dtype if dtype is None else dtype)
        self._checked_shape(array.shape, name, debug)
        return super().add_constant(array, name, dtype=kind, debug=debug, copy=copy)

    def add_replica_index(
        self, name: str = "replica", n_elements: int = 1, debug: DebugContext = ROOT
    ) -> Tensor:
        """Add an int32 constant that holds the number of the replica; map it to tiles before use.

        Parameters
        ----------
        name, debug
            Name and context of the variable.
        n_elements
            Copies of the number, such as one per tile.

        Raises
        ------
        BadGraph
            When the name is no text, or there is not one copy at least.
        """
        n_elements = a_count(f"The copies of {shown(name)}", n_elements, 1)
        self._checked_shape((n_elements,), name, debug)
        return super().add_replica_index(name, n_elements, debug)

    def add_remote_buffer(
        self,
        name: str,
        dtype: Any,
        n_elements: int,
        repeats: int = 1,
        values: ArrayLike | None = None,
    ) -> RemoteBuffer:
        """Add rows of elements in streaming memory, for `RemoteCopyIn` and `RemoteCopyOut`.

        Parameters
        ----------
        name, dtype, n_elements, repeats
            As for `RemoteBuffer`.
        values : shape (repeats, n_elements)
            What it holds before the first run; zeros by default.

        Raises
        ------
        BadGraph
            When the name is taken, the device does not support the type, a size is less than 1, the
            values have another shape, or the buffers together exceed the streaming memory of the
            machine's IPUs.
        """
        a_text("The name of a remote buffer", name)
        if any(buffer.name == name for buffer in self.remote_buffers):
            raise BadGraph(f"Remote buffer {name!r} already exists: choose another name")
        kind = dtype_of(dtype)
        self._check_type(kind, name)
        n_elements = a_count(f"The row of remote buffer {name!r}", n_elements)
        repeats = a_count(f"The number of rows of remote buffer {name!r}", repeats)
        contents = None
        if values is not None:
            array = numbers(f"The values of remote buffer {name!r}", values)
            if array.shape != (repeats, n_elements):
                raise BadGraph(
                    f"Remote buffer {name!r} takes values of shape {(repeats, n_elements)}, not"
                    f" {array.shape}"
                )
            contents = to_host(array, kind, name)
        return super().add_remote_buffer(name, kind, n_elements, repeats, contents)

    @staticmethod
    def _checked_shape(shape: Sequence[int], name: str, debug: DebugContext) -> tuple[int, ...]:
        """Return the dimensions of a variable that can have this name."""
        if not isinstance(name, str):
            raise BadGraph(f"Expected a string as the name of a variable, got {shown(name)}")
        _check_debug(name, debug)
        full = whole_numbers(f"The dimensions of {name!r}", shape)
        if full.ndim != 1:
            raise BadGraph(
                f"The shape of {name!r} is {shown(shape)}: expected a tuple of dimensions"
            )
        sizes = tuple(full.tolist())
        if any(s < 1 for s in sizes):
            raise BadGraph(
                f"Variable {name!r} has shape {sizes}: every dimension must be at least 1"
            )
        return sizes

    def set_tile_mapping(self, tensor: Tensor, starts: ArrayLike, tiles: ArrayLike) -> None:
        """Map the elements that a tensor shows, by intervals in its logical order.

        The other elements of its variable keep their tiles. A variable is mapped when all of its
        elements are.

        Parameters
        ----------
        tensor
            A variable, or a view on one that shows no element twice.
        starts : array of int, shape (n,)
            First element of each interval, ascending from 0.
        tiles : array of int, shape (n,)
            Tile of each interval.

        Raises
        ------
        BadGraph
            When elements are left out, the order is wrong, a tile does not exist, or the tensor
            belongs to another graph, joins several variables or shows an element twice.
        """
        variable = self._one(tensor)
        start = np.atleast_1d(whole_numbers(f"The starts of {variable.name!r}", starts))
        tile = np.atleast_1d(whole_numbers(f"The tiles of {variable.name!r}", tiles, np.int32))
        if start.shape != tile.shape or start.ndim != 1:
            raise BadGraph(
                f"The mapping of {variable.name!r} has starts of shape {start.shape} and tiles of"
                f" shape {tile.shape}: give one tile per start"
            )
        if start.size == 0 or start[0] != 0:
            raise BadGraph(f"The mapping of {variable.name!r} must begin at element 0")
        if (np.diff(start) <= 0).any() or start[-1] >= tensor.n_elements:
            raise BadGraph(
                f"The starts of {variable.name!r} must ascend within its"
                f" {tensor.n_elements} elements"
            )
        n_tiles = self.machine.n_tiles
        if tile.min() < 0 or tile.max() >= n_tiles:
            bad = int(tile[(tile < 0) | (tile >= n_tiles)][0])
            raise BadGraph(
                f"{variable.name!r} is mapped to tile {bad}, but the machine has tiles 0 to"
                f" {n_tiles - 1}"
            )
        super().set_tile_mapping(tensor, start, tile)

    def clone(
        self,
        view: View,
        name: str,
        dtype: Any = None,
        debug: DebugContext = ROOT,
        *,
        ipu: int | None = None,
    ) -> Tensor:
        """Add a variable with the shape, the order in memory and the tile mapping of a view.

        Parameters
        ----------
        view
            A variable or any view. If it joins several variables or aliases elements, the copy is
            row-major.
        name
            Name of the variable.
        dtype
            Element type; by default, that of the view.
        ipu
            IPU that takes it, on the same tiles as the view's; None for the view's own IPUs.

        Raises
        ------
        BadGraph
            When the view belongs to another graph or has no mapping yet, or the device does not
            support the type or has no such IPU.
        """
        self.check_own(view)
        return super().clone(view, name, dtype, debug, ipu=ipu)

    def map_linearly(
        self,
        tensor: Tensor,
        *,
        grain: int = 1,
        min_elements: int = 1,
        tiles: Sequence[int] | NDArray[np.integer[Any]] | None = None,
        first: int = 0,
    ) -> None:
        """Spread a tensor evenly over tiles, in chunks of whole grains of its logical order.

        Parameters
        ----------
        tensor
            As for `set_tile_mapping`.
        grain
            Number of consecutive elements that stay on one tile.
        min_elements
            Least number of elements of a tile, where there are as many: small variables use fewer
            tiles.
        tiles
            The tiles to use, in order; all compute tiles when None.
        first
            Index in that order to begin at, so that small variables do not all land on tile 0.

        Raises
        ------
        BadGraph
            When a number is not an integer, the grain or `min_elements` is less than 1, or there
            are no tiles; also as for `set_tile_mapping`.
        """
        variable = self._one(tensor)
        grain = a_count(f"The grain of {variable.name!r}", grain, 1)
        minimum = a_count(f"The least elements per tile of {variable.name!r}", min_elements, 1)
        first = a_count(f"The first tile of {variable.name!r}", first, 0)
        pool = self.compute_tiles
        if tiles is not None:
            pool = np.atleast_1d(whole_numbers(f"The tiles of {variable.name!r}", tiles, np.int32))
        if pool.ndim != 1:
            raise BadGraph(
                f"The tiles of {variable.name!r} have shape {pool.shape}: expected one dimension"
            )
        if not pool.size:
            raise BadGraph(f"No tiles to map {variable.name!r} to: give at least one")
        super().map_linearly(tensor, grain=grain, min_elements=minimum, tiles=pool, first=first)

    def tile_mapping(self, tensor: View) -> TileMapping:
        """Return the tile mapping of a tensor, which may be any view.

        Raises
        ------
        BadGraph
            When the tensor belongs to another graph, or its variable has no mapping yet.
        """
        self.check_own(tensor)
        return super().tile_mapping(tensor)

    def check_own(self, tensor: View) -> None:
        """Raise BadGraph unless a tensor is on variables of this graph.

        Raises
        ------
        BadGraph
            When it belongs to another graph, or is not a tensor.
        """
        if not isinstance(tensor, View):
            raise BadGraph(
                f"Expected a tensor, got a {type(tensor).__name__}: pass the result of"
                " add_variable, or a view on it"
            )
        for variable in tensor.variables:
            i = variable.variable_id
            if i >= len(self.variables) or self.variables[i] is not variable:
                raise BadGraph(f"{variable.name!r} is a variable of another graph")

    def check_own_compute_set(self, compute_set: ComputeSet) -> None:
        """Raise BadGraph unless a compute set belongs to this graph.

        Raises
        ------
        BadGraph
            When it belongs to another graph, or is not a compute set.
        """
        if not isinstance(compute_set, ComputeSet):
            raise BadGraph(
                f"Expected a compute set, got a {type(compute_set).__name__}: pass the result of"
                " add_compute_set"
            )
        i = compute_set.compute_set_id
        if i >= len(self.compute_sets) or self.compute_sets[i] is not compute_set:
            raise BadGraph(f"{compute_set.name!r} is a compute set of another graph")

    def _one(self, tensor: Tensor) -> Variable:
        """Return the one variable that a tensor to map is on."""
        self.check_own(tensor)
        if isinstance(tensor, Joined):
            raise BadGraph(
                f"Expected a view on one variable to map, got a tensor that joins {tensor.name}:"
                " map each one"
            )
        return tensor.variable

    def add_compute_set(
        self, name: str, debug: DebugContext = ROOT, plan_stage: PlanStage | None = None
    ) -> ComputeSet:
        """Add an empty compute set, optionally for a stage of a plan.

        Parameters
        ----------
        name
            Its own name, within its context's.
        debug
            Context that creates it.
        plan_stage
            The plan and the stage that it implements.

        Raises
        ------
        BadGraph
            When its name is not a string.
        """
        a_text("The name of a compute set", name)
        _check_debug(name, debug)
        return super().add_compute_set(name, debug, plan_stage)

    def add_vertices(
        self,
        compute_set: ComputeSet,
        codelet: Codelet,
        tile: ArrayLike,
        fields: Mapping[str, Regions | View | Sequence[Tensor] | Sequence[Sequence[Tensor]]],
        scalars: Mapping[str, ArrayLike] | None = None,
    ) -> VertexBatch:
        """Add one vertex of `codelet` per entry of `tile`.

        Parameters
        ----------
        compute_set
            Compute set they run in.
        codelet
            Codelet they run.
        tile : array of int, shape (n_vertices,)
            Tile of each vertex.
        fields
            By field name: regions; a tensor or a slice of one for all vertices; or a list with one
            per vertex. A field of kind ``list`` takes a list of slices per vertex.
        scalars
            Numbers by scalar name: one for all vertices, or one per vertex.

        Raises
        ------
        BadGraph
            When a field is missing, unknown, of the wrong type or number of dimensions, outside
            its variable, or of another graph; when a tile does not exist; or when vertices run
            another codelet of that name that is not the same vertex type.
        """
        self.check_own_compute_set(compute_set)
        if not isinstance(codelet, Codelet):
            raise BadGraph(
                f"Vertices in {compute_set.name!r} run a codelet, not a {type(codelet).__name__}:"
                " create one with engine.codelet"
            )
        where = f"{codelet.name} in {compute_set.name!r}"
        codelet.check_same_type(self.codelets.get(codelet.name, codelet))
        # A copy: the caller may modify its array later.
        tiles = np.array(
            np.atleast_1d(whole_numbers(f"{where}: the tiles", tile, np.int32)), order="C"
        )
        if tiles.ndim != 1:
            raise BadGraph(f"{where}: tiles have shape {tiles.shape}: give one per vertex")
        if tiles.size and (tiles.min() < 0 or tiles.max() >= self.machine.n_tiles):
            raise BadGraph(
                f"{where}: a vertex is on a tile outside 0 to {self.machine.n_tiles - 1}"
            )
        connected: Mapping[str, Any] = fields
        if isinstance(fields, Mapping):
            known = {field.name: field for field in codelet.fields}
            connected = {
                name: _regions(f"{where}, field {name!r}", known[name], value, tiles.size)
                if name in known
                else value
                for name, value in fields.items()
            }
        codelet.check_fields(where, connected, tiles.size)
        for name, regions in connected.items():
            variable = regions.variable
            owner = self.variables
            if variable.variable_id >= len(owner) or owner[variable.variable_id] is not variable:
                raise BadGraph(f"{where}: field {name!r} is a tensor of another graph")
            regions.check(f"{where}, field {name!r}")
        codelet.check_scalars(where, {} if scalars is None else scalars, tiles.size)
        return super().add_vertices(compute_set, codelet, tiles, connected, scalars)


def own_graph(machine: Machine, *, n_io_tiles: int = 0) -> Graph:
    """Return an empty graph of the engine's own: see `Graph.unchecked`."""
    return cast(Graph, UncheckedGraph(machine, n_io_tiles=n_io_tiles))


def checked_graph(graph: UncheckedGraph) -> Graph:
    """Return the same graph as a `Graph`: one of the engine's own that users go on with."""
    checked = object.__new__(Graph)
    checked.__dict__ = graph.__dict__
    return checked


def _regions(where: str, field: Field, connected: Any, n_vertices: int) -> Any:
    """Return the regions of a field; what is given if it is something else, for messages."""
    if field.is_list:
        return lists_of(where, connected, n_vertices)
    return (
        regions_of(where, connected, n_vertices, field.n_dims)
        if _is_of_tensors(connected)
        else connected
    )


def _is_of_tensors(connected: object) -> bool:
    """Return whether a field is given as tensors instead of regions."""
    several = connected if isinstance(connected, list | tuple) else [connected]
    return any(isinstance(view, View) for view in several)


def _check_debug(name: str, debug: object) -> None:
    """Raise BadGraph unless a debug context is valid."""
    a_kind(f"The debug context of {name!r}", debug, DebugContext, "an engine.graph.DebugContext")
