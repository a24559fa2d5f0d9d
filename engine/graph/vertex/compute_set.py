"""Compute sets, and the batches of vertices that run in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.graph.deferred import Deferred
from tilescope.engine.graph.freeze import Freezable, read_only
from tilescope.engine.graph.identity.debug import DebugContext
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.graph.vertex.plan_stage import PlanStage
from tilescope.engine.graph.vertex.regions import Regions

__all__ = ["INTERVAL_BYTES", "ComputeSet", "VertexBatch"]

#: Instance state of an interval of a list, bytes.
#: Assumption: a pointer and a length, as for a vector; Poplar's VectorList can be more compact.
INTERVAL_BYTES = 8


@dataclass(frozen=True, eq=False)
class VertexBatch:
    """Vertices of one codelet: their tiles and, per field, their regions. All is read-only.

    Parameters
    ----------
    tile : ndarray of int32, shape (n_vertices,)
        Tile of each vertex.
    fields
        Regions by the codelet's field names.
    scalars
        Per-vertex numbers by the codelet's scalar names: ndarray, shape (n_vertices,).
    """

    codelet: Codelet
    tile: NDArray[np.int32]
    fields: Mapping[str, Regions]
    scalars: Mapping[str, NDArray[Any]]

    def __post_init__(self) -> None:
        """Make the arrays and mappings read-only, unless they are."""
        object.__setattr__(self, "tile", read_only(self.tile))
        if not isinstance(self.fields, MappingProxyType):
            object.__setattr__(self, "fields", MappingProxyType(dict(self.fields)))
        if not isinstance(self.scalars, MappingProxyType):
            columns = {name: read_only(column) for name, column in self.scalars.items()}
            object.__setattr__(self, "scalars", MappingProxyType(columns))

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return int(self.tile.size)

    @property
    def lists(self) -> list[Regions]:
        """The fields that are lists of intervals."""
        return [regions for regions in self.fields.values() if regions.first is not None]

    @property
    def n_edges(self) -> int:
        """Number of regions that vertices are connected to."""
        return sum(regions.start.size for regions in self.fields.values())

    @property
    def state_bytes(self) -> int:
        """Instance state of all vertices, bytes."""
        n_intervals = sum(regions.start.size for regions in self.lists)
        return self.n_vertices * self.codelet.state_bytes + INTERVAL_BYTES * n_intervals


@dataclass(eq=False)
class ComputeSet(Freezable, Deferred):
    """Vertices that run in one compute phase; none may read or write what another writes.

    `plan_stage` is the plan stage it implements; None where nothing was planned.
    """

    deferred: ClassVar = ("batches",)

    compute_set_id: int
    name: str
    debug: DebugContext
    plan_stage: PlanStage | None = None
    batches: Sequence[VertexBatch] = field(default_factory=list)

    def add(self, batch: VertexBatch) -> None:
        """Add a batch of vertices."""
        if not isinstance(self.batches, list):
            raise FrozenInstanceError(
                f"cannot add vertices to {self.name!r}: it is already compiled"
            )
        self.batches.append(batch)

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return sum(batch.n_vertices for batch in self.batches)

    def freeze(self) -> None:
        """Reject changes to the compute set and further vertices from now on."""
        self.batches = tuple(self.batches)
        super().freeze()
