"""The exchanges around compute sets: those of equal structure are costed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tilescope.engine.compiler.addresses import Addresses
from tilescope.engine.compiler.exchange.exchange import accessed, exchange_of
from tilescope.engine.compiler.exchange.transfer import Transfer
from tilescope.engine.graph import ComputeSet, Regions, Variable
from tilescope.engine.graph.identity.array_digests import ArrayDigests
from tilescope.engine.machine import Machine

__all__ = ["Around", "CostStore", "Exchanges"]

#: Length of the digest of a structure.
_STRUCTURE_BYTES = 16


class CostStore(Protocol):
    """A store of the costs of phases that outlives the process."""

    def find_cost(self, key: bytes) -> Any:
        """Return the costs of a phase, as they were kept; None if there are none.

        Parameters
        ----------
        key
            Digest of all that decides them.
        """

    def keep_cost(self, key: bytes, cost: object) -> None:
        """Keep the costs of a phase: records that the compiler's executables consist of."""


@dataclass(frozen=True)
class Around:
    """The exchanges before and after a compute set; None where nothing moves."""

    before: Transfer | None
    after: Transfer | None


class Exchanges:
    """Costs the exchanges around compute sets of graphs for one machine.

    Parameters
    ----------
    machine
        Source of the rates and the fixed costs.

    Attributes
    ----------
    digests
        Of the arrays of vertices and variables, by which exchanges are compared.
    store
        What other compilations for the machine costed; None for nothing.

    Notes
    -----
    What moves depends on the regions of vertices, on their tiles and on the tile mappings of the
    variables. The variables' order counts as well, for elements are sent in their order, and so
    does from which one to the next a run may cross.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.digests = ArrayDigests()
        self.store: CostStore | None = None
        #: By structure, on variables that are numbered in their order; None where nothing moves.
        self._known: dict[bytes, Transfer | None] = {}

    def around(self, compute_set: ComputeSet) -> Around:
        """Return the exchanges around a compute set."""
        before, after = (self._transfer(compute_set, is_input) for is_input in (True, False))
        return Around(before, after)

    def _transfer(self, compute_set: ComputeSet, is_input: bool) -> Transfer | None:
        """Return the exchange before a compute set or after it."""
        regions = [(tile, r) for _, tile, r in accessed([compute_set], is_input=is_input)]
        on = {r.variable for _, r in regions}
        variables = sorted(on, key=lambda variable: variable.variable_id)
        structure = self._structure(regions, variables, is_input)
        if structure not in self._known:
            self._known[structure] = self._stored(structure, compute_set, variables, is_input)
        transfer = self._known[structure]
        ids = np.array([variable.variable_id for variable in variables], np.int64)
        return None if transfer is None else transfer.on(ids)

    def _stored(
        self, structure: bytes, compute_set: ComputeSet, variables: list[Variable], is_input: bool
    ) -> Transfer | None:
        """Return an exchange from the store, or cost it and keep it there."""
        stored = None if self.store is None else self.store.find_cost(structure)
        if stored is not None:
            (transfer,) = stored
            assert transfer is None or isinstance(transfer, Transfer)
            return transfer
        exchange = exchange_of([compute_set], Addresses(variables), is_input=is_input)
        transfer = Transfer.of(exchange, self.machine, is_input=is_input)
        if self.store is not None:
            self.store.keep_cost(structure, (transfer,))
        return transfer

    def _structure(
        self,
        regions: Sequence[tuple[NDArray[np.int32], Regions]],
        variables: list[Variable],
        is_input: bool,
    ) -> bytes:
        """Return a digest of all that decides what moves and how long it takes."""
        digest = blake2b(b"in" if is_input else b"out", digest_size=_STRUCTURE_BYTES)
        numbers = {variable: number for number, variable in enumerate(variables)}
        for tile, r in regions:
            digest.update(numbers[r.variable].to_bytes(4, "little"))
            digest.update(self.digests.of(tile) + self.digests.of_all(r.arrays))
        for before, variable in zip([None, *variables], variables, strict=False):
            crosses = before is not None and _run_may_cross(before, variable, is_input)
            description = f"{variable.dtype.n_bytes} {variable.n_elements} {crosses}"
            digest.update(description.encode() + self.digests.of(variable.map_start))
            digest.update(self.digests.of(variable.map_tile))
        return digest.digest()


def _run_may_cross(before: Variable, after: Variable, is_input: bool) -> bool:
    """Return whether a tile may send the end of a variable and the begin of another in one run."""
    if after.variable_id != before.variable_id + 1:
        return False
    # Inputs are sent by their owners, outputs by any tile.
    return not is_input or bool(before.map_tile[-1] == after.map_tile[0])
