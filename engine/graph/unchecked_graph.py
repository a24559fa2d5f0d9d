"""A graph whose arguments nobody checks: what the engine itself builds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilescope.engine.errors import BadGraph, OutOfTileMemory
from tilescope.engine.graph.identity.arrangement import arrangement_of
from tilescope.engine.graph.identity.debug import ROOT, DebugContext
from tilescope.engine.graph.mapping.clone import clone_layout
from tilescope.engine.graph.mapping.mapping import TileMapping, tile_mapping_of
from tilescope.engine.graph.mapping.partial_mapping import overlaid
from tilescope.engine.graph.remote import RemoteBuffer
from tilescope.engine.graph.tensor.joined import View
from tilescope.engine.graph.tensor.tensor import Tensor, row_major
from tilescope.engine.graph.variable import Variable, to_host
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.graph.vertex.compute_set import ComputeSet, VertexBatch
from tilescope.engine.graph.vertex.plan_stage import PlanStage
from tilescope.engine.graph.vertex.regions import Regions
from tilescope.engine.machine import Machine
from tilescope.engine.number.dtype import DType, dtype_of

__all__ = ["REPORTED_BYTES", "UncheckedGraph"]

#: A variable up to this size is compiled even if it does not fit, so that the report can explain
#: the overflow; a variable that is larger than this and than all tiles is rejected, bytes.
REPORTED_BYTES = 1 << 30  # Assumption: compiling takes up to four times as much host memory.

#: What stands for the number of a replica until a program runs on it: no other constant is so.
_ANY_REPLICA = -0x52455049


class UncheckedGraph:
    """Variables and compute sets for one machine, of whoever knows what a graph takes.

    The library builds on it, and the lowering of models; `Graph`, whose methods have the same
    names, is that of users. What a machine cannot hold is refused here, too.

    Parameters
    ----------
    machine
        The machine to compile for.
    n_io_tiles
        Number of tiles per IPU that are reserved for I/O.
    """

    def __init__(self, machine: Machine, *, n_io_tiles: int = 0) -> None:
        n_compute = machine.tiles_per_ipu - n_io_tiles
        self.machine = machine
        self.n_io_tiles = n_io_tiles
        by_ipu = np.arange(machine.n_tiles, dtype=np.int32).reshape(machine.n_ipus, -1)
        #: Compute tiles, ndarray of int32, ascending.
        self.compute_tiles = by_ipu[:, :n_compute].reshape(-1)
        #: I/O tiles, ndarray of int32, ascending.
        self.io_tiles = by_ipu[:, n_compute:].reshape(-1)
        self.variables: list[Variable] = []
        self.compute_sets: list[ComputeSet] = []
        self.remote_buffers: list[RemoteBuffer] = []
        #: Codelets in use, by name.
        self.codelets: dict[str, Codelet] = {}
        #: Vertices of elementwise operations, by what decides them; kept by the library.
        self.vertices_of_operations: dict[tuple[Any, ...], Any] = {}
        #: What other library calls added, by what decides it; kept by the library.
        self.steps_of_calls: dict[tuple[Any, ...], Any] = {}
        #: Plans of operations in this graph, numbered from here.
        self.n_plans = 0

    def add_variable(
        self, dtype: Any, shape: Sequence[int], name: str, debug: DebugContext = ROOT
    ) -> Tensor:
        """Add a variable and return the tensor that covers it; map it to tiles before use.

        Raises
        ------
        BadGraph
            When the device does not support the type.
        OutOfTileMemory
            When it is too large even for a report of the overflow.
        """
        return self._add(dtype_of(dtype), tuple(int(size) for size in shape), name, debug)

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
        array = np.asarray(values)
        kind = dtype_of(array.dtype if dtype is None else dtype)
        tensor = self._add(kind, array.shape, name, debug)
        variable = tensor.variable
        variable.category = "constant"
        variable.values = to_host(array, kind, name, copy=copy).reshape(-1)
        variable.arrangement = arrangement_of(values)
        return tensor

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
        """
        values = np.full(n_elements, _ANY_REPLICA, np.int32)
        tensor = UncheckedGraph.add_constant(self, values, name, debug=debug, copy=False)
        tensor.variable.is_replica_index = True
        return tensor

    def _check_type(self, dtype: DType, name: str) -> None:
        if dtype.kind == "float8" and not self.machine.float8_conv_units:
            raise BadGraph(
                f"{name!r} is {dtype}: {self.machine.name} has no float8; use float16, or a machine"
                " of architecture ipu21, such as c600"
            )

    def _add(self, dtype: DType, sizes: tuple[int, ...], name: str, debug: DebugContext) -> Tensor:
        """Add a variable, unless no machine of this kind has it."""
        full_name = debug.join(name)
        self._check_type(dtype, full_name)
        n_bytes = prod(sizes) * dtype.n_bytes
        room_bytes = self.machine.capacity_bytes
        if n_bytes > max(room_bytes, REPORTED_BYTES):
            raise OutOfTileMemory(
                f"Variable {full_name!r} of shape {sizes} takes {n_bytes:,} bytes:"
                f" {self.machine.name} has {room_bytes:,} on all {self.machine.n_tiles:,} tiles;"
                " split it, or make it smaller"
            )
        variable = Variable(len(self.variables), full_name, dtype, sizes, debug)
        self.variables.append(variable)
        return Tensor(variable, 0, row_major(sizes))

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
        """
        variable = tensor.variable
        start, tile = np.asarray(starts, np.int64), np.asarray(tiles, np.int32)
        if tensor.n_elements < variable.n_elements or not tensor.is_contiguous:
            start, tile = overlaid(variable.mapped_so_far(), tensor, (start, tile))
        variable.set_mapping(start, tile)

    def add_remote_buffer(
        self,
        name: str,
        dtype: Any,
        n_elements: int,
        repeats: int = 1,
        values: ArrayLike | None = None,
    ) -> RemoteBuffer:
        """Add rows of elements in streaming memory; see `Graph.add_remote_buffer`.

        Parameters
        ----------
        name, dtype, n_elements, repeats
            As for `RemoteBuffer`.
        values : shape (repeats, n_elements)
            What it holds before the first run, in the type of the host; zeros by default.

        Raises
        ------
        BadGraph
            When the buffers together exceed the streaming memory of the machine's IPUs.
        """
        number, kind = len(self.remote_buffers), dtype_of(dtype)
        contents = None if values is None else np.asarray(values)
        buffer = RemoteBuffer(number, name, kind, n_elements, repeats, contents)
        self._check_streaming_memory(buffer)
        self.remote_buffers.append(buffer)
        return buffer

    def _check_streaming_memory(self, buffer: RemoteBuffer) -> None:
        """Raise BadGraph unless streaming memory has room for another buffer."""
        machine = self.machine
        room_bytes = machine.n_ipus * machine.streaming_memory_bytes
        taken_bytes = sum(remote_buffer.n_bytes for remote_buffer in self.remote_buffers)
        if buffer.n_bytes <= room_bytes - taken_bytes:
            return
        beside = f", of which other buffers take {taken_bytes:,}" if taken_bytes else ""
        raise BadGraph(
            f"Remote buffer {buffer.name!r} takes {buffer.n_bytes:,} bytes, {buffer.repeats:,} rows"
            f" of {buffer.n_elements:,} {buffer.dtype}: the streaming memory of {machine.name} with"
            f" {machine.n_ipus} IPU{'s' if machine.n_ipus > 1 else ''} holds {room_bytes:,} bytes"
            f"{beside}. Use fewer or shorter rows, or more IPUs"
        )

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
            When the view has no mapping yet, or the device does not support the type or has no
            such IPU.
        """
        layout = clone_layout(view)
        tile = layout.tile
        if ipu is not None:
            if not 0 <= ipu < self.machine.n_ipus:
                raise BadGraph(
                    f"{view.name!r} cannot be cloned on IPU {ipu}: the machine has IPUs 0 to"
                    f" {self.machine.n_ipus - 1}"
                )
            per_ipu = self.machine.tiles_per_ipu
            tile = (tile % per_ipu + ipu * per_ipu).astype(tile.dtype)
        variable = self.add_variable(
            view.dtype if dtype is None else dtype, layout.shape, name, debug
        )
        self.set_tile_mapping(variable, layout.start, tile)
        return layout.as_view(variable)

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
        """
        pool = self.compute_tiles if tiles is None else np.asarray(tiles, np.int32)
        n_grains = -(-tensor.n_elements // grain)
        n_parts = min(n_grains, pool.size, max(1, tensor.n_elements // min_elements))
        parts = np.arange(n_parts, dtype=np.int64)
        self.set_tile_mapping(
            tensor, parts * n_grains // n_parts * grain, pool[(parts + first) % pool.size]
        )

    def tile_mapping(self, tensor: View) -> TileMapping:
        """Return the tile mapping of a tensor, which may be any view.

        Raises
        ------
        BadGraph
            When a variable of it has no mapping yet.
        """
        return tile_mapping_of(tensor)

    def new_plan_id(self) -> int:
        """Return the id of the next plan, unique within this graph."""
        self.n_plans += 1
        return self.n_plans - 1

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
        """
        compute_set = ComputeSet(len(self.compute_sets), debug.join(name), debug, plan_stage)
        self.compute_sets.append(compute_set)
        return compute_set

    def add_vertices(
        self,
        compute_set: ComputeSet,
        codelet: Codelet,
        tile: ArrayLike,
        fields: Mapping[str, Any],
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
            Regions, `tilescope.engine.graph.Regions`, by field name.
        scalars
            Numbers by scalar name: one for all vertices, or one per vertex.

        Raises
        ------
        BadGraph
            When vertices run another codelet of that name that is not the same vertex type.
        """
        known = self.codelets.setdefault(codelet.name, codelet)
        if known is not codelet:
            codelet.check_same_type(known)
        tiles = np.asarray(tile, np.int32)
        connected: dict[str, Regions] = dict(fields)
        columns = codelet.columns_of(scalars or {}, tiles.size)
        batch = VertexBatch(codelet, tiles, connected, columns)
        compute_set.add(batch)
        return batch
