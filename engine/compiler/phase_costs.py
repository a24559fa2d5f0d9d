"""The costs of the phases of compute sets: those of equal structure are computed once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.cycles.cycles import compute_cost
from tilescope.engine.compiler.exchange.exchanges import Around, Exchanges
from tilescope.engine.compiler.executable.codelet_place import place_of
from tilescope.engine.compiler.executable.executable import VertexUse
from tilescope.engine.compiler.executable.step_cost import StepCost
from tilescope.engine.errors import BadExecutable
from tilescope.engine.graph import ComputeSet
from tilescope.engine.graph.vertex.codelet import Codelet
from tilescope.engine.machine import Machine

__all__ = ["PhaseCosts"]

_DIGEST_BYTES = 16


class PhaseCosts:
    """Costs the compute phases and the exchanges of graphs for one machine.

    Parameters
    ----------
    machine
        Source of the rates and the fixed costs.

    Attributes
    ----------
    exchanges
        The exchanges around compute sets, and the digests of arrays by which both are compared.

    Notes
    -----
    Costs are taken from the store of the exchanges, and kept there, if another process finds the
    same codelets.

    A cycle law knows the shapes of its vertices, not where they lie: compute sets whose batches
    have the same codelets, tiles, sizes, strides, types and scalars cost the same.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.exchanges = Exchanges(machine)
        self._compute: dict[Hashable, tuple[StepCost, list[VertexUse]]] = {}

    def around(self, compute_set: ComputeSet) -> Around:
        """Return the exchanges around a compute set."""
        return self.exchanges.around(compute_set)

    def compute(
        self, compute_set: ComputeSet, slow_tiles: Sequence[NDArray[np.int64]] = ()
    ) -> tuple[StepCost, list[VertexUse]]:
        """Return the static cost of a compute set, and how it uses its codelets.

        Parameters
        ----------
        compute_set
            The compute set to cost.
        slow_tiles
            Per batch, the tiles on which vertices take their slow path: ndarray of int64; empty
            where no batch has any.

        Raises
        ------
        BadGraph
            When a cycle law does not return valid cycle counts.
        """
        key = *self._shapes(compute_set), *(tiles.tobytes() for tiles in slow_tiles)
        if key not in self._compute:
            self._compute[key] = self._stored(key, compute_set, slow_tiles)
        cost, uses = self._compute[key]
        number = compute_set.compute_set_id
        return cost, [use.of(number) for use in uses]

    def _stored(
        self,
        key: tuple[Hashable, ...],
        compute_set: ComputeSet,
        slow_tiles: Sequence[NDArray[np.int64]],
    ) -> tuple[StepCost, list[VertexUse]]:
        """Return the costs of a compute phase from the store, or compute and keep them there."""
        store = self.exchanges.store
        digest = None if store is None else _digest(key)
        if store is None or digest is None:
            return compute_cost(compute_set, self.machine, slow_tiles)
        stored = store.find_cost(digest)
        if stored is None:
            stored = compute_cost(compute_set, self.machine, slow_tiles)
            store.keep_cost(digest, stored)
        cost, uses = stored
        return cost, uses

    def _shapes(self, compute_set: ComputeSet) -> Iterator[Hashable]:
        """Yield all that decides the cost of a compute phase."""
        digests = self.exchanges.digests
        digest = digests.of
        for batch in compute_set.batches:
            yield batch.codelet
            yield digest(batch.tile)
            for name, regions in batch.fields.items():
                yield name
                yield regions.variable.dtype.name
                yield digests.of_all(regions.arrays[1:])
            for name, column in batch.scalars.items():
                yield name
                yield digest(column)


def _digest(key: tuple[Hashable, ...]) -> bytes | None:
    """Return a digest of what decides a compute phase; None if a codelet has none."""
    try:
        parts = [place_of(part).digest if isinstance(part, Codelet) else part for part in key]
    except BadExecutable:
        return None
    return blake2b(repr(("compute", parts)).encode(), digest_size=_DIGEST_BYTES).digest()
