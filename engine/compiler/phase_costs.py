"""The costs of the phases of compute sets: those of equal structure are computed once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.cycles.cycles import compute_cost
from tilescope.engine.compiler.exchange.exchanges import Around, Exchanges
from tilescope.engine.compiler.executable.executable import VertexUse
from tilescope.engine.compiler.executable.step_cost import StepCost
from tilescope.engine.graph import ComputeSet
from tilescope.engine.machine import Machine

__all__ = ["PhaseCosts"]


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
            self._compute[key] = compute_cost(compute_set, self.machine, slow_tiles)
        cost, uses = self._compute[key]
        number = compute_set.compute_set_id
        return cost, [use.of(number) for use in uses]

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
