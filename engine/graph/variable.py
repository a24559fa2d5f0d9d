"""A variable, its tile mapping, and its values in host format."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.errors import BadGraph
from tilescope.engine.graph.deferred import Deferred
from tilescope.engine.graph.freeze import Freezable, read_only
from tilescope.engine.graph.identity.arrangement import Arrangement
from tilescope.engine.graph.identity.debug import DebugContext
from tilescope.engine.number.dtype import DType

__all__ = ["Variable", "to_host"]


@dataclass(eq=False)
class Variable(Freezable, Deferred):
    """Elements of one type, spread over tiles.

    Parameters
    ----------
    map_start : ndarray of int64
        First element of each mapped interval, ascending from 0; an interval ends where the next
        begins. Empty until the variable is mapped.
    map_tile : ndarray of int32
        Tile of each interval.
    partial_mapping : (ndarray of int64, ndarray of int32)
        The same, with tile -1 where an element has none, while only views on it are mapped.
    allocated_for
        The operation whose plan laid it out, and the strides of the operand there; None for other
        variables. An operation that finds itself here takes that plan.
    purpose
        What a model needs it for: a name in `tilescope.reports.schema.vocabulary.PURPOSES`; empty
        for what lives within an operation, and where no model is.
    arrangement
        The weight of a model that a constant holds, and in which arrangement, while the model is
        lowered; None for others.
    is_replica_index
        Whether its elements are the number of the replica; its `values` say nothing.
    """

    deferred: ClassVar = ("map_start", "map_tile")

    variable_id: int
    name: str
    dtype: DType
    shape: tuple[int, ...]
    debug: DebugContext
    category: str = "variable"
    values: NDArray[Any] | None = None
    map_start: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    map_tile: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    partial_mapping: tuple[NDArray[np.int64], NDArray[np.int32]] | None = None
    allocated_for: tuple[Hashable, Hashable] | None = None
    purpose: str = ""
    arrangement: Arrangement | None = None
    is_replica_index: bool = False

    @property
    def n_elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def n_bytes(self) -> int:
        """Size on the device, bytes."""
        return self.n_elements * self.dtype.n_bytes

    @property
    def is_mapped(self) -> bool:
        """Whether every element has a tile."""
        return self.map_start.size > 0

    @property
    def map_end(self) -> NDArray[np.int64]:
        """One past the last element of each interval: ndarray of int64."""
        return np.append(self.map_start[1:], self.n_elements)

    def mapped_so_far(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return starts and tiles of all intervals; the tile is -1 where elements have none yet."""
        if self.is_mapped:
            return self.map_start, self.map_tile
        nothing = np.zeros(1, np.int64), np.full(1, -1, np.int32)
        return nothing if self.partial_mapping is None else self.partial_mapping

    def set_mapping(self, start: NDArray[np.int64], tile: NDArray[np.int32]) -> None:
        """Set the mapping; it is complete when no tile is -1.

        Parameters
        ----------
        start : ndarray of int64, shape (n,)
            First element of each interval, ascending from 0.
        tile : ndarray of int32, shape (n,)
            Tile of each interval.
        """
        keep = np.ones(tile.size, np.bool_)
        keep[1:] = tile[1:] != tile[:-1]
        start, tile = start[keep], tile[keep]
        if tile.min() < 0:
            self.partial_mapping = start, tile
        else:
            # Read-only from the start: all that takes the mapping has the same arrays.
            self.map_start, self.map_tile = read_only(start), read_only(tile)
            self.partial_mapping = None

    def map_like(self, source: Variable) -> None:
        """Take the mapping of a variable of the same graph that has as many elements."""
        source.check_mapped()
        self.map_start, self.map_tile, self.partial_mapping = (
            source.map_start,
            source.map_tile,
            None,
        )

    def freeze(self) -> None:
        """Reject changes to the variable, its mapping and its values from now on."""
        self.map_start, self.map_tile = read_only(self.map_start), read_only(self.map_tile)
        if self.values is not None:
            self.values = read_only(self.values)
        super().freeze()

    def check_mapped(self) -> None:
        """Raise BadGraph unless every element has a tile.

        Raises
        ------
        BadGraph
            When the variable has no mapping yet.
        """
        if self.partial_mapping is not None:
            start, tile = self.partial_mapping
            first = int(start[tile < 0][0])
            raise BadGraph(
                f"Variable {self.name!r} is mapped in part, element {first} has no tile: map the"
                " rest with set_tile_mapping or map_linearly"
            )
        if not self.is_mapped:
            raise BadGraph(
                f"Variable {self.name!r} has no tile mapping yet: call set_tile_mapping or"
                " map_linearly"
            )

    def tile_of(self, elements: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the tile of each element: ndarray of int32 of the same shape.

        Raises
        ------
        BadGraph
            When the variable has no mapping yet.
        """
        self.check_mapped()
        where = np.searchsorted(self.map_start, elements, side="right") - 1
        tiles: NDArray[np.int32] = self.map_tile[where]
        return tiles


def to_host(array: NDArray[Any], dtype: DType, name: str, *, copy: bool = True) -> NDArray[Any]:
    """Return values in the arena's format: narrow types rounded, integers range-checked.

    Without `copy`, values in that format are returned as they are.

    Raises
    ------
    BadGraph
        When the values are not numbers, or are out of range of the device's type.
    """
    if array.dtype.kind not in "fiub":
        raise BadGraph(f"Expected numbers for {name!r}, got {array.dtype}")
    if dtype.grid is not None:
        return dtype.grid.rounded(array)
    if dtype.limits is not None and array.size:
        is_whole = array.dtype.kind != "f" or np.isfinite(array) & (array == np.floor(array))
        if not np.all(is_whole):
            raise BadGraph(f"{name!r} is {dtype}: expected integers, got fractions or NaN")
        low, high, (lower, upper) = int(array.min()), int(array.max()), dtype.limits
        if low < lower or high > upper:
            raise BadGraph(
                f"The values of {name!r} range from {low} to {high}, but {dtype} holds {lower} to"
                f" {upper}"
            )
    return array.astype(dtype.host, order="C", copy=copy)
