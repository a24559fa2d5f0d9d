"""Values of anchors over the micro-batches of a step, as their return types ask."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from popart.data_flow import DataFlow
from popart.enums import AnchorReturnTypeId

__all__ = ["AnchorValues"]

Array = NDArray[Any]


class AnchorValues:
    """Chooses what a step returns.

    Parameters
    ----------
    flow
        Batches of a step, and anchors.
    n_rounds
        Micro-batches of a batch.
    """

    def __init__(self, flow: DataFlow, n_rounds: int) -> None:
        self._flow, self._n_rounds = flow, n_rounds
        self._sums: dict[str, Array] = {}

    def taken(self, anchor: str, batch: int, values: Array) -> list[Array]:
        """Return what is written of the values of a batch's micro-batches.

        Parameters
        ----------
        anchor
            Its name.
        batch
            Number of the batch, from 0.
        values
            With a dimension of micro-batches in front.
        """
        kind = self._flow.art(anchor)
        match kind.id():
            case AnchorReturnTypeId.All:
                return list(values)
            case AnchorReturnTypeId.EveryN:  # of micro-batches
                first = batch * self._n_rounds + 1
                return [v for n, v in enumerate(values, first) if n % kind.rp() == 0]
            case AnchorReturnTypeId.Final:
                return [values[-1]] if batch + 1 == self._flow.batchesPerStep() else []
        total = values.sum(axis=0, dtype=values.dtype)
        known = self._sums.get(anchor)
        self._sums[anchor] = total if known is None else known + total
        return []

    def sums(self) -> list[tuple[str, Array]]:
        """Return the sums of anchors over all batches."""
        return list(self._sums.items())
